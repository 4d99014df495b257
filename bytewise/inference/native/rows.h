/* Functions of one row of floats, as docs/reference/exact-arithmetic.md writes them; included by each kernel, whose compiler flags and
 * target make vectors of them. No libm but sqrt, no fused multiply-add (-ffp-contract=off). `FN` is the kernel's target. */

/* Adding and subtracting 1.5 * 2^23 rounds |x| <= 2^22 to an integer, ties to even. */
#define ROUNDER 12582912.0f

FN static inline float round_even(float x)
{
    return (x + ROUNDER) - ROUNDER;
}

/* exp(t) for t <= 0: section 5. */
FN static inline float exponential(float t)
{
    const float bounded = t > -86.0f ? t : -86.0f;
    const float n = round_even(bounded * 0x1.715476p+0f);
    const float r = (bounded - n * 0x1.63p-1f) - n * -0x1.bd0106p-13f;
    float p = r * (1.0f / 5040.0f);
    p = (p + 1.0f / 720.0f) * r;
    p = (p + 1.0f / 120.0f) * r;
    p = (p + 1.0f / 24.0f) * r;
    p = (p + 1.0f / 6.0f) * r;
    p = (p + 0.5f) * r;
    p = (p + 1.0f) * r;
    p = p + 1.0f;
    /* n is in [-124, 0], p in [0.7, 1.42]: adding to the exponent field multiplies by 2^n. */
    const float result = float_of(bits_of(p) + (int32_t)n * (1 << 23));
    return t >= -86.0f ? result : 0.0f;
}

/* E of a row: magnitudes of floats are ordered as their bits, and a NaN is above all of them. */
FN static int32_t exponent_of(const float *x, int64_t width)
{
    int32_t largest = 0;
    for (int64_t i = 0; i < width; i++) {
        const int32_t bits = bits_of(x[i]) & 0x7fffffff;
        largest = bits > largest ? bits : largest;
    }
    return largest >> 23 < LEAST_EXPONENT ? LEAST_EXPONENT : largest >> 23;
}

FN static int32_t quantise(const float *x, int64_t width, int16_t *integers, int64_t padded_width)
{
    const int32_t exponent = exponent_of(x, width);
    const float inverse = float_of((253 + ACTIVATION_BITS - exponent) << 23);
    const float limit = (1 << ACTIVATION_BITS) - 1;
    if (exponent == NOT_FINITE)
        width = 0;
    for (int64_t i = 0; i < width; i++) {
        float v = x[i] * inverse;
        v = v > limit ? limit : v;
        v = v < -limit ? -limit : v;
        integers[i] = (int16_t)(int32_t)round_even(v);
    }
    for (int64_t i = width; i < padded_width; i++)
        integers[i] = 0;
    return exponent;
}

FN static void normalise(const float *x, const float *weight, float epsilon, int64_t width, int16_t *integers, float *y)
{
    const float scale = scale_of(quantise(x, width, integers, width), ACTIVATION_BITS);
    int64_t squares = 0;
    for (int64_t i = 0; i < width; i++) {
        const int32_t square = (int32_t)integers[i] * integers[i];
        squares += square;
    }
    const float mean = (float)((double)squares / (double)width);
    const float variance = mean * (scale * scale) + epsilon;
    const float divisor = (float)__builtin_sqrt((double)variance);
    for (int64_t i = 0; i < width; i++)
        y[i] = (x[i] / divisor) * weight[i];
}

FN static void gate(const float *gates, float *y, int64_t width)
{
    for (int64_t i = 0; i < width; i++) {
        const float x = gates[i];
        const float e = exponential(-float_of(bits_of(x) & 0x7fffffff));
        const float sigma = (x >= 0.0f ? 1.0f : e) / (e + 1.0f);
        y[i] = (x * sigma) * y[i];
    }
}

FN static void accumulate(const int32_t sums[PANEL], double factor, double total[PANEL])
{
    for (int i = 0; i < PANEL; i++)
        total[i] += factor * (double)sums[i];
}

FN static inline void output(float sum, float scale, float weight_scale, const float *bias, int add, float *out)
{
    float y = (sum * scale) * weight_scale;
    if (bias)
        y = y + *bias;
    *out = add ? *out + y : y;
}

