/*
 * The DPU on fp16 for one pixel of many channels, as vectors in language models are: half_dpu.h's stages, with everything
 * prepared once that all blocks of 16 channels share.
 */
#undef ONE_PIXEL
#define ONE_PIXEL one_pixel

/* Operands of the stage of a block, as they are in memory. */
ALWAYS_INLINE void stage_at(const openrknn_stage *stage, int32_t channel, lanes16 *x)
{
    const float32 *addends = (const float32 *)stage->addends, *factors = (const float32 *)stage->factors;
    lanes16 a, m;
    if (addends) {
        a = lanes_load(addends + channel);
        if (stage->subtracts) /* x - a is x + -a */
            EACH_VECTOR a.v[v] = floats_negate(a.v[v]);
        if (!stage->multiplies_first)
            EACH_VECTOR x->v[v] = floats_add(x->v[v], a.v[v]);
    }
    if (factors) {
        m = lanes_load(factors + channel);
        if (stage->negative_only)
            EACH_VECTOR x->v[v] = times_if_negative(x->v[v], m.v[v]);
        else
            EACH_VECTOR x->v[v] = floats_multiply(x->v[v], m.v[v]);
    }
    if (addends && stage->multiplies_first)
        EACH_VECTOR x->v[v] = floats_add(x->v[v], a.v[v]);
    clamp_lanes(&stage->clamp, x);
}

/* A block of a cube at a place of its surfaces; atoms of surfaces that do not exist are 0. */
ALWAYS_INLINE lanes16 block_of(const openrknn_cube *cube, int32_t surface, int32_t surfaces, int32_t row, int64_t bytes)
{
    return lanes_of_halves(surface < surfaces ? cube_row(cube, surface, row) + bytes : no_atom,
                           surface + 1 < surfaces ? cube_row(cube, surface + 1, row) + bytes : no_atom);
}

/* One of each channel; lanes behind the last channel have that of the last one. */
ALWAYS_INLINE lanes16 channels_of(const uint8_t *at, int32_t channel, int32_t channels)
{
    uint16_t some[GENERAL_LANES];
    if (channel + GENERAL_LANES <= channels)
        return lanes_of_halves(at + 2 * channel, at + 2 * channel + ATOM);
    for (int32_t i = 0; i < GENERAL_LANES; i++)
        memcpy(some + i, at + 2 * at_most(channel + i, channels - 1), sizeof *some);
    return lanes_of_halves((const uint8_t *)some, (const uint8_t *)(some + 8));
}

static int32_t one_pixel(const dpu_task *task)
{
    const int32_t is_each = task->dpu->element_wise.operand_kind == 1; /* channels_of reads fp16 alone */
    if (!has_halves(task) || (is_each && task->dpu->element_wise.operand_format != OPENRKNN_FP16))
        return 0;
    const openrknn_dpu *dpu = task->dpu;
    const openrknn_element_wise *ew = &dpu->element_wise;
    const openrknn_target *target = &dpu->target;
    const int32_t kind = ew->operation == OPENRKNN_NOTHING ? 0 : ew->operand_kind, surfaces = divide_up(dpu->channels, 8);
    const int32_t row = task->pixel / dpu->width, filled = at_most(dpu->channels, dpu->real_channels);
    const int64_t bytes = (int64_t)(task->pixel % dpu->width) * ATOM;
    const lane_lookup lookup = lookup_of(&ew->lookup);
    lanes16 e = lanes_set(ew->constant_float);

    if (kind == 3) {
        uint16_t bits;
        memcpy(&bits, ew->operand.base[0] + (int64_t)task->pixel * (int32_t)sizeof bits, sizeof bits);
        const floats one = halves_same(bits);
        EACH_VECTOR e.v[v] = one;
    }
    for (int32_t block = 0; block < task->blocks; block++) {
        const int32_t channel = task->channel + block * GENERAL_LANES, atom = channel / 8;
        uint8_t nowhere[ATOM];
        int32_t run;
        if (atom >= target->atoms)
            break;
        lanes16 x = task->floats ? lanes_load(task->floats + block * GENERAL_LANES)
                                 : block_of(task->source, atom, task->source_surfaces, row, bytes);
        if (kind == 2)
            e = block_of(&ew->operand, atom, surfaces, row, bytes);
        else if (kind == 1)
            e = channels_of(ew->operand.base[0], channel, dpu->channels);
        stage_at(&dpu->bias, channel, &x);
        stage_at(&dpu->norm, channel, &x);
        if (lookup.entries) {
            float32 values[GENERAL_LANES];
            lanes_store(values, &x);
            look_up_lanes(&lookup, values, GENERAL_LANES);
            x = lanes_load(values);
        }
        operate_lanes(ew->operation, ew->negative_only, &x, &e);
        clamp_lanes(&ew->clamp, &x);
        if (dpu->factor != 1.0f)
            EACH_VECTOR x.v[v] = floats_multiply(x.v[v], floats_set(dpu->factor));
        half_lanes result = half_lanes_of(x.v);
        if (channel + GENERAL_LANES > filled) {
            dpu_task one = *task;
            half_plan plan;
            one.channel = channel;
            plan_filling(&one, &plan);
            if (plan.fills)
                result = half_lanes_merge(result, plan.kept, plan.filling);
        }
        uint8_t *low = target_run(target, atom, task->pixel, &run);
        half_lanes_store(low, atom + 1 < target->atoms ? target_run(target, atom + 1, task->pixel, &run) : nowhere, result);
    }
    return 1;
}
