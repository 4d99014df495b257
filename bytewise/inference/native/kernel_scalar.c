/* Plain C: for processors without a kernel of their own, and as the second opinion of the others. */
#include "kernel.h"

#include <string.h>

#define FN
#define LANES 16
#define TILE 2

typedef struct {
    int32_t lane[LANES];
} Vector;

typedef struct {
    int16_t lane[2 * LANES];
} Halves;

static inline Vector zero(void)
{
    return (Vector){{0}};
}

/* A vector of pairs of int16 is kept in the same 64 bytes as one of int32. */
static inline Vector load(const int16_t *p)
{
    Vector v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline Vector every_pair(const int16_t *p)
{
    Halves v;
    for (int i = 0; i < 2 * LANES; i++)
        v.lane[i] = p[i % 2];
    return load(v.lane);
}

static inline Vector madd(Vector sum, Vector a, Vector b)
{
    Halves left, right;
    memcpy(&left, &a, sizeof left);
    memcpy(&right, &b, sizeof right);
    for (int i = 0; i < LANES; i++)
        sum.lane[i] += left.lane[2 * i] * right.lane[2 * i] + left.lane[2 * i + 1] * right.lane[2 * i + 1];
    return sum;
}

static inline Vector add(Vector a, Vector b)
{
    for (int i = 0; i < LANES; i++)
        a.lane[i] += b.lane[i];
    return a;
}

static inline Vector widen(const int8_t *p)
{
    Halves v;
    for (int i = 0; i < 2 * LANES; i++)
        v.lane[i] = p[i];
    return load(v.lane);
}

#define VECTOR Vector
#define ZERO() zero()
#define LOAD(p) load(p)
#define PAIR(p) every_pair(p)
#define MADD(sum, a, b) madd(sum, a, b)
#define ADD(a, b) add(a, b)
#define WIDEN(p) widen(p)
#define STORE(p, v) memcpy(p, (v).lane, sizeof (v).lane)

#include "rows.h"
#include "tile.h"

static void pack(const int8_t *const rows[PANEL], int64_t depth, int16_t *panel)
{
    for (int64_t k = 0; k < padded(depth, 2); k++)
        for (int r = 0; r < PANEL; r++)
            panel[k / 2 * 2 * PANEL + 2 * r + k % 2] = k < depth ? rows[r][k] : 0;
}

const Kernel native_kernel_scalar = {
    "scalar", TILE, products, dots, pack, accumulate, quantise, normalise, gate, outputs,
    outputs_of_whole, best, rotate, split, scores, softmax, mix,
};
