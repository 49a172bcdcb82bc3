/*
 * A tile of up to 6 pixels by 16 channels with SDOT, in assembly: 24 sums, 6 inputs and 2 vectors of weights are all 32
 * registers, and compilers move some of them to memory inside the loop.
 *
 * Two SDOT are done in a cycle, and the loop has 96 of them beside 22 loads for a tap of 16 inputs. Loads stand before
 * the products of the vector in between (weights) or behind the last use of the same register (inputs), so that their
 * latency is hidden even where a processor looks only a few instructions ahead.
 *
 * v0 ... v5: inputs of a pixel, v6 and v7: weights, v8 + 4 * pixel + a: sums of channels 4 * a ... 4 * a + 3.
 */
#include "dotprod_chain.h"
#include "dotprod_table.h"

#define DOT(sum, w, x, lane) "sdot v" #sum ".4s, v" #w ".16b, v" #x ".4b[" #lane "]\n"

/* One vector of weights by one group of inputs of 1 ... 6 pixels, for each of the four vectors of channels. */
#define DOTS_0_1(w, lane) DOT(8, w, 0, lane)
#define DOTS_0_2(w, lane) DOTS_0_1(w, lane) DOT(12, w, 1, lane)
#define DOTS_0_3(w, lane) DOTS_0_2(w, lane) DOT(16, w, 2, lane)
#define DOTS_0_4(w, lane) DOTS_0_3(w, lane) DOT(20, w, 3, lane)
#define DOTS_0_5(w, lane) DOTS_0_4(w, lane) DOT(24, w, 4, lane)
#define DOTS_0_6(w, lane) DOTS_0_5(w, lane) DOT(28, w, 5, lane)
#define DOTS_1_1(w, lane) DOT(9, w, 0, lane)
#define DOTS_1_2(w, lane) DOTS_1_1(w, lane) DOT(13, w, 1, lane)
#define DOTS_1_3(w, lane) DOTS_1_2(w, lane) DOT(17, w, 2, lane)
#define DOTS_1_4(w, lane) DOTS_1_3(w, lane) DOT(21, w, 3, lane)
#define DOTS_1_5(w, lane) DOTS_1_4(w, lane) DOT(25, w, 4, lane)
#define DOTS_1_6(w, lane) DOTS_1_5(w, lane) DOT(29, w, 5, lane)
#define DOTS_2_1(w, lane) DOT(10, w, 0, lane)
#define DOTS_2_2(w, lane) DOTS_2_1(w, lane) DOT(14, w, 1, lane)
#define DOTS_2_3(w, lane) DOTS_2_2(w, lane) DOT(18, w, 2, lane)
#define DOTS_2_4(w, lane) DOTS_2_3(w, lane) DOT(22, w, 3, lane)
#define DOTS_2_5(w, lane) DOTS_2_4(w, lane) DOT(26, w, 4, lane)
#define DOTS_2_6(w, lane) DOTS_2_5(w, lane) DOT(30, w, 5, lane)

/* The last vector of channels; `after` stands behind the products of each pixel. */
#define DOTS_3_1(w, lane, after) DOT(11, w, 0, lane) after(0)
#define DOTS_3_2(w, lane, after) DOTS_3_1(w, lane, after) DOT(15, w, 1, lane) after(1)
#define DOTS_3_3(w, lane, after) DOTS_3_2(w, lane, after) DOT(19, w, 2, lane) after(2)
#define DOTS_3_4(w, lane, after) DOTS_3_3(w, lane, after) DOT(23, w, 3, lane) after(3)
#define DOTS_3_5(w, lane, after) DOTS_3_4(w, lane, after) DOT(27, w, 4, lane) after(4)
#define DOTS_3_6(w, lane, after) DOTS_3_5(w, lane, after) DOT(31, w, 5, lane) after(5)
#define NOTHING(pixel)

#define WEIGHTS(w, at) "ldr q" #w ", [%[weights], #" #at "]\n"

/* 16 channels by the 4 inputs in one lane; the weights of the next lane are loaded from `next` and `next` + 16 on. */
#define LANE(n, lane, here_2, here_3, next_0, next_1, after)                                                           \
    DOTS_0_##n(6, lane) WEIGHTS(6, here_2) DOTS_1_##n(7, lane) WEIGHTS(7, here_3) DOTS_2_##n(6, lane)                  \
        WEIGHTS(6, next_0) DOTS_3_##n(7, lane, after) WEIGHTS(7, next_1)

