/*
 * Zero points of weights: a sum needs the sum of what its window sees, times what is added to the weights of its channel.
 *
 * Where windows overlap, the channels of each pixel of the input are added up once, and a window is the sum of its pixels.
 */
#include "convolution.h"

/* ---------------------------------------------------------------------------------------------- by pixel */

/* By pixel: sums of windows from those of rows. */
static void add_rows(const convolution *c, int32_t row, int32_t first, int32_t pixels, int32_t *window)
{
    const openrknn_convolution *step = c->step;
    memset(window, 0, (size_t)pixels * sizeof *window);
    for (int32_t done = 0, run; done < pixels; done += run) {
        int32_t column = first + done, from = row, count = run = pixels - done;
        if (c->has_row_tiles) {
            from = column / ATOM;
            column = 0;
            run = at_most(run, ATOM);
            count = at_most(run, step->out_width);
        }
        const int32_t *sums = c->row_sums + (int64_t)from * step->stride_y * c->row_columns + column;
        for (int32_t y = 0; y < step->kernel_height; y++, sums += (int64_t)step->dilation_y * c->row_columns)
            for (int32_t i = 0; i < count; i++)
                window[done + i] += sums[i];
    }
}

/* By pixel: sums of what the columns of a kernel see, of some rows. */
static void row_sums_unit(void *job, int32_t chunk)
{
    const convolution *c = job;
    const openrknn_convolution *step = c->step;
    const int32_t from = (int32_t)((int64_t)chunk * c->rows / c->chunks), to = (int32_t)((int64_t)(chunk + 1) * c->rows / c->chunks);
    const row_sums_task task = {
        .input = c->copy + from * c->row_bytes,
        .rows = to - from,
        .columns = c->columns,
        .pixel_bytes = c->element,
        .is_picture = step->picture != 0,
        .ones = c->weights + c->blocks * c->block_bytes,
        .width = step->kernel_width,
        .step = step->stride_x,
        .distance = step->dilation_x,
        .pixels = c->pixel_sums + (int64_t)from * c->columns,
        .sums = c->row_sums + (int64_t)from * c->row_columns,
        .row_sums = c->row_columns,
        .count = step->out_width,
    };
    if (c->kernels->begin)
        c->kernels->begin();
    c->kernels->row_sums(&task);
    if (c->kernels->end)
        c->kernels->end();
}

static int add_up_rows(convolution *c)
{
    const int64_t pixels = (int64_t)c->rows * c->columns, work = 3 * pixels;
    c->row_columns = c->run_columns && !c->has_row_tiles ? c->columns : c->step->out_width;
    c->pixel_sums = scratch(SCRATCH_ROW_SUMS, (pixels + (int64_t)c->rows * c->row_columns) * (int64_t)sizeof(int32_t));
    if (!c->pixel_sums)
        return -1;
    c->row_sums = c->pixel_sums + pixels;
    c->chunks = at_most(c->rows, useful_threads(work));
    run_units(c->chunks, work, row_sums_unit, c);
    return 0;
}

/* ---------------------------------------------------------------------------------------------- others */

static int32_t last_lanes(const convolution *c)
{
    return c->step->picture ? PICTURE_CHANNELS : c->step->channels - (c->atoms - 1) * ATOM;
}

/* Where windows overlap, pixels are added up once; of pictures, a vector holds what a row of the kernel sees. */
static int32_t has_pixel_sums(const convolution *c)
{
    return c->kernels->by_row && c->input == c->copy && c->step->kernel_height * c->step->kernel_width > 1 && !c->step->picture;
}

/* The channels of each pixel of some rows. */
static void pixel_sums_unit(void *job, int32_t chunk)
{
    const convolution *c = job;
    const int32_t from = (int32_t)((int64_t)chunk * c->rows / c->chunks), to = (int32_t)((int64_t)(chunk + 1) * c->rows / c->chunks);
    const int32_t columns = c->phases * c->columns;
    const window_task task = {
        .input = c->copy + from * c->row_bytes,
        .offsets = c->plane_offsets,
        .taps = c->atoms,
        .pixels = (to - from) * columns,
        .pixel_step = c->element,
        .full_taps = c->atoms - 1,
        .last_lanes = last_lanes(c),
        .window = c->pixel_sums + (int64_t)from * columns,
    };
    c->kernels->window(&task);
}

