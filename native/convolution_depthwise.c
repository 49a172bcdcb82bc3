/* Depthwise convolution: 16 channels at a time, in integers and in floating point. */
#include "convolution.h"

/* From the sums of one atom of some pixels to the output. */
static void finish_pixels(const convolution *c, int32_t atom, int32_t pixel, int32_t pixels, int32_t *sums)
{
    const dpu_task task = {
        .dpu = &c->step->dpu,
        .kernels = c->kernels,
        .channel = atom * ATOM,
        .pixel = pixel,
        .pixels = pixels,
        .sums = sums,
    };
    dpu_finish(&task);
}

static void depthwise_unit(void *job, int32_t unit)
{
    const convolution *c = job;
    int32_t atom = unit % c->out_atoms, part = unit / c->out_atoms;
    int32_t from = (int32_t)((int64_t)part * c->segments / c->unit_columns);
    int32_t to = (int32_t)((int64_t)(part + 1) * c->segments / c->unit_columns), row, first, pixels;
    int32_t sums[SEGMENT * ATOM] __attribute__((aligned(64)));

    /* With one unit per atom its input is copied here, while it is near. */
    if (c->copies_late && atom < c->atoms)
        copy_unit(job, atom);
    for (int32_t s = from; s < to; s++) {
        segment_place(c, s, &row, &first, &pixels);
        if (atom < c->atoms) {
            depthwise_task task = {
                .input = c->copy + atom * c->plane_bytes + row * c->out_row_step + (int64_t)first * c->element,
                .offsets = c->offsets,
                .widths = c->offsets + c->taps,
                .strips = c->taps,
                .pixels = pixels,
                .pixel_step = c->element,
                .weights = c->weights + atom * c->block_bytes,
                .addends = c->addends ? c->addends + atom * ATOM : NULL,
                .sums = sums,
            };
            c->kernels->depthwise(&task);
        } else {
            /* Channels without data. */
            for (int32_t i = 0; i < SEGMENT * ATOM; i++)
                sums[i] = c->addends ? c->addends[atom * ATOM + i % ATOM] : 0;
        }
        finish_pixels(c, atom, row * c->out_columns + first, pixels, sums);
    }
}

/* One tap of 16 channels is one or two instructions that multiply, and as many that prepare the inputs. */
static int64_t depthwise_work(const convolution *c)
{
    const int64_t atoms = (int64_t)c->out_rows * c->out_columns * c->out_atoms;
    const int32_t window = c->step->kernel_height * c->step->kernel_width;
    return atoms * window * (is_float(c->step) ? 4 : 1) + dpu_work(&c->step->dpu, atoms);
}

/* ---------------------------------------------------------------------------------------------- in groups */

static int64_t source_bytes(const openrknn_convolution *step)
{
    const int32_t atom = step->dpu.halves ? ATOM / 2 : ATOM;
    return (divide_up(step->channels, atom) - 1) * step->surface + (step->height - 1) * step->line + (int64_t)step->width * atom;
}

/* Whether results may be written before all of the input is read. */
static int32_t is_apart(const openrknn_convolution *step)
{
    const openrknn_target *target = &step->dpu.target;
    const int64_t area = (int64_t)target->width * target->height, pixels = (int64_t)step->out_height * step->out_width;
    const int64_t groups = divide_up(target->atoms, target->per_pixel);
    const int64_t last = ((groups - 1) * target->pixels + (pixels > target->pixels ? pixels : target->pixels) - 1) / area;
    const int64_t bytes = last * target->group_step + (target->per_pixel - 1) * target->atom_step +
                          (target->height - 1) * target->line + (int64_t)target->width * ATOM;
    const uintptr_t from = (uintptr_t)step->source, to = (uintptr_t)target->base;
    if (target->group_step < 0 || target->atom_step < 0 || target->line < 0)
        return 0;
    return from + (uintptr_t)source_bytes(step) <= to || to + (uintptr_t)bytes <= from;
}

enum { ROW_SLACK = 8 * ATOM, MOST_TAPS = LARGEST_KERNEL * (LARGEST_KERNEL / GROUP_PIXELS + 1) };

/* Bytes of a row in groups. */
static int64_t group_row_bytes(const convolution *c)
{
    return (divide_up(c->columns, 2) + 2 * GROUP_PIXELS) * (int64_t)GROUP_BYTES;
}

/* What kernels know of an atom. */
static void prepare_groups(const convolution *c, int32_t atom, const groups_block *block, uint8_t *constants)
{
    const block_task task = {
        .addends = c->addends ? c->addends + atom * ATOM : NULL,
        .offsets = block->offsets,
        .chain = c->is_fused ? &c->step->dpu.chain : NULL,
        .channel = atom * ATOM,
        .magnitudes = block->magnitudes,
    };
    c->kernels->prepare(&task, constants);
}

