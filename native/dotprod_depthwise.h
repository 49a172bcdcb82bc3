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

/* One layer of weights. */
ALWAYS_INLINE void grouped_layer(sums16 *sums, const groups_task *task, const int8_t *weights, int32_t first,
                                 const int32_t height, const int32_t runs, const int32_t stride)
{
    enum { BYTES = 4 * ATOM };
    for (int32_t y = 0; y < height; y++)
        for (int32_t run = 0; run < runs; run++, weights += 2 * BYTES) {
            const int8_t *input = (const int8_t *)task->rows[y] + (int64_t)(first / (3 - stride) + 2 * run) * BYTES;
            for (int32_t i = 0; i < 4; i++) {
                const int8x16_t even = vld1q_s8(weights + i * ATOM);
                if (stride == 1) {
                    const int8x16_t odd = vld1q_s8(weights + BYTES + i * ATOM);
                    const int8x16_t x = vld1q_s8(input + i * ATOM), next = vld1q_s8(input + BYTES + i * ATOM);
                    sums[0].part[i] = vdotq_s32(sums[0].part[i], x, even);
                    sums[1].part[i] = vdotq_s32(sums[1].part[i], x, odd);
                    sums[2].part[i] = vdotq_s32(sums[2].part[i], next, even);
                    sums[3].part[i] = vdotq_s32(sums[3].part[i], next, odd);
                } else {
                    for (int32_t p = 0; p < 4; p++)
                        sums[p].part[i] = vdotq_s32(sums[p].part[i], vld1q_s8(input + p * BYTES + i * ATOM), even);
                }
            }
        }
}

/* Four pixels, of two groups (stride 1) or of four (stride 2). */
ALWAYS_INLINE void grouped_pixels(const groups_task *task, int32_t first, const int32_t height, const int32_t runs,
                                  const int32_t stride)
{
    const sums16 addends = sums_start(task->addends);
    sums16 sums[4];

    if (task->layers == 2) {
        for (int32_t p = 0; p < 4; p++)
            sums[p] = sums_start(NULL);
        grouped_layer(sums, task, task->weights[1], first, height, runs, stride);
        for (int32_t p = 0; p < 4; p++)
            for (int32_t i = 0; i < 4; i++)
                sums[p].part[i] = vaddq_s32(vshlq_n_s32(sums[p].part[i], 1), addends.part[i]);
    } else {
        for (int32_t p = 0; p < 4; p++)
            sums[p] = addends;
    }
    grouped_layer(sums, task, task->weights[0], first, height, runs, stride);
    for (int32_t p = 0; p < 4; p++)
        sums_store(task->sums + (first + p) * ATOM, &sums[p]);
}

ALWAYS_INLINE void grouped_run(const groups_task *task, const int32_t height, const int32_t runs)
{
    for (int32_t first = 0; first < task->pixels; first += 4)
        if (task->stride == 1)
            grouped_pixels(task, first, height, runs, 1);
        else
            grouped_pixels(task, first, height, runs, 2);
}

static void depthwise_groups(const groups_task *task)
{
    if (task->height == 3 && task->runs == 1)
        grouped_run(task, 3, 1);
    else if (task->height == 5 && task->runs == 2)
        grouped_run(task, 5, 2);
    else
        grouped_run(task, task->height, task->runs);
}
