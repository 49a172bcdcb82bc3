/*
 * The DPU in its general form, for any instruction set: the twin of openrknn/npu/blocks/dpu, reading,
 * general_stages.h's stages, and writing.
 *
 * The file that includes this one defines halves_to_floats and floats_to_halves for 8 numbers. With OWN_HALVES it has a
 * faster way for floats that are written as fp16 or fp32: own_halves, where has_lanes says so.
 */
#include "general_stages.h"

/* ---------------------------------------------------------------------------------------------- reading */

/* One atom as integers. */
static int32_t read_ints(const uint8_t *at, int32_t format, int64_t *out)
{
    int16_t halves[8];
    int32_t words[4];
    switch (format) {
    case OPENRKNN_INT8:
        for (int32_t i = 0; i < 16; i++)
            out[i] = (int8_t)at[i];
        return 16;
    case OPENRKNN_INT16:
        memcpy(halves, at, ATOM);
        for (int32_t i = 0; i < 8; i++)
            out[i] = halves[i];
        return 8;
    default:
        memcpy(words, at, ATOM);
        for (int32_t i = 0; i < 4; i++)
            out[i] = words[i];
        return 4;
    }
}

/* One atom as floats. */
static int32_t read_floats(const uint8_t *at, int32_t format, float32 *out)
{
    uint16_t halves[8];
    int64_t ints[16];
    int32_t count;
    switch (format) {
    case OPENRKNN_FP16:
        halves_to_floats(at, out);
        return 8;
    case OPENRKNN_BF16:
        memcpy(halves, at, ATOM);
        for (int32_t i = 0; i < 8; i++)
            out[i] = bits_to_float((uint32_t)halves[i] << 16);
        return 8;
    case OPENRKNN_FP32:
        memcpy(out, at, ATOM);
        return 4;
    default:
        count = read_ints(at, format, ints);
        for (int32_t i = 0; i < count; i++)
            out[i] = (float32)ints[i];
        return count;
    }
}

static int32_t atom_elements(int32_t format)
{
    return format == OPENRKNN_INT8 ? 16 : format == OPENRKNN_INT32 || format == OPENRKNN_FP32 ? 4 : 8;
}

/* read_tile for fp16 as floats: a run of each row at a time. */
static void read_halves(const openrknn_cube *cube, int32_t surfaces, int32_t width, const tile_data *t,
                        float32 (*out)[GENERAL_LANES])
{
    const int32_t first = t->task->channel / 8;
    for (int32_t p = 0, run; p < t->count; p += run) {
        const int32_t row = (t->pixel + p) / width, column = (t->pixel + p) % width;
        run = at_most(t->count - p, width - column);
        for (int32_t part = 0; part < 2; part++) {
            const uint8_t *at = cube_row(cube, first + part, row) + (int64_t)column * ATOM;
            if (first + part < surfaces)
                for (int32_t i = 0; i < run; i++)
                    halves_to_floats(at + i * ATOM, out[p + i] + part * 8);
            else
                for (int32_t i = 0; i < run; i++)
                    memset(out[p + i] + part * 8, 0, 8 * sizeof(float32));
        }
    }
}

/* 16 channels of `count` pixels from `pixel` on, rows of `width`; surfaces that do not exist are 0. */
static void read_tile(const openrknn_cube *cube, int32_t format, int32_t surfaces, int32_t width, tile_data *t, int32_t is_float,
                      int32_t is_operand)
{
    const int32_t each = atom_elements(format), first = t->task->channel / each, parts = GENERAL_LANES / each;
    int32_t row = t->pixel / width, column = t->pixel % width;

    if (is_float && format == OPENRKNN_FP16) {
        read_halves(cube, surfaces, width, t, is_operand ? t->operand.floats : t->x.floats);
        return;
    }
    for (int32_t p = 0; p < t->count; p++) {
        float32 *floats = is_operand ? t->operand.floats[p] : t->x.floats[p];
        int64_t *ints = is_operand ? t->operand.ints[p] : t->x.ints[p];
        for (int32_t part = 0; part < parts; part++) {
            const uint8_t *at = cube_row(cube, first + part, row) + (int64_t)column * ATOM;
            if (first + part >= surfaces)
                memset(is_float ? (void *)(floats + part * each) : (void *)(ints + part * each), 0,
                       (size_t)each * (is_float ? sizeof *floats : sizeof *ints));
            else if (is_float)
                read_floats(at, format, floats + part * each);
            else
                read_ints(at, format, ints + part * each);
        }
        if (++column == width) {
            column = 0;
            row++;
        }
    }
}

