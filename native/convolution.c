/*
 * Convolution: the twin of openrknn/npu/cna.py and core.py.
 *
 * First the input is copied with its padding, so that no window ever leaves it; a column goes to the place where all
 * columns that one kernel position sees are neighbours, whatever the stride. Pictures become 4 bytes per pixel. A
 * 1 x 1 convolution without stride or padding reads memory as it is.
 *
 * Then runs of output pixels ("segments") are computed for one block of output channels after another: the kernel
 * leaves accumulators in the first level cache, and the DPU takes them from there.
 *
 * fp16 and bf16 go the same way, with inputs that become doubles.
 */
#include <math.h>

#include "internal.h"

enum { PICTURE_CHANNELS = 4, FLOAT_CHANNELS = 8, GROUP = 8, LARGEST_KERNEL = 32 };

typedef struct {
    const openrknn_convolution *step;
    const kernel_set *kernels;

    /* the copied input: [atom][row][phase][column][element], in bytes */
    uint8_t *copy;
    int32_t atoms; /* of input channels */
    int32_t rows;
    int32_t columns; /* of one phase */
    int32_t element; /* bytes of one atom, or of one pixel of a picture */
    int64_t row_bytes;
    int64_t plane_bytes;

    /* what the kernels read */
    const uint8_t *input;
    int64_t out_row_step; /* from one row of outputs to the next */
    const int32_t *offsets;
    int32_t taps;
    int32_t out_rows;
    int32_t out_columns;

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
} convolution;

/* ---------------------------------------------------------------------------------------------- weights */

static int32_t is_float(const openrknn_convolution *step)
{
    return step->format != OPENRKNN_INT8;
}

/* Channels of one atom of the input, or of a pixel of a picture. */
static int32_t lanes_of(const openrknn_convolution *step)
{
    return step->picture ? PICTURE_CHANNELS : is_float(step) ? FLOAT_CHANNELS : ATOM;
}

static int32_t input_atoms(const openrknn_convolution *step)
{
    return step->picture ? 1 : divide_up(step->channels, lanes_of(step));
}

static int32_t tap_count(const openrknn_convolution *step)
{
    return step->kernel_height * step->kernel_width * input_atoms(step);
}

static int32_t out_atoms(const openrknn_convolution *step)
{
    int32_t written = step->dpu.halves ? divide_up(step->dpu.target.atoms, 2) : step->dpu.target.atoms;
    return at_most(divide_up(step->dpu.channels, ATOM), written);
}

static int64_t factor_bytes(const openrknn_convolution *step, const kernel_set *kernels)
{
    return round_up(round_up(out_atoms(step), kernels->block) * ATOM * (int64_t)sizeof(int32_t), 64);
}

/* The columns of a kernel in runs; the number of runs. */
static int32_t column_runs(const openrknn_convolution *step, column_run *runs)
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

/* Of one atom of channels. */
static int64_t depthwise_bytes(const openrknn_convolution *step, const kernel_set *kernels)
{
    column_run runs[LARGEST_KERNEL];
    int64_t bytes = 0;
    for (int32_t run = 0, count = column_runs(step, runs); run < count; run++)
        bytes += kernels->strip_bytes(runs[run].width);
    return bytes * step->kernel_height;
}

/* Floating point, of one block: [tap][channel in][16 channels out], 16 lengths; depthwise [tap][16 channels]. */
static int64_t float_block_bytes(const openrknn_convolution *step)
{
    int64_t window = (int64_t)step->kernel_height * step->kernel_width;
    if (step->depthwise)
        return window * ATOM * (int64_t)sizeof(float32);
    return ATOM * ((int64_t)tap_count(step) * lanes_of(step) * (int64_t)sizeof(float32) + (int64_t)sizeof(double));
}

int64_t openrknn_packed_bytes(const openrknn_convolution *step)
{
    const kernel_set *kernels = kernels_of(step->kernels);
    if (is_float(step))
        return out_atoms(step) * float_block_bytes(step) + SLACK;
    int32_t atoms = divide_up(out_atoms(step), kernels->block);
    if (step->depthwise)
        return out_atoms(step) * depthwise_bytes(step, kernels) + SLACK;
    return factor_bytes(step, kernels) + atoms * kernels->block_bytes(tap_count(step), step->picture != 0) + SLACK;
}

