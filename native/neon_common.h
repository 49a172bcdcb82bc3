/* What the three sets of kernels for aarch64 share: the chain, maps, pooling, the start of sums. */
#include <arm_neon.h>

#include "internal.h"

/* ---------------------------------------------------------------------------------------------- sums */

/* 16 sums of one pixel. */
typedef struct {
    int32x4_t part[4];
} sums16;

ALWAYS_INLINE sums16 sums_start(const int32_t *addends)
{
    sums16 sums;
    for (int32_t i = 0; i < 4; i++)
        sums.part[i] = addends ? vld1q_s32(addends + 4 * i) : vdupq_n_s32(0);
    return sums;
}

/* What the sums of one pixel begin with: factors * window + addends. */
ALWAYS_INLINE sums16 sums_of_window(const segment_task *task, int32_t atom, int32_t pixel)
{
    sums16 sums = sums_start(task->addends ? task->addends + atom * ATOM : NULL);
    if (task->window)
        for (int32_t i = 0; i < 4; i++)
            sums.part[i] = vmlaq_n_s32(sums.part[i], vld1q_s32(task->factors + atom * ATOM + 4 * i), task->window[pixel]);
    return sums;
}

ALWAYS_INLINE void sums_store(int32_t *at, const sums16 *sums)
{
    for (int32_t i = 0; i < 4; i++)
        vst1q_s32(at + 4 * i, sums->part[i]);
}

/* ---------------------------------------------------------------------------------------------- depthwise */

/* [tap][16 channels], int16, corrections included */
static int64_t strip_bytes(int32_t width)
{
    return (int64_t)width * ATOM * (int64_t)sizeof(int16_t);
}

static void store_strip(uint8_t *packed, int32_t width, const int16_t *weights, const int32_t *corrections)
{
    for (int32_t i = 0; i < width * ATOM; i++)
        ((int16_t *)packed)[i] = (int16_t)(weights[i] + corrections[i % ATOM]);
}

typedef struct {
    int16x8_t low, high;
} wide16;

ALWAYS_INLINE wide16 load_wide(const uint8_t *at, const int32_t input_bytes)
{
    wide16 x;
    if (input_bytes == 2) {
        x.low = vld1q_s16((const int16_t *)at);
        x.high = vld1q_s16((const int16_t *)at + 8);
    } else {
        int8x16_t bytes = vld1q_s8((const int8_t *)at);
        x.low = vmovl_s8(vget_low_s8(bytes));
        x.high = vmovl_high_s8(bytes);
    }
    return x;
}

ALWAYS_INLINE void multiply_add(sums16 *sums, wide16 x, wide16 w)
{
    sums->part[0] = vmlal_s16(sums->part[0], vget_low_s16(x.low), vget_low_s16(w.low));
    sums->part[1] = vmlal_high_s16(sums->part[1], x.low, w.low);
    sums->part[2] = vmlal_s16(sums->part[2], vget_low_s16(x.high), vget_low_s16(w.high));
    sums->part[3] = vmlal_high_s16(sums->part[3], x.high, w.high);
}

/* `width` is a constant for the usual kernels (0: as the widths say), and `count` pixels share their inputs. */
ALWAYS_INLINE void depthwise_pixels(const depthwise_task *task, int32_t first, const int32_t count, const int32_t width,
                                    const int32_t input_bytes)
{
    const int32_t step = ATOM * input_bytes;
    const int16_t *weights = (const int16_t *)task->weights;
    sums16 sums[4];

    for (int32_t p = 0; p < count; p++)
        sums[p] = sums_start(task->addends);
    for (int32_t strip = 0; strip < task->strips; strip++) {
        const uint8_t *input = task->input + task->offsets[strip] + first * step;
        const int32_t taps = width ? width : task->widths[strip];
        for (int32_t i = 0; i < taps + count - 1; i++) {
            wide16 x = load_wide(input + i * step, input_bytes);
            for (int32_t p = 0; p < count; p++)
                if (i - p >= 0 && i - p < taps)
                    multiply_add(&sums[p], x, load_wide((const uint8_t *)(weights + (i - p) * ATOM), 2));
        }
        weights += taps * ATOM;
    }
    for (int32_t p = 0; p < count; p++)
        sums_store(task->sums + (first + p) * ATOM, &sums[p]);
}

