/* The integer products of a kernel, written once over a handful of vector primitives that the including file defines:
 * FN (target), VECTOR and LANES (of int32), TILE (rows in registers), ZERO(), LOAD(p) of pairs of int16, PAIR(p) of one pair in
 * every lane, MADD(sum, a, b) adds the products of pairs of int16 to int32 lanes, ADD(a, b) of int32, WIDEN(p) 2 * LANES int8 to
 * int16, STORE(p, v). */

#define VECTORS (PANEL / LANES)
#define INLINE FN static inline __attribute__((always_inline))

INLINE void tile(const int rows, const int16_t *left, ptrdiff_t left_stride, const int16_t *right, ptrdiff_t right_stride,
                 int64_t pairs, int32_t out[][PANEL])
{
    VECTOR sums[TILE][VECTORS];
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int v = 0; v < VECTORS; v++)
            sums[r][v] = ZERO();
    for (int64_t i = 0; i < pairs; i++, left += 2, right += right_stride) {
        VECTOR columns[VECTORS];
#pragma GCC unroll 2
        for (int v = 0; v < VECTORS; v++)
            columns[v] = LOAD(right + 2 * LANES * v);
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++) {
            const VECTOR pair = PAIR(left + r * left_stride);
#pragma GCC unroll 2
            for (int v = 0; v < VECTORS; v++)
                sums[r][v] = MADD(sums[r][v], columns[v], pair);
        }
    }
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int v = 0; v < VECTORS; v++)
            STORE(out[r] + LANES * v, sums[r][v]);
}

#define CASE(n)                                                                     \
    case n:                                                                         \
        tile(n <= TILE ? n : TILE, left, left_stride, right, right_stride, pairs, out); \
        break;

FN static void products(int rows, const int16_t *left, ptrdiff_t left_stride, const int16_t *right, ptrdiff_t right_stride,
                        int64_t pairs, int32_t out[][PANEL])
{
    switch (rows) {
        CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6)
#if TILE > 6
        CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12)
#endif
    }
}

/* 512 steps of two products per lane fill an int32: EXACT_DEPTH. */
#define STEP (2 * LANES)
#define FLUSH (EXACT_DEPTH / 2 * STEP)
#define CHAINS 4      /* Sums that grow side by side, so that none waits for the last addition; added before they are full. */
#define AHEAD 1024    /* Bytes of weights asked for before they are needed. */

INLINE int64_t sum_of(VECTOR lanes)
{
    int32_t each[LANES];
    int64_t sum = 0;
    STORE(each, lanes);
    for (int i = 0; i < LANES; i++)
        sum += each[i];
    return sum;
}

/* The last products, which do not fill a vector. Reading a whole vector could pass the end of the weights, so copy them first. */
INLINE int64_t last_step(const int8_t *weight, int64_t left_over, const int16_t *values)
{
    int8_t copy[STEP] = {0};
    memcpy(copy, weight, (size_t)left_over);
    return sum_of(MADD(ZERO(), WIDEN(copy), LOAD(values)));
}

/* Steps from k to `stop`, no more than FLUSH. */
INLINE int64_t dot_steps(const int8_t *weight, int64_t k, int64_t stop, const int16_t *values)
{
    VECTOR chains[CHAINS];
#pragma GCC unroll 4
    for (int c = 0; c < CHAINS; c++)
        chains[c] = ZERO();
    for (; k + CHAINS * STEP <= stop; k += CHAINS * STEP) {
        __builtin_prefetch(weight + k + AHEAD);
        if (CHAINS * STEP > 64)
            __builtin_prefetch(weight + k + AHEAD + 64);
#pragma GCC unroll 4
        for (int c = 0; c < CHAINS; c++)
            chains[c] = MADD(chains[c], WIDEN(weight + k + c * STEP), LOAD(values + k + c * STEP));
    }
    for (; k < stop; k += STEP)
        chains[0] = MADD(chains[0], WIDEN(weight + k), LOAD(values + k));
    return sum_of(ADD(ADD(chains[0], chains[1]), ADD(chains[2], chains[3])));
}

FN static void dots(int rows, const int8_t *weight, int64_t depth, const int16_t *values, double *sums)
{
    const int64_t whole = depth / STEP * STEP;
    for (int r = 0; r < rows; r++, weight += depth) {
        int64_t sum = whole < depth ? last_step(weight + whole, depth - whole, values + whole) : 0;
        for (int64_t k = 0; k < whole; k += FLUSH)
            sum += dot_steps(weight, k, whole - k < FLUSH ? whole : k + FLUSH, values);
        sums[r] = (double)sum;
    }
}