/* Where the weight of kernel o, channel i is, in elements, in the NPU's order; npu/cna.py, _direct. */
static int64_t direct_place(const openrknn_convolution *step, int32_t o, int32_t i, int32_t tap)
{
    int32_t taps = step->kernel_height * step->kernel_width, og = o / step->kernel_group, ig = i / step->input_group;
    int32_t kernels = at_most(step->kernel_group, step->weight_kernels - og * step->kernel_group);
    int32_t inputs = at_most(step->input_group, step->weight_channels - ig * step->input_group);
    int64_t at = (int64_t)og * step->kernel_group * step->weight_channels * taps;
    at += (int64_t)ig * step->input_group * kernels * taps;
    at += ((int64_t)tap * kernels + o % step->kernel_group) * inputs + i % step->input_group;
    return at;
}

static void pack_direct(const openrknn_convolution *step, const kernel_set *kernels)
{
    int32_t window = step->kernel_height * step->kernel_width, lanes = step->picture ? PICTURE_CHANNELS : ATOM;
    int32_t atoms = out_atoms(step), block_channels = kernels->block * ATOM;
    int32_t *factors = (int32_t *)step->packed;
    uint8_t *blocks = step->packed + factor_bytes(step, kernels);
    int64_t block_bytes = kernels->block_bytes(tap_count(step), step->picture != 0);

    for (int32_t o = 0; o < (int32_t)round_up(atoms, kernels->block) * ATOM; o++)
        factors[o] = o < step->dpu.channels ? step->corrections[o] - kernels->weight_offset : 0;
    for (int32_t block = 0; block < divide_up(atoms, kernels->block); block++)
        for (int32_t tap = 0; tap < tap_count(step); tap++) {
            int16_t weights[4 * ATOM * ATOM];
            int32_t first = step->picture ? 0 : tap / window * ATOM;
            for (int32_t o = 0; o < block_channels; o++)
                for (int32_t i = 0; i < lanes; i++) {
                    int32_t kernel = block * block_channels + o, channel = first + i;
                    int32_t weight = -kernels->weight_offset;
                    if (channel < step->channels) {
                        if (kernel < step->weight_kernels)
                            weight = (int8_t)step->weights[direct_place(step, kernel, channel, tap % window)];
                        else
                            weight = 0;
                        if (kernels->folds && kernel < step->dpu.channels)
                            weight += step->corrections[kernel];
                    }
                    weights[o * lanes + i] = (int16_t)weight;
                }
            kernels->store(blocks + block * block_bytes, tap, step->picture != 0, weights);
        }
}

/* Where the weight of a channel at a tap is, in elements; npu/cna.py, _depthwise. */
static int64_t depthwise_place(const openrknn_convolution *step, int32_t channel, int32_t tap)
{
    int32_t taps = step->kernel_height * step->kernel_width, group = channel / step->depthwise_group;
    int32_t width = at_most(step->depthwise_group, step->weight_channels - group * step->depthwise_group);
    return (int64_t)group * step->depthwise_group * taps + (int64_t)tap * width + channel % step->depthwise_group;
}

static void pack_depthwise(const openrknn_convolution *step, const kernel_set *kernels)
{
    column_run runs[LARGEST_KERNEL];
    int32_t count = column_runs(step, runs);
    uint8_t *packed = step->packed;

    for (int32_t atom = 0; atom < out_atoms(step); atom++) {
        int32_t corrections[ATOM];
        for (int32_t lane = 0; lane < ATOM; lane++) {
            int32_t channel = atom * ATOM + lane, has_data = channel < at_most(step->channels, step->dpu.channels);
            corrections[lane] = has_data ? step->corrections[channel] : 0;
        }
        for (int32_t y = 0; y < step->kernel_height; y++)
            for (int32_t run = 0; run < count; run++) {
                int16_t weights[LARGEST_KERNEL * ATOM];
                for (int32_t i = 0; i < runs[run].width; i++)
                    for (int32_t lane = 0; lane < ATOM; lane++) {
                        int32_t tap = y * step->kernel_width + runs[run].first + i * runs[run].step;
                        int32_t channel = atom * ATOM + lane;
                        weights[i * ATOM + lane] =
                            channel < step->channels ? (int8_t)step->weights[depthwise_place(step, channel, tap)] : 0;
                    }
                kernels->store_strip(packed, runs[run].width, weights, corrections);
                packed += kernels->strip_bytes(runs[run].width);
            }
    }
}

