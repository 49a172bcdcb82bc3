/* What the kernels of x86 share of fp16: conversions by F16C, floats that are turned, and parts of what half_dpu.h needs. */

ALWAYS_INLINE void halves_to_floats(const uint8_t *at, float32 *out)
{
    _mm256_storeu_ps(out, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)at)));
}

ALWAYS_INLINE void floats_to_halves(const float32 *at, uint16_t *out)
{
    _mm_storeu_si128((__m128i *)out, _mm256_cvtps_ph(_mm256_loadu_ps(at), _MM_FROUND_TO_NEAREST_INT));
}

/* 8 x 8 floats, with 16 in a row. */
ALWAYS_INLINE void turn_eight(const float32 *from, float32 *to)
{
    __m256 a[8], b[8];
#pragma GCC unroll 8
    for (int32_t i = 0; i < 8; i++)
        a[i] = _mm256_loadu_ps(from + 16 * i);
#pragma GCC unroll 4
    for (int32_t i = 0; i < 8; i += 2) {
        b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
    }
#pragma GCC unroll 2
    for (int32_t i = 0; i < 8; i += 4) {
        a[i] = _mm256_shuffle_ps(b[i], b[i + 2], 0x44);
        a[i + 1] = _mm256_shuffle_ps(b[i], b[i + 2], 0xee);
        a[i + 2] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0x44);
        a[i + 3] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0xee);
    }
#pragma GCC unroll 4
    for (int32_t i = 0; i < 4; i++) {
        _mm256_storeu_ps(to + 16 * i, _mm256_permute2f128_ps(a[i], a[i + 4], 0x20));
        _mm256_storeu_ps(to + 16 * (i + 4), _mm256_permute2f128_ps(a[i], a[i + 4], 0x31));
    }
}

ALWAYS_INLINE void turn_floats(const float32 *from, float32 *to)
{
    turn_eight(from, to);
    turn_eight(from + 8, to + 8 * 16);
    turn_eight(from + 8 * 16, to + 8);
    turn_eight(from + 8 * 16 + 8, to + 8 * 16 + 8);
}

/*
 * 16 numbers of 16 columns, `step` bytes apart, as [number][column] in single precision. They are turned as halves:
 * that is half the work. 8 columns are 8 registers of two lanes; in each lane 8 x 8 numbers are turned by unpacking.
 */
#ifndef TURNS_HALVES
#define TURNS_HALVES 1
ALWAYS_INLINE void turn_halves(const uint8_t *from, int64_t step, float32 *to)
{
#pragma GCC unroll 2
    for (int32_t half = 0; half < 2; half++) {
        __m256i a[8], b[8];
#pragma GCC unroll 8
        for (int32_t i = 0; i < 8; i++)
            a[i] = _mm256_loadu_si256((const __m256i *)(from + (half * 8 + i) * step));
#pragma GCC unroll 4
        for (int32_t i = 0; i < 4; i++) {
            b[i] = _mm256_unpacklo_epi16(a[2 * i], a[2 * i + 1]);
            b[i + 4] = _mm256_unpackhi_epi16(a[2 * i], a[2 * i + 1]);
        }
#pragma GCC unroll 4
        for (int32_t i = 0; i < 4; i++) {
            a[i] = _mm256_unpacklo_epi32(b[2 * i], b[2 * i + 1]);
            a[i + 4] = _mm256_unpackhi_epi32(b[2 * i], b[2 * i + 1]);
        }
        /* a[0], a[1]: numbers 0 and 1 of columns 0 to 3 and 4 to 7; a[4], a[5]: 2 and 3; a[2], a[3]: 4 and 5; then 6, 7 */
#pragma GCC unroll 4
        for (int32_t i = 0; i < 4; i++) {
            const int32_t pair = (i & 1) * 4 + (i >> 1) * 2;
            b[2 * i] = _mm256_unpacklo_epi64(a[pair], a[pair + 1]);
            b[2 * i + 1] = _mm256_unpackhi_epi64(a[pair], a[pair + 1]);
        }
#pragma GCC unroll 8
        for (int32_t i = 0; i < 8; i++) {
            _mm256_storeu_ps(to + i * 16 + half * 8, _mm256_cvtph_ps(_mm256_castsi256_si128(b[i])));
            _mm256_storeu_ps(to + (i + 8) * 16 + half * 8, _mm256_cvtph_ps(_mm256_extracti128_si256(b[i], 1)));
        }
    }
}
#endif

/* ---------------------------------------------------------------------------------------------- half_dpu.h: 16 lanes */

typedef __m256i half_lanes;
#define half_lanes_load(at) _mm256_loadu_si256((const __m256i *)(at))
#define half_lanes_merge(x, kept, filling) _mm256_or_si256(_mm256_and_si256(x, kept), filling)

ALWAYS_INLINE void half_lanes_store(uint8_t *low, uint8_t *high, half_lanes x)
{
    _mm_storeu_si128((__m128i *)low, _mm256_castsi256_si128(x));
    _mm_storeu_si128((__m128i *)high, _mm256_extracti128_si256(x, 1));
}

/* ---------------------------------------------------------------------------------------------- an atom of fp16 */

/* The rest of an atom, how NaN is compared and stored, is in avx2_halves.h and avx512_halves.h. */
#define OWN_EIGHTS
typedef __m256 eight;
#define eight_load(at) _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(at)))
#define eight_set(value) _mm256_set1_ps(value)
#define eight_add(a, b) _mm256_add_ps(a, b)
#define eight_multiply(a, b) _mm256_mul_ps(a, b)
