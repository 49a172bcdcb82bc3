/*
 * The DPU on fp16 for aarch64: general_template.h's stages of floating point, on registers. A pixel's 16 channels are four
 * vectors, which go from memory through all stages and back without a stop. general_template.h asks for it with
 * OWN_HALVES, and says what it means; what is not fp16 stays there.
 */
#include <math.h>

#define OWN_HALVES

typedef struct {
    float32x4_t v[4];
} lanes16;

#define EACH_OF_4 _Pragma("GCC unroll 4") for (int32_t v = 0; v < 4; v++)

ALWAYS_INLINE lanes16 lanes_load(const float32 *at)
{
    lanes16 x;
    EACH_OF_4 x.v[v] = vld1q_f32(at + 4 * v);
    return x;
}

ALWAYS_INLINE lanes16 lanes_set(float32 value)
{
    lanes16 x;
    EACH_OF_4 x.v[v] = vdupq_n_f32(value);
    return x;
}

/* Of two atoms of fp16. */
ALWAYS_INLINE lanes16 lanes_of_halves(const uint8_t *low, const uint8_t *high)
{
    const float16x8_t a = vreinterpretq_f16_u8(vld1q_u8(low)), b = vreinterpretq_f16_u8(vld1q_u8(high));
    return (lanes16){{vcvt_f32_f16(vget_low_f16(a)), vcvt_high_f32_f16(a), vcvt_f32_f16(vget_low_f16(b)), vcvt_high_f32_f16(b)}};
}

/* fp16 with one NaN for all. */
ALWAYS_INLINE uint16x8_t quiet_halves(float32x4_t low, float32x4_t high)
{
    const uint16x8_t bits = vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(low), high));
    const uint16x8_t is_nan = vcgtq_u16(vbicq_u16(bits, vdupq_n_u16(0x8000)), vdupq_n_u16(0x7c00));
    return vbslq_u16(is_nan, vdupq_n_u16(0x7e00), bits);
}

/* As general_template.h's. */
ALWAYS_INLINE float32x4_t larger_of(float32x4_t a, float32x4_t b)
{
    return vbslq_f32(vornq_u32(vcgtq_f32(a, b), vceqq_f32(a, a)), a, b);
}

ALWAYS_INLINE float32x4_t smaller_of(float32x4_t a, float32x4_t b)
{
    return vbslq_f32(vornq_u32(vcltq_f32(a, b), vceqq_f32(a, a)), a, b);
}

ALWAYS_INLINE void clamp_lanes(const openrknn_clamp *clamp, lanes16 *x)
{
    const int32_t kinds = clamp->kinds;
    if (!kinds)
        return;
    const float32x4_t lower = vdupq_n_f32(clamp->lower_float), upper = vdupq_n_f32(clamp->upper_float);
    if (kinds & OPENRKNN_CLAMP_BELOW)
        EACH_OF_4 x->v[v] = vbslq_f32(vcltq_f32(x->v[v], lower), vdupq_n_f32(clamp->below_float), x->v[v]);
    else if (kinds & OPENRKNN_CLAMP_LOWER)
        EACH_OF_4 x->v[v] = larger_of(x->v[v], lower);
    if (kinds & OPENRKNN_CLAMP_UPPER)
        EACH_OF_4 x->v[v] = smaller_of(x->v[v], upper);
}

/* A stage with its operands in registers. */
typedef struct {
    lanes16 addends, factors;
    int32_t adds_first, adds_last, multiplies, negative_only, clamps;
    const openrknn_clamp *clamp;
} lane_stage;

ALWAYS_INLINE lane_stage stage_of(const openrknn_stage *stage, int32_t channel)
{
    lane_stage made = {
        .adds_first = stage->addends && !stage->multiplies_first,
        .adds_last = stage->addends && stage->multiplies_first,
        .multiplies = stage->factors != NULL,
        .negative_only = stage->negative_only,
        .clamps = stage->clamp.kinds,
        .clamp = &stage->clamp,
    };
    made.addends = made.factors = lanes_set(0.0f);
    if (stage->addends)
        made.addends = lanes_load((const float32 *)stage->addends + channel);
    if (stage->addends && stage->subtracts) /* x - a is x + -a */
        for (int32_t v = 0; v < 4; v++)
            made.addends.v[v] = vnegq_f32(made.addends.v[v]);
    if (stage->factors)
        made.factors = lanes_load((const float32 *)stage->factors + channel);
    return made;
}