static float32 decode(int32_t format, const uint8_t *at)
{
    uint16_t bits;
    memcpy(&bits, at, sizeof bits);
    return format == OPENRKNN_FP16 ? half_to_float(bits) : bits_to_float((uint32_t)bits << 16);
}

static float32 float_weight(const openrknn_convolution *step, int32_t kernel, int32_t channel, int32_t tap)
{
    if (channel >= step->channels || (!step->depthwise && kernel >= step->weight_kernels))
        return 0.0f;
    int64_t at = step->depthwise ? depthwise_place(step, channel, tap) : direct_place(step, kernel, channel, tap);
    return decode(step->format, step->weights + 2 * at);
}

static void pack_depthwise_floats(const openrknn_convolution *step)
{
    float32 *out = (float32 *)step->packed;
    for (int32_t block = 0; block < out_atoms(step); block++)
        for (int32_t tap = 0; tap < step->kernel_height * step->kernel_width; tap++)
            for (int32_t lane = 0; lane < ATOM; lane++)
                *out++ = float_weight(step, 0, block * ATOM + lane, tap);
}

/* With the largest error of the sums of each kernel, for inputs of length 1; npu/core.py, _rounded. */
static void pack_floats(const openrknn_convolution *step)
{
    int32_t window = step->kernel_height * step->kernel_width, lanes = lanes_of(step), taps = tap_count(step);
    double unit = ((double)taps * lanes + 8) * 0x1p-52;

    for (int32_t block = 0; block < out_atoms(step); block++) {
        float32 *out = (float32 *)(step->packed + block * float_block_bytes(step));
        double squares[ATOM] = {0}, lengths[ATOM];
        for (int32_t tap = 0; tap < taps; tap++)
            for (int32_t i = 0; i < lanes; i++)
                for (int32_t o = 0; o < ATOM; o++, out++) {
                    *out = float_weight(step, block * ATOM + o, tap / window * lanes + i, tap % window);
                    squares[o] += (double)*out * *out;
                }
        for (int32_t o = 0; o < ATOM; o++)
            lengths[o] = sqrt(squares[o]) * unit;
        memcpy(out, lengths, sizeof lengths);
    }
}

void openrknn_pack(const openrknn_convolution *step)
{
    const kernel_set *kernels = kernels_of(step->kernels);
    if (is_float(step))
        (step->depthwise ? pack_depthwise_floats : pack_floats)(step);
    else if (step->depthwise)
        pack_depthwise(step, kernels);
    else
        pack_direct(step, kernels);
}

/* ---------------------------------------------------------------------------------------------- copying the input */

/* The column (or row) of the source that stands at `place` of the padded input; -1: padding. */
static int32_t source_place(int32_t place, int32_t pad, int32_t spread, int32_t size)
{
    int32_t at = place - pad;
    if (at < 0 || (spread > 1 && at % spread))
        return -1;
    at /= spread;
    return at < size ? at : -1;
}

/* One pixel of a picture as 4 bytes. */
static inline uint32_t picture_pixel(const openrknn_convolution *step, const uint8_t *source)
{
    uint32_t pixel = 0;
    for (int32_t i = 0; i < step->channels; i++) {
        uint8_t byte = step->converter ? (uint8_t)step->converter[i * 256 + source[i]] : source[i];
        pixel |= (uint32_t)byte << (8 * i);
    }
    return pixel;
}

static inline void put_picture(const convolution *c, uint8_t *target, uint32_t pixel)
{
    if (c->kernels->input_bytes == 2)
        for (int32_t i = 0; i < PICTURE_CHANNELS; i++)
            ((int16_t *)target)[i] = (int8_t)(pixel >> (8 * i));
    else
        memcpy(target, &pixel, PICTURE_CHANNELS);
}

