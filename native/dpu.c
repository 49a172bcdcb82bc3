/*
 * The DPU behind the accumulators: the twin of openrknn/npu/dpu. Everything is done on a small tile of pixels by 16
 * channels that stays in the first level cache.
 *
 * `general` takes every configuration, in 64-bit integers or in float; the usual integer ones go through a chain.
 */
#include <math.h>

#include "internal.h"

enum { TILE = 16, LANES = 16, ENTRIES = 513 };

uint8_t *target_run(const openrknn_target *target, int32_t atom, int64_t pixel, int32_t *run)
{
    int64_t group = atom / target->per_pixel, place = group * target->pixels + pixel;
    int64_t area = (int64_t)target->width * target->height, row, column;

    group = place / area;
    place -= group * area;
    row = place / target->width;
    column = place - row * target->width;
    *run = (int32_t)(target->line == (int64_t)target->width * ATOM ? area - place : target->width - column);
    return target->base + group * target->group_step + row * target->line + column * ATOM +
           atom % target->per_pixel * target->atom_step;
}

/* ---------------------------------------------------------------------------------------------- integers */

typedef struct {
    const dpu_task *task;
    int32_t pixel; /* first of the tile, counted through the grid */
    int32_t count;
    union {
        int64_t ints[TILE * LANES];
        float32 floats[TILE * LANES];
    } x, operand;
} tile;

static inline int64_t clamp_int(const openrknn_clamp *clamp, int64_t y)
{
    if (clamp->kinds & OPENRKNN_CLAMP_LOWER && y < clamp->lower)
        y = clamp->kinds & OPENRKNN_CLAMP_BELOW ? clamp->below : clamp->lower;
    return clamp->kinds & OPENRKNN_CLAMP_UPPER && y > clamp->upper ? clamp->upper : y;
}

static void stage_ints(const openrknn_stage *stage, int64_t *x, int32_t count, int32_t channel)
{
    const int32_t *addends = stage->addends ? (const int32_t *)stage->addends + channel : NULL;
    const int32_t *factors = stage->factors ? (const int32_t *)stage->factors + channel : NULL;

    for (int32_t i = 0; i < count * LANES; i++) {
        int32_t lane = i % LANES;
        uint64_t a = !addends ? 0 : stage->subtracts ? -(uint64_t)addends[lane] : (uint64_t)addends[lane];
        uint64_t before = (uint64_t)x[i], product;
        if (!stage->multiplies_first)
            before += a;
        product = factors ? before * (uint64_t)factors[lane] : before;
        if (stage->multiplies_first)
            product += a;
        int64_t y = (int64_t)product;
        if (factors)
            y = shift_right(y, y < 0 ? stage->shift_negative : stage->shift, 0);
        if (stage->negative_only && (int64_t)before >= 0)
            y = (int64_t)before;
        x[i] = clamp_int(&stage->clamp, y);
    }
}

static int64_t look_up(const openrknn_lookup *lookup, int64_t x)
{
    int32_t is_high = x >= lookup->lo_start, select = is_high ? lookup->lo_select : lookup->le_select;
    const int64_t *table = lookup->entries + (is_high ? ENTRIES : 0);
    int64_t distance = x - (is_high ? lookup->lo_start : lookup->le_start), last = (int64_t)(ENTRIES - 1) << select;

    if (x > lookup->lo_end) {
        uint64_t end = (uint64_t)lookup->entries[2 * ENTRIES - 1] << lookup->above_shift;
        return shift_right((int64_t)(end + (uint64_t)(x - lookup->lo_end) * (uint64_t)(int64_t)lookup->above_scale),
                           lookup->above_shift, 0);
    }
    if (x < lookup->le_start) {
        uint64_t end = (uint64_t)lookup->entries[0] << lookup->below_shift;
        return shift_right((int64_t)(end + (uint64_t)(x - lookup->le_start) * (uint64_t)(int64_t)lookup->below_scale),
                           lookup->below_shift, 0);
    }
    if (distance >= last)
        return table[ENTRIES - 1];
    if (distance < 0)
        distance = 0;
    int64_t index = distance >> select, fraction = distance & (((int64_t)1 << select) - 1);
    return shift_right((int64_t)((uint64_t)table[index] << select) + (table[index + 1] - table[index]) * fraction, select, 0);
}

