/* Weights of a convolution from the NPU's order to that of the kernels, with corrections. */
#include "convolution.h"
#include "turn.h"

int64_t openrknn_packed_bytes(const openrknn_convolution *step)
{
    const kernel_set *kernels = convolution_kernels(step);
    if (is_float(step))
        return out_atoms(step) * float_block_bytes(step) + SLACK;
    int32_t atoms = divide_up(out_atoms(step), kernels->block);
    if (step->depthwise)
        return out_atoms(step) * depthwise_bytes(step, kernels) + SLACK;
    return factor_bytes(step, kernels) + atoms * kernels->block_bytes(kernel_taps(step, kernels), step->picture != 0) +
           (kernels->by_pixel ? ones_bytes(step, kernels) : 0) + SLACK;
}

/* Where the weight of kernel o, channel i is, in elements, in the NPU's order; npu/blocks/cna.py, _direct. */
static int64_t direct_place(const openrknn_convolution *step, int32_t o, int32_t i, int32_t tap)
{
    int32_t taps = step->kernel_height * step->kernel_width, og = o / step->kernel_group, ig = i / step->input_group;
    int32_t kernels = at_most(step->kernel_group, step->weight_kernels - og * step->kernel_group);
    int32_t inputs = at_most(step->input_group, step->weight_channels - ig * step->input_group);
    int64_t at = (int64_t)og * step->kernel_group * step->weight_channels * taps;
    at += (int64_t)ig * step->input_group * kernels * taps;
    at += ((int64_t)tap * kernels + o % step->kernel_group) * inputs + i % step->input_group;
    return at;
}

/* A channel that adds up all channels of one pixel. Pictures do without. */
static void pack_ones(const openrknn_convolution *step, const kernel_set *kernels, uint8_t *block)
{
    memset(block, 0, (size_t)ones_bytes(step, kernels));
    for (int32_t atom = 0; atom < input_atoms(step) && !step->picture; atom++) {
        int16_t weights[ATOM * ATOM] = {0};
        for (int32_t i = 0; i < ATOM; i++)
            weights[i] = atom * ATOM + i < step->channels;
        kernels->store(block, atom, 0, weights);
    }
}

/* The weights of a kernel at a tap, for `lanes` channels from `first` on, and what lanes without a channel hold. */
static void direct_weights(const openrknn_convolution *step, const kernel_set *kernels, int32_t kernel, int32_t first,
                           int32_t tap, int32_t lanes, int16_t *out)
{
    const int32_t count = at_most(lanes, step->channels - first), is_kernel = kernel < step->weight_kernels;
    const int32_t addend = kernels->folds && kernel < step->dpu.channels ? step->corrections[kernel] : 0;

    for (int32_t i = 0; i < lanes; i++)
        out[i] = (int16_t)(i < count ? addend : -kernels->weight_offset);
    if (!is_kernel || count <= 0)
        return;
    if (first % step->input_group + count <= step->input_group) { /* in one group they lie together */
        const int8_t *from = (const int8_t *)step->weights + direct_place(step, kernel, first, tap);
        for (int32_t i = 0; i < count; i++)
            out[i] = (int16_t)(from[i] + addend);
    } else
        for (int32_t i = 0; i < count; i++)
            out[i] = (int16_t)((int8_t)step->weights[direct_place(step, kernel, first + i, tap)] + addend);
}

/* Of a block of channels: how large the weights of each are together, corrections included. */
static void add_magnitudes(const openrknn_convolution *step, const int16_t *weights, int32_t channel, int32_t first, int32_t lanes,
                           int32_t *magnitudes)
{
    const int32_t count = at_most(lanes, step->channels - first);
    for (int32_t o = 0; o < ATOM; o++) {
        const int32_t correction = channel + o < step->dpu.channels ? step->corrections[channel + o] : 0;
        int32_t sum = 0;
        for (int32_t i = 0; i < count; i++) {
            const int32_t weight = weights[o * lanes + i] + correction;
            sum += weight < 0 ? -weight : weight;
        }
        magnitudes[channel + o] += sum;
    }
}

