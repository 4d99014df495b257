/* AVX2: vpmaddwd on int16 activations and widened weights. */
#include "kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#define FN __attribute__((target("avx2")))
#define LANES 8
#define TILE 6 /* 12 sums, 2 columns, 1 pair, 1 product: 16 registers. */
#define VECTOR __m256i
#define ZERO() _mm256_setzero_si256()
#define LOAD(p) _mm256_loadu_si256((const __m256i *)(p))
#define PAIR(p) _mm256_set1_epi32(pair_at(p))
#define MADD(sum, a, b) _mm256_add_epi32(sum, _mm256_madd_epi16(a, b))
#define ADD(a, b) _mm256_add_epi32(a, b)
#define WIDEN(p) _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(p)))
#define STORE(p, v) _mm256_storeu_si256((__m256i *)(p), v)

FN static inline int32_t pair_at(const int16_t *p)
{
    int32_t both;
    memcpy(&both, p, sizeof both);
    return both;
}

#include "pack_x86.h"
#include "rows.h"
#include "tile.h"

const Kernel native_kernel_avx2 = {
    "avx2", TILE, products, dots, pack, accumulate, quantise, normalise, gate, outputs,
    outputs_of_whole, best, rotate, split, scores, softmax, mix,
};
#endif
