#include "product.h"

#include <string.h>

#define FEW_ROWS 3     /* Up to here weights are read row by row, at the speed of memory; above, panel by panel. */
#define MOST_PANELS 4  /* Panels that a thread takes at once: rows are read from the second cache once for all of them. */
#define SHARES 4       /* Items per thread at least, so that none waits long for the last. */
#define LIMB 256.0     /* Weight of the high limb. */

size_t panel_bytes(int64_t depth)
{
    return 2 * MOST_PANELS * PANEL * (size_t)padded(depth, 2) * sizeof(int16_t);
}

static void finish(const Worker *worker, const Rows *rows, const Target *target, int64_t row, int64_t first, int64_t count,
                   const double *sums)
{
    const Weight *weight = target->weight;
    const ptrdiff_t at = row * target->stride + first;
    float unkept[MOST_PANELS * PANEL];
    if (target->sums) {
        memcpy(target->sums + at, sums, (size_t)count * sizeof *sums);
        return;
    }
    const float scale = scale_of(rows->exponents[row], ACTIVATION_BITS);
    const float *bias = weight->bias ? weight->bias + first : NULL;
    float *out = target->out ? target->out + at : unkept;
    worker->kernel->outputs(sums, count, scale, weight->scale + first, bias, target->add, out);
    if (target->best)
        worker->kernel->best(out, count, (int32_t)first, &target->best[worker->index * rows->count + row]);
}

static void few_rows(const Worker *worker, const Rows *rows, const Target *target, int64_t first, int64_t count)
{
    const Kernel *kernel = worker->kernel;
    const Weight *weight = target->weight;
    double sums[MOST_PANELS * PANEL], low[MOST_PANELS * PANEL];
    for (int64_t row = 0; row < rows->count; row++) {
        const int16_t *integers = rows->integers + row * rows->stride;
        kernel->dots((int)count, weight->high + first * weight->depth, weight->depth, integers, sums);
        if (weight->low) {
            kernel->dots((int)count, weight->low + first * weight->depth, weight->depth, integers, low);
            for (int64_t i = 0; i < count; i++)
                sums[i] = LIMB * sums[i] + low[i];
        }
        finish(worker, rows, target, row, first, count, sums);
    }
}

/* Adds factor * (rows of a tile times a panel), in pieces so short that int32 holds their sums. */
static void add_panel(const Kernel *kernel, const Rows *rows, int64_t row, int count, const int16_t *panel, int64_t depth,
                      double factor, double totals[][PANEL])
{
    int32_t sums[MOST_TILE][PANEL];
    for (int64_t k = 0; k < depth; k += EXACT_DEPTH) {
        const int64_t piece = depth - k < EXACT_DEPTH ? depth - k : EXACT_DEPTH;
        const int16_t *left = rows->integers + row * rows->stride + k;
        kernel->products(count, left, rows->stride, panel + k * PANEL, 2 * PANEL, (piece + 1) / 2, sums);
        for (int i = 0; i < count; i++)
            kernel->accumulate(sums[i], factor, totals[i]);
    }
}

static void pack(const Kernel *kernel, const int8_t *weight, int64_t depth, int64_t first, int64_t count, int16_t *panel)
{
    const int8_t *rows[PANEL];
    /* Beyond the last output its row stands in: what it gives is not written. */
    for (int64_t i = 0; i < PANEL; i++)
        rows[i] = weight + (first + (i < count ? i : count - 1)) * depth;
    kernel->pack(rows, depth, panel);
}

static void pack_panels(const Worker *worker, const Weight *weight, int64_t first, int64_t count)
{
    const int64_t size = PANEL * padded(weight->depth, 2);
    for (int64_t i = 0; i < count; i += PANEL) {
        int16_t *panel = worker->panel + 2 * (i / PANEL) * size;
        const int64_t outputs = count - i < PANEL ? count - i : PANEL;
        pack(worker->kernel, weight->high, weight->depth, first + i, outputs, panel);
        if (weight->low)
            pack(worker->kernel, weight->low, weight->depth, first + i, outputs, panel + size);
    }
}

static void many_rows(const Worker *worker, const Rows *rows, const Target *target, int64_t first, int64_t count)
{
    const Kernel *kernel = worker->kernel;
    const Weight *weight = target->weight;
    const int64_t depth = weight->depth, size = PANEL * padded(depth, 2);
    pack_panels(worker, weight, first, count);
    /* Tiles as equal as can be: one of a single row would take as long as one of three. */
    const int64_t tiles = padded(rows->count, kernel->tile) / kernel->tile;
    for (int64_t t = 0; t < tiles; t++) {
        const int64_t row = rows->count * t / tiles;
        const int tile = (int)(rows->count * (t + 1) / tiles - row);
        for (int64_t n = 0; n < count; n += PANEL) {
            const int16_t *panel = worker->panel + 2 * (n / PANEL) * size;
            double totals[MOST_TILE][PANEL] = {{0}};
            add_panel(kernel, rows, row, tile, panel, depth, weight->low ? LIMB : 1, totals);
            if (weight->low)
                add_panel(kernel, rows, row, tile, panel + size, depth, 1, totals);
            for (int i = 0; i < tile; i++)
                finish(worker, rows, target, row + i, first + n, count - n < PANEL ? count - n : PANEL, totals[i]);
        }
    }
}

/* Outputs of one item: several panels, unless there are too few of them to share out. */
static int64_t span_of(const Worker *worker, const Target *targets, int count)
{
    int64_t outputs = 0;
    for (int i = 0; i < count; i++)
        outputs += targets[i].weight->outputs;
    int64_t panels = MOST_PANELS;
    while (panels > 1 && outputs < panels * PANEL * SHARES * pool_threads(worker->pool))
        panels /= 2;
    return panels * PANEL;
}

void multiply(Worker *worker, const Rows *rows, const Target *targets, int count)
{
    const int64_t span = span_of(worker, targets, count);
    int64_t passed = 0;
    int target = 0;
    /* Numbers of a phase only grow, so each thread walks through the targets once. */
    for (int64_t item = pool_next(worker->pool); target < count; item = pool_next(worker->pool)) {
        while (target < count && (item - passed) * span >= targets[target].weight->outputs)
            passed += padded(targets[target++].weight->outputs, span) / span;
        if (target == count)
            break;
        const int64_t first = (item - passed) * span, left = targets[target].weight->outputs - first;
        const int64_t outputs = left < span ? left : span;
        if (rows->count <= FEW_ROWS)
            few_rows(worker, rows, &targets[target], first, outputs);
        else
            many_rows(worker, rows, &targets[target], first, outputs);
    }
    pool_sync(worker->pool);
}
