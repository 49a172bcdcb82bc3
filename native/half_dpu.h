/*
 * The DPU on fp16, on registers, for every instruction set with vectors: general_stages.h's stages of floating point. A
 * pixel's 16 channels are NF vectors, which go from memory through all stages and back without a stop. general_template.h
 * asks for it with OWN_HALVES, and says what it means; what is not fp16 stays there.
 *
 * The file that includes this one defines, beside what float_template.h needs,
 *
 *     floats_subtract, floats_divide, floats_abs, floats_negate, floats_floor, floats_ceil
 *     floats_larger, floats_smaller   as general_stages.h's larger and smaller
 *     floats_if_less(a, b, yes, no)   a < b ? yes : no
 *     halves_load(from, out)          16 fp16 numbers, of two atoms from[0] and from[1], as NF vectors
 *     halves_same(bits)               a vector of one fp16 number
 *     half_lanes                      16 fp16 numbers; half_lanes_load(at), half_lanes_merge(x, kept, filling): x & kept
 *                                     | filling, half_lanes_store(low, high, x): to two atoms
 *     half_lanes_of(x)                NF vectors as fp16, with one NaN for all
 *
 * and with OWN_LOOK_UP the function look_up_lanes(lookup, x, count), which lane_lookup.h has in plain C.
 */
#include "lane_lookup.h"

#define OWN_HALVES

#ifndef OWN_LOOK_UP
#define look_up_lanes look_up_plain
#endif

typedef struct {
    floats v[NF];
} lanes16;

enum { VECTOR = GENERAL_LANES / NF };
#define EACH_VECTOR _Pragma("GCC unroll 4") for (int32_t v = 0; v < NF; v++)

ALWAYS_INLINE lanes16 lanes_load(const float32 *at)
{
    lanes16 x;
    EACH_VECTOR x.v[v] = floats_load(at + VECTOR * v);
    return x;
}

ALWAYS_INLINE void lanes_store(float32 *at, const lanes16 *x)
{
    EACH_VECTOR floats_store(at + VECTOR * v, x->v[v]);
}

ALWAYS_INLINE lanes16 lanes_set(float32 value)
{
    lanes16 x;
    EACH_VECTOR x.v[v] = floats_set(value);
    return x;
}

/* Of two atoms of fp16. */
ALWAYS_INLINE lanes16 lanes_of_halves(const uint8_t *low, const uint8_t *high)
{
    const uint8_t *const from[2] = {low, high};
    lanes16 x;
    halves_load(from, x.v);
    return x;
}

ALWAYS_INLINE void clamp_lanes(const openrknn_clamp *clamp, lanes16 *x)
{
    const int32_t kinds = clamp->kinds;
    if (!kinds)
        return;
    const floats lower = floats_set(clamp->lower_float), upper = floats_set(clamp->upper_float);
    if (kinds & OPENRKNN_CLAMP_BELOW) {
        const floats below = floats_set(clamp->below_float);
        EACH_VECTOR x->v[v] = floats_if_less(x->v[v], lower, below, x->v[v]);
    } else if (kinds & OPENRKNN_CLAMP_LOWER)
        EACH_VECTOR x->v[v] = floats_larger(x->v[v], lower);
    if (kinds & OPENRKNN_CLAMP_UPPER)
        EACH_VECTOR x->v[v] = floats_smaller(x->v[v], upper);
}

ALWAYS_INLINE floats times_if_negative(floats x, floats factor)
{
    return floats_if_less(x, floats_set(0.0f), floats_multiply(x, factor), x);
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
        EACH_VECTOR made.addends.v[v] = floats_negate(made.addends.v[v]);
    if (stage->factors)
        made.factors = lanes_load((const float32 *)stage->factors + channel);
    return made;
}

ALWAYS_INLINE void stage_lanes(const lane_stage *stage, lanes16 *x)
{
    if (stage->adds_first)
        EACH_VECTOR x->v[v] = floats_add(x->v[v], stage->addends.v[v]);
    if (stage->multiplies) {
        if (stage->negative_only)
            EACH_VECTOR x->v[v] = times_if_negative(x->v[v], stage->factors.v[v]);
        else
            EACH_VECTOR x->v[v] = floats_multiply(x->v[v], stage->factors.v[v]);
    }
    if (stage->adds_last)
        EACH_VECTOR x->v[v] = floats_add(x->v[v], stage->addends.v[v]);
    if (stage->clamps)
        clamp_lanes(stage->clamp, x);
}

/* ---------------------------------------------------------------------------------------------- two numbers */