ALWAYS_INLINE void stage_lanes(const lane_stage *stage, lanes16 *x)
{
    if (stage->adds_first)
        EACH_OF_4 x->v[v] = vaddq_f32(x->v[v], stage->addends.v[v]);
    if (stage->multiplies) {
        if (stage->negative_only)
            EACH_OF_4 x->v[v] = vbslq_f32(vcltzq_f32(x->v[v]), vmulq_f32(x->v[v], stage->factors.v[v]), x->v[v]);
        else
            EACH_OF_4 x->v[v] = vmulq_f32(x->v[v], stage->factors.v[v]);
    }
    if (stage->adds_last)
        EACH_OF_4 x->v[v] = vaddq_f32(x->v[v], stage->addends.v[v]);
    if (stage->clamps)
        clamp_lanes(stage->clamp, x);
}

/* ---------------------------------------------------------------------------------------------- tables */

typedef struct {
    const int64_t *entries;
    double le_start, lo_start, lo_end, le_scale, lo_scale, below, above, first, last;
} lane_lookup;

ALWAYS_INLINE lane_lookup lookup_of(const openrknn_lookup *lookup)
{
    if (!lookup->entries)
        return (lane_lookup){0};
    return (lane_lookup){
        .entries = lookup->entries,
        .le_start = (double)lookup->le_start,
        .lo_start = (double)lookup->lo_start,
        .lo_end = (double)lookup->lo_end,
        .le_scale = ldexp(1.0, -lookup->le_select),
        .lo_scale = ldexp(1.0, -lookup->lo_select),
        .below = (double)lookup->below_scale / ldexp(1.0, lookup->below_shift),
        .above = (double)lookup->above_scale / ldexp(1.0, lookup->above_shift),
        .first = (double)lookup->entries[0],
        .last = (double)lookup->entries[2 * ENTRIES - 1],
    };
}

/* Between the ends of the tables. */
ALWAYS_INLINE float64x2_t look_up_two(const lane_lookup *lookup, float64x2_t value)
{
    const uint64x2_t is_low = vcltq_f64(value, vdupq_n_f64(lookup->lo_start));
    const float64x2_t start = vbslq_f64(is_low, vdupq_n_f64(lookup->le_start), vdupq_n_f64(lookup->lo_start));
    const float64x2_t scale = vbslq_f64(is_low, vdupq_n_f64(lookup->le_scale), vdupq_n_f64(lookup->lo_scale));
    float64x2_t place = vmulq_f64(vsubq_f64(value, start), scale);
    place = vminnmq_f64(vmaxnmq_f64(place, vdupq_n_f64(0)), vdupq_n_f64(ENTRIES - 1)); /* of NaN 0 */
    const int64x2_t index = vcvtq_s64_f64(vminq_f64(place, vdupq_n_f64(ENTRIES - 2)));
    const float64x2_t fraction = vsubq_f64(place, vcvtq_f64_s64(index));
    const int64x2_t at = vaddq_s64(index, vbicq_s64(vdupq_n_s64(ENTRIES), vreinterpretq_s64_u64(is_low)));
    const int64x2_t a = vld1q_s64(lookup->entries + vgetq_lane_s64(at, 0)), b = vld1q_s64(lookup->entries + vgetq_lane_s64(at, 1));
    const float64x2_t low = vcvtq_f64_s64(vuzp1q_s64(a, b)), high = vcvtq_f64_s64(vuzp2q_s64(a, b));
    return vaddq_f64(low, vmulq_f64(vsubq_f64(high, low), fraction));
}

/* And beyond them. */
ALWAYS_INLINE float64x2_t beyond_two(const lane_lookup *lookup, float64x2_t value, float64x2_t y)
{
    const float64x2_t le_start = vdupq_n_f64(lookup->le_start), lo_end = vdupq_n_f64(lookup->lo_end);
    const float64x2_t below = vmulq_n_f64(vsubq_f64(value, le_start), lookup->below);
    const float64x2_t above = vmulq_n_f64(vsubq_f64(value, lo_end), lookup->above);
    y = vbslq_f64(vcltq_f64(value, le_start), vaddq_f64(vdupq_n_f64(lookup->first), below), y);
    return vbslq_f64(vcgtq_f64(value, lo_end), vaddq_f64(vdupq_n_f64(lookup->last), above), y);
}

