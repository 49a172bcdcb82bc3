/* What the files of the convolution share: its plan, and sizes that follow from a step. */
#ifndef OPENRKNN_CONVOLUTION_H
#define OPENRKNN_CONVOLUTION_H

#include "internal.h"

enum { PICTURE_CHANNELS = 4, FLOAT_CHANNELS = 8, LARGEST_KERNEL = 32 };

typedef struct {
    const openrknn_convolution *step;
    const kernel_set *kernels;

    /* the copied input: [atom][row][phase][column][element], or by pixel [row][column][atom], in bytes */
    uint8_t *copy;
    int32_t atoms; /* of input channels */
    int32_t reads_halves; /* half_lone takes the input where it is */
    int32_t rows;
    int32_t by_pixel;
    int32_t phases;  /* of columns: as many as the stride, or 1 by pixel and of pictures by row */
    int32_t columns; /* of one phase */
    int32_t element; /* bytes from column to column */
    int64_t row_bytes;
    int64_t plane_bytes;

    /* what the kernels read */
    const uint8_t *input;
    int32_t pixel_step; /* bytes from one output to the next */
    int64_t out_row_step; /* from one row of outputs to the next */
    const int32_t *offsets;
    int32_t taps;
    int32_t out_rows;
    int32_t out_columns;
    int32_t run_columns; /* rows are computed in one run, with so many columns; those behind the last real one are none */
    int32_t has_row_tiles; /* the run has 16 columns, and each 16 of it are a row: rows are short, and not side by side */
    int32_t has_window;
    int32_t windows;     /* WINDOW_..., which kind there is */
    int32_t *pixel_sums; /* by pixel or row: of all channels, [row][phase][column]; */
    int32_t *row_sums;   /* and of a row of the kernel, [row][row_columns] */
    int32_t row_columns;
    const int32_t *plane_offsets; /* by row: to each atom of a pixel */
    int32_t has_infinite; /* floating point: where taps are left out */

    int64_t largest_sum; /* without addends, in magnitude */
    int64_t largest_window, largest_factor;
    int32_t is_fused; /* the chain follows the sums in registers */
    const int32_t *magnitudes; /* then, and by pixel, those of the weights of each channel */
    const int32_t *factors;
    const int32_t *addends; /* of the chain; NULL without one */
    const uint8_t *weights;
    int64_t block_bytes;
    int32_t out_atoms;
    int32_t blocks;

    int32_t segments_per_row;
    int32_t segments;
    int32_t segment_units; /* into which the segments are divided */
    int32_t blocks_per_unit;
    int32_t unit_columns; /* units that share the same segments */
    int32_t copies_late;  /* depthwise: each unit copies its own input */
    int32_t chunks;       /* of rows, to be copied */
    int32_t copied_atoms;
    int64_t work; /* in nanoseconds */
    int32_t failed; /* a thread had no memory */
} convolution;

/* ---------------------------------------------------------------------------------------------- sizes */

static inline int32_t is_float(const openrknn_convolution *step)
{
    return step->format != OPENRKNN_INT8;
}

/* Channels of one atom of the input, or of a pixel of a picture. */
static inline int32_t lanes_of(const openrknn_convolution *step)
{
    return step->picture ? PICTURE_CHANNELS : is_float(step) ? FLOAT_CHANNELS : ATOM;
}

static inline int32_t input_atoms(const openrknn_convolution *step)
{
    return step->picture ? 1 : divide_up(step->channels, lanes_of(step));
}

static inline int32_t tap_count(const openrknn_convolution *step)
{
    return step->kernel_height * step->kernel_width * input_atoms(step);
}

/* By pixel: what a pixel sees of a row without a gap, all columns of the kernel or one. */
enum { PIECE = 64 };

static inline int32_t run_width(const openrknn_convolution *step)
{
    return step->dilation_x == 1 ? step->kernel_width : 1;
}

