/* AVX-512 VNNI: vpdpwssd multiplies and adds pairs of int16 in one instruction. It does as many products per cycle as vpdpbusd
 * on two limbs of 8 bits, and needs neither the limbs nor their correction. */
#include "kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#define FN __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))
#define LANES 16
#define TILE 12
#define VECTOR __m512i
#define ZERO() _mm512_setzero_si512()
#define LOAD(p) _mm512_loadu_si512(p)
#define PAIR(p) _mm512_set1_epi32(pair_at(p))
#define MADD(sum, a, b) _mm512_dpwssd_epi32(sum, a, b)
#define ADD(a, b) _mm512_add_epi32(a, b)
#define WIDEN(p) _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)(p)))
#define STORE(p, v) _mm512_storeu_si512(p, v)

FN static inline int32_t pair_at(const int16_t *p)
{
    int32_t both;
    memcpy(&both, p, sizeof both);
    return both;
}

#include "pack_x86.h"
#include "rows.h"
#include "tile.h"

const Kernel native_kernel_avx512 = {
    "avx512", TILE, products, dots, pack, accumulate, quantise, normalise, gate, outputs,
    outputs_of_whole, best, rotate, split, scores, softmax, mix,
};
#endif
