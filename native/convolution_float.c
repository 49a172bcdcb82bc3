/*
 * Segments of a floating point convolution. The weights of 16 output channels become doubles, some taps at a time: they
 * stay in the first level cache while all segments of a group pass by. A few pixels alone read them as they are stored.
 */
#include "convolution.h"

enum { PANEL_TAPS = 40, FEW_PIXELS = 2 };

/* Products of fp16 numbers are whole numbers of 2^-48: below 2^5 doubles have all their sums. (The lengths are off by less.) */
#define EXACT_BELOW 31.0

typedef struct {
    int32_t row, first, pixels;
    const uint8_t *input;
} float_place;

/* Lanes without a kernel deliver 0, and not 0 times what is read: that may be infinite or no number. */
static void clear_lanes(float32 *sums, int32_t pixels, int32_t lanes)
{
    for (int32_t p = 0; p < pixels && lanes < ATOM; p++)
        for (int32_t o = lanes > 0 ? lanes : 0; o < ATOM; o++)
            sums[p * ATOM + o] = 0.0f;
}

static void finish(const convolution *c, int32_t block, const float_place *place, const float_rounding *rounding)
{
    dpu_task task = {
        .dpu = &c->step->dpu,
        .kernels = c->kernels,
        .channel = block * ATOM,
        .pixel = place->row * c->out_columns + place->first,
        .pixels = place->pixels,
        .floats = rounding->rounded,
    };
    c->kernels->float_round(rounding);
    clear_lanes(rounding->rounded, place->pixels, c->step->weight_kernels - block * ATOM);
    dpu_finish(&task);
}

void float_segments(const convolution *c, int32_t from, int32_t to, int32_t first_block, int32_t last_block)
{
    const int32_t lanes = lanes_of(c->step), count = to - from;
    double panel[PANEL_TAPS * FLOAT_CHANNELS * ATOM] __attribute__((aligned(64)));
    double sums[GROUP][SEGMENT * ATOM] __attribute__((aligned(64)));
    float32 rounded[SEGMENT * ATOM] __attribute__((aligned(64)));
    double lengths[GROUP][SEGMENT];
    float_place places[GROUP];
    int32_t all_pixels = 0;

    for (int32_t s = 0; s < count; s++) {
        float_place *place = &places[s];
        segment_place(c, from + s, &place->row, &place->first, &place->pixels);
        place->input = c->input + place->row * c->out_row_step + (int64_t)place->first * c->element;
        all_pixels += place->pixels;
        float_task task = {
            .input = place->input, .offsets = c->offsets, .taps = c->taps, .lanes = lanes, .pixels = place->pixels};
        c->kernels->float_lengths(&task, lengths[s]);
    }
    for (int32_t number = first_block; number < last_block; number++) {
        const uint8_t *at = c->weights + number * c->block_bytes;
        const float_block *block = (const float_block *)at;
        const int32_t *list = (const int32_t *)(at + float_taps_offset());
        const uint16_t *weights = (const uint16_t *)(at + float_weights_offset(c->step));
        const int32_t parts = all_pixels > FEW_PIXELS ? at_least(divide_up(block->taps, PANEL_TAPS), 1) : 1;
        for (int32_t part = 0; part < parts; part++) {
            const int32_t first = (int32_t)((int64_t)part * block->taps / parts);
            const int32_t taps = (int32_t)((int64_t)(part + 1) * block->taps / parts) - first;
            if (all_pixels > FEW_PIXELS)
                c->kernels->float_panel(weights + (int64_t)first * lanes * ATOM, c->step->format, panel, (int64_t)taps * lanes);
            for (int32_t s = 0; s < count; s++) {
                float_task task = {
                    .input = places[s].input,
                    .offsets = c->offsets,
                    .list = list + first,
                    .taps = taps,
                    .lanes = lanes,
                    .pixels = places[s].pixels,
                    .format = c->step->format,
                    .goes_on = part > 0,
                    .panel = all_pixels > FEW_PIXELS ? panel : NULL,
                    .weights = weights,
                    .sums = sums[s],
                };
                c->kernels->float_segment(&task);
                if (part < parts - 1)
                    continue;
                task.list = list;
                task.taps = block->taps;
                float_rounding rounding = {
                    .all = task,
                    .input_lengths = lengths[s],
                    .weight_lengths = block->errors,
                    .largest_length = block->largest,
                    .exact_below = c->step->format == OPENRKNN_FP16 ? EXACT_BELOW : 0.0,
                    .skipped = list + block->taps,
                    .skipped_taps = c->taps - block->taps,
                    .rounded = rounded,
                };
                finish(c, number, &places[s], &rounding);
            }
        }
    }
}