/* Most calls are for a panel without a bias: a loop of known length without branches. Either type of a sum is rounded once. */
#define OUTPUTS(name, type)                                                                                                    \
    FN static void name(const type *restrict sums, int64_t count, float scale, const float *restrict scales,                   \
                        const float *restrict bias, int add, float *restrict out)                                              \
    {                                                                                                                          \
        if (count == PANEL && !bias && add)                                                                                    \
            for (int i = 0; i < PANEL; i++)                                                                                    \
                output((float)sums[i], scale, scales[i], NULL, 1, out + i);                                                    \
        else if (count == PANEL && !bias)                                                                                      \
            for (int i = 0; i < PANEL; i++)                                                                                    \
                output((float)sums[i], scale, scales[i], NULL, 0, out + i);                                                    \
        else                                                                                                                   \
            for (int64_t i = 0; i < count; i++)                                                                                \
                output((float)sums[i], scale, scales[i], bias ? bias + i : NULL, add, out + i);                                \
    }

OUTPUTS(outputs, double)
OUTPUTS(outputs_of_whole, int32_t)

/* Bits of a float that is no NaN, those of negative numbers turned: ordered as integers. */
FN static inline int32_t key_of(float x)
{
    const int32_t bits = bits_of(x);
    return bits ^ ((bits >> 31) & 0x7fffffff);
}

FN static void best(const float *logits, int64_t count, int32_t first, Best *best)
{
    int32_t key = best->key, loudest = best->loudest;
    for (int64_t i = 0; i < count; i++) {
        const int32_t here = key_of(logits[i] + 0.0f), magnitude = bits_of(logits[i]) & 0x7fffffff;
        key = here > key ? here : key;
        loudest = magnitude > loudest ? magnitude : loudest;
    }
    best->loudest = loudest;
    if (key == best->key)
        return;
    best->key = key;
    for (int64_t i = count - 1; i >= 0; i--)
        if (key_of(logits[i] + 0.0f) == key)
            best->token = first + (int32_t)i;
}

FN static void rotate(const float *cos, const float *sin, int64_t half, float *x)
{
    float *second = x + half;
    for (int64_t i = 0; i < half; i++) {
        const float a = x[i], b = second[i];
        x[i] = a * cos[i] + (-b) * sin[i];
        second[i] = b * cos[i] + a * sin[i];
    }
}

FN static void split(const int16_t *integers, int64_t width, int16_t *high, int16_t *low)
{
    for (int64_t i = 0; i < width; i++) {
        high[i] = (int16_t)(integers[i] >> LIMB_BITS);
        low[i] = (int16_t)(integers[i] & ((1 << LIMB_BITS) - 1));
    }
}

FN static void scores(const int32_t high[PANEL], const int32_t low[PANEL], float factor, const float *key_scales, float *out)
{
    for (int i = 0; i < PANEL; i++) {
        const double sum = (double)high[i] * (1 << LIMB_BITS) + (double)low[i];
        out[i] = ((float)sum * factor) * key_scales[i];
    }
}

/* Largest of floats without NaN. */
FN static float largest_of(const float *x, int64_t count)
{
    int32_t largest = INT32_MIN;
    for (int64_t i = 0; i < count; i++) {
        const int32_t key = key_of(x[i]);
        largest = key > largest ? key : largest;
    }
    return float_of(largest ^ ((largest >> 31) & 0x7fffffff));
}

FN static Softmax softmax(float *x, const float *value_scales, int64_t count, int16_t *high, int16_t *low)
{
    const float largest = largest_of(x, count);
    int64_t total = 0;
    int32_t top = 0;
    for (int64_t i = 0; i < count; i++)
        x[i] = exponential(x[i] - largest);
    for (int64_t i = 0; i < count; i++) {
        /* From 2^23 on a float32 is an integer; below, adding and subtracting 2^23 rounds what is not negative. */
        const float fixed = x[i] * 0x1p30f, rounded = (fixed + 0x1p23f) - 0x1p23f;
        const int32_t integer = (int32_t)(fixed < 0x1p23f ? rounded : fixed);
        total += integer;
    }
    for (int64_t i = 0; i < count; i++) {
        x[i] = x[i] * value_scales[i];
        const int32_t bits = bits_of(x[i]);
        top = bits > top ? bits : top;
    }
    const int32_t exponent = top >> 23 < 64 ? 64 : top >> 23;
    const float inverse = float_of((253 + PROBABILITY_BITS - exponent) << 23);
    const float limit = (1 << PROBABILITY_BITS) - 1;
    for (int64_t i = 0; i < count; i++) {
        const float v = x[i] * inverse;
        const int32_t weight = (int32_t)round_even(v > limit ? limit : v);
        high[i] = (int16_t)(weight >> HALF_BITS);
        low[i] = (int16_t)(weight & ((1 << HALF_BITS) - 1));
    }
    return (Softmax){(float)total, exponent};
}

FN static void mix(const double *totals, int64_t width, float scale, float divisor, float *out)
{
    for (int64_t i = 0; i < width; i++)
        out[i] = ((float)totals[i] * scale) / divisor;
}