/* `count` numbers, a multiple of 4. */
static void look_up_lanes(const lane_lookup *given, float32 *x, int32_t count)
{
    const lane_lookup lookup = *given;
    /* Numbers in between as floats: what is near an end may be taken for beyond it, never the other way round. */
    const float32x4_t least = vdupq_n_f32(nextafterf((float32)lookup.le_start, INFINITY));
    const float32x4_t most = vdupq_n_f32(nextafterf((float32)lookup.lo_end, -INFINITY));

    for (int32_t i = 0; i < count; i += 4) {
        const float32x4_t value = vld1q_f32(x + i);
        const float64x2_t low = vcvt_f64_f32(vget_low_f32(value)), high = vcvt_high_f64_f32(value);
        const uint32x4_t is_beyond = vorrq_u32(vcltq_f32(value, least), vcgtq_f32(value, most));
        float64x2_t y = look_up_two(&lookup, low), z = look_up_two(&lookup, high);
        if (vmaxvq_u32(is_beyond)) {
            y = beyond_two(&lookup, low, y);
            z = beyond_two(&lookup, high, z);
        }
        vst1q_f32(x + i, vcvt_high_f32_f64(vcvt_f32_f64(y), z));
    }
}

/* ---------------------------------------------------------------------------------------------- two numbers */

ALWAYS_INLINE void operate_lanes(int32_t operation, int32_t negative_only, lanes16 *x, const lanes16 *e)
{
    switch (operation) {
    case OPENRKNN_MAX:
        EACH_OF_4 x->v[v] = larger_of(x->v[v], e->v[v]);
        break;
    case OPENRKNN_MIN:
        EACH_OF_4 x->v[v] = smaller_of(x->v[v], e->v[v]);
        break;
    case OPENRKNN_ADD:
        EACH_OF_4 x->v[v] = vaddq_f32(x->v[v], e->v[v]);
        break;
    case OPENRKNN_DIVIDE:
        EACH_OF_4 x->v[v] = vdivq_f32(x->v[v], e->v[v]);
        break;
    case OPENRKNN_MINUS:
        EACH_OF_4 x->v[v] = vsubq_f32(x->v[v], e->v[v]);
        break;
    case OPENRKNN_ABS:
        EACH_OF_4 x->v[v] = vabsq_f32(x->v[v]);
        break;
    case OPENRKNN_NEGATE:
        EACH_OF_4 x->v[v] = vnegq_f32(x->v[v]);
        break;
    case OPENRKNN_FLOOR:
        EACH_OF_4 x->v[v] = vrndmq_f32(x->v[v]);
        break;
    case OPENRKNN_CEIL:
        EACH_OF_4 x->v[v] = vrndpq_f32(x->v[v]);
        break;
    case OPENRKNN_MULTIPLY:
        if (negative_only)
            EACH_OF_4 x->v[v] = vbslq_f32(vcltzq_f32(x->v[v]), vmulq_f32(x->v[v], e->v[v]), x->v[v]);
        else
            EACH_OF_4 x->v[v] = vmulq_f32(x->v[v], e->v[v]);
        break;
    default:
        break;
    }
}

/* ---------------------------------------------------------------------------------------------- a run of pixels */

/* Pixels that lie side by side everywhere. A step of 0 reads or writes the same atom again. */
typedef struct {
    const float32 *sums;        /* or */
    const uint8_t *source[2];
    int32_t source_step[2];
    const uint8_t *operand[2];
    int32_t operand_step[2];
    uint8_t *target[2];
    int32_t target_step[2];
    int32_t pixels;
} half_run_task;

typedef struct {
    lane_stage bias, norm;
    lane_lookup lookup;
    lanes16 operand; /* where it is the same for all pixels */
    int32_t operation, negative_only, operand_kind, has_lookup, clamps, scales;
    const openrknn_clamp *clamp;
    float32 factor;
    int32_t fills;
    uint16x8_t kept[2], filling[2]; /* lanes without data */
} half_plan;

