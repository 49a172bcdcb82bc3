/* The DPU on fp16, for pixels that lie side by side: half_dpu.h's stages, with loops for the usual combinations of them. */

/* Pixels that lie side by side everywhere. */
typedef struct {
    const float32 *sums;        /* or */
    const uint8_t *source[2];
    const uint8_t *operand[2];
    uint8_t *target[2];
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
                               const int32_t operation, const int32_t stages)
{
    const float32 *sums = run->sums;
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
#define OF_STAGES(from_sums, kind, operation)                                                                              (has_stages ? half_pixels(plan, run, from_sums, kind, operation, USUAL)                                                            : half_pixels(plan, run, from_sums, kind, operation, BARE))
#define OF_SOURCES(kind, operation) (run->sums ? OF_STAGES(1, kind, operation) : OF_STAGES(0, kind, operation))
#define OF_KINDS(operation) (kind == 2 ? OF_SOURCES(2, operation) : kind == 3 ? OF_SOURCES(3, operation) : OF_SOURCES(0, operation))
    if (has_all)
        (run->sums ? half_pixels(plan, run, 1, kind, operation, ALL_STAGES) : half_pixels(plan, run, 0, kind, operation, ALL_STAGES));
    else if (operation == OPENRKNN_NOTHING)
        OF_SOURCES(0, OPENRKNN_NOTHING);
    else if (operation == OPENRKNN_ADD)
        OF_KINDS(OPENRKNN_ADD);
    else if (operation == OPENRKNN_MINUS)
        OF_KINDS(OPENRKNN_MINUS);
    else if (operation == OPENRKNN_MULTIPLY)
        OF_KINDS(OPENRKNN_MULTIPLY);
    else
        (run->sums ? half_pixels(plan, run, 1, kind, operation, USUAL) : half_pixels(plan, run, 0, kind, operation, USUAL));
#undef OF_STAGES
#undef OF_SOURCES
#undef OF_KINDS
}

/* With a table: a few pixels at a time, so that its constants stay in registers. */
static void looked_up(const half_plan *plan, const half_run_task *run)
{
    enum { FEW = 64 };
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
            part.target[i] = run->target[i] + bytes;
            if (run->sums)
                continue;
            before.source[i] += bytes;
        }
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

    if (atom >= target->atoms)
        return;
    plan_filling(task, &plan);
    for (int32_t done = 0, run; done < task->pixels; done += run) {
        const int32_t pixel = task->pixel + done, row = pixel / dpu->width, column = pixel % dpu->width;
        half_run_task part = {.sums = task->floats ? task->floats + done * GENERAL_LANES : NULL};
        int32_t has_second = atom + 1 < target->atoms, second;
        part.target[0] = target_run(target, atom, pixel, &run);
        part.target[1] = has_second ? target_run(target, atom + 1, pixel, &second) : nowhere;
        run = at_most(at_most(run, has_second ? second : run), task->pixels - done);
        if (task->source || operand_kind == 2)
            run = at_most(run, dpu->width - column);
        if (task->source)
            has_second &= read_from(task->source, atom, task->source_surfaces, row, column, part.source);
        if (operand_kind == 2)
            has_second &= read_from(&ew->operand, atom, divide_up(dpu->channels, 8), row, column, part.operand);
        else if (operand_kind == 3)
            part.operand[0] = ew->operand.base[0] + (int64_t)pixel * 2;
        part.pixels = run = has_second ? run : at_most(run, SEGMENT);
        (plan.has_lookup ? looked_up : one_run)(&plan, &part);
    }
}