static void pack_direct(const openrknn_convolution *step, const kernel_set *kernels)
{
    int32_t window = step->kernel_height * step->kernel_width, lanes = step->picture ? PICTURE_CHANNELS : ATOM;
    int32_t atoms = out_atoms(step), block_channels = kernels->block * ATOM;
    int32_t *factors = (int32_t *)step->packed, *magnitudes = (int32_t *)(step->packed + correction_bytes(step, kernels));
    uint8_t *blocks = step->packed + factor_bytes(step, kernels);
    int64_t block_bytes = kernels->block_bytes(kernel_taps(step, kernels), step->picture != 0);

    if (kernels->by_pixel)
        memset(blocks, 0, (size_t)(divide_up(atoms, kernels->block) * block_bytes));
    for (int32_t o = 0; o < (int32_t)round_up(atoms, kernels->block) * ATOM; o++)
        factors[o] = o < step->dpu.channels ? step->corrections[o] - kernels->weight_offset : 0;
    if (has_magnitudes(kernels))
        memset(magnitudes, 0, (size_t)correction_bytes(step, kernels));
    for (int32_t block = 0; block < divide_up(atoms, kernels->block); block++)
        for (int32_t tap = 0; tap < tap_count(step); tap++) {
            int16_t weights[4 * ATOM * ATOM];
            int32_t first = step->picture ? 0 : tap / window * ATOM;
            for (int32_t o = 0; o < block_channels; o++)
                direct_weights(step, kernels, block * block_channels + o, first, tap % window, lanes, weights + o * lanes);
            if (has_magnitudes(kernels))
                add_magnitudes(step, weights, block * ATOM, first, lanes, magnitudes);
            kernels->store(blocks + block * block_bytes, kernel_tap(step, kernels, tap), step->picture != 0, weights);
        }
    if (kernels->by_pixel)
        pack_ones(step, kernels, blocks + divide_up(atoms, kernels->block) * block_bytes);
}

/* Where the weight of a channel at a tap is, in elements; npu/blocks/cna.py, _depthwise. */
static int64_t depthwise_place(const openrknn_convolution *step, int32_t channel, int32_t tap)
{
    int32_t taps = step->kernel_height * step->kernel_width, group = channel / step->depthwise_group;
    int32_t width = at_most(step->depthwise_group, step->weight_channels - group * step->depthwise_group);
    return (int64_t)group * step->depthwise_group * taps + (int64_t)tap * width + channel % step->depthwise_group;
}

/* The weight of a channel with its correction. */
static int32_t corrected_weight(const openrknn_convolution *step, int32_t channel, int32_t tap)
{
    return (int8_t)step->weights[depthwise_place(step, channel, tap)] +
           (channel < step->dpu.channels ? step->corrections[channel] : 0);
}

/* What is known of the channels of an atom. */
static groups_block describe_groups(const openrknn_convolution *step, int32_t atom)
{
    groups_block block = {.layers = 1};
    for (int32_t lane = 0; lane < at_most(ATOM, step->channels - atom * ATOM); lane++) {
        int32_t sum = 0, smallest = INT8_MIN, largest = INT8_MAX;
        for (int32_t tap = 0; tap < step->kernel_height * step->kernel_width; tap++) {
            const int32_t weight = corrected_weight(step, atom * ATOM + lane, tap);
            sum += weight;
            block.magnitudes[lane] += weight < 0 ? -weight : weight;
            smallest = at_most(smallest, weight);
            largest = at_least(largest, weight);
        }
        if (smallest < INT8_MIN || largest > INT8_MAX)
            block.layers = 2;
        if (largest > 2 * INT8_MAX) {
            block.flips[lane] = UINT8_MAX;
            block.offsets[lane] = -sum;
        }
    }
    return block;
}

static void pack_groups(const openrknn_convolution *step)
{
    const int32_t runs = group_runs(step), width = step->kernel_width;

    memset(step->packed, 0, (size_t)(out_atoms(step) * groups_bytes(step)));
    for (int32_t atom = 0; atom < out_atoms(step); atom++) {
        const groups_block block = describe_groups(step, atom);
        uint8_t *at = step->packed + atom * groups_bytes(step);
        memcpy(at, &block, sizeof block);
        at += GROUPS_HEADER;
        for (int32_t place = 0; place < step->kernel_height * runs * 2 * GROUP_BYTES; place++) {
            const int32_t row = place / (runs * 2 * GROUP_BYTES), run = place / (2 * GROUP_BYTES) % runs;
            const int32_t column = run * GROUP_PIXELS + place % GROUP_PIXELS - place / GROUP_BYTES % 2;
            const int32_t lane = place / GROUP_PIXELS % ATOM, channel = atom * ATOM + lane;
            if (column < 0 || column >= width || channel >= step->channels)
                continue;
            int32_t weight = corrected_weight(step, channel, row * width + column);
            weight = block.flips[lane] ? -weight : weight;
            const int32_t first = at_least(at_most(weight, INT8_MAX), INT8_MIN);
            uint8_t *to = at + place / (2 * GROUP_BYTES) * LAYERS * 2 * GROUP_BYTES + place % (2 * GROUP_BYTES);
            to[0] = (uint8_t)first;
            to[2 * GROUP_BYTES] = (uint8_t)(weight - first);
        }
    }
}

