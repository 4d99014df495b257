/* The integer products of a kernel, written once over a handful of vector primitives that the including file defines:
 * FN (target), VECTOR and LANES (of int32), TILE (rows in registers), ZERO(), LOAD(p) of pairs of int16, PAIR(p) of one pair in
 * every lane, MADD(sum, a, b) adds the products of pairs of int16 to int32 lanes, WIDEN(p) 2 * LANES int8 to int16, STORE(p, v). */

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

INLINE void add_lanes(VECTOR lanes, double *sum)
{
    int32_t each[LANES];
    STORE(each, lanes);
    for (int i = 0; i < LANES; i++)
        *sum += (double)each[i];
}

/* What does not fill a vector: the weights may end where their file ends, so they are copied before they are read. */
INLINE VECTOR last_step(const int8_t *weight, int64_t left_over, const int16_t *values)
{
    int8_t copy[STEP] = {0};
    memcpy(copy, weight, (size_t)left_over);
    return MADD(ZERO(), WIDEN(copy), LOAD(values));
}

INLINE void dot_rows(const int rows, const int8_t *weight, int64_t depth, const int16_t *values, double *sums)
{
    for (int r = 0; r < rows; r++)
        sums[r] = 0;
    int64_t k = 0;
    while (k + STEP <= depth) {
        const int64_t stop = depth - k > FLUSH ? k + FLUSH : k + (depth - k) / STEP * STEP;
        VECTOR lanes[4];
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++)
            lanes[r] = ZERO();
        for (; k < stop; k += STEP) {
            const VECTOR row = LOAD(values + k);
#pragma GCC unroll 4
            for (int r = 0; r < rows; r++) {
                /* The rows that come next are those that follow in memory. */
                __builtin_prefetch(weight + (r + rows) * depth + k);
                lanes[r] = MADD(lanes[r], WIDEN(weight + r * depth + k), row);
            }
        }
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++)
            add_lanes(lanes[r], &sums[r]);
    }
    for (int r = 0; r < rows && k < depth; r++)
        add_lanes(last_step(weight + r * depth + k, depth - k, values + k), &sums[r]);
}

FN static void dots(int rows, const int8_t *weight, int64_t depth, const int16_t *values, double *sums)
{
    for (; rows >= 4; rows -= 4, weight += 4 * depth, sums += 4)
        dot_rows(4, weight, depth, values, sums);
    for (; rows > 0; rows--, weight += depth, sums++)
        dot_rows(1, weight, depth, values, sums);
}