/* Bytes of some pixels to where they belong, in pieces. */
static void put_pieces(const convolution *c, int32_t atom, int32_t pixel, int32_t pixels, const uint8_t *bytes)
{
    for (int32_t done = 0, run; done < pixels; done += run) {
        uint8_t *target = target_run(&c->step->dpu.target, atom, pixel + done, &run);
        run = at_most(run, pixels - done);
        memcpy(target, bytes + done * ATOM, (size_t)run * ATOM);
    }
}

/* One row of results. */
static void groups_row(const convolution *c, int32_t atom, int32_t row, groups_task task)
{
    const openrknn_dpu *dpu = &c->step->dpu;
    const int32_t pixel = row * c->out_columns;
    const uint8_t *const *taps = task.taps, *at[MOST_TAPS];
    int32_t sums[SEGMENT * ATOM] __attribute__((aligned(64))), whole = 0;

    task.target = c->is_fused ? target_run(&dpu->target, atom, pixel, &whole) : NULL;
    if (whole >= c->out_columns) {
        task.pixels = c->out_columns;
        c->kernels->depthwise_groups(&task);
        dpu_fill(dpu, atom * ATOM, task.target, c->out_columns);
        return;
    }
    task.taps = at;
    task.sums = sums;
    task.target = (uint8_t *)sums;
    for (int32_t first = 0; first < c->out_columns; first += USUAL_SEGMENT) {
        task.pixels = at_most(USUAL_SEGMENT, c->out_columns - first);
        for (int32_t i = 0; i < task.count; i++)
            at[i] = taps[i] + (int64_t)first * c->step->stride_x / 2 * GROUP_BYTES;
        c->kernels->depthwise_groups(&task);
        if (!c->is_fused) {
            finish_pixels(c, atom, pixel + first, task.pixels, sums);
            continue;
        }
        dpu_fill(dpu, atom * ATOM, task.target, task.pixels);
        put_pieces(c, atom, pixel + first, task.pixels, task.target);
    }
}

/* What is needed to bring rows of one atom into groups. */
typedef struct {
    convolution own; /* copies one row */
    zip_task zip;
    uint8_t pads[ATOM];
    int32_t atom, is_copied; /* rows are copied before, because they are not as they should be in memory */
} group_rows;

/* Row `row` of the input with its padding. */
static void zip_row(group_rows *rows, int32_t row, uint8_t *groups)
{
    const openrknn_convolution *step = rows->own.step;
    const int32_t from = row - step->pad_top, has_data = from >= 0 && from < step->height;
    rows->zip.groups = groups;
    if (rows->is_copied) {
        copy_rows(&rows->own, rows->atom, row, row + 1);
    } else {
        rows->zip.source = step->source + rows->atom * step->surface + (has_data ? from : 0) * step->line;
        rows->zip.count = has_data ? step->width : 0;
    }
    rows->own.kernels->zip_groups(&rows->zip);
}

/* Small planes are brought into groups as a whole, and computed in one call. */
enum { PLANE_BYTES = 48 << 10 };

static int32_t is_plane(const convolution *c)
{
    const openrknn_target *target = &c->step->dpu.target;
    return c->is_fused && c->rows * group_row_bytes(c) <= PLANE_BYTES && target->line == (int64_t)target->width * ATOM &&
           target->pixels == (int64_t)target->width * target->height && c->out_rows * c->out_columns <= target->pixels;
}

static void groups_plane(group_rows *rows, int32_t from, int32_t to, uint8_t *groups, groups_task task)
{
    const convolution *c = &rows->own;
    const openrknn_convolution *step = c->step;
    const int64_t slot_bytes = group_row_bytes(c);
    const int32_t first = from * step->stride_y, runs = group_runs(step), atom = rows->atom;
    const uint8_t *taps[MOST_TAPS];
    int32_t run;

    for (int32_t row = first; row < (to - 1) * step->stride_y + step->kernel_height && atom < c->atoms; row++)
        zip_row(rows, row, groups + (row - first) * slot_bytes);
    for (int32_t i = 0; i < task.count; i++)
        taps[i] = groups + i / runs * slot_bytes + i % runs * 2 * GROUP_BYTES;
    task.taps = taps;
    task.pixels = c->out_columns;
    task.rows = to - from;
    task.row_step = step->stride_y * slot_bytes;
    task.target = target_run(&step->dpu.target, atom, from * c->out_columns, &run);
    c->kernels->depthwise_groups(&task);
    dpu_fill(&step->dpu, atom * ATOM, task.target, task.rows * task.pixels);
}