/* `has_all`: whatever there is. Otherwise some steps are not there, and compilers know. */
ALWAYS_INLINE void half_pixels(const half_plan *given, const half_run_task *run, const int32_t from_sums, const int32_t kind,
                               const int32_t operation, const int32_t has_all)
{
    const half_plan plan = *given; /* stores of bytes could change what has an address */
    const half_run_task task = *run;
    for (int32_t p = 0; p < task.pixels; p++) {
        lanes16 x = from_sums ? lanes_load(task.sums + p * GENERAL_LANES)
                              : lanes_of_halves(task.source[0] + p * task.source_step[0], task.source[1] + p * task.source_step[1]);
        lanes16 e = plan.operand;
        if (kind == 2)
            e = lanes_of_halves(task.operand[0] + p * task.operand_step[0], task.operand[1] + p * task.operand_step[1]);
        else if (kind == 3) {
            uint16_t bits;
            memcpy(&bits, task.operand[0] + p * (int32_t)sizeof bits, sizeof bits);
            const float32x4_t one = vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(bits)));
            EACH_OF_4 e.v[v] = one;
        }
        if (has_all) {
            stage_lanes(&plan.bias, &x);
            stage_lanes(&plan.norm, &x);
        } else {
            if (plan.bias.adds_first)
                EACH_OF_4 x.v[v] = vaddq_f32(x.v[v], plan.bias.addends.v[v]);
            if (plan.bias.multiplies)
                EACH_OF_4 x.v[v] = vmulq_f32(x.v[v], plan.bias.factors.v[v]);
            if (plan.norm.clamps)
                clamp_lanes(plan.norm.clamp, &x);
        }
        operate_lanes(operation, plan.negative_only, &x, &e);
        if (plan.clamps)
            clamp_lanes(plan.clamp, &x);
        if (has_all && plan.scales)
            EACH_OF_4 x.v[v] = vmulq_n_f32(x.v[v], plan.factor);
        uint16x8_t low = quiet_halves(x.v[0], x.v[1]), high = quiet_halves(x.v[2], x.v[3]);
        if (plan.fills) {
            low = vorrq_u16(vandq_u16(low, plan.kept[0]), plan.filling[0]);
            high = vorrq_u16(vandq_u16(high, plan.kept[1]), plan.filling[1]);
        }
        vst1q_u8(task.target[0] + p * task.target_step[0], vreinterpretq_u8_u16(low));
        vst1q_u8(task.target[1] + p * task.target_step[1], vreinterpretq_u8_u16(high));
    }
}

/* Lanes behind the last channel are 0, and those behind the last real one what the step says. */
static void plan_filling(const dpu_task *task, half_plan *plan)
{
    const openrknn_dpu *dpu = task->dpu;
    const int32_t lanes = at_most(dpu->channels - task->channel, GENERAL_LANES), real = dpu->real_channels - task->channel;
    const int32_t is_padded = dpu->real_channels < dpu->channels && real < GENERAL_LANES, size = (int32_t)sizeof(uint16_t);
    uint16_t kept[GENERAL_LANES], filling[GENERAL_LANES] = {0};
    const int32_t from = is_padded ? at_least(real, 0) : lanes;

    plan->fills = from < GENERAL_LANES;
    for (int32_t i = 0; i < GENERAL_LANES; i++)
        kept[i] = i < at_most(from, lanes) ? 0xffff : 0;
    if (is_padded)
        memcpy(filling + from, dpu->padding, (size_t)((GENERAL_LANES - from) * size));
    for (int32_t i = 0; i < 2; i++) {
        plan->kept[i] = vld1q_u16(kept + 8 * i);
        plan->filling[i] = vld1q_u16(filling + 8 * i);
    }
}

static const uint8_t no_atom[ATOM];

/* Two atoms of a row, or zeros where a surface does not exist. */
static void read_from(const openrknn_cube *cube, int32_t surface, int32_t surfaces, int32_t row, int32_t column,
                      const uint8_t **at, int32_t *step)
{
    for (int32_t i = 0; i < 2; i++) {
        const int32_t is_there = surface + i < surfaces;
        at[i] = is_there ? cube_row(cube, surface + i, row) + (int64_t)column * ATOM : no_atom;
        step[i] = is_there ? ATOM : 0;
    }
}

/* With a table: a few pixels at a time, so that its constants stay in registers. */
static void looked_up(const half_plan *plan, const half_run_task *run)
{
    enum { FEW = 16 };
    float32 values[FEW * GENERAL_LANES];
    half_plan rest = *plan;
    half_run_task part = *run;

    rest.bias = rest.norm = (lane_stage){0};
    part.sums = values;
    for (int32_t done = 0; done < run->pixels; done += FEW) {
        part.pixels = at_most(FEW, run->pixels - done);
        for (int32_t i = 0; i < part.pixels; i++) {
            const int32_t p = done + i;
            lanes16 x = run->sums ? lanes_load(run->sums + p * GENERAL_LANES)
                                  : lanes_of_halves(run->source[0] + p * run->source_step[0], run->source[1] + p * run->source_step[1]);
            stage_lanes(&plan->bias, &x);
            stage_lanes(&plan->norm, &x);
            EACH_OF_4 vst1q_f32(values + i * GENERAL_LANES + 4 * v, x.v[v]);
        }
        look_up_lanes(&plan->lookup, values, part.pixels * GENERAL_LANES);
        half_pixels(&rest, &part, 1, plan->operand_kind, plan->operation, 1);
        for (int32_t i = 0; i < 2; i++) {
            part.target[i] += (int64_t)part.pixels * part.target_step[i];
            if (plan->operand_kind == 2)
                part.operand[i] += (int64_t)part.pixels * part.operand_step[i];
        }
        if (plan->operand_kind == 3)
            part.operand[0] += part.pixels * 2;
    }
}

