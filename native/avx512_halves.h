/* Floats of 32 and 16 bits beyond x86_halves.h, with AVX-512: what half_dpu.h and pool_template.h need. */
#include "lane_lookup.h"

#define floats_subtract(a, b) _mm512_sub_ps(a, b)
#define floats_divide(a, b) _mm512_div_ps(a, b)
#define floats_abs(a) _mm512_abs_ps(a)
#define floats_negate(a) _mm512_xor_ps(_mm512_set1_ps(-0.0f), a)
#define floats_floor(a) _mm512_roundscale_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)
#define floats_ceil(a) _mm512_roundscale_ps(a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC)
#define floats_quiet(x) _mm512_castsi512_ps(_mm512_mask_set1_epi32(_mm512_castps_si512(x), _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), 0x7fc00000))
#define floats_if_less(a, b, yes, no) _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), no, yes)

/* MAXPS and MINPS give the second number where the two are equal, or one is NaN: only a NaN of the first is lost. */
ALWAYS_INLINE __m512 floats_larger(__m512 a, __m512 b)
{
    return _mm512_mask_max_ps(a, _mm512_cmp_ps_mask(a, a, _CMP_ORD_Q), a, b);
}

ALWAYS_INLINE __m512 floats_smaller(__m512 a, __m512 b)
{
    return _mm512_mask_min_ps(a, _mm512_cmp_ps_mask(a, a, _CMP_ORD_Q), a, b);
}

/* ---------------------------------------------------------------------------------------------- fp16 */

ALWAYS_INLINE void halves_load(const uint8_t *const *from, floats *out)
{
    const __m256i low = _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)from[0]));
    out[0] = _mm512_cvtph_ps(_mm256_inserti128_si256(low, _mm_loadu_si128((const __m128i *)from[1]), 1));
}

#define halves_same(bits) _mm512_cvtph_ps(_mm256_set1_epi16((int16_t)(bits)))

/* fp16 with one NaN for all. */
ALWAYS_INLINE half_lanes half_lanes_of(const floats *x)
{
    const __mmask16 is_nan = _mm512_cmp_ps_mask(x[0], x[0], _CMP_UNORD_Q);
    return _mm256_mask_mov_epi16(_mm512_cvtps_ph(x[0], _MM_FROUND_TO_NEAREST_INT), is_nan, _mm256_set1_epi16(0x7e00));
}

/* ---------------------------------------------------------------------------------------------- an atom of fp16 */

#define eight_larger(a, b) _mm256_mask_max_ps(a, _mm256_cmp_ps_mask(a, a, _CMP_ORD_Q), a, b)
#define eight_smaller(a, b) _mm256_mask_min_ps(a, _mm256_cmp_ps_mask(a, a, _CMP_ORD_Q), a, b)

ALWAYS_INLINE void eight_store(uint8_t *at, eight x)
{
    const __mmask8 is_nan = _mm256_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    const __m128i halves = _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128((__m128i *)at, _mm_mask_mov_epi16(halves, is_nan, _mm_set1_epi16(0x7e00)));
}

/* ---------------------------------------------------------------------------------------------- tables */

/* Eight numbers between the ends of the tables; MAXPD and MINPD make a NaN a 0. */
ALWAYS_INLINE __m512d look_up_eight(const lane_lookup *lookup, __m512d value)
{
    const __mmask8 is_low = _mm512_cmp_pd_mask(value, _mm512_set1_pd(lookup->lo_start), _CMP_LT_OQ);
    const __m512d start = _mm512_mask_blend_pd(is_low, _mm512_set1_pd(lookup->lo_start), _mm512_set1_pd(lookup->le_start));
    const __m512d scale = _mm512_mask_blend_pd(is_low, _mm512_set1_pd(lookup->lo_scale), _mm512_set1_pd(lookup->le_scale));
    __m512d place = _mm512_mul_pd(_mm512_sub_pd(value, start), scale);
    place = _mm512_min_pd(_mm512_max_pd(place, _mm512_setzero_pd()), _mm512_set1_pd(ENTRIES - 1));
    const __m256i index = _mm512_cvttpd_epi32(_mm512_min_pd(place, _mm512_set1_pd(ENTRIES - 2)));
    const __m512d fraction = _mm512_sub_pd(place, _mm512_cvtepi32_pd(index));
    const __m256i at = _mm256_mask_blend_epi32(is_low, _mm256_add_epi32(index, _mm256_set1_epi32(ENTRIES)), index);
    const __m512d low = _mm512_cvtepi64_pd(_mm512_i32gather_epi64(at, lookup->entries, 8));
    const __m512d high = _mm512_cvtepi64_pd(_mm512_i32gather_epi64(at, lookup->entries + 1, 8));
    return _mm512_add_pd(low, _mm512_mul_pd(_mm512_sub_pd(high, low), fraction));
}

