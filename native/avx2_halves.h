/* Floats of 32 and 16 bits beyond x86_halves.h, with AVX2 and F16C: what half_dpu.h and pool_template.h need. */
#include "lane_lookup.h"

#define floats_subtract(a, b) _mm256_sub_ps(a, b)
#define floats_divide(a, b) _mm256_div_ps(a, b)
#define floats_abs(a) _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a)
#define floats_negate(a) _mm256_xor_ps(_mm256_set1_ps(-0.0f), a)
#define floats_floor(a) _mm256_floor_ps(a)
#define floats_ceil(a) _mm256_ceil_ps(a)
#define floats_quiet(x) _mm256_blendv_ps(x, _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000)), _mm256_cmp_ps(x, x, _CMP_UNORD_Q))
#define floats_if_less(a, b, yes, no) _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_LT_OQ))

/* MAXPS and MINPS give the second number where the two are equal, or one is NaN: only a NaN of the first is lost. */
ALWAYS_INLINE __m256 floats_larger(__m256 a, __m256 b)
{
    return _mm256_blendv_ps(_mm256_max_ps(a, b), a, _mm256_cmp_ps(a, a, _CMP_UNORD_Q));
}

ALWAYS_INLINE __m256 floats_smaller(__m256 a, __m256 b)
{
    return _mm256_blendv_ps(_mm256_min_ps(a, b), a, _mm256_cmp_ps(a, a, _CMP_UNORD_Q));
}

/* ---------------------------------------------------------------------------------------------- fp16 */

ALWAYS_INLINE void halves_load(const uint8_t *const *from, floats *out)
{
    out[0] = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)from[0]));
    out[1] = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)from[1]));
}

#define halves_same(bits) _mm256_cvtph_ps(_mm_set1_epi16((int16_t)(bits)))

/* fp16 with one NaN for all. */
ALWAYS_INLINE __m128i quiet_halves(__m256 x)
{
    const __m256 quiet = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000));
    return _mm256_cvtps_ph(_mm256_blendv_ps(x, quiet, _mm256_cmp_ps(x, x, _CMP_UNORD_Q)), _MM_FROUND_TO_NEAREST_INT);
}

#define half_lanes_of(x) _mm256_set_m128i(quiet_halves((x)[1]), quiet_halves((x)[0]))

/* ---------------------------------------------------------------------------------------------- an atom of fp16 */

#define eight_larger(a, b) floats_larger(a, b)
#define eight_smaller(a, b) floats_smaller(a, b)
#define eight_store(at, x) _mm_storeu_si128((__m128i *)(at), quiet_halves(x))

/* ---------------------------------------------------------------------------------------------- tables */

typedef __m256i lookup_ints;
typedef __m256 lookup_mask;
#define lookup_set(value) _mm256_set1_epi32(value)
#define lookup_bits(x) _mm256_castps_si256(x)
#define lookup_float(x) _mm256_cvtepi32_ps(x)
#define lookup_negative(x) _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_LT_OQ)
#define lookup_choose(mask, yes, no) _mm256_blendv_ps(no, yes, mask)
#define lookup_choose_ints(mask, yes, no) _mm256_blendv_epi8(no, yes, _mm256_castps_si256(mask))
#define lookup_less_one(x, mask) _mm256_add_epi32(x, _mm256_castps_si256(mask))
#define lookup_store(at, x) _mm256_store_si256((__m256i *)(at), x)
#define lookup_joined(x) _mm256_set_m128i((x)[1], (x)[0])
#define lookup_sums(pairs, by) _mm256_madd_epi16(pairs, by)
#define lookup_least(a, b) _mm256_min_ps(a, b)
#define lookup_most(a, b) _mm256_max_ps(a, b)
#define lookup_any_is(x, number) _mm256_movemask_ps(_mm256_cmp_ps(x, _mm256_set1_ps(number), _CMP_EQ_OQ))
#define look_up_doubles(lookup, x, count) look_up_plain(lookup, x, count)

ALWAYS_INLINE int32_t lookup_is_odd(__m256 value, __m256 place)
{
    const __m256 size = floats_abs(place);
    const __m256 is_small = _mm256_cmp_ps(size, _mm256_set1_ps(SMALLEST_PLACE), _CMP_LT_OQ);
    const __m256 is_large = _mm256_cmp_ps(size, _mm256_set1_ps(PIECES), _CMP_NLE_UQ); /* or no number */
    const __m256 is_number = _mm256_cmp_ps(value, _mm256_setzero_ps(), _CMP_NEQ_UQ);
    return _mm256_movemask_ps(_mm256_and_ps(_mm256_or_ps(is_small, is_large), is_number));
}

#include "x86_lookup.h"
