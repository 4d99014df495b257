/* Functions of one instruction set. Every kernel gives the same bytes (docs/reference/exact-arithmetic.md). */
#ifndef NATIVE_KERNEL_H
#define NATIVE_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#define PANEL 16       /* Columns of a right-hand panel: weights' outputs, keys, or components of values. */
#define MOST_TILE 12   /* Rows of the largest tile of any kernel. */
#define EDGE 32        /* Rows of integers are padded with zeros to a multiple of this. */
#define EXACT_DEPTH 1024 /* Products of 16383 * 128 that an int32 holds: 2,147,352,576 < 2^31. */
#define EXACT_ROW 131079 /* Magnitudes of a row of weights whose products with 16383 an int32 holds, in any order. */
#define EXACT_KEYS 64    /* Products of 2047 * 16383 that an int32 holds: 2,146,304,064 < 2^31. */
#define ACTIVATION_BITS 14
#define PROBABILITY_BITS 22
#define HALF_BITS 11   /* An attention weight is 2048 * high + low. */
#define LIMB_BITS 7    /* A query component is 128 * high + low: with |high| <= 128, 256 products of 16383 stay below 2^31. */
#define NOT_FINITE 255
#define LEAST_EXPONENT 64 /* E of a row of zeros, and the least of any. */

/* The largest logit of a row that one thread has seen; of equal logits the first. */
typedef struct {
    int32_t key;     /* Bits of the logit in the order of integers, with -0 as +0. */
    int32_t token;   /* -1 before any was seen. */
    int32_t loudest; /* Largest bits of any magnitude: INFINITE and above if one is not finite. */
} Best;

#define NOTHING_SEEN ((Best){INT32_MIN, -1, 0})
#define INFINITE 0x7f800000

typedef struct {
    float total;      /* float32 of the sum of round(e * 2^30). */
    int32_t exponent; /* E of the attention weights. */
} Softmax;

typedef struct {
    const char *name;
    int tile; /* Most rows of one call of `products`. */

    /* out[r][c] = sum over i < 2 * pairs of left[r * left_stride + i] * right[(i / 2) * right_stride + 2 * c + i % 2], int32. */
    void (*products)(int rows, const int16_t *left, ptrdiff_t left_stride, const int16_t *right, ptrdiff_t right_stride,
                     int64_t pairs, int32_t out[][PANEL]);
    /* sums[r] = exact product of weight row r with `values`, which is padded to EDGE; rows follow each other. */
    void (*dots)(int rows, const int8_t *weight, int64_t depth, const int16_t *values, double *sums);
    /* Widens PANEL weight rows into pairs: panel[i / 2 * 2 * PANEL + 2 * c + i % 2]; an odd last pair ends in zero. */
    void (*pack)(const int8_t *const rows[PANEL], int64_t depth, int16_t *panel);
    /* total[c] += factor * sums[c], all integers below 2^53. */
    void (*accumulate)(const int32_t sums[PANEL], double factor, double total[PANEL]);

    /* Q(x, 14) of one row into `integers`, zeros up to `padded`; returns E. */
    int32_t (*quantise)(const float *x, int64_t width, int16_t *integers, int64_t padded);
    /* RMSNorm of one row; `integers` is scratch of `width`, y may be x. */
    void (*normalise)(const float *x, const float *weight, float epsilon, int64_t width, int16_t *integers, float *y);
    /* y = silu(gate) * y. */
    void (*gate)(const float *gate, float *y, int64_t width);
    /* out[c] = float32(sums[c]) * scale * scales[c] (+ bias[c]), then added to what is there if `add`. */
    void (*outputs)(const double *sums, int64_t count, float scale, const float *scales, const float *bias, int add, float *out);
    /* The same of sums that an int32 holds. */
    void (*outputs_of_whole)(const int32_t *sums, int64_t count, float scale, const float *scales, const float *bias, int add,
                             float *out);
    /* Takes `count` more logits into account, the first of them of token `first`; tokens only grow. */
    void (*best)(const float *logits, int64_t count, int32_t first, Best *best);
    /* Halves of a head turned by an angle each. */
    void (*rotate)(const float *cos, const float *sin, int64_t half, float *x);
    /* Limbs of integers of 15 bits: 128 * high + low. */
    void (*split)(const int16_t *integers, int64_t width, int16_t *high, int16_t *low);
    /* Scores of PANEL keys from the sums of both limbs. */
    void (*scores)(const int32_t high[PANEL], const int32_t low[PANEL], float factor, const float *key_scales, float *scores);
    /* Attention weights of `count` scores, times the scales of the values, as halves of 22-bit integers. */
    Softmax (*softmax)(float *scores, const float *value_scales, int64_t count, int16_t *high, int16_t *low);
    /* out = float32(totals) * scale / divisor. */
    void (*mix)(const double *totals, int64_t width, float scale, float divisor, float *out);
} Kernel;

extern const Kernel native_kernel_scalar;
#if defined(__x86_64__)
extern const Kernel native_kernel_avx2;
extern const Kernel native_kernel_avx512;
#endif

/* The float32 whose bits these are: a power of two if the low 23 are zero. */
static inline float float_of(int32_t bits)
{
    union {
        int32_t bits;
        float value;
    } both = {bits};
    return both.value;
}

static inline int32_t bits_of(float value)
{
    union {
        float value;
        int32_t bits;
    } both = {value};
    return both.bits;
}

/* Scale of integers with exponent E: 2^(E - 126 - bits), exactly. */
static inline float scale_of(int32_t exponent, int bits)
{
    return float_of((exponent + 1 - bits) << 23);
}

static inline int64_t padded(int64_t count, int64_t edge)
{
    return (count + edge - 1) / edge * edge;
}

#endif