/* And beyond them. */
ALWAYS_INLINE __m512d beyond_eight(const lane_lookup *lookup, __m512d value, __m512d y)
{
    const __m512d le_start = _mm512_set1_pd(lookup->le_start), lo_end = _mm512_set1_pd(lookup->lo_end);
    const __m512d below = _mm512_mul_pd(_mm512_sub_pd(value, le_start), _mm512_set1_pd(lookup->below));
    const __m512d above = _mm512_mul_pd(_mm512_sub_pd(value, lo_end), _mm512_set1_pd(lookup->above));
    y = _mm512_mask_add_pd(y, _mm512_cmp_pd_mask(value, le_start, _CMP_LT_OQ), _mm512_set1_pd(lookup->first), below);
    return _mm512_mask_add_pd(y, _mm512_cmp_pd_mask(value, lo_end, _CMP_GT_OQ), _mm512_set1_pd(lookup->last), above);
}

/* `count` numbers, a multiple of 8. */
static void look_up_doubles(const lane_lookup *given, float32 *x, int32_t count)
{
    const lane_lookup lookup = *given;
    const __m512d le_start = _mm512_set1_pd(lookup.le_start), lo_end = _mm512_set1_pd(lookup.lo_end);
    for (int32_t i = 0; i < count; i += 8) {
        const __m512d value = _mm512_cvtps_pd(_mm256_loadu_ps(x + i));
        __m512d y = look_up_eight(&lookup, value);
        if (_mm512_cmp_pd_mask(value, le_start, _CMP_LT_OQ) | _mm512_cmp_pd_mask(value, lo_end, _CMP_GT_OQ))
            y = beyond_eight(&lookup, value, y);
        _mm256_storeu_ps(x + i, _mm512_cvtpd_ps(y));
    }
}

typedef __m512i lookup_ints;
typedef __mmask16 lookup_mask;
#define lookup_set(value) _mm512_set1_epi32(value)
#define lookup_bits(x) _mm512_castps_si512(x)
#define lookup_float(x) _mm512_cvtepi32_ps(x)
#define lookup_negative(x) _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_LT_OQ)
#define lookup_choose(mask, yes, no) _mm512_mask_blend_ps(mask, no, yes)
#define lookup_choose_ints(mask, yes, no) _mm512_mask_blend_epi32(mask, no, yes)
#define lookup_less_one(x, mask) _mm512_mask_sub_epi32(x, mask, x, _mm512_set1_epi32(1))
#define lookup_store(at, x) /* in halves: loads of numbers wait longer for the store of a whole register */            \
    (_mm256_store_si256((__m256i *)(at), _mm512_castsi512_si256(x)),                                                   \
     _mm256_store_si256((__m256i *)((at) + 8), _mm512_extracti64x4_epi64(x, 1)))
#define lookup_joined(x)                                                                                               \
    _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_set_m128i((x)[1], (x)[0])), _mm256_set_m128i((x)[3], (x)[2]), 1)
#define lookup_sums(pairs, by) _mm512_madd_epi16(pairs, by)
#define lookup_least(a, b) _mm512_min_ps(a, b)
#define lookup_most(a, b) _mm512_max_ps(a, b)
#define lookup_any_is(x, number) _mm512_cmp_ps_mask(x, _mm512_set1_ps(number), _CMP_EQ_OQ)

/* Without signs, bits of floats are in the order of the numbers, and 0 is the one number without other bits. */
ALWAYS_INLINE int32_t lookup_is_odd(__m512 value, __m512 place)
{
    const uint32_t least = 2 * float_to_bits(SMALLEST_PLACE), most = 2 * float_to_bits(PIECES);
    const __m512i bits = _mm512_slli_epi32(_mm512_castps_si512(place), 1);
    const __m512i above = _mm512_sub_epi32(bits, _mm512_set1_epi32((int32_t)least));
    const __mmask16 is_beyond = _mm512_cmpgt_epu32_mask(above, _mm512_set1_epi32((int32_t)(most - least)));
    return _mm512_mask_test_epi32_mask(is_beyond, _mm512_castps_si512(value), _mm512_set1_epi32(INT32_MAX));
}

#include "x86_lookup.h"
