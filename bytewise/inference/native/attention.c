#include "attention.h"

#include <string.h>

#define ROWS 12 /* Queries that share one pass over the keys: their scores stay in a cache. */

/* Queries of one block and one key head: row r is head `head + r % heads` of token `r / heads`. */
typedef struct {
    const Attention *attention;
    const Kernel *kernel;
    int64_t token, key_head, head, heads, rows;
    int64_t first, last, span; /* Keys from `first`, a multiple of PANEL, to before `last`; slots of a row of scores. */
    int64_t line, width;
    int16_t *queries, *weights; /* [2 * ROWS][width] and [2 * ROWS][span] */
    float *scores;              /* [ROWS][span] */
    double *totals;             /* [ROWS][width] */
    Softmax found[ROWS];
} Item;

static int64_t heads_of(const Shape *shape)
{
    const int64_t group = shape->heads / shape->key_value_heads;
    return group < ROWS ? group : ROWS;
}

int64_t block_tokens(const Shape *shape)
{
    return ROWS / heads_of(shape);
}

static int64_t span_of(int64_t keys)
{
    return padded(keys, EXACT_KEYS) + EXACT_KEYS;
}

size_t attention_bytes(const Shape *shape, int64_t keys)
{
    const size_t width = (size_t)padded(shape->head_width, PANEL), span = (size_t)span_of(keys);
    return ROWS * (width * (2 * sizeof(int16_t) + sizeof(double)) + span * (2 * sizeof(int16_t) + sizeof(float)));
}

static int64_t first_key(const Attention *attention, int64_t row)
{
    const int64_t hidden = attention->positions[row] + 1 - attention->window;
    return attention->window && hidden > 0 ? hidden : 0;
}

static void place(Item *item, char *scratch)
{
    item->totals = (double *)scratch;
    item->scores = (float *)(item->totals + ROWS * item->width);
    item->queries = (int16_t *)(item->scores + ROWS * item->span);
    item->weights = item->queries + 2 * ROWS * item->width;
}

static Item item_of(const Worker *worker, const Attention *attention, int64_t number)
{
    const Shape *shape = attention->shape;
    const int64_t group = shape->heads / shape->key_value_heads, heads = heads_of(shape), parts = (group + heads - 1) / heads;
    const Block *block = &attention->blocks[number / parts / shape->key_value_heads];
    Item item = {.attention = attention, .kernel = worker->kernel, .token = block->first, .width = attention->cache->width};
    const int64_t part = number % parts;
    item.key_head = number / parts % shape->key_value_heads;
    item.head = item.key_head * group + part * heads;
    item.heads = group - part * heads < heads ? group - part * heads : heads;
    item.rows = item.heads * block->tokens;
    item.first = first_key(attention, block->first) / PANEL * PANEL;
    item.last = attention->positions[block->first + block->tokens - 1] + 1;
    item.span = span_of(item.last - item.first);
    item.line = (attention->layer * attention->cache->sequences + attention->sequences[block->first]) * shape->key_value_heads +
                item.key_head;
    place(&item, worker->scratch);
    return item;
}

static int64_t token_of(const Item *item, int64_t row)
{
    return item->token + row / item->heads;
}

static int64_t head_of(const Item *item, int64_t row)
{
    return item->head + row % item->heads;
}

static int64_t query_of(const Item *item, int64_t row)
{
    return token_of(item, row) * item->attention->shape->heads + head_of(item, row);
}

static void score(const Item *item)
{
    const Attention *attention = item->attention;
    const Cache *cache = attention->cache;
    const int64_t most = item->kernel->tile / 2;
    const float *scales = cache->key_scales + item->line * cache->capacity;
    for (int64_t r = 0; r < item->rows; r++)
        memcpy(item->queries + 2 * r * item->width, attention->limbs + 2 * query_of(item, r) * item->width,
               2 * (size_t)item->width * sizeof(int16_t));
    for (int64_t key = item->first; key < item->last; key += PANEL) {
        const int16_t *keys = cache->keys + (item->line * cache->capacity + key) * item->width;
        for (int64_t r = 0; r < item->rows; r += most) {
            const int64_t count = item->rows - r < most ? item->rows - r : most;
            int32_t sums[MOST_TILE][PANEL];
            item->kernel->products((int)(2 * count), item->queries + 2 * r * item->width, item->width, keys, 2 * PANEL,
                                   item->width / 2, sums);
            for (int64_t i = 0; i < count; i++)
                item->kernel->scores(sums[2 * i], sums[2 * i + 1], attention->factors[query_of(item, r + i)], scales + key,
                                     item->scores + (r + i) * item->span + key - item->first);
        }
    }
}