/* One element. */
static void read_element(const uint8_t *at, int32_t format, int32_t is_float, int64_t *integer, float32 *number)
{
    uint8_t atom[ATOM] = {0};
    int64_t ints[16];
    float32 floats[16];
    memcpy(atom, at, (size_t)(ATOM / atom_elements(format)));
    if (is_float) {
        read_floats(atom, format, floats);
        *number = floats[0];
    } else {
        read_ints(atom, format, ints);
        *integer = ints[0];
    }
}

static void read_operand(tile_data *t)
{
    const openrknn_dpu *dpu = t->task->dpu;
    const openrknn_element_wise *ew = &dpu->element_wise;
    int32_t channel = t->task->channel, lanes = at_most(dpu->channels - channel, GENERAL_LANES);
    int32_t each = atom_elements(ew->operand_format), size = ATOM / each;

    if (ew->operation == OPENRKNN_NOTHING || ew->operand_kind == 0)
        return;
    if (ew->operand_kind == 2) {
        read_tile(&ew->operand, ew->operand_format, divide_up(dpu->channels, each), dpu->width, t, dpu->is_float, 1);
        return;
    }
    /* One of each channel, or one of each pixel: the others are the same. */
    const int32_t is_channel = ew->operand_kind == 1, pixels = is_channel ? 1 : t->count;
    for (int32_t p = 0; p < pixels; p++)
        for (int32_t i = 0; i < GENERAL_LANES; i++) {
            int64_t place = is_channel ? channel + at_most(i, lanes - 1) : t->pixel + p;
            if (is_channel || i == 0)
                read_element(ew->operand.base[0] + place * size, ew->operand_format, dpu->is_float,
                             &t->operand.ints[p][i], &t->operand.floats[p][i]);
            else if (dpu->is_float)
                t->operand.floats[p][i] = t->operand.floats[p][0];
            else
                t->operand.ints[p][i] = t->operand.ints[p][0];
        }
    for (int32_t p = 1; is_channel && p < t->count; p++)
        if (dpu->is_float)
            memcpy(t->operand.floats[p], t->operand.floats[0], sizeof t->operand.floats[0]);
        else
            memcpy(t->operand.ints[p], t->operand.ints[0], sizeof t->operand.ints[0]);
}

/* ---------------------------------------------------------------------------------------------- writing */

