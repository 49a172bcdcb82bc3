/*
 * Segments of a floating point convolution. The weights of 16 output channels become floats, some taps at a time: they
 * stay in the first level cache while all segments of a group pass by.
 */
#include "convolution.h"

/* A part ends with a group of channels: at most 3 taps more. */
enum { PANEL_TAPS = 40, MORE_TAPS = FLOAT_GROUP - 1, MOST_ATOMS = 2 };

typedef struct {
    int32_t row, first, pixels;
    const uint8_t *input;
} float_place;

static int32_t leaves_out_some(const convolution *c, const float_block *block)
{
    return block->taps < c->taps ||
           (c->kernels->float_pair && block->lanes < at_most(c->step->channels, lanes_of(c->step)));
}

/* Taps and lanes without weights are left out, but 0 times what is infinite or no number counts. */
void find_infinite(convolution *c, int64_t bytes)
{
    enum { FEW = 64 };
    const uint32_t *bits = (const uint32_t *)c->copy;
    const int32_t is_short = bytes < (int64_t)c->blocks * FEW; /* what blocks say of themselves is far apart in memory */
    uint32_t any = 0;
    int32_t leaves_out = is_short;

    for (int32_t block = 0; !is_short && block < c->blocks; block++)
        leaves_out |= leaves_out_some(c, (const float_block *)(c->weights + block * c->block_bytes));
    for (int64_t i = 0; leaves_out && i < bytes / (int64_t)sizeof *bits; i++)
        any |= (bits[i] & 0x7f800000) == 0x7f800000;
    c->has_infinite = any != 0;
}

static void add_skipped(const float_task *task, const int32_t *skipped, int32_t count)
{
    for (int32_t pixel = 0; pixel < task->pixels; pixel++) {
        float32 more = 0;
        for (int32_t tap = 0; tap < count; tap++) {
            const float32 *seen = (const float32 *)(task->input + task->offsets[tap_of(skipped[tap])]) + pixel * task->lanes;
            for (int32_t i = 0; i < task->lanes; i++)
                more += seen[i] * 0.0f;
        }
        for (int32_t o = 0; o < ATOM; o++)
            task->sums[pixel * ATOM + o] += more;
    }
}

/* Lanes without a kernel deliver 0, and not 0 times what is read: that may be infinite or no number. */
static void clear_lanes(float32 *sums, int32_t pixels, int32_t lanes)
{
    for (int32_t p = 0; p < pixels && lanes < ATOM; p++)
        for (int32_t o = lanes > 0 ? lanes : 0; o < ATOM; o++)
            sums[p * ATOM + o] = 0.0f;
}

static void finish(const convolution *c, int32_t block, const float_place *place, float32 *sums)
{
    dpu_task task = {
        .dpu = &c->step->dpu,
        .kernels = c->kernels,
        .channel = block * ATOM,
        .pixel = place->row * c->out_columns + place->first,
        .pixels = place->pixels,
        .floats = sums,
    };
    clear_lanes(sums, place->pixels, c->step->weight_kernels - block * ATOM);
    dpu_finish(&task);
}

/* How many blocks from one on have its taps and `is_finite`, `most` at most. */
static int32_t same_blocks(const convolution *c, const uint8_t *at, int32_t most)
{
    const float_block *block = (const float_block *)at;
    const size_t bytes = (size_t)block->taps * sizeof(int32_t);
    int32_t count = 1;
    for (const uint8_t *next = at + c->block_bytes; count < most; count++, next += c->block_bytes) {
        const float_block *other = (const float_block *)next;
        if (other->taps != block->taps || other->is_finite != block->is_finite ||
            memcmp(at + float_taps_offset(), next + float_taps_offset(), bytes))
            break;
    }
    return count;
}

/* One pixel of fp16: nothing is gained by floats of weights that are used once. The DPU takes several blocks at a time. */
static void single_pixel(const convolution *c, const float_place *place, int32_t first_block, int32_t last_block)
{
    enum { AT_ONCE = 64 };
    float32 sums[AT_ONCE * ATOM] __attribute__((aligned(64)));

    for (int32_t first = first_block, count; first < last_block; first += count) {
        count = at_most(AT_ONCE, last_block - first);
        for (int32_t i = 0, same; i < count; i += same) {
            const uint8_t *at = c->weights + (first + i) * c->block_bytes;
            const float_block *block = (const float_block *)at;
            const int32_t *list = (const int32_t *)(at + float_taps_offset());
            same = same_blocks(c, at, at_most(c->kernels->singles, count - i));
            float_task task = {
                .input = place->input,
                .offsets = c->offsets,
                .list = list,
                .taps = block->taps,
                .lanes = FLOAT_CHANNELS,
                .pixels = 1,
                .is_finite = block->is_finite,
                .blocks = same,
                .block_bytes = c->block_bytes,
                .sums = sums + i * ATOM,
            };
            c->kernels->float_single(&task, (const uint16_t *)(at + float_weights_offset(c->step)));
            for (int32_t b = 0; b < same; b++, task.sums += ATOM) {
                if (c->has_infinite)
                    add_skipped(&task, list + block->taps, c->taps - block->taps);
                clear_lanes(task.sums, 1, c->step->weight_kernels - (first + i + b) * ATOM);
            }
        }
        const dpu_task finish = {
            .dpu = &c->step->dpu,
            .kernels = c->kernels,
            .channel = first * ATOM,
            .pixel = place->row * c->out_columns + place->first,
            .pixels = 1,
            .blocks = count,
            .floats = sums,
        };
        dpu_finish(&finish);
    }
}

