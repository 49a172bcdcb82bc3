/*
 * The DPU on fp16, for pixels that lie side by side: half_dpu.h's stages, with loops for the usual combinations of them. fp32
 * in memory, four channels of an atom, goes through arrays with the 16 channels of a pixel side by side, as sums are.
 */

/* Pixels that lie side by side everywhere. */
typedef struct {
    const float32 *sums;        /* or */
    const uint8_t *source[2];
    const uint8_t *operand[2];
    uint8_t *target[2];
    float32 *results; /* or NULL; instead of target */
    int32_t pixels;
} half_run_task;

typedef struct {
    lane_stage bias, norm;
    lane_lookup lookup;
    lanes16 operand; /* where it is the same for all pixels */
    int32_t operation, negative_only, operand_kind, has_lookup, clamps, scales;
    const openrknn_clamp *clamp;
    float32 factor;
    int32_t fills, filled_from;
    const uint8_t *padding;   /* bytes of lanes from `filled_from` on, or NULL: zeros */
    half_lanes kept, filling; /* lanes without data */
} half_plan;

/* Pixels that go through an array. */
enum { FEW = 64 };
_Static_assert(FEW <= SEGMENT, "no_atom has as many");

/* Which stages there may be: none but the element-wise operation, the usual ones, or all. Compilers know which. */
enum { BARE, USUAL, ALL_STAGES };

/* The usual ones: sums and products by channel, clamps of BN and of the result. */
typedef struct {
    lanes16 addends, factors, norm_factors;
    int32_t adds, multiplies, norm_multiplies, norm_clamps, clamps, scales;
    openrknn_clamp norm_clamp, clamp;
    floats factor;
} usual_stages;

ALWAYS_INLINE usual_stages usual_of(const half_plan *plan)
{
    usual_stages made = {
        .addends = plan->bias.addends,
        .factors = plan->bias.factors,
        .norm_factors = plan->norm.factors,
        .adds = plan->bias.adds_first,
        .multiplies = plan->bias.multiplies,
        .norm_multiplies = plan->norm.multiplies,
        .norm_clamps = plan->norm.clamps,
        .clamps = plan->clamps,
        .scales = plan->scales,
        .factor = floats_set(plan->factor),
    };
    if (made.norm_clamps)
        made.norm_clamp = *plan->norm.clamp;
    if (made.clamps)
        made.clamp = *plan->clamp;
    return made;
}

ALWAYS_INLINE int32_t are_usual(const half_plan *plan)
{
    return !(plan->bias.clamps | plan->bias.negative_only | plan->bias.adds_last | plan->norm.adds_first |
             plan->norm.adds_last | plan->norm.negative_only);
}

/* BS and BN. */
ALWAYS_INLINE void stages_before(const half_plan *plan, const usual_stages *usual, const int32_t stages, lanes16 *x)
{
    if (stages == ALL_STAGES) {
        stage_lanes(&plan->bias, x);
        stage_lanes(&plan->norm, x);
    } else if (stages == USUAL) {
        if (usual->adds)
            EACH_VECTOR x->v[v] = floats_add(x->v[v], usual->addends.v[v]);
        if (usual->multiplies)
            EACH_VECTOR x->v[v] = floats_multiply(x->v[v], usual->factors.v[v]);
        if (usual->norm_multiplies)
            EACH_VECTOR x->v[v] = floats_multiply(x->v[v], usual->norm_factors.v[v]);
        if (usual->norm_clamps)
            clamp_lanes(&usual->norm_clamp, x);
    }
}

