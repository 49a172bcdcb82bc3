/*
 * Floating point convolution, for any instruction set: sums in double precision, rounded once to single. The file that
 * includes this one defines what chain_template.h needs, FLOAT_PIXELS, halves_to_floats (8 of them), load_floats and
 * store_floats (16). It may define double_pair, which holds two inputs of a pixel, pair_load and pair_multiply_add.
 *
 * A product of two fp16 or bf16 numbers is exact in double precision. Depthwise sums are taken in the order of the
 * NumPy code and are the same bits. A direct sum is rounded as if it were exact: where the rounding of the doubles
 * could matter (npu/blocks/core.py, _rounded, has the bound), it is taken again, exactly.
 */
#include <math.h>

#ifndef PAIRS_OF_DOUBLES
typedef const double *double_pair;
#define pair_load(at) (at)
#define pair_multiply_add(w, pair, lane, sum) doubles_multiply_add(w, doubles_set((pair)[lane]), sum)
#endif

/* Plain C gains nothing, and takes compilers minutes. */
#ifdef FLOAT_IS_PLAIN
#define EACH_PAIR _Pragma("GCC unroll 1")
#else
#define EACH_PAIR _Pragma("GCC unroll 4")
#endif

/* ---------------------------------------------------------------------------------------------- weights */

/* 16 weights as doubles. */
ALWAYS_INLINE void load_weights(const uint16_t *at, const int32_t format, doubles *out)
{
    float32 wide[ATOM];
    if (format == OPENRKNN_FP16) {
        halves_to_floats((const uint8_t *)at, wide);
        halves_to_floats((const uint8_t *)(at + 8), wide + 8);
    } else
        for (int32_t i = 0; i < ATOM; i++)
            wide[i] = bits_to_float((uint32_t)at[i] << 16);
    load_floats(wide, out);
}

ALWAYS_INLINE void panel_of(const uint16_t *weights, const int32_t format, double *panel, int64_t rows)
{
    for (int64_t row = 0; row < rows; row++) {
        doubles w[NV];
        load_weights(weights + row * ATOM, format, w);
        memcpy(panel + row * ATOM, w, sizeof w);
    }
}

static void float_panel(const uint16_t *weights, int32_t format, double *panel, int64_t rows)
{
    if (format == OPENRKNN_FP16)
        panel_of(weights, OPENRKNN_FP16, panel, rows);
    else
        panel_of(weights, OPENRKNN_BF16, panel, rows);
}

/* Added to what is there. */
static void float_squares(const uint16_t *weights, int32_t format, double *squares, int64_t rows)
{
    doubles sums[NV], w[NV];
    memcpy(sums, squares, sizeof sums);
    for (int64_t row = 0; row < rows; row++) {
        load_weights(weights + row * ATOM, format, w);
        for (int32_t v = 0; v < NV; v++)
            sums[v] = doubles_multiply_add(w[v], w[v], sums[v]);
    }
    memcpy(squares, sums, sizeof sums);
}

/* ---------------------------------------------------------------------------------------------- sums */

ALWAYS_INLINE void lengths_of(const float_task *task, double *lengths, const int32_t lanes)
{
    for (int32_t pixel = 0; pixel < task->pixels; pixel++) {
        double squares[8] = {0}, sum = 0;
        for (int32_t tap = 0; tap < task->taps; tap++) {
            const double *seen = (const double *)(task->input + task->offsets[tap]) + pixel * lanes;
#pragma GCC unroll 8
            for (int32_t i = 0; i < lanes; i++)
                squares[i] += seen[i] * seen[i];
        }
        for (int32_t i = 0; i < 8; i++)
            sum += squares[i];
        lengths[pixel] = sqrt(sum);
    }
}

/* The length of the vector of inputs under the window of each pixel, of all taps. */
static void float_lengths(const float_task *task, double *lengths)
{
    if (task->lanes == 8)
        lengths_of(task, lengths, 8);
    else
        lengths_of(task, lengths, 4);
}