/* Whether a block and the next one have the same taps, so that they can go together. */
static int32_t is_pair(const convolution *c, const uint8_t *at)
{
    const uint8_t *next = at + c->block_bytes;
    const int32_t taps = ((const float_block *)at)->taps;
    return c->step->format == OPENRKNN_FP16 && taps && taps == ((const float_block *)next)->taps &&
           !memcmp(at + float_taps_offset(), next + float_taps_offset(), (size_t)taps * sizeof(int32_t));
}

/* Lanes whose products count, of a block and `atoms` - 1 after it. */
static int32_t used_lanes(const convolution *c, const uint8_t *at, int32_t atoms)
{
    int32_t used = c->has_infinite ? lanes_of(c->step) : 1;
    for (int32_t atom = 0; atom < atoms; atom++, at += c->block_bytes)
        used = at_least(used, ((const float_block *)at)->lanes);
    return at_most(used, at_most(c->step->channels, lanes_of(c->step)));
}

/* What the next panel is made of: weights come from far, and a panel is made in one go. */
static void fetch_weights(const uint8_t *weights, int32_t atoms, int64_t bytes, int64_t step)
{
    enum { LINE = 64, SECOND_LEVEL = 2 };
    for (int32_t atom = 0; atom < atoms; atom++, weights += step)
        for (int64_t at = 0; at < bytes; at += LINE)
            __builtin_prefetch(weights + at, 0, SECOND_LEVEL);
}

/* Nothing in the DPU depends on the channel, and each atom has its own place. */
static int32_t is_same_for_channels(const openrknn_dpu *dpu)
{
    const openrknn_target *target = &dpu->target;
    const int64_t plane = target->height * target->line, more = target->per_pixel > 1 ? target->atom_step : plane;
    return dpu->is_float && dpu->format == OPENRKNN_FP16 && !target->packed && !dpu->bias.addends && !dpu->bias.factors &&
           !dpu->norm.addends && !dpu->norm.factors && dpu->element_wise.operation == OPENRKNN_NOTHING &&
           target->pixels == (int64_t)target->width * target->height && target->line >= (int64_t)target->width * ATOM &&
           more >= plane && target->group_step >= (target->per_pixel - 1) * target->atom_step + plane;
}

/* A convolution that copies a channel to all others: blocks `first` and `number` have the same results. */
static int32_t is_copy(const convolution *c, int32_t first, int32_t number)
{
    const openrknn_convolution *step = c->step;
    const int32_t end = (number + 1) * ATOM, size = (int32_t)sizeof(uint16_t);
    const uint8_t *a = c->weights + first * c->block_bytes, *b = c->weights + number * c->block_bytes;
    return number > first && c->taps == 1 && end <= at_most(step->weight_kernels, at_most(step->dpu.real_channels, step->dpu.channels)) &&
           end * size <= step->dpu.target.atoms * ATOM && !memcmp(a, b, sizeof(float_block)) &&
           !memcmp(a + float_taps_offset(), b + float_taps_offset(), sizeof(int32_t)) &&
           !memcmp(a + float_weights_offset(step), b + float_weights_offset(step),
                   (size_t)((const float_block *)a)->taps * (size_t)(lanes_of(step) * ATOM * size));
}

static void copy_block(const convolution *c, int32_t first, int32_t number, const float_place *place)
{
    enum { ATOMS = 2 };
    const openrknn_target *target = &c->step->dpu.target;
    const int64_t pixel = (int64_t)place->row * c->out_columns + place->first;
    for (int32_t atom = 0; atom < ATOMS; atom++)
        for (int32_t done = 0, run, other; done < place->pixels; done += run) {
            const uint8_t *from = target_run(target, ATOMS * first + atom, pixel + done, &run);
            uint8_t *to = target_run(target, ATOMS * number + atom, pixel + done, &other);
            run = at_most(at_most(run, other), place->pixels - done);
            memcpy(to, from, (size_t)run * ATOM);
        }
}

/* The sums of one output channel. */
static void lone_block(const convolution *c, int32_t number, const float_place *places, int32_t count, float32 *sums)
{
    const uint8_t *at = c->weights + number * c->block_bytes;
    const float_block *block = (const float_block *)at;
    for (int32_t s = 0; s < count; s++) {
        const float_task task = {
            .input = places[s].input,
            .offsets = c->offsets,
            .list = (const int32_t *)(at + float_taps_offset()),
            .taps = block->taps,
            .lanes = FLOAT_CHANNELS,
            .pixels = places[s].pixels,
            .sums = sums,
        };
        const uint16_t *weights = (const uint16_t *)(at + float_weights_offset(c->step));
        (c->reads_halves ? c->kernels->half_lone : c->kernels->float_lone)(&task, weights);
        if (c->has_infinite)
            add_skipped(&task, task.list + block->taps, c->taps - block->taps);
        finish(c, number, &places[s], sums);
    }
}