/* Variables of its own for what each pixel needs: stores of bytes could change what has an address. */
ALWAYS_INLINE void half_pixels(const half_plan *plan, const half_run_task *run, const int32_t from_sums, const int32_t kind,
                               const int32_t operation, const int32_t stages, const int32_t to_floats)
{
    const float32 *sums = run->sums;
    float32 *results = run->results;
    const uint8_t *low = run->source[0], *high = run->source[1];
    const uint8_t *operand_low = run->operand[0], *operand_high = run->operand[1];
    uint8_t *target_low = run->target[0], *target_high = run->target[1];
    const usual_stages usual = usual_of(plan);
    const lanes16 fixed = plan->operand;
    const half_lanes kept = plan->kept, filling = plan->filling;
    const int64_t end = (int64_t)run->pixels * ATOM;
    for (int64_t at = 0; at < end; at += ATOM) {
        lanes16 x = from_sums ? lanes_load(sums + at) : lanes_of_halves(low + at, high + at), e = fixed;
        if (kind == 2)
            e = lanes_of_halves(operand_low + at, operand_high + at);
        else if (kind == 3) {
            uint16_t bits;
            memcpy(&bits, operand_low + at / (ATOM / 2), sizeof bits);
            const floats one = halves_same(bits);
            EACH_VECTOR e.v[v] = one;
        }
        stages_before(plan, &usual, stages, &x);
        operate_lanes(operation, stages == ALL_STAGES && plan->negative_only, &x, &e);
        if (stages != BARE && usual.clamps)
            clamp_lanes(&usual.clamp, &x);
        if (stages != BARE && usual.scales)
            EACH_VECTOR x.v[v] = floats_multiply(x.v[v], usual.factor);
        if (to_floats) {
            EACH_VECTOR x.v[v] = floats_quiet(x.v[v]);
            lanes_store(results + at, &x);
            continue;
        }
        half_lanes result = half_lanes_of(x.v);
        if (stages != BARE)
            result = half_lanes_merge(result, kept, filling);
        half_lanes_store(target_low + at, target_high + at, result);
    }
}

