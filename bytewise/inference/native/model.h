/* The tensors of one model, bound by address, and its caches of keys and values. */
#ifndef NATIVE_MODEL_H
#define NATIVE_MODEL_H

#include "product.h"

/* Integers that open an engine. path.py and `_Shape` of backend.py write them in the same order. */
typedef struct {
    int64_t layers, width, intermediate, heads, key_value_heads, head_width, vocabulary, positions;
    int64_t query_key_norm;  /* Whether queries and keys are normalised per head. */
    int64_t embedding_type;  /* EMBEDDING_... */
} Shape;

enum { EMBEDDING_FLOAT32, EMBEDDING_BFLOAT16, EMBEDDING_FLOAT16 };

enum { QUERY, KEY, VALUE, OUTPUT, GATE, UP, DOWN, LINEARS };
enum { INPUT_NORM, UNIT_NORM, QUERY_NORM, KEY_NORM, NORMS };
enum { HIGH, LOW, SCALE, BIAS, PARTS };
enum { LOW_COS, LOW_SIN, HIGH_COS, HIGH_SIN, TABLES };

typedef struct {
    Weight linears[LINEARS];
    const float *norms[NORMS];
    int64_t window; /* Tokens that a token sees, itself included; 0: all. */
} Layer;

typedef struct {
    Shape shape;
    float epsilon, attention_scale;
    Layer *layers;
    Weight head;
    const void *embedding;
    const float *norm;
    const double *tables[TABLES]; /* Factor tables of rotary angles: [256, d / 2] and [positions / 256 rounded up, d / 2]. */
} Model;

/* Returns NULL if memory is short. `windows` has one entry for each layer. */
Model *model_open(const Shape *shape, const int64_t *windows, float epsilon, float attention_scale);
void model_close(Model *model);
/* Slots of a layer: linear * PARTS + part, then LINEARS * PARTS + norm. Slots of layer -1: head part, then SLOT_... */
enum { SLOT_NORM = PARTS, SLOT_EMBEDDING, SLOT_TABLES };
/* Binds a tensor; the caller keeps its memory. Returns FAILED_ARGUMENT if there is no such slot or it has another size. */
int model_bind(Model *model, int64_t layer, int64_t slot, const void *data, int64_t bytes);
/* Returns 0 if every tensor that the shape needs is bound, otherwise FAILED_ARGUMENT. */
int model_ready(const Model *model);
/* Writes the embedding row of a token, widened to float32 exactly. */
void model_embed(const Model *model, int64_t token, float *row);
/* Writes the cosines and sines of the angles of a position: [d / 2] each. */
void model_angles(const Model *model, int64_t position, float *cos, float *sin);

/* Keys [block of PANEL keys][pair of components][key][2] and values [pair of keys][component][2], as `products` reads them. */
typedef struct {
    int64_t sequences, capacity; /* Slots, a multiple of EXACT_KEYS. */
    int64_t lines;               /* layers * sequences * key_value_heads */
    int64_t width;               /* Head width, padded to PANEL. */
    int16_t *keys, *values;
    float *key_scales, *value_scales;
} Cache;

/* Size in bytes of the keys, values and scales that cache_open would allocate. */
int64_t cache_bytes(const Shape *shape, int64_t sequences, int64_t capacity);
Cache *cache_open(const Shape *shape, int64_t sequences, int64_t capacity);
void cache_close(Cache *cache);
/* Stores the quantised key and value of one head at a slot. */
void cache_store(Cache *cache, int64_t line, int64_t slot, const int16_t *key, float key_scale, const int16_t *value,
                 float value_scale);

#endif
