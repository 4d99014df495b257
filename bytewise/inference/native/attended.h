/* Attention of one layer over queries, keys and values that the torch path has computed in floats. */
#ifndef NATIVE_ATTENDED_H
#define NATIVE_ATTENDED_H

#include "attention.h"

typedef struct {
    Shape shape; /* Only layers, heads, key_value_heads and head_width count. */
    Cache *cache;
    int64_t layer, window;
    int64_t sequence, sequences; /* The first one in the cache, and how many. */
    int64_t position, tokens;    /* Of the first new token of each sequence, and how many. */
    float scale;
    const float *queries, *keys, *values; /* [sequence][token][head][head width], heads rotated. */
    float *out;                           /* Shaped as the queries. */
} Attended;

/* Stores keys and values, then attends. 0, FAILED_MEMORY or FAILED_FORKED. */
int attended(Pool *pool, const Attended *call);

#endif
