/* Weight rows to panels of pairs, for x86 kernels: a transposition of 16-bit pairs in registers, then a sign extension. */

/* The 8 pairs of 16 rows, [row][pair] to [pair][row]: `out[2 * p]` rows 0 to 7 of pair p, `out[2 * p + 1]` rows 8 to 15. */
FN static inline __attribute__((always_inline)) void transpose(const __m128i in[16], __m128i out[16])
{
    __m128i two[16], four[16];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        two[2 * i] = _mm_unpacklo_epi16(in[2 * i], in[2 * i + 1]);
        two[2 * i + 1] = _mm_unpackhi_epi16(in[2 * i], in[2 * i + 1]);
    }
    /* four[4 * j + p / 2] holds pairs p, p + 1 of rows 4j to 4j + 3. */
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        four[4 * j] = _mm_unpacklo_epi32(two[4 * j], two[4 * j + 2]);
        four[4 * j + 1] = _mm_unpackhi_epi32(two[4 * j], two[4 * j + 2]);
        four[4 * j + 2] = _mm_unpacklo_epi32(two[4 * j + 1], two[4 * j + 3]);
        four[4 * j + 3] = _mm_unpackhi_epi32(two[4 * j + 1], two[4 * j + 3]);
    }
#pragma GCC unroll 4
    for (int p = 0; p < 4; p++) {
        out[4 * p] = _mm_unpacklo_epi64(four[p], four[4 + p]);
        out[4 * p + 1] = _mm_unpacklo_epi64(four[8 + p], four[12 + p]);
        out[4 * p + 2] = _mm_unpackhi_epi64(four[p], four[4 + p]);
        out[4 * p + 3] = _mm_unpackhi_epi64(four[8 + p], four[12 + p]);
    }
}

FN static void pack(const int8_t *const rows[PANEL], int64_t depth, int16_t *panel)
{
    int64_t k = 0;
    for (; k + 16 <= depth; k += 16) {
        __m128i in[16], out[16];
#pragma GCC unroll 16
        for (int r = 0; r < 16; r++) {
            in[r] = _mm_loadu_si128((const __m128i *)(rows[r] + k));
            /* The panel that comes next follows in memory. */
            __builtin_prefetch(rows[r] + PANEL * depth + k);
        }
        transpose(in, out);
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++)
            _mm256_storeu_si256((__m256i *)(panel + k * PANEL + 16 * i), _mm256_cvtepi8_epi16(out[i]));
    }
    for (; k < padded(depth, 2); k++)
        for (int r = 0; r < PANEL; r++)
            panel[k / 2 * 2 * PANEL + 2 * r + k % 2] = k < depth ? rows[r][k] : 0;
}