ALWAYS_INLINE void depthwise_any(const depthwise_task *task, const int32_t width, const int32_t input_bytes)
{
    int32_t pixel = 0;
    for (; pixel + 4 <= task->pixels; pixel += 4)
        depthwise_pixels(task, pixel, 4, width, input_bytes);
    for (; pixel < task->pixels; pixel++)
        depthwise_pixels(task, pixel, 1, width, input_bytes);
}

ALWAYS_INLINE void depthwise_of(const depthwise_task *task, const int32_t input_bytes)
{
    int32_t is_regular = 1;
    for (int32_t strip = 1; strip < task->strips; strip++)
        is_regular &= task->widths[strip] == task->widths[0];
    if (is_regular && task->widths[0] == 3)
        depthwise_any(task, 3, input_bytes);
    else if (is_regular && task->widths[0] == 5)
        depthwise_any(task, 5, input_bytes);
    else
        depthwise_any(task, 0, input_bytes);
}

/* ---------------------------------------------------------------------------------------------- chain */

enum { NV = 8, PX = 1, FUSED = 1, NF = 4 };
typedef struct {
    int32x4_t part[4];
} ints;
typedef float64x2_t doubles;
typedef float32x4_t floats;

#define floats_set(value) vdupq_n_f32(value)
#define floats_load(at) vld1q_f32(at)
#define floats_store(at, x) vst1q_f32(at, x)
#define floats_add(a, b) vaddq_f32(a, b)
#define floats_multiply(a, b) vmulq_f32(a, b)
#define floats_multiply_add(a, b, c) vfmaq_f32(c, a, b)

#define FOURS_OF_FLOATS
typedef float32x4_t float_four;
#define four_load(at) vld1q_f32(at)
#define four_multiply_add(w, four, lane, sum)                                                                          \
    ((lane) == 0   ? vfmaq_laneq_f32(sum, w, four, 0)                                                                  \
     : (lane) == 1 ? vfmaq_laneq_f32(sum, w, four, 1)                                                                  \
     : (lane) == 2 ? vfmaq_laneq_f32(sum, w, four, 2)                                                                  \
                   : vfmaq_laneq_f32(sum, w, four, 3))

#define doubles_set(value) vdupq_n_f64(value)
#define doubles_load(at) vld1q_f64(at)
#define doubles_add(a, b) vaddq_f64(a, b)
#define doubles_subtract(a, b) vsubq_f64(a, b)
#define doubles_multiply(a, b) vmulq_f64(a, b)
#define doubles_multiply_add(a, b, c) vfmaq_f64(c, a, b)
#define doubles_max(a, b) vmaxq_f64(a, b)
#define doubles_min(a, b) vminq_f64(a, b)

ALWAYS_INLINE void widen_ints(int32x4_t x, doubles *out)
{
    out[0] = vcvtq_f64_s64(vmovl_s32(vget_low_s32(x)));
    out[1] = vcvtq_f64_s64(vmovl_high_s32(x));
}

ALWAYS_INLINE void load_sums(const int32_t *at, doubles *out)
{
    for (int32_t i = 0; i < 4; i++)
        widen_ints(vld1q_s32(at + 4 * i), out + 2 * i);
}

ALWAYS_INLINE void load_bytes(const int8_t *at, doubles *out)
{
    int8x16_t bytes = vld1q_s8(at);
    int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_high_s8(bytes);
    widen_ints(vmovl_s16(vget_low_s16(low)), out);
    widen_ints(vmovl_high_s16(low), out + 2);
    widen_ints(vmovl_s16(vget_low_s16(high)), out + 4);
    widen_ints(vmovl_high_s16(high), out + 6);
}

