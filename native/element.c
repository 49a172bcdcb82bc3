/* Steps without a convolution: element-wise programs, maps, moves of atoms, reductions, pooling. */
#include "internal.h"
#include "turn.h"
#ifdef __SSE2__
#include <emmintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

enum { LANES = 16 };

/* Copy the bytes that the step overwrites while it reads them; how far the copy is from the original. */
static int take_snapshot(const uint8_t *bytes, int64_t count, ptrdiff_t *distance)
{
    *distance = 0;
    if (!bytes)
        return 0;
    uint8_t *copy = scratch(SCRATCH_INPUT, count + SLACK);
    if (!copy)
        return -1;
    memcpy(copy, bytes, (size_t)count);
    *distance = (ptrdiff_t)((uintptr_t)copy - (uintptr_t)bytes);
    return 0;
}

static void move_cube(openrknn_cube *cube, ptrdiff_t distance)
{
    for (int32_t i = 0; i < 2; i++)
        cube->base[i] = (uint8_t *)((uintptr_t)cube->base[i] + (uintptr_t)distance);
}

/* ---------------------------------------------------------------------------------------------- flying */

static int64_t flying_work(const openrknn_flying *step)
{
    return dpu_work(&step->dpu, (int64_t)step->height * step->width * divide_up(step->dpu.channels, LANES));
}

/* Into how many parts the pixels of an atom are divided. */
static int32_t flying_parts(const openrknn_flying *step)
{
    int32_t pixels = step->height * step->width, groups = divide_up(step->dpu.channels, LANES);
    int32_t threads = useful_threads(flying_work(step));
    return threads > 1 && (groups < 2 * threads || pixels >= 1024) ? at_most(pixels, 2 * threads) : 1;
}

/* Of one pixel, so many blocks of 16 channels are a unit. */
enum { PIXEL_BLOCKS = 32 };

static int32_t flying_units(const openrknn_flying *step)
{
    const int32_t groups = divide_up(step->dpu.channels, LANES);
    return step->height * step->width == 1 ? divide_up(groups, PIXEL_BLOCKS) : flying_parts(step) * groups;
}

static void flying_unit(void *job, int32_t unit)
{
    const openrknn_flying *step = job;
    int32_t pixels = step->height * step->width, groups = divide_up(step->dpu.channels, LANES);
    int32_t part = unit / groups, parts = flying_parts(step);
    dpu_task task = {
        .dpu = &step->dpu,
        .kernels = kernels_of(step->kernels),
        .channel = unit % groups * LANES,
        .pixel = (int32_t)((int64_t)part * pixels / parts),
        .source = &step->source,
        .source_format = step->format,
        .source_surfaces = step->surfaces,
    };
    task.pixels = (int32_t)((int64_t)(part + 1) * pixels / parts) - task.pixel;
    if (pixels == 1) {
        task.channel = unit * PIXEL_BLOCKS * LANES;
        task.pixel = 0;
        task.pixels = 1;
        task.blocks = at_most(PIXEL_BLOCKS, groups - unit * PIXEL_BLOCKS);
    }
    dpu_finish(&task);
}

int run_flying(const openrknn_flying *step)
{
    openrknn_flying local = *step;
    ptrdiff_t distance;
    if (take_snapshot(step->snapshot, step->snapshot_bytes, &distance) != 0)
        return -1;
    move_cube(&local.source, distance);
    run_units(flying_units(step), flying_work(step), flying_unit, &local);
    return 0;
}

/* ---------------------------------------------------------------------------------------------- maps and copies */

static int64_t map_work(const openrknn_map *step)
{
    return (int64_t)step->height * step->width * step->target.atoms * (step->table ? 2 * ATOM : ATOM) / COPY_BYTES;
}

/* Into how many parts the pixels of an atom are divided. */
static int32_t map_parts(const openrknn_map *step)
{
    int32_t pixels = step->height * step->width, threads = useful_threads(map_work(step));
    return threads > 1 && (step->target.atoms < 2 * threads || pixels >= 1024) ? at_most(pixels, 2 * threads) : 1;
}