static void half_pixels_of(const half_plan *plan, const half_run_task *run)
{
    const int32_t has_all = plan->scales | plan->bias.clamps | plan->bias.negative_only | plan->bias.adds_last |
                            plan->norm.adds_first | plan->norm.adds_last | plan->norm.multiplies;
    if (plan->has_lookup)
        looked_up(plan, run);
    else if (has_all || plan->operand_kind == 3)
        (run->sums ? half_pixels(plan, run, 1, plan->operand_kind, plan->operation, 1)
                   : half_pixels(plan, run, 0, plan->operand_kind, plan->operation, 1));
    else if (run->sums && plan->operation == OPENRKNN_NOTHING)
        half_pixels(plan, run, 1, 0, OPENRKNN_NOTHING, 0);
    else if (run->sums && plan->operand_kind == 2 && plan->operation == OPENRKNN_ADD)
        half_pixels(plan, run, 1, 2, OPENRKNN_ADD, 0);
    else if (run->sums)
        half_pixels(plan, run, 1, plan->operand_kind, plan->operation, 0);
    else if (plan->operand_kind == 2 && plan->operation == OPENRKNN_MULTIPLY)
        half_pixels(plan, run, 0, 2, OPENRKNN_MULTIPLY, 0);
    else if (plan->operand_kind == 2)
        half_pixels(plan, run, 0, 2, plan->operation, 0);
    else
        half_pixels(plan, run, 0, plan->operand_kind, plan->operation, 0);
}

/* Whether `own_halves` can do it. */
static int32_t has_halves(const dpu_task *task)
{
    const openrknn_dpu *dpu = task->dpu;
    const openrknn_element_wise *ew = &dpu->element_wise;
    const int32_t has_operand = ew->operation != OPENRKNN_NOTHING && ew->operand_kind > 1;
    return dpu->is_float && dpu->format == OPENRKNN_FP16 && !dpu->target.packed && (task->floats || task->source) &&
           (!task->source || task->source_format == OPENRKNN_FP16) && (!has_operand || ew->operand_format == OPENRKNN_FP16);
}

/* `fixed`: the operand that all pixels share. */
static void own_halves(const dpu_task *task, const float32 *fixed)
{
    const openrknn_dpu *dpu = task->dpu;
    const openrknn_element_wise *ew = &dpu->element_wise;
    const openrknn_target *target = &dpu->target;
    const int32_t atom = task->channel / 8, operand_kind = ew->operation == OPENRKNN_NOTHING ? 0 : ew->operand_kind;
    uint8_t nowhere[ATOM];
    half_plan plan = {
        .bias = stage_of(&dpu->bias, task->channel),
        .norm = stage_of(&dpu->norm, task->channel),
        .lookup = lookup_of(&ew->lookup),
        .operand = lanes_load(fixed),
        .operation = ew->operation,
        .negative_only = ew->negative_only,
        .operand_kind = operand_kind,
        .has_lookup = ew->lookup.entries != NULL,
        .clamps = ew->clamp.kinds,
        .clamp = &ew->clamp,
        .scales = dpu->factor != 1.0f,
        .factor = dpu->factor,
    };

    if (atom >= target->atoms)
        return;
    plan_filling(task, &plan);
    for (int32_t done = 0, run; done < task->pixels; done += run) {
        const int32_t pixel = task->pixel + done, row = pixel / dpu->width, column = pixel % dpu->width;
        half_run_task part = {.sums = task->floats ? task->floats + done * GENERAL_LANES : NULL};
        int32_t has_second = atom + 1 < target->atoms, second;
        part.target[0] = target_run(target, atom, pixel, &run);
        part.target[1] = has_second ? target_run(target, atom + 1, pixel, &second) : nowhere;
        part.target_step[0] = ATOM;
        part.target_step[1] = has_second ? ATOM : 0;
        run = at_most(at_most(run, has_second ? second : run), task->pixels - done);
        if (task->source || operand_kind == 2)
            run = at_most(run, dpu->width - column);
        if (task->source)
            read_from(task->source, atom, task->source_surfaces, row, column, part.source, part.source_step);
        if (operand_kind == 2)
            read_from(&ew->operand, atom, divide_up(dpu->channels, 8), row, column, part.operand, part.operand_step);
        else if (operand_kind == 3)
            part.operand[0] = ew->operand.base[0] + (int64_t)pixel * 2;
        part.pixels = run;
        half_pixels_of(&plan, &part);
    }
}
