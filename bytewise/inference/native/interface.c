/* Functions that Python calls; library.py declares the same. They check sizes again: a wrong size must not touch memory. */
#include "forward.h"
#include "limits.h"

#include <stdlib.h>

typedef struct {
    Model *model;
    Pool *pool;
    Buffers buffers;
} Engine;

enum { SCALAR, AVX2, AVX512 };

static const Kernel *kernel_of(int number)
{
    switch (number) {
    case SCALAR: return &native_kernel_scalar;
#if defined(__x86_64__)
    case AVX2: return __builtin_cpu_supports("avx2") ? &native_kernel_avx2 : NULL;
    case AVX512:
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                       __builtin_cpu_supports("avx512vnni")
                   ? &native_kernel_avx512
                   : NULL;
#endif
    default: return NULL;
    }
}

/* Returns the name of a kernel, or NULL if this processor cannot run it. */
EXPORT const char *native_kernel(int number)
{
    const Kernel *kernel = kernel_of(number);
    return kernel ? kernel->name : NULL;
}

/* Returns the SHA-256 of the sources from which this library was compiled. setup.py defines it. */
EXPORT const char *native_sources(void)
{
    return SOURCE_DIGEST;
}

EXPORT Pool *native_pool_open(int kernel, int threads)
{
    const Kernel *chosen = kernel_of(kernel);
    return chosen && threads >= 1 && threads <= MOST_THREADS ? pool_open(threads, chosen) : NULL;
}

EXPORT void native_pool_close(Pool *pool)
{
    pool_close(pool);
}

typedef struct {
    Rows rows;
    Target target;
} Product;

static void product_task(Worker *worker, void *argument)
{
    const Product *product = argument;
    multiply(worker, &product->rows, &product->target, 1);
}

/* sums[m][n] = values[m] . weight[n]; values are [rows][stride], zero from the depth to a multiple of EDGE. */
EXPORT int native_product(Pool *pool, const int16_t *values, int64_t rows, int64_t stride, const int8_t *weight, int64_t outputs,
                          int64_t depth, double *sums)
{
    if (rows < 1 || rows > MOST_TOKENS || outputs < 1 || outputs > MOST_OUTPUTS || depth < 1 || depth > MOST_DEPTH ||
        stride < padded(depth, EDGE))
        return FAILED_ARGUMENT;
    const Weight bound = {.high = weight, .outputs = outputs, .depth = depth};
    Product product = {{values, NULL, rows, stride}, {.weight = &bound, .sums = sums, .stride = outputs}};
    const int failed = pool_reserve(pool, panel_bytes(depth), 0);
    return failed ? failed : pool_run(pool, product_task, &product);
}

static int shape_ok(const Shape *shape)
{
    return in_range(shape->layers, 1, 1024) && in_range(shape->width, 2, MOST_DEPTH) &&
           in_range(shape->intermediate, 2, MOST_DEPTH) && in_range(shape->heads, 1, 1024) &&
           in_range(shape->key_value_heads, 1, shape->heads) && shape->heads % shape->key_value_heads == 0 &&
           in_range(shape->head_width, 2, MOST_HEAD_WIDTH) && shape->head_width % 2 == 0 &&
           shape->heads * shape->head_width <= MOST_DEPTH && in_range(shape->vocabulary, 1, MOST_OUTPUTS) &&
           in_range(shape->positions, 1, MOST_TOKENS + 1) && in_range(shape->embedding_type, 0, EMBEDDING_FLOAT16);
}

static int windows_ok(const int64_t *windows, int64_t layers)
{
    for (int64_t i = 0; i < layers; i++)
        if (!in_range(windows[i], 0, MOST_TOKENS))
            return 0;
    return 1;
}

EXPORT void native_engine_close(Engine *engine)
{
    if (engine->model)
        model_close(engine->model);
    buffers_free(&engine->buffers);
    free(engine);
}

/* Opens an engine on a pool, which must outlive it. Returns NULL if the shape or a window is invalid, or memory is short. */
EXPORT Engine *native_engine_open(Pool *pool, const Shape *shape, const int64_t *windows, float epsilon, float attention_scale)
{
    if (!shape_ok(shape) || !windows_ok(windows, shape->layers))
        return NULL;
    Engine *engine = calloc(1, sizeof *engine);
    if (!engine)
        return NULL;
    engine->pool = pool;
    engine->model = model_open(shape, windows, epsilon, attention_scale);
    if (engine->model)
        return engine;
    native_engine_close(engine);
    return NULL;
}

EXPORT int native_engine_bind(Engine *engine, int64_t layer, int64_t slot, const void *data, int64_t bytes)
{
    return model_bind(engine->model, layer, slot, data, bytes);
}

