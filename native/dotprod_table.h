/*
 * Lookup tables of the DPU's chain behind a tile. A tile ends with places in the table, 16 bits each, and the tile after
 * it looks them up between its products: loads and instructions on integers beside SDOT, which leaves both idle.
 */

/* Four vectors of numbers as places of a pixel, and the sums of the next tile. v5: M + the first number of the table. */
#define PUT_PLACES(p, a, b, c, d)                                                                                      \
    "sub v" #a ".4s, v" #a ".4s, v5.4s\n"                                                                              \
    "sub v" #b ".4s, v" #b ".4s, v5.4s\n"                                                                              \
    "sub v" #c ".4s, v" #c ".4s, v5.4s\n"                                                                              \
    "sub v" #d ".4s, v" #d ".4s, v5.4s\n"                                                                              \
    "sqxtun v" #a ".4h, v" #a ".4s\n"                                                                                  \
    "sqxtun v" #c ".4h, v" #c ".4s\n"                                                                                  \
    "sqxtun2 v" #a ".8h, v" #b ".4s\n"                                                                                 \
    "ldr q" #b ", [%[constants], #448]\n"                                                                              \
    "sqxtun2 v" #c ".8h, v" #d ".4s\n"                                                                                 \
    "umin v" #a ".8h, v" #a ".8h, v" #b ".8h\n"                                                                        \
    "umin v" #c ".8h, v" #c ".8h, v" #b ".8h\n"                                                                        \
    "str q" #a ", [%[constants], #480 + 32 * " #p "]\n"                                                                \
    "str q" #c ", [%[constants], #496 + 32 * " #p "]\n"

/* Sums multiplied with v0 ... v3 are the numbers in v6, v7, a and b; */
#define SCALE_FOUR(a, b, c, d)                                                                                         \
    "ldr q6, [%[constants], #224]\n"                                                                                   \
    "ldr q7, [%[constants], #240]\n"                                                                                   \
    "fmla v6.4s, v" #a ".4s, v0.4s\n"                                                                                  \
    "fmla v7.4s, v" #b ".4s, v1.4s\n"                                                                                  \
    "ldr q" #a ", [%[constants], #256]\n"                                                                              \
    "ldr q" #b ", [%[constants], #272]\n"                                                                              \
    "fmla v" #a ".4s, v" #c ".4s, v2.4s\n"                                                                             \
    "fmla v" #b ".4s, v" #d ".4s, v3.4s\n"
#define PLACES(p, a, b, c, d) SCALE_FOUR(a, b, c, d) PUT_PLACES(p, 6, 7, a, b) START(p, a, b, c, d)

/* and once more with v4 (NORM) those in c, d, v6 and v7. */
#define NORM_PLACES(p, a, b, c, d)                                                                                     \
    SCALE_FOUR(a, b, c, d)                                                                                             \
    "ldr q" #c ", [%[constants], #320]\n"                                                                              \
    "ldr q" #d ", [%[constants], #320]\n"                                                                              \
    "fmla v" #c ".4s, v6.4s, v4.4s\n"                                                                                  \
    "fmla v" #d ".4s, v7.4s, v4.4s\n"                                                                                  \
    "ldr q6, [%[constants], #320]\n"                                                                                   \
    "ldr q7, [%[constants], #320]\n"                                                                                   \
    "fmla v6.4s, v" #a ".4s, v4.4s\n"                                                                                  \
    "fmla v7.4s, v" #b ".4s, v4.4s\n"                                                                                  \
    PUT_PLACES(p, c, d, 6, 7) START(p, a, b, c, d)

/*
 * Four bytes of the table at the places in register `four`, into `to`. Registers: x9 and x10 are places, x11 ... x14 bytes,
 * x15 is the table, x16 the next places and w17 how many eights of them are pending.
 */
#define LOOK_UP_FOUR(four, to)                                                                                         \
    "uxth w" #to ", w" #four "\n"                                                                                      \
    "ubfx x12, x" #four ", #16, #16\n"                                                                                 \
    "ubfx x13, x" #four ", #32, #16\n"                                                                                 \
    "lsr x" #four ", x" #four ", #48\n"                                                                                \
    "ldrb w" #to ", [x15, x" #to "]\n"                                                                                 \
    "ldrb w12, [x15, x12]\n"                                                                                           \
    "ldrb w13, [x15, x13]\n"                                                                                           \
    "ldrb w" #four ", [x15, x" #four "]\n"                                                                             \
    "orr w" #to ", w" #to ", w12, lsl #8\n"                                                                            \
    "orr w13, w13, w" #four ", lsl #8\n"                                                                               \
    "orr w" #to ", w" #to ", w13, lsl #16\n"