static int64_t operate_ints(const openrknn_element_wise *ew, int64_t x, int64_t e)
{
    int64_t y;
    switch (ew->operation) {
    case OPENRKNN_MAX:
        return x > e ? x : e;
    case OPENRKNN_MIN:
        return x < e ? x : e;
    case OPENRKNN_ADD:
        return (int64_t)((uint64_t)x + (uint64_t)e);
    case OPENRKNN_MINUS:
        return (int64_t)((uint64_t)x - (uint64_t)e);
    case OPENRKNN_ABS:
        return x < 0 ? (int64_t)-(uint64_t)x : x;
    case OPENRKNN_NEGATE:
        return (int64_t)-(uint64_t)x;
    case OPENRKNN_MULTIPLY:
        y = (int64_t)((uint64_t)x * (uint64_t)e);
        if (ew->shift || ew->shift_negative)
            y = shift_right(y, y < 0 ? ew->shift_negative : ew->shift, 0);
        return ew->negative_only && x >= 0 ? x : y;
    default: /* floor and ceiling of an integer, or nothing */
        return x;
    }
}

static int64_t convert(const openrknn_element_wise *ew, int64_t e)
{
    uint64_t scale = (uint64_t)(int64_t)ew->convert_scale, offset = (uint64_t)(int64_t)ew->convert_offset;
    if (ew->convert_add_first)
        return shift_right((int64_t)(((uint64_t)e + offset) * scale), ew->convert_shift, ew->convert_up);
    return (int64_t)((uint64_t)shift_right((int64_t)((uint64_t)e * scale), ew->convert_shift, ew->convert_up) + offset);
}

static void element_wise_ints(const openrknn_element_wise *ew, int64_t *x, const int64_t *operand, int32_t count)
{
    for (int32_t i = 0; i < count * LANES; i++) {
        int64_t y = x[i];
        if (ew->lookup.entries)
            y = look_up(&ew->lookup, y);
        if (ew->operation != OPENRKNN_NOTHING) {
            int64_t e = ew->operand_kind == 0 ? ew->constant : operand[i];
            y = operate_ints(ew, y, ew->converts ? convert(ew, e) : e);
        }
        x[i] = clamp_int(&ew->clamp, y);
    }
}

static void out_ints(const openrknn_dpu *dpu, int64_t *x, int32_t count)
{
    uint64_t scale = (uint64_t)(int64_t)dpu->scale, offset = (uint64_t)(int64_t)dpu->offset;
    for (int32_t i = 0; i < count * LANES; i++) {
        uint64_t y = dpu->add_first ? ((uint64_t)x[i] + offset) * scale : (uint64_t)x[i] * scale;
        if (dpu->offset_counts_in_ties && !dpu->add_first)
            y += offset << dpu->shift;
        x[i] = shift_right((int64_t)y, dpu->shift, dpu->ties_up);
        if (!dpu->offset_counts_in_ties && !dpu->add_first)
            x[i] = (int64_t)((uint64_t)x[i] + offset);
    }
}

/* ---------------------------------------------------------------------------------------------- floating point */

/* As NumPy's: a NaN wins, and of two zeros the second one. */
static inline float32 larger(float32 a, float32 b)
{
    return a > b || a != a ? a : b;
}

static inline float32 smaller(float32 a, float32 b)
{
    return a < b || a != a ? a : b;
}

static inline float32 clamp_float(const openrknn_clamp *clamp, float32 y)
{
    if (clamp->kinds & OPENRKNN_CLAMP_BELOW)
        y = y < clamp->lower_float ? clamp->below_float : y;
    else if (clamp->kinds & OPENRKNN_CLAMP_LOWER)
        y = larger(y, clamp->lower_float);
    return clamp->kinds & OPENRKNN_CLAMP_UPPER ? smaller(y, clamp->upper_float) : y;
}

static void stage_floats(const openrknn_stage *stage, float32 *x, int32_t count, int32_t channel)
{
    const float32 *addends = stage->addends ? (const float32 *)stage->addends + channel : NULL;
    const float32 *factors = stage->factors ? (const float32 *)stage->factors + channel : NULL;

    for (int32_t i = 0; i < count * LANES; i++) {
        int32_t lane = i % LANES;
        float32 before = x[i], y;
        if (addends && !stage->multiplies_first)
            before = stage->subtracts ? before - addends[lane] : before + addends[lane];
        y = factors ? before * factors[lane] : before;
        if (addends && stage->multiplies_first)
            y = stage->subtracts ? y - addends[lane] : y + addends[lane];
        if (stage->negative_only && !(before < 0))
            y = before;
        x[i] = clamp_float(&stage->clamp, y);
    }
}

