/* Convolutions with SDOT: 4 channels by 4 inputs, times 4 inputs of a pixel. */
#include "neon_common.h"

enum { SDOT_PIXELS = 6 };

/* [tap][group of 4 inputs][16 channels out][4 inputs] */
static int64_t sdot_block_bytes(int32_t taps, int32_t is_picture)
{
    return (int64_t)taps * (is_picture ? 1 : 4) * 4 * ATOM;
}

static void sdot_store(uint8_t *block, int32_t tap, int32_t is_picture, const int16_t *weights)
{
    int32_t lanes = is_picture ? 4 : ATOM;
    uint8_t *out = block + (int64_t)tap * lanes * ATOM;
    for (int32_t group = 0; group < lanes / 4; group++)
        for (int32_t o = 0; o < ATOM; o++)
            for (int32_t i = 0; i < 4; i++)
                out[(group * ATOM + o) * 4 + i] = (uint8_t)weights[o * lanes + group * 4 + i];
}

/* One group of 4 inputs of all pixels; `lane` must be a constant. */
#define ONE_GROUP(lane)                                                                                                \
    do {                                                                                                               \
        _Pragma("GCC unroll 4") for (int32_t a = 0; a < 4; a++)                                                        \
        {                                                                                                              \
            const int8x16_t w = vld1q_s8(weights + a * ATOM);                                                          \
            _Pragma("GCC unroll 8") for (int32_t p = 0; p < pixels; p++)                                               \
                sums[p].part[a] = vdotq_laneq_s32(sums[p].part[a], w, x[p], lane);                                     \
        }                                                                                                              \
        weights += 4 * ATOM;                                                                                           \
    } while (0)

/* Pictures: 4 bytes of each pixel. */
ALWAYS_INLINE void sdot_picture(const segment_task *task, int32_t first, const int32_t pixels)
{
    const int8_t *weights = (const int8_t *)task->weights;
    sums16 sums[SDOT_PIXELS];

    for (int32_t p = 0; p < pixels; p++)
        sums[p] = sums_of_window(task, 0, first + p);
    for (int32_t tap = 0; tap < task->taps; tap++) {
        const int32_t *input = (const int32_t *)(task->input + task->offsets[tap]) + first;
        int8x16_t x[SDOT_PIXELS];
        for (int32_t p = 0; p < pixels; p++)
            x[p] = vreinterpretq_s8_s32(vld1q_dup_s32(input + p));
        ONE_GROUP(0);
    }
    for (int32_t p = 0; p < pixels; p++)
        sums_store(task->sums + (first + p) * ATOM, &sums[p]);
}

#define TILE(pixels)                                                                                                   \
    static void picture_##pixels(const segment_task *task, int32_t first) { sdot_picture(task, first, pixels); }
TILE(1)
TILE(2)
TILE(3)
TILE(4)
TILE(5)
TILE(6)

typedef void (*tile_function)(const segment_task *task, int32_t first);

/* As many tiles as necessary, all of nearly the same size; tiles[n - 1] is for n pixels. */
static void sdot_segment(const segment_task *task, const tile_function *tiles)
{
    int32_t count = divide_up(task->pixels, SDOT_PIXELS);
    for (int32_t part = 0; part < count; part++) {
        int32_t first = part * task->pixels / count, end = (part + 1) * task->pixels / count;
        tiles[end - first - 1](task, first);
    }
}

static const tile_function picture_tiles[] = {picture_1, picture_2, picture_3, picture_4, picture_5, picture_6};

/* Sums of the inputs under the window. */
static void sdot_window(const window_task *task)
{
    const int8x16_t ones = vdupq_n_s8(1);
    int8_t last[ATOM];

    for (int32_t i = 0; i < ATOM; i++)
        last[i] = i < task->last_lanes;
    const int8x16_t last_ones = vld1q_s8(last);
    for (int32_t pixel = 0; pixel < task->pixels; pixel++) {
        const uint8_t *input = task->input + pixel * task->pixel_step;
        int32x4_t sums = vdupq_n_s32(0);
        int32_t tap = 0;
        if (task->is_picture) {
            for (; tap < task->taps; tap++) {
                int32x4_t four = vsetq_lane_s32(*(const int32_t *)(input + task->offsets[tap]), vdupq_n_s32(0), 0);
                sums = vdotq_s32(sums, vreinterpretq_s8_s32(four), ones);
            }
        } else {
            for (; tap < task->full_taps; tap++)
                sums = vdotq_s32(sums, vld1q_s8((const int8_t *)input + task->offsets[tap]), ones);
            for (; tap < task->taps; tap++)
                sums = vdotq_s32(sums, vld1q_s8((const int8_t *)input + task->offsets[tap]), last_ones);
        }
        task->window[pixel] = vaddvq_s32(sums);
    }
}

static void narrow_depthwise(const depthwise_task *task)
{
    depthwise_of(task, 1);
}