/* Pieces of 64 bytes in a run, and in all runs. */
static inline int32_t run_pieces(const openrknn_convolution *step)
{
    return divide_up(run_width(step) * input_atoms(step) * lanes_of(step), PIECE);
}

static inline int32_t piece_count(const openrknn_convolution *step)
{
    return step->kernel_height * (step->kernel_width / run_width(step)) * run_pieces(step);
}

static inline int32_t out_atoms(const openrknn_convolution *step)
{
    int32_t written = step->dpu.halves ? divide_up(step->dpu.target.atoms, 2) : step->dpu.target.atoms;
    return at_most(divide_up(step->dpu.channels, ATOM), written);
}

/*
 * The kernels of a convolution: tiles cost more than they save where a kernel has few products. In cycles for one pixel,
 * measured on Sapphire Rapids beside VNNI. Weights are packed once for all steps that share them, so that nothing may
 * count here but what their layout depends on.
 */
static inline const kernel_set *convolution_kernels(const openrknn_convolution *step)
{
    enum { TENTH = 10, PRODUCTS = 8, WINDOW = 16, PIECE_TENTHS = 13, ATOM_TENTHS = 110, PIXEL_TENTHS = 140 };
    const kernel_set *kernels = kernels_of(step->kernels);
    if (!kernels->chooses || is_float(step) || step->depthwise)
        return kernels;
    const int64_t atoms = out_atoms(step), inputs = (int64_t)tap_count(step) * lanes_of(step);
    const int64_t usual = TENTH * (atoms * inputs / PRODUCTS + inputs / WINDOW);
    const int64_t tiles = atoms * (PIECE_TENTHS * piece_count(step) + ATOM_TENTHS) + PIXEL_TENTHS + TENTH * input_atoms(step);
    return tiles < usual ? kernels : kernels->rest;
}

/* Taps as the kernels count them: by pixel, places of a tap in all pieces. */
static inline int32_t kernel_taps(const openrknn_convolution *step, const kernel_set *kernels)
{
    return kernels->by_pixel ? piece_count(step) * (PIECE / lanes_of(step)) : tap_count(step);
}

static inline int32_t kernel_tap(const openrknn_convolution *step, const kernel_set *kernels, int32_t tap)
{
    if (!kernels->by_pixel)
        return tap;
    const int32_t window = step->kernel_height * step->kernel_width, width = run_width(step);
    const int32_t run = tap % window / width, place = tap % window % width;
    return run * run_pieces(step) * (PIECE / lanes_of(step)) + place * input_atoms(step) + tap / window;
}

/* What is added to weights, of each channel; where chains have a use for them, behind it the magnitudes of weights. */
static inline int64_t correction_bytes(const openrknn_convolution *step, const kernel_set *kernels)
{
    return round_up(round_up(out_atoms(step), kernels->block) * ATOM * (int64_t)sizeof(int32_t), 64);
}

static inline int32_t has_magnitudes(const kernel_set *kernels)
{
    return kernels->fuses || kernels->by_pixel;
}

static inline int64_t factor_bytes(const openrknn_convolution *step, const kernel_set *kernels)
{
    return correction_bytes(step, kernels) * (has_magnitudes(kernels) ? 2 : 1);
}

/* By pixel: the weights of a channel that adds up the others of a pixel. */
static inline int64_t ones_bytes(const openrknn_convolution *step, const kernel_set *kernels)
{
    return step->picture ? 0 : kernels->block_bytes((int32_t)round_up(input_atoms(step), PIECE / ATOM), 0);
}

/* A picture whose taps are rows of the kernel, or of one column where columns are not neighbours. */
static inline int32_t is_by_row(const openrknn_convolution *step, const kernel_set *kernels)
{
    return kernels->by_row && step->picture && !is_float(step);
}

/* The columns of a kernel in runs; the number of runs. */
static inline int32_t column_runs(const openrknn_convolution *step, column_run *runs)
{
    int32_t distance = step->stride_x % step->dilation_x ? step->kernel_width : step->stride_x / step->dilation_x;
    int32_t count = at_most(distance, step->kernel_width);
    for (int32_t first = 0; first < count; first++) {
        runs[first].first = first;
        runs[first].step = distance;
        runs[first].width = divide_up(step->kernel_width - first, distance);
    }
    return count;
}