/* The usual picture, three converted channels: nothing is decided in the loop. */
static void put_three(const openrknn_convolution *step, uint8_t *target, const uint8_t *source, int32_t count, int64_t stride)
{
    const uint8_t *red = (const uint8_t *)step->converter, *green = red + 256, *blue = red + 512;
    for (int32_t i = 0; i < count; i++, source += stride, target += PICTURE_CHANNELS) {
        uint32_t pixel = red[source[0]] | (uint32_t)green[source[1]] << 8 | (uint32_t)blue[source[2]] << 16;
        memcpy(target, &pixel, PICTURE_CHANNELS);
    }
}

/* Columns first .. end - 1 of a phase have data. */
static void data_columns(const convolution *c, int32_t phase, int32_t *first, int32_t *end)
{
    const openrknn_convolution *step = c->step;
    *first = at_most(divide_up(at_least(step->pad_left - phase, 0), step->stride_x), c->columns);
    *end = divide_up(at_least(step->pad_left + step->width - phase, 0), step->stride_x);
    *end = at_least(at_most(*end, c->columns), *first);
}

static void copy_picture_row(const convolution *c, int32_t row)
{
    const openrknn_convolution *step = c->step;
    int32_t from = source_place(row, step->pad_top, step->spread_y, step->height), first, end;
    const uint8_t *source = step->source + from * step->line;
    uint8_t *target = c->copy + row * c->row_bytes;
    uint32_t pad = 0;

    for (int32_t i = 0; i < step->channels; i++)
        pad |= (uint32_t)(uint8_t)step->pads[0] << (8 * i);
    for (int32_t phase = 0; phase < step->stride_x; phase++, target += (int64_t)c->columns * c->element) {
        if (from < 0 || step->spread_x > 1) {
            for (int32_t i = 0; i < c->columns; i++) {
                int32_t at = source_place(i * step->stride_x + phase, step->pad_left, step->spread_x, step->width);
                int32_t is_pad = from < 0 || at < 0;
                put_picture(c, target + i * c->element,
                            is_pad ? pad : picture_pixel(step, source + (int64_t)at * step->picture));
            }
            continue;
        }
        data_columns(c, phase, &first, &end);
        const uint8_t *at = source + ((int64_t)first * step->stride_x + phase - step->pad_left) * step->picture;
        int64_t stride = (int64_t)step->stride_x * step->picture;
        for (int32_t i = 0; i < first; i++)
            put_picture(c, target + i * c->element, pad);
        if (step->picture == 3 && step->channels == 3 && step->converter && c->kernels->input_bytes == 1)
            put_three(step, target + first * c->element, at, end - first, stride);
        else
            for (int32_t i = first; i < end; i++, at += stride)
                put_picture(c, target + i * c->element, picture_pixel(step, at));
        for (int32_t i = end; i < c->columns; i++)
            put_picture(c, target + i * c->element, pad);
    }
}

/* Atoms that are converted or widened on the way. */
static void change_atoms(const convolution *c, uint8_t *target, const uint8_t *source, int32_t count, int64_t stride)
{
    for (int32_t i = 0; i < count; i++, source += stride, target += c->element) {
        int8_t bytes[ATOM];
        memcpy(bytes, source, ATOM);
        if (c->step->converter)
            for (int32_t lane = 0; lane < ATOM; lane++)
                bytes[lane] = c->step->converter[lane * 256 + (uint8_t)bytes[lane]];
        if (c->kernels->input_bytes == 2)
            for (int32_t lane = 0; lane < ATOM; lane++)
                ((int16_t *)target)[lane] = bytes[lane];
        else
            memcpy(target, bytes, ATOM);
    }
}

static void copy_atoms(const convolution *c, uint8_t *target, const uint8_t *source, int32_t count, int64_t stride)
{
    if (c->step->converter || c->kernels->input_bytes == 2)
        change_atoms(c, target, source, count, stride);
    else if (stride == ATOM)
        memcpy(target, source, (size_t)count * ATOM);
    else
        for (int32_t i = 0; i < count; i++)
            memcpy(target + i * ATOM, source + i * stride, ATOM);
}