void float_segments(const convolution *c, int32_t from, int32_t to, int32_t first_block, int32_t last_block)
{
    const int32_t lanes = lanes_of(c->step), count = to - from;
    float32 panel[(PANEL_TAPS + 2 * MORE_TAPS) * FLOAT_CHANNELS * ATOM] __attribute__((aligned(64)));
    float32 sums[FLOAT_SEGMENTS][MOST_ATOMS * FLOAT_ATOM_STEP] __attribute__((aligned(64)));
    float_place places[FLOAT_SEGMENTS];

    for (int32_t s = 0; s < count; s++) {
        float_place *place = &places[s];
        segment_place(c, from + s, &place->row, &place->first, &place->pixels);
        place->input = c->input + place->row * c->out_row_step + (int64_t)place->first * c->element;
    }
    if (c->reads_halves) {
        lone_block(c, 0, places, count, sums[0]);
        return;
    }
    if (c->kernels->float_single && count == 1 && places[0].pixels == 1 && c->step->format == OPENRKNN_FP16 &&
        lanes == FLOAT_CHANNELS) {
        single_pixel(c, &places[0], first_block, last_block);
        return;
    }
    const int32_t has_lone = c->kernels->float_lone && c->step->format == OPENRKNN_FP16 && lanes == FLOAT_CHANNELS;
    const int32_t has_copies = is_same_for_channels(&c->step->dpu);
    int32_t kept = last_block; /* the block whose sums are in `sums` */
    for (int32_t number = first_block, atoms; number < last_block; number += atoms) {
        const uint8_t *at = c->weights + number * c->block_bytes;
        atoms = 1;
        if (has_copies && is_copy(c, first_block, number)) {
            for (int32_t s = 0; s < count; s++)
                copy_block(c, first_block, number, &places[s]);
            continue;
        }
        if (is_copy(c, kept, number)) {
            for (int32_t s = 0; s < count; s++)
                finish(c, number, &places[s], sums[s]);
            continue;
        }
        kept = last_block;
        if (has_lone && c->step->weight_kernels - number * ATOM == 1) {
            lone_block(c, number, places, count, sums[0]);
            continue;
        }
        const float_block *block = (const float_block *)at;
        const int32_t *list = (const int32_t *)(at + float_taps_offset());
        const uint8_t *weights = at + float_weights_offset(c->step);
        atoms = c->kernels->float_pair && number + 1 < last_block && is_pair(c, at) ? 2 : 1;
        const int32_t used = used_lanes(c, at, atoms);
        for (int32_t first = 0, taps; first == 0 || first < block->taps; first += taps) {
            taps = at_most(PANEL_TAPS / atoms, block->taps - first);
            while (taps && !ends_group(list[first + taps - 1]))
                taps++;
            for (int32_t atom = 0; atom < atoms; atom++)
                c->kernels->float_panel((const uint16_t *)(weights + atom * c->block_bytes) + (int64_t)first * lanes * ATOM,
                                        c->step->format, panel + atom * ATOM, (int64_t)taps * lanes, atoms * ATOM);
            const int32_t left = block->taps - first - taps, is_last = number + atoms >= last_block;
            const int64_t tap_bytes = (int64_t)lanes * ATOM * (int64_t)sizeof(uint16_t);
            const uint8_t *next = left ? weights + (first + taps) * tap_bytes : weights + atoms * c->block_bytes;
            const int64_t next_bytes = at_most(PANEL_TAPS / atoms, left ? left : is_last ? 0 : block->taps) * tap_bytes;
            for (int32_t s = 0; s < count; s++) {
                /* A part of it for each segment. */
                const int64_t from = next_bytes * s / count / 64 * 64, bytes = next_bytes * (s + 1) / count - from;
                const int32_t has_own = atoms == 2 && c->kernels->pair_fetches;
                if (!has_own)
                    fetch_weights(next + from, atoms, bytes, c->block_bytes);
                float_task task = {
                    .input = places[s].input,
                    .offsets = c->offsets,
                    .list = list + first,
                    .taps = taps,
                    .lanes = lanes,
                    .used_lanes = used,
                    .pixels = places[s].pixels,
                    .format = c->step->format,
                    .goes_on = first > 0,
                    .fetch = has_own && bytes ? next + from : NULL,
                    .fetch_bytes = bytes,
                    .fetch_step = c->block_bytes,
                    .panel = panel,
                    .sums = sums[s],
                };
                (atoms == 2 ? c->kernels->float_pair : c->kernels->float_segment)(&task);
                if (first + taps < block->taps)
                    continue;
                for (int32_t atom = 0; atom < atoms; atom++, task.sums += FLOAT_ATOM_STEP) {
                    if (c->has_infinite)
                        add_skipped(&task, list + block->taps, c->taps - block->taps);
                    finish(c, number + atom, &places[s], task.sums);
                }
            }
            if (!taps)
                break;
        }
        kept = number;
    }
}