static int add_up_pixels(convolution *c)
{
    const int64_t pixels = (int64_t)c->rows * c->phases * c->columns, work = pixels * c->atoms;
    int32_t *memory = scratch(SCRATCH_ROW_SUMS, (pixels + c->atoms) * (int64_t)sizeof(int32_t));
    if (!memory)
        return -1;
    for (int32_t atom = 0; atom < c->atoms; atom++)
        memory[atom] = (int32_t)(atom * c->plane_bytes);
    c->plane_offsets = memory;
    c->pixel_sums = memory + c->atoms;
    c->chunks = at_most(c->rows, useful_threads(work));
    run_units(c->chunks, work, pixel_sums_unit, c);
    return 0;
}

static void add_windows(const convolution *c, int32_t row, int32_t first, int32_t count, int32_t *restrict window)
{
    const openrknn_convolution *step = c->step;
    const int32_t *pixels = c->pixel_sums + (segment_input(c, row, first) - c->copy) / c->element;

    memset(window, 0, (size_t)count * sizeof *window);
    for (int32_t y = 0; y < step->kernel_height; y++)
        for (int32_t x = 0; x < step->kernel_width; x++) {
            const int32_t *seen = pixels + tap_offset(c, y, x) / c->element;
            for (int32_t i = 0; i < count; i++)
                window[i] += seen[i];
        }
}

static void add_up(const convolution *c, int32_t row, int32_t first, int32_t pixels, int32_t *window)
{
    if (c->by_pixel) {
        add_rows(c, row, first, pixels, window);
        return;
    }
    if (has_pixel_sums(c)) {
        add_windows(c, row, first, pixels, window);
        return;
    }
    const window_task task = {
        .input = segment_input(c, row, first),
        .offsets = c->offsets,
        .taps = c->taps,
        .is_picture = c->step->picture != 0,
        .run = is_by_row(c->step, c->kernels) ? run_width(c->step) : 1,
        .pixels = pixels,
        .pixel_step = c->pixel_step,
        .full_taps = c->taps - c->taps / c->atoms,
        .last_lanes = last_lanes(c),
        .window = window,
    };
    c->kernels->window(&task);
}

void segment_window(const convolution *c, int32_t row, int32_t first, int32_t pixels, int32_t *window)
{
    add_up(c, row, first, pixels, window);
    for (int32_t i = 0; i < pixels && c->windows == WINDOW_FLOAT; i++) {
        const float32 sum = (float32)window[i];
        memcpy(window + i, &sum, sizeof sum);
    }
    for (int32_t i = 0; i < pixels && c->windows == WINDOW_PARTS; i++)
        window[i] = (window[i] & ((1 << WINDOW_LOW_BITS) - 1)) | (int32_t)((uint32_t)(window[i] >> WINDOW_LOW_BITS) << 16);
}

/* ---------------------------------------------------------------------------------------------- all */

/* The largest of what is added to the weights, without its sign. */
static int64_t largest_factor(const convolution *c)
{
    int64_t largest = 0;
    for (int32_t o = 0; o < c->out_atoms * ATOM; o++) {
        const int64_t factor = c->factors[o] < 0 ? -(int64_t)c->factors[o] : c->factors[o];
        largest = factor > largest ? factor : largest;
    }
    return largest;
}

int prepare_windows(convolution *c)
{
    const openrknn_convolution *step = c->step;
    if (c->kernels->folds)
        return 0;
    const int64_t largest = largest_factor(c), inputs = (int64_t)tap_count(step) * lanes_of(step);
    c->largest_factor = largest;
    c->largest_window = inputs * -(int64_t)INT8_MIN;
    c->largest_sum = inputs * -(int64_t)INT8_MIN * (largest - INT8_MIN);
    c->has_window = c->kernels->weight_offset || largest;
    c->windows = !c->has_window ? WINDOW_NONE
                 : largest <= INT16_MAX && inputs * -(int64_t)INT8_MIN <= INT16_MAX ? WINDOW_NARROW
                                                                                   : WINDOW_WIDE;
    if (!c->has_window)
        return 0;
    return c->by_pixel ? add_up_rows(c) : has_pixel_sums(c) ? add_up_pixels(c) : 0;
}
