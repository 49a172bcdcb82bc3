/*
 * The DPU in its general form, for any instruction set: the twin of openrknn/npu/blocks/dpu, in 64-bit integers or in float,
 * on a tile of pixels by 16 channels that stays in the first level cache. Every loop does one thing to the whole tile,
 * so that compilers can use vectors.
 *
 * The file that includes this one defines halves_to_floats and floats_to_halves for 8 numbers. With OWN_HALVES it has a
 * faster way for floats that are written as fp16: own_halves, where has_halves says so.
 */
#include <math.h>

enum { TILE = 28 };

typedef struct {
    const dpu_task *task;
    int32_t pixel; /* first of the tile, counted through the grid */
    int32_t count;
    union {
        int64_t ints[TILE][GENERAL_LANES];
        float32 floats[TILE][GENERAL_LANES];
    } x, operand;
} tile_data;

#define ALL(count)                                                                                                     \
    for (int32_t p = 0; p < (count); p++)                                                                              \
        for (int32_t i = 0; i < GENERAL_LANES; i++)

ALWAYS_INLINE int64_t wrapped_add(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

ALWAYS_INLINE int64_t wrapped_subtract(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

ALWAYS_INLINE int64_t wrapped_multiply(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

/* ---------------------------------------------------------------------------------------------- integers */

/* x / 2^shift to the nearest integer, negative numbers / 2^negative; `offset` follows, and counts in ties. */
static void shift_tile(int64_t (*x)[GENERAL_LANES], int32_t count, int32_t shift, int32_t negative, int32_t away,
                       int64_t offset)
{
    if (shift == negative && shift == 0)
        return;
    if (shift == negative && shift < 64) {
        const int64_t half = (int64_t)1 << (shift - 1), rest_mask = (int64_t)(((uint64_t)1 << shift) - 1);
        ALL(count)
        {
            int64_t quotient = x[p][i] >> shift, rest = x[p][i] & rest_mask;
            int64_t sum = (int64_t)((uint64_t)quotient + (uint64_t)offset);
            x[p][i] = quotient + ((rest > half) | ((rest == half) & (away ? sum >= 0 : (int32_t)(sum & 1))));
        }
        return;
    }
    ALL(count)
    x[p][i] = shift_right(x[p][i], x[p][i] < 0 ? negative : shift, away, offset);
}

static void clamp_ints(const openrknn_clamp *clamp, int64_t (*x)[GENERAL_LANES], int32_t count)
{
    const int64_t lower = clamp->lower, upper = clamp->upper, below = clamp->below;
    if (clamp->kinds & OPENRKNN_CLAMP_BELOW)
        ALL(count) x[p][i] = x[p][i] < lower ? below : x[p][i];
    else if (clamp->kinds & OPENRKNN_CLAMP_LOWER)
        ALL(count) x[p][i] = x[p][i] < lower ? lower : x[p][i];
    if (clamp->kinds & OPENRKNN_CLAMP_UPPER)
        ALL(count) x[p][i] = x[p][i] > upper ? upper : x[p][i];
}

static void stage_ints(const openrknn_stage *stage, int64_t (*x)[GENERAL_LANES], int32_t count, int32_t channel)
{
    const int32_t *addends = stage->addends, *factors = stage->factors;
    int64_t a[GENERAL_LANES], m[GENERAL_LANES];

    for (int32_t i = 0; i < GENERAL_LANES; i++) {
        a[i] = addends ? (stage->subtracts ? -(int64_t)addends[channel + i] : addends[channel + i]) : 0;
        m[i] = factors ? factors[channel + i] : 1;
    }
    if (addends && !stage->multiplies_first)
        ALL(count) x[p][i] = wrapped_add(x[p][i], a[i]);
    if (stage->negative_only)
        ALL(count) x[p][i] = x[p][i] < 0 ? wrapped_multiply(x[p][i], m[i]) : x[p][i];
    else if (factors)
        ALL(count) x[p][i] = wrapped_multiply(x[p][i], m[i]);
    if (addends && stage->multiplies_first)
        ALL(count) x[p][i] = wrapped_add(x[p][i], a[i]);
    if (factors)
        shift_tile(x, count, stage->shift, stage->shift_negative, 0, 0);
    clamp_ints(&stage->clamp, x, count);
}

static int64_t look_up_int(const openrknn_lookup *lookup, int64_t x)
{
    int32_t is_high = x >= lookup->lo_start, select = is_high ? lookup->lo_select : lookup->le_select;
    const int64_t *table = lookup->entries + (is_high ? ENTRIES : 0);
    int64_t distance = wrapped_subtract(x, is_high ? lookup->lo_start : lookup->le_start), last = (int64_t)(ENTRIES - 1) << select;

    if (x > lookup->lo_end) {
        int64_t rise = wrapped_multiply(wrapped_subtract(x, lookup->lo_end), lookup->above_scale);
        return wrapped_add(lookup->entries[2 * ENTRIES - 1], shift_floor(rise, lookup->above_shift));
    }
    if (x < lookup->le_start) {
        int64_t rise = wrapped_multiply(wrapped_subtract(x, lookup->le_start), lookup->below_scale);
        return wrapped_add(lookup->entries[0], shift_floor(rise, lookup->below_shift));
    }
    if (distance >= last)
        return table[ENTRIES - 1];
    if (distance < 0)
        distance = 0;
    int64_t index = distance >> select, fraction = distance & (((int64_t)1 << select) - 1);
    int64_t exact = (int64_t)((uint64_t)table[index] << select) + (table[index + 1] - table[index]) * fraction;
    return exact >> select;
}

static void convert_operand(const openrknn_element_wise *ew, int64_t (*e)[GENERAL_LANES], int32_t count)
{
    const int64_t scale = ew->convert_scale, offset = ew->convert_offset;
    if (ew->convert_add_first)
        ALL(count) e[p][i] = wrapped_multiply(wrapped_add(e[p][i], offset), scale);
    else
        ALL(count) e[p][i] = wrapped_multiply(e[p][i], scale);
    shift_tile(e, count, ew->convert_shift, ew->convert_shift, ew->convert_away, 0);
    if (!ew->convert_add_first)
        ALL(count) e[p][i] = wrapped_add(e[p][i], offset);
}

static void operate_ints(const openrknn_element_wise *ew, int64_t (*x)[GENERAL_LANES], int64_t (*e)[GENERAL_LANES],
                         int32_t count)
{
    switch (ew->operation) {
    case OPENRKNN_MAX:
        ALL(count) x[p][i] = x[p][i] > e[p][i] ? x[p][i] : e[p][i];
        break;
    case OPENRKNN_MIN:
        ALL(count) x[p][i] = x[p][i] < e[p][i] ? x[p][i] : e[p][i];
        break;
    case OPENRKNN_ADD:
        ALL(count) x[p][i] = wrapped_add(x[p][i], e[p][i]);
        break;
    case OPENRKNN_MINUS:
        ALL(count) x[p][i] = (int64_t)((uint64_t)x[p][i] - (uint64_t)e[p][i]);
        break;
    case OPENRKNN_ABS:
        ALL(count) x[p][i] = x[p][i] < 0 ? (int64_t)-(uint64_t)x[p][i] : x[p][i];
        break;
    case OPENRKNN_NEGATE:
        ALL(count) x[p][i] = (int64_t)-(uint64_t)x[p][i];
        break;
    case OPENRKNN_MULTIPLY:
        if (ew->negative_only)
            ALL(count) x[p][i] = x[p][i] < 0 ? wrapped_multiply(x[p][i], e[p][i]) : x[p][i];
        else
            ALL(count) x[p][i] = wrapped_multiply(x[p][i], e[p][i]);
        shift_tile(x, count, ew->shift, ew->shift_negative, 0, 0);
        break;
    default: /* floor and ceiling of an integer, or nothing */
        break;
    }
}

static void out_ints(const openrknn_dpu *dpu, int64_t (*x)[GENERAL_LANES], int32_t count)
{
    const int64_t scale = dpu->scale, offset = dpu->offset;
    if (dpu->add_first)
        ALL(count) x[p][i] = wrapped_multiply(wrapped_add(x[p][i], offset), scale);
    else
        ALL(count) x[p][i] = wrapped_multiply(x[p][i], scale);
    shift_tile(x, count, dpu->shift, dpu->shift, dpu->ties_away, dpu->add_first ? 0 : offset);
    if (!dpu->add_first)
        ALL(count) x[p][i] = wrapped_add(x[p][i], offset);
}

static void stages_of_ints(tile_data *t)
{
    const openrknn_dpu *dpu = t->task->dpu;
    const openrknn_element_wise *ew = &dpu->element_wise;
    int64_t(*x)[GENERAL_LANES] = t->x.ints, (*e)[GENERAL_LANES] = t->operand.ints;

    stage_ints(&dpu->bias, x, t->count, t->task->channel);
    stage_ints(&dpu->norm, x, t->count, t->task->channel);
    if (ew->lookup.entries)
        ALL(t->count) x[p][i] = look_up_int(&ew->lookup, x[p][i]);
    if (ew->operation != OPENRKNN_NOTHING) {
        if (ew->operand_kind == 0)
            ALL(t->count) e[p][i] = ew->constant;
        if (ew->converts)
            convert_operand(ew, e, t->count);
        operate_ints(ew, x, e, t->count);
    }
    clamp_ints(&ew->clamp, x, t->count);
    out_ints(dpu, x, t->count);
}

/* ---------------------------------------------------------------------------------------------- floating point */

/* As numerics.larger: a NaN wins, and of two zeros the second one. */
ALWAYS_INLINE float32 larger(float32 a, float32 b)
{
    return (a > b) | (a != a) ? a : b;
}

ALWAYS_INLINE float32 smaller(float32 a, float32 b)
{
    return (a < b) | (a != a) ? a : b;
}

static void clamp_floats(const openrknn_clamp *clamp, float32 (*x)[GENERAL_LANES], int32_t count)
{
    const float32 lower = clamp->lower_float, upper = clamp->upper_float, below = clamp->below_float;
    if (clamp->kinds & OPENRKNN_CLAMP_BELOW)
        ALL(count) x[p][i] = x[p][i] < lower ? below : x[p][i];
    else if (clamp->kinds & OPENRKNN_CLAMP_LOWER)
        ALL(count) x[p][i] = larger(x[p][i], lower);
    if (clamp->kinds & OPENRKNN_CLAMP_UPPER)
        ALL(count) x[p][i] = smaller(x[p][i], upper);
}

static void add_floats(const openrknn_stage *stage, float32 (*x)[GENERAL_LANES], int32_t count, int32_t channel)
{
    const float32 *a = (const float32 *)stage->addends + channel;
    if (stage->subtracts)
        ALL(count) x[p][i] = x[p][i] - a[i];
    else
        ALL(count) x[p][i] = x[p][i] + a[i];
}

static void stage_floats(const openrknn_stage *stage, float32 (*x)[GENERAL_LANES], int32_t count, int32_t channel)
{
    if (stage->addends && !stage->multiplies_first)
        add_floats(stage, x, count, channel);
    if (stage->factors) {
        const float32 *m = (const float32 *)stage->factors + channel;
        if (stage->negative_only)
            ALL(count) x[p][i] = x[p][i] < 0 ? x[p][i] * m[i] : x[p][i];
        else
            ALL(count) x[p][i] = x[p][i] * m[i];
    }
    if (stage->addends && stage->multiplies_first)
        add_floats(stage, x, count, channel);
    clamp_floats(&stage->clamp, x, count);
}

static void look_up_floats(const openrknn_lookup *lookup, float32 (*x)[GENERAL_LANES], int32_t count)
{
    const double le_start = (double)lookup->le_start, lo_start = (double)lookup->lo_start, lo_end = (double)lookup->lo_end;
    /* Powers of two: a product with the reciprocal is the quotient. */
    const double le_scale = ldexp(1.0, -lookup->le_select), lo_scale = ldexp(1.0, -lookup->lo_select);
    const double below = (double)lookup->below_scale / ldexp(1.0, lookup->below_shift);
    const double above = (double)lookup->above_scale / ldexp(1.0, lookup->above_shift);
    const double first = (double)lookup->entries[0], last = (double)lookup->entries[2 * ENTRIES - 1];

    ALL(count)
    {
        double value = x[p][i], y;
        int32_t is_high = !(value < lo_start);
        const int64_t *table = lookup->entries + (is_high ? ENTRIES : 0);
        double place = (value - (is_high ? lo_start : le_start)) * (is_high ? lo_scale : le_scale);
        place = place > 0 ? place : 0; /* NaN too */
        place = place < ENTRIES - 1 ? place : ENTRIES - 1;
        int64_t index = (int64_t)place < ENTRIES - 2 ? (int64_t)place : ENTRIES - 2;
        double low = (double)table[index], high = (double)table[index + 1];
        y = low + (high - low) * (place - (double)index);
        if (value < le_start)
            y = first + (value - le_start) * below;
        if (value > lo_end)
            y = last + (value - lo_end) * above;
        x[p][i] = (float32)y;
    }
}

static void operate_floats(const openrknn_element_wise *ew, float32 (*x)[GENERAL_LANES], float32 (*e)[GENERAL_LANES],
                           int32_t count)
{
    switch (ew->operation) {
    case OPENRKNN_MAX:
        ALL(count) x[p][i] = larger(x[p][i], e[p][i]);
        break;
    case OPENRKNN_MIN:
        ALL(count) x[p][i] = smaller(x[p][i], e[p][i]);
        break;
    case OPENRKNN_ADD:
        ALL(count) x[p][i] = x[p][i] + e[p][i];
        break;
    case OPENRKNN_DIVIDE:
        ALL(count) x[p][i] = x[p][i] / e[p][i];
        break;
    case OPENRKNN_MINUS:
        ALL(count) x[p][i] = x[p][i] - e[p][i];
        break;
    case OPENRKNN_ABS:
        ALL(count) x[p][i] = fabsf(x[p][i]);
        break;
    case OPENRKNN_NEGATE:
        ALL(count) x[p][i] = -x[p][i];
        break;
    case OPENRKNN_FLOOR:
        ALL(count) x[p][i] = floorf(x[p][i]);
        break;
    case OPENRKNN_CEIL:
        ALL(count) x[p][i] = ceilf(x[p][i]);
        break;
    case OPENRKNN_MULTIPLY:
        if (ew->negative_only)
            ALL(count) x[p][i] = x[p][i] < 0 ? x[p][i] * e[p][i] : x[p][i];
        else
            ALL(count) x[p][i] = x[p][i] * e[p][i];
        break;
    default:
        break;
    }
}

/* One NaN for all, as NumPy has it. */
static void quiet_floats(float32 (*x)[GENERAL_LANES], int32_t count)
{
    const float32 quiet = bits_to_float(0x7fc00000);
    ALL(count) x[p][i] = x[p][i] != x[p][i] ? quiet : x[p][i];
}

static void stages_of_floats(tile_data *t)
{
    const openrknn_dpu *dpu = t->task->dpu;
    const openrknn_element_wise *ew = &dpu->element_wise;
    float32(*x)[GENERAL_LANES] = t->x.floats, (*e)[GENERAL_LANES] = t->operand.floats;

    stage_floats(&dpu->bias, x, t->count, t->task->channel);
    stage_floats(&dpu->norm, x, t->count, t->task->channel);
    if (ew->lookup.entries)
        look_up_floats(&ew->lookup, x, t->count);
    if (ew->operation != OPENRKNN_NOTHING) {
        if (ew->operand_kind == 0)
            ALL(t->count) e[p][i] = ew->constant_float;
        operate_floats(ew, x, e, t->count);
    }
    clamp_floats(&ew->clamp, x, t->count);
    if (dpu->factor != 1.0f)
        ALL(t->count) x[p][i] *= dpu->factor;
    quiet_floats(x, t->count);
}

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
    if (has_halves(task)) {
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
