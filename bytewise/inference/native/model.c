#include "model.h"

#include <stdlib.h>
#include <string.h>

#define STRIDE 256 /* Rows of the low rotary table. */

static void shape_linears(Layer *layer, const Shape *shape)
{
    const int64_t inner = shape->heads * shape->head_width, outer = shape->key_value_heads * shape->head_width;
    const int64_t sizes[LINEARS][2] = {
        [QUERY] = {inner, shape->width},
        [KEY] = {outer, shape->width},
        [VALUE] = {outer, shape->width},
        [OUTPUT] = {shape->width, inner},
        [GATE] = {shape->intermediate, shape->width},
        [UP] = {shape->intermediate, shape->width},
        [DOWN] = {shape->width, shape->intermediate},
    };
    for (int i = 0; i < LINEARS; i++) {
        layer->linears[i].outputs = sizes[i][0];
        layer->linears[i].depth = sizes[i][1];
    }
}

Model *model_open(const Shape *shape, const int64_t *windows, float epsilon, float attention_scale)
{
    Model *model = calloc(1, sizeof *model);
    if (!model)
        return NULL;
    model->shape = *shape;
    model->epsilon = epsilon;
    model->attention_scale = attention_scale;
    model->head.outputs = shape->vocabulary;
    model->head.depth = shape->width;
    model->layers = calloc((size_t)shape->layers, sizeof *model->layers);
    if (!model->layers) {
        free(model);
        return NULL;
    }
    for (int64_t i = 0; i < shape->layers; i++) {
        model->layers[i].window = windows[i];
        shape_linears(&model->layers[i], shape);
    }
    return model;
}

void model_close(Model *model)
{
    free(model->layers);
    free(model);
}

static int bind_weight(Weight *weight, int64_t part, const void *data, int64_t bytes)
{
    const int64_t sizes[PARTS] = {weight->outputs * weight->depth, weight->outputs * weight->depth, 4 * weight->outputs,
                                  4 * weight->outputs};
    if (bytes != sizes[part])
        return FAILED_ARGUMENT;
    switch (part) {
    case HIGH: weight->high = data; break;
    case LOW: weight->low = data; break;
    case SCALE: weight->scale = data; break;
    case BIAS: weight->bias = data; break;
    }
    if (part == HIGH)
        weight->whole = product_is_whole(data, weight->outputs, weight->depth);
    weight->whole = weight->whole && !weight->low;
    return 0;
}

static int bind_global(Model *model, int64_t slot, const void *data, int64_t bytes)
{
    const Shape *shape = &model->shape;
    const int64_t half = shape->head_width / 2, each = shape->embedding_type == EMBEDDING_FLOAT32 ? 4 : 2;
    if (slot < PARTS)
        return bind_weight(&model->head, slot, data, bytes);
    if (slot == SLOT_NORM && bytes == 4 * shape->width)
        return model->norm = data, 0;
    if (slot == SLOT_EMBEDDING && bytes == each * shape->vocabulary * shape->width)
        return model->embedding = data, 0;
    const int64_t table = slot - SLOT_TABLES;
    if (table < 0 || table >= TABLES)
        return FAILED_ARGUMENT;
    const int64_t rows = table < HIGH_COS ? STRIDE : padded(shape->positions, STRIDE) / STRIDE;
    if (bytes != 8 * rows * half)
        return FAILED_ARGUMENT;
    return model->tables[table] = data, 0;
}

int model_bind(Model *model, int64_t layer, int64_t slot, const void *data, int64_t bytes)
{
    const Shape *shape = &model->shape;
    if (!data || slot < 0 || layer < -1 || layer >= shape->layers)
        return FAILED_ARGUMENT;
    if (layer < 0)
        return bind_global(model, slot, data, bytes);
    Layer *at = &model->layers[layer];
    if (slot < LINEARS * PARTS)
        return bind_weight(&at->linears[slot / PARTS], slot % PARTS, data, bytes);
    const int64_t norm = slot - LINEARS * PARTS;
    if (norm >= NORMS || bytes != 4 * (norm < QUERY_NORM ? shape->width : shape->head_width))
        return FAILED_ARGUMENT;
    return at->norms[norm] = data, 0;
}

static int weight_ready(const Weight *weight)
{
    return weight->high && weight->scale;
}

int model_ready(const Model *model)
{
    int ready = weight_ready(&model->head) && model->norm && model->embedding;
    for (int i = 0; i < TABLES; i++)
        ready = ready && model->tables[i];
    for (int64_t l = 0; l < model->shape.layers; l++) {
        const Layer *layer = &model->layers[l];
        for (int i = 0; i < LINEARS; i++)
            ready = ready && weight_ready(&layer->linears[i]);
        for (int i = 0; i < (model->shape.query_key_norm ? NORMS : QUERY_NORM); i++)
            ready = ready && layer->norms[i];
    }
    return ready ? 0 : FAILED_ARGUMENT;
}

/* binary16 to binary32: exact, subnormals included. */
static float widen_half(uint16_t half)
{
    const int32_t magnitude = half & 0x7fff;
    float value;
    if (magnitude < 0x0400)
        value = (float)magnitude * 0x1p-24f;
    else if (magnitude < 0x7c00)
        value = float_of((magnitude << 13) + (112 << 23));
    else
        value = float_of((magnitude << 13) | (255 << 23));
    return half & 0x8000 ? -value : value;
}

void model_embed(const Model *model, int64_t token, float *row)
{
    const int64_t width = model->shape.width;
    const float *floats = (const float *)model->embedding + token * width;
    const uint16_t *halves = (const uint16_t *)model->embedding + token * width;
    if (model->shape.embedding_type == EMBEDDING_FLOAT32) {
        memcpy(row, floats, (size_t)width * sizeof *row);
        return;
    }
    for (int64_t i = 0; i < width; i++)
        row[i] = model->shape.embedding_type == EMBEDDING_FLOAT16 ? widen_half(halves[i])
                                                                  : float_of((int32_t)((uint32_t)halves[i] << 16));
}

void model_angles(const Model *model, int64_t position, float *cos, float *sin)
{
    const int64_t half = model->shape.head_width / 2, low = position % STRIDE * half, high = position / STRIDE * half;
    for (int64_t i = 0; i < half; i++) {
        const double lc = model->tables[LOW_COS][low + i], ls = model->tables[LOW_SIN][low + i];
        const double hc = model->tables[HIGH_COS][high + i], hs = model->tables[HIGH_SIN][high + i];
        cos[i] = (float)(hc * lc - hs * ls);
        sin[i] = (float)(hs * lc + hc * ls);
    }
}