static void pad_atoms(const convolution *c, uint8_t *target, int32_t count)
{
    int8_t pads[ATOM];
    int16_t wide[ATOM];
    for (int32_t i = 0; i < ATOM; i++)
        wide[i] = pads[i] = (int8_t)c->step->pads[i & 1];
    for (int32_t i = 0; i < count; i++, target += c->element)
        if (c->kernels->input_bytes == 2)
            memcpy(target, wide, sizeof wide);
        else
            memcpy(target, pads, sizeof pads);
}

/* Atoms of which memory has two halves; `high` is NULL where the second one is not there. */
static void copy_halves(const convolution *c, uint8_t *target, const uint8_t *low, const uint8_t *high, int32_t count,
                        int64_t stride)
{
    int32_t changes = c->step->converter || c->kernels->input_bytes == 2;
    for (int32_t i = 0; i < count; i++, target += c->element) {
        uint8_t bytes[ATOM] = {0};
        memcpy(bytes, low + i * stride, ATOM / 2);
        if (high)
            memcpy(bytes + ATOM / 2, high + i * stride, ATOM / 2);
        if (changes)
            change_atoms(c, target, bytes, 1, ATOM);
        else
            memcpy(target, bytes, ATOM);
    }
}

static void copy_half_row(const convolution *c, int32_t atom, int32_t row)
{
    const openrknn_convolution *step = c->step;
    int32_t from = source_place(row, step->pad_top, step->spread_y, step->height), columns = c->columns, first, end;
    const uint8_t *low = step->source + 2 * atom * step->surface + from * step->line;
    const uint8_t *high = step->channels > atom * ATOM + ATOM / 2 ? low + step->surface : NULL;
    uint8_t *target = c->copy + atom * c->plane_bytes + row * c->row_bytes;

    for (int32_t phase = 0; phase < step->stride_x; phase++, target += (int64_t)columns * c->element) {
        first = end = 0;
        if (from >= 0 && step->spread_x == 1) {
            data_columns(c, phase, &first, &end);
            int64_t at = ((int64_t)first * step->stride_x + phase - step->pad_left) * (ATOM / 2);
            copy_halves(c, target + first * c->element, low + at, high ? high + at : NULL, end - first,
                        (int64_t)step->stride_x * (ATOM / 2));
        }
        pad_atoms(c, target, first);
        pad_atoms(c, target + end * c->element, columns - end);
        for (int32_t i = 0; from >= 0 && step->spread_x > 1 && i < columns; i++) {
            int64_t at = source_place(i * step->stride_x + phase, step->pad_left, step->spread_x, step->width);
            if (at >= 0)
                copy_halves(c, target + i * c->element, low + at * (ATOM / 2),
                            high ? high + at * (ATOM / 2) : NULL, 1, ATOM / 2);
        }
    }
}

static void copy_atom_row(const convolution *c, int32_t atom, int32_t row)
{
    const openrknn_convolution *step = c->step;
    int32_t from = source_place(row, step->pad_top, step->spread_y, step->height), columns = c->columns, first, end;
    const uint8_t *source = step->source + atom * step->surface + from * step->line;
    uint8_t *target = c->copy + atom * c->plane_bytes + row * c->row_bytes;

    if (from < 0) {
        pad_atoms(c, target, columns * step->stride_x);
        return;
    }
    for (int32_t phase = 0; phase < step->stride_x; phase++, target += (int64_t)columns * c->element) {
        if (step->spread_x > 1) {
            for (int32_t i = 0; i < columns; i++) {
                int32_t at = source_place(i * step->stride_x + phase, step->pad_left, step->spread_x, step->width);
                if (at < 0)
                    pad_atoms(c, target + i * c->element, 1);
                else
                    copy_atoms(c, target + i * c->element, source + (int64_t)at * ATOM, 1, ATOM);
            }
            continue;
        }
        data_columns(c, phase, &first, &end);
        pad_atoms(c, target, first);
        copy_atoms(c, target + first * c->element,
                   source + ((int64_t)first * step->stride_x + phase - step->pad_left) * ATOM, end - first,
                   (int64_t)step->stride_x * ATOM);
        pad_atoms(c, target + end * c->element, columns - end);
    }
}