/* Some rows of the result of one atom. The rows of the kernel stay in the first level cache, in groups. */
static void groups_unit(void *job, int32_t unit)
{
    const convolution *c = job;
    const openrknn_convolution *step = c->step;
    const int32_t atom = unit % c->out_atoms, part = unit / c->out_atoms, height = step->kernel_height;
    const int32_t from = (int32_t)((int64_t)part * c->out_rows / c->unit_columns), runs = group_runs(step);
    const int32_t to = (int32_t)((int64_t)(part + 1) * c->out_rows / c->unit_columns);
    const int64_t slot_bytes = group_row_bytes(c);
    const uint8_t *block = c->weights + atom * c->block_bytes, *taps[MOST_TAPS];
    const groups_block *about = (const groups_block *)block;
    uint8_t constants[CONSTANT_BYTES] __attribute__((aligned(64)));
    group_rows rows = {.own = *c, .atom = atom, .is_copied = step->converter || step->dpu.halves};

    /* A copied row, and a ring of as many rows in groups as the kernel has, or all of them. */
    const int64_t slots = is_plane(c) ? at_least(c->rows, height) : height;
    rows.own.copy = scratch(SCRATCH_INPUT, slots * slot_bytes + c->row_bytes + ROW_SLACK + SLACK);
    if (!rows.own.copy) {
        ((convolution *)job)->failed = 1;
        return;
    }
    rows.own.plane_bytes = rows.own.row_bytes = 0;
    for (int32_t i = 0; i < ATOM; i++)
        rows.pads[i] = (uint8_t)step->pads[i & 1];
    rows.zip = (zip_task){
        .source = rows.own.copy,
        .before = rows.is_copied ? 0 : step->pad_left,
        .count = c->columns,
        .pads = rows.pads,
        .flips = about->flips,
        .pairs = divide_up(c->columns, 2),
    };
    uint8_t *ring = rows.own.copy + round_up(c->row_bytes + ROW_SLACK, 64);
    const groups_task task = {
        .taps = taps,
        .count = height * runs,
        .stride = step->stride_x,
        .layers = about->layers,
        .weights = (const int8_t *)block + GROUPS_HEADER,
        .constants = constants,
        .rows = 1,
    };
    prepare_groups(c, atom, about, constants);
    if (is_plane(c)) {
        groups_plane(&rows, from, to, ring, task);
        return;
    }
    for (int32_t row = from, next = from * step->stride_y, next_slot = 0, slot = 0; row < to; row++) {
        for (; next < row * step->stride_y + height && atom < c->atoms; next++) {
            zip_row(&rows, next, ring + next_slot * slot_bytes);
            next_slot = next_slot + 1 < height ? next_slot + 1 : 0;
        }
        for (int32_t y = 0; y < height; y++)
            for (int32_t run = 0; run < runs; run++)
                taps[y * runs + run] = ring + (slot + y < height ? slot + y : slot + y - height) * slot_bytes + run * 2 * GROUP_BYTES;
        groups_row(c, atom, row, task);
        slot = (slot + step->stride_y) % height;
    }
}

static int run_groups(convolution *c)
{
    const openrknn_convolution *step = c->step;
    openrknn_convolution apart = *step;
    if (step->copies_first || !is_apart(step)) {
        uint8_t *copy = scratch(SCRATCH_ROW_SUMS, source_bytes(step) + SLACK);
        if (!copy)
            return -1;
        memcpy(copy, step->source, (size_t)source_bytes(step));
        apart.source = copy;
        c->step = &apart;
    }
    c->phases = 1;
    c->columns = (step->out_width - 1) * step->stride_x + step->kernel_width;
    c->element = ATOM;
    c->row_bytes = (int64_t)c->columns * ATOM;
    c->rows = (step->out_height - 1) * step->stride_y + step->kernel_height;
    c->out_rows = step->out_height;
    c->out_columns = step->out_width;
    c->out_atoms = out_atoms(step);
    c->weights = step->packed;
    c->block_bytes = depthwise_bytes(step, c->kernels);
    c->work = depthwise_work(c);
    c->largest_sum = (int64_t)step->kernel_height * step->kernel_width * -INT8_MIN * UINT8_MAX;
    c->is_fused = !step->dpu.halves && !(step->dpu.chain.flags & (OPENRKNN_CHAIN_ADD | OPENRKNN_CHAIN_TABLE)) && c->kernels->fuses &&
                  c->kernels->fuses(&step->dpu.chain, c->largest_sum, c->out_atoms * ATOM);
    const int32_t threads = useful_threads(c->work);
    c->unit_columns = threads > 1 && c->out_atoms < 2 * threads ? at_most(c->out_rows, 2 * threads) : 1;
    run_units(c->out_atoms * c->unit_columns, c->work, groups_unit, c);
    return c->failed ? -1 : 0;
}

