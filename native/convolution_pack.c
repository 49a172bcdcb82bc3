/* Weights of a convolution from the NPU's order to that of the kernels, with corrections. */
#include <math.h>

#include "convolution.h"

int64_t openrknn_packed_bytes(const openrknn_convolution *step)
{
    const kernel_set *kernels = kernels_of(step->kernels);
    if (is_float(step))
        return out_atoms(step) * float_block_bytes(step) + SLACK;
    int32_t atoms = divide_up(out_atoms(step), kernels->block);
    if (step->depthwise)
        return out_atoms(step) * depthwise_bytes(step, kernels) + SLACK;
    return factor_bytes(step, kernels) + atoms * kernels->block_bytes(tap_count(step), step->picture != 0) + SLACK;
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

static void pack_direct(const openrknn_convolution *step, const kernel_set *kernels)
{
    int32_t window = step->kernel_height * step->kernel_width, lanes = step->picture ? PICTURE_CHANNELS : ATOM;
    int32_t atoms = out_atoms(step), block_channels = kernels->block * ATOM;
    int32_t *factors = (int32_t *)step->packed;
    uint8_t *blocks = step->packed + factor_bytes(step, kernels);
    int64_t block_bytes = kernels->block_bytes(tap_count(step), step->picture != 0);

    for (int32_t o = 0; o < (int32_t)round_up(atoms, kernels->block) * ATOM; o++)
        factors[o] = o < step->dpu.channels ? step->corrections[o] - kernels->weight_offset : 0;
    for (int32_t block = 0; block < divide_up(atoms, kernels->block); block++)
        for (int32_t tap = 0; tap < tap_count(step); tap++) {
            int16_t weights[4 * ATOM * ATOM];
            int32_t first = step->picture ? 0 : tap / window * ATOM;
            for (int32_t o = 0; o < block_channels; o++)
                for (int32_t i = 0; i < lanes; i++) {
                    int32_t kernel = block * block_channels + o, channel = first + i;
                    int32_t weight = -kernels->weight_offset;
                    if (channel < step->channels) {
                        if (kernel < step->weight_kernels)
                            weight = (int8_t)step->weights[direct_place(step, kernel, channel, tap % window)];
                        else
                            weight = 0;
                        if (kernels->folds && kernel < step->dpu.channels)
                            weight += step->corrections[kernel];
                    }
                    weights[o * lanes + i] = (int16_t)weight;
                }
            kernels->store(blocks + block * block_bytes, tap, step->picture != 0, weights);
        }
}

/* Where the weight of a channel at a tap is, in elements; npu/blocks/cna.py, _depthwise. */
static int64_t depthwise_place(const openrknn_convolution *step, int32_t channel, int32_t tap)
{
    int32_t taps = step->kernel_height * step->kernel_width, group = channel / step->depthwise_group;
    int32_t width = at_most(step->depthwise_group, step->weight_channels - group * step->depthwise_group);
    return (int64_t)group * step->depthwise_group * taps + (int64_t)tap * width + channel % step->depthwise_group;
}

static void pack_depthwise(const openrknn_convolution *step, const kernel_set *kernels)
{
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

static float32 float_weight(const openrknn_convolution *step, int32_t kernel, int32_t channel, int32_t tap)
{
    if (channel >= step->channels || (!step->depthwise && kernel >= step->weight_kernels))
        return 0.0f;
    int64_t at = step->depthwise ? depthwise_place(step, channel, tap) : direct_place(step, kernel, channel, tap);
    return decode(step->format, step->weights + 2 * at);
}

static void pack_depthwise_floats(const openrknn_convolution *step)
{
    float32 *out = (float32 *)step->packed;
    for (int32_t block = 0; block < out_atoms(step); block++)
        for (int32_t tap = 0; tap < step->kernel_height * step->kernel_width; tap++)
            for (int32_t lane = 0; lane < ATOM; lane++)
                *out++ = float_weight(step, 0, block * ATOM + lane, tap);
}

/* With the largest error of the sums of each kernel, for inputs of length 1; npu/blocks/core.py, _rounded. */
static void pack_floats(const openrknn_convolution *step)
{
    int32_t window = step->kernel_height * step->kernel_width, lanes = lanes_of(step), taps = tap_count(step);
    double unit = ((double)taps * lanes + 8) * 0x1p-52;

    for (int32_t block = 0; block < out_atoms(step); block++) {
        float32 *out = (float32 *)(step->packed + block * float_block_bytes(step));
        double squares[ATOM] = {0}, lengths[ATOM];
        for (int32_t tap = 0; tap < taps; tap++)
            for (int32_t i = 0; i < lanes; i++)
                for (int32_t o = 0; o < ATOM; o++, out++) {
                    *out = float_weight(step, block * ATOM + o, tap / window * lanes + i, tap % window);
                    squares[o] += (double)*out * *out;
                }
        for (int32_t o = 0; o < ATOM; o++)
            lengths[o] = sqrt(squares[o]) * unit;
        memcpy(out, lengths, sizeof lengths);
    }
}

void openrknn_pack(const openrknn_convolution *step)
{
    const kernel_set *kernels = kernels_of(step->kernels);
    if (is_float(step))
        (step->depthwise ? pack_depthwise_floats : pack_floats)(step);
    else if (step->depthwise)
        pack_depthwise(step, kernels);
    else
        pack_direct(step, kernels);
}
