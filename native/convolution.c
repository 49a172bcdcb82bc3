/*
 * Convolution: the twin of openrknn/npu/blocks/cna.py and core.py.
 *
 * First the input is copied with its padding, so that no window ever leaves it; a column goes to the place where all
 * columns that one kernel position sees are neighbours, whatever the stride. Pictures become 4 bytes per pixel. A
 * 1 x 1 convolution without stride or padding reads memory as it is.
 *
 * Then runs of output pixels ("segments") are computed for one block of output channels after another: the kernel
 * leaves accumulators in the first level cache, and the DPU takes them from there.
 *
 * fp16 and bf16 go the same way, with inputs that become floats; convolution_float.c computes their segments.
 */
#include "convolution.h"

/* ---------------------------------------------------------------------------------------------- direct */

/* The results of a segment where they belong, without a detour through sums in memory. */
static void fused_segment(const convolution *c, int32_t block, int32_t pixel, const segment_task *task)
{
    const openrknn_dpu *dpu = &c->step->dpu;
    const openrknn_cube *operand = dpu->chain.flags & OPENRKNN_CHAIN_ADD ? &dpu->element_wise.operand : NULL;
    segment_task part = *task;
    for (int32_t done = 0; done < task->pixels; done += part.pixels) {
        part.input = task->input + (int64_t)done * task->pixel_step;
        part.window = task->window ? task->window + done : NULL;
        part.target = target_run(&dpu->target, block, pixel + done, &part.pixels);
        part.pixels = at_most(part.pixels, task->pixels - done);
        if (operand) {
            const int32_t row = (pixel + done) / dpu->width, column = (pixel + done) % dpu->width;
            part.operand = (const int8_t *)cube_row(operand, block, row) + (int64_t)column * ATOM;
            if (operand->line[block & 1] != (int64_t)dpu->width * ATOM)
                part.pixels = at_most(part.pixels, dpu->width - column);
        }
        c->kernels->segment(&part);
        dpu_fill(dpu, block * ATOM, part.target, part.pixels);
    }
}

/* What kernels know of a block of channels. */
static void prepare_block(const convolution *c, int32_t block, uint8_t *constants)
{
    const int32_t channel = block * c->kernels->block * ATOM;
    const block_task task = {
        .factors = c->has_window ? c->factors + channel : NULL,
        .addends = c->addends ? c->addends + channel : NULL,
        .windows = c->windows,
        .chain = c->is_fused ? &c->step->dpu.chain : NULL,
        .channel = channel,
        .magnitudes = c->is_fused ? c->magnitudes + channel : NULL,
    };
    if (c->kernels->prepare)
        c->kernels->prepare(&task, constants);
}

static void direct_segments(const convolution *c, int32_t from, int32_t to, int32_t first_block, int32_t last_block)
{
    const openrknn_convolution *step = c->step;
    const kernel_set *kernels = c->kernels;
    int32_t sums[4 * SEGMENT * ATOM] __attribute__((aligned(64)));
    int32_t window[GROUP][SEGMENT] __attribute__((aligned(64)));
    sums_queue queue; /* its room is not cleared */
    uint8_t constants[CONSTANT_BYTES] __attribute__((aligned(64)));
    int32_t rows[GROUP], firsts[GROUP], counts[GROUP], is_picture = step->picture != 0, has_window = c->has_window;
    int32_t block_atoms = kernels->block, most_atoms = kernels->block * kernels->at_once;

    queue_begin(&queue, c);
    for (int32_t s = 0; s < to - from; s++) {
        segment_place(c, from + s, rows + s, firsts + s, counts + s);
        if (has_window)
            segment_window(c, rows[s], firsts[s], counts[s], window[s]);
    }
    for (int32_t block = first_block; block < last_block; block += kernels->at_once) {
        prepare_block(c, block, constants);
        for (int32_t s = 0; s < to - from; s++) {
            const int32_t row = rows[s], first = firsts[s], pixels = counts[s];
            segment_task task = {
                .input = segment_input(c, row, first),
                .offsets = c->offsets,
                .taps = c->taps,
                .is_picture = is_picture,
                .run = run_width(step),
                .pixels = pixels,
                .pixel_step = c->pixel_step,
                .tile_step = c->has_row_tiles ? c->out_row_step : ATOM * (int64_t)c->pixel_step,
                .atoms = at_most(at_most(most_atoms, (last_block - block) * block_atoms), c->out_atoms - block * block_atoms),
                .weights = c->weights + block * c->block_bytes,
                .window = has_window ? window[s] : NULL,
                .factors = has_window ? c->factors + block * block_atoms * ATOM : NULL,
                .addends = c->addends ? c->addends + block * block_atoms * ATOM : NULL,
                .constants = constants,
                .sums = sums,
                .queue = c->by_pixel ? &queue : NULL,
                .row = row,
                .first = first,
                .atom = block * block_atoms,
                .fetch_part = s,
                .fetch_parts = to - from,
            };
            const int32_t pixel = row * c->out_columns + first;
            if (c->is_fused) {
                fused_segment(c, block, pixel, &task);
                continue;
            }
            kernels->segment(&task);
            for (int32_t atom = 0; atom < task.atoms && !c->by_pixel; atom++) {
                int32_t channel = (block * block_atoms + atom) * ATOM;
                dpu_task finish = {
                    .dpu = &step->dpu,
                    .kernels = kernels,
                    .channel = channel,
                    .pixel = pixel,
                    .pixels = pixels,
                    .sums = sums + atom * SEGMENT * ATOM,
                };
                dpu_finish(&finish);
            }
        }
    }
    queue_end(&queue);
}

