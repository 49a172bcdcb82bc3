/*
 * Numbers narrower than the array computes with: 4-bit features, and weights of 4 or 8 bits. They are widened before
 * the kernels see them, and keep their order: the elements of weights, and of features two atoms for each of 32.
 */
#include <stdatomic.h>
#include "convolution.h"

static inline int8_t nibble(uint8_t byte, int32_t is_upper)
{
    return (int8_t)(((is_upper ? byte >> 4 : byte & 15) ^ 8) - 8);
}

static void widen_weights(const openrknn_convolution *step, int64_t count, uint8_t *target)
{
    const int32_t is_nibbles = step->weight_format == OPENRKNN_INT4;
    for (int64_t i = 0; i < count; i++) {
        const int8_t value = is_nibbles ? nibble(step->weights[i / 2], i & 1) : (int8_t)step->weights[i];
        if (is_float(step)) {
            const uint16_t half = float_to_half(value);
            memcpy(target + 2 * i, &half, sizeof half);
        } else
            target[i] = (uint8_t)value;
    }
}

int32_t openrknn_pack(const openrknn_convolution *step)
{
    if (step->weight_format == step->format) {
        pack_weights(step);
        return 0;
    }
    openrknn_convolution wide = *step;
    const int64_t kernels = step->depthwise ? 1 : step->weight_kernels;
    const int64_t count = kernels * step->kernel_height * step->kernel_width * step->weight_channels;
    uint8_t *weights = scratch(SCRATCH_WEIGHTS, count * (is_float(step) ? 2 : 1) + SLACK);
    if (!weights)
        return -1;
    widen_weights(step, count, weights);
    wide.weights = weights;
    wide.weight_format = step->format;
    pack_weights(&wide);
    return 0;
}

typedef struct {
    const openrknn_convolution *const *steps;
    atomic_int has_failed;
} packing;

static void pack_unit(void *job, int32_t unit)
{
    packing *all = job;
    if (openrknn_pack(all->steps[unit]))
        atomic_store(&all->has_failed, 1);
}

int32_t openrknn_pack_all(const openrknn_convolution *const *steps, int32_t count)
{
    enum { NANOSECONDS_PER_BYTE = 2 };
    packing all = {.steps = steps};
    int64_t bytes = 0;
    for (int32_t i = 0; i < count; i++)
        bytes += openrknn_packed_bytes(steps[i]);
    run_units(count, NANOSECONDS_PER_BYTE * bytes, pack_unit, &all);
    return atomic_load(&all.has_failed) ? -1 : 0;
}

int widen_features(openrknn_convolution *step)
{
    const int64_t plane = (int64_t)step->height * step->width * ATOM;
    const int32_t surfaces = divide_up(step->channels, 2 * ATOM);
    uint8_t *target = scratch(SCRATCH_FEATURES, 2 * surfaces * plane + SLACK);
    if (!target)
        return -1;
    for (int32_t surface = 0; surface < surfaces; surface++)
        for (int32_t row = 0; row < step->height; row++) {
            const uint8_t *from = step->source + surface * step->surface + row * step->line;
            uint8_t *to = target + 2 * surface * plane + (int64_t)row * step->width * ATOM;
            for (int32_t column = 0; column < step->width; column++, from += ATOM, to += ATOM)
                for (int32_t lane = 0; lane < ATOM; lane++) {
                    to[lane] = (uint8_t)nibble(from[lane / 2], lane & 1);
                    to[plane + lane] = (uint8_t)nibble(from[(ATOM + lane) / 2], lane & 1);
                }
        }
    step->source = target;
    step->surface = plane;
    step->line = (int64_t)step->width * ATOM;
    step->source_format = step->format;
    step->copies_first = 0;
    return 0;
}