/* Floating point: one row of one atom of channels (or of a picture) as doubles; channels without data are 0. */
static void copy_float_row(const convolution *c, int32_t atom, int32_t row)
{
    const openrknn_convolution *step = c->step;
    int32_t from = source_place(row, step->pad_top, step->spread_y, step->height), lanes = lanes_of(step);
    int32_t count = at_least(at_most(step->channels - atom * lanes, lanes), 0), pixel = step->picture ? step->picture * 2 : ATOM;
    const uint8_t *source = step->source + atom * step->surface + from * step->line, bits[2] = {
        (uint8_t)step->pads[0], (uint8_t)(step->pads[0] >> 8)};
    double *target = (double *)(c->copy + atom * c->plane_bytes + row * c->row_bytes);
    const double pad = decode(step->format, bits);

    for (int32_t phase = 0; phase < step->stride_x; phase++)
        for (int32_t column = 0; column < c->columns; column++, target += lanes) {
            int32_t at = source_place(column * step->stride_x + phase, step->pad_left, step->spread_x, step->width);
            for (int32_t i = 0; i < lanes; i++)
                target[i] = i >= count          ? 0.0
                            : from < 0 || at < 0 ? pad
                                                 : decode(step->format, source + (int64_t)at * pixel + 2 * i);
        }
}

static void copy_rows(const convolution *c, int32_t atom, int32_t from, int32_t to)
{
    for (int32_t row = from; row < to; row++)
        if (is_float(c->step))
            copy_float_row(c, atom, row);
        else if (c->step->dpu.halves)
            copy_half_row(c, atom, row);
        else
            copy_atom_row(c, atom, row);
}

/* All rows of an atom, or one row of a picture. */
static void copy_unit(void *job, int32_t unit)
{
    const convolution *c = job;
    if (c->step->picture) {
        if (is_float(c->step))
            copy_float_row(c, 0, unit);
        else
            copy_picture_row(c, unit);
        return;
    }
    copy_rows(c, unit, 0, c->rows);
}

/* Some rows of every atom: those that the same thread is going to use. */
static void copy_chunk(void *job, int32_t chunk)
{
    const convolution *c = job;
    int32_t from = (int32_t)((int64_t)chunk * c->rows / c->chunks);
    int32_t to = (int32_t)((int64_t)(chunk + 1) * c->rows / c->chunks);
    for (int32_t atom = 0; atom < c->copied_atoms; atom++)
        copy_rows(c, atom, from, to);
}

static void copy_all(convolution *c, int32_t atoms)
{
    c->copied_atoms = atoms;
    c->chunks = at_most(c->rows, 4 * openrknn_threads());
    run_units(c->chunks, copy_chunk, c);
}

/* ---------------------------------------------------------------------------------------------- direct */

static void segment_place(const convolution *c, int32_t segment, int32_t *row, int32_t *first, int32_t *pixels)
{
    int32_t part = segment % c->segments_per_row;
    *row = segment / c->segments_per_row;
    *first = (int32_t)((int64_t)part * c->out_columns / c->segments_per_row);
    *pixels = (int32_t)((int64_t)(part + 1) * c->out_columns / c->segments_per_row) - *first;
}