/* For each pixel. */
#define EACH_1(one) one(0, 8, 9, 10, 11)
#define EACH_2(one) EACH_1(one) one(1, 12, 13, 14, 15)
#define EACH_3(one) EACH_2(one) one(2, 16, 17, 18, 19)
#define EACH_4(one) EACH_3(one) one(3, 20, 21, 22, 23)
#define EACH_5(one) EACH_4(one) one(4, 24, 25, 26, 27)
#define EACH_6(one) EACH_5(one) one(5, 28, 29, 30, 31)

#define LOAD_INPUT(p, a, b, c, d) "ldr q" #p ", [%[at], #16 * " #p "]\n"
#define LOAD_NEXT(p) "ldr q" #p ", [%[at], #16 * " #p "]\n"
#define TILE_REGISTERS_plain                                                                                           \
    "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17", \
        "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31"

/* What all tiles know, and what moves on with them. `out` is sums or bytes. */
#define TILE_INPUTS_plain                                                                                              \
    [windows] "r"(constants->windows), [chain] "r"(constants->chain), [constants] "r"(constants)
#define TILE_PLACES [input] "+&r"(input), [window] "+&r"(window), [out] "+&r"(out), [count] "+&r"(count)
#define TILE_VARIABLES_plain(step)                                                                                     \
    tile_constants *constants = task->constants;                                                                       \
    constants->operand = task->operand + first * ATOM;                                                                 \
    const uint8_t *weights = task->weights, *input = task->input + (int64_t)first * (step);                            \
    const int32_t *window = task->window ? task->window + first : NULL;                                                \
    uint8_t *out = constants->chain < 0 ? (uint8_t *)(task->sums + first * ATOM) : task->target + first * ATOM;        \
    int32_t taps = task->taps
#define TILE_BEGIN_plain ""
#define LOOK_UP_plain ""

#define SIX_TILES(tile, kind) tile(1, kind) tile(2, kind) tile(3, kind) tile(4, kind) tile(5, kind) tile(6, kind)

/* Go to label 5 for the next tile, `bytes` of input further. */
#define NEXT_TILE_plain(n, bytes)                                                                                      \
    FINISH(n)                                                                                                          \
    "add %[input], %[input], " bytes "\n"                                                                              \
    "add %[window], %[window], #4 * " #n "\n"                                                                          \
    "add %[out], %[out], #16 * " #n "\n"                                                                               \
    "tbz %w[chain], #31, 0f\n"                                                                                         \
    "add %[out], %[out], #48 * " #n "\n"                                                                               \
    "0:\n"                                                                                                             \
    "subs %w[count], %w[count], #1\n"                                                                                  \
    "b.ne 5b\n"

/*
 * `count` tiles, one behind the other. The last tap loads its own inputs once more, and 32 bytes of what follows the
 * weights: blocks have SLACK behind them.
 */
