/* Steps without a convolution: element-wise programs, maps, moves of atoms, reductions, pooling. */
#include "internal.h"

enum { LANES = 16 };

/* ---------------------------------------------------------------------------------------------- flying */

static void read_flying(const openrknn_flying *step, int32_t channel, int32_t row, int32_t first, int32_t pixels,
                        int32_t *ints, float32 *floats)
{
    int32_t size = step->format == OPENRKNN_INT8                                        ? 1
                   : step->format == OPENRKNN_INT32 || step->format == OPENRKNN_FP32 ? 4
                                                                                        : 2;
    int32_t each = ATOM / size;

    for (int32_t part = 0; part < LANES / each; part++) {
        int32_t surface = channel / each + part;
        const uint8_t *source =
            surface < step->surfaces ? cube_row(&step->source, surface, row) + (int64_t)first * ATOM : NULL;
        for (int32_t pixel = 0; pixel < pixels; pixel++)
            for (int32_t lane = 0; lane < each; lane++) {
                const uint8_t *at = source ? source + pixel * ATOM + lane * size : NULL;
                int32_t place = pixel * LANES + part * each + lane, whole = 0;
                float32 number = 0;
                uint16_t half;
                switch (step->format) {
                case OPENRKNN_INT8:
                    whole = at ? (int8_t)*at : 0;
                    number = (float32)whole;
                    break;
                case OPENRKNN_INT16:
                    half = 0;
                    if (at)
                        memcpy(&half, at, 2);
                    whole = (int16_t)half;
                    number = (float32)whole;
                    break;
                case OPENRKNN_INT32:
                    if (at)
                        memcpy(&whole, at, 4);
                    number = (float32)whole;
                    break;
                case OPENRKNN_FP32:
                    if (at)
                        memcpy(&number, at, 4);
                    break;
                default:
                    half = 0;
                    if (at)
                        memcpy(&half, at, 2);
                    number = step->format == OPENRKNN_FP16 ? half_to_float(half) : bits_to_float((uint32_t)half << 16);
                }
                if (step->dpu.is_float)
                    floats[place] = number;
                else
                    ints[place] = whole;
            }
    }
}

static void flying_unit(void *job, int32_t unit)
{
    const openrknn_flying *step = job;
    int32_t groups = divide_up(step->dpu.channels, LANES), row = unit / groups, channel = unit % groups * LANES;
    int32_t ints[SEGMENT * LANES];
    float32 floats[SEGMENT * LANES];
    dpu_task finish = {
        .dpu = &step->dpu,
        .kernels = kernels_of(step->kernels),
        .channel = channel,
    };

    for (int32_t first = 0; first < step->width; first += SEGMENT) {
        finish.pixel = row * step->width + first;
        finish.pixels = at_most(SEGMENT, step->width - first);
        if (step->dpu.chain.flags && step->format == OPENRKNN_INT8 && channel / ATOM < step->surfaces) {
            finish.bytes = (const int8_t *)cube_row(&step->source, channel / ATOM, row) + (int64_t)first * ATOM;
        } else {
            read_flying(step, channel, row, first, finish.pixels, ints, floats);
            finish.bytes = NULL;
            finish.sums = ints;
            finish.floats = floats;
        }
        dpu_finish(&finish);
    }
}

int run_flying(const openrknn_flying *step)
{
    run_units(step->height * divide_up(step->dpu.channels, LANES), flying_unit, (void *)step);
    return 0;
}

/* ---------------------------------------------------------------------------------------------- maps and copies */

static void map_unit(void *job, int32_t unit)
{
    const openrknn_map *step = job;
    const kernel_set *kernels = kernels_of(step->kernels);
    int32_t atom = unit, pixels = step->height * step->width, run, is_last = atom == step->target.atoms - 1;
    int64_t line = step->source.line[atom & 1];

    for (int32_t pixel = 0; pixel < pixels; pixel += run) {
        int32_t row = pixel / step->width, column = pixel % step->width;
        const uint8_t *from = cube_row(&step->source, atom, row) + (int64_t)column * ATOM;
        uint8_t *to = target_run(&step->target, atom, pixel, &run);
        run = at_most(run, line == (int64_t)step->width * ATOM ? pixels - pixel : step->width - column);
        if (step->table)
            kernels->map(step->table, from, to, (int64_t)run * ATOM);
        else
            memmove(to, from, (size_t)run * ATOM);
        if (is_last && step->last_lanes < ATOM)
            for (int32_t i = 0; i < run; i++)
                memcpy(to + i * ATOM + step->last_lanes, step->padding, (size_t)(ATOM - step->last_lanes));
    }
}

int run_map(const openrknn_map *step)
{
    run_units(step->target.atoms, map_unit, (void *)step);
    return 0;
}

/* ---------------------------------------------------------------------------------------------- moves */

