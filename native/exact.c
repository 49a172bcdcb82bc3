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
    if (!isfinite(sum->plain))
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

float32 exact_sum(const segment_task *task, int32_t pixel, int32_t lane)
{
    const int32_t lanes = task->is_picture ? 4 : 8;
    const float32 *weights = (const float32 *)task->weights + lane;
    exact_total sum = {.count = 0};

    for (int32_t tap = 0; tap < task->taps; tap++) {
        const double *seen = (const double *)(task->input + task->offsets[tap]) + pixel * lanes;
        for (int32_t i = 0; i < lanes; i++, weights += ATOM)
            exact_add(&sum, seen[i] * *weights);
    }
    return exact_rounded(&sum);
}
