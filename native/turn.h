/* 8 x 8 numbers of 16 bits change rows and columns; `from_step` and `to_step` are bytes from row to row. */
#ifndef OPENRKNN_TURN_H
#define OPENRKNN_TURN_H

#include "internal.h"

#ifdef __aarch64__
#include <arm_neon.h>

static inline void turn_halves_8(const uint8_t *from, int64_t from_step, uint8_t *to, int64_t to_step)
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
        vst1q_u8(to + i * to_step, vreinterpretq_u8_u64(vtrn1q_u64(c[i], c[i + 4])));
        vst1q_u8(to + (i + 4) * to_step, vreinterpretq_u8_u64(vtrn2q_u64(c[i], c[i + 4])));
    }
}
#else
static inline void turn_halves_8(const uint8_t *from, int64_t from_step, uint8_t *to, int64_t to_step)
{
    for (int32_t i = 0; i < 8; i++)
        for (int32_t k = 0; k < 8; k++)
            memcpy(to + k * to_step + 2 * i, from + i * from_step + 2 * k, 2);
}
#endif

#endif
