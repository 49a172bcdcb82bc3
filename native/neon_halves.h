/* Floats of 32 and 16 bits on aarch64: what half_dpu.h and pool_template.h need. */
#include "lane_lookup.h"

#define floats_subtract(a, b) vsubq_f32(a, b)
#define floats_divide(a, b) vdivq_f32(a, b)
#define floats_abs(a) vabsq_f32(a)
#define floats_negate(a) vnegq_f32(a)
#define floats_floor(a) vrndmq_f32(a)
#define floats_ceil(a) vrndpq_f32(a)
#define floats_quiet(x) vbslq_f32(vceqq_f32(x, x), x, vreinterpretq_f32_u32(vdupq_n_u32(0x7fc00000)))
#define floats_if_less(a, b, yes, no) vbslq_f32(vcltq_f32(a, b), yes, no)

ALWAYS_INLINE float32x4_t floats_larger(float32x4_t a, float32x4_t b)
{
    return vbslq_f32(vornq_u32(vcgtq_f32(a, b), vceqq_f32(a, a)), a, b);
}

ALWAYS_INLINE float32x4_t floats_smaller(float32x4_t a, float32x4_t b)
{
    return vbslq_f32(vornq_u32(vcltq_f32(a, b), vceqq_f32(a, a)), a, b);
}

/* ---------------------------------------------------------------------------------------------- fp16 */

ALWAYS_INLINE void halves_load(const uint8_t *const *from, floats *out)
{
    const float16x8_t a = vreinterpretq_f16_u8(vld1q_u8(from[0])), b = vreinterpretq_f16_u8(vld1q_u8(from[1]));
    out[0] = vcvt_f32_f16(vget_low_f16(a));
    out[1] = vcvt_high_f32_f16(a);
    out[2] = vcvt_f32_f16(vget_low_f16(b));
    out[3] = vcvt_high_f32_f16(b);
}

#define halves_same(bits) vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(bits)))

typedef struct {
    uint16x8_t part[2];
} half_lanes;

ALWAYS_INLINE half_lanes half_lanes_load(const uint16_t *at)
{
    return (half_lanes){{vld1q_u16(at), vld1q_u16(at + 8)}};
}

ALWAYS_INLINE void half_lanes_store(uint8_t *low, uint8_t *high, half_lanes x)
{
    vst1q_u8(low, vreinterpretq_u8_u16(x.part[0]));
    vst1q_u8(high, vreinterpretq_u8_u16(x.part[1]));
}

ALWAYS_INLINE half_lanes half_lanes_merge(half_lanes x, half_lanes kept, half_lanes filling)
{
    for (int32_t i = 0; i < 2; i++)
        x.part[i] = vorrq_u16(vandq_u16(x.part[i], kept.part[i]), filling.part[i]);
    return x;
}

/* fp16 with one NaN for all. */
ALWAYS_INLINE uint16x8_t quiet_halves(float32x4_t low, float32x4_t high)
{
    const uint16x8_t bits = vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(low), high));
    const uint16x8_t is_nan = vcgtq_u16(vbicq_u16(bits, vdupq_n_u16(0x8000)), vdupq_n_u16(0x7c00));
    return vbslq_u16(is_nan, vdupq_n_u16(0x7e00), bits);
}

#define half_lanes_of(x) ((half_lanes){{quiet_halves((x)[0], (x)[1]), quiet_halves((x)[2], (x)[3])}})

/* ---------------------------------------------------------------------------------------------- an atom of fp16 */

#define OWN_EIGHTS
typedef struct {
    float32x4_t part[2];
} eight;

ALWAYS_INLINE eight eight_load(const uint8_t *at)
{
    const float16x8_t halves = vreinterpretq_f16_u8(vld1q_u8(at));
    return (eight){{vcvt_f32_f16(vget_low_f16(halves)), vcvt_high_f32_f16(halves)}};
}

#define eight_set(value) ((eight){{vdupq_n_f32(value), vdupq_n_f32(value)}})
#define eight_add(a, b) ((eight){{vaddq_f32((a).part[0], (b).part[0]), vaddq_f32((a).part[1], (b).part[1])}})
#define eight_multiply(a, b) ((eight){{vmulq_f32((a).part[0], (b).part[0]), vmulq_f32((a).part[1], (b).part[1])}})
#define eight_larger(a, b) ((eight){{floats_larger((a).part[0], (b).part[0]), floats_larger((a).part[1], (b).part[1])}})
#define eight_smaller(a, b) ((eight){{floats_smaller((a).part[0], (b).part[0]), floats_smaller((a).part[1], (b).part[1])}})
#define eight_store(at, x) vst1q_u8(at, vreinterpretq_u8_u16(quiet_halves((x).part[0], (x).part[1])))

