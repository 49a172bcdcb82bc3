/* 8 x 8 numbers of 16 bits change rows and columns; `from_step` and `to_step` are bytes from row to row. */
#ifndef OPENRKNN_TURN_H
#define OPENRKNN_TURN_H

#include "internal.h"

/* turn_halves_16x8: 16 rows of 8 become 8 rows of 16, one behind the other. */
typedef struct {
    uint16_t largest; /* of the numbers, without their signs */
} turned_bits;

#ifdef __aarch64__
#include <arm_neon.h>

/* The vectors that come out are those of `to`. */
ALWAYS_INLINE void turned_halves_8(const uint8_t *from, int64_t from_step, uint16x8_t *to)
{
    uint16x8_t a[8];
    uint32x4_t b[8];
    uint64x2_t c[8];

    for (int32_t i = 0; i < 8; i++)
        a[i] = vreinterpretq_u16_u8(vld1q_u8(from + i * from_step));
    for (int32_t i = 0; i < 8; i += 2) {
        b[i] = vreinterpretq_u32_u16(vtrn1q_u16(a[i], a[i + 1]));
        b[i + 1] = vreinterpretq_u32_u16(vtrn2q_u16(a[i], a[i + 1]));
    }
    for (int32_t i = 0; i < 8; i += 4)
        for (int32_t k = 0; k < 2; k++) {
            c[i + k] = vreinterpretq_u64_u32(vtrn1q_u32(b[i + k], b[i + k + 2]));
            c[i + k + 2] = vreinterpretq_u64_u32(vtrn2q_u32(b[i + k], b[i + k + 2]));
        }
    for (int32_t i = 0; i < 4; i++) {
        to[i] = vreinterpretq_u16_u64(vtrn1q_u64(c[i], c[i + 4]));
        to[i + 4] = vreinterpretq_u16_u64(vtrn2q_u64(c[i], c[i + 4]));
    }
}

static inline void turn_halves_8(const uint8_t *from, int64_t from_step, uint8_t *to, int64_t to_step)
{
    uint16x8_t turned[8];
    turned_halves_8(from, from_step, turned);
    for (int32_t i = 0; i < 8; i++)
        vst1q_u8(to + i * to_step, vreinterpretq_u8_u16(turned[i]));
}

static inline turned_bits turn_halves_16x8(const uint8_t *from, int64_t from_step, uint16_t *to)
{
    uint16x8_t turned[8], largest = vdupq_n_u16(0);
    for (int32_t half = 0; half < 2; half++) {
        turned_halves_8(from + half * 8 * from_step, from_step, turned);
        for (int32_t i = 0; i < 8; i++) {
            largest = vmaxq_u16(largest, vbicq_u16(turned[i], vdupq_n_u16(0x8000)));
            vst1q_u16(to + i * ATOM + half * 8, turned[i]);
        }
    }
    return (turned_bits){vmaxvq_u16(largest)};
}
#elif defined(__SSE2__)
#include <emmintrin.h>

/* The vectors that come out are those of `to`. */
ALWAYS_INLINE void turned_halves_8(const uint8_t *from, int64_t from_step, __m128i *to)
{
    __m128i a[8], b[8];

    for (int32_t i = 0; i < 8; i++)
        a[i] = _mm_loadu_si128((const __m128i *)(from + i * from_step));
    for (int32_t i = 0; i < 4; i++) {
        b[i] = _mm_unpacklo_epi16(a[2 * i], a[2 * i + 1]);
        b[i + 4] = _mm_unpackhi_epi16(a[2 * i], a[2 * i + 1]);
    }
    /* Of rows 0 to 3 and 4 to 7: columns 0, 1 in a[0], a[1]; 2, 3 in a[2], a[3]; 4, 5 and 6, 7 in the others. */
    for (int32_t i = 0; i < 8; i += 4) {
        a[i] = _mm_unpacklo_epi32(b[i], b[i + 1]);
        a[i + 1] = _mm_unpacklo_epi32(b[i + 2], b[i + 3]);
        a[i + 2] = _mm_unpackhi_epi32(b[i], b[i + 1]);
        a[i + 3] = _mm_unpackhi_epi32(b[i + 2], b[i + 3]);
    }
    for (int32_t i = 0; i < 8; i += 2) {
        to[i] = _mm_unpacklo_epi64(a[i], a[i + 1]);
        to[i + 1] = _mm_unpackhi_epi64(a[i], a[i + 1]);
    }
}

static inline void turn_halves_8(const uint8_t *from, int64_t from_step, uint8_t *to, int64_t to_step)
{
    __m128i turned[8];
    turned_halves_8(from, from_step, turned);
    for (int32_t i = 0; i < 8; i++)
        _mm_storeu_si128((__m128i *)(to + i * to_step), turned[i]);
}

static inline turned_bits turn_halves_16x8(const uint8_t *from, int64_t from_step, uint16_t *to)
{
    __m128i turned[8], largest = _mm_setzero_si128();
    uint16_t lanes[8], most = 0;
    for (int32_t half = 0; half < 2; half++) {
        turned_halves_8(from + half * 8 * from_step, from_step, turned);
        for (int32_t i = 0; i < 8; i++) {
            largest = _mm_max_epi16(largest, _mm_and_si128(turned[i], _mm_set1_epi16(0x7fff)));
            _mm_storeu_si128((__m128i *)(to + i * ATOM + half * 8), turned[i]);
        }
    }
    _mm_storeu_si128((__m128i *)lanes, largest);
    for (int32_t i = 0; i < 8; i++)
        most = lanes[i] > most ? lanes[i] : most;
    return (turned_bits){most};
}
#else
static inline void turn_halves_8(const uint8_t *from, int64_t from_step, uint8_t *to, int64_t to_step)
{
    for (int32_t i = 0; i < 8; i++)
        for (int32_t k = 0; k < 8; k++)
            memcpy(to + k * to_step + 2 * i, from + i * from_step + 2 * k, 2);
}

static inline turned_bits turn_halves_16x8(const uint8_t *from, int64_t from_step, uint16_t *to)
{
    uint16_t largest = 0;
    turn_halves_8(from, from_step, (uint8_t *)to, 2 * ATOM);
    turn_halves_8(from + 8 * from_step, from_step, (uint8_t *)(to + 8), 2 * ATOM);
    for (int32_t i = 0; i < 8 * ATOM; i++)
        largest = (to[i] & 0x7fff) > largest ? to[i] & 0x7fff : largest;
    return (turned_bits){largest};
}
#endif

#endif