static void direct_segments(const convolution *c, int32_t from, int32_t to, int32_t first_block, int32_t last_block)
{
    const openrknn_convolution *step = c->step;
    const kernel_set *kernels = c->kernels;
    int32_t sums[4 * SEGMENT * ATOM] __attribute__((aligned(64)));
    int32_t window[GROUP][SEGMENT] __attribute__((aligned(64)));
    double lengths[GROUP][SEGMENT];
    int32_t row, first, pixels, is_picture = step->picture != 0, has_window = !kernels->folds && !is_float(step);
    int32_t block_atoms = is_float(step) ? 1 : kernels->block;

    for (int32_t s = from; s < to && has_window; s++) {
        segment_place(c, s, &row, &first, &pixels);
        window_task task = {
            .input = c->input + row * c->out_row_step + (int64_t)first * c->element,
            .offsets = c->offsets,
            .taps = c->taps,
            .is_picture = is_picture,
            .pixels = pixels,
            .pixel_step = c->element,
            .full_taps = c->taps - c->taps / c->atoms,
            .last_lanes = is_picture ? PICTURE_CHANNELS : step->channels - (c->atoms - 1) * ATOM,
            .window = window[s - from],
        };
        kernels->window(&task);
    }
    for (int32_t s = from; s < to && is_float(step); s++) {
        segment_place(c, s, &row, &first, &pixels);
        segment_task task = {
            .input = c->input + row * c->out_row_step + (int64_t)first * c->element,
            .offsets = c->offsets,
            .taps = c->taps,
            .is_picture = is_picture,
            .pixels = pixels,
        };
        kernels->float_lengths(&task, lengths[s - from]);
    }
    for (int32_t block = first_block; block < last_block; block++)
        for (int32_t s = from; s < to; s++) {
            segment_place(c, s, &row, &first, &pixels);
            segment_task task = {
                .input = c->input + row * c->out_row_step + (int64_t)first * c->element,
                .offsets = c->offsets,
                .taps = c->taps,
                .is_picture = is_picture,
                .pixels = pixels,
                .pixel_step = c->element,
                .atoms = at_most(block_atoms, c->out_atoms - block * block_atoms),
                .weights = c->weights + block * c->block_bytes,
                .window = has_window ? window[s - from] : NULL,
                .factors = has_window ? c->factors + block * block_atoms * ATOM : NULL,
                .addends = c->addends ? c->addends + block * block_atoms * ATOM : NULL,
                .input_lengths = lengths[s - from],
                .weight_lengths =
                    is_float(step) ? (const double *)(c->weights + (block + 1) * c->block_bytes) - ATOM : NULL,
                .sums = sums,
            };
            if (is_float(step))
                kernels->float_segment(&task);
            else
                kernels->segment(&task);
            for (int32_t atom = 0; atom < task.atoms; atom++) {
                int32_t channel = (block * block_atoms + atom) * ATOM;
                dpu_task finish = {
                    .dpu = &step->dpu,
                    .kernels = kernels,
                    .channel = channel,
                    .pixel = row * c->out_columns + first,
                    .pixels = pixels,
                    .sums = sums + atom * SEGMENT * ATOM,
                    .floats = (const float32 *)sums,
                };
                dpu_finish(&finish);
            }
        }
}

static void direct_unit(void *job, int32_t unit)
{
    const convolution *c = job;
    int32_t place = unit / c->unit_columns, block = unit % c->unit_columns * c->blocks_per_unit;
    int32_t from = (int32_t)((int64_t)place * c->segments / c->segment_units);
    int32_t to = (int32_t)((int64_t)(place + 1) * c->segments / c->segment_units);

    for (; from < to; from += GROUP)
        direct_segments(c, from, at_most(from + GROUP, to), block, at_most(block + c->blocks_per_unit, c->blocks));
}

static int32_t reads_memory(const openrknn_convolution *step, const kernel_set *kernels)
{
    return !step->copies_first && !step->dpu.halves && !is_float(step) && !step->picture && !step->converter && kernels->input_bytes == 1 &&
           step->kernel_height == 1 && step->kernel_width == 1 && step->stride_x == 1 && step->stride_y == 1 && step->spread_x == 1 &&
           step->spread_y == 1 && step->pad_top == 0 && step->pad_left == 0 && step->out_height <= step->height &&
           step->out_width <= step->width && !kernels->by_pixel;
}

static void plan_copy(convolution *c)
{
    const openrknn_convolution *step = c->step;
    int32_t needed = (step->out_width - 1) * step->stride_x + (step->kernel_width - 1) * step->dilation_x + 1;
    c->rows = (step->out_height - 1) * step->stride_y + (step->kernel_height - 1) * step->dilation_y + 1;
    c->columns = divide_up(needed, step->stride_x);
    c->element = lanes_of(step) * (is_float(step) ? (int32_t)sizeof(double) : c->kernels->input_bytes);
    c->row_bytes = (int64_t)step->stride_x * c->columns * c->element;
    c->plane_bytes = c->rows * c->row_bytes;
}

/* From the first pixel of a run to what tap `tap` of the kernel sees. */
static int64_t tap_offset(const convolution *c, int32_t y, int32_t x)
{
    const openrknn_convolution *step = c->step;
    int32_t column = x * step->dilation_x;
    return y * step->dilation_y * c->row_bytes +
           ((int64_t)(column % step->stride_x) * c->columns + column / step->stride_x) * c->element;
}