static void pack_depthwise(const openrknn_convolution *step, const kernel_set *kernels)
{
    if (has_groups(step, kernels)) {
        pack_groups(step);
        return;
    }
    column_run runs[LARGEST_KERNEL];
    int32_t count = column_runs(step, runs);
    uint8_t *packed = step->packed;

    for (int32_t atom = 0; atom < out_atoms(step); atom++) {
        int32_t corrections[ATOM];
        for (int32_t lane = 0; lane < ATOM; lane++) {
            int32_t channel = atom * ATOM + lane, has_data = channel < at_most(step->channels, step->dpu.channels);
            corrections[lane] = has_data ? step->corrections[channel] : 0;
        }
        for (int32_t y = 0; y < step->kernel_height; y++)
            for (int32_t run = 0; run < count; run++) {
                int16_t weights[LARGEST_KERNEL * ATOM];
                for (int32_t i = 0; i < runs[run].width; i++)
                    for (int32_t lane = 0; lane < ATOM; lane++) {
                        int32_t tap = y * step->kernel_width + runs[run].first + i * runs[run].step;
                        int32_t channel = atom * ATOM + lane;
                        weights[i * ATOM + lane] =
                            channel < step->channels ? (int8_t)step->weights[depthwise_place(step, channel, tap)] : 0;
                    }
                kernels->store_strip(packed, runs[run].width, weights, corrections);
                packed += kernels->strip_bytes(runs[run].width);
            }
    }
}

static float32 depthwise_weight(const openrknn_convolution *step, int32_t channel, int32_t tap)
{
    return channel < step->channels ? decode(step->format, step->weights + 2 * depthwise_place(step, channel, tap)) : 0.0f;
}

static void pack_depthwise_floats(const openrknn_convolution *step)
{
    float32 *out = (float32 *)step->packed;
    for (int32_t block = 0; block < out_atoms(step); block++)
        for (int32_t tap = 0; tap < step->kernel_height * step->kernel_width; tap++)
            for (int32_t lane = 0; lane < ATOM; lane++)
                *out++ = depthwise_weight(step, block * ATOM + lane, tap);
}

/* What the bits of some weights say of all of them. */
typedef struct {
    int32_t has_any; /* one of them is not 0 */
    int32_t is_finite; /* of fp16: none is infinite or no number */
    int32_t lanes; /* after these all are 0 */
} seen_bits;

static seen_bits look_at(const uint16_t *halves, int32_t lanes)
{
    seen_bits seen = {0, 1, 0};
    for (int32_t lane = 0; lane < lanes; lane++) {
        uint16_t largest = 0;
        for (int32_t i = 0; i < ATOM; i++) {
            const uint16_t magnitude = halves[lane * ATOM + i] & 0x7fff;
            largest = magnitude > largest ? magnitude : largest;
        }
        seen.has_any |= largest != 0;
        seen.is_finite &= largest < 0x7c00;
        seen.lanes = largest ? lane + 1 : seen.lanes;
    }
    return seen;
}

/* The weights of a tap, [channel in][16 channels out]. */
static seen_bits store_halves(const openrknn_convolution *step, int32_t block, int32_t tap, uint16_t *out)
{
    const int32_t window = step->kernel_height * step->kernel_width, lanes = lanes_of(step);
    const int32_t first = tap / window * lanes, kernel = block * ATOM;

    if (first + lanes <= step->channels && kernel + ATOM <= step->weight_kernels && step->input_group % lanes == 0 &&
        step->kernel_group % ATOM == 0) {
        /* The usual case: both stay in one group. */
        const int64_t place = direct_place(step, kernel, first, tap % window);
        const int64_t kernel_step = direct_place(step, kernel + 1, first, tap % window) - place;
        const uint8_t *from = step->weights + 2 * place;
        if (lanes == FLOAT_CHANNELS) {
            turn_halves_8(from, 2 * kernel_step, (uint8_t *)out, 2 * ATOM);
            turn_halves_8(from + 16 * kernel_step, 2 * kernel_step, (uint8_t *)(out + 8), 2 * ATOM);
        } else
            for (int32_t o = 0; o < ATOM; o++)
                for (int32_t i = 0; i < lanes; i++)
                    memcpy(out + i * ATOM + o, from + 2 * (o * kernel_step + i), sizeof *out);
    } else {
        const int32_t count = at_most(lanes, step->channels - first), is_together = step->input_group % lanes == 0;
        memset(out, 0, (size_t)(lanes * ATOM) * sizeof *out);
        for (int32_t o = 0; o < at_most(ATOM, step->weight_kernels - kernel); o++) {
            const uint8_t *from = step->weights + 2 * direct_place(step, kernel + o, first, tap % window);
            for (int32_t i = 0; i < count; i++, from += 2) {
                if (!is_together)
                    from = step->weights + 2 * direct_place(step, kernel + o, first + i, tap % window);
                memcpy(out + i * ATOM + o, from, sizeof *out);
            }
        }
    }
    return look_at(out, lanes);
}

