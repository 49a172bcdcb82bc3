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