/* ---------------------------------------------------------------------------------------------- tables */

#define OWN_LOOK_UP
/* Between the ends of the tables. */
ALWAYS_INLINE float64x2_t look_up_two(const lane_lookup *lookup, float64x2_t value)
{
    const uint64x2_t is_low = vcltq_f64(value, vdupq_n_f64(lookup->lo_start));
    const float64x2_t start = vbslq_f64(is_low, vdupq_n_f64(lookup->le_start), vdupq_n_f64(lookup->lo_start));
    const float64x2_t scale = vbslq_f64(is_low, vdupq_n_f64(lookup->le_scale), vdupq_n_f64(lookup->lo_scale));
    float64x2_t place = vmulq_f64(vsubq_f64(value, start), scale);
    place = vminnmq_f64(vmaxnmq_f64(place, vdupq_n_f64(0)), vdupq_n_f64(ENTRIES - 1)); /* of NaN 0 */
    const int64x2_t index = vcvtq_s64_f64(vminq_f64(place, vdupq_n_f64(ENTRIES - 2)));
    const float64x2_t fraction = vsubq_f64(place, vcvtq_f64_s64(index));
    const int64x2_t at = vaddq_s64(index, vbicq_s64(vdupq_n_s64(ENTRIES), vreinterpretq_s64_u64(is_low)));
    const int64x2_t a = vld1q_s64(lookup->entries + vgetq_lane_s64(at, 0)), b = vld1q_s64(lookup->entries + vgetq_lane_s64(at, 1));
    const float64x2_t low = vcvtq_f64_s64(vuzp1q_s64(a, b)), high = vcvtq_f64_s64(vuzp2q_s64(a, b));
    return vaddq_f64(low, vmulq_f64(vsubq_f64(high, low), fraction));
}

/* And beyond them. */
ALWAYS_INLINE float64x2_t beyond_two(const lane_lookup *lookup, float64x2_t value, float64x2_t y)
{
    const float64x2_t le_start = vdupq_n_f64(lookup->le_start), lo_end = vdupq_n_f64(lookup->lo_end);
    const float64x2_t below = vmulq_n_f64(vsubq_f64(value, le_start), lookup->below);
    const float64x2_t above = vmulq_n_f64(vsubq_f64(value, lo_end), lookup->above);
    y = vbslq_f64(vcltq_f64(value, le_start), vaddq_f64(vdupq_n_f64(lookup->first), below), y);
    return vbslq_f64(vcgtq_f64(value, lo_end), vaddq_f64(vdupq_n_f64(lookup->last), above), y);
}

/* `count` numbers, a multiple of 4. */
static void look_up_doubles(const lane_lookup *given, float32 *x, int32_t count)
{
    const lane_lookup lookup = *given;
    /* Numbers in between as floats: what is near an end may be taken for beyond it, never the other way round. */
    const float32x4_t least = vdupq_n_f32(nextafterf((float32)lookup.le_start, INFINITY));
    const float32x4_t most = vdupq_n_f32(nextafterf((float32)lookup.lo_end, -INFINITY));

    for (int32_t i = 0; i < count; i += 4) {
        const float32x4_t value = vld1q_f32(x + i);
        const float64x2_t low = vcvt_f64_f32(vget_low_f32(value)), high = vcvt_high_f64_f32(value);
        const uint32x4_t is_beyond = vorrq_u32(vcltq_f32(value, least), vcgtq_f32(value, most));
        float64x2_t y = look_up_two(&lookup, low), z = look_up_two(&lookup, high);
        if (vmaxvq_u32(is_beyond)) {
            y = beyond_two(&lookup, low, y);
            z = beyond_two(&lookup, high, z);
        }
        vst1q_f32(x + i, vcvt_high_f32_f64(vcvt_f32_f64(y), z));
    }
}

/* lane_lookup.h says why and when. */
enum { AT_ONCE = 16 };

typedef struct {
    uint32x4_t least, most; /* of the bits of all places but their signs; `least`: less 1 */
} place_range;

ALWAYS_INLINE int32x4_t two_entries(const lane_lookup *lookup, uint32_t place)
{
    const uintptr_t base = (uintptr_t)(lookup->entries + ENTRIES) - (uintptr_t)ROUNDING_BITS * sizeof(int64_t);
    return vld1q_s32((const int32_t *)(base + (uintptr_t)place * sizeof(int64_t)));
}

#define EACH_FOUR _Pragma("GCC unroll 4") for (int32_t j = 0; j < AT_ONCE / 4; j++)

