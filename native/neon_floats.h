/*
 * float_template.h's tiles for aarch64, in assembly: compilers move accumulators about, and that takes a third of the
 * time. 1 to 6 pixels by 16 channels are 4 to 24 registers of sums; a vector of weights is loaded for its use by all
 * pixels, so that two registers are enough for weights.
 *
 * A group begins with a product instead of a sum with 0. The products differ in the sign of zero alone, and totals begin
 * with +0, which stays what it is with a zero of either sign.
 */
#define OWN_FLOAT_TILES
#define FLOAT_PIXELS 6
#define DEPTHWISE_VECTORS 16

/* Pixel p's sums of channels 4 v to 4 v + 3: registers from 8 on. Its inputs: register p. Weights: 6 and 7. */
#define SUM_0_0 "8"
#define SUM_0_1 "9"
#define SUM_0_2 "10"
#define SUM_0_3 "11"
#define SUM_1_0 "12"
#define SUM_1_1 "13"
#define SUM_1_2 "14"
#define SUM_1_3 "15"
#define SUM_2_0 "16"
#define SUM_2_1 "17"
#define SUM_2_2 "18"
#define SUM_2_3 "19"
#define SUM_3_0 "20"
#define SUM_3_1 "21"
#define SUM_3_2 "22"
#define SUM_3_3 "23"
#define SUM_4_0 "24"
#define SUM_4_1 "25"
#define SUM_4_2 "26"
#define SUM_4_3 "27"
#define SUM_5_0 "28"
#define SUM_5_1 "29"
#define SUM_5_2 "30"
#define SUM_5_3 "31"

#define PIXELS_1(do, ...) do(0, __VA_ARGS__)
#define PIXELS_2(do, ...) PIXELS_1(do, __VA_ARGS__) do(1, __VA_ARGS__)
#define PIXELS_3(do, ...) PIXELS_2(do, __VA_ARGS__) do(2, __VA_ARGS__)
#define PIXELS_4(do, ...) PIXELS_3(do, __VA_ARGS__) do(3, __VA_ARGS__)
#define PIXELS_5(do, ...) PIXELS_4(do, __VA_ARGS__) do(4, __VA_ARGS__)
#define PIXELS_6(do, ...) PIXELS_5(do, __VA_ARGS__) do(5, __VA_ARGS__)

#define ONE_PRODUCT(p, op, v, w, k) op " v" SUM_##p##_##v ".4s, v" w ".4s, v" #p ".s[" #k "]\n\t"
#define FOUR_INPUTS(p, bytes, more) "ldr q" #p ", [x10, #" #p "*" #bytes "+" #more "]\n\t"
#define ONE_AHEAD(p, bytes) "prfm pldl1keep, [x11, #" #p "*" #bytes "]\n\t"

/* One input of each pixel with 16 weights; `at`: bytes from the panel's place. */
#define ONE_LANE(n, op, at, k)                                                                                         \
    "ldr q6, [%[panel], #" #at "]\n\tldr q7, [%[panel], #" #at "+16]\n\t"                                              \
    PIXELS_##n(ONE_PRODUCT, op, 0, "6", k) PIXELS_##n(ONE_PRODUCT, op, 1, "7", k)                                      \
    "ldr q6, [%[panel], #" #at "+32]\n\tldr q7, [%[panel], #" #at "+48]\n\t"                                           \
    PIXELS_##n(ONE_PRODUCT, op, 2, "6", k) PIXELS_##n(ONE_PRODUCT, op, 3, "7", k)

/* Where a tap is, and where the one after it is. */
#define TAP_PLACE(n, bytes)                                                                                            \
    "ldr w9, [%[list]], #4\n\t"                                                                                        \
    "cmp %[list], %[end]\n\t"                                                                                          \
    "csel x11, %[list], %[last], lo\n\t"                                                                               \
    "asr w10, w9, #1\n\t"                                                                                              \
    "ldrsw x10, [%[offsets], w10, sxtw #2]\n\t"                                                                        \
    "ldr w11, [x11]\n\t"                                                                                               \
    "asr w11, w11, #1\n\t"                                                                                             \
    "ldrsw x11, [%[offsets], w11, sxtw #2]\n\t"                                                                        \
    "add x10, %[input], x10\n\t"                                                                                       \
    "add x11, %[input], x11\n\t"

#define TAP_OF_8(n, first)                                                                                             \
    TAP_PLACE(n, 32) PIXELS_##n(FOUR_INPUTS, 32, 0)                                                                      \
    ONE_LANE(n, first, 0, 0) ONE_LANE(n, "fmla", 64, 1)                                                                \
    PIXELS_##n(ONE_AHEAD, 32)                                                                                          \
    ONE_LANE(n, "fmla", 128, 2) ONE_LANE(n, "fmla", 192, 3)                                                            \
    PIXELS_##n(FOUR_INPUTS, 32, 16)                                                                                      \
    ONE_LANE(n, "fmla", 256, 0) ONE_LANE(n, "fmla", 320, 1) ONE_LANE(n, "fmla", 384, 2) ONE_LANE(n, "fmla", 448, 3)    \
    "add %[panel], %[panel], #512\n\t"

