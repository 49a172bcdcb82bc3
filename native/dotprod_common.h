/* Convolutions with SDOT: 4 channels by 4 inputs, times 4 inputs of a pixel. */
#include <math.h>

#include "neon_common.h"
#include "dotprod_tile.h"

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

typedef void (*tile_function)(const segment_task *task, int32_t first, int32_t count);

/* As many tiles as necessary, all of nearly the same size; tiles[n - 1] is for n pixels. */
static void sdot_segment(const segment_task *task, const tile_function *tiles)
{
    const int32_t count = divide_up(task->pixels, TILE_PIXELS), usual = task->pixels / count;
    const int32_t larger = task->pixels - usual * count;
    if (larger)
        tiles[usual](task, 0, larger);
    tiles[usual - 1](task, larger * (usual + 1), count - larger);
}

#define TILES_OF(tile) {tile##_1, tile##_2, tile##_3, tile##_4, tile##_5, tile##_6}
static const tile_function picture_tiles[2][TILE_PIXELS] = {TILES_OF(picture_plain), TILES_OF(picture_table)};

/* The same with tiles[0], or with tiles[1] if the chain has a table. */
static void chained_segment(const segment_task *task, const tile_function tiles[2][TILE_PIXELS])
{
    tile_constants *k = task->constants;
    if (k->chain < 0 || !(k->chain & CHAIN_LOOKS_UP)) {
        sdot_segment(task, tiles[0]);
        return;
    }
    sdot_segment(task, tiles[1]);
    look_up_pending(k, task->target + task->pixels * ATOM);
}

/* Sums of the inputs that taps see at 4 neighbouring pixels. */
ALWAYS_INLINE int32x4_t window_4(const window_task *task, const int8_t *input, int8x16_t last)
{
    const int8x16_t ones = vdupq_n_s8(1);
    int32x4_t sums[4];
    int32_t tap = 0;

    for (int32_t p = 0; p < 4; p++)
        sums[p] = vdupq_n_s32(0);
    for (; tap < task->full_taps; tap++)
        for (int32_t p = 0; p < 4; p++)
            sums[p] = vdotq_s32(sums[p], vld1q_s8(input + task->offsets[tap] + p * ATOM), ones);
    for (; tap < task->taps; tap++)
        for (int32_t p = 0; p < 4; p++)
            sums[p] = vdotq_s32(sums[p], vld1q_s8(input + task->offsets[tap] + p * ATOM), last);
    return vpaddq_s32(vpaddq_s32(sums[0], sums[1]), vpaddq_s32(sums[2], sums[3]));
}

/* The same of one pixel. */
ALWAYS_INLINE int32_t window_1(const window_task *task, const int8_t *input, int8x16_t last)
{
    const int8x16_t ones = vdupq_n_s8(1);
    int32x4_t sums = vdupq_n_s32(0);
    int32_t tap = 0;

    for (; tap < task->full_taps; tap++)
        sums = vdotq_s32(sums, vld1q_s8(input + task->offsets[tap]), ones);
    for (; tap < task->taps; tap++)
        sums = vdotq_s32(sums, vld1q_s8(input + task->offsets[tap]), last);
    return vaddvq_s32(sums);
}

/* Pictures, with 4 bytes for a column: what taps see at `pixels` neighbouring pixels. Vectors begin at every fourth column. */
ALWAYS_INLINE void picture_sums(const window_task *task, const int8_t *input, const int32_t pixels, int32x4_t *sums)
{
    const int8x16_t ones = vdupq_n_s8(1);
    const int32x4_t columns = {0, 1, 2, 3};

    for (int32_t p = 0; p < pixels; p++)
        sums[p] = vdupq_n_s32(0);
    for (int32_t tap = 0; tap < task->taps; tap++)
        for (int32_t column = 0; column < task->run; column += 4) {
            const int8_t *at = input + task->offsets[tap] + column * 4;
            const uint32x4_t counts = vcltq_s32(columns, vdupq_n_s32(task->run - column));
            const int8x16_t some = vandq_s8(ones, vreinterpretq_s8_u32(counts));
            for (int32_t p = 0; p < pixels; p++)
                sums[p] = vdotq_s32(sums[p], vld1q_s8(at + p * task->pixel_step), some);
        }
}

static void picture_window(const window_task *task)
{
    const int8_t *input = (const int8_t *)task->input;
    int32x4_t sums[4];
    int32_t pixel = 0;

    for (; pixel + 4 <= task->pixels; pixel += 4, input += 4 * task->pixel_step) {
        picture_sums(task, input, 4, sums);
        vst1q_s32(task->window + pixel, vpaddq_s32(vpaddq_s32(sums[0], sums[1]), vpaddq_s32(sums[2], sums[3])));
    }
    for (; pixel < task->pixels; pixel++, input += task->pixel_step) {
        picture_sums(task, input, 1, sums);
        task->window[pixel] = vaddvq_s32(sums[0]);
    }
}

/* Sums of the inputs under the window. */
static void sdot_window(const window_task *task)
{
    const int8_t *input = (const int8_t *)task->input;
    int8_t last[ATOM];
    int32_t pixel = 0;

    if (task->is_picture) {
        picture_window(task);
        return;
    }
    for (int32_t i = 0; i < ATOM; i++)
        last[i] = i < task->last_lanes;
    const int8x16_t last_ones = vld1q_s8(last);
    for (; pixel + 4 <= task->pixels; pixel += 4, input += 4 * ATOM)
        vst1q_s32(task->window + pixel, window_4(task, input, last_ones));
    for (; pixel < task->pixels; pixel++, input += ATOM)
        task->window[pixel] = window_1(task, input, last_ones);
}

static void narrow_depthwise(const depthwise_task *task)
{
    depthwise_of(task, 1);
}

#include "dotprod_product.h"
