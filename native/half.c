/* Half precision, in software: nearest even, overflow to infinity, as NumPy does it. */
#include "internal.h"

#if defined(__aarch64__)

float32 half_to_float(uint16_t bits)
{
    __fp16 half;
    memcpy(&half, &bits, 2);
    return (float32)half;
}

uint16_t float_to_half(float32 value)
{
    __fp16 half = (__fp16)value;
    uint16_t bits;
    memcpy(&bits, &half, 2);
    return bits;
}

#else

float32 half_to_float(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16, exponent = bits >> 10 & 0x1f, mantissa = bits & 0x3ff;

    if (exponent == 0x1f)
        return bits_to_float(sign | 0x7f800000 | mantissa << 13);
    if (exponent == 0) {
        /* Zero or subnormal: mantissa * 2^-24, exactly. */
        float32 small = (float32)mantissa * 0x1p-24f;
        return sign ? -small : small;
    }
    return bits_to_float(sign | (exponent + 112) << 23 | mantissa << 13);
}

uint16_t float_to_half(float32 value)
{
    uint32_t bits = float_to_bits(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;

    if (magnitude > 0x7f800000) /* NaN: keep what fits of its payload, and quiet */
        return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
    if (magnitude >= 0x477ff000) /* 65520 and more */
        return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x38800000) {
        /* Below 2^-14: in units of 2^-24. Adding 0.5 puts the units at the end of the mantissa, and rounds. */
        float32 shifted = bits_to_float(magnitude) + 0.5f;
        return (uint16_t)(sign | (float_to_bits(shifted) - 0x3f000000));
    }
    uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
    return (uint16_t)(sign | ((rounded - 0x38000000) >> 13));
}

#endif
