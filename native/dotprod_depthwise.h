/*
 * Depthwise convolution with SDOT, which adds up four products of one channel: four neighbouring pixels of a row are
 * zipped, so that a group is [16 channels][4 pixels]. There is one from each second pixel on. The kernel's row
 * (a, b, c, 0) gives the pixel where the group begins, (0, a, b, c) the next one.
 */

static void zip_groups(const uint8_t *row, uint8_t *groups, int32_t count)
{
    uint8x16_t x = vld1q_u8(row), y = vld1q_u8(row + ATOM);
    uint16x8_t low = vreinterpretq_u16_u8(vzip1q_u8(x, y)), high = vreinterpretq_u16_u8(vzip2q_u8(x, y));

    for (int32_t group = 0; group < count; group++, groups += 4 * ATOM) {
        row += 2 * ATOM;
        x = vld1q_u8(row);
        y = vld1q_u8(row + ATOM);
        const uint16x8_t next_low = vreinterpretq_u16_u8(vzip1q_u8(x, y)), next_high = vreinterpretq_u16_u8(vzip2q_u8(x, y));
        vst1q_u8(groups, vreinterpretq_u8_u16(vzip1q_u16(low, next_low)));
        vst1q_u8(groups + ATOM, vreinterpretq_u8_u16(vzip2q_u16(low, next_low)));
        vst1q_u8(groups + 2 * ATOM, vreinterpretq_u8_u16(vzip1q_u16(high, next_high)));
        vst1q_u8(groups + 3 * ATOM, vreinterpretq_u8_u16(vzip2q_u16(high, next_high)));
        low = next_low;
        high = next_high;
    }
}

/* The products of one row of the kernel, and 4 of its columns, for four pixels: of two groups, or of four. */
ALWAYS_INLINE void grouped_products(int32x4_t *sums, const int8_t *input, int8x16_t even, int8x16_t odd,
                                    const int32_t stride)
{
    enum { BYTES = 4 * ATOM };
    if (stride == 1) {
        const int8x16_t x = vld1q_s8(input), next = vld1q_s8(input + BYTES);
        sums[0] = vdotq_s32(sums[0], x, even);
        sums[1] = vdotq_s32(sums[1], x, odd);
        sums[2] = vdotq_s32(sums[2], next, even);
        sums[3] = vdotq_s32(sums[3], next, odd);
    } else {
        for (int32_t p = 0; p < 4; p++)
            sums[p] = vdotq_s32(sums[p], vld1q_s8(input + p * BYTES), even);
    }
}

/* All pixels of 4 channels. The weights of a kernel with three rows stay in registers. */
ALWAYS_INLINE void grouped_channels(const groups_task *task, int32_t number, const int32_t height, const int32_t runs,
                                    const int32_t stride, const int32_t layers)
{
    enum { BYTES = 4 * ATOM, KEPT = 3 };
    const int32_t is_kept = height * runs <= KEPT, pixels = task->pixels;
    const int32x4_t addends = task->addends ? vld1q_s32(task->addends + 4 * number) : vdupq_n_s32(0);
    int32_t *out = task->sums + 4 * number;
    int8x16_t kept[KEPT][4];

    for (int32_t at = 0; at < height * runs && is_kept; at++)
        for (int32_t i = 0; i < 2 * layers; i++)
            kept[at][i] = vld1q_s8(task->weights[i / 2] + (2 * at + i % 2) * BYTES + number * ATOM);
    for (int32_t first = 0; first < pixels; first += 4, out += 4 * ATOM) {
        int32x4_t sums[4] = {addends, addends, addends, addends}, twice[4];
        for (int32_t p = 0; p < 4; p++)
            twice[p] = vdupq_n_s32(0);
        for (int32_t y = 0; y < height; y++)
            for (int32_t run = 0; run < runs; run++) {
                const int32_t at = y * runs + run;
                const int64_t group = first / (3 - stride) + 2 * run;
                const int8_t *input = (const int8_t *)task->rows[y] + group * BYTES + number * ATOM;
                const int8_t *weights = task->weights[0] + 2 * at * BYTES + number * ATOM;
                grouped_products(sums, input, is_kept ? kept[at][0] : vld1q_s8(weights),
                                 is_kept ? kept[at][1] : vld1q_s8(weights + BYTES), stride);
                weights = task->weights[1] + 2 * at * BYTES + number * ATOM;
                if (layers == 2)
                    grouped_products(twice, input, is_kept ? kept[at][2] : vld1q_s8(weights),
                                     is_kept ? kept[at][3] : vld1q_s8(weights + BYTES), stride);
            }
        for (int32_t p = 0; p < 4; p++)
            vst1q_s32(out + p * ATOM, layers == 2 ? vaddq_s32(sums[p], vshlq_n_s32(twice[p], 1)) : sums[p]);
    }
}

/* Where there is only one layer, the second one is zeros. */
static void depthwise_groups(const groups_task *task)
{
    const int32_t is_three = task->height == 3 && task->runs == 1, is_five = task->height == 5 && task->runs == 2;
    for (int32_t number = 0; number < 4; number++)
        if (is_three && task->stride == 1 && task->layers == 1)
            grouped_channels(task, number, 3, 1, 1, 1);
        else if (is_three && task->stride == 1)
            grouped_channels(task, number, 3, 1, 1, 2);
        else if (is_three)
            grouped_channels(task, number, 3, 1, 2, 2);
        else if (is_five && task->stride == 1)
            grouped_channels(task, number, 5, 2, 1, 2);
        else if (is_five)
            grouped_channels(task, number, 5, 2, 2, 2);
        else
            grouped_channels(task, number, task->height, task->runs, task->stride, 2);
}
