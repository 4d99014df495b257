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

static void task(Worker *worker, void *argument)
{
    const Work *work = argument;
    const Attended *call = work->call;
    const Shape *shape = &call->shape;
    const int64_t width = shape->head_width, group = shape->heads / shape->key_value_heads;
    const int64_t items = call->sequences * call->tokens * shape->key_value_heads;
    const Attention attention = {
        .shape = shape, .cache = call->cache, .layer = call->layer, .window = call->window, .scale = call->scale,
        .limbs = work->limbs, .factors = work->factors, .sequences = work->sequences, .positions = work->positions,
        .blocks = work->blocks, .block_count = work->block_count, .out = call->out, .stride = shape->heads * width,
    };
    for (int64_t item = pool_next(worker->pool); item < items; item = pool_next(worker->pool))
        attention_put(worker, &attention, item / shape->key_value_heads, item % shape->key_value_heads,
                      call->queries + item * group * width, call->keys + item * width, call->values + item * width);
    pool_sync(worker->pool);
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
