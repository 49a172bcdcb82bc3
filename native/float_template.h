/*
 * Floating point convolution, for any instruction set: sums in double precision, rounded once to single. The file that
 * includes this one defines what chain_template.h needs, FLOAT_PIXELS, load_floats and store_floats (16 of them).
 * Weights are [tap][channel in][16 channels out] in single precision.
 *
 * A product of two fp16 or bf16 numbers is exact in double precision. Depthwise sums are taken in the order of the
 * NumPy code and are the same bits. A direct sum is rounded as if it were exact: where the rounding of the doubles
 * could matter (npu/blocks/core.py, _rounded, has the bound), it is taken again, exactly.
 */
#include <math.h>

/* The length of the vector of inputs under the window of each pixel. */
static void float_lengths(const segment_task *task, double *lengths)
{
    const int32_t lanes = task->is_picture ? 4 : 8;
    for (int32_t pixel = 0; pixel < task->pixels; pixel++) {
        double squares[8] = {0}, sum = 0;
        for (int32_t tap = 0; tap < task->taps; tap++) {
            const double *seen = (const double *)(task->input + task->offsets[tap]) + pixel * lanes;
            for (int32_t i = 0; i < lanes; i++)
                squares[i] += seen[i] * seen[i];
        }
        for (int32_t i = 0; i < 8; i++)
            sum += squares[i];
        lengths[pixel] = sqrt(sum);
    }
}

/* The lowest and the highest single number that each sum can be. */
ALWAYS_INLINE void float_tile(const segment_task *task, float32 *low, float32 *high, int32_t first, const int32_t pixels,
                              const int32_t lanes)
{
    const int32_t step = lanes * (int32_t)sizeof(double);
    const float32 *weights = (const float32 *)task->weights;
    const uint8_t *input = task->input + first * step;
    doubles sums[FLOAT_PIXELS][NV];

    for (int32_t p = 0; p < pixels; p++)
        for (int32_t v = 0; v < NV; v++)
            sums[p][v] = doubles_set(0.0);
    for (int32_t tap = 0; tap < task->taps; tap++) {
        const uint8_t *seen = input + task->offsets[tap];
        for (int32_t i = 0; i < lanes; i++, weights += ATOM) {
            doubles w[NV];
            load_floats(weights, w);
#pragma GCC unroll 16
            for (int32_t p = 0; p < pixels; p++) {
                double one;
                memcpy(&one, seen + p * step + i * (int32_t)sizeof(double), sizeof one);
                const doubles x = doubles_set(one);
#pragma GCC unroll 16
                for (int32_t v = 0; v < NV; v++)
                    sums[p][v] = doubles_multiply_add(w[v], x, sums[p][v]);
            }
        }
    }
    for (int32_t p = 0; p < pixels; p++) {
        doubles ends[2][NV];
        for (int32_t v = 0; v < NV; v++) {
            const doubles length = doubles_load(task->weight_lengths + v * (16 / NV));
            const doubles error = doubles_multiply(length, doubles_set(task->input_lengths[first + p]));
            ends[0][v] = doubles_subtract(sums[p][v], error);
            ends[1][v] = doubles_add(sums[p][v], error);
        }
        store_floats(low + (first + p) * ATOM, ends[0]);
        store_floats(high + (first + p) * ATOM, ends[1]);
    }
}

static void float_segment(const segment_task *task)
{
    float32 *low = (float32 *)task->sums, high[SEGMENT * ATOM];
    int32_t pixel = 0;
    for (; pixel + FLOAT_PIXELS <= task->pixels; pixel += FLOAT_PIXELS)
        if (task->is_picture)
            float_tile(task, low, high, pixel, FLOAT_PIXELS, 4);
        else
            float_tile(task, low, high, pixel, FLOAT_PIXELS, 8);
    for (; pixel < task->pixels; pixel++)
        if (task->is_picture)
            float_tile(task, low, high, pixel, 1, 4);
        else
            float_tile(task, low, high, pixel, 1, 8);
    if (memcmp(low, high, (size_t)task->pixels * ATOM * sizeof *low) == 0)
        return;
    for (int32_t i = 0; i < task->pixels * ATOM; i++)
        if (float_to_bits(low[i]) != float_to_bits(high[i]))
            low[i] = exact_sum(task, i / ATOM, i % ATOM);
}

/* 16 channels, which are two atoms of 8 doubles; weights[tap][16]. */
static void float_depthwise(const float_depthwise_task *task)
{
    for (int32_t pixel = 0; pixel < task->pixels; pixel++) {
        const float32 *weights = (const float32 *)task->weights;
        doubles sums[NV];
        for (int32_t v = 0; v < NV; v++)
            sums[v] = doubles_set(0.0);
        for (int32_t tap = 0; tap < task->taps; tap++, weights += ATOM) {
            const double *low = (const double *)(task->input[0] + task->offsets[tap]) + pixel * 8;
            const double *high = (const double *)(task->input[1] + task->offsets[tap]) + pixel * 8;
            doubles w[NV];
            load_floats(weights, w);
            for (int32_t v = 0; v < NV; v++) {
                const int32_t lane = v * (16 / NV);
                sums[v] = doubles_multiply_add(w[v], doubles_load(lane < 8 ? low + lane : high + lane - 8), sums[v]);
            }
        }
        store_floats(task->sums + pixel * ATOM, sums);
    }
}