ALWAYS_INLINE void operate_lanes(int32_t operation, int32_t negative_only, lanes16 *x, const lanes16 *e)
{
    switch (operation) {
    case OPENRKNN_MAX:
        EACH_VECTOR x->v[v] = floats_larger(x->v[v], e->v[v]);
        break;
    case OPENRKNN_MIN:
        EACH_VECTOR x->v[v] = floats_smaller(x->v[v], e->v[v]);
        break;
    case OPENRKNN_ADD:
        EACH_VECTOR x->v[v] = floats_add(x->v[v], e->v[v]);
        break;
    case OPENRKNN_DIVIDE:
        EACH_VECTOR x->v[v] = floats_divide(x->v[v], e->v[v]);
        break;
    case OPENRKNN_MINUS:
        EACH_VECTOR x->v[v] = floats_subtract(x->v[v], e->v[v]);
        break;
    case OPENRKNN_ABS:
        EACH_VECTOR x->v[v] = floats_abs(x->v[v]);
        break;
    case OPENRKNN_NEGATE:
        EACH_VECTOR x->v[v] = floats_negate(x->v[v]);
        break;
    case OPENRKNN_FLOOR:
        EACH_VECTOR x->v[v] = floats_floor(x->v[v]);
        break;
    case OPENRKNN_CEIL:
        EACH_VECTOR x->v[v] = floats_ceil(x->v[v]);
        break;
    case OPENRKNN_MULTIPLY:
        if (negative_only)
            EACH_VECTOR x->v[v] = times_if_negative(x->v[v], e->v[v]);
        else
            EACH_VECTOR x->v[v] = floats_multiply(x->v[v], e->v[v]);
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
    half_lanes kept, filling; /* lanes without data */
} half_plan;

/* Which stages there may be: none but the element-wise operation, the usual ones, or all. Compilers know which. */
enum { BARE, USUAL, ALL_STAGES };

ALWAYS_INLINE void half_pixels(const half_plan *given, const half_run_task *run, const int32_t from_sums, const int32_t kind,
                               const int32_t operation, const int32_t stages)
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
            const floats one = halves_same(bits);
            EACH_VECTOR e.v[v] = one;
        }
        if (stages == ALL_STAGES) {
            stage_lanes(&plan.bias, &x);
            stage_lanes(&plan.norm, &x);
        } else if (stages == USUAL) {
            if (plan.bias.adds_first)
                EACH_VECTOR x.v[v] = floats_add(x.v[v], plan.bias.addends.v[v]);
            if (plan.bias.multiplies)
                EACH_VECTOR x.v[v] = floats_multiply(x.v[v], plan.bias.factors.v[v]);
            if (plan.norm.clamps)
                clamp_lanes(plan.norm.clamp, &x);
        }
        operate_lanes(operation, stages != BARE && plan.negative_only, &x, &e);
        if (stages != BARE && plan.clamps)
            clamp_lanes(plan.clamp, &x);
        if (stages == ALL_STAGES && plan.scales)
            EACH_VECTOR x.v[v] = floats_multiply(x.v[v], floats_set(plan.factor));
        half_lanes result = half_lanes_of(x.v);
        if (stages != BARE && plan.fills)
            result = half_lanes_merge(result, plan.kept, plan.filling);
        half_lanes_store(task.target[0] + p * task.target_step[0], task.target[1] + p * task.target_step[1], result);
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
    plan->kept = half_lanes_load(kept);
    plan->filling = half_lanes_load(filling);
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
            lanes_store(values + i * GENERAL_LANES, &x);
        }
        look_up_lanes(&plan->lookup, values, part.pixels * GENERAL_LANES);
        half_pixels(&rest, &part, 1, plan->operand_kind, plan->operation, ALL_STAGES);
        for (int32_t i = 0; i < 2; i++) {
            part.target[i] += (int64_t)part.pixels * part.target_step[i];
            if (plan->operand_kind == 2)
                part.operand[i] += (int64_t)part.pixels * part.operand_step[i];
        }
        if (plan->operand_kind == 3)
            part.operand[0] += part.pixels * 2;
    }
}

/* An operation on fp16 in memory, and nothing else; whether it is one of these. */
static int32_t bare_pixels(const half_plan *plan, const half_run_task *run)
{
#define BARE_KINDS(operation)                                                                                          \
    if (plan->operand_kind == 2)                                                                                       \
        half_pixels(plan, run, 0, 2, operation, BARE);                                                                 \
    else if (plan->operand_kind == 3)                                                                                  \
        half_pixels(plan, run, 0, 3, operation, BARE);                                                                 \
    else                                                                                                               \
        half_pixels(plan, run, 0, 0, operation, BARE);                                                                 \
    return 1
    switch (plan->operation) {
    case OPENRKNN_ADD:
        BARE_KINDS(OPENRKNN_ADD);
    case OPENRKNN_MINUS:
        BARE_KINDS(OPENRKNN_MINUS);
    case OPENRKNN_MULTIPLY:
        BARE_KINDS(OPENRKNN_MULTIPLY);
    default:
        return 0;
    }
#undef BARE_KINDS
}

static void half_pixels_of(const half_plan *plan, const half_run_task *run)
{
    const int32_t has_all = plan->scales | plan->bias.clamps | plan->bias.negative_only | plan->bias.adds_last |
                            plan->norm.adds_first | plan->norm.adds_last | plan->norm.multiplies;
    const int32_t has_some = has_all | plan->bias.adds_first | plan->bias.multiplies | plan->norm.clamps | plan->clamps |
                             plan->fills | plan->negative_only;
    if (plan->has_lookup)
        looked_up(plan, run);
    else if (!run->sums && !has_some && bare_pixels(plan, run))
        return;
    else if (has_all || plan->operand_kind == 3)
        (run->sums ? half_pixels(plan, run, 1, plan->operand_kind, plan->operation, ALL_STAGES)
                   : half_pixels(plan, run, 0, plan->operand_kind, plan->operation, ALL_STAGES));
    else if (run->sums && plan->operation == OPENRKNN_NOTHING)
        half_pixels(plan, run, 1, 0, OPENRKNN_NOTHING, USUAL);
    else if (run->sums && plan->operand_kind == 2 && plan->operation == OPENRKNN_ADD)
        half_pixels(plan, run, 1, 2, OPENRKNN_ADD, USUAL);
    else if (run->sums)
        half_pixels(plan, run, 1, plan->operand_kind, plan->operation, USUAL);
    else if (plan->operand_kind == 2)
        half_pixels(plan, run, 0, 2, plan->operation, USUAL);
    else
        half_pixels(plan, run, 0, plan->operand_kind, plan->operation, USUAL);
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
