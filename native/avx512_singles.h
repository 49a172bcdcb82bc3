/* What x86_singles.h needs, with AVX-512: an atom is one vector. */
typedef __m512i words;
#define words_set(value) _mm512_set1_epi32(value)
#define words_load(at) _mm512_loadu_si512(at)
#define words_add(a, b) _mm512_add_epi32(a, b)
#define words_subtract(a, b) _mm512_sub_epi32(a, b)
#define words_max(a, b) _mm512_max_epi32(a, b)
#define words_min(a, b) _mm512_min_epi32(a, b)
#define words_and(a, b) _mm512_and_si512(a, b)
#define words_or(a, b) _mm512_or_si512(a, b)
#define words_shifted(a, bits) _mm512_slli_epi32(a, bits)
#define words_dot(sums, a, b) _mm512_dpwssd_epi32(sums, a, b)
#define words_of_bytes(at, v) ((void)(v), _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(at))))
#define words_as_floats(x) _mm512_cvtepi32_ps(x)
#define words_bits(x) _mm512_castps_si512(x)
#define floats_most(a, b) _mm512_max_ps(a, b)
#define floats_least(a, b) _mm512_min_ps(a, b)
#define floats_are_less(a, b) (_mm512_cmp_ps_mask(a, b, _CMP_NLT_UQ) == 0)

ALWAYS_INLINE __m512 floats_of_doubles(const double *at)
{
    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(_mm512_loadu_pd(at))), _mm512_cvtpd_ps(_mm512_loadu_pd(at + 8)), 1);
}

enum { SINGLE_PX = 4 };

/* As store_bytes. */
ALWAYS_INLINE void single_store(int8_t *at, __m512i x[SINGLE_PX][NF], int32_t low, int32_t high, const int32_t stored)
{
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    __m512i bytes = _mm512_packs_epi16(_mm512_packs_epi32(x[0][0], x[1][0]), _mm512_packs_epi32(x[2][0], x[3][0]));
    bytes = _mm512_min_epi8(_mm512_max_epi8(bytes, _mm512_set1_epi8((char)low)), _mm512_set1_epi8((char)high));
    bytes = _mm512_permutexvar_epi32(order, bytes);
    if (stored == SINGLE_PX)
        _mm512_storeu_si512(at, bytes);
    else
        _mm512_mask_storeu_epi32(at, (__mmask16)((1u << (stored * 4)) - 1), bytes);
}

ALWAYS_INLINE void places_store(uint16_t *at, const __m512i *x, int32_t last)
{
    const __m256i places = _mm512_cvtusepi32_epi16(_mm512_max_epi32(x[0], _mm512_setzero_si512()));
    _mm256_store_si256((__m256i *)at, _mm256_min_epu16(places, _mm256_set1_epi16((int16_t)last)));
}

#include "x86_singles.h"