/*
 * 1 x 1 in groups of 16 kernels by 32 channels, all of them whole, as matrices are: nothing is asked for each tap. What a
 * group says of itself is found while it is in registers.
 */
static int32_t is_matrix(const openrknn_convolution *step)
{
    return !step->picture && step->kernel_height * step->kernel_width == 1 && step->kernel_group == ATOM &&
           step->input_group == FLOAT_GROUP * FLOAT_CHANNELS && step->channels == step->weight_channels &&
           step->channels % step->input_group == 0 && step->weight_kernels % ATOM == 0 &&
           out_atoms(step) * ATOM <= step->weight_kernels;
}

static void pack_matrix(const openrknn_convolution *step)
{
    enum { GROUP_HALVES = FLOAT_GROUP * FLOAT_CHANNELS };
    const int32_t groups = step->channels / GROUP_HALVES;
    const uint8_t *from = step->weights;

    for (int32_t number = 0; number < out_atoms(step); number++) {
        uint8_t *at = step->packed + number * float_block_bytes(step);
        float_block *block = (float_block *)at;
        int32_t *list = (int32_t *)(at + float_taps_offset()), end = tap_count(step);
        uint16_t *weights = (uint16_t *)(at + float_weights_offset(step));

        block->taps = 0;
        block->is_finite = 1;
        block->lanes = FLOAT_CHANNELS;
        for (int32_t group = 0; group < groups; group++, from += GROUP_HALVES * ATOM * 2) {
            const int32_t before = block->taps;
            for (int32_t atom = 0; atom < FLOAT_GROUP; atom++) {
                const int32_t tap = group * FLOAT_GROUP + atom;
                const turned_bits seen = turn_halves_16x8(from + atom * 2 * FLOAT_CHANNELS, 2 * GROUP_HALVES, weights);
                block->is_finite &= seen.largest < 0x7c00;
                if (seen.largest) {
                    list[block->taps++] = tap << 1;
                    weights += FLOAT_CHANNELS * ATOM;
                } else
                    list[--end] = tap << 1;
            }
            if (block->taps > before)
                list[block->taps - 1] |= 1;
        }
    }
}

/* In groups of 32 channels, of those row by row and column by column. Taps without weights take no part. */
static void pack_floats(const openrknn_convolution *step)
{
    const int32_t lanes = lanes_of(step), window = step->kernel_height * step->kernel_width, atoms = input_atoms(step);

    for (int32_t number = 0; number < out_atoms(step); number++) {
        uint8_t *at = step->packed + number * float_block_bytes(step);
        float_block *block = (float_block *)at;
        int32_t *list = (int32_t *)(at + float_taps_offset()), end = window * atoms;
        uint16_t *weights = (uint16_t *)(at + float_weights_offset(step));

        block->taps = 0;
        block->is_finite = 1;
        block->lanes = 0;
        for (int32_t first = 0; first < atoms; first += FLOAT_GROUP)
            for (int32_t place = 0; place < window; place++) {
                const int32_t before = block->taps;
                for (int32_t atom = first; atom < at_most(first + FLOAT_GROUP, atoms); atom++) {
                    const int32_t tap = atom * window + place;
                    const seen_bits seen = store_halves(step, number, tap, weights + (int64_t)block->taps * lanes * ATOM);
                    block->is_finite &= seen.is_finite;
                    block->lanes = seen.lanes > block->lanes ? seen.lanes : block->lanes;
                    if (seen.has_any)
                        list[block->taps++] = tap << 1;
                    else
                        list[--end] = tap << 1;
                }
                if (block->taps > before)
                    list[block->taps - 1] |= 1;
            }
    }
}

void pack_weights(const openrknn_convolution *step)
{
    const kernel_set *kernels = convolution_kernels(step);
    if (is_float(step)) {
        if (step->depthwise)
            pack_depthwise_floats(step);
        else if (is_matrix(step))
            pack_matrix(step);
        else
            pack_floats(step);
    } else if (step->depthwise)
        pack_depthwise(step, kernels);
    else
        pack_direct(step, kernels);
}
