/* Exact products of rows of integers with weights, shared out among threads by panels of PANEL outputs. */
#ifndef NATIVE_PRODUCT_H
#define NATIVE_PRODUCT_H

#include "pool.h"

typedef struct {
    const int8_t *high;  /* [outputs, depth]: in place, in the file's memory. */
    const int8_t *low;   /* NULL, or the low limb: the weight is 256 * high + low. */
    const float *scale;  /* [outputs] */
    const float *bias;   /* [outputs] or NULL */
    int64_t outputs, depth;
    int whole;           /* Whether an int32 holds every sum of products with a row: product_is_whole of `high`, and no `low`. */
} Weight;

typedef struct {
    const int16_t *integers; /* [count, stride]; zeros from the depth on. */
    const int32_t *exponents; /* E of each row; NULL where only sums are wanted. */
    int64_t count;
    ptrdiff_t stride;
} Rows;

typedef struct {
    const Weight *weight;
    float *out;       /* [count, stride]: float32(sum) * s * scale (+ bias). */
    double *sums;     /* [count, stride] instead: the sums themselves. */
    ptrdiff_t stride;
    int add;          /* Adds to what `out` holds. */
    Best *best;       /* [threads, count], begun by each thread, or NULL: each row's largest; `out` may then be NULL. */
} Target;

int product_is_whole(const int8_t *weight, int64_t outputs, int64_t depth);
/* Bytes of Worker.panel that products of this depth need. */
size_t panel_bytes(int64_t depth);
/* All threads call this inside a task. It computes every target's product with the same rows, and ends with a pool_sync. */
void multiply(Worker *worker, const Rows *rows, const Target *targets, int count);

#endif
