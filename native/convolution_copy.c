/*
 * The input of a convolution, copied with its padding, so that no window ever leaves it; a column goes to the place
 * where all columns that one kernel position sees are neighbours, whatever the stride. Pictures become 4 bytes per
 * pixel, fp16 and bf16 become floats. Kernels that want it by pixel get all atoms of a pixel side by side.
 */
#include "convolution.h"

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

/* Three channels as they are. Four bytes are read at once, but not of the last pixel: memory may end there. */
static void put_same(uint8_t *target, const uint8_t *source, int32_t count, int64_t stride)
{
    for (int32_t i = 0; i < count - 1; i++, source += stride, target += PICTURE_CHANNELS) {
        memcpy(target, source, PICTURE_CHANNELS);
        target[3] = 0;
    }
    if (count > 0) {
        memcpy(target, source, 3);
        target[3] = 0;
    }
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
    *first = at_most(divide_up(at_least(step->pad_left - phase, 0), c->phases), c->columns);
    *end = divide_up(at_least(step->pad_left + step->width - phase, 0), c->phases);
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
    for (int32_t phase = 0; phase < c->phases; phase++, target += (int64_t)c->columns * c->element) {
        if (from < 0 || step->spread_x > 1) {
            for (int32_t i = 0; i < c->columns; i++) {
                int32_t at = source_place(i * c->phases + phase, step->pad_left, step->spread_x, step->width);
                int32_t is_pad = from < 0 || at < 0;
                put_picture(c, target + i * c->element,
                            is_pad ? pad : picture_pixel(step, source + (int64_t)at * step->picture));
            }
            continue;
        }
        data_columns(c, phase, &first, &end);
        const uint8_t *at = source + ((int64_t)first * c->phases + phase - step->pad_left) * step->picture;
        int64_t stride = (int64_t)c->phases * step->picture;
        for (int32_t i = 0; i < first; i++)
            put_picture(c, target + i * c->element, pad);
        if (step->picture == 3 && step->channels == 3 && step->converter && c->kernels->input_bytes == 1)
            put_three(step, target + first * c->element, at, end - first, stride);
        else if (step->picture == 3 && step->channels == 3 && c->kernels->input_bytes == 1)
            put_same(target + first * c->element, at, end - first, stride);
        else
            for (int32_t i = first; i < end; i++, at += stride)
                put_picture(c, target + i * c->element, picture_pixel(step, at));
        for (int32_t i = end; i < c->columns; i++)
            put_picture(c, target + i * c->element, pad);
    }
}

/* Atoms that are widened on the way: nothing is decided in the loop. */
static void widen_atoms(uint8_t *restrict target, const uint8_t *source, int32_t count, int64_t stride)
{
    for (int32_t i = 0; i < count; i++, source += stride, target += ATOM * sizeof(int16_t)) {
        int8_t bytes[ATOM];
        int16_t wide[ATOM];
        memcpy(bytes, source, sizeof bytes);
        for (int32_t lane = 0; lane < ATOM; lane++)
            wide[lane] = bytes[lane];
        memcpy(target, wide, sizeof wide);
    }
}

