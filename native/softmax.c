/*
 * Softmax of rows, the twin of runtime/operators/softmax.py (_last and _polynomial there say why it is what it is): the
 * same operations in the same precision, so the same bits. Products of single numbers are exact in double precision.
 */
#include <math.h>

#include "internal.h"

enum { PARTIAL_SUMS = 4 };

static inline float32 fused(float32 a, float32 b, float32 c)
{
    return (float32)((double)a * b + c);
}

/* e^x of a number that is not positive. */
static inline float32 grown(float32 x)
{
    const float32 low = -88.3762626647949f;
    const float32 bounded = x > low ? x : low;
    const float32 power = floorf(fused(bounded, 1.44269504f, 0.5f));
    const float32 rest = fused(-power, -2.12194440e-4f, fused(-power, 0.693359375f, bounded));
    float32 value = 1.9875691500e-4f;
    value = fused(value, rest, 1.3981999507e-3f);
    value = fused(value, rest, 8.3334519073e-3f);
    value = fused(value, rest, 4.1665795894e-2f);
    value = fused(value, rest, 1.6666665459e-1f);
    value = fused(value, rest, 5.0000001201e-1f);
    value = fused(value, rest * rest, rest + 1.0f);
    /* 2^power, which is never below 2^-127: that is what the smallest number becomes, and then the result is 0. */
    const int32_t exponent = (int32_t)power;
    return exponent < -126 ? 0.0f : value * bits_to_float((uint32_t)(exponent + 127) << 23);
}

int32_t openrknn_softmax(const float *source, float *target, int64_t rows, int64_t length, const float *tail)
{
    const int64_t whole = length / PARTIAL_SUMS * PARTIAL_SUMS, left = length - whole;
    for (int64_t row = 0; row < rows; row++, source += length, target += length, tail += left) {
        float32 largest = source[0], lanes[PARTIAL_SUMS] = {0}, odd = 0;
        for (int64_t i = 0; i < length; i++) {
            largest = source[i] > largest ? source[i] : largest;
            odd += source[i] * 0.0f;
        }
        if (odd != 0.0f) /* infinite, or no number */
            return -1;
        for (int64_t i = 0; i < whole; i++)
            target[i] = grown(source[i] - largest);
        for (int64_t i = 0; i < whole; i += PARTIAL_SUMS)
            for (int32_t lane = 0; lane < PARTIAL_SUMS; lane++)
                lanes[lane] += target[i + lane];
        float32 total = (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
        for (int64_t i = 0; i < left; i++) {
            target[whole + i] = tail[i];
            total += tail[i];
        }
        const float32 factor = 1.0f / total;
        for (int64_t i = 0; i < length; i++)
            target[i] *= factor;
    }
    return 0;
}
