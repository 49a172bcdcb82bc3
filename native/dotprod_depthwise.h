/*
 * Depthwise convolution with SDOT, which adds up four products of one channel: four neighbouring pixels of a row are
 * zipped, so that a group is [16 channels][4 pixels]. There is one from each second pixel on. The kernel's row
 * (a, b, c, 0) gives the pixel where the group begins, (0, a, b, c) the next one.
 */

/* A pixel of a row; with its padding, or where there is none. */
ALWAYS_INLINE uint8x16_t zipped_pixel(const zip_task *task, int32_t place, uint8x16_t flip, const int32_t has_padding,
                                      const int32_t has_flips)
{
    const int32_t at = place - task->before;
    const int32_t is_data = !has_padding || (uint32_t)at < (uint32_t)task->count;
    const uint8x16_t pixel = vld1q_u8(is_data ? task->source + (int64_t)at * ATOM : task->pads);
    return has_flips ? veorq_u8(pixel, flip) : pixel;
}

/* Groups from ... to - 1. */
ALWAYS_INLINE void zip_some(const zip_task *task, int32_t from, int32_t to, const int32_t has_padding, const int32_t has_flips)
{
    const uint8x16_t flip = vld1q_u8(task->flips);
    uint8_t *groups = task->groups + (int64_t)from * 4 * ATOM;
    if (from >= to)
        return;
    uint8x16_t x = zipped_pixel(task, 2 * from, flip, has_padding, has_flips);
    uint8x16_t y = zipped_pixel(task, 2 * from + 1, flip, has_padding, has_flips);
    uint16x8_t low = vreinterpretq_u16_u8(vzip1q_u8(x, y)), high = vreinterpretq_u16_u8(vzip2q_u8(x, y));

    for (int32_t group = from; group < to; group++, groups += 4 * ATOM) {
        x = zipped_pixel(task, 2 * group + 2, flip, has_padding, has_flips);
        y = zipped_pixel(task, 2 * group + 3, flip, has_padding, has_flips);
        const uint16x8_t next_low = vreinterpretq_u16_u8(vzip1q_u8(x, y)), next_high = vreinterpretq_u16_u8(vzip2q_u8(x, y));
        vst1q_u8(groups, vreinterpretq_u8_u16(vzip1q_u16(low, next_low)));
        vst1q_u8(groups + ATOM, vreinterpretq_u8_u16(vzip2q_u16(low, next_low)));
        vst1q_u8(groups + 2 * ATOM, vreinterpretq_u8_u16(vzip1q_u16(high, next_high)));
        vst1q_u8(groups + 3 * ATOM, vreinterpretq_u8_u16(vzip2q_u16(high, next_high)));
        low = next_low;
        high = next_high;
    }
}

static void zip_groups(const zip_task *given)
{
    const zip_task task = *given; /* a store of bytes could change anything that has an address */
    const uint64x2_t flips = vreinterpretq_u64_u8(vld1q_u8(task.flips));
    /* The groups that see no padding. */
    const int32_t first = at_most(divide_up(task.before, 2), task.pairs);
    const int32_t end = at_most(at_least((task.before + task.count - 2) / 2, first), task.pairs);

    zip_some(&task, 0, first, 1, 1);
    if (vgetq_lane_u64(flips, 0) | vgetq_lane_u64(flips, 1))
        zip_some(&task, first, end, 0, 1);
    else
        zip_some(&task, first, end, 0, 0);
    zip_some(&task, end, task.pairs, 1, 1);
}

/*
 * Four pixels of 16 channels in assembly, with the sums of pixel p in v8 + 4 * p ..., as dotprod_chain.h has them. A tap
 * is a row of the kernel and four of its columns: two groups of inputs for pixels next to each other, or four a step of
 * two apart. Each piece does 8 channels; `o` is 0 or 32, `a` and `b` are the vectors of sums of the first pixel, and so on.
 */
#define SDOT2(a, b, x, y, w, v)                                                                                        \
    "sdot v" #a ".4s, v" #x ".16b, v" #w ".16b\n"                                                                      \
    "sdot v" #b ".4s, v" #y ".16b, v" #v ".16b\n"
/* On Neoverse-N1, pairs of loads take longer than two loads. */
#define LOAD2(x, y, from, o)                                                                                           \
    "ldr q" #x ", [%[" from "], #" #o "]\n"                                                                            \
    "ldr q" #y ", [%[" from "], #" #o " + 16]\n"

#define EVERY_PIXEL_1(o, a, b, c, d, e, f, g, h)                                                                       \
    LOAD2(0, 1, "at", o) LOAD2(4, 5, "weights", o) LOAD2(6, 7, "weights", o + 64) LOAD2(2, 3, "at", o + 64)            \
    SDOT2(a, b, 0, 1, 4, 5) SDOT2(c, d, 0, 1, 6, 7) SDOT2(e, f, 2, 3, 4, 5) SDOT2(g, h, 2, 3, 6, 7)
#define EVERY_PIXEL_2(o, a, b, c, d, e, f, g, h)                                                                       \
    EVERY_PIXEL_1(o, a, b, c, d, e, f, g, h)                                                                           \
    LOAD2(24, 25, "weights", o + 128) LOAD2(26, 27, "weights", o + 192)                                                \
    SDOT2(a, b, 0, 1, 24, 25) SDOT2(c, d, 0, 1, 26, 27) SDOT2(e, f, 2, 3, 24, 25) SDOT2(g, h, 2, 3, 26, 27)