/* Atoms that are converted on the way, and maybe widened. */
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
    if (!c->step->converter && c->kernels->input_bytes == 2 && c->element == ATOM * (int32_t)sizeof(int16_t))
        widen_atoms(target, source, count, stride);
    else if (c->step->converter || c->kernels->input_bytes == 2)
        change_atoms(c, target, source, count, stride);
    else if (stride == ATOM && c->element == ATOM)
        memcpy(target, source, (size_t)count * ATOM);
    else
        for (int32_t i = 0; i < count; i++)
            memcpy(target + (int64_t)i * c->element, source + i * stride, ATOM);
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

    for (int32_t phase = 0; phase < c->phases; phase++, target += (int64_t)columns * c->element) {
        first = end = 0;
        if (from >= 0 && step->spread_x == 1) {
            data_columns(c, phase, &first, &end);
            int64_t at = ((int64_t)first * c->phases + phase - step->pad_left) * (ATOM / 2);
            copy_halves(c, target + first * c->element, low + at, high ? high + at : NULL, end - first,
                        (int64_t)c->phases * (ATOM / 2));
        }
        pad_atoms(c, target, first);
        pad_atoms(c, target + end * c->element, columns - end);
        for (int32_t i = 0; from >= 0 && step->spread_x > 1 && i < columns; i++) {
            int64_t at = source_place(i * c->phases + phase, step->pad_left, step->spread_x, step->width);
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
        pad_atoms(c, target, columns * c->phases);
        return;
    }
    for (int32_t phase = 0; phase < c->phases; phase++, target += (int64_t)columns * c->element) {
        if (step->spread_x > 1) {
            for (int32_t i = 0; i < columns; i++) {
                int32_t at = source_place(i * c->phases + phase, step->pad_left, step->spread_x, step->width);
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
                   source + ((int64_t)first * c->phases + phase - step->pad_left) * ATOM, end - first,
                   (int64_t)c->phases * ATOM);
        pad_atoms(c, target + end * c->element, columns - end);
    }
}

/* By pixel, without a change: all atoms of a pixel are written one after the other, so that no cache line is met twice. */
static void copy_pixel_row(const convolution *c, int32_t row)
{
    enum { AT_ONCE = 4 };
    const openrknn_convolution *step = c->step;
    int32_t from = source_place(row, step->pad_top, step->spread_y, step->height), first = c->columns, end = c->columns;
    uint8_t *target = c->copy + row * c->row_bytes;

    if (from >= 0)
        data_columns(c, 0, &first, &end);
    for (int32_t atom = 0; atom < c->copied_atoms; atom++) {
        pad_atoms(c, target + atom * ATOM, first);
        pad_atoms(c, target + atom * ATOM + (int64_t)end * c->element, c->columns - end);
    }
    const uint8_t *source = step->source + from * step->line + ((int64_t)first - step->pad_left) * ATOM;
    target += (int64_t)first * c->element;
    for (int32_t atom = 0; atom < c->copied_atoms; atom += AT_ONCE, source += AT_ONCE * step->surface, target += AT_ONCE * ATOM)
        if (atom + AT_ONCE <= c->copied_atoms)
            for (int32_t i = 0; i < end - first; i++)
                for (int32_t j = 0; j < AT_ONCE; j++)
                    memcpy(target + (int64_t)i * c->element + j * ATOM, source + i * ATOM + j * step->surface, ATOM);
        else
            for (int32_t j = 0; j < c->copied_atoms - atom; j++)
                copy_atoms(c, target + j * ATOM, source + j * step->surface, end - first, ATOM);
}

static void pad_floats(float32 *target, int32_t pixels, int32_t count, float32 pad)
{
    for (int32_t i = 0; i < pixels * FLOAT_CHANNELS; i++)
        target[i] = i % FLOAT_CHANNELS < count ? pad : 0.0f;
}

/* The usual case of the next one: atoms of fp16 that lie side by side. `count` of 8 channels have data. */
static void copy_halves_row(const convolution *c, const uint8_t *source, float32 *target, int32_t count, float32 pad)
{
    const openrknn_convolution *step = c->step;
    for (int32_t phase = 0, first, end; phase < c->phases; phase++, target += c->columns * FLOAT_CHANNELS) {
        data_columns(c, phase, &first, &end);
        const uint8_t *from = source + ((int64_t)first * c->phases + phase - step->pad_left) * ATOM;
        pad_floats(target, first, count, pad);
        pad_floats(target + end * FLOAT_CHANNELS, c->columns - end, count, pad);
        if (c->phases == 1)
            c->kernels->widen(from, target + first * FLOAT_CHANNELS, (end - first) * FLOAT_CHANNELS);
        else
            for (int32_t i = first; i < end; i++, from += c->phases * ATOM)
                c->kernels->widen(from, target + i * FLOAT_CHANNELS, FLOAT_CHANNELS);
        for (int32_t i = first; i < end && count < FLOAT_CHANNELS; i++)
            memset(target + i * FLOAT_CHANNELS + count, 0, (size_t)(FLOAT_CHANNELS - count) * sizeof *target);
    }
}

/* The usual picture of fp16: some pixels of the row at a time become floats. */
static void copy_half_pixels(const convolution *c, const uint8_t *source, float32 *target, int32_t count, float32 pad)
{
    enum { SOME = 64 };
    const openrknn_convolution *step = c->step;
    const int32_t lanes = PICTURE_CHANNELS, each = step->picture;
    float32 values[SOME * PICTURE_CHANNELS];

    for (int32_t i = 0; i < c->phases * c->columns * lanes; i++)
        target[i] = i % lanes < count ? pad : 0.0f;
    for (int32_t at = 0, some; at < step->width; at += some) {
        some = at_most(SOME, step->width - at);
        c->kernels->widen(source + (int64_t)at * each * 2, values, some * each);
        for (int32_t i = 0; i < some; i++) {
            const int32_t place = at + i + step->pad_left, column = place / c->phases;
            float32 *to = target + (place % c->phases * c->columns + column) * lanes;
            if (column < c->columns)
                memcpy(to, values + i * each, (size_t)count * sizeof *to);
        }
    }
}

/* Floating point: one row of one atom of channels (or of a picture) as floats; channels without data are 0. */
static void copy_float_row(const convolution *c, int32_t atom, int32_t row)
{
    const openrknn_convolution *step = c->step;
    int32_t from = source_place(row, step->pad_top, step->spread_y, step->height), lanes = lanes_of(step);
    int32_t count = at_least(at_most(step->channels - atom * lanes, lanes), 0), pixel = step->picture ? step->picture * 2 : ATOM;
    const uint8_t *source = step->source + atom * step->surface + from * step->line, bits[2] = {
        (uint8_t)step->pads[0], (uint8_t)(step->pads[0] >> 8)};
    float32 *target = (float32 *)(c->copy + atom * c->plane_bytes + row * c->row_bytes);
    const float32 pad = decode(step->format, bits);

    /* Units that compute two atoms also ask for the one behind an odd number of them: memory may end before it. */
    if (!count) {
        memset(target, 0, (size_t)c->row_bytes);
        return;
    }
    if (!step->picture && step->format == OPENRKNN_FP16 && step->spread_x == 1 && from >= 0) {
        copy_halves_row(c, source, target, count, pad);
        return;
    }
    if (step->picture && step->channels <= step->picture && step->picture <= PICTURE_CHANNELS &&
        step->format == OPENRKNN_FP16 && step->spread_x == 1 && from >= 0) {
        copy_half_pixels(c, source, target, count, pad);
        return;
    }
    for (int32_t phase = 0; phase < c->phases; phase++)
        for (int32_t column = 0; column < c->columns; column++, target += lanes) {
            int32_t at = source_place(column * c->phases + phase, step->pad_left, step->spread_x, step->width);
            for (int32_t i = 0; i < lanes; i++)
                target[i] = i >= count          ? 0.0f
                            : from < 0 || at < 0 ? pad
                                                 : decode(step->format, source + (int64_t)at * pixel + 2 * i);
        }
}

void copy_rows(const convolution *c, int32_t atom, int32_t from, int32_t to)
{
    for (int32_t row = from; row < to; row++)
        if (is_float(c->step))
            copy_float_row(c, atom, row);
        else if (c->step->dpu.halves)
            copy_half_row(c, atom, row);
        else
            copy_atom_row(c, atom, row);
}

void copy_unit(void *job, int32_t unit)
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
    if (c->by_pixel && c->step->spread_x == 1 && !c->step->dpu.halves && !c->step->converter) {
        for (int32_t row = from; row < to; row++)
            copy_pixel_row(c, row);
        return;
    }
    for (int32_t atom = 0; atom < c->copied_atoms; atom++)
        copy_rows(c, atom, from, to);
}

void copy_all(convolution *c, int32_t atoms)
{
    c->copied_atoms = atoms;
    const int64_t work = atoms * (int64_t)c->rows * c->columns * c->phases * ATOM / COPY_BYTES * (is_float(c->step) ? 2 : 1);
    c->chunks = at_most(c->rows, 4 * useful_threads(work));
    run_units(c->chunks, work, copy_chunk, c);
}
