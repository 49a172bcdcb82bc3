/*
 * Kernels for every aarch64 processor. Inputs are widened to int16, weights are int16 with their corrections, and
 * SMLAL by element multiplies 4 channels with one input.
 */
#include "neon_common.h"

enum { MOST_PIXELS = 4 };

/* [tap][channel in][16 channels out] */
static int64_t block_bytes(int32_t taps, int32_t is_picture)
{
    return (int64_t)taps * (is_picture ? 4 : ATOM) * ATOM * (int64_t)sizeof(int16_t);
}

static void store(uint8_t *block, int32_t tap, int32_t is_picture, const int16_t *weights)
{
    int32_t lanes = is_picture ? 4 : ATOM;
    int16_t *out = (int16_t *)block + (int64_t)tap * lanes * ATOM;
    for (int32_t i = 0; i < lanes; i++)
        for (int32_t o = 0; o < ATOM; o++)
            out[i * ATOM + o] = weights[o * lanes + i];
}

/* One input channel of all pixels; `lane` must be a constant. */
#define ONE_INPUT(lane)                                                                                                \
    do {                                                                                                               \
        const int16x8_t low = vld1q_s16(weights), high = vld1q_s16(weights + 8);                                       \
        for (int32_t p = 0; p < pixels; p++) {                                                                         \
            sums[p].part[0] = vmlal_lane_s16(sums[p].part[0], vget_low_s16(low), x[p], lane);                          \
            sums[p].part[1] = vmlal_high_lane_s16(sums[p].part[1], low, x[p], lane);                                   \
            sums[p].part[2] = vmlal_lane_s16(sums[p].part[2], vget_low_s16(high), x[p], lane);                         \
            sums[p].part[3] = vmlal_high_lane_s16(sums[p].part[3], high, x[p], lane);                                  \
        }                                                                                                              \
        weights += ATOM;                                                                                               \
    } while (0)

ALWAYS_INLINE void tile(const segment_task *task, int32_t first, const int32_t pixels, const int32_t groups)
{
    const int32_t step = groups * 4 * (int32_t)sizeof(int16_t);
    const int16_t *weights = (const int16_t *)task->weights;
    sums16 sums[MOST_PIXELS];

    for (int32_t p = 0; p < pixels; p++)
        sums[p] = sums_of_window(task, 0, first + p);
    for (int32_t tap = 0; tap < task->taps; tap++) {
        const uint8_t *input = task->input + task->offsets[tap] + first * step;
        for (int32_t group = 0; group < groups; group++) {
            int16x4_t x[MOST_PIXELS];
            for (int32_t p = 0; p < pixels; p++)
                x[p] = vld1_s16((const int16_t *)(input + p * step) + group * 4);
            ONE_INPUT(0);
            ONE_INPUT(1);
            ONE_INPUT(2);
            ONE_INPUT(3);
        }
    }
    for (int32_t p = 0; p < pixels; p++)
        sums_store(task->sums + (first + p) * ATOM, &sums[p]);
}

static void segment(const segment_task *task)
{
    int32_t pixel = 0;
    for (; pixel + MOST_PIXELS <= task->pixels; pixel += MOST_PIXELS)
        if (task->is_picture)
            tile(task, pixel, MOST_PIXELS, 1);
        else
            tile(task, pixel, MOST_PIXELS, 4);
    for (; pixel < task->pixels; pixel++)
        if (task->is_picture)
            tile(task, pixel, 1, 1);
        else
            tile(task, pixel, 1, 4);
}

static void depthwise(const depthwise_task *task)
{
    depthwise_of(task, 2);
}

const kernel_set kernels_neon = {
    .name = "neon",
    .products = 16,
    .float_products = 10,
    .needs = OPENRKNN_CPU_NEON,
    .input_bytes = 2,
    .block = 1,
    .folds = 1,
    .block_bytes = block_bytes,
    .store = store,
    .segment = segment,
    .depthwise = depthwise,
    KERNELS_OF_TEMPLATES,
};