ALWAYS_INLINE ints low_words(const doubles *x)
{
    ints words;
    for (int32_t i = 0; i < 4; i++)
        words.part[i] = vuzp1q_s32(vreinterpretq_s32_f64(x[2 * i]), vreinterpretq_s32_f64(x[2 * i + 1]));
    return words;
}

ALWAYS_INLINE void store_bytes(int8_t *at, const ints *x, int32_t low, int32_t high)
{
    int16x8_t a = vqmovn_high_s32(vqmovn_s32(x->part[0]), x->part[1]);
    int16x8_t b = vqmovn_high_s32(vqmovn_s32(x->part[2]), x->part[3]);
    int8x16_t bytes = vqmovn_high_s16(vqmovn_s16(a), b);
    vst1q_s8(at, vminq_s8(vmaxq_s8(bytes, vdupq_n_s8((int8_t)low)), vdupq_n_s8((int8_t)high)));
}

/* Through registers: a load of 16 bytes waits long for stores of 4 that it covers. */
ALWAYS_INLINE uint32x4_t gather(const uint32_t *table, uint64x2_t index)
{
    const uint64_t low = vgetq_lane_u64(index, 0), high = vgetq_lane_u64(index, 1);
    uint32x4_t entries = vld1q_dup_u32(table + (uint32_t)low);
    entries = vld1q_lane_u32(table + (low >> 32), entries, 1);
    entries = vld1q_lane_u32(table + (uint32_t)high, entries, 2);
    return vld1q_lane_u32(table + (high >> 32), entries, 3);
}

ALWAYS_INLINE void look_up(int8_t *target, ints x, const openrknn_chain *chain)
{
    const int32x4_t low = vdupq_n_s32(chain->table_low), high = vdupq_n_s32(chain->table_high);
    const int32x4_t shift = vdupq_n_s32(-chain->table_shift);
    const uint32x4_t mask = vdupq_n_u32((1u << chain->table_shift) - 1);
    uint32x4_t index[4], place[4];
    uint16x4_t halves[4];

    for (int32_t i = 0; i < 4; i++) {
        int32x4_t held = vsubq_s32(vminq_s32(vmaxq_s32(x.part[i], low), high), low);
        place[i] = vandq_u32(vreinterpretq_u32_s32(held), mask);
        index[i] = vshlq_u32(vreinterpretq_u32_s32(held), shift);
    }
    for (int32_t i = 0; i < 4; i++) {
        uint32x4_t entry = gather(chain->table, vreinterpretq_u64_u32(index[i]));
        uint32x4_t is_after = vcgeq_u32(place[i], vshrq_n_u32(entry, 16));
        halves[i] = vmovn_u32(vbslq_u32(is_after, vshrq_n_u32(entry, 8), entry));
    }
    uint8x8_t a = vmovn_u16(vcombine_u16(halves[0], halves[1])), b = vmovn_u16(vcombine_u16(halves[2], halves[3]));
    vst1q_u8((uint8_t *)target, vcombine_u8(a, b));
}

ALWAYS_INLINE void halves_to_floats(const uint8_t *at, float32 *out)
{
    float16x8_t halves = vreinterpretq_f16_u8(vld1q_u8(at));
    vst1q_f32(out, vcvt_f32_f16(vget_low_f16(halves)));
    vst1q_f32(out + 4, vcvt_high_f32_f16(halves));
}

ALWAYS_INLINE void floats_to_halves(const float32 *at, uint16_t *out)
{
    float16x8_t halves = vcvt_high_f16_f32(vcvt_f16_f32(vld1q_f32(at)), vld1q_f32(at + 4));
    vst1q_u16(out, vreinterpretq_u16_f16(halves));
}

