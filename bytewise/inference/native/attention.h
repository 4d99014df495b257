/* Attention of one layer over the cache: section 6 of docs/reference/exact-arithmetic.md. */
#ifndef NATIVE_ATTENTION_H
#define NATIVE_ATTENTION_H

#include "model.h"

#define MOST_HEAD_WIDTH 256

typedef struct {
    int64_t first, tokens; /* Rows of one sequence at consecutive positions. */
} Block;

typedef struct {
    const Shape *shape;
    Cache *cache;
    int64_t layer, window;
    float scale;
    int16_t *limbs; /* Queries [row][head][2][cache width]: high limb, low limb. */
    float *factors; /* scale * s of each query [row][head]. */
    const int32_t *sequences, *positions;
    const Block *blocks;
    int64_t block_count;
    float *out; /* [row][stride]: [head][head width] */
    ptrdiff_t stride;
} Attention;

/* Most tokens of a block. */
int64_t block_tokens(const Shape *shape);
/* Bytes of Worker.scratch that attention over that many keys needs. */
size_t attention_bytes(const Shape *shape, int64_t keys);
/* Call this for each row and key head before `attend`. It turns the queries of the key head, side by side, into limbs and
   factors, and stores key and value in the cache. Queries and key are rotated. */
void attention_put(const Worker *worker, const Attention *attention, int64_t row, int64_t key_head, const float *queries,
                   const float *key, const float *value);
/* All threads call this inside a task. It ends with a pool_sync. */
void attend(Worker *worker, const Attention *attention);

#endif
