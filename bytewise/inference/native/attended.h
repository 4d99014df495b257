/* Attention of one layer over queries, keys and values that the torch path has computed in floats. */
#ifndef NATIVE_ATTENDED_H
#define NATIVE_ATTENDED_H

#include "attention.h"

typedef struct {
    Shape shape; /* Only layers, heads, key_value_heads and head_width count. */
    Cache *cache;
    int64_t layer, window;
    int64_t sequence, sequences; /* Index of the first sequence in the cache, and number of sequences. */
    int64_t position, tokens;    /* Position of the first new token of each sequence, and number of new tokens. */
    float scale;
    const float *queries, *keys, *values; /* [sequence][token][head][head width]; queries and keys are rotated. */
    float *out;                           /* Shaped as the queries. */
} Attended;

/* Stores keys and values, then computes attention. Returns 0, FAILED_MEMORY or FAILED_FORKED. */
int attended(Pool *pool, const Attended *call);

#endif
