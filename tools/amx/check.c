/*
 * Random convolutions and products of matrices by every set of kernels that this processor can run, compared with plain
 * C bit for bit. One static program, so that it is all that an emulated machine needs: as its first process it switches
 * the machine off at the end. Arguments: how many cases, and the first number of the random generator.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/reboot.h>
#include <unistd.h>

#include "internal.h"

enum { ROOM = 1 << 19, MOST_CHANNELS = 256 };

static uint64_t state = 1;

static uint32_t any(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33);
}

static int32_t between(int32_t low, int32_t high)
{
    return low + (int32_t)(any() % (uint32_t)(high - low + 1));
}

static uint8_t *room(int64_t bytes)
{
    void *area = aligned_alloc(64, (size_t)round_up(bytes, 64));
    if (!area) {
        puts("no memory");
        exit(2);
    }
    memset(area, 0, (size_t)round_up(bytes, 64));
    return area;
}

static void fill(uint8_t *at, int64_t bytes, int32_t low, int32_t high)
{
    for (int64_t i = 0; i < bytes; i++)
        at[i] = (uint8_t)between(low, high);
}

/* The output of a convolution with one set of kernels. */
static void convolved(openrknn_convolution step, int32_t kernels, uint8_t *out)
{
    const void *steps[1] = {&step};
    step.kernels = kernels;
    step.packed = room(openrknn_packed_bytes(&step));
    step.dpu.target.base = out;
    openrknn_pack(&step);
    openrknn_run(steps, 1);
    free(step.packed);
}

/* Some chains end with a table instead: random bytes for the numbers from `table_low` on. Sums at the limit are beyond it. */
static void add_table(openrknn_chain *chain)
{
    enum { LONGEST = 256, SHIFT = 13 };
    static uint32_t entries[LONGEST];
    static uint8_t bytes[LONGEST];
    const int32_t count = between(1, LONGEST);

    fill(bytes, count, -128, 127);
    for (int32_t i = 0; i < count; i++)
        entries[i] = bytes[i] | (uint32_t)bytes[i] << 8;
    chain->flags = (chain->flags & ~OPENRKNN_CHAIN_SINGLE_WIDE) | OPENRKNN_CHAIN_TABLE;
    chain->table = entries;
    chain->byte_table = bytes;
    chain->table_low = chain->byte_table_low = between(-200, 0);
    chain->byte_table_last = count - 1;
    chain->table_high = chain->table_low + count - 1;
    if (between(0, 1)) {
        chain->flags |= OPENRKNN_CHAIN_NORM | OPENRKNN_CHAIN_SINGLE_NORM;
        chain->norm_scale = between(1 << SHIFT, 2 << SHIFT) / (double)(1 << SHIFT);
    }
}

/*
 * Half of the chains say that single precision is exact for them, as npu/native/singles.py would: what is rounded stays
 * below 2^22, and sums beyond the limit are saturated.
 */
static void single_chain(openrknn_convolution *step, int32_t is_small)
{
    enum { ROUNDED = 1 << 22 };
    openrknn_chain *chain = &step->dpu.chain;
    const int64_t inputs = (int64_t)step->kernel_height * step->kernel_width * (step->depthwise ? 1 : step->channels);
    const int64_t largest = is_small ? inputs * 2 + 1 : inputs * 128 * 255 + 127000;
    int32_t has_factors = between(0, 1), place = between(0, 3);

    if (place == 0)
        return;
    chain->flags |= OPENRKNN_CHAIN_SINGLE;
    chain->sum_limit = ROUNDED - 1;
    if (largest > chain->sum_limit)
        chain->flags |= OPENRKNN_CHAIN_SINGLE_CLAMP;
    chain->out_addend = between(-128, 127);
    if (is_small)
        chain->out_scale = has_factors ? 0.75 : 1.0;
    else /* a sum at the limit, with the smallest scale, is 2^8 * 2 and saturated; with the largest it is below 2^22 */
        chain->out_scale = has_factors ? between(1 << 20, 2000000) / (double)(1 << 19) : 2.0 + between(0, 255) / 256.0;
    if (place != 1 || !is_small)
        chain->flags |= OPENRKNN_CHAIN_SINGLE_WIDE;
    if (between(0, 2) == 0)
        add_table(chain);
}

