#include "rowwise.h"

#include <stdlib.h>

typedef struct {
    const FloatRows *rows;
    const Target *parts; /* Of linear layers, with the memory of the quantised rows. */
    int part_count;
    int16_t *integers;
    int32_t *exponents;
    const float *weight; /* Of a norm. */
    float epsilon;
    float *out;
} Operation;

static const float *row_of(const FloatRows *rows, int64_t row)
{
    return rows->values + row * rows->stride;
}

/* Integers of a row: a whole and odd number of cache lines, so that rows of a tile lie in different sets of the cache. */
static int64_t spaced(int64_t width)
{
    return (padded(width, EDGE) / EDGE | 1) * EDGE;
}

static void linear_task(Worker *worker, void *argument)
{
    const Operation *op = argument;
    const int64_t width = op->rows->width, stride = spaced(width), count = op->rows->count;
    for (int64_t row = pool_next(worker->pool); row < count; row = pool_next(worker->pool))
        op->exponents[row] =
            worker->kernel->quantise(row_of(op->rows, row), width, op->integers + row * stride, padded(width, EDGE));
    pool_sync(worker->pool);
    const Rows rows = {op->integers, op->exponents, count, stride};
    multiply(worker, &rows, op->parts, op->part_count);
}

static void norm_task(Worker *worker, void *argument)
{
    const Operation *op = argument;
    const int64_t width = op->rows->width;
    for (int64_t row = pool_next(worker->pool); row < op->rows->count; row = pool_next(worker->pool))
        worker->kernel->normalise(row_of(op->rows, row), op->weight, op->epsilon, width, op->integers + row * width,
                                  op->out + row * width);
    pool_sync(worker->pool);
}

static void silu_task(Worker *worker, void *argument)
{
    const Operation *op = argument;
    const int64_t width = op->rows->width;
    for (int64_t row = pool_next(worker->pool); row < op->rows->count; row = pool_next(worker->pool)) {
        float *out = op->out + row * width;
        /* The kernel multiplies `out` by the silu, as a gated unit needs it. A product with 1 is exact. */
        for (int64_t i = 0; i < width; i++)
            out[i] = 1.0f;
        worker->kernel->gate(row_of(op->rows, row), out, width);
    }
    pool_sync(worker->pool);
}

int rowwise_linear(Pool *pool, const FloatRows *rows, const Weight *parts, int part_count, float *out)
{
    const size_t count = (size_t)rows->count;
    Target targets[MOST_PARTS];
    int64_t outputs = 0;
    for (int i = 0; i < part_count; i++) {
        targets[i] = (Target){.weight = &parts[i], .out = out + outputs};
        outputs += parts[i].outputs;
    }
    for (int i = 0; i < part_count; i++)
        targets[i].stride = outputs;
    Operation op = {.rows = rows, .parts = targets, .part_count = part_count};
    op.integers = malloc(count * (size_t)spaced(rows->width) * sizeof *op.integers);
    op.exponents = malloc(count * sizeof *op.exponents);
    int failed = op.integers && op.exponents ? pool_reserve(pool, panel_bytes(rows->width), 0) : FAILED_MEMORY;
    if (!failed)
        failed = pool_run(pool, linear_task, &op);
    free(op.integers);
    free(op.exponents);
    return failed;
}

int rowwise_norm(Pool *pool, const FloatRows *rows, const float *weight, float epsilon, float *out)
{
    Operation op = {.rows = rows, .weight = weight, .epsilon = epsilon, .out = out};
    op.integers = malloc((size_t)(rows->count * rows->width) * sizeof *op.integers);
    const int failed = op.integers ? pool_run(pool, norm_task, &op) : FAILED_MEMORY;
    free(op.integers);
    return failed;
}

int rowwise_silu(Pool *pool, const FloatRows *rows, float *out)
{
    Operation op = {.rows = rows, .out = out};
    return pool_run(pool, silu_task, &op);
}