#define SDOT_TILE(n, kind)                                                                                             \
    static void tile_##kind##_##n(const segment_task *task, int32_t first, int32_t count)                              \
    {                                                                                                                  \
        TILE_VARIABLES_##kind(ATOM);                                                                                   \
        const uint8_t *at = input;                                                                                     \
        const int32_t *offsets = task->offsets, *last = offsets + task->taps - 1;                                      \
        __asm__ volatile(TILE_BEGIN_##kind EACH_##n(START) "5:\n"                                                      \
                         "mov %[weights], %[all_weights]\n"                                                            \
                         "mov %[offsets], %[all_offsets]\n"                                                            \
                         "ldrsw %[at], [%[offsets]]\n"                                                                 \
                         "mov %w[taps], %w[all_taps]\n"                                                                \
                         "add %[at], %[input], %[at]\n"                                                                \
                         WEIGHTS(6, 0) WEIGHTS(7, 16)                                                                  \
                         EACH_##n(LOAD_INPUT)                                                                          \
                         "2:\n"                                                                                        \
                         "add %[at], %[offsets], #4\n"                                                                 \
                         "cmp %[offsets], %[last]\n"                                                                   \
                         "csel %[offsets], %[at], %[offsets], lo\n"                                                    \
                         "ldrsw %[at], [%[offsets]]\n"                                                                 \
                         "add %[at], %[input], %[at]\n"                                                                \
                         LANE(n, 0, 32, 48, 64, 80, NOTHING)                                                           \
                         LOOK_UP_##kind                                                                                \
                         LANE(n, 1, 96, 112, 128, 144, NOTHING)                                                        \
                         LOOK_UP_##kind                                                                                \
                         LANE(n, 2, 160, 176, 192, 208, NOTHING)                                                       \
                         LOOK_UP_##kind                                                                                \
                         LANE(n, 3, 224, 240, 256, 272, LOAD_NEXT)                                                     \
                         "add %[weights], %[weights], #256\n"                                                          \
                         "subs %w[taps], %w[taps], #1\n"                                                               \
                         "b.ne 2b\n"                                                                                   \
                         NEXT_TILE_##kind(n, "#16 * " #n)                                                              \
                         : [weights] "+&r"(weights), [offsets] "+&r"(offsets), [at] "+&r"(at), [taps] "+&r"(taps),     \
                           TILE_PLACES                                                                                 \
                         : [last] "r"(last), [all_weights] "r"(task->weights), [all_offsets] "r"(task->offsets),       \
                           [all_taps] "r"(task->taps), TILE_INPUTS_##kind                                              \
                         : "memory", "cc", TILE_REGISTERS_##kind);                                                     \
    }

/*
 * Pictures, of 4 bytes for each pixel: 16 bytes are what 4 neighbouring columns of the kernel see. Up to 6 pixels are
 * loaded a step apart; where a row of the kernel ends before the fourth lane, so do the products.
 */
#define PICTURE_1 "ldr q0, [%[at]]\n"
#define PICTURE_2 PICTURE_1 "ldr q1, [%[at], %[step]]\n"
#define PICTURE_3 PICTURE_2 "add %[next], %[at], %[step], lsl #1\nldr q2, [%[next]]\n"
#define PICTURE_4 PICTURE_3 "ldr q3, [%[next], %[step]]\n"
#define PICTURE_5 PICTURE_4 "add %[next], %[next], %[step], lsl #1\nldr q4, [%[next]]\n"
#define PICTURE_6 PICTURE_5 "ldr q5, [%[next], %[step]]\n"

#define PICTURE_LANE(n, kind, lane)                                                                                    \
    LANE(n, lane, 32, 48, 64, 80, NOTHING) LOOK_UP_##kind                                                              \
    "add %[weights], %[weights], #64\n"                                                                                \
    "subs %w[left], %w[left], #1\n"

#define PICTURE_TILE(n, kind)                                                                                          \
    static void picture_##kind##_##n(const segment_task *task, int32_t first, int32_t count)                           \
    {                                                                                                                  \
        const int64_t step = task->pixel_step, tile_step = (n)*step;                                                   \
        TILE_VARIABLES_##kind(step);                                                                                   \
        const uint8_t *at = input, *next = input;                                                                      \
        const int32_t *offsets = task->offsets;                                                                        \
        int32_t left = 0;                                                                                              \
        __asm__ volatile(TILE_BEGIN_##kind EACH_##n(START) "5:\n"                                                      \
                         "mov %[weights], %[all_weights]\n"                                                            \
                         "mov %[offsets], %[all_offsets]\n"                                                            \
                         "mov %w[taps], %w[all_taps]\n"                                                                \
                         WEIGHTS(6, 0) WEIGHTS(7, 16)                                                                  \
                         "2:\n"                                                                                        \
                         "ldrsw %[at], [%[offsets]], #4\n"                                                             \
                         "add %[at], %[input], %[at]\n"                                                                \
                         "mov %w[left], %w[run]\n"                                                                     \
                         "3:\n"                                                                                        \
                         PICTURE_##n                                                                                   \
                         PICTURE_LANE(n, kind, 0) "b.eq 4f\n"                                                          \
                         PICTURE_LANE(n, kind, 1) "b.eq 4f\n"                                                          \
                         PICTURE_LANE(n, kind, 2) "b.eq 4f\n"                                                          \
                         "add %[at], %[at], #16\n"                                                                     \
                         PICTURE_LANE(n, kind, 3) "b.ne 3b\n"                                                          \
                         "4:\n"                                                                                        \
                         "subs %w[taps], %w[taps], #1\n"                                                               \
                         "b.ne 2b\n"                                                                                   \
                         NEXT_TILE_##kind(n, "%[tile_step]")                                                           \
                         : [weights] "+&r"(weights), [offsets] "+&r"(offsets), [at] "+&r"(at), [next] "+&r"(next),     \
                           [left] "+&r"(left), [taps] "+&r"(taps), TILE_PLACES                                         \
                         : [step] "r"(step), [tile_step] "r"(tile_step), [run] "r"(task->run),                         \
                           [all_weights] "r"(task->weights), [all_offsets] "r"(task->offsets),                         \
                           [all_taps] "r"(task->taps), TILE_INPUTS_##kind                                              \
                         : "memory", "cc", TILE_REGISTERS_##kind);                                                     \
    }
SIX_TILES(PICTURE_TILE, plain)
SIX_TILES(PICTURE_TILE, table)

/*
 * Rows of a matrix, a step apart, by the 16 columns of a panel: `taps` pieces of 16 bytes follow each other. The last one
 * loads the 16 bytes behind the rows, which are the next row or SLACK.
 */
#define ROW_AT_0 "[%[at]]"
#define ROW_AT_1 "[%[at], %[step]]"
#define ROW_AT_2 "[%[next]]"
#define ROW_AT_3 "[%[next], %[step]]"
#define ROW_AT_4 "[%[last]]"
#define ROW_AT_5 "[%[last], %[step]]"
#define LOAD_ROW(p, a, b, c, d) "ldr q" #p ", " ROW_AT_##p "\n"
#define LOAD_NEXT_OF_ROW(p) "ldr q" #p ", " ROW_AT_##p "\n"

#define ROWS_TILE(n)                                                                                                   \
    static void rows_##n(const segment_task *task, int32_t first, int32_t count)                                       \
    {                                                                                                                  \
        const int64_t step = task->pixel_step, tile_step = (n)*step;                                                   \
        TILE_VARIABLES_plain(step);                                                                                    \
        const uint8_t *at = input, *next = input, *last = input;                                                       \
        __asm__ volatile(EACH_##n(START) "5:\n"                                                                        \
                         "mov %[weights], %[all_weights]\n"                                                            \
                         "mov %w[taps], %w[all_taps]\n"                                                                \
                         "mov %[at], %[input]\n"                                                                       \
                         "add %[next], %[input], %[step], lsl #1\n"                                                    \
                         "add %[last], %[input], %[step], lsl #2\n"                                                    \
                         WEIGHTS(6, 0) WEIGHTS(7, 16)                                                                  \
                         EACH_##n(LOAD_ROW)                                                                            \
                         "2:\n"                                                                                        \
                         "add %[at], %[at], #16\n"                                                                     \
                         "add %[next], %[next], #16\n"                                                                 \
                         "add %[last], %[last], #16\n"                                                                 \
                         LANE(n, 0, 32, 48, 64, 80, NOTHING)                                                           \
                         LANE(n, 1, 96, 112, 128, 144, NOTHING)                                                        \
                         LANE(n, 2, 160, 176, 192, 208, NOTHING)                                                       \
                         LANE(n, 3, 224, 240, 256, 272, LOAD_NEXT_OF_ROW)                                              \
                         "add %[weights], %[weights], #256\n"                                                          \
                         "subs %w[taps], %w[taps], #1\n"                                                               \
                         "b.ne 2b\n"                                                                                   \
                         NEXT_TILE_plain(n, "%[tile_step]")                                                            \
                         : [weights] "+&r"(weights), [at] "+&r"(at), [next] "+&r"(next), [last] "+&r"(last),           \
                           [taps] "+&r"(taps), TILE_PLACES                                                             \
                         : [step] "r"(step), [tile_step] "r"(tile_step), [all_weights] "r"(task->weights),             \
                           [all_taps] "r"(task->taps), TILE_INPUTS_plain                                               \
                         : "memory", "cc", TILE_REGISTERS_plain);                                                      \
    }
ROWS_TILE(1)
ROWS_TILE(2)
ROWS_TILE(3)
ROWS_TILE(4)
ROWS_TILE(5)
ROWS_TILE(6)