#define TAP_OF_4(n, first)                                                                                             \
    TAP_PLACE(n, 16) PIXELS_##n(FOUR_INPUTS, 16, 0)                                                                      \
    ONE_LANE(n, first, 0, 0) ONE_LANE(n, "fmla", 64, 1) ONE_LANE(n, "fmla", 128, 2) ONE_LANE(n, "fmla", 192, 3)        \
    "add %[panel], %[panel], #256\n\t"

#define ONE_TOTAL(p, unused)                                                                                           \
    "ldp q0, q1, [%[totals], #" #p "*64]\n\tldp q2, q3, [%[totals], #" #p "*64+32]\n\t"                                \
    "fadd v0.4s, v0.4s, v" SUM_##p##_0 ".4s\n\tfadd v1.4s, v1.4s, v" SUM_##p##_1 ".4s\n\t"                             \
    "fadd v2.4s, v2.4s, v" SUM_##p##_2 ".4s\n\tfadd v3.4s, v3.4s, v" SUM_##p##_3 ".4s\n\t"                             \
    "stp q0, q1, [%[totals], #" #p "*64]\n\tstp q2, q3, [%[totals], #" #p "*64+32]\n\t"

#define OWN_TILE(n, lanes)                                                                                             \
    static void own_tile_##n##_of_##lanes(const float_task *task, int32_t first)                                       \
    {                                                                                                                  \
        const uint8_t *input = task->input + first * lanes * (int32_t)sizeof(float32);                                 \
        const int32_t *list = task->list, *end = list + task->taps;                                                    \
        const float32 *panel = task->panel;                                                                            \
        __asm__ volatile(".p2align 6\n1:\n\t" TAP_OF_##lanes(n, "fmul") "tbnz w9, #0, 3f\n"                                        \
                         ".p2align 6\n2:\n\t" TAP_OF_##lanes(n, "fmla") "tbz w9, #0, 2b\n"                                         \
                         "3:\n\t" PIXELS_##n(ONE_TOTAL, 0) "cmp %[list], %[end]\n\tb.lo 1b\n"                          \
                         : [list] "+&r"(list), [panel] "+&r"(panel)                                                    \
                         : [input] "r"(input), [offsets] "r"(task->offsets), [end] "r"(end), [last] "r"(end - 1),      \
                           [totals] "r"(task->sums + first * ATOM)                                                     \
                         : "x9", "x10", "x11", "cc", "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8",   \
                           "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21",   \
                           "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31");                      \
    }

/*
 * A picture of 3 channels has a group of 3 products for each position of the kernel: totals stay in registers, from 20 on.
 * The fourth product is 0 times 0.
 */
#define TOTAL_0_0 "20"
#define TOTAL_0_1 "21"
#define TOTAL_0_2 "22"
#define TOTAL_0_3 "23"
#define TOTAL_1_0 "24"
#define TOTAL_1_1 "25"
#define TOTAL_1_2 "26"
#define TOTAL_1_3 "27"
#define TOTAL_2_0 "28"
#define TOTAL_2_1 "29"
#define TOTAL_2_2 "30"
#define TOTAL_2_3 "31"

#define TOTALS_MOVED(p, op)                                                                                            \
    op " q" TOTAL_##p##_0 ", q" TOTAL_##p##_1 ", [%[totals], #" #p "*64]\n\t"                                          \
    op " q" TOTAL_##p##_2 ", q" TOTAL_##p##_3 ", [%[totals], #" #p "*64+32]\n\t"
#define TOTAL_ADDED(p, v) "fadd v" TOTAL_##p##_##v ".4s, v" TOTAL_##p##_##v ".4s, v" SUM_##p##_##v ".4s\n\t"