static void weigh(Item *item)
{
    const Attention *attention = item->attention;
    const float *scales = attention->cache->value_scales + item->line * attention->cache->capacity;
    for (int64_t r = 0; r < item->rows; r++) {
        const int64_t row = token_of(item, r), first = first_key(attention, row);
        const int64_t before = first - item->first, count = attention->positions[row] + 1 - first;
        int16_t *high = item->weights + 2 * r * item->span, *low = high + item->span;
        /* Keys that only other rows of the item see get weight 0 in this row. */
        memset(high, 0, (size_t)item->span * sizeof *high);
        memset(low, 0, (size_t)item->span * sizeof *low);
        item->found[r] =
            item->kernel->softmax(item->scores + r * item->span + before, scales + first, count, high + before, low + before);
    }
}

static void mix_keys(const Item *item, int64_t key, int64_t pairs)
{
    const Cache *cache = item->attention->cache;
    const int16_t *values = cache->values + (item->line * cache->capacity + item->first + key) * item->width;
    const int64_t most = item->kernel->tile / 2;
    for (int64_t r = 0; r < item->rows; r += most) {
        const int64_t count = item->rows - r < most ? item->rows - r : most;
        const int16_t *weights = item->weights + 2 * r * item->span + key;
        for (int64_t c = 0; c < item->width; c += PANEL) {
            int32_t sums[MOST_TILE][PANEL];
            item->kernel->products((int)(2 * count), weights, item->span, values + 2 * c, 2 * item->width, pairs, sums);
            for (int64_t i = 0; i < count; i++) {
                double *totals = item->totals + (r + i) * item->width + c;
                item->kernel->accumulate(sums[2 * i], 1 << HALF_BITS, totals);
                item->kernel->accumulate(sums[2 * i + 1], 1, totals);
            }
        }
    }
}

static void mix(const Item *item)
{
    const int64_t keys = item->last - item->first, head_width = item->attention->shape->head_width;
    memset(item->totals, 0, (size_t)(item->rows * item->width) * sizeof *item->totals);
    for (int64_t key = 0; key < keys; key += EXACT_KEYS) {
        const int64_t piece = keys - key < EXACT_KEYS ? keys - key : EXACT_KEYS;
        mix_keys(item, key, (piece + 1) / 2);
    }
    for (int64_t r = 0; r < item->rows; r++) {
        const float scale = scale_of(item->found[r].exponent, PROBABILITY_BITS);
        float *out = item->attention->out + token_of(item, r) * item->attention->stride + head_of(item, r) * head_width;
        item->kernel->mix(item->totals + r * item->width, head_width, scale, item->found[r].total * 0x1p-30f, out);
    }
}

/* Integers of one head, padded with zeros; returns their scale. */
static float quantise_head(const Worker *worker, const float *x, int64_t width, int16_t *integers)
{
    return scale_of(worker->kernel->quantise(x, width, integers, padded(width, PANEL)), ACTIVATION_BITS);
}

void attention_put(const Worker *worker, const Attention *attention, int64_t row, int64_t key_head, const float *queries,
                   const float *key, const float *value)
{
    const Shape *shape = attention->shape;
    Cache *cache = attention->cache;
    const int64_t width = shape->head_width, wide = cache->width, group = shape->heads / shape->key_value_heads;
    const int64_t first = row * shape->heads + key_head * group;
    int16_t integers[MOST_HEAD_WIDTH], values[MOST_HEAD_WIDTH];
    for (int64_t i = 0; i < group; i++) {
        attention->factors[first + i] = attention->scale * quantise_head(worker, queries + i * width, width, integers);
        int16_t *limbs = attention->limbs + (first + i) * 2 * wide;
        worker->kernel->split(integers, wide, limbs, limbs + wide);
    }
    const float key_scale = quantise_head(worker, key, width, integers);
    const float value_scale = quantise_head(worker, value, width, values);
    const int64_t line = (attention->layer * cache->sequences + attention->sequences[row]) * shape->key_value_heads + key_head;
    cache_store(cache, line, attention->positions[row], integers, key_scale, values, value_scale);
}

void attend(Worker *worker, const Attention *attention)
{
    const Shape *shape = attention->shape;
    const int64_t group = shape->heads / shape->key_value_heads, heads = heads_of(shape);
    const int64_t items = attention->block_count * shape->key_value_heads * ((group + heads - 1) / heads);
    for (int64_t number = pool_next(worker->pool); number < items; number = pool_next(worker->pool)) {
        Item item = item_of(worker, attention, number);
        score(&item);
        weigh(&item);
        mix(&item);
    }
    pool_sync(worker->pool);
}