/*
 * Depthwise in groups of four pixels: rows of a kernel begin at even and odd pixels of a group. Of one atom of channels:
 * this, and the layers. A weight with its correction is a byte, or the sum of two. 255 is neither: then all inputs of the
 * channel are inverted, and x * w is ~x * -w - w.
 */
enum { GROUP_PIXELS = 4, GROUP_BYTES = GROUP_PIXELS * ATOM, LAYERS = 2, GROUPS_HEADER = 192 };

typedef struct {
    int32_t layers; /* 1, or 2 where one of the weights is the sum of two bytes */
    int32_t unused[3];
    uint8_t flips[ATOM];   /* 0xff where inputs are inverted */
    int32_t offsets[ATOM]; /* what is then added to sums */
    int32_t magnitudes[ATOM]; /* sums of the weights of each channel, without their signs */
} groups_block;
_Static_assert(sizeof(groups_block) <= GROUPS_HEADER, "GROUPS_HEADER");

static inline int32_t has_groups(const openrknn_convolution *step, const kernel_set *kernels)
{
    return kernels->depthwise_groups && step->dilation_x == 1 && step->dilation_y == 1 && step->spread_x == 1 &&
           step->spread_y == 1 && step->stride_x <= 2;
}

static inline int32_t group_runs(const openrknn_convolution *step)
{
    return divide_up(step->kernel_width + 1, GROUP_PIXELS);
}

static inline int64_t groups_bytes(const openrknn_convolution *step)
{
    return GROUPS_HEADER + (int64_t)LAYERS * step->kernel_height * group_runs(step) * 2 * GROUP_BYTES;
}

/* Of one atom of channels. */
static inline int64_t depthwise_bytes(const openrknn_convolution *step, const kernel_set *kernels)
{
    column_run runs[LARGEST_KERNEL];
    int64_t bytes = 0;
    if (has_groups(step, kernels))
        return groups_bytes(step);
    for (int32_t run = 0, count = column_runs(step, runs); run < count; run++)
        bytes += kernels->strip_bytes(runs[run].width);
    return bytes * step->kernel_height;
}

/*
 * Floating point, of one block of 16 output channels: this, the taps that have weights other than 0 (the others follow
 * them), and the weights of the former, [tap][channel in][16 channels out], as they are in memory.
 */
typedef struct {
    int32_t taps;
    int32_t is_finite; /* fp16: no weight is infinite or no number */
    int32_t lanes; /* of a tap: none of the others has a weight */
} float_block;

/* To the taps, and to the weights. */
static inline int64_t float_taps_offset(void)
{
    return round_up((int64_t)sizeof(float_block), 64);
}

static inline int64_t float_weights_offset(const openrknn_convolution *step)
{
    return float_taps_offset() + round_up(tap_count(step) * (int64_t)sizeof(int32_t), 64);
}

/* Depthwise: [tap][16 channels], in single precision. */
static inline int64_t float_block_bytes(const openrknn_convolution *step)
{
    if (step->depthwise)
        return (int64_t)step->kernel_height * step->kernel_width * ATOM * (int64_t)sizeof(float32);
    return float_weights_offset(step) + round_up((int64_t)tap_count(step) * lanes_of(step) * ATOM * (int64_t)sizeof(uint16_t), 64);
}

static inline float32 decode(int32_t format, const uint8_t *at)
{
    uint16_t bits;
    memcpy(&bits, at, sizeof bits);
    return format == OPENRKNN_FP16 ? half_to_float(bits) : bits_to_float((uint32_t)bits << 16);
}

/* ---------------------------------------------------------------------------------------------- copying the input */

