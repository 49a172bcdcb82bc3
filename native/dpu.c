/* The way through the DPU: which kernel takes a run of pixels, and where the result goes. */
#include "internal.h"

enum { LANES = 16, HALF = ATOM / 2 };

uint8_t *target_run(const openrknn_target *target, int32_t atom, int64_t pixel, int32_t *run)
{
    int64_t group = atom / target->per_pixel, place = group * target->pixels + pixel;
    int64_t area = (int64_t)target->width * target->height, row, column;

    if (target->pixels == area && pixel < area) /* the usual case: a group is a plane */
        place = pixel;
    else {
        group = place / area;
        place -= group * area;
    }
    if (target->line == (int64_t)target->width * ATOM) { /* rows follow each other */
        *run = (int32_t)(area - place);
        return target->base + group * target->group_step + place * ATOM + atom % target->per_pixel * target->atom_step;
    }
    row = target->height == 1 ? 0 : place / target->width;
    column = place - row * target->width;
    *run = (int32_t)(target->width - column);
    return target->base + group * target->group_step + row * target->line + column * ATOM +
           atom % target->per_pixel * target->atom_step;
}

void dpu_fill(const openrknn_dpu *dpu, int32_t channel, uint8_t *target, int32_t pixels)
{
    const int32_t is_padded = dpu->real_channels < dpu->channels;
    const int32_t lanes = at_least((is_padded ? dpu->real_channels : dpu->channels) - channel, 0);
    uint64_t kept[2], filled[2];
    uint8_t keeps[LANES] = {0}, fills[LANES] = {0};

    if (lanes >= LANES)
        return;
    memset(keeps, UINT8_MAX, (size_t)lanes);
    if (is_padded)
        memcpy(fills + lanes, dpu->padding, (size_t)(LANES - lanes));
    memcpy(kept, keeps, sizeof kept);
    memcpy(filled, fills, sizeof filled);
    for (int32_t i = 0; i < pixels; i++, target += ATOM) {
        uint64_t words[2];
        memcpy(words, target, sizeof words);
        words[0] = (words[0] & kept[0]) | filled[0];
        words[1] = (words[1] & kept[1]) | filled[1];
        memcpy(target, words, sizeof words);
    }
}

/* Where half atom `half` of pixel `pixel` goes; the twin of target_run. */
static uint8_t *half_run(const openrknn_target *target, int32_t half, int64_t pixel, int32_t *run)
{
    int64_t group = half / target->per_pixel, place = group * target->pixels + pixel;
    int64_t area = (int64_t)target->width * target->height, row, column;

    group = place / area;
    place -= group * area;
    row = place / target->width;
    column = place - row * target->width;
    *run = at_most(*run, (int32_t)(target->line == (int64_t)target->width * HALF ? area - place : target->width - column));
    return target->base + group * target->group_step + row * target->line + column * HALF +
           half % target->per_pixel * target->atom_step;
}

/* Two half atoms of each pixel of a row, side by side; zeros where the second one is not there. */
static void join_halves(const openrknn_cube *cube, int32_t atom, int32_t row, int32_t column, int32_t pixels,
                        int32_t has_high, uint8_t *joined)
{
    const uint8_t *low = cube_row(cube, 2 * atom, row) + (int64_t)column * HALF;
    const uint8_t *high = has_high ? cube_row(cube, 2 * atom + 1, row) + (int64_t)column * HALF : NULL;
    for (int32_t i = 0; i < pixels; i++) {
        memcpy(joined + i * ATOM, low + i * HALF, HALF);
        if (high)
            memcpy(joined + i * ATOM + HALF, high + i * HALF, HALF);
        else
            memset(joined + i * ATOM + HALF, 0, HALF);
    }
}

/* Chips whose atoms have 8 bytes: the chain works on whole ones that are put together here. */
static void chained_halves(const dpu_task *task)
{
    const int32_t has_operand = OPENRKNN_CHAIN_ADD | OPENRKNN_CHAIN_MULTIPLY | OPENRKNN_CHAIN_MAX | OPENRKNN_CHAIN_MIN;
    const openrknn_dpu *dpu = task->dpu;
    const openrknn_element_wise *ew = &dpu->element_wise;
    int32_t atom = task->channel / ATOM, has_high = dpu->channels > task->channel + HALF, run;
    int32_t writes_high = has_high && 2 * atom + 1 < dpu->target.atoms;
    uint8_t result[SEGMENT * ATOM], bytes[SEGMENT * ATOM], operand[SEGMENT * ATOM];
    chain_task chain = {.chain = &dpu->chain, .channel = task->channel, .target = result};

    if (2 * atom >= dpu->target.atoms)
        return;
    for (int32_t done = 0; done < task->pixels; done += run) {
        int32_t pixel = task->pixel + done, row = pixel / dpu->width, column = pixel % dpu->width;
        run = at_most(at_most(SEGMENT, task->pixels - done), dpu->width - column);
        uint8_t *low = half_run(&dpu->target, 2 * atom, pixel, &run);
        uint8_t *high = writes_high ? half_run(&dpu->target, 2 * atom + 1, pixel, &run) : NULL;
        if (task->source) {
            join_halves(task->source, atom, row, column, run, has_high, bytes);
            chain.bytes = (const int8_t *)bytes;
        } else {
            chain.sums = task->sums + done * LANES;
        }
        if (dpu->chain.flags & has_operand && ew->operand_kind == 2) {
            join_halves(&ew->operand, atom, row, column, run, has_high, operand);
            chain.operand = (const int8_t *)operand;
        } else if (dpu->chain.flags & has_operand) {
            chain.operand = (const int8_t *)ew->operand.base[0] + task->channel;
            chain.operand_is_fixed = 1;
        }
        chain.pixels = run;
        task->kernels->chain(&chain);
        dpu_fill(dpu, task->channel, result, run);
        for (int32_t i = 0; i < run; i++) {
            memcpy(low + i * HALF, result + i * ATOM, HALF);
            if (high)
                memcpy(high + i * HALF, result + i * ATOM + HALF, HALF);
        }
    }
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
            chain.window = task->window ? task->window + done : NULL;
            chain.factors = task->factors;
            chain.magnitudes = task->magnitudes;
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
        dpu_fill(dpu, task->channel, chain.target, run);
    }
}

/* The blocks of a pixel, one after the other. */
static void each_block(const dpu_task *task)
{
    for (int32_t block = 0; block < task->blocks; block++) {
        dpu_task one = *task;
        one.blocks = 1;
        one.channel += block * LANES;
        one.sums = task->sums ? task->sums + block * LANES : NULL;
        one.floats = task->floats ? task->floats + block * LANES : NULL;
        dpu_finish(&one);
    }
}

void dpu_finish(const dpu_task *task)
{
    if (task->blocks > 1) {
        if (task->dpu->halves || task->dpu->chain.flags || !task->kernels->one_pixel || !task->kernels->one_pixel(task))
            each_block(task);
    } else if (task->dpu->halves)
        chained_halves(task);
    else if (task->dpu->chain.flags)
        chained(task);
    else
        task->kernels->general(task);
}