EXPORT int native_engine_ready(const Engine *engine)
{
    return model_ready(engine->model);
}

EXPORT Cache *native_cache_open(const Engine *engine, int64_t sequences, int64_t capacity)
{
    if (!in_range(sequences, 1, MOST_SEQUENCES) || !in_range(capacity, 1, MOST_TOKENS))
        return NULL;
    return cache_open(&engine->model->shape, sequences, capacity);
}

/* Bytes that native_cache_open would allocate. */
EXPORT int64_t native_cache_bytes(const Engine *engine, int64_t sequences, int64_t capacity)
{
    return cache_bytes(&engine->model->shape, sequences, capacity);
}

EXPORT void native_cache_close(Cache *cache)
{
    cache_close(cache);
}

static int call_ok(const Call *call)
{
    const Shape *shape = &call->model->shape;
    const Cache *cache = call->cache;
    if (!in_range(call->count, 1, MOST_TOKENS) || !in_range(call->kept, 0, call->count) ||
        cache->lines != shape->layers * cache->sequences * shape->key_value_heads || cache->width != padded(shape->head_width, PANEL))
        return 0;
    const int64_t slots = cache->capacity < shape->positions ? cache->capacity : shape->positions;
    for (int64_t i = 0; i < call->count; i++)
        if (!in_range(call->tokens[i], 0, shape->vocabulary - 1) || !in_range(call->sequences[i], 0, cache->sequences - 1) ||
            !in_range(call->positions[i], 0, slots - 1))
            return 0;
    for (int64_t i = 0; i < call->kept; i++)
        if (!in_range(call->keep[i], 0, call->count - 1))
            return 0;
    return 1;
}

/* Blocks of rows that attend together; returns the largest number of keys that a row sees. */
static int64_t make_blocks(Call *call)
{
    const int64_t most = block_tokens(&call->model->shape);
    Block *block = call->buffers->blocks;
    int64_t keys = 0;
    for (int64_t i = 0; i < call->count; i++) {
        const int follows = i > 0 && call->sequences[i] == call->sequences[i - 1] && call->positions[i] == call->positions[i - 1] + 1;
        if (follows && block->tokens < most)
            block->tokens++;
        else
            *(block = &call->buffers->blocks[call->block_count++]) = (Block){i, 1};
        keys = call->positions[i] >= keys ? call->positions[i] + 1 : keys;
    }
    return keys;
}

/* Runs `count` tokens at their positions. All earlier positions must be in the cache or in the call. `logits` may be NULL. */
EXPORT int native_forward(Engine *engine, Cache *cache, int64_t count, const int32_t *tokens, const int32_t *sequences,
                          const int32_t *positions, int64_t kept, const int32_t *keep, int16_t *head_rows, int32_t *head_exponents,
                          int32_t *best, float *logits)
{
    const Shape *shape = &engine->model->shape;
    Call call = {
        .model = engine->model, .cache = cache, .buffers = &engine->buffers, .count = count, .kept = kept, .tokens = tokens,
        .sequences = sequences, .positions = positions, .keep = keep, .head_rows = head_rows, .head_exponents = head_exponents,
        .best = best, .logits = logits,
    };
    if (model_ready(engine->model) || !call_ok(&call))
        return FAILED_ARGUMENT;
    if (buffers_reserve(&engine->buffers, shape, count, pool_threads(engine->pool)))
        return FAILED_MEMORY;
    const int64_t keys = make_blocks(&call), inner = shape->heads * shape->head_width;
    int64_t depth = shape->width > shape->intermediate ? shape->width : shape->intermediate;
    depth = depth > inner ? depth : inner;
    if (pool_reserve(engine->pool, panel_bytes(depth), attention_bytes(shape, keys)))
        return FAILED_MEMORY;
    return pool_run(engine->pool, forward, &call);
}

/* Logits of one head row that `native_forward` gave. */
EXPORT int native_logits(Engine *engine, const int16_t *head_row, int32_t head_exponent, float *logits)
{
    const Shape *shape = &engine->model->shape;
    int32_t best;
    Call call = {
        .model = engine->model, .buffers = &engine->buffers, .kept = 1, .head_rows = (int16_t *)head_row,
        .head_exponents = &head_exponent, .best = &best, .logits = logits,
    };
    if (model_ready(engine->model) || !in_range(head_exponent, LEAST_EXPONENT, NOT_FINITE))
        return FAILED_ARGUMENT;
    if (buffers_reserve(&engine->buffers, shape, 1, pool_threads(engine->pool)) ||
        pool_reserve(engine->pool, panel_bytes(shape->width), 0))
        return FAILED_MEMORY;
    return pool_run(engine->pool, head_logits, &call);
}