static void divide_work(convolution *c)
{
    int64_t macs = (int64_t)c->out_rows * c->out_columns * c->out_atoms * c->taps * 16 * lanes_of(c->step);
    int32_t threads = openrknn_threads(), wanted = threads > 1 && macs > 1000000 ? 4 * threads : 1;

    c->segments_per_row = divide_up(c->out_columns, SEGMENT);
    c->segments = c->out_rows * c->segments_per_row;
    c->segment_units = at_most(c->segments, wanted);
    c->unit_columns = at_most(c->blocks, divide_up(wanted, c->segment_units));
    c->blocks_per_unit = divide_up(c->blocks, c->unit_columns);
    c->unit_columns = divide_up(c->blocks, c->blocks_per_unit);
}

static int run_direct(convolution *c)
{
    const openrknn_convolution *step = c->step;
    int32_t window = step->kernel_height * step->kernel_width, planes = c->atoms;
    int32_t *offsets = scratch(SCRATCH_OFFSETS, (int64_t)tap_count(step) * (int64_t)sizeof(int32_t));

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
    c->block_bytes = is_float(step) ? float_block_bytes(step) : c->kernels->block_bytes(c->taps, step->picture != 0);
    if (reads_memory(step, c->kernels)) {
        c->element = ATOM;
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
        c->copy = scratch(SCRATCH_INPUT, planes * c->plane_bytes + SLACK);
        if (!c->copy)
            return -1;
        c->input = c->copy;
        c->out_row_step = step->stride_y * c->row_bytes;
        for (int32_t plane = 0, at = 0; plane < planes; plane++)
            for (int32_t tap = 0; tap < window; tap++)
                offsets[at++] = (int32_t)(plane * c->plane_bytes +
                                          tap_offset(c, tap / step->kernel_width, tap % step->kernel_width));
        if (step->picture)
            run_units(c->rows, copy_unit, c);
        else
            copy_all(c, planes);
    }
    divide_work(c);
    run_units(c->segment_units * c->unit_columns, direct_unit, c);
    return 0;
}

/* ---------------------------------------------------------------------------------------------- depthwise */

static void depthwise_unit(void *job, int32_t unit)
{
    const convolution *c = job;
    const openrknn_convolution *step = c->step;
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
        dpu_task finish = {
            .dpu = &step->dpu,
            .kernels = c->kernels,
            .channel = atom * ATOM,
            .pixel = row * c->out_columns + first,
            .pixels = pixels,
            .sums = sums,
        };
        dpu_finish(&finish);
    }
}

static int run_depthwise(convolution *c)
{
    const openrknn_convolution *step = c->step;
    column_run runs[LARGEST_KERNEL];
    int32_t threads = openrknn_threads(), count = column_runs(step, runs), strip = 0;
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
    c->segments_per_row = divide_up(c->out_columns, SEGMENT);
    c->segments = c->out_rows * c->segments_per_row;
    c->unit_columns = threads > 1 && c->out_atoms < 2 * threads ? at_most(c->segments, 2 * threads) : 1;
    c->copies_late = c->unit_columns == 1 && !step->copies_first;
    if (!c->copies_late)
        copy_all(c, at_most(c->atoms, c->out_atoms));
    run_units(c->out_atoms * c->unit_columns, depthwise_unit, c);
    return 0;
}

/* ---------------------------------------------------------------------------------------------- depthwise, floating point */

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

static int run_float_depthwise(convolution *c)
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
    c->segments_per_row = divide_up(c->out_columns, SEGMENT);
    c->segments = c->out_rows * c->segments_per_row;
    c->copies_late = !step->copies_first;
    if (!c->copies_late)
        run_units(2 * c->out_atoms, copy_unit, c);
    run_units(c->out_atoms, float_depthwise_unit, c);
    return 0;
}

int run_convolution(const openrknn_convolution *step)
{
    convolution c = {
        .step = step,
        .kernels = kernels_of(step->kernels),
        .atoms = input_atoms(step),
        .addends = step->dpu.chain.flags ? step->dpu.chain.addends : NULL,
    };
    if (step->fresh_weights)
        openrknn_pack(step);
    if (!step->depthwise)
        return run_direct(&c);
    return is_float(step) ? run_float_depthwise(&c) : run_depthwise(&c);
}