/* Place number k of a stream of atoms that is not regrouped. */
static uint8_t *stream_place(const openrknn_target *target, int64_t k)
{
    int64_t atom = k % target->per_pixel, place = k / target->per_pixel;
    int64_t column = place % target->width, row = place / target->width % target->height;
    int64_t group = place / target->width / target->height;
    return target->base + group * target->group_step + row * target->line + column * ATOM + atom * target->atom_step;
}

/* Runs of 8 or 16 pixels, and the lanes of their atoms, change places. */
static void transpose_surface(const openrknn_move *step, int32_t surface)
{
    int32_t lanes = step->lanes, size = ATOM / lanes, pixels = step->height * step->width;
    int32_t runs = divide_up(pixels, lanes);

    for (int32_t run = 0; run < runs; run++) {
        uint8_t block[ATOM][ATOM] = {{0}}, turned[ATOM][ATOM];
        for (int32_t i = 0; i < lanes && run * lanes + i < pixels; i++) {
            int32_t pixel = run * lanes + i;
            memcpy(block[i], cube_row(&step->source, surface, pixel / step->width) + (int64_t)(pixel % step->width) * ATOM, ATOM);
        }
        for (int32_t i = 0; i < lanes; i++)
            for (int32_t lane = 0; lane < lanes; lane++)
                memcpy(turned[lane] + i * size, block[i] + lane * size, (size_t)size);
        for (int32_t lane = 0; lane < lanes; lane++)
            memcpy(stream_place(&step->target, ((int64_t)surface * runs + run) * lanes + lane), turned[lane], ATOM);
    }
}

static void stream_surface(const openrknn_move *step, int32_t surface)
{
    int64_t k = (int64_t)surface * step->height * step->width;
    for (int32_t row = 0; row < step->height; row++) {
        const uint8_t *from = cube_row(&step->source, surface, row);
        for (int32_t column = 0; column < step->width; column++)
            memcpy(stream_place(&step->target, k++), from + (int64_t)column * ATOM, ATOM);
    }
}

/* Nearest upsampling: each atom repeat_x times along the row, each surface repeat_y times. */
static void repeat_surface(const openrknn_move *step, int32_t surface)
{
    int32_t width = step->width * step->repeat_x, run;
    for (int32_t copy = 0; copy < step->repeat_y; copy++)
        for (int32_t row = 0; row < step->height; row++) {
            const uint8_t *from = cube_row(&step->source, surface, row);
            for (int32_t column = 0; column < width; column += run) {
                uint8_t *to = target_run(&step->target, surface * step->repeat_y + copy, (int64_t)row * width + column, &run);
                run = at_most(run, width - column);
                for (int32_t i = 0; i < run; i++)
                    memcpy(to + i * ATOM, from + (int64_t)((column + i) / step->repeat_x) * ATOM, ATOM);
            }
        }
}

static void move_unit(void *job, int32_t unit)
{
    const openrknn_move *step = job;
    if (step->lanes < 0)
        repeat_surface(step, unit);
    else if (step->lanes == 0)
        stream_surface(step, unit);
    else
        transpose_surface(step, unit);
}

int run_move(const openrknn_move *step)
{
    run_units(step->surfaces, move_unit, (void *)step);
    return 0;
}

/* ---------------------------------------------------------------------------------------------- reduction */

static void reduction_unit(void *job, int32_t row)
{
    const openrknn_reduction *step = job;
    int32_t size = step->format == OPENRKNN_INT8 ? 1 : 2, each = ATOM / size;

    for (int32_t column = 0; column < step->width; column++) {
        float32 best = 0;
        uint16_t best_bits = 0;
        for (int32_t channel = 0; channel < step->channels; channel++) {
            const uint8_t *at = cube_row(&step->source, channel / each, row) + (int64_t)column * ATOM + channel % each * size;
            uint16_t bits = 0;
            float32 value;
            memcpy(&bits, at, (size_t)size);
            value = size == 1                         ? (float32)(int8_t)bits
                    : step->format == OPENRKNN_FP16 ? half_to_float(bits)
                                                      : (float32)(int16_t)bits;
            /* A NaN stays; of equal numbers (zeros of both signs) the later one stays, as NumPy has it. */
            if (channel == 0 || !(best != best || (step->largest ? best > value : best < value))) {
                best = value;
                best_bits = bits;
            }
        }
        memcpy(step->target + ((int64_t)row * step->width + column) * size, &best_bits, (size_t)size);
    }
}

int run_reduction(const openrknn_reduction *step)
{
    run_units(step->height, reduction_unit, (void *)step);
    return 0;
}

/* ---------------------------------------------------------------------------------------------- pooling */

static void pooling_unit(void *job, int32_t unit)
{
    const openrknn_pooling *step = job;
    kernels_of(step->kernels)->pool(step, unit / step->out_height, unit % step->out_height);
}

int run_pooling(const openrknn_pooling *step)
{
    run_units(step->surfaces * step->out_height, pooling_unit, (void *)step);
    return 0;
}