static float32 look_up_float(const openrknn_lookup *lookup, float32 value)
{
    double x = value, y;
    int32_t is_high = !(x < (double)lookup->lo_start);
    const int64_t *table = lookup->entries + (is_high ? ENTRIES : 0);
    double start = (double)(is_high ? lookup->lo_start : lookup->le_start);
    double place = (x - start) / ldexp(1.0, is_high ? lookup->lo_select : lookup->le_select);

    if (!(place == place))
        place = 0;
    place = place > 0 ? place : 0;
    place = place < ENTRIES - 1 ? place : ENTRIES - 1;
    int64_t index = (int64_t)place < ENTRIES - 2 ? (int64_t)place : ENTRIES - 2;
    double low = (double)table[index], high = (double)table[index + 1];
    y = low + (high - low) * (place - (double)index);
    if (x < (double)lookup->le_start)
        y = (double)lookup->entries[0] +
            (x - (double)lookup->le_start) * ((double)lookup->below_scale / ldexp(1.0, lookup->below_shift));
    if (x > (double)lookup->lo_end)
        y = (double)lookup->entries[2 * ENTRIES - 1] +
            (x - (double)lookup->lo_end) * ((double)lookup->above_scale / ldexp(1.0, lookup->above_shift));
    return (float32)y;
}

static float32 operate_floats(const openrknn_element_wise *ew, float32 x, float32 e)
{
    switch (ew->operation) {
    case OPENRKNN_MAX:
        return larger(x, e);
    case OPENRKNN_MIN:
        return smaller(x, e);
    case OPENRKNN_ADD:
        return x + e;
    case OPENRKNN_DIVIDE:
        return x / e;
    case OPENRKNN_MINUS:
        return x - e;
    case OPENRKNN_ABS:
        return fabsf(x);
    case OPENRKNN_NEGATE:
        return -x;
    case OPENRKNN_FLOOR:
        return floorf(x);
    case OPENRKNN_CEIL:
        return ceilf(x);
    case OPENRKNN_MULTIPLY:
        return ew->negative_only && !(x < 0) ? x : x * e;
    default:
        return x;
    }
}

static void element_wise_floats(const openrknn_element_wise *ew, float32 *x, const float32 *operand, int32_t count)
{
    for (int32_t i = 0; i < count * LANES; i++) {
        float32 y = x[i];
        if (ew->lookup.entries)
            y = look_up_float(&ew->lookup, y);
        if (ew->operation != OPENRKNN_NOTHING)
            y = operate_floats(ew, y, ew->operand_kind == 0 ? ew->constant_float : operand[i]);
        x[i] = clamp_float(&ew->clamp, y);
    }
}

/* ---------------------------------------------------------------------------------------------- operand */

static int32_t format_bytes(int32_t format)
{
    return format == OPENRKNN_INT8 ? 1 : format == OPENRKNN_INT32 || format == OPENRKNN_FP32 ? 4 : 2;
}

static int64_t read_int(const uint8_t *at, int32_t format)
{
    int16_t half;
    int32_t whole;
    switch (format) {
    case OPENRKNN_INT8:
        return (int8_t)*at;
    case OPENRKNN_INT16:
        memcpy(&half, at, 2);
        return half;
    default:
        memcpy(&whole, at, 4);
        return whole;
    }
}

static float32 read_float(const uint8_t *at, int32_t format)
{
    uint16_t half;
    float32 whole;
    switch (format) {
    case OPENRKNN_FP16:
        memcpy(&half, at, 2);
        return half_to_float(half);
    case OPENRKNN_BF16:
        memcpy(&half, at, 2);
        return bits_to_float((uint32_t)half << 16);
    case OPENRKNN_FP32:
        memcpy(&whole, at, 4);
        return whole;
    default:
        return (float32)read_int(at, format);
    }
}

/* 16 channels of a cube at one pixel. */
static void read_lanes(const openrknn_cube *cube, int32_t format, int32_t channel, int32_t row, int32_t column,
                       int32_t lanes, int32_t is_float, void *out)
{
    int32_t size = format_bytes(format), each = ATOM / size;
    for (int32_t lane = 0; lane < LANES; lane++) {
        int32_t place = channel + lane;
        const uint8_t *at = lane >= lanes ? NULL
                                          : cube_row(cube, place / each, row) + (int64_t)column * ATOM + place % each * size;
        if (is_float)
            ((float32 *)out)[lane] = at ? read_float(at, format) : 0.0f;
        else
            ((int64_t *)out)[lane] = at ? read_int(at, format) : 0;
    }
}