int run_depthwise(convolution *c)
{
    const openrknn_convolution *step = c->step;
    if (has_groups(step, c->kernels))
        return run_groups(c);
    column_run runs[LARGEST_KERNEL];
    int32_t count = column_runs(step, runs), strip = 0;
    int32_t *offsets = scratch(SCRATCH_OFFSETS, 2 * step->kernel_height * count * (int64_t)sizeof(int32_t));

    if (!offsets)
        return -1;
    plan_copy(c);
    c->offsets = offsets;
    c->taps = step->kernel_height * count;
    for (int32_t y = 0; y < step->kernel_height; y++)
        for (int32_t run = 0; run < count; run++, strip++) {
            offsets[strip] = (int32_t)tap_offset(c, y, runs[run].first);
            offsets[c->taps + strip] = runs[run].width;
        }
    c->copy = scratch(SCRATCH_INPUT, c->atoms * c->plane_bytes + SLACK);
    if (!c->copy)
        return -1;
    c->out_rows = step->out_height;
    c->out_columns = step->out_width;
    c->out_row_step = step->stride_y * c->row_bytes;
    c->out_atoms = out_atoms(step);
    c->weights = step->packed;
    c->block_bytes = depthwise_bytes(step, c->kernels);
    count_segments(c);
    c->work = depthwise_work(c);
    const int32_t threads = useful_threads(c->work);
    c->unit_columns = threads > 1 && c->out_atoms < 2 * threads ? at_most(c->segments, 2 * threads) : 1;
    c->copies_late = c->unit_columns == 1 && !step->copies_first;
    if (!c->copies_late)
        copy_all(c, at_most(c->atoms, c->out_atoms));
    run_units(c->out_atoms * c->unit_columns, c->work, depthwise_unit, c);
    return 0;
}

/* ---------------------------------------------------------------------------------------------- floating point */

static void float_depthwise_unit(void *job, int32_t group)
{
    const convolution *c = job;
    const openrknn_convolution *step = c->step;
    int32_t row, first, pixels;
    float32 sums[SEGMENT * ATOM] __attribute__((aligned(64)));

    if (c->copies_late) {
        copy_unit(job, 2 * group);
        copy_unit(job, 2 * group + 1);
    }
    for (int32_t s = 0; s < c->segments; s++) {
        segment_place(c, s, &row, &first, &pixels);
        const uint8_t *input = c->copy + 2 * group * c->plane_bytes + row * c->out_row_step + (int64_t)first * c->element;
        float_depthwise_task task = {
            .input = {input, input + c->plane_bytes},
            .offsets = c->offsets,
            .taps = c->taps,
            .pixels = pixels,
            .format = step->format,
            .weights = c->weights + group * c->block_bytes,
            .sums = sums,
        };
        dpu_task finish = {
            .dpu = &step->dpu,
            .kernels = c->kernels,
            .channel = group * ATOM,
            .pixel = row * c->out_columns + first,
            .pixels = pixels,
            .floats = sums,
        };
        c->kernels->float_depthwise(&task);
        dpu_finish(&finish);
    }
}

int run_float_depthwise(convolution *c)
{
    const openrknn_convolution *step = c->step;
    int32_t taps = step->kernel_height * step->kernel_width;
    int32_t *offsets = scratch(SCRATCH_OFFSETS, taps * (int64_t)sizeof(int32_t));

    if (!offsets)
        return -1;
    plan_copy(c);
    c->out_atoms = out_atoms(step);
    c->copy = scratch(SCRATCH_INPUT, 2 * c->out_atoms * c->plane_bytes + SLACK);
    if (!c->copy)
        return -1;
    c->offsets = offsets;
    c->taps = taps;
    for (int32_t tap = 0; tap < taps; tap++)
        offsets[tap] = (int32_t)tap_offset(c, tap / step->kernel_width, tap % step->kernel_width);
    c->out_rows = step->out_height;
    c->out_columns = step->out_width;
    c->out_row_step = step->stride_y * c->row_bytes;
    c->weights = step->packed;
    c->block_bytes = float_block_bytes(step);
    count_segments(c);
    c->copies_late = !step->copies_first;
    if (!c->copies_late)
        run_units(2 * c->out_atoms, depthwise_work(c) / 4, copy_unit, c);
    run_units(c->out_atoms, depthwise_work(c), float_depthwise_unit, c);
    return 0;
}