/* What a table gets. */
ALWAYS_INLINE void half_values(const half_plan *plan, const half_run_task *run, float32 *values, const int32_t from_sums,
                               const int32_t stages)
{
    const usual_stages usual = usual_of(plan);
    const float32 *sums = run->sums;
    const uint8_t *low = run->source[0], *high = run->source[1];
    const int64_t end = (int64_t)run->pixels * ATOM;
    for (int64_t at = 0; at < end; at += ATOM) {
        lanes16 x = from_sums ? lanes_load(sums + at) : lanes_of_halves(low + at, high + at);
        stages_before(plan, &usual, stages, &x);
        lanes_store(values + at, &x);
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
    plan->filled_from = from;
    plan->padding = is_padded ? dpu->padding : NULL;
    for (int32_t i = 0; i < GENERAL_LANES; i++)
        kept[i] = i < at_most(from, lanes) ? 0xffff : 0;
    if (is_padded)
        memcpy(filling + from, dpu->padding, (size_t)((GENERAL_LANES - from) * size));
    plan->kept = half_lanes_load(kept);
    plan->filling = half_lanes_load(filling);
}

/* Of a surface that does not exist. */
static const uint8_t no_atom[SEGMENT * ATOM];

/* Two atoms of a row; whether both surfaces exist. */
static int32_t read_from(const openrknn_cube *cube, int32_t surface, int32_t surfaces, int32_t row, int32_t column,
                         const uint8_t **at)
{
    for (int32_t i = 0; i < 2; i++)
        at[i] = surface + i < surfaces ? cube_row(cube, surface + i, row) + (int64_t)column * ATOM : no_atom;
    return surface + 1 < surfaces;
}

static void one_run(const half_plan *plan, const half_run_task *run)
{
    const int32_t operation = plan->operation, kind = operation == OPENRKNN_NOTHING ? 0 : plan->operand_kind;
    const int32_t has_stages = plan->bias.adds_first | plan->bias.multiplies | plan->norm.multiplies | plan->norm.clamps |
                               plan->clamps | plan->scales | plan->fills;
    const int32_t has_all = plan->negative_only | !are_usual(plan);
#define OF_STAGES(from_sums, kind, operation)                                                                          \
    (has_stages ? half_pixels(plan, run, from_sums, kind, operation, USUAL, 0)                                         \
                : half_pixels(plan, run, from_sums, kind, operation, BARE, 0))
#define OF_ANY(stages, to_floats)                                                                                      \
    (run->sums ? half_pixels(plan, run, 1, kind, operation, stages, to_floats)                                         \
               : half_pixels(plan, run, 0, kind, operation, stages, to_floats))
#define OF_SOURCES(kind, operation) (run->sums ? OF_STAGES(1, kind, operation) : OF_STAGES(0, kind, operation))
#define OF_KINDS(operation) (kind == 2 ? OF_SOURCES(2, operation) : kind == 3 ? OF_SOURCES(3, operation) : OF_SOURCES(0, operation))
    if (run->results)
        has_all ? OF_ANY(ALL_STAGES, 1) : OF_ANY(USUAL, 1);
    else if (has_all)
        OF_ANY(ALL_STAGES, 0);
    else if (operation == OPENRKNN_NOTHING)
        OF_SOURCES(0, OPENRKNN_NOTHING);
    else if (operation == OPENRKNN_ADD)
        OF_KINDS(OPENRKNN_ADD);
    else if (operation == OPENRKNN_MINUS)
        OF_KINDS(OPENRKNN_MINUS);
    else if (operation == OPENRKNN_MULTIPLY)
        OF_KINDS(OPENRKNN_MULTIPLY);
    else
        OF_ANY(USUAL, 0);
#undef OF_STAGES
#undef OF_ANY
#undef OF_SOURCES
#undef OF_KINDS
}

/* With a table: a few pixels at a time, so that its constants stay in registers. */
static void looked_up(const half_plan *plan, const half_run_task *run)
{
    float32 values[FEW * GENERAL_LANES] __attribute__((aligned(64)));
    const int32_t is_usual = are_usual(plan);
    half_run_task part = *run;
    half_plan rest = *plan;

    rest.bias = rest.norm = (lane_stage){0};
    for (int32_t done = 0; done < run->pixels; done += FEW) {
        const int64_t bytes = (int64_t)done * ATOM;
        half_run_task before = *run;
        before.pixels = part.pixels = at_most(FEW, run->pixels - done);
        for (int32_t i = 0; i < 2; i++) {
            if (!run->results)
                part.target[i] = run->target[i] + bytes;
            if (!run->sums)
                before.source[i] += bytes;
        }
        if (run->results)
            part.results = run->results + bytes;
        if (run->sums)
            before.sums += bytes;
        if (plan->operand_kind == 2) {
            part.operand[0] = run->operand[0] + bytes;
            part.operand[1] = run->operand[1] + bytes;
        } else if (plan->operand_kind == 3)
            part.operand[0] = run->operand[0] + bytes / (ATOM / 2);
        if (!is_usual)
            (run->sums ? half_values(plan, &before, values, 1, ALL_STAGES) : half_values(plan, &before, values, 0, ALL_STAGES));
        else
            (run->sums ? half_values(plan, &before, values, 1, USUAL) : half_values(plan, &before, values, 0, USUAL));
        look_up_lanes(&plan->lookup, values, part.pixels * GENERAL_LANES);
        part.sums = values;
        one_run(&rest, &part);
    }
}

ALWAYS_INLINE int32_t is_half_or_single(int32_t format)
{
    return format == OPENRKNN_FP16 || format == OPENRKNN_FP32;
}

/* Whether `own_halves` can do it. */
static int32_t has_lanes(const dpu_task *task)
{
    const openrknn_dpu *dpu = task->dpu;
    const openrknn_element_wise *ew = &dpu->element_wise;
    const int32_t has_operand = ew->operation != OPENRKNN_NOTHING && ew->operand_kind > 1;
    return dpu->is_float && is_half_or_single(dpu->format) && !dpu->target.packed && (task->floats || task->source) &&
           (!task->source || is_half_or_single(task->source_format)) && (!has_operand || ew->operand_format == OPENRKNN_FP16);
}

/* And all in memory is fp16. */
static int32_t has_halves(const dpu_task *task)
{
    return has_lanes(task) && task->dpu->format == OPENRKNN_FP16 && (!task->source || task->source_format == OPENRKNN_FP16);
}

enum { FP32_LANES = ATOM / sizeof(float32), FP32_ATOMS = GENERAL_LANES / FP32_LANES };

/* Pixels of a row of fp32. */
static void read_singles(const dpu_task *task, int32_t row, int32_t column, int32_t pixels, float32 *values)
{
    for (int32_t part = 0; part < FP32_ATOMS; part++) {
        const int32_t surface = task->channel / FP32_LANES + part, exists = surface < task->source_surfaces;
        const uint8_t *at = exists ? cube_row(task->source, surface, row) + (int64_t)column * ATOM : no_atom;
        for (int32_t i = 0; i < pixels; i++)
            memcpy(values + i * GENERAL_LANES + part * FP32_LANES, at + i * ATOM, ATOM);
    }
}

static void write_singles(const dpu_task *task, const half_plan *plan, int32_t pixel, int32_t pixels, float32 *results)
{
    const openrknn_target *target = &task->dpu->target;
    const size_t bytes = (size_t)(GENERAL_LANES - plan->filled_from) * sizeof *results;
    for (int32_t i = 0; plan->fills && i < pixels; i++) {
        float32 *lanes = results + i * GENERAL_LANES + plan->filled_from;
        if (plan->padding)
            memcpy(lanes, plan->padding, bytes);
        else
            memset(lanes, 0, bytes);
    }
    for (int32_t part = 0; part < FP32_ATOMS && task->channel / FP32_LANES + part < target->atoms; part++)
        for (int32_t done = 0, run; done < pixels; done += run) {
            uint8_t *to = target_run(target, task->channel / FP32_LANES + part, pixel + done, &run);
            run = at_most(run, pixels - done);
            for (int32_t i = 0; i < run; i++)
                memcpy(to + i * ATOM, results + (done + i) * GENERAL_LANES + part * FP32_LANES, ATOM);
        }
}

/* `fixed`: the operand that all pixels share. */
static void own_halves(const dpu_task *task, const float32 *fixed)
{
    const openrknn_dpu *dpu = task->dpu;
    const openrknn_element_wise *ew = &dpu->element_wise;
    const openrknn_target *target = &dpu->target;
    const int32_t atom = task->channel / 8, operand_kind = ew->operation == OPENRKNN_NOTHING ? 0 : ew->operand_kind;
    const int32_t reads_singles = task->source && task->source_format == OPENRKNN_FP32;
    const int32_t writes_singles = dpu->format == OPENRKNN_FP32;
    float32 values[FEW * GENERAL_LANES] __attribute__((aligned(64))), results[FEW * GENERAL_LANES] __attribute__((aligned(64)));
    uint8_t nowhere[SEGMENT * ATOM];
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

    if (task->channel / (writes_singles ? FP32_LANES : 8) >= target->atoms)
        return;
    plan_filling(task, &plan);
    for (int32_t done = 0, run; done < task->pixels; done += run) {
        const int32_t pixel = task->pixel + done, row = pixel / dpu->width, column = pixel % dpu->width;
        half_run_task part = {.sums = task->floats ? task->floats + done * GENERAL_LANES : NULL};
        int32_t has_second = writes_singles || atom + 1 < target->atoms, second;
        if (writes_singles) {
            part.results = results;
            run = FEW;
        } else {
            part.target[0] = target_run(target, atom, pixel, &run);
            part.target[1] = has_second ? target_run(target, atom + 1, pixel, &second) : nowhere;
            run = at_most(run, has_second ? second : run);
        }
        run = at_most(run, task->pixels - done);
        if (task->source || operand_kind == 2)
            run = at_most(run, dpu->width - column);
        if (reads_singles) {
            run = at_most(run, FEW);
            read_singles(task, row, column, run, values);
            part.sums = values;
        } else if (task->source)
            has_second &= read_from(task->source, atom, task->source_surfaces, row, column, part.source);
        if (operand_kind == 2)
            has_second &= read_from(&ew->operand, atom, divide_up(dpu->channels, 8), row, column, part.operand);
        else if (operand_kind == 3)
            part.operand[0] = ew->operand.base[0] + (int64_t)pixel * 2;
        part.pixels = run = has_second ? run : at_most(run, SEGMENT);
        (plan.has_lookup ? looked_up : one_run)(&plan, &part);
        if (writes_singles)
            write_singles(task, &plan, pixel, run, results);
    }
}
