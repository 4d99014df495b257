#include "product.h"

#include <stdlib.h>
#include <string.h>

#define FEW_ROWS 3     /* Up to here weights are read row by row, at the speed of memory; above, panel by panel. */
#define MOST_PANELS 4  /* Panels that a thread takes at once: rows are read from the second cache once for all of them. */
#define SHARES 4       /* Items per thread at least, so that none waits long for the last. */
#define LIMB 256.0     /* Weight of the high limb. */

size_t panel_bytes(int64_t depth)
{
    return 2 * MOST_PANELS * PANEL * (size_t)padded(depth, 2) * sizeof(int16_t);
}

int product_is_whole(const int8_t *weight, int64_t outputs, int64_t depth)
{
    if (depth <= EXACT_DEPTH)
        return 1;
    for (int64_t n = 0; n < outputs; n++) {
        int32_t magnitudes = 0;
        for (int64_t k = 0; k < depth; k++)
            magnitudes += abs(weight[n * depth + k]);
        if (magnitudes > EXACT_ROW)
            return 0;
    }
    return 1;
}

/* Writes the outputs of sums of either type, and updates the largest logit of the row. */
static void finish(const Worker *worker, const Rows *rows, const Target *target, int64_t row, int64_t first, int64_t count,
                   const double *sums, const int32_t *whole)
{
    const Weight *weight = target->weight;
    const ptrdiff_t at = row * target->stride + first;
    const float scale = scale_of(rows->exponents[row], ACTIVATION_BITS), *scales = weight->scale + first;
    const float *bias = weight->bias ? weight->bias + first : NULL;
    float unkept[MOST_PANELS * PANEL], *out = target->out ? target->out + at : unkept;
    if (whole)
        worker->kernel->outputs_of_whole(whole, count, scale, scales, bias, target->add, out);
    else
        worker->kernel->outputs(sums, count, scale, scales, bias, target->add, out);
    if (target->best)
        worker->kernel->best(out, count, (int32_t)first, &target->best[worker->index * rows->count + row]);
}

static void keep(const Worker *worker, const Rows *rows, const Target *target, int64_t row, int64_t first, int64_t count,
                 const double *sums)
{
    if (target->sums)
        memcpy(target->sums + row * target->stride + first, sums, (size_t)count * sizeof *sums);
    else
        finish(worker, rows, target, row, first, count, sums, NULL);
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
        keep(worker, rows, target, row, first, count, sums);
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
    /* The last output's row fills the rest of the panel. Its further results are not written. */
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

/* A tile of rows times a panel whose sums an int32 holds. */
static void whole_tile(const Worker *worker, const Rows *rows, const Target *target, int64_t row, int tile, const int16_t *panel,
                       int64_t first, int64_t count)
{
    int32_t sums[MOST_TILE][PANEL];
    const int16_t *left = rows->integers + row * rows->stride;
    worker->kernel->products(tile, left, rows->stride, panel, 2 * PANEL, (target->weight->depth + 1) / 2, sums);
    for (int i = 0; i < tile; i++)
        finish(worker, rows, target, row + i, first, count, NULL, sums[i]);
}

static void tile_in_pieces(const Worker *worker, const Rows *rows, const Target *target, int64_t row, int tile,
                           const int16_t *panel, int64_t first, int64_t count)
{
    const Weight *weight = target->weight;
    double totals[MOST_TILE][PANEL] = {{0}};
    add_panel(worker->kernel, rows, row, tile, panel, weight->depth, weight->low ? LIMB : 1, totals);
    if (weight->low)
        add_panel(worker->kernel, rows, row, tile, panel + PANEL * padded(weight->depth, 2), weight->depth, 1, totals);
    for (int i = 0; i < tile; i++)
        keep(worker, rows, target, row + i, first, count, totals[i]);
}

static void many_rows(const Worker *worker, const Rows *rows, const Target *target, int64_t first, int64_t count)
{
    const int64_t size = PANEL * padded(target->weight->depth, 2);
    const int whole = target->weight->whole && !target->sums;
    pack_panels(worker, target->weight, first, count);
    /* Tiles as equal as can be: one of a single row would take as long as one of three. */
    const int64_t tiles = padded(rows->count, worker->kernel->tile) / worker->kernel->tile;
    for (int64_t t = 0; t < tiles; t++) {
        const int64_t row = rows->count * t / tiles;
        const int tile = (int)(rows->count * (t + 1) / tiles - row);
        for (int64_t n = 0; n < count; n += PANEL) {
            const int16_t *panel = worker->panel + 2 * (n / PANEL) * size;
            const int64_t outputs = count - n < PANEL ? count - n : PANEL;
            (whole ? whole_tile : tile_in_pieces)(worker, rows, target, row, tile, panel, first + n, outputs);
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