static void fetch_operand(tile *t)
{
    const openrknn_dpu *dpu = t->task->dpu;
    const openrknn_element_wise *ew = &dpu->element_wise;
    int32_t channel = t->task->channel, lanes = at_most(dpu->channels - channel, LANES);
    int32_t size = format_bytes(ew->operand_format);

    if (ew->operation == OPENRKNN_NOTHING || ew->operand_kind == 0)
        return;
    for (int32_t i = 0; i < t->count; i++) {
        int32_t pixel = t->pixel + i;
        void *out = dpu->is_float ? (void *)(t->operand.floats + i * LANES) : (void *)(t->operand.ints + i * LANES);
        if (ew->operand_kind == 2) {
            read_lanes(&ew->operand, ew->operand_format, channel, pixel / dpu->width, pixel % dpu->width, lanes,
                       dpu->is_float, out);
            continue;
        }
        for (int32_t lane = 0; lane < LANES; lane++) {
            const uint8_t *at = ew->operand.base[0] + (int64_t)(ew->operand_kind == 1 ? channel + lane : pixel) * size;
            if (dpu->is_float)
                ((float32 *)out)[lane] = lane < lanes ? read_float(at, ew->operand_format) : 0.0f;
            else
                ((int64_t *)out)[lane] = lane < lanes ? read_int(at, ew->operand_format) : 0;
        }
    }
}

/* ---------------------------------------------------------------------------------------------- output */

static int64_t saturate(int64_t x, int64_t low, int64_t high)
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