#define FLOAT_PICTURE(n)                                                                                                \
    static void float_picture_##n(const float_task *task, int32_t first)                                                \
    {                                                                                                                  \
        const uint8_t *input = task->input + first * 4 * (int32_t)sizeof(float32);                                     \
        const int32_t *list = task->list;                                                                              \
        const float32 *panel = task->panel;                                                                            \
        __asm__ volatile(PIXELS_##n(TOTALS_MOVED, "ldp") ".p2align 6\n1:\n\t"                                         \
                         "ldr w9, [%[list]], #4\n\t"                                                                   \
                         "asr w10, w9, #1\n\t"                                                                         \
                         "ldrsw x10, [%[offsets], w10, sxtw #2]\n\t"                                                   \
                         "add x10, %[input], x10\n\t" PIXELS_##n(FOUR_INPUTS, 16, 0)                                   \
                         ONE_LANE(n, "fmul", 0, 0) ONE_LANE(n, "fmla", 64, 1) ONE_LANE(n, "fmla", 128, 2)              \
                         "add %[panel], %[panel], #256\n\t"                                                            \
                         PIXELS_##n(TOTAL_ADDED, 0) PIXELS_##n(TOTAL_ADDED, 1)                                         \
                         PIXELS_##n(TOTAL_ADDED, 2) PIXELS_##n(TOTAL_ADDED, 3)                                         \
                         "cmp %[list], %[end]\n\tb.lo 1b\n\t" PIXELS_##n(TOTALS_MOVED, "stp")                          \
                         : [list] "+&r"(list), [panel] "+&r"(panel)                                                    \
                         : [input] "r"(input), [offsets] "r"(task->offsets), [end] "r"(list + task->taps),             \
                           [totals] "r"(task->sums + first * ATOM)                                                     \
                         : "x9", "x10", "cc", "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9",    \
                           "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22",  \
                           "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31");                             \
    }
FLOAT_PICTURE(1)
FLOAT_PICTURE(2)
FLOAT_PICTURE(3)

static void picture_segment(const float_task *task)
{
    int32_t pixel = 0;
    for (; pixel + 3 <= task->pixels; pixel += 3)
        float_picture_3(task, pixel);
    if (task->pixels - pixel == 2)
        float_picture_2(task, pixel);
    else if (task->pixels > pixel)
        float_picture_1(task, pixel);
}