/* Some pixels by 16 channels in registers. A format: its weights are read as they are stored, and not a panel. */
ALWAYS_INLINE void float_tile(const float_task *task, int32_t first, const int32_t pixels, const int32_t lanes,
                              const int32_t format)
{
    const double *panel = task->panel, *input = (const double *)task->input + first * lanes;
    const uint16_t *weights = task->weights;
    doubles sums[FLOAT_PIXELS][NV];

#pragma GCC unroll 16
    for (int32_t p = 0; p < pixels; p++)
#pragma GCC unroll 16
        for (int32_t v = 0; v < NV; v++)
            sums[p][v] = task->goes_on ? doubles_load(task->sums + (first + p) * ATOM + v * (16 / NV)) : doubles_set(0.0);
    for (int32_t tap = 0; tap < task->taps; tap++) {
        const double *seen = (const double *)((const uint8_t *)input + task->offsets[task->list[tap]]);
        if (pixels > 1) {
            /* Taps are far from each other: no processor guesses where the next ones are. */
            const uint8_t *later = (const uint8_t *)input + task->offsets[task->list[at_most(tap + 2, task->taps - 1)]];
#pragma GCC unroll 16
            for (int32_t p = 0; p < pixels; p++)
                __builtin_prefetch(later + p * lanes * (int32_t)sizeof(double));
        }
        EACH_PAIR for (int32_t i = 0; i < lanes; i += 2)
        {
            double_pair x[FLOAT_PIXELS];
#pragma GCC unroll 16
            for (int32_t p = 0; p < pixels; p++)
                x[p] = pair_load(seen + p * lanes + i);
            EACH_PAIR for (int32_t k = 0; k < 2; k++)
            {
                doubles w[NV];
                if (format) {
                    load_weights(weights, format, w);
                    weights += ATOM;
                }
#pragma GCC unroll 16
                for (int32_t v = 0; v < NV; v++) {
                    if (!format)
                        w[v] = doubles_load(panel + v * (16 / NV));
#pragma GCC unroll 16
                    for (int32_t p = 0; p < pixels; p++)
                        sums[p][v] = pair_multiply_add(w[v], x[p], k, sums[p][v]);
                }
                panel += ATOM;
            }
        }
    }
#pragma GCC unroll 16
    for (int32_t p = 0; p < pixels; p++)
#pragma GCC unroll 16
        for (int32_t v = 0; v < NV; v++) /* one by one: an array that is copied whole stays in memory */
            memcpy(task->sums + (first + p) * ATOM + v * (16 / NV), &sums[p][v], sizeof sums[p][v]);
}

ALWAYS_INLINE void float_tiles(const float_task *task, const int32_t lanes)
{
    int32_t pixel = 0;
    for (; pixel + FLOAT_PIXELS <= task->pixels; pixel += FLOAT_PIXELS)
        float_tile(task, pixel, FLOAT_PIXELS, lanes, 0);
    for (; pixel < task->pixels; pixel++)
        float_tile(task, pixel, 1, lanes, 0);
}

static void float_segment(const float_task *task)
{
    if (task->panel) {
        if (task->lanes == 8)
            float_tiles(task, 8);
        else
            float_tiles(task, 4);
        return;
    }
    for (int32_t pixel = 0; pixel < task->pixels; pixel++)
        if (task->format == OPENRKNN_FP16)
            float_tile(task, pixel, 1, task->lanes, OPENRKNN_FP16);
        else
            float_tile(task, pixel, 1, task->lanes, OPENRKNN_BF16);
}

/* ---------------------------------------------------------------------------------------------- rounding */

/* What is infinite or no number is so in any order, and counts where a weight is 0 too. */
static void round_infinite(const float_rounding *task, int32_t pixel)
{
    const int32_t lanes = task->all.lanes;
    double more = 0;
    for (int32_t tap = 0; tap < task->skipped_taps; tap++) {
        const double *seen = (const double *)(task->all.input + task->all.offsets[task->skipped[tap]]) + pixel * lanes;
        for (int32_t i = 0; i < lanes; i++)
            more += seen[i] * 0.0;
    }
    for (int32_t o = 0; o < ATOM; o++)
        task->rounded[pixel * ATOM + o] = (float32)(task->all.sums[pixel * ATOM + o] + more);
}

/* The lowest and the highest single number that each sum can be; where they differ, once more. */
static void round_doubtful(const float_rounding *task, int32_t pixel, const doubles *sums)
{
    const doubles input = doubles_set(task->input_lengths[pixel]);
    float32 low[ATOM], high[ATOM];
    doubles ends[2][NV];
    for (int32_t v = 0; v < NV; v++) {
        const doubles error = doubles_multiply(doubles_load(task->weight_lengths + v * (16 / NV)), input);
        ends[0][v] = doubles_subtract(sums[v], error);
        ends[1][v] = doubles_add(sums[v], error);
    }
    store_floats(low, ends[0]);
    store_floats(high, ends[1]);
    if (memcmp(low, high, sizeof low) != 0)
        for (int32_t o = 0; o < ATOM; o++)
            if (float_to_bits(low[o]) != float_to_bits(high[o])) {
                const double sum = task->all.sums[pixel * ATOM + o];
                low[o] = isfinite(sum) ? exact_sum(&task->all, pixel, o) : (float32)sum;
            }
    memcpy(task->rounded + pixel * ATOM, low, sizeof low);
}

static void float_round(const float_rounding *task)
{
    for (int32_t pixel = 0; pixel < task->all.pixels; pixel++) {
        doubles sums[NV];
        memcpy(sums, task->all.sums + pixel * ATOM, sizeof sums);
        if (task->input_lengths[pixel] * task->largest_length < task->exact_below)
            store_floats(task->rounded + pixel * ATOM, sums);
        else if (isfinite(task->input_lengths[pixel]))
            round_doubtful(task, pixel, sums);
        else
            round_infinite(task, pixel);
    }
}

/* ---------------------------------------------------------------------------------------------- depthwise */

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