static inline void plan_copy(convolution *c)
{
    const openrknn_convolution *step = c->step;
    int32_t needed = (step->out_width - 1) * step->stride_x + (step->kernel_width - 1) * step->dilation_x + 1;
    c->rows = (step->out_height - 1) * step->stride_y + (step->kernel_height - 1) * step->dilation_y + 1;
    c->by_pixel = c->kernels->by_pixel && !is_float(step) && !step->depthwise;
    c->phases = c->by_pixel || is_by_row(step, c->kernels) ? 1 : step->stride_x;
    c->columns = divide_up(needed, c->phases);
    c->element = lanes_of(step) * (is_float(step) ? (int32_t)sizeof(float32) : c->kernels->input_bytes);
    if (c->by_pixel)
        c->element *= c->atoms;
    c->pixel_step = step->stride_x / c->phases * c->element;
    c->row_bytes = (int64_t)c->phases * c->columns * c->element;
    c->plane_bytes = c->by_pixel ? ATOM : c->rows * c->row_bytes;
}

/* From the first pixel of a run to what tap `tap` of the kernel sees. */
static inline int64_t tap_offset(const convolution *c, int32_t y, int32_t x)
{
    const openrknn_convolution *step = c->step;
    int32_t column = x * step->dilation_x;
    return y * step->dilation_y * c->row_bytes +
           ((int64_t)(column % c->phases) * c->columns + column / c->phases) * c->element;
}

/* Rows from ... to - 1 of an atom. */
void copy_rows(const convolution *c, int32_t atom, int32_t from, int32_t to);

/* All rows of an atom, or one row of a picture. */
void copy_unit(void *job, int32_t unit);

/* All rows of so many atoms, by all threads. */
void copy_all(convolution *c, int32_t atoms);

/* ---------------------------------------------------------------------------------------------- computing */

static inline void count_segments(convolution *c)
{
    c->segments_per_row = divide_up(c->out_columns, c->by_pixel ? SEGMENT : USUAL_SEGMENT);
    c->segments = c->out_rows * c->segments_per_row;
}

/* Row, first column and pixels of a segment of the output. */
static inline void segment_place(const convolution *c, int32_t segment, int32_t *row, int32_t *first, int32_t *pixels)
{
    int32_t part = segment % c->segments_per_row;
    *row = segment / c->segments_per_row;
    if (c->by_pixel) { /* whole tiles */
        *first = part * SEGMENT;
        *pixels = at_most(SEGMENT, c->out_columns - *first);
        return;
    }
    *first = (int32_t)((int64_t)part * c->out_columns / c->segments_per_row);
    *pixels = (int32_t)((int64_t)(part + 1) * c->out_columns / c->segments_per_row) - *first;
}

/*
 * Floating point: segments from ... to - 1, FLOAT_SEGMENTS of them at most. Each group of them makes floats of all weights
 * again.
 */
enum { GROUP = 8, FLOAT_SEGMENTS = 16 };
void find_infinite(convolution *c, int64_t bytes);
void float_segments(const convolution *c, int32_t from, int32_t to, int32_t first_block, int32_t last_block);

/* Weights in the format of the step, into `packed`. */
void pack_weights(const openrknn_convolution *step);

/* Sums of windows: what can be done once for all segments (-1 if there is no memory), and those of a segment. */
int prepare_windows(convolution *c);
void segment_window(const convolution *c, int32_t row, int32_t first, int32_t pixels, int32_t *window);

/* By pixel: sums that wait while tiles compute. */
void plan_queue(convolution *c);
void queue_begin(sums_queue *queue, const convolution *c);
void queue_end(sums_queue *queue);

/* What the first pixel of a segment sees. */
static inline const uint8_t *segment_input(const convolution *c, int32_t row, int32_t first)
{
    return c->has_row_tiles ? c->input + first / ATOM * c->out_row_step
                            : c->input + row * c->out_row_step + (int64_t)first * c->pixel_step;
}

/* Features of 4 bits as int8, in memory of the calling thread; -1 if there is none. */
int widen_features(openrknn_convolution *step);

int run_depthwise(convolution *c);
int run_float_depthwise(convolution *c);

#endif
