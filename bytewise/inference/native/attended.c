#include "attended.h"

#include <stdlib.h>

typedef struct {
    const Attended *call;
    int16_t *limbs;
    float *factors;
    int32_t *sequences, *positions;
    Block *blocks;
    int64_t block_count;
} Work;

/* Integers of one head's row; returns their scale. */
static float quantise_head(const Worker *worker, const float *x, int64_t width, int16_t *integers)
{
    return scale_of(worker->kernel->quantise(x, width, integers, padded(width, PANEL)), ACTIVATION_BITS);
}

/* Queries of one key head become limbs; its key and value go to the cache. */
static void prepare(const Worker *worker, const Work *work, int64_t row, int64_t key_head)
{
    const Attended *call = work->call;
    const Shape *shape = &call->shape;
    const int64_t width = shape->head_width, wide = padded(width, PANEL), group = shape->heads / shape->key_value_heads;
    int16_t integers[MOST_HEAD_WIDTH], values[MOST_HEAD_WIDTH];
    for (int64_t query = row * shape->heads + key_head * group; query < row * shape->heads + (key_head + 1) * group; query++) {
        work->factors[query] = call->scale * quantise_head(worker, call->queries + query * width, width, integers);
        int16_t *limbs = work->limbs + query * 2 * wide;
        worker->kernel->split(integers, wide, limbs, limbs + wide);
    }
    const int64_t at = (row * shape->key_value_heads + key_head) * width;
    const float key_scale = quantise_head(worker, call->keys + at, width, integers);
    const float value_scale = quantise_head(worker, call->values + at, width, values);
    const int64_t line = (call->layer * call->cache->sequences + work->sequences[row]) * shape->key_value_heads + key_head;
    cache_store(call->cache, line, work->positions[row], integers, key_scale, values, value_scale);
}

static void task(Worker *worker, void *argument)
{
    const Work *work = argument;
    const Attended *call = work->call;
    const Shape *shape = &call->shape;
    const int64_t items = call->sequences * call->tokens * shape->key_value_heads;
    for (int64_t item = pool_next(worker->pool); item < items; item = pool_next(worker->pool))
        prepare(worker, work, item / shape->key_value_heads, item % shape->key_value_heads);
    pool_sync(worker->pool);
    const Attention attention = {
        .shape = shape, .cache = call->cache, .layer = call->layer, .window = call->window, .limbs = work->limbs,
        .factors = work->factors, .sequences = work->sequences, .positions = work->positions, .blocks = work->blocks,
        .block_count = work->block_count, .out = call->out, .stride = shape->heads * shape->head_width,
    };
    attend(worker, &attention);
}

static void place_rows(Work *work)
{
    const Attended *call = work->call;
    const int64_t most = block_tokens(&call->shape);
    for (int64_t s = 0; s < call->sequences; s++)
        for (int64_t t = 0; t < call->tokens; t++) {
            const int64_t row = s * call->tokens + t;
            work->sequences[row] = (int32_t)(call->sequence + s);
            work->positions[row] = (int32_t)(call->position + t);
            if (t % most == 0)
                work->blocks[work->block_count++] = (Block){row, call->tokens - t < most ? call->tokens - t : most};
        }
}

int attended(Pool *pool, const Attended *call)
{
    const size_t rows = (size_t)(call->sequences * call->tokens), queries = rows * (size_t)call->shape.heads;
    Work work = {.call = call};
    work.limbs = malloc(queries * 2 * (size_t)padded(call->shape.head_width, PANEL) * sizeof *work.limbs);
    work.factors = malloc(queries * sizeof *work.factors);
    work.sequences = malloc(rows * sizeof *work.sequences);
    work.positions = malloc(rows * sizeof *work.positions);
    work.blocks = malloc(rows * sizeof *work.blocks);
    int failed = FAILED_MEMORY;
    if (work.limbs && work.factors && work.sequences && work.positions && work.blocks)
        failed = pool_reserve(pool, 0, attention_bytes(&call->shape, call->position + call->tokens));
    if (!failed) {
        place_rows(&work);
        failed = pool_run(pool, task, &work);
    }
    free(work.limbs);
    free(work.factors);
    free(work.sequences);
    free(work.positions);
    free(work.blocks);
    return failed;
}