#define LOOK_UP_EIGHT                                                                                                  \
    "ldp x9, x10, [x16], #16\n"                                                                                        \
    "sub w17, w17, #1\n" LOOK_UP_FOUR(9, 11) LOOK_UP_FOUR(10, 14)                                                      \
    "stp w11, w14, [%[out]], #8\n"

/* Between products: eight of the places that are left of the last tile. The flags stay as they are. */
#define LOOK_UP_table                                                                                                  \
    "cbz w17, 8f\n" LOOK_UP_EIGHT                                                                                      \
    "8:\n"

/* The places of the last tile must be looked up before those of this one are stored. `out` moves on with what is looked up. */
#define NEXT_TILE_table(n, bytes)                                                                                      \
    "cbz w17, 7f\n"                                                                                                    \
    "6:\n" LOOK_UP_EIGHT                                                                                               \
    "cbnz w17, 6b\n"                                                                                                   \
    "7:\n"                                                                                                             \
    "ldr w9, [%[constants], #424]\n"                                                                                   \
    "ldr w10, [%[constants], #428]\n"                                                                                  \
    ADD_WINDOWS(n, "w9")                                                                                               \
    HOLD_SUMS(n, "w10")                                                                                                \
    "ldr q4, [%[constants], #288]\n"                                                                                   \
    "ldr q5, [%[constants], #432]\n"                                                                                   \
    "tbnz w10, #5, 0f\n"                                                                                               \
    EACH_##n(PLACES)                                                                                                   \
    "b 1f\n"                                                                                                           \
    "0:\n"                                                                                                             \
    EACH_##n(NORM_PLACES)                                                                                              \
    "1:\n"                                                                                                             \
    "add x16, %[constants], #480\n"                                                                                    \
    "mov w17, #2 * " #n "\n"                                                                                           \
    "add %[input], %[input], " bytes "\n"                                                                              \
    "add %[window], %[window], #4 * " #n "\n"                                                                          \
    "subs %w[count], %w[count], #1\n"                                                                                  \
    "b.ne 5b\n"                                                                                                        \
    "str w17, [%[constants], #472]\n"

#define TILE_BEGIN_table                                                                                               \
    "ldr x15, [%[constants], #464]\n"                                                                                  \
    "add x16, %[constants], #480\n"                                                                                    \
    "ldr w17, [%[constants], #472]\n"
#define TILE_INPUTS_table [constants] "r"(constants)
#define TILE_REGISTERS_table TILE_REGISTERS_plain, "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17"
#define TILE_VARIABLES_table(step)                                                                                     \
    tile_constants *constants = task->constants;                                                                       \
    const uint8_t *weights = task->weights, *input = task->input + (int64_t)first * (step);                            \
    const int32_t *window = task->window ? task->window + first : NULL;                                                \
    uint8_t *out = task->target + first * ATOM - constants->pending * 8;                                               \
    int32_t taps = task->taps

/* The places that the last tile of a segment has left; `target` is where the bytes of the tiles end. */
static void look_up_pending(tile_constants *k, uint8_t *target)
{
    for (int32_t i = 0; i < k->pending * 8; i += 4) {
        const uint32_t bytes = single_look_up(k->table, k->places + i);
        memcpy(target - k->pending * 8 + i, &bytes, sizeof bytes);
    }
    k->pending = 0;
}

/* The same for one pixel of 16 sums in C. */
ALWAYS_INLINE void table_pixel(const int32x4_t *sums, tile_constants *k, uint8_t *target)
{
    const uint16x8_t last = vld1q_u16(k->table_last);
    const int32x4_t first = vld1q_s32(k->table_first);
    uint16x4_t places[4];

    for (int32_t i = 0; i < 4; i++) {
        const int32x4_t x = k->chain & CHAIN_HOLDS ? vminq_s32(vmaxq_s32(sums[i], vld1q_s32(k->low)), vld1q_s32(k->high)) : sums[i];
        float32x4_t number = vfmaq_f32(vld1q_f32(k->scale_addends + 4 * i), vreinterpretq_f32_s32(x), vld1q_f32(k->scales + 4 * i));
        if (k->chain & CHAIN_NORMS)
            number = vfmaq_f32(vld1q_f32(k->out_addend), number, vld1q_f32(k->out_scale));
        places[i] = vqmovun_s32(vsubq_s32(vreinterpretq_s32_f32(number), first));
    }
    vst1q_u16(k->places, vminq_u16(vcombine_u16(places[0], places[1]), last));
    vst1q_u16(k->places + 8, vminq_u16(vcombine_u16(places[2], places[3]), last));
    k->pending = ATOM / 8;
    look_up_pending(k, target + ATOM);
}