static void direct_unit(void *job, int32_t unit)
{
    const convolution *c = job;
    int32_t place = unit / c->unit_columns, block = unit % c->unit_columns * c->blocks_per_unit;
    int32_t from = (int32_t)((int64_t)place * c->segments / c->segment_units);
    int32_t to = (int32_t)((int64_t)(place + 1) * c->segments / c->segment_units);

    if (c->by_pixel && c->kernels->begin)
        c->kernels->begin();
    const int32_t group = is_float(c->step) ? FLOAT_SEGMENTS : GROUP;
    for (; from < to; from += group)
        (is_float(c->step) ? float_segments : direct_segments)(
            c, from, at_most(from + group, to), block, at_most(block + c->blocks_per_unit, c->blocks));
    if (c->by_pixel && c->kernels->end)
        c->kernels->end();
}

/* Each pixel sees itself alone. */
static int32_t sees_pixels(const openrknn_convolution *step)
{
    return !step->copies_first && !step->dpu.halves && !step->picture && !step->converter && step->kernel_height == 1 &&
           step->kernel_width == 1 && step->stride_x == 1 && step->stride_y == 1 && step->spread_x == 1 && step->spread_y == 1 &&
           step->pad_top == 0 && step->pad_left == 0 && step->out_height <= step->height && step->out_width <= step->width;
}

/* Sums of all channels: with one output, and no tap left out. */
static int32_t is_lone(const convolution *c)
{
    const openrknn_convolution *step = c->step;
    return c->kernels->half_lone && step->format == OPENRKNN_FP16 && step->weight_kernels == 1 && c->blocks == 1 &&
           step->channels % FLOAT_CHANNELS == 0 && ((const float_block *)c->weights)->taps == c->taps;
}

static int32_t reads_memory(const convolution *c)
{
    if (!sees_pixels(c->step))
        return 0;
    return is_float(c->step) ? is_lone(c) : c->kernels->input_bytes == 1 && !c->kernels->by_pixel;
}

static void divide_work(convolution *c)
{
    int64_t macs = (int64_t)c->out_rows * c->out_columns * c->out_atoms * tap_count(c->step) * 16 * lanes_of(c->step);
    int32_t rate = is_float(c->step) ? c->kernels->float_products : c->kernels->products;
    c->work = macs / rate + dpu_work(&c->step->dpu, (int64_t)c->out_rows * c->out_columns * c->out_atoms);
    int32_t threads = useful_threads(c->work), wanted = threads > 1 ? 4 * threads : 1;

    count_segments(c);
    c->segment_units = at_most(c->segments, wanted);
    c->unit_columns = at_most(c->blocks, divide_up(wanted, c->segment_units));
    c->blocks_per_unit = divide_up(c->blocks, c->unit_columns);
    c->unit_columns = divide_up(c->blocks, c->blocks_per_unit);
}

/*
 * By pixel: one run through all rows, if it has fewer tiles than the rows by themselves. Rows of one tile are a run of
 * tiles: two of them share what is loaded of the weights.
 */
static void plan_runs(convolution *c)
{
    const int32_t all = (c->out_rows - 1) * c->columns + c->out_columns;
    const int32_t is_run = c->step->stride_x == 1 && c->step->stride_y == 1 && c->columns >= c->out_columns &&
                           divide_up(all, ATOM) <= c->out_rows * divide_up(c->out_columns, ATOM);
    c->has_row_tiles = !is_run && c->out_columns <= ATOM;
    if (c->out_rows == 1 || (!is_run && !c->has_row_tiles)) {
        c->has_row_tiles = 0;
        return;
    }
    c->run_columns = is_run ? c->columns : ATOM;
    c->out_columns = is_run ? all : (c->out_rows - 1) * ATOM + c->out_columns;
    c->out_rows = 1;
}

/* From what a pixel sees to each piece of 64 bytes. */
static void piece_offsets(const convolution *c, int32_t *offsets)
{
    const openrknn_convolution *step = c->step;
    for (int32_t y = 0; y < step->kernel_height; y++)
        for (int32_t x = 0; x < step->kernel_width; x += run_width(step))
            for (int32_t piece = 0; piece < run_pieces(step); piece++)
                *offsets++ = (int32_t)(tap_offset(c, y, x) + piece * PIECE);
}

