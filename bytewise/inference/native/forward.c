#include "forward.h"

#include <stdlib.h>
#include <string.h>

void buffers_free(Buffers *buffers)
{
    void *all[] = {buffers->residual, buffers->normed, buffers->projected, buffers->mixed, buffers->cos, buffers->sin,
                   buffers->factors, buffers->integers, buffers->limbs, buffers->exponents, buffers->blocks,
                   buffers->bests};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    *buffers = (Buffers){0};
}

/* Elements of a row, a whole and odd number of cache lines: rows of a tile then lie in different sets of the cache. */
static int64_t spread(int64_t count, size_t element)
{
    const int64_t line = 64 / (int64_t)element;
    return (padded(count, line) / line | 1) * line;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

int buffers_reserve(Buffers *buffers, const Shape *shape, int64_t rows, int threads)
{
    if (rows <= buffers->capacity)
        return 0;
    buffers_free(buffers);
    const int64_t inner = shape->heads * shape->head_width, outer = shape->key_value_heads * shape->head_width;
    Buffers made = {.width = spread(shape->width, sizeof(float)),
                    .wide = spread(larger(inner + 2 * outer, 2 * shape->intermediate), sizeof(float)),
                    .inner = spread(inner, sizeof(float))};
    const int64_t deepest = larger(larger(shape->width, inner), shape->intermediate);
    const size_t count = (size_t)rows, half = count * (size_t)shape->head_width / 2, limbs = (size_t)padded(shape->head_width, PANEL);
    made.residual = malloc(count * (size_t)made.width * sizeof(float));
    made.normed = malloc(count * (size_t)made.width * sizeof(float));
    made.projected = malloc(count * (size_t)made.wide * sizeof(float));
    made.mixed = malloc(count * (size_t)made.inner * sizeof(float));
    made.cos = malloc(half * sizeof(float));
    made.sin = malloc(half * sizeof(float));
    made.factors = malloc(count * (size_t)shape->heads * sizeof(float));
    made.integers = malloc(count * (size_t)spread(deepest, sizeof(int16_t)) * sizeof(int16_t));
    made.limbs = malloc(count * (size_t)shape->heads * 2 * limbs * sizeof(int16_t));
    made.exponents = malloc(count * sizeof(int32_t));
    made.blocks = malloc(count * sizeof(Block));
    made.bests = malloc(count * (size_t)threads * sizeof(Best));
    *buffers = made;
    if (!(made.residual && made.normed && made.projected && made.mixed && made.cos && made.sin && made.factors && made.integers &&
          made.limbs && made.exponents && made.blocks && made.bests)) {
        buffers_free(buffers);
        return FAILED_MEMORY;
    }
    buffers->capacity = rows;
    return 0;
}

static void embed(Worker *worker, const Call *call)
{
    const Shape *shape = &call->model->shape;
    const Buffers *buffers = call->buffers;
    for (int64_t row = pool_next(worker->pool); row < call->count; row = pool_next(worker->pool)) {
        const int64_t half = row * shape->head_width / 2;
        model_embed(call->model, call->tokens[row], buffers->residual + row * buffers->width);
        model_angles(call->model, call->positions[row], buffers->cos + half, buffers->sin + half);
    }
    pool_sync(worker->pool);
}

/* Integers of rows; `norm` is NULL or the weights of an RMSNorm that comes first. */
static void quantise_rows(Worker *worker, const Call *call, const float *x, ptrdiff_t stride, int64_t width, const float *norm)
{
    const Buffers *buffers = call->buffers;
    const int64_t spaced = spread(width, sizeof(int16_t));
    for (int64_t row = pool_next(worker->pool); row < call->count; row = pool_next(worker->pool)) {
        int16_t *integers = buffers->integers + row * spaced;
        const float *from = x + row * stride;
        if (norm) {
            float *normed = buffers->normed + row * buffers->width;
            worker->kernel->normalise(from, norm, call->model->epsilon, width, integers, normed);
            from = normed;
        }
        buffers->exponents[row] = worker->kernel->quantise(from, width, integers, padded(width, EDGE));
    }
    pool_sync(worker->pool);
}

static Rows rows_of(const Call *call, int64_t width)
{
    return (Rows){call->buffers->integers, call->buffers->exponents, call->count, spread(width, sizeof(int16_t))};
}

/* Norm (if the family has one) and rotation of one head, in place. */
static void turn_head(const Worker *worker, const Call *call, int64_t row, const float *norm, float *head)
{
    const int64_t width = call->model->shape.head_width, half = row * width / 2;
    int16_t integers[MOST_HEAD_WIDTH];
    if (norm)
        worker->kernel->normalise(head, norm, call->model->epsilon, width, integers, head);
    worker->kernel->rotate(call->buffers->cos + half, call->buffers->sin + half, width / 2, head);
}

/* Turns the queries of one key head and its key, and gives them and its value to attention. */
static void prepare(const Worker *worker, const Call *call, const Attention *attention, int64_t row, int64_t key_head)
{
    const Shape *shape = &call->model->shape;
    const float *const *norms = call->model->layers[attention->layer].norms;
    const int64_t width = shape->head_width, group = shape->heads / shape->key_value_heads;
    float *heads = call->buffers->projected + row * call->buffers->wide, *queries = heads + key_head * group * width;
    float *key = heads + (shape->heads + key_head) * width;
    for (int64_t i = 0; i < group; i++)
        turn_head(worker, call, row, norms[QUERY_NORM], queries + i * width);
    turn_head(worker, call, row, norms[KEY_NORM], key);
    attention_put(worker, attention, row, key_head, queries, key, key + shape->key_value_heads * width);
}

static void attention_block(Worker *worker, const Call *call, int64_t index)
{
    const Shape *shape = &call->model->shape;
    const Layer *layer = &call->model->layers[index];
    const Buffers *buffers = call->buffers;
    const int64_t inner = shape->heads * shape->head_width, stride = buffers->wide;
    quantise_rows(worker, call, buffers->residual, buffers->width, shape->width, layer->norms[INPUT_NORM]);
    const Rows rows = rows_of(call, shape->width);
    const Target projections[] = {
        {.weight = &layer->linears[QUERY], .out = buffers->projected, .stride = stride},
        {.weight = &layer->linears[KEY], .out = buffers->projected + inner, .stride = stride},
        {.weight = &layer->linears[VALUE], .out = buffers->projected + inner + layer->linears[KEY].outputs, .stride = stride},
    };
    multiply(worker, &rows, projections, 3);
    const Attention attention = {
        .shape = shape, .cache = call->cache, .layer = index, .window = layer->window, .scale = call->model->attention_scale,
        .limbs = buffers->limbs, .factors = buffers->factors, .sequences = call->sequences, .positions = call->positions,
        .blocks = buffers->blocks, .block_count = call->block_count, .out = buffers->mixed, .stride = buffers->inner,
    };
    const int64_t items = call->count * shape->key_value_heads;
    for (int64_t item = pool_next(worker->pool); item < items; item = pool_next(worker->pool))
        prepare(worker, call, &attention, item / shape->key_value_heads, item % shape->key_value_heads);
    pool_sync(worker->pool);
    attend(worker, &attention);
    quantise_rows(worker, call, buffers->mixed, buffers->inner, inner, NULL);
    const Rows mixed = rows_of(call, inner);
    const Target output = {.weight = &layer->linears[OUTPUT], .out = buffers->residual, .stride = buffers->width, .add = 1};
    multiply(worker, &mixed, &output, 1);
}

static void gated_unit(Worker *worker, const Call *call, const Layer *layer)
{
    const Shape *shape = &call->model->shape;
    const Buffers *buffers = call->buffers;
    const int64_t stride = buffers->wide, wide = shape->intermediate, spaced = spread(wide, sizeof(int16_t));
    quantise_rows(worker, call, buffers->residual, buffers->width, shape->width, layer->norms[UNIT_NORM]);
    const Rows rows = rows_of(call, shape->width);
    const Target projections[] = {
        {.weight = &layer->linears[GATE], .out = buffers->projected, .stride = stride},
        {.weight = &layer->linears[UP], .out = buffers->projected + wide, .stride = stride},
    };
    multiply(worker, &rows, projections, 2);
    for (int64_t row = pool_next(worker->pool); row < call->count; row = pool_next(worker->pool)) {
        float *gates = buffers->projected + row * stride;
        int16_t *integers = buffers->integers + row * spaced;
        worker->kernel->gate(gates, gates + wide, wide);
        buffers->exponents[row] = worker->kernel->quantise(gates + wide, wide, integers, padded(wide, EDGE));
    }
    pool_sync(worker->pool);
    const Rows gated = rows_of(call, wide);
    const Target output = {.weight = &layer->linears[DOWN], .out = buffers->residual, .stride = buffers->width, .add = 1};
    multiply(worker, &gated, &output, 1);
}

/* Products with the head, and of each row the largest over all threads. */
static void say(Worker *worker, const Call *call)
{
    const Shape *shape = &call->model->shape;
    const int threads = pool_threads(worker->pool);
    Best *bests = call->buffers->bests, *mine = bests + worker->index * call->kept;
    for (int64_t i = 0; i < call->kept; i++)
        mine[i] = NOTHING_SEEN;
    const Rows rows = {call->buffers->integers, call->head_exponents, call->kept, spread(shape->width, sizeof(int16_t))};
    const Target logits = {.weight = &call->model->head, .out = call->logits, .stride = shape->vocabulary, .best = bests};
    multiply(worker, &rows, &logits, 1);
    for (int64_t i = pool_next(worker->pool); i < call->kept; i = pool_next(worker->pool)) {
        Best best = bests[i];
        for (int thread = 1; thread < threads; thread++) {
            const Best other = bests[thread * call->kept + i];
            const int better = other.key > best.key || (other.key == best.key && other.token < best.token);
            const int32_t loudest = other.loudest > best.loudest ? other.loudest : best.loudest;
            best = better ? other : best;
            best.loudest = loudest;
        }
        call->best[i] = best.loudest < INFINITE && call->head_exponents[i] != NOT_FINITE ? best.token : -1;
    }
}

static void head(Worker *worker, const Call *call)
{
    const Shape *shape = &call->model->shape;
    const Buffers *buffers = call->buffers;
    const int64_t spaced = spread(shape->width, sizeof(int16_t));
    for (int64_t i = pool_next(worker->pool); i < call->kept; i = pool_next(worker->pool)) {
        float *normed = buffers->normed + i * buffers->width;
        int16_t *integers = buffers->integers + i * spaced;
        const float *row = buffers->residual + call->keep[i] * buffers->width;
        worker->kernel->normalise(row, call->model->norm, call->model->epsilon, shape->width, integers, normed);
        call->head_exponents[i] = worker->kernel->quantise(normed, shape->width, integers, padded(shape->width, EDGE));
        memcpy(call->head_rows + i * shape->width, integers, (size_t)shape->width * sizeof *integers);
    }
    pool_sync(worker->pool);
    if (call->kept)
        say(worker, call);
}

void head_logits(Worker *worker, void *argument)
{
    const Call *call = argument;
    const int64_t width = call->model->shape.width, spaced = spread(width, sizeof(int16_t));
    for (int64_t i = pool_next(worker->pool); i < call->kept; i = pool_next(worker->pool)) {
        int16_t *integers = call->buffers->integers + i * spaced;
        memcpy(integers, call->head_rows + i * width, (size_t)width * sizeof *integers);
        memset(integers + width, 0, (size_t)(padded(width, EDGE) - width) * sizeof *integers);
    }
    pool_sync(worker->pool);
    say(worker, call);
}

void forward(Worker *worker, void *argument)
{
    const Call *call = argument;
    embed(worker, call);
    for (int64_t layer = 0; layer < call->model->shape.layers; layer++) {
        attention_block(worker, call, layer);
        gated_unit(worker, call, &call->model->layers[layer]);
    }
    head(worker, call);
}
