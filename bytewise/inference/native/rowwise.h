/* Operations on rows of floats, each in one call. The torch path would need a dozen calls. */
#ifndef NATIVE_ROWWISE_H
#define NATIVE_ROWWISE_H

#include "product.h"

typedef struct {
    const float *values; /* [count][stride], of which `width` are the row. */
    int64_t count, stride, width;
} FloatRows;

#define MOST_PARTS 8

/* out[count][outputs of all parts] = linear layers of each row, one after the other: section 4 of docs/reference/exact-arithmetic.md. All have
 * the depth of the rows. 0, FAILED_MEMORY or FAILED_FORKED. */
int rowwise_linear(Pool *pool, const FloatRows *rows, const Weight *parts, int count, float *out);
/* out[count][width] = RMSNorm of each row: section 5. */
int rowwise_norm(Pool *pool, const FloatRows *rows, const float *weight, float epsilon, float *out);
/* out[count][width] = silu of each element. */
int rowwise_silu(Pool *pool, const FloatRows *rows, float *out);

#endif
