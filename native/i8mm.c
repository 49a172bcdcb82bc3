/*
 * Kernels for aarch64 with the matrix instructions for int8 (ARMv8.6; Neoverse V1 and N2, Cortex-A510 and A710, ...).
 * SMMLA multiplies 2 pixels by 8 inputs with 2 channels by 8 inputs. Pictures, whose taps are 4 inputs wide, use SDOT.
 */
#include "dotprod_common.h"
#include "dotprod_depthwise.h"

enum { PAIRS = 3 };

/* [tap][half of the inputs][pair of channels][2 channels][8 inputs] */
static int64_t block_bytes(int32_t taps, int32_t is_picture)
{
    return is_picture ? sdot_block_bytes(taps, is_picture) : (int64_t)taps * ATOM * ATOM;
}

static void store(uint8_t *block, int32_t tap, int32_t is_picture, const int16_t *weights)
{
    if (is_picture) {
        sdot_store(block, tap, is_picture, weights);
        return;
    }
    for (int32_t half = 0; half < 2; half++)
        for (int32_t o = 0; o < ATOM; o++)
            for (int32_t i = 0; i < 8; i++)
                block[((int64_t)tap * 2 + half) * 8 * ATOM + o * 8 + i] = (uint8_t)weights[o * ATOM + half * 8 + i];
}

/* `pairs` pairs of pixels; the last pixel may be beyond the end, where nothing is stored. */
ALWAYS_INLINE void tile(const segment_task *task, int32_t first, const int32_t pairs, int32_t pixels)
{
    const int8_t *weights = (const int8_t *)task->weights;
    tile_constants *k = task->constants;
    int32x4_t sums[PAIRS][8];

    for (int32_t p = 0; p < pairs; p++)
        for (int32_t c = 0; c < 8; c++)
            sums[p][c] = vdupq_n_s32(0);
    for (int32_t tap = 0; tap < task->taps; tap++) {
        const int8_t *input = (const int8_t *)task->input + task->offsets[tap] + first * ATOM;
        int8x16_t x[PAIRS][2];
        for (int32_t p = 0; p < pairs; p++) {
            int64x2_t a = vreinterpretq_s64_s8(vld1q_s8(input + 2 * p * ATOM));
            int64x2_t b = vreinterpretq_s64_s8(vld1q_s8(input + at_most(2 * p + 1, pixels - 1) * ATOM));
            x[p][0] = vreinterpretq_s8_s64(vzip1q_s64(a, b));
            x[p][1] = vreinterpretq_s8_s64(vzip2q_s64(a, b));
        }
        for (int32_t half = 0; half < 2; half++, weights += 8 * ATOM)
            for (int32_t c = 0; c < 8; c++) {
                const int8x16_t w = vld1q_s8(weights + c * ATOM);
                for (int32_t p = 0; p < pairs; p++)
                    sums[p][c] = vmmlaq_s32(sums[p][c], x[p][half], w);
            }
    }
    for (int32_t pixel = 0; pixel < pixels; pixel++) {
        const int32_t *window = task->window ? task->window + first + pixel : NULL;
        const int32x4_t *pair = sums[pixel / 2];
        int32x4_t total[1][4];
        for (int32_t i = 0; i < 4; i++) {
            int64x2_t a = vreinterpretq_s64_s32(pair[2 * i]), b = vreinterpretq_s64_s32(pair[2 * i + 1]);
            int64x2_t four = pixel % 2 ? vzip2q_s64(a, b) : vzip1q_s64(a, b);
            total[0][i] = vaddq_s32(vld1q_s32(k->addends + 4 * i), vreinterpretq_s32_s64(four));
            if (k->windows == WINDOW_FLOAT)
                total[0][i] = vreinterpretq_s32_f32(vfmaq_f32(vreinterpretq_f32_s32(total[0][i]),
                                                              vreinterpretq_f32_s32(vld1q_s32(k->factors + 4 * i)),
                                                              vreinterpretq_f32_s32(vld1q_dup_s32(window))));
            else if (window)
                total[0][i] = vmlaq_s32(total[0][i], vld1q_s32(k->factors + 4 * i), vld1q_dup_s32(window));
        }
        if (k->chain >= 0 && k->chain & CHAIN_LOOKS_UP)
            table_pixel(total[0], k, task->target + (first + pixel) * ATOM);
        else if (k->chain >= 0)
            fused_pixels(total, 1, 1, k, k->chain, task->target + (first + pixel) * ATOM);
        else
            for (int32_t i = 0; i < 4; i++)
                vst1q_s32(task->sums + (first + pixel) * ATOM + 4 * i, total[0][i]);
    }
}

/* As many tiles as necessary, all of nearly the same number of pairs: a tile of one pair loads as much as it multiplies. */
static void segment(const segment_task *task)
{
    if (task->is_picture) {
        chained_segment(task, picture_tiles);
        return;
    }
    const int32_t pairs = divide_up(task->pixels, 2), count = divide_up(pairs, PAIRS);
    for (int32_t part = 0, first = 0; part < count; part++) {
        const int32_t next = 2 * ((part + 1) * pairs / count), pixels = at_most(next, task->pixels) - first;
        if (pixels > 4)
            tile(task, first, 3, pixels);
        else if (pixels > 2)
            tile(task, first, 2, pixels);
        else
            tile(task, first, 1, pixels);
        first = next;
    }
}

static int32_t fuses_plain(const openrknn_chain *chain, int64_t limit, int32_t channels)
{
    return chain->flags & OPENRKNN_CHAIN_ADD ? 0 : fuses_chain(chain, limit, channels);
}

const kernel_set kernels_i8mm = {
    .name = "i8mm",
    .products = 80,
    .float_products = 10,
    .needs = OPENRKNN_CPU_NEON | OPENRKNN_CPU_DOTPROD | OPENRKNN_CPU_I8MM,
    .input_bytes = 1,
    .block = 1,
    .by_row = 1,
    .block_bytes = block_bytes,
    .store = store,
    .segment = segment,
    .fuses = fuses_plain,
    .prepare = prepare_tiles,
    .window = sdot_window,
    .depthwise = narrow_depthwise,
    .zip_groups = zip_groups,
    .depthwise_groups = depthwise_groups,
    KERNELS_OF_TEMPLATES,
};