static uint16_t float_to_bf16(float32 value)
{
    uint64_t bits = float_to_bits(value);
    return (uint16_t)(value != value ? bits >> 16 | 0x40 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static void encode(const openrknn_dpu *dpu, const tile *t, int32_t i, uint8_t *at)
{
    int64_t integer = 0;
    float32 number = 0;
    uint16_t half;
    int16_t narrow;
    int32_t wide;

    if (dpu->format == OPENRKNN_INT8 || dpu->format == OPENRKNN_INT16 || dpu->format == OPENRKNN_INT32)
        integer = dpu->is_float ? whole(t->x.floats[i]) : t->x.ints[i];
    else
        number = dpu->is_float ? t->x.floats[i] : (float32)t->x.ints[i];
    switch (dpu->format) {
    case OPENRKNN_INT8:
        *at = (uint8_t)saturate(integer, -128, 127);
        break;
    case OPENRKNN_INT16:
        narrow = (int16_t)saturate(integer, -32768, 32767);
        memcpy(at, &narrow, 2);
        break;
    case OPENRKNN_INT32:
        wide = (int32_t)saturate(integer, INT32_MIN, INT32_MAX);
        memcpy(at, &wide, 4);
        break;
    case OPENRKNN_FP16:
        half = float_to_half(number);
        memcpy(at, &half, 2);
        break;
    case OPENRKNN_BF16:
        half = float_to_bf16(number);
        memcpy(at, &half, 2);
        break;
    default:
        memcpy(at, &number, 4);
    }
}

/* The number of an atom in the stream. */
static int64_t packed_place(const openrknn_target *target, int32_t atom, int32_t pixel)
{
    int32_t each = target->per_pixel;
    return ((int64_t)(atom / each) * target->pixels + pixel) * each + atom % each;
}

static void write_tile(const tile *t)
{
    const dpu_task *task = t->task;
    const openrknn_dpu *dpu = task->dpu;
    const openrknn_target *target = &dpu->target;
    int32_t size = format_bytes(dpu->format), first = task->channel * size / ATOM;
    int32_t lanes = at_most(dpu->channels - task->channel, LANES), real = dpu->real_channels - task->channel;
    uint8_t bytes[TILE][LANES * 4];

    for (int32_t i = 0; i < t->count; i++) {
        for (int32_t lane = 0; lane < LANES; lane++) {
            if (lane < lanes)
                encode(dpu, t, i * LANES + lane, bytes[i] + lane * size);
            else
                memset(bytes[i] + lane * size, 0, (size_t)size);
        }
        if (dpu->real_channels < dpu->channels && real < LANES) {
            int32_t from = at_least(real, 0) * size;
            memcpy(bytes[i] + from, dpu->padding, (size_t)(LANES * size - from));
        }
    }
    for (int32_t atom = first; atom < at_most(first + size, target->atoms); atom++) {
        const uint8_t *from = bytes[0] + (atom - first) * ATOM;
        if (target->packed) {
            for (int32_t i = 0; i < t->count; i++)
                memcpy(target->base + packed_place(target, atom, t->pixel + i) * target->packed, from + i * LANES * 4,
                       (size_t)target->packed);
            continue;
        }
        for (int32_t done = 0, run; done < t->count; done += run) {
            uint8_t *to = target_run(target, atom, t->pixel + done, &run);
            run = at_most(run, t->count - done);
            for (int32_t i = 0; i < run; i++)
                memcpy(to + i * ATOM, from + (done + i) * LANES * 4, ATOM);
        }
    }
}

/* ---------------------------------------------------------------------------------------------- the way through */

static void load_tile(tile *t, int32_t first)
{
    const dpu_task *task = t->task;
    const openrknn_dpu *dpu = task->dpu;

    if (dpu->is_float) {
        memcpy(t->x.floats, task->floats + first * LANES, (size_t)t->count * LANES * sizeof(float32));
        return;
    }
    for (int32_t i = 0; i < t->count * LANES; i++) {
        int64_t x = task->sums[first * LANES + i];
        t->x.ints[i] = dpu->truncate ? shift_right(x, dpu->truncate, dpu->truncate_up) : x;
    }
}

static void general(const dpu_task *task)
{
    const openrknn_dpu *dpu = task->dpu;
    const openrknn_element_wise *ew = &dpu->element_wise;
    tile t = {.task = task};

    for (int32_t first = 0; first < task->pixels; first += TILE) {
        t.pixel = task->pixel + first;
        t.count = at_most(task->pixels - first, TILE);
        load_tile(&t, first);
        fetch_operand(&t);
        if (dpu->is_float) {
            stage_floats(&dpu->bias, t.x.floats, t.count, task->channel);
            stage_floats(&dpu->norm, t.x.floats, t.count, task->channel);
            element_wise_floats(ew, t.x.floats, t.operand.floats, t.count);
            if (dpu->factor != 1.0f)
                for (int32_t i = 0; i < t.count * LANES; i++)
                    t.x.floats[i] *= dpu->factor;
        } else {
            stage_ints(&dpu->bias, t.x.ints, t.count, task->channel);
            stage_ints(&dpu->norm, t.x.ints, t.count, task->channel);
            element_wise_ints(ew, t.x.ints, t.operand.ints, t.count);
            out_ints(dpu, t.x.ints, t.count);
        }
        write_tile(&t);
    }
}

/* Set the channels of the last atom that carry no data. */
static void fill_lanes(const openrknn_dpu *dpu, const dpu_task *task, uint8_t *target, int32_t pixels)
{
    int32_t limit = dpu->real_channels < dpu->channels ? dpu->real_channels : dpu->channels;
    int32_t lanes = limit - task->channel;
    if (lanes >= LANES)
        return;
    for (int32_t i = 0; i < pixels; i++) {
        if (dpu->real_channels < dpu->channels)
            memcpy(target + i * ATOM + at_least(lanes, 0), dpu->padding, (size_t)(LANES - at_least(lanes, 0)));
        else
            memset(target + i * ATOM + lanes, 0, (size_t)(LANES - lanes));
    }
}

static void chained(const dpu_task *task)
{
    const openrknn_dpu *dpu = task->dpu;
    const openrknn_element_wise *ew = &dpu->element_wise;
    int32_t atom = task->channel / ATOM, run;
    chain_task chain = {
        .chain = &dpu->chain,
        .channel = task->channel,
    };
    const int32_t has_operand = OPENRKNN_CHAIN_ADD | OPENRKNN_CHAIN_MULTIPLY | OPENRKNN_CHAIN_MAX | OPENRKNN_CHAIN_MIN;

    if (atom >= dpu->target.atoms)
        return;
    for (int32_t done = 0; done < task->pixels; done += run) {
        int32_t pixel = task->pixel + done;
        chain.target = target_run(&dpu->target, atom, pixel, &run);
        run = at_most(run, task->pixels - done);
        chain.sums = task->sums ? task->sums + done * LANES : NULL;
        chain.bytes = task->bytes ? task->bytes + done * LANES : NULL;
        if (dpu->chain.flags & has_operand) {
            if (ew->operand_kind == 2) {
                int32_t row = pixel / dpu->width, column = pixel % dpu->width;
                if (ew->operand.line[atom & 1] != (int64_t)dpu->width * ATOM)
                    run = at_most(run, dpu->width - column);
                chain.operand = (const int8_t *)cube_row(&ew->operand, atom, row) + column * ATOM;
            } else {
                chain.operand = (const int8_t *)ew->operand.base[0] + task->channel;
                chain.operand_is_fixed = 1;
            }
        }
        chain.pixels = run;
        task->kernels->chain(&chain);
        fill_lanes(dpu, task, chain.target, run);
    }
}

void dpu_finish(const dpu_task *task)
{
    (task->dpu->chain.flags ? chained : general)(task);
}