/* The largest magnitude of a sum, before or after what its window adds: that of the weights with and without corrections. */
static int64_t largest_of_weights(const convolution *c)
{
    const int64_t inputs = (int64_t)tap_count(c->step) * lanes_of(c->step);
    int64_t largest = 0;
    for (int32_t o = 0; o < c->out_atoms * ATOM; o++) {
        const int64_t factor = c->factors[o] < 0 ? -(int64_t)c->factors[o] : c->factors[o];
        const int64_t sum = -(int64_t)INT8_MIN * (c->magnitudes[o] + inputs * factor);
        largest = sum > largest ? sum : largest;
    }
    return largest < c->largest_sum ? largest : c->largest_sum;
}

/* Chains that can follow the sums in registers. */
static void plan_fusion(convolution *c)
{
    const openrknn_convolution *step = c->step;
    if (is_float(step) || step->dpu.halves || c->run_columns || !c->kernels->fuses)
        return;
    if (step->dpu.chain.flags & OPENRKNN_CHAIN_ADD && step->dpu.element_wise.operand_kind != 2)
        return;
    c->magnitudes = (const int32_t *)(step->packed + correction_bytes(step, c->kernels));
    c->is_fused = c->kernels->fuses(&step->dpu.chain, largest_of_weights(c), c->out_atoms * ATOM);
    if (c->is_fused == 2 && c->has_window)
        c->windows = WINDOW_FLOAT;
}

static int run_direct(convolution *c)
{
    const openrknn_convolution *step = c->step;
    int32_t window = step->kernel_height * step->kernel_width, planes = c->atoms;
    int32_t *offsets = scratch(SCRATCH_OFFSETS, (int64_t)at_least(tap_count(step), piece_count(step)) * (int64_t)sizeof(int32_t));

    if (!offsets)
        return -1;
    c->taps = tap_count(step);
    c->offsets = offsets;
    c->out_rows = step->out_height;
    c->out_columns = step->out_width;
    c->out_atoms = out_atoms(step);
    c->blocks = is_float(step) ? c->out_atoms : divide_up(c->out_atoms, c->kernels->block);
    c->factors = (const int32_t *)step->packed;
    c->weights = is_float(step) ? step->packed : step->packed + factor_bytes(step, c->kernels);
    c->block_bytes = is_float(step) ? float_block_bytes(step) : c->kernels->block_bytes(kernel_taps(step, c->kernels), step->picture != 0);
    if (reads_memory(c)) {
        c->reads_halves = is_float(step);
        c->element = c->pixel_step = ATOM;
        c->input = step->source;
        c->out_row_step = step->line;
        for (int32_t atom = 0; atom < c->atoms; atom++)
            offsets[atom] = (int32_t)(atom * step->surface);
        if (step->line == (int64_t)step->width * ATOM && step->out_width == step->width) {
            c->out_columns *= c->out_rows;
            c->out_rows = 1;
        }
    } else {
        plan_copy(c);
        if (is_float(step) && window == 1 && step->stride_y == 1 && step->stride_x == 1) {
            /* Rows follow each other without a gap. */
            c->out_columns *= c->out_rows;
            c->out_rows = 1;
        }
        /* By pixel, a tile may begin with the last pixel. */
        c->copy = scratch(SCRATCH_INPUT, c->by_pixel ? c->rows * c->row_bytes + ATOM * (int64_t)c->pixel_step + SLACK
                                                     : planes * c->plane_bytes + SLACK);
        if (!c->copy)
            return -1;
        c->input = c->copy;
        c->out_row_step = step->stride_y * c->row_bytes;
        if (is_by_row(step, c->kernels))
            c->taps = window / run_width(step);
        if (c->by_pixel) {
            c->taps = piece_count(step);
            piece_offsets(c, offsets);
            plan_runs(c);
        }
        for (int32_t plane = 0, at = 0; plane < planes && !c->by_pixel; plane++)
            for (int32_t tap = 0; tap < window; tap += is_by_row(step, c->kernels) ? run_width(step) : 1)
                offsets[at++] = (int32_t)(plane * c->plane_bytes +
                                          tap_offset(c, tap / step->kernel_width, tap % step->kernel_width));
        if (step->picture)
            run_units(c->rows, c->rows * c->row_bytes, copy_unit, c);
        else
            copy_all(c, planes);
        if (is_float(step))
            find_infinite(c, planes * c->plane_bytes);
    }
    if (!is_float(step) && prepare_windows(c))
        return -1;
    plan_fusion(c);
    plan_queue(c);
    divide_work(c);
    run_units(c->segment_units * c->unit_columns, c->work, direct_unit, c);
    return 0;
}

int run_convolution(const openrknn_convolution *step)
{
    if (step->source_format != step->format) {
        openrknn_convolution wide = *step;
        return widen_features(&wide) ? -1 : run_convolution(&wide);
    }
    convolution c = {
        .step = step,
        .kernels = convolution_kernels(step),
        .atoms = input_atoms(step),
        .addends = step->dpu.chain.flags ? step->dpu.chain.addends : NULL,
    };
    if (step->fresh_weights && openrknn_pack(step))
        return -1;
    if (!step->depthwise)
        return run_direct(&c);
    return is_float(step) ? run_float_depthwise(&c) : run_depthwise(&c);
}