ALWAYS_INLINE void turn_floats(const float32 *from, float32 *to)
{
    for (int32_t row = 0; row < 16; row += 4)
        for (int32_t column = 0; column < 16; column += 4) {
            const float32x4x4_t four = {{vld1q_f32(from + row * 16 + column), vld1q_f32(from + (row + 1) * 16 + column),
                                         vld1q_f32(from + (row + 2) * 16 + column), vld1q_f32(from + (row + 3) * 16 + column)}};
            float32 turned[16];
            vst4q_f32(turned, four); /* interleaves them: the first of each, the second of each, ... */
            for (int32_t i = 0; i < 4; i++)
                vst1q_f32(to + (column + i) * 16 + row, vld1q_f32(turned + 4 * i));
        }
}

/* ---------------------------------------------------------------------------------------------- products of matrices */

#define PRODUCT_OFFSET 0
typedef int8x16x2_t product_bytes;
typedef int32x4_t product_sums;

ALWAYS_INLINE product_bytes product_load(const uint8_t *at)
{
    return (product_bytes){{vld1q_s8((const int8_t *)at), vld1q_s8((const int8_t *)at + 16)}};
}

ALWAYS_INLINE product_bytes product_load_nibbles(const uint8_t *at)
{
    const uint8x16_t pairs = vld1q_u8(at);
    const int8x16_t lower = vshrq_n_s8(vreinterpretq_s8_u8(vshlq_n_u8(pairs, 4)), 4);
    const int8x16_t upper = vshrq_n_s8(vreinterpretq_s8_u8(pairs), 4);
    return vzipq_s8(lower, upper);
}

ALWAYS_INLINE void product_unpack(const uint8_t *at, int8_t *out)
{
    const uint8x8_t pairs = vld1_u8(at);
    const int8x8_t lower = vshr_n_s8(vreinterpret_s8_u8(vshl_n_u8(pairs, 4)), 4);
    const int8x8x2_t both = vzip_s8(lower, vshr_n_s8(vreinterpret_s8_u8(pairs), 4));
    vst1_s8(out, both.val[0]);
    vst1_s8(out + 8, both.val[1]);
}

#define product_none() vdupq_n_s32(0)

ALWAYS_INLINE product_sums product_add(product_sums sums, product_bytes a, product_bytes b)
{
    for (int32_t i = 0; i < 2; i++) {
#ifdef __ARM_FEATURE_DOTPROD
        sums = vdotq_s32(sums, a.val[i], b.val[i]);
#else
        sums = vpadalq_s16(sums, vmull_s8(vget_low_s8(a.val[i]), vget_low_s8(b.val[i])));
        sums = vpadalq_s16(sums, vmull_high_s8(a.val[i], b.val[i]));
#endif
    }
    return sums;
}

#define product_total(sums) vaddvq_s32(sums)

#include "chain_template.h"
#include "neon_singles.h"
#include "neon_halves.h"
#include "half_dpu.h"
#include "half_pixel.h"
#include "neon_floats.h"
#include "float_template.h"
#include "general_template.h"
#include "pool_template.h"
#include "product_template.h"
#include "product_floats.h"

/* Four times 64 entries; TBL gives 0, and TBX keeps what is there, for indices outside their part. */
static void map(const int8_t *table, const uint8_t *source, uint8_t *target, int64_t bytes)
{
    const uint8_t *entries = (const uint8_t *)table;
    uint8x16x4_t part[4];
    int64_t at = 0;

    for (int32_t i = 0; i < 4; i++)
        part[i] = vld1q_u8_x4(entries + 64 * i);
    for (; at + ATOM <= bytes; at += ATOM) {
        uint8x16_t x = veorq_u8(vld1q_u8(source + at), vdupq_n_u8(0x80));
        uint8x16_t result = vqtbl4q_u8(part[0], x);
        result = vqtbx4q_u8(result, part[1], vsubq_u8(x, vdupq_n_u8(64)));
        result = vqtbx4q_u8(result, part[2], vsubq_u8(x, vdupq_n_u8(128)));
        result = vqtbx4q_u8(result, part[3], vsubq_u8(x, vdupq_n_u8(192)));
        vst1q_u8(target + at, result);
    }
    for (; at < bytes; at++)
        target[at] = entries[source[at] ^ 0x80];
}
