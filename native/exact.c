/* The exact sum of floating point products, rounded once to single: the twin of numerics.sum_to_single. */
#include <math.h>

#include "internal.h"

/* a + b is the sum that is returned and what is left. */
static double add(double a, double b, double *left)
{
    if (fabs(a) < fabs(b)) {
        double swap = a;
        a = b;
        b = swap;
    }
    double sum = a + b;
    *left = b - (sum - a);
    return sum;
}

void exact_add(exact_total *sum, double x)
{
    int32_t kept = 0;

    sum->plain += x;
    if (!isfinite(sum->plain) || x == 0) /* of nothing but negative zeros the sum is zero, which it began with */
        return;
    for (int32_t i = 0; i < sum->count; i++) {
        double left;
        x = add(x, sum->part[i], &left);
        if (left != 0)
            sum->part[kept++] = left;
    }
    sum->part[kept++] = x;
    sum->count = kept;
}

/* Rounded to odd, a double does not lie in the middle of two single numbers unless the exact sum does. */
float32 exact_rounded(const exact_total *sum)
{
    if (!isfinite(sum->plain))
        return (float32)sum->plain;
    if (sum->count == 0)
        return 0.0f;
    int32_t at = sum->count - 1;
    double high = sum->part[at], left = 0;
    uint64_t bits;

    while (at > 0 && left == 0)
        high = add(high, sum->part[--at], &left);
    memcpy(&bits, &high, sizeof bits);
    if (left != 0 && !(bits & 1))
        high = nextafter(high, left > 0 ? INFINITY : -INFINITY);
    return (float32)high;
}

#ifdef __SIZEOF_INT128__
float32 units_rounded(__int128 sum, int32_t exponent)
{
    unsigned __int128 size = (unsigned __int128)(sum < 0 ? -sum : sum);
    uint64_t lost = 0;

    while (size >> 53) {
        lost |= (uint64_t)size & 1;
        size >>= 1;
        exponent++;
    }
    /* What is lost keeps the last bit odd: then the rounding to single sees that there was more. */
    const double real = ldexp((double)((uint64_t)size | lost), exponent);
    return (float32)(sum < 0 ? -real : real);
}

/* 2^20 products of 80 bits are a sum of 100 bits. */
static float32 sum_of_units(const float_task *task, int32_t pixel, int32_t lane)
{
    const uint16_t *weights = task->weights + lane;
    __int128 sum = 0;

    for (int32_t tap = 0; tap < task->taps; tap++) {
        const double *seen = (const double *)(task->input + task->offsets[task->list[tap]]) + pixel * task->lanes;
        for (int32_t i = 0; i < task->lanes; i++, weights += ATOM)
            sum += (__int128)(int64_t)(seen[i] * 0x1p24) * half_units(*weights);
    }
    return units_rounded(sum, -48);
}
#endif

float32 exact_sum(const float_task *task, int32_t pixel, int32_t lane)
{
    const uint16_t *weights = task->weights + lane;
    exact_total sum = {.count = 0};

#ifdef __SIZEOF_INT128__
    if (task->format == OPENRKNN_FP16)
        return sum_of_units(task, pixel, lane);
#endif
    for (int32_t tap = 0; tap < task->taps; tap++) {
        const double *seen = (const double *)(task->input + task->offsets[task->list[tap]]) + pixel * task->lanes;
        for (int32_t i = 0; i < task->lanes; i++, weights += ATOM)
            exact_add(&sum, seen[i] * (task->format == OPENRKNN_FP16 ? half_to_float(*weights)
                                                                     : bits_to_float((uint32_t)*weights << 16)));
    }
    return exact_rounded(&sum);
}
