/* What x86_singles.h needs, with AVX2: an atom is two vectors. */
typedef __m256i words;
#define words_set(value) _mm256_set1_epi32(value)
#define words_load(at) _mm256_loadu_si256((const __m256i *)(at))
#define words_add(a, b) _mm256_add_epi32(a, b)
#define words_subtract(a, b) _mm256_sub_epi32(a, b)
#define words_max(a, b) _mm256_max_epi32(a, b)
#define words_min(a, b) _mm256_min_epi32(a, b)
#define words_of_bytes(at, v) _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)((at) + 8 * (v))))
#define words_as_floats(x) _mm256_cvtepi32_ps(x)
#define words_bits(x) _mm256_castps_si256(x)
#define floats_most(a, b) _mm256_max_ps(a, b)
#define floats_least(a, b) _mm256_min_ps(a, b)
#define floats_are_less(a, b) (_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_NLT_UQ)) == 0)

ALWAYS_INLINE __m256 floats_of_doubles(const double *at)
{
    return _mm256_set_m128(_mm256_cvtpd_ps(_mm256_loadu_pd(at + 4)), _mm256_cvtpd_ps(_mm256_loadu_pd(at)));
}

enum { SINGLE_PX = 2 };

/* Packing leaves the quarters of both atoms in the order 0 and 2, 0 and 2, 1 and 3, 1 and 3. */
ALWAYS_INLINE void single_store(int8_t *at, __m256i x[SINGLE_PX][NF], int32_t low, int32_t high, const int32_t stored)
{
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(x[0][0], x[0][1]), _mm256_packs_epi32(x[1][0], x[1][1]));
    bytes = _mm256_min_epi8(_mm256_max_epi8(bytes, _mm256_set1_epi8((char)low)), _mm256_set1_epi8((char)high));
    bytes = _mm256_permutevar8x32_epi32(bytes, order);
    if (stored == SINGLE_PX)
        _mm256_storeu_si256((__m256i *)at, bytes);
    else
        _mm_storeu_si128((__m128i *)at, _mm256_castsi256_si128(bytes));
}

ALWAYS_INLINE void places_store(uint16_t *at, const __m256i *x, int32_t last)
{
    const __m256i places = _mm256_permute4x64_epi64(_mm256_packus_epi32(x[0], x[1]), 0xd8);
    _mm256_store_si256((__m256i *)at, _mm256_min_epu16(places, _mm256_set1_epi16((int16_t)last)));
}

#include "x86_singles.h"