static void map_unit(void *job, int32_t unit)
{
    const openrknn_map *step = job;
    const kernel_set *kernels = kernels_of(step->kernels);
    int32_t atom = unit % step->target.atoms, part = unit / step->target.atoms, parts = map_parts(step);
    int32_t area = step->height * step->width, run, is_last = atom == step->target.atoms - 1;
    int32_t first = (int32_t)((int64_t)part * area / parts), pixels = (int32_t)((int64_t)(part + 1) * area / parts);
    int64_t line = step->source.line[atom & 1];

    for (int32_t pixel = first; pixel < pixels; pixel += run) {
        int32_t row = pixel / step->width, column = pixel % step->width;
        const uint8_t *from = cube_row(&step->source, atom, row) + (int64_t)column * ATOM;
        uint8_t *to = target_run(&step->target, atom, pixel, &run);
        run = at_most(run, at_most(pixels - pixel, line == (int64_t)step->width * ATOM ? pixels : step->width - column));
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
    openrknn_map local = *step;
    ptrdiff_t distance;
    if (take_snapshot(step->snapshot, step->snapshot_bytes, &distance) != 0)
        return -1;
    move_cube(&local.source, distance);
    run_units(step->target.atoms * map_parts(step), map_work(step), map_unit, &local);
    return 0;
}

/* ---------------------------------------------------------------------------------------------- moves */

/* Places of a stream of atoms that is not regrouped, one after the other. */
typedef struct {
    const openrknn_target *target;
    int64_t atom, column, row;
    uint8_t *line; /* at its first column */
    uint8_t *group; /* at its first row */
} stream;

static stream stream_at(const openrknn_target *target, int64_t k)
{
    int64_t place = k / target->per_pixel, row = place / target->width;
    stream made = {.target = target, .atom = k % target->per_pixel, .column = place % target->width, .row = row % target->height};
    made.group = target->base + row / target->height * target->group_step;
    made.line = made.group + made.row * target->line;
    return made;
}

/* The next place, and how many from there on are atoms of one pixel, `most` at most: each is atom_step behind the last. */
static inline uint8_t *stream_run(stream *at, int32_t most, int32_t *run)
{
    const openrknn_target *target = at->target;
    uint8_t *place = at->line + at->column * ATOM + at->atom * target->atom_step;
    *run = at_most(most, (int32_t)(target->per_pixel - at->atom));
    at->atom += *run;
    if (at->atom == target->per_pixel) {
        at->atom = 0;
        if (++at->column == target->width) {
            at->column = 0;
            at->line += target->line;
            if (++at->row == target->height) {
                at->row = 0;
                at->line = at->group += target->group_step;
            }
        }
    }
    return place;
}

/* Neighbouring atoms to the next places. */
static inline void stream_atoms(stream *at, const uint8_t *from, int32_t count)
{
    const int64_t step = at->target->atom_step;
    for (int32_t run; count; count -= run) {
        uint8_t *to = stream_run(at, count, &run);
        for (int32_t i = 0; i < run; i++, from += ATOM)
            memcpy(to + i * step, from, ATOM);
    }
}

/* In the whole stream of pixels, runs of 8 or 16 and the lanes of their atoms change places. One of `surfaces` parts. */
static void transpose_part(const openrknn_move *step, int32_t part)
{
    int32_t lanes = step->lanes, size = ATOM / lanes;
    int64_t pixels = (int64_t)step->height * step->width, total = pixels * step->surfaces;
    int64_t runs = (total + lanes - 1) / lanes, run = runs * part / step->surfaces, end = runs * (part + 1) / step->surfaces;
    int32_t surface = (int32_t)(run * lanes / pixels), pixel = (int32_t)(run * lanes % pixels);
    int32_t row = pixel / step->width, column = pixel % step->width;
    stream target = stream_at(&step->target, run * lanes);

    for (; run < end; run++) {
        uint8_t block[ATOM][ATOM], turned[ATOM][ATOM];
        const uint8_t *from = block[0];
        int32_t i = 0, count;
        if (column + lanes < step->width) { /* all in one row */
            from = cube_row(&step->source, surface, row) + (int64_t)column * ATOM;
            column += i = lanes;
        }
        for (; i < lanes; i++) {
            if (run * lanes + i >= total) {
                memset(block[i], 0, ATOM);
                continue;
            }
            memcpy(block[i], cube_row(&step->source, surface, row) + (int64_t)column * ATOM, ATOM);
            if (++column == step->width) {
                column = 0;
                if (++row == step->height) {
                    row = 0;
                    surface++;
                }
            }
        }
        if (lanes == 8 && target.atom + lanes <= target.target->per_pixel) {
            uint8_t *to = stream_run(&target, lanes, &count);
            turn_halves_8(from, ATOM, to, step->target.atom_step);
            continue;
        }
        if (lanes == 8)
            turn_halves_8(from, ATOM, turned[0], ATOM);
        else
            for (i = 0; i < lanes; i++)
                for (int32_t lane = 0; lane < lanes; lane++)
                    memcpy(turned[lane] + i * size, from + i * ATOM + lane * size, (size_t)size);
        stream_atoms(&target, turned[0], lanes);
    }
}

static void stream_surface(const openrknn_move *step, int32_t surface)
{
    stream target = stream_at(&step->target, (int64_t)surface * step->height * step->width);
    for (int32_t row = 0; row < step->height; row++)
        stream_atoms(&target, cube_row(&step->source, surface, row), step->width);
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
        transpose_part(step, unit);
}

int run_move(const openrknn_move *step)
{
    openrknn_move local = *step;
    ptrdiff_t distance;
    if (take_snapshot(step->snapshot, step->snapshot_bytes, &distance) != 0)
        return -1;
    move_cube(&local.source, distance);
    run_units(step->surfaces, (int64_t)step->surfaces * step->height * step->width * ATOM / COPY_BYTES * 2, move_unit, &local);
    return 0;
}

/* ---------------------------------------------------------------------------------------------- reduction */

/* fp16 as a whole number in the same order; zeros and NaN have several. */
static inline int16_t order_of(uint16_t half)
{
    return (int16_t)(half ^ ((uint16_t)((int16_t)half >> 15) & 0x7fff));
}

typedef int16_t orders __attribute__((vector_size(ATOM))); /* order_of 8 of them */

static inline orders lowest_of(orders a, orders b)
{
#ifdef __SSE2__
    return (orders)_mm_min_epi16((__m128i)a, (__m128i)b);
#elif defined(__ARM_NEON)
    return (orders)vminq_s16((int16x8_t)a, (int16x8_t)b);
#else
    return (a & (a < b)) | (b & ~(a < b));
#endif
}

static inline orders highest_of(orders a, orders b)
{
#ifdef __SSE2__
    return (orders)_mm_max_epi16((__m128i)a, (__m128i)b);
#elif defined(__ARM_NEON)
    return (orders)vmaxq_s16((int16x8_t)a, (int16x8_t)b);
#else
    return (a & (a > b)) | (b & ~(a > b));
#endif
}

/*
 * The usual case of fp16: some columns at a time, of each 8 channels at a time. `is_told` of a column is 0 where there is a
 * NaN, or a zero wins, and the order of channels counts.
 */
enum { REDUCED = 32, REDUCED_AT_ONCE = 4 };

/* Columns whose best numbers stay in registers. `count` is what compilers know, most of the time. */
ALWAYS_INLINE void reduced_columns(const openrknn_reduction *step, int32_t row, int32_t column, const int32_t count,
                                   uint16_t *best_bits, uint8_t *is_told)
{
    enum { EACH = ATOM / 2, LOWEST = -31745, HIGHEST = 0x7c00 }; /* the infinities */
    const int32_t whole = step->channels / EACH, rest = step->channels % EACH;
    orders low[REDUCED_AT_ONCE], high[REDUCED_AT_ONCE];

    for (int32_t c = 0; c < count; c++) {
        low[c] = (orders){0} + INT16_MAX;
        high[c] = (orders){0} + INT16_MIN;
    }
    for (int32_t surface = 0; surface < whole + (rest != 0); surface++) {
        const uint8_t *at = cube_row(&step->source, surface, row) + (int64_t)column * ATOM;
#pragma GCC unroll 4
        for (int32_t c = 0; c < count; c++) {
            orders place;
            memcpy(&place, at + c * ATOM, sizeof place);
            if (surface == whole) /* lanes behind the last channel do not count */
                for (int32_t i = rest; i < EACH; i++)
                    place[i] = place[0];
            place ^= place >> 15 & 0x7fff;
            low[c] = lowest_of(low[c], place);
            high[c] = highest_of(high[c], place);
        }
    }
    for (int32_t c = 0; c < count; c++) {
        int16_t lowest = INT16_MAX, highest = INT16_MIN;
        for (int32_t i = 0; i < EACH; i++) {
            lowest = low[c][i] < lowest ? low[c][i] : lowest;
            highest = high[c][i] > highest ? high[c][i] : highest;
        }
        const int16_t best = step->largest ? highest : lowest;
        best_bits[c] = (uint16_t)order_of((uint16_t)best);
        is_told[c] = lowest >= LOWEST && highest <= HIGHEST && best != 0 && best != -1;
    }
}

static void reduced_halves(const openrknn_reduction *step, int32_t row, int32_t column, int32_t count, uint16_t *best_bits,
                           uint8_t *is_told)
{
    int32_t done = 0;
    for (; done + REDUCED_AT_ONCE <= count; done += REDUCED_AT_ONCE)
        reduced_columns(step, row, column + done, REDUCED_AT_ONCE, best_bits + done, is_told + done);
    for (; done < count; done++)
        reduced_columns(step, row, column + done, 1, best_bits + done, is_told + done);
}

static void reduction_unit(void *job, int32_t row)
{
    const openrknn_reduction *step = job;
    int32_t size = step->format == OPENRKNN_INT8 ? 1 : 2, each = ATOM / size;

    const int32_t has_halves = step->format == OPENRKNN_FP16;
    uint16_t found[REDUCED];
    uint8_t is_told[REDUCED];

    for (int32_t column = 0; column < step->width; column++) {
        const int32_t place = column % REDUCED;
        float32 best = 0;
        uint16_t best_bits = 0;
        if (has_halves && place == 0)
            reduced_halves(step, row, column, at_most(REDUCED, step->width - column), found, is_told);
        if (has_halves && is_told[place]) {
            memcpy(step->target + ((int64_t)row * step->width + column) * size, &found[place], (size_t)size);
            continue;
        }
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
        if (best != best)
            best_bits = 0x7e00; /* one NaN for all */
        memcpy(step->target + ((int64_t)row * step->width + column) * size, &best_bits, (size_t)size);
    }
}

int run_reduction(const openrknn_reduction *step)
{
    run_units(step->height, (int64_t)step->height * step->width * step->channels * 2, reduction_unit, (void *)step);
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
    openrknn_pooling local = *step;
    ptrdiff_t distance;
    if (take_snapshot(step->snapshot, step->snapshot_bytes, &distance) != 0)
        return -1;
    local.source = (const uint8_t *)((uintptr_t)step->source + (uintptr_t)distance);
    const int64_t seen = (int64_t)step->out_height * step->out_width * step->kernel_height * step->kernel_width;
    run_units(step->surfaces * step->out_height, step->surfaces * seen * 2, pooling_unit, &local);
    return 0;
}