#define OWN_TILES(n)                                                                                                   \
    OWN_TILE(n, 8)                                                                                                     \
    OWN_TILE(n, 4)                                                                                                     \
    static void float_tile_##n(const float_task *task, int32_t first)                                                  \
    {                                                                                                                  \
        (task->lanes == 8 ? own_tile_##n##_of_8 : own_tile_##n##_of_4)(task, first);                                   \
    }
OWN_TILES(1)
OWN_TILES(2)
OWN_TILES(3)
OWN_TILES(4)
OWN_TILES(5)
OWN_TILES(6)

/*
 * One pixel: there are as many products as weights, and to read those and to make floats of them is what takes time. No
 * totals are in memory before.
 *
 * FCVTL has one of two pipes for two cycles (Neoverse-N1), so that half of the weights go another way: the bits of an fp16
 * number, moved to those of a float, are that number times 2^-112, also where it is subnormal; the inputs are multiplied by
 * 2^112, which no fp16 number leaves the floats with. Products are the same, and exact. Infinite weights would become
 * numbers: blocks that have some (is_finite) go the first way alone.
 */
#define FLOAT_SINGLE float_single

ALWAYS_INLINE float32x4_t shifted_halves(int32x4_t moved)
{
    return vreinterpretq_f32_s32(vandq_s32(moved, vdupq_n_s32((int32_t)0x8fffffff)));
}

ALWAYS_INLINE void single_of(const float_task *task, const uint16_t *weights, const int32_t is_finite)
{
    const float32x4_t scale = vdupq_n_f32(0x1p112f);
    float32x4_t totals[4];
    for (int32_t v = 0; v < 4; v++)
        totals[v] = vdupq_n_f32(0.0f);
    for (int32_t tap = 0; tap < task->taps;) {
        float32x4_t sums[4];
        int32_t entry;
        for (int32_t v = 0; v < 4; v++)
            sums[v] = vdupq_n_f32(0.0f);
        do {
            entry = task->list[tap++];
            const float32 *seen = (const float32 *)(task->input + task->offsets[tap_of(entry)]);
            const float32x4_t x[2] = {vld1q_f32(seen), vld1q_f32(seen + 4)};
            const float32x4_t large[2] = {vmulq_f32(x[0], scale), vmulq_f32(x[1], scale)};
            for (int32_t line = 0; line < 4; line++)
                __builtin_prefetch((const uint8_t *)weights + 1536 + 64 * line);
#define SINGLE_LANE(half, k)                                                                                           \
    do {                                                                                                               \
        const int16x8_t a = vld1q_s16((const int16_t *)weights);                                                       \
        const float16x8_t b = vreinterpretq_f16_u16(vld1q_u16(weights + 8)), c = vreinterpretq_f16_s16(a);             \
        if (is_finite) {                                                                                               \
            sums[0] = vfmaq_laneq_f32(sums[0], shifted_halves(vshll_n_s16(vget_low_s16(a), 13)), large[half], k);      \
            sums[1] = vfmaq_laneq_f32(sums[1], shifted_halves(vshll_high_n_s16(a, 13)), large[half], k);               \
        } else {                                                                                                       \
            sums[0] = vfmaq_laneq_f32(sums[0], vcvt_f32_f16(vget_low_f16(c)), x[half], k);                             \
            sums[1] = vfmaq_laneq_f32(sums[1], vcvt_high_f32_f16(c), x[half], k);                                      \
        }                                                                                                              \
        sums[2] = vfmaq_laneq_f32(sums[2], vcvt_f32_f16(vget_low_f16(b)), x[half], k);                                 \
        sums[3] = vfmaq_laneq_f32(sums[3], vcvt_high_f32_f16(b), x[half], k);                                          \
        weights += ATOM;                                                                                               \
    } while (0)
            SINGLE_LANE(0, 0);
            SINGLE_LANE(0, 1);
            SINGLE_LANE(0, 2);
            SINGLE_LANE(0, 3);
            SINGLE_LANE(1, 0);
            SINGLE_LANE(1, 1);
            SINGLE_LANE(1, 2);
            SINGLE_LANE(1, 3);
#undef SINGLE_LANE
        } while (!ends_group(entry));
        for (int32_t v = 0; v < 4; v++)
            totals[v] = vaddq_f32(totals[v], sums[v]);
    }
    for (int32_t v = 0; v < 4; v++)
        vst1q_f32(task->sums + 4 * v, totals[v]);
}

static void float_single(const float_task *task, const uint16_t *weights)
{
    if (task->is_finite)
        single_of(task, weights, 1);
    else
        single_of(task, weights, 0);
}

/* ---------------------------------------------------------------------------------------------- one output channel */

/*
 * Sums of all channels of each pixel, as softmax and norms need them: vectors of 4 pixels instead of 16 output channels, of
 * which there is one. Each pixel's sums have the same order as in tiles.
 */
#define FLOAT_LONE float_lone

ALWAYS_INLINE void turn_four(float32x4_t *x)
{
    const float32x4_t a = vtrn1q_f32(x[0], x[1]), b = vtrn2q_f32(x[0], x[1]), c = vtrn1q_f32(x[2], x[3]), d = vtrn2q_f32(x[2], x[3]);
#define HALVES_OF(kind, a, b) vreinterpretq_f32_f64(vtrn##kind##q_f64(vreinterpretq_f64_f32(a), vreinterpretq_f64_f32(b)))
    x[0] = HALVES_OF(1, a, c);
    x[1] = HALVES_OF(1, b, d);
    x[2] = HALVES_OF(2, a, c);
    x[3] = HALVES_OF(2, b, d);
#undef HALVES_OF
}

static void float_lone(const float_task *task, const uint16_t *weights)
{
    enum { LANES = 8, FOURS = (SEGMENT + 3) / 4 };
    const int32_t fours = (task->pixels + 3) / 4;
    float32x4_t totals[FOURS], sums[FOURS];

    for (int32_t i = 0; i < fours; i++)
        totals[i] = sums[i] = vdupq_n_f32(0.0f);
    for (int32_t tap = 0; tap < task->taps; tap++, weights += LANES * ATOM) {
        const int32_t entry = task->list[tap];
        const float32 *seen = (const float32 *)(task->input + task->offsets[tap_of(entry)]);
        float32 weight[LANES];
        for (int32_t k = 0; k < LANES; k++)
            weight[k] = half_to_float(weights[k * ATOM]);
        const float32x4_t w[2] = {vld1q_f32(weight), vld1q_f32(weight + 4)};
        for (int32_t i = 0; i < fours; i++) {
            const int32_t left = task->pixels - 4 * i;
            float32x4_t x[2][4], sum = sums[i];
#pragma GCC unroll 4
            for (int32_t p = 0; p < 4; p++) {
                const float32 *at = seen + (4 * i + (p < left ? p : 0)) * LANES;
                x[0][p] = vld1q_f32(at);
                x[1][p] = vld1q_f32(at + 4);
            }
            turn_four(x[0]);
            turn_four(x[1]);
            for (int32_t half = 0; half < 2; half++) {
                sum = vfmaq_laneq_f32(sum, x[half][0], w[half], 0);
                sum = vfmaq_laneq_f32(sum, x[half][1], w[half], 1);
                sum = vfmaq_laneq_f32(sum, x[half][2], w[half], 2);
                sum = vfmaq_laneq_f32(sum, x[half][3], w[half], 3);
            }
            sums[i] = sum;
        }
        for (int32_t i = 0; i < fours && ends_group(entry); i++) {
            totals[i] = vaddq_f32(totals[i], sums[i]);
            sums[i] = vdupq_n_f32(0.0f);
        }
    }
    for (int32_t p = 0; p < task->pixels; p++)
        task->sums[p * ATOM] = ((const float32 *)totals)[p];
}
