/*
 * The stages of the DPU in its general form, in 64-bit integers or in float, on a tile of pixels by 16 channels that stays
 * in the first level cache. Every loop does one thing to the whole tile, so that compilers can use vectors.
 */
#include "lane_lookup.h"

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
    if (ew->lookup.entries) {
        const lane_lookup lookup = lookup_of(&ew->lookup);
#ifdef OWN_LOOK_UP
        look_up_lanes(&lookup, x[0], t->count * GENERAL_LANES);
#else
        look_up_plain(&lookup, x[0], t->count * GENERAL_LANES);
#endif
    }
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
