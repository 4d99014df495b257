/* One call of the whole model: tokens in, head rows and logits out. */
#ifndef NATIVE_FORWARD_H
#define NATIVE_FORWARD_H

#include "attention.h"

/* Everything between the layers, for `capacity` rows. */
typedef struct {
    int64_t capacity;
    int64_t width, wide, inner; /* Floats of a row of residual and normed, of projected, of mixed. */
    float *residual, *normed, *projected, *mixed, *cos, *sin, *factors;
    int16_t *integers, *limbs;
    int32_t *exponents;
    Block *blocks;
    Best *bests; /* [threads][rows] */
} Buffers;

typedef struct {
    const Model *model;
    Cache *cache;
    Buffers *buffers;
    int64_t count, block_count, kept;
    const int32_t *tokens, *sequences, *positions; /* [count] */
    const int32_t *keep;                           /* [kept] rows whose logits are wanted. */
    int16_t *head_rows;                            /* [kept][width] */
    int32_t *head_exponents;                       /* [kept] */
    int32_t *best;                                 /* [kept]: token of the largest logit; -1 if a logit or the row is not finite. */
    float *logits;                                 /* [kept][vocabulary], or NULL if only `best` is wanted. */
} Call;

/* Returns 0 or FAILED_MEMORY. */
int buffers_reserve(Buffers *buffers, const Shape *shape, int64_t rows, int threads);
void buffers_free(Buffers *buffers);
/* Tasks: `argument` is the Call. */
void forward(Worker *worker, void *argument);
/* Computes only the logits of `kept` given head rows, which is the last step of `forward`. */
void head_logits(Worker *worker, void *argument);

#endif