static int32_t compare_convolutions(const int32_t *sets, int32_t count, int32_t *bad)
{
    static uint8_t source[ROOM], weights[ROOM], right[ROOM], found[ROOM];
    static int32_t corrections[MOST_CHANNELS], addends[MOST_CHANNELS];
    static double scales[MOST_CHANNELS];
    /* Small numbers: every bit of a sum is seen. Large ones: the sums are long, and seen in parts. */
    const int32_t is_small = between(0, 1), limit = is_small ? 1 : 127, depthwise = between(0, 5) == 0;
    const int32_t picture = !depthwise && between(0, 4) == 0 ? 4 : 0;
    openrknn_convolution step = {.kind = OPENRKNN_CONVOLUTION, .picture = picture, .depthwise = depthwise, .spread_y = 1, .spread_x = 1};

    step.height = between(1, 12);
    step.width = between(1, 60);
    step.kernel_height = between(1, 4);
    step.kernel_width = between(1, picture ? 7 : 4);
    step.stride_y = between(1, 2);
    step.stride_x = between(1, 2);
    step.dilation_y = between(1, 3) / 3 + 1;
    step.dilation_x = between(1, 3) / 3 + 1;
    step.pad_top = between(0, 2);
    step.pad_left = between(0, 2);
    step.out_height = at_least((step.height + 2 * step.pad_top - (step.kernel_height - 1) * step.dilation_y - 1) / step.stride_y, 0) + 1;
    step.out_width = at_least((step.width + 2 * step.pad_left - (step.kernel_width - 1) * step.dilation_x - 1) / step.stride_x, 0) + 1;
    step.channels = picture ? 3 : between(1, 150);
    step.line = (int64_t)step.width * (picture ? picture : ATOM);
    step.surface = step.line * step.height;
    step.pads[0] = step.pads[1] = between(-limit, limit);
    step.source = source;
    step.weights = weights;
    step.corrections = corrections;
    const int32_t channels = depthwise ? (int32_t)round_up(step.channels, ATOM) : between(1, 9) * ATOM;
    step.weight_channels = step.input_group = step.depthwise_group = step.channels;
    step.weight_kernels = step.kernel_group = depthwise ? 1 : channels - between(0, 3);
    step.dpu.chain = (openrknn_chain){.flags = OPENRKNN_CHAIN | OPENRKNN_CHAIN_SCALE, .byte_low = -128, .byte_high = 127,
                                      .addends = addends, .scales = scales, .out_scale = 1.0};
    step.dpu.width = step.out_width;
    step.dpu.channels = step.dpu.real_channels = channels;
    step.dpu.target = (openrknn_target){.line = (int64_t)step.out_width * ATOM, .per_pixel = 1, .width = step.out_width,
                                        .height = step.out_height, .pixels = step.out_width * step.out_height, .atoms = channels / ATOM};
    step.dpu.target.group_step = step.dpu.target.line * step.out_height;
    const int32_t has_corrections = between(0, 1);
    for (int32_t o = 0; o < channels; o++) {
        corrections[o] = has_corrections ? between(-limit, limit) : 0;
        addends[o] = between(-limit, limit) * (is_small ? 1 : 1000);
        scales[o] = is_small ? 1.0 : 1.0 / (1 << between(2, 14));
    }
    single_chain(&step, is_small);
    fill(source, ROOM, -limit, limit);
    fill(weights, ROOM, is_small ? -limit : -128, limit);
    const size_t size = (size_t)step.dpu.target.group_step * (size_t)(channels / ATOM);
    memset(right, 0, sizeof right);
    convolved(step, OPENRKNN_KERNELS_SCALAR, right);
    for (int32_t i = 0; i < count; i++) {
        memset(found, 0, size);
        convolved(step, sets[i], found);
        bad[i] += memcmp(found, right, size) != 0;
    }
    return 1;
}

static int32_t compare_products(const int32_t *sets, int32_t count, int32_t *bad)
{
    static uint8_t a[ROOM], b[ROOM];
    static int32_t found[1 << 15];
    const int32_t m = between(1, 70), k = between(1, 12) * 32, n = between(1, 5) * 32, plain = between(0, 1);
    openrknn_product step = {.m = m, .k = k, .n = n, .a_format = OPENRKNN_INT8, .b_format = OPENRKNN_INT8, .a = a, .a_row = k,
                             .a_width = k, .tile_columns = 32, .tile_rows = 32, .b = b, .b_column = plain ? k : 0,
                             .c = (uint8_t *)found, .c_row = 4 * n, .c_width = n};

    fill(a, (int64_t)m * k, -128, 127);
    fill(b, (int64_t)n * k, -128, 127);
    for (int32_t i = 0; i < count; i++) {
        int32_t wrong = 0;
        memset(found, 0, sizeof found);
        step.kernels = sets[i];
        openrknn_multiply(&step);
        for (int32_t row = 0; row < m; row++)
            for (int32_t column = 0; column < n; column++) {
                int32_t sum = 0;
                for (int32_t r = 0; r < k; r++) {
                    const int32_t at = plain ? column * k + r
                                             : ((column / 32 * (k / 32) + r / 32) * 32 + column % 32) * 32 + r % 32;
                    sum += (int8_t)a[row * k + r] * (int8_t)b[at];
                }
                wrong |= sum != found[row * n + column];
            }
        bad[i] += wrong;
    }
    return 1;
}

int main(int argc, char **argv)
{
    const int32_t cases = argc > 1 ? atoi(argv[1]) : 40;
    int32_t sets[OPENRKNN_KERNELS_COUNT], bad[OPENRKNN_KERNELS_COUNT] = {0}, count = 0, done = 0, wrong = 0;
    const uint32_t available = openrknn_kernels_available();

    state = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
    for (int32_t number = 0; number < OPENRKNN_KERNELS_COUNT; number++)
        if (number != OPENRKNN_KERNELS_SCALAR && available >> number & 1)
            sets[count++] = number;
    printf("features 0x%x, sets 0x%x\n", openrknn_cpu_features(), available);
    for (int32_t i = 0; i < cases; i++) {
        openrknn_set_threads(1 + i % 3);
        done += i % 4 ? compare_convolutions(sets, count, bad) : compare_products(sets, count, bad);
        printf("."), fflush(stdout);
    }
    puts("");
    for (int32_t i = 0; i < count; i++) {
        printf("%-8s %d cases, %d differ\n", kernels_of(sets[i])->name, done, bad[i]);
        wrong += bad[i];
    }
    puts(wrong ? "VERDICT: different" : "VERDICT: equal");
    fflush(stdout);
    if (getpid() == 1) {
        sleep(1);
        reboot(RB_POWER_OFF);
        for (;;)
            pause();
    }
    return wrong != 0;
}
