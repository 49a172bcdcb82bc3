/* The way through the DPU: which kernel takes a run of pixels, and where the result goes. */
#include "internal.h"

enum { LANES = 16 };

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

/* Set the channels of the last atom that carry no data. */
static void fill_lanes(const openrknn_dpu *dpu, const dpu_task *task, uint8_t *target, int32_t pixels)
{
    int32_t is_padded = dpu->real_channels < dpu->channels;
    int32_t lanes = at_least((is_padded ? dpu->real_channels : dpu->channels) - task->channel, 0);
    for (int32_t i = 0; lanes < LANES && i < pixels; i++)
        if (is_padded)
            memcpy(target + i * ATOM + lanes, dpu->padding, (size_t)(LANES - lanes));
        else
            memset(target + i * ATOM + lanes, 0, (size_t)(LANES - lanes));
}

static void chained(const dpu_task *task)
{
    const int32_t has_operand = OPENRKNN_CHAIN_ADD | OPENRKNN_CHAIN_MULTIPLY | OPENRKNN_CHAIN_MAX | OPENRKNN_CHAIN_MIN;
    const openrknn_dpu *dpu = task->dpu;
    const openrknn_element_wise *ew = &dpu->element_wise;
    int32_t atom = task->channel / ATOM, run;
    chain_task chain = {.chain = &dpu->chain, .channel = task->channel};

    if (atom >= dpu->target.atoms)
        return;
    for (int32_t done = 0; done < task->pixels; done += run) {
        int32_t pixel = task->pixel + done, row = pixel / dpu->width, column = pixel % dpu->width;
        chain.target = target_run(&dpu->target, atom, pixel, &run);
        run = at_most(run, task->pixels - done);
        if (task->source) {
            if (task->source->line[atom & 1] != (int64_t)dpu->width * ATOM)
                run = at_most(run, dpu->width - column);
            chain.bytes = (const int8_t *)cube_row(task->source, atom, row) + (int64_t)column * ATOM;
        } else {
            chain.sums = task->sums + done * LANES;
        }
        if (dpu->chain.flags & has_operand && ew->operand_kind == 2) {
            if (ew->operand.line[atom & 1] != (int64_t)dpu->width * ATOM)
                run = at_most(run, dpu->width - column);
            chain.operand = (const int8_t *)cube_row(&ew->operand, atom, row) + (int64_t)column * ATOM;
        } else if (dpu->chain.flags & has_operand) {
            chain.operand = (const int8_t *)ew->operand.base[0] + task->channel;
            chain.operand_is_fixed = 1;
        }
        chain.pixels = run;
        task->kernels->chain(&chain);
        fill_lanes(dpu, task, chain.target, run);
    }
}

void dpu_finish(const dpu_task *task)
{
    if (task->dpu->chain.flags)
        chained(task);
    else
        task->kernels->general(task);
}