#define SECOND_PIXEL_1(o, a, b, c, d, e, f, g, h)                                                                      \
    LOAD2(24, 25, "weights", o) LOAD2(0, 1, "at", o) LOAD2(2, 3, "at", o + 64) LOAD2(4, 5, "at", o + 128)              \
    LOAD2(6, 7, "at", o + 192)                                                                                         \
    SDOT2(a, b, 0, 1, 24, 25) SDOT2(c, d, 2, 3, 24, 25) SDOT2(e, f, 4, 5, 24, 25) SDOT2(g, h, 6, 7, 24, 25)
#define SECOND_PIXEL_2(o, a, b, c, d, e, f, g, h)                                                                      \
    SECOND_PIXEL_1(o, a, b, c, d, e, f, g, h)                                                                          \
    LOAD2(26, 27, "weights", o + 128)                                                                                  \
    SDOT2(a, b, 0, 1, 26, 27) SDOT2(c, d, 2, 3, 26, 27) SDOT2(e, f, 4, 5, 26, 27) SDOT2(g, h, 6, 7, 26, 27)

/* Some rows of `count` times four pixels, from byte `position` of what the taps see on. Gaps are between two rows. */
#define GROUPS_KERNEL(name, piece, step)                                                                               \
    static void name(const groups_task *task, int64_t position, int32_t all_count, int32_t rows, uint8_t *out)         \
    {                                                                                                                  \
        const tile_constants *constants = task->constants;                                                             \
        const uint8_t *const *list = task->taps;                                                                       \
        const uint8_t *at = NULL;                                                                                      \
        const int8_t *weights = task->weights;                                                                         \
        const int32_t *window = NULL;                                                                                  \
        const int64_t gap = task->row_step - (int64_t)all_count * (step);                                              \
        const int64_t out_gap = ((int64_t)task->pixels - 4 * (int64_t)all_count) * ATOM;                               \
        int32_t taps = task->count, count = all_count;                                                                 \
        __asm__ volatile(EACH_4(START) "5:\n"                                                                          \
                         "mov %[list], %[all_list]\n"                                                                  \
                         "mov %[weights], %[all_weights]\n"                                                            \
                         "mov %w[taps], %w[all_taps]\n"                                                                \
                         "2:\n"                                                                                        \
                         "ldr %[at], [%[list]], #8\n"                                                                  \
                         "subs %w[taps], %w[taps], #1\n"                                                               \
                         "add %[at], %[at], %[position]\n"                                                             \
                         piece(0, 8, 9, 12, 13, 16, 17, 20, 21) piece(32, 10, 11, 14, 15, 18, 19, 22, 23)              \
                         "add %[weights], %[weights], #256\n"                                                          \
                         "b.ne 2b\n"                                                                                   \
                         FINISH(4)                                                                                     \
                         "add %[position], %[position], #" #step "\n"                                                  \
                         "add %[out], %[out], #64\n"                                                                   \
                         "tbz %w[chain], #31, 0f\n"                                                                    \
                         "add %[out], %[out], #192\n"                                                                  \
                         "0:\n"                                                                                        \
                         "subs %w[count], %w[count], #1\n"                                                             \
                         "b.ne 5b\n"                                                                                   \
                         "mov %w[count], %w[all_count]\n"                                                              \
                         "add %[position], %[position], %[gap]\n"                                                      \
                         "add %[out], %[out], %[out_gap]\n"                                                            \
                         "subs %w[rows], %w[rows], #1\n"                                                               \
                         "b.ne 5b\n"                                                                                   \
                         : [list] "+&r"(list), [weights] "+&r"(weights), [at] "+&r"(at), [taps] "+&r"(taps),           \
                           [position] "+&r"(position), [out] "+&r"(out), [count] "+&r"(count), [rows] "+&r"(rows)      \
                         : [all_list] "r"(task->taps), [all_weights] "r"(task->weights), [all_taps] "r"(task->count),  \
                           [window] "r"(window), [all_count] "r"(all_count), [gap] "r"(gap), [out_gap] "r"(out_gap),   \
                           TILE_INPUTS_plain                                                                           \
                         : "memory", "cc", TILE_REGISTERS_plain);                                                      \
    }
GROUPS_KERNEL(every_pixel_1, EVERY_PIXEL_1, 128)
GROUPS_KERNEL(every_pixel_2, EVERY_PIXEL_2, 128)
GROUPS_KERNEL(second_pixel_1, SECOND_PIXEL_1, 256)
GROUPS_KERNEL(second_pixel_2, SECOND_PIXEL_2, 256)

/* What is left of four pixels goes to where the next row begins, which is written later. After the last row it does not. */
static void depthwise_groups(const groups_task *task)
{
    const tile_constants *constants = task->constants;
    void (*kernel)(const groups_task *, int64_t, int32_t, int32_t, uint8_t *) =
        task->stride == 1 ? (task->layers == 1 ? every_pixel_1 : every_pixel_2)
                          : (task->layers == 1 ? second_pixel_1 : second_pixel_2);
    const int32_t fours = task->pixels / 4, rest = task->pixels % 4, before = task->rows - 1;
    const int64_t step = task->stride * 2 * 4 * ATOM, last_row = before * task->row_step;
    uint8_t *target = task->target + (int64_t)before * task->pixels * ATOM, last[4 * ATOM];

    if (constants->chain < 0) {
        kernel(task, 0, fours + (rest > 0), 1, (uint8_t *)task->sums);
        return;
    }
    if (before)
        kernel(task, 0, fours + (rest > 0), before, task->target);
    if (fours)
        kernel(task, last_row, fours, 1, target);
    if (rest) {
        kernel(task, last_row + fours * step, 1, 1, last);
        memcpy(target + (int64_t)fours * 4 * ATOM, last, (size_t)rest * ATOM);
    }
}
