/*
 * The DPU on fp16 for one pixel of many channels, as vectors in language models are: neon_dpu.h's stages, with everything
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
            EACH_OF_4 a.v[v] = vnegq_f32(a.v[v]);
        if (!stage->multiplies_first)
            EACH_OF_4 x->v[v] = vaddq_f32(x->v[v], a.v[v]);
    }
    if (factors) {
        m = lanes_load(factors + channel);
        if (stage->negative_only)
            EACH_OF_4 x->v[v] = vbslq_f32(vcltzq_f32(x->v[v]), vmulq_f32(x->v[v], m.v[v]), x->v[v]);
        else
            EACH_OF_4 x->v[v] = vmulq_f32(x->v[v], m.v[v]);
    }
    if (addends && stage->multiplies_first)
        EACH_OF_4 x->v[v] = vaddq_f32(x->v[v], a.v[v]);
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
    if (!has_halves(task))
        return 0;
    const openrknn_dpu *dpu = task->dpu;
    const openrknn_element_wise *ew = &dpu->element_wise;
    const openrknn_target *target = &dpu->target;
    const int32_t kind = ew->operation == OPENRKNN_NOTHING ? 0 : ew->operand_kind, surfaces = divide_up(dpu->channels, 8);
    const int32_t row = task->pixel / dpu->width, filled = at_most(dpu->channels, dpu->real_channels);
    const int64_t bytes = (int64_t)(task->pixel % dpu->width) * ATOM;
    const lane_lookup lookup = lookup_of(&ew->lookup);
    lanes16 e = lanes_set(ew->constant_float);

    if (kind == 3)
        EACH_OF_4 e.v[v] = vcvt_f32_f16(vreinterpret_f16_u16(vld1_dup_u16((const uint16_t *)ew->operand.base[0] + task->pixel)));
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
            EACH_OF_4 vst1q_f32(values + 4 * v, x.v[v]);
            look_up_lanes(&lookup, values, GENERAL_LANES);
            x = lanes_load(values);
        }
        operate_lanes(ew->operation, ew->negative_only, &x, &e);
        clamp_lanes(&ew->clamp, &x);
        if (dpu->factor != 1.0f)
            EACH_OF_4 x.v[v] = vmulq_n_f32(x.v[v], dpu->factor);
        uint16x8_t low = quiet_halves(x.v[0], x.v[1]), high = quiet_halves(x.v[2], x.v[3]);
        if (channel + GENERAL_LANES > filled) {
            dpu_task one = *task;
            half_plan plan;
            one.channel = channel;
            plan_filling(&one, &plan);
            if (plan.fills) {
                low = vorrq_u16(vandq_u16(low, plan.kept[0]), plan.filling[0]);
                high = vorrq_u16(vandq_u16(high, plan.kept[1]), plan.filling[1]);
            }
        }
        vst1q_u8(target_run(target, atom, task->pixel, &run), vreinterpretq_u8_u16(low));
        vst1q_u8(atom + 1 < target->atoms ? target_run(target, atom + 1, task->pixel, &run) : nowhere, vreinterpretq_u8_u16(high));
    }
    return 1;
}