static int64_t saturated(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

/* The nearest integer, ties to even; NaN is 0. */
static int64_t whole(float32 x)
{
    if (!(x == x))
        return 0;
    return x >= 9.2e18f ? INT64_MAX : x <= -9.2e18f ? INT64_MIN : (int64_t)rint((double)x);
}

static void encode_ints(int32_t format, const int64_t *x, uint8_t *at)
{
    int16_t halves[GENERAL_LANES];
    int32_t words[GENERAL_LANES];
    if (format == OPENRKNN_INT8) {
        for (int32_t i = 0; i < GENERAL_LANES; i++)
            at[i] = (uint8_t)saturated(x[i], -128, 127);
    } else if (format == OPENRKNN_INT16) {
        for (int32_t i = 0; i < GENERAL_LANES; i++)
            halves[i] = (int16_t)saturated(x[i], -32768, 32767);
        memcpy(at, halves, sizeof halves);
    } else {
        for (int32_t i = 0; i < GENERAL_LANES; i++)
            words[i] = (int32_t)saturated(x[i], INT32_MIN, INT32_MAX);
        memcpy(at, words, sizeof words);
    }
}

/* Of quiet numbers. */
static void encode_floats(int32_t format, const float32 *x, uint8_t *at)
{
    uint16_t halves[GENERAL_LANES];
    if (format == OPENRKNN_FP16) {
        uint16_t low[8], high[8]; /* two: what two instructions stored, one load does not get soon */
        floats_to_halves(x, low);
        floats_to_halves(x + 8, high);
        memcpy(at, low, sizeof low);
        memcpy(at + sizeof low, high, sizeof high);
    } else if (format == OPENRKNN_BF16) {
        for (int32_t i = 0; i < GENERAL_LANES; i++) {
            uint32_t bits = float_to_bits(x[i]);
            halves[i] = (uint16_t)(x[i] != x[i] ? 0x7fc0 : ((uint64_t)bits + 0x7fff + (bits >> 16 & 1)) >> 16);
        }
        memcpy(at, halves, sizeof halves);
    } else
        memcpy(at, x, GENERAL_LANES * sizeof *x);
}

static void encode_tile(const openrknn_dpu *dpu, const tile_data *t, int32_t p, uint8_t *at)
{
    int64_t ints[GENERAL_LANES];
    float32 floats[1][GENERAL_LANES];
    if (dpu->format == OPENRKNN_INT8 || dpu->format == OPENRKNN_INT16 || dpu->format == OPENRKNN_INT32) {
        for (int32_t i = 0; dpu->is_float && i < GENERAL_LANES; i++)
            ints[i] = whole(t->x.floats[p][i]);
        encode_ints(dpu->format, dpu->is_float ? ints : t->x.ints[p], at);
    } else {
        for (int32_t i = 0; !dpu->is_float && i < GENERAL_LANES; i++)
            floats[0][i] = (float32)t->x.ints[p][i] * dpu->factor;
        if (!dpu->is_float)
            quiet_floats(floats, 1);
        encode_floats(dpu->format, dpu->is_float ? t->x.floats[p] : floats[0], at);
    }
}

/* The number of an atom in the stream. */
static int64_t packed_place(const openrknn_target *target, int32_t atom, int32_t pixel)
{
    int32_t each = target->per_pixel;
    return ((int64_t)(atom / each) * target->pixels + pixel) * each + atom % each;
}

static void write_tile(const tile_data *t)
{
    const dpu_task *task = t->task;
    const openrknn_dpu *dpu = task->dpu;
    const openrknn_target *target = &dpu->target;
    int32_t size = ATOM / atom_elements(dpu->format), first = task->channel * size / ATOM;
    int32_t lanes = at_most(dpu->channels - task->channel, GENERAL_LANES), real = dpu->real_channels - task->channel;
    uint8_t bytes[TILE][GENERAL_LANES * 4];

    for (int32_t p = 0; p < t->count; p++) {
        encode_tile(dpu, t, p, bytes[p]);
        if (lanes < GENERAL_LANES)
            memset(bytes[p] + lanes * size, 0, (size_t)((GENERAL_LANES - lanes) * size));
        if (dpu->real_channels < dpu->channels && real < GENERAL_LANES) {
            int32_t from = at_least(real, 0) * size;
            memcpy(bytes[p] + from, dpu->padding, (size_t)(GENERAL_LANES * size - from));
        }
    }
    for (int32_t atom = first; atom < at_most(first + size, target->atoms); atom++) {
        const uint8_t *from = bytes[0] + (atom - first) * ATOM;
        if (target->packed) {
            for (int32_t p = 0; p < t->count; p++)
                memcpy(target->base + packed_place(target, atom, t->pixel + p) * target->packed,
                       from + p * GENERAL_LANES * 4, (size_t)target->packed);
            continue;
        }
        for (int32_t done = 0, run; done < t->count; done += run) {
            uint8_t *to = target_run(target, atom, t->pixel + done, &run);
            run = at_most(run, t->count - done);
            for (int32_t p = 0; p < run; p++)
                memcpy(to + p * ATOM, from + (done + p) * GENERAL_LANES * 4, ATOM);
        }
    }
}

/* ---------------------------------------------------------------------------------------------- the way through */

static void load_tile(tile_data *t, int32_t first)
{
    const dpu_task *task = t->task;
    const openrknn_dpu *dpu = task->dpu;

    if (task->source) {
        read_tile(task->source, task->source_format, task->source_surfaces, dpu->width, t, dpu->is_float, 0);
    } else if (dpu->is_float) {
        memcpy(t->x.floats, task->floats + first * GENERAL_LANES, (size_t)t->count * sizeof *t->x.floats);
    } else {
        ALL(t->count) t->x.ints[p][i] = task->sums[(first + p) * GENERAL_LANES + i];
        if (dpu->truncate)
            shift_tile(t->x.ints, t->count, dpu->truncate, dpu->truncate, dpu->truncate_away, 0);
    }
}

static void general(const dpu_task *task)
{
    tile_data t;

    t.task = task;
#ifdef OWN_HALVES
    if (has_lanes(task)) {
        t.pixel = task->pixel;
        t.count = 1;
        ALL(1) t.operand.floats[p][i] = task->dpu->element_wise.constant_float;
        if (task->dpu->element_wise.operand_kind == 1)
            read_operand(&t);
        own_halves(task, t.operand.floats[0]);
        return;
    }
#endif
    for (int32_t first = 0; first < task->pixels; first += TILE) {
        t.pixel = task->pixel + first;
        t.count = at_most(task->pixels - first, TILE);
        load_tile(&t, first);
        read_operand(&t);
        if (task->dpu->is_float)
            stages_of_floats(&t);
        else
            stages_of_ints(&t);
        write_tile(&t);
    }
}
