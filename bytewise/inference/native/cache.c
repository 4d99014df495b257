#include "model.h"

#include <stdlib.h>

int64_t cache_bytes(const Shape *shape, int64_t sequences, int64_t capacity)
{
    const int64_t slots = shape->layers * sequences * shape->key_value_heads * padded(capacity, EXACT_KEYS);
    return slots * (int64_t)(2 * padded(shape->head_width, PANEL) * sizeof(int16_t) + 2 * sizeof(float));
}

Cache *cache_open(const Shape *shape, int64_t sequences, int64_t capacity)
{
    Cache *cache = calloc(1, sizeof *cache);
    if (!cache)
        return NULL;
    cache->sequences = sequences;
    cache->capacity = padded(capacity, EXACT_KEYS);
    cache->lines = shape->layers * sequences * shape->key_value_heads;
    cache->width = padded(shape->head_width, PANEL);
    const size_t slots = (size_t)(cache->lines * cache->capacity);
    /* Zeros cost nothing until they are written: the system maps a large calloc page by page. */
    cache->keys = calloc(slots, (size_t)cache->width * sizeof *cache->keys);
    cache->values = calloc(slots, (size_t)cache->width * sizeof *cache->values);
    cache->key_scales = calloc(slots, sizeof *cache->key_scales);
    cache->value_scales = calloc(slots, sizeof *cache->value_scales);
    if (cache->keys && cache->values && cache->key_scales && cache->value_scales)
        return cache;
    cache_close(cache);
    return NULL;
}

void cache_close(Cache *cache)
{
    free(cache->keys);
    free(cache->values);
    free(cache->key_scales);
    free(cache->value_scales);
    free(cache);
}

void cache_store(Cache *cache, int64_t line, int64_t slot, const int16_t *key, float key_scale, const int16_t *value,
                 float value_scale)
{
    const int64_t width = cache->width;
    int16_t *keys = cache->keys + (line * cache->capacity + slot / PANEL * PANEL) * width;
    int16_t *values = cache->values + (line * cache->capacity + slot / 2 * 2) * width;
    for (int64_t i = 0; i < width; i++) {
        keys[i / 2 * 2 * PANEL + slot % PANEL * 2 + i % 2] = key[i];
        values[2 * i + slot % 2] = value[i];
    }
    cache->key_scales[line * cache->capacity + slot] = key_scale;
    cache->value_scales[line * cache->capacity + slot] = value_scale;
}