/* `is_flat`: below the tables their first number goes on. One step for all 16 numbers after the other: each waits for the last. */
ALWAYS_INLINE void look_up_singles(const lane_lookup *given, float32 *x, int32_t count, const int32_t is_flat)
{
    const lane_lookup lookup = *given;
    const float32x4_t le_scale = vdupq_n_f32((float32)lookup.le_scale), lo_scale = vdupq_n_f32((float32)lookup.lo_scale);
    const float32x4_t rounding = vdupq_n_f32(ROUNDING), last = vdupq_n_f32(ROUNDING + (PIECES - 1));
    const uint32_t least = 2 * float_to_bits(SMALLEST_PLACE) - 1, most = 2 * float_to_bits(PIECES);

    for (int32_t i = 0; i < count; i += AT_ONCE) {
        place_range range = {vdupq_n_u32(UINT32_MAX), vdupq_n_u32(0)};
        float32x4_t place[AT_ONCE / 4], part[AT_ONCE / 4], y[AT_ONCE / 4];
        uint32x4_t is_low[AT_ONCE / 4], at[AT_ONCE / 4];
        int32x4_t left[AT_ONCE / 4], right[AT_ONCE / 4];
        EACH_FOUR
        {
            const float32x4_t value = vld1q_f32(x + i + 4 * j);
            is_low[j] = vcltzq_f32(value);
            place[j] = vmulq_f32(value, vbslq_f32(is_low[j], le_scale, lo_scale));
            if (is_flat) { /* what goes on is first + (x - le_start) * 0: no number for an infinite one */
                const uint32x4_t is_infinite = vceqq_f32(place[j], vdupq_n_f32(-INFINITY));
                range.most = vmaxq_u32(range.most, is_infinite);
                place[j] = vmaxq_f32(place[j], vdupq_n_f32(-PIECES));
            }
        }
        EACH_FOUR
        {
            /* The nearest entry but the ends, and an entry where there is none: beyond the tables, and of what is no number. */
            float32x4_t nearest = vminnmq_f32(vaddq_f32(place[j], rounding), last);
            if (!is_flat)
                nearest = vmaxq_f32(nearest, vdupq_n_f32(ROUNDING - (PIECES - 1)));
            part[j] = vsubq_f32(place[j], vsubq_f32(nearest, rounding));
            at[j] = vaddq_u32(vreinterpretq_u32_f32(nearest), is_low[j]);
        }
        /* Of a number before the nearest entry, the piece before it counts; pieces of the first table are one further off. */
        EACH_FOUR at[j] = vaddq_u32(at[j], vcltzq_f32(part[j]));
        EACH_FOUR
        {
            const uint64x2_t pairs = vreinterpretq_u64_u32(at[j]);
            const uint64_t first = vgetq_lane_u64(pairs, 0), second = vgetq_lane_u64(pairs, 1);
            const int32x4_t a = two_entries(&lookup, (uint32_t)first), b = two_entries(&lookup, (uint32_t)(first >> 32));
            const int32x4_t c = two_entries(&lookup, (uint32_t)second), d = two_entries(&lookup, (uint32_t)(second >> 32));
            const int32x4_t ab = vuzp1q_s32(a, b), cd = vuzp1q_s32(c, d); /* of 64 bits the lower half */
            left[j] = vuzp1q_s32(ab, cd);
            right[j] = vuzp2q_s32(ab, cd);
        }
        EACH_FOUR
        {
            const uint32x4_t bits = vshlq_n_u32(vreinterpretq_u32_f32(place[j]), 1);
            range.least = vminq_u32(range.least, vsubq_u32(bits, vdupq_n_u32(1)));
            range.most = vmaxq_u32(range.most, bits);
        }
        EACH_FOUR
        {
            const float32x4_t slope = vcvtq_f32_s32(vsubq_s32(right[j], left[j]));
            y[j] = vfmaq_f32(vcvtq_f32_s32(vbslq_s32(vcltzq_f32(part[j]), right[j], left[j])), slope, part[j]);
        }
        if (vminvq_u32(range.least) < least || vmaxvq_u32(range.most) > most) {
            look_up_doubles(&lookup, x + i, AT_ONCE);
            continue;
        }
        EACH_FOUR vst1q_f32(x + i + 4 * j, y[j]);
    }
}

/* `count` numbers, a multiple of 16. */
static void look_up_lanes(const lane_lookup *lookup, float32 *x, int32_t count)
{
    if (!meets_at_zero(lookup))
        look_up_doubles(lookup, x, count);
    else if (lookup->below == 0)
        look_up_singles(lookup, x, count, 1);
    else
        look_up_singles(lookup, x, count, 0);
}
