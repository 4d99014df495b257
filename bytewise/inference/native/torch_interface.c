/* Functions that the torch path calls; library.py declares the same. They are operations of a model that transformers runs. */
#include "attended.h"
#include "limits.h"
#include "rowwise.h"

#include <stdlib.h>

#define MOST_ROWS ((int64_t)MOST_TOKENS * 1024) /* A head of a token may be a row. */

static int rows_ok(const FloatRows *rows)
{
    return in_range(rows->count, 1, MOST_ROWS) && in_range(rows->width, 1, MOST_DEPTH) && rows->stride >= rows->width;
}

typedef struct {
    const int8_t *high, *low; /* Of a linear layer, as in Weight. */
    const float *scale, *bias;
    int64_t outputs;
} Part;

typedef struct {
    int64_t depth;
    int count;
    Weight parts[MOST_PARTS];
} Layers;

/* Linear layers that read the same rows; the caller keeps their memory. NULL if a size is invalid, or memory is short. */
EXPORT Layers *native_layers_open(const Part *parts, int64_t count, int64_t depth)
{
    if (!in_range(count, 1, MOST_PARTS) || !in_range(depth, 1, MOST_DEPTH))
        return NULL;
    for (int64_t i = 0; i < count; i++)
        if (!in_range(parts[i].outputs, 1, MOST_OUTPUTS))
            return NULL;
    Layers *layers = malloc(sizeof *layers);
    if (!layers)
        return NULL;
    *layers = (Layers){.depth = depth, .count = (int)count};
    for (int64_t i = 0; i < count; i++) {
        const Part *part = &parts[i];
        const int whole = !part->low && product_is_whole(part->high, part->outputs, depth);
        layers->parts[i] = (Weight){part->high, part->low, part->scale, part->bias, part->outputs, depth, whole};
    }
    return layers;
}

EXPORT void native_layers_close(Layers *layers)
{
    free(layers);
}

/* Outputs of all layers side by side, of each of the float32 rows. */
EXPORT int native_linear(Pool *pool, const Layers *layers, const float *x, int64_t count, int64_t stride, int64_t depth, float *out)
{
    const FloatRows rows = {x, count, stride, depth};
    return rows_ok(&rows) && depth == layers->depth ? rowwise_linear(pool, &rows, layers->parts, layers->count, out) : FAILED_ARGUMENT;
}

EXPORT int native_norm(Pool *pool, const float *x, int64_t count, int64_t stride, int64_t width, const float *weight, float epsilon,
                       float *out)
{
    const FloatRows rows = {x, count, stride, width};
    return rows_ok(&rows) ? rowwise_norm(pool, &rows, weight, epsilon, out) : FAILED_ARGUMENT;
}

EXPORT int native_silu(Pool *pool, const float *x, int64_t count, int64_t stride, int64_t width, float *out)
{
    const FloatRows rows = {x, count, stride, width};
    return rows_ok(&rows) ? rowwise_silu(pool, &rows, out) : FAILED_ARGUMENT;
}

static int heads_ok(const Shape *shape)
{
    return in_range(shape->layers, 1, 1024) && in_range(shape->heads, 1, 1024) &&
           in_range(shape->key_value_heads, 1, shape->heads) && shape->heads % shape->key_value_heads == 0 &&
           in_range(shape->head_width, 2, MOST_HEAD_WIDTH) && shape->head_width % 2 == 0;
}

/* A cache without an engine, for `native_attended`. NULL if the shape is invalid, or memory is short. */
EXPORT Cache *native_heads_open(const Shape *shape, int64_t sequences, int64_t capacity)
{
    if (!heads_ok(shape) || !in_range(sequences, 1, MOST_SEQUENCES) || !in_range(capacity, 1, MOST_TOKENS))
        return NULL;
    return cache_open(shape, sequences, capacity);
}

EXPORT int64_t native_heads_bytes(const Shape *shape, int64_t sequences, int64_t capacity)
{
    return cache_bytes(shape, sequences, capacity);
}

EXPORT int native_attended(Pool *pool, const Attended *call)
{
    const Shape *shape = &call->shape;
    const Cache *cache = call->cache;
    if (!heads_ok(shape) || cache->lines != shape->layers * cache->sequences * shape->key_value_heads ||
        cache->width != padded(shape->head_width, PANEL) || !in_range(call->layer, 0, shape->layers - 1) ||
        !in_range(call->window, 0, MOST_TOKENS) || !in_range(call->sequences, 1, cache->sequences) ||
        !in_range(call->sequence, 0, cache->sequences - call->sequences) || !in_range(call->tokens, 1, cache->capacity) ||
        !in_range(call->position, 0, cache->capacity - call->tokens))
        return FAILED_ARGUMENT;
    return attended(pool, call);
}
