/*
 * The DPU's chain behind a tile, in assembly, while its sums are in registers: what neon_singles.h does with sums from
 * memory. A sum begins with the bits of M, so that it is M + x as a float without another instruction.
 */

enum { TILE_PIXELS = 6 };

/* What all tiles of 16 channels know. The assembly has these places as numbers. */
typedef struct {
    int32_t addends[ATOM];       /* 0: what sums begin with */
    int32_t factors[ATOM];       /* 64: what is multiplied with sums of windows, */
    int16_t narrow_factors[ATOM]; /* 128: and the same in 16 bits */
    float32 scales[ATOM];        /* 160 */
    float32 scale_addends[ATOM]; /* 224: FMLA overwrites its addend, so that it is loaded each time */
    float32 out_scale[4];        /* 288 */
    float32 magic[4];            /* 304 */
    float32 out_addend[4];       /* 320 */
    int32_t low[4], high[4];     /* 336, 352: of sums */
    float32 add_scales[4];       /* 368: that of the operand, and that of the output */
    int32_t operand_base[4];     /* 384: the bits of M, with what is added to the operand before it is scaled, */
    float32 operand_addend[4];   /* 400: and after it, with -M */
    const int8_t *operand;       /* 416: of the next tile */
    int32_t windows;             /* 424: WINDOW_... */
    int32_t chain;               /* CHAIN_... */
    int32_t table_first[4];      /* 432: the bits of M + the number of the first byte of the table */
    uint16_t table_last[8];      /* 448: the place of its last byte */
    const uint8_t *table;        /* 464 */
    int32_t pending;             /* 472: of `places`: eights that have not been looked up */
    _Alignas(16) uint16_t places[TILE_PIXELS * ATOM]; /* 480: in the table, of the last tile */
} tile_constants;
_Static_assert(offsetof(tile_constants, out_scale) == 288 && offsetof(tile_constants, high) == 352 &&
                   offsetof(tile_constants, operand) == 416 && offsetof(tile_constants, windows) == 424 &&
                   offsetof(tile_constants, table) == 464 && offsetof(tile_constants, pending) == 472 &&
                    offsetof(tile_constants, places) == 480, "tile_constants");
_Static_assert(sizeof(tile_constants) <= CONSTANT_BYTES, "CONSTANT_BYTES");

/* What is done with sums: bits of a number that is negative if they are stored. */
enum { CHAIN_HOLDS = 1, CHAIN_SUBTRACTS = 2, CHAIN_IS_WIDE = 4, CHAIN_ADDS = 8, CHAIN_LOOKS_UP = 16, CHAIN_NORMS = 32, NO_CHAIN = -1 };

/* M + x is multiplied with the scale of NORM: this addend makes it M + the product. */
static double fused_norm(const openrknn_chain *chain)
{
    return SINGLE_MAGIC + chain->norm_addend - SINGLE_MAGIC * chain->norm_scale;
}

static int32_t is_float_exactly(double number)
{
    return (double)(float32)number == number;
}

/* Whether chains of this step can be run behind a tile: sums of the magnitude `limit` and addends must not wrap around. */
static int32_t fuses_chain(const openrknn_chain *chain, int64_t limit, int32_t channels)
{
    enum {
        IGNORED = OPENRKNN_CHAIN_LAST_CLAMP | OPENRKNN_CHAIN_OUT_FUSED | OPENRKNN_CHAIN_SCALE | OPENRKNN_CHAIN_SINGLE_CLAMP |
                  OPENRKNN_CHAIN_SINGLE_WIDE | OPENRKNN_CHAIN_ADD | OPENRKNN_CHAIN_ROUND_OPERAND,
        LARGEST = INT32_MAX - SINGLE_BITS,
        ROUNDED = 1 << 22,
    };
    if (chain->flags & OPENRKNN_CHAIN_TABLE) {
        const int32_t norms = chain->flags & OPENRKNN_CHAIN_SINGLE_NORM;
        if (!(chain->flags & OPENRKNN_CHAIN_SINGLE) || !chain->byte_table || (norms && !is_float_exactly(fused_norm(chain))))
            return 0;
    } else if ((chain->flags & ~IGNORED) != (OPENRKNN_CHAIN | OPENRKNN_CHAIN_SINGLE) || chain->byte_low != INT8_MIN ||
               chain->byte_high != INT8_MAX) {
        return 0;
    }
    int64_t largest = 0;
    for (int32_t i = 0; i < channels; i++) {
        const int64_t addend = chain->addends[i] < 0 ? -(int64_t)chain->addends[i] : chain->addends[i];
        largest = addend > largest ? addend : largest;
    }
    return limit + largest < ROUNDED ? 2 : limit + largest <= LARGEST;
}

/* What the chain leaves out where no sum of these channels is large enough for it. Bounds are a little larger than exact. */
static int32_t chain_kind(const openrknn_chain *chain, const int32_t *addends, const int32_t *magnitudes, const float32 *scales)
{
    const int32_t adds = chain->flags & OPENRKNN_CHAIN_ADD;
    const float32 more = 1.0f + 1.0f / 1024, word = 32767.0f, limit = (float32)chain->sum_limit;
    const float32 operand = adds ? (128 + fabsf(chain->operand_before)) * fabsf((float32)chain->operand_scale) + fabsf(chain->operand_after) + 1 : 0;
    float32 sum = 0, last = 0;
    if (!(chain->flags & (OPENRKNN_CHAIN_SINGLE_CLAMP | OPENRKNN_CHAIN_SINGLE_WIDE)))
        return 0;
    for (int32_t i = 0; i < ATOM; i += 4) {
        const float32x4_t addend = vabsq_f32(vcvtq_f32_s32(vld1q_s32(addends + i)));
        const float32x4_t largest = vaddq_f32(vmulq_n_f32(vcvtq_f32_s32(vld1q_s32(magnitudes + i)), 128), addend);
        const float32x4_t scaled = vmulq_f32(vminq_f32(largest, vdupq_n_f32(limit)), vabsq_f32(vld1q_f32(scales + i)));
        sum = fmaxf(sum, vmaxvq_f32(largest));
        last = fmaxf(last, vmaxvq_f32(scaled));
    }
    last = (last + 1 + operand) * fabsf((float32)chain->out_scale) + fabsf((float32)chain->out_addend) + 2;
    return (chain->flags & OPENRKNN_CHAIN_SINGLE_CLAMP && sum * more > limit ? CHAIN_HOLDS : 0) |
           (chain->flags & OPENRKNN_CHAIN_SINGLE_WIDE && last * more >= word ? CHAIN_IS_WIDE : 0);
}

/* The constants of the chain of 16 channels. */
static void prepare_chain(const openrknn_chain *chain, int32_t channel, const int32_t *magnitudes, tile_constants *k)
{
    const float32x4_t magic = vdupq_n_f32(SINGLE_MAGIC);
    const double fused = SINGLE_MAGIC + chain->out_addend - SINGLE_MAGIC * chain->out_scale;
    const int32_t adds = chain->flags & OPENRKNN_CHAIN_ADD, is_fused = !adds && is_float_exactly(fused);
    for (int32_t i = 0; i < 4; i++) {
        const int32_t at = channel + 4 * i;
        float32x4_t scales = vdupq_n_f32(1);
        if (chain->flags & OPENRKNN_CHAIN_SCALE)
            scales = vcvt_high_f32_f64(vcvt_f32_f64(vld1q_f64(chain->scales + at)), vld1q_f64(chain->scales + at + 2));
        vst1q_s32(k->addends + 4 * i, vaddq_s32(vld1q_s32(chain->addends + at), vdupq_n_s32(SINGLE_BITS)));
        vst1q_f32(k->scales + 4 * i, scales);
        vst1q_f32(k->scale_addends + 4 * i, vfmsq_f32(magic, magic, scales)); /* exact */
    }
    vst1q_f32(k->out_scale, vdupq_n_f32((float32)chain->out_scale));
    vst1q_f32(k->magic, magic);
    vst1q_f32(k->out_addend, vdupq_n_f32(is_fused ? (float32)fused : SINGLE_MAGIC + (float32)chain->out_addend));
    vst1q_s32(k->low, vdupq_n_s32(SINGLE_BITS - chain->sum_limit));
    vst1q_s32(k->high, vdupq_n_s32(SINGLE_BITS + chain->sum_limit));
    k->chain = chain_kind(chain, chain->addends + channel, magnitudes, k->scales) | (is_fused ? 0 : CHAIN_SUBTRACTS) | (adds ? CHAIN_ADDS : 0);
    vst1q_s32(k->operand_base, vdupq_n_s32(SINGLE_BITS + (int32_t)chain->operand_before));
    vst1q_f32(k->operand_addend, vdupq_n_f32(chain->operand_after - SINGLE_MAGIC));
    k->add_scales[0] = (float32)chain->operand_scale;
    k->add_scales[1] = (float32)chain->out_scale;
    if (chain->flags & OPENRKNN_CHAIN_TABLE) {
        vst1q_s32(k->table_first, vdupq_n_s32(SINGLE_BITS + chain->byte_table_low));
        vst1q_u16(k->table_last, vdupq_n_u16((uint16_t)chain->byte_table_last));
        k->table = chain->byte_table;
        k->chain |= CHAIN_LOOKS_UP;
        if (chain->flags & OPENRKNN_CHAIN_SINGLE_NORM) {
            vst1q_f32(k->out_scale, vdupq_n_f32((float32)chain->norm_scale));
            vst1q_f32(k->out_addend, vdupq_n_f32((float32)fused_norm(chain)));
            k->chain |= CHAIN_NORMS;
        }
    }
}

static void prepare_tiles(const block_task *task, void *constants)
{
    tile_constants *k = constants;
    k->windows = task->windows;
    k->chain = NO_CHAIN;
    k->pending = 0;
    for (int32_t i = 0; i < ATOM && task->windows; i++) {
        const float32 factor = (float32)task->factors[i];
        k->factors[i] = task->windows == WINDOW_FLOAT ? (int32_t)float_to_bits(factor) : task->factors[i];
        k->narrow_factors[i] = (int16_t)task->factors[i];
    }
    for (int32_t i = 0; i < ATOM; i++)
        k->addends[i] = task->addends ? task->addends[i] : 0;
    if (task->chain)
        prepare_chain(task->chain, task->channel, task->magnitudes, k);
    for (int32_t i = 0; i < ATOM && task->offsets; i++)
        k->addends[i] = (int32_t)((uint32_t)k->addends[i] + (uint32_t)task->offsets[i]);
}

/* ---------------------------------------------------------------------------------------------- in C */

/* The chain of `pixels` pixels of 16 sums each. Scales stay in registers, addends do not. */
ALWAYS_INLINE void fused_pixels(int32x4_t (*sums)[4], const int32_t pixels, int32_t stored, const tile_constants *k,
                                const int32_t kind, uint8_t *target)
{
    const float32x4_t scales[4] = {vld1q_f32(k->scales), vld1q_f32(k->scales + 4), vld1q_f32(k->scales + 8), vld1q_f32(k->scales + 12)};
    const float32x4_t out_scale = vld1q_f32(k->out_scale), magic = vdupq_n_f32(SINGLE_MAGIC);

    for (int32_t p = 0; p < pixels && p < stored; p++) {
        int16x8_t words[4];
        __asm__("" : "+r"(k)); /* FMLA overwrites its addend, and a load costs less than a move */
        for (int32_t i = 0; i < 4; i++) {
            int32x4_t x = sums[p][i];
            if (kind & CHAIN_HOLDS)
                x = vminq_s32(vmaxq_s32(x, vld1q_s32(k->low)), vld1q_s32(k->high));
            float32x4_t number = vfmaq_f32(vld1q_f32(k->scale_addends + 4 * i), vreinterpretq_f32_s32(x), scales[i]);
            if (kind & CHAIN_SUBTRACTS)
                number = vsubq_f32(number, magic);
            words[i] = vreinterpretq_s16_f32(vfmaq_f32(vld1q_f32(k->out_addend), number, out_scale));
        }
        int16x8_t a = vuzp1q_s16(words[0], words[1]), b = vuzp1q_s16(words[2], words[3]);
        if (kind & CHAIN_IS_WIDE) {
            a = vqmovn_high_s32(vqmovn_s32(single_whole(words[0])), single_whole(words[1]));
            b = vqmovn_high_s32(vqmovn_s32(single_whole(words[2])), single_whole(words[3]));
        }
        vst1q_s8((int8_t *)target + p * ATOM, vqmovn_high_s16(vqmovn_s16(a), b));
    }
}

/* ---------------------------------------------------------------------------------------------- in assembly */

/* For each pixel: its number and its four vectors of sums. */
#define ADD_WINDOW(p, a, b, c, d)                                                                                      \
    "ldr s4, [%[window], #4 * " #p "]\n"                                                                               \
    "mla v" #a ".4s, v0.4s, v4.s[0]\n"                                                                                 \
    "mla v" #b ".4s, v1.4s, v4.s[0]\n"                                                                                 \
    "mla v" #c ".4s, v2.4s, v4.s[0]\n"                                                                                 \
    "mla v" #d ".4s, v3.4s, v4.s[0]\n"
#define ADD_NARROW(p, a, b, c, d)                                                                                      \
    "ldr s4, [%[window], #4 * " #p "]\n"                                                                               \
    "smlal v" #a ".4s, v0.4h, v4.h[0]\n"                                                                               \
    "smlal2 v" #b ".4s, v0.8h, v4.h[0]\n"                                                                              \
    "smlal v" #c ".4s, v1.4h, v4.h[0]\n"                                                                               \
    "smlal2 v" #d ".4s, v1.8h, v4.h[0]\n"

#define ADD_FLOAT(p, a, b, c, d)                                                                                       \
    "ldr s4, [%[window], #4 * " #p "]\n"                                                                               \
    "fmla v" #a ".4s, v0.4s, v4.s[0]\n"                                                                                \
    "fmla v" #b ".4s, v1.4s, v4.s[0]\n"                                                                                \
    "fmla v" #c ".4s, v2.4s, v4.s[0]\n"                                                                                \
    "fmla v" #d ".4s, v3.4s, v4.s[0]\n"

#define HOLD_ONE(a) "smax v" #a ".4s, v" #a ".4s, v0.4s\nsmin v" #a ".4s, v" #a ".4s, v1.4s\n"
#define HOLD(p, a, b, c, d) HOLD_ONE(a) HOLD_ONE(b) HOLD_ONE(c) HOLD_ONE(d)

/* v0 ... v3: scales, v4: that of the output, v5: M. Two vectors, from sums to M + results. */
#define SCALE_TWO(a, b, k, l, at, between)                                                                             \
    "ldr q6, [%[constants], #" #at "]\n"                                                                               \
    "fmla v6.4s, v" #a ".4s, v" #k ".4s\n"                                                                             \
    "ldr q7, [%[constants], #" #at " + 16]\n"                                                                          \
    "fmla v7.4s, v" #b ".4s, v" #l ".4s\n"                                                                             \
    "ldr q" #a ", [%[constants], #320]\n"                                                                              \
    "ldr q" #b ", [%[constants], #320]\n" between                                                                      \
    "fmla v" #a ".4s, v6.4s, v4.4s\n"                                                                                  \
    "fmla v" #b ".4s, v7.4s, v4.4s\n"
#define SUBTRACT_TWO "fsub v6.4s, v6.4s, v5.4s\nfsub v7.4s, v7.4s, v5.4s\n"

#define NARROW(p, a, b, c, d)                                                                                          \
    "uzp1 v6.8h, v" #a ".8h, v" #b ".8h\n"                                                                             \
    "uzp1 v7.8h, v" #c ".8h, v" #d ".8h\n" START(p, a, b, c, d)
#define NARROW_WIDE(p, a, b, c, d)                                                                                     \
    "ldr q7, [%[constants], #304]\n"                                                                                   \
    "sub v" #a ".4s, v" #a ".4s, v7.4s\n"                                                                              \
    "sub v" #b ".4s, v" #b ".4s, v7.4s\n"                                                                              \
    "sub v" #c ".4s, v" #c ".4s, v7.4s\n"                                                                              \
    "sub v" #d ".4s, v" #d ".4s, v7.4s\n"                                                                              \
    "sqxtn v6.4h, v" #a ".4s\n"                                                                                        \
    "sqxtn v7.4h, v" #c ".4s\n"                                                                                        \
    "sqxtn2 v6.8h, v" #b ".4s\n"                                                                                       \
    "sqxtn2 v7.8h, v" #d ".4s\n" START(p, a, b, c, d)
#define PUT_BYTES(p)                                                                                                   \
    "sqxtn v6.8b, v6.8h\n"                                                                                             \
    "sqxtn2 v6.16b, v7.8h\n"                                                                                           \
    "str q6, [%[out], #16 * " #p "]\n"

/* Where sums begin. Those of the next tile are loaded as soon as their registers are free. */
#define START(p, a, b, c, d)                                                                                           \
    "ldr q" #a ", [%[constants]]\n"                                                                                    \
    "ldr q" #b ", [%[constants], #16]\n"                                                                               \
    "ldr q" #c ", [%[constants], #32]\n"                                                                               \
    "ldr q" #d ", [%[constants], #48]\n"

#define CHAIN_OF(p, a, b, c, d, between, narrow)                                                                       \
    SCALE_TWO(a, b, 0, 1, 224, between) SCALE_TWO(c, d, 2, 3, 256, between) narrow(p, a, b, c, d) PUT_BYTES(p)
#define CHAIN_PLAIN(p, a, b, c, d) CHAIN_OF(p, a, b, c, d, , NARROW)
#define CHAIN_SUBTRACT(p, a, b, c, d) CHAIN_OF(p, a, b, c, d, SUBTRACT_TWO, NARROW)
#define CHAIN_WIDE(p, a, b, c, d) CHAIN_OF(p, a, b, c, d, , NARROW_WIDE)
#define CHAIN_SUBTRACT_WIDE(p, a, b, c, d) CHAIN_OF(p, a, b, c, d, SUBTRACT_TWO, NARROW_WIDE)

/* With an operand: -M + e, to which M + x is added. v4: its scale and that of the output, v5: M + what is added before. */
#define ADD_ONE(p, a, i)                                                                                               \
    "ldr s6, [%[weights], #16 * " #p " + 4 * " #i "]\n"                                                                \
    "ldr q7, [%[constants], #304]\n"                                                                                   \
    "sxtl v6.8h, v6.8b\n"                                                                                              \
    "saddw v6.4s, v5.4s, v6.4h\n"                                                                                      \
    "fsub v6.4s, v6.4s, v7.4s\n"                                                                                       \
    "ldr q7, [%[constants], #400]\n"                                                                                   \
    "fmla v7.4s, v6.4s, v4.s[0]\n"                                                                                     \
    "ldr q6, [%[constants], #224 + 16 * " #i "]\n"                                                                     \
    "fmla v6.4s, v" #a ".4s, v" #i ".4s\n"                                                                             \
    "ldr q" #a ", [%[constants], #320]\n"                                                                              \
    "fadd v6.4s, v6.4s, v7.4s\n"                                                                                       \
    "fmla v" #a ".4s, v6.4s, v4.s[1]\n"
#define ADD_OF(p, a, b, c, d, narrow)                                                                                  \
    ADD_ONE(p, a, 0) ADD_ONE(p, b, 1) ADD_ONE(p, c, 2) ADD_ONE(p, d, 3) narrow(p, a, b, c, d) PUT_BYTES(p)
#define CHAIN_ADD(p, a, b, c, d) ADD_OF(p, a, b, c, d, NARROW)
#define CHAIN_ADD_WIDE(p, a, b, c, d) ADD_OF(p, a, b, c, d, NARROW_WIDE)

#define STORE(p, a, b, c, d)                                                                                           \
    "stp q" #a ", q" #b ", [%[out], #64 * " #p "]\n"                                                                   \
    "stp q" #c ", q" #d ", [%[out], #64 * " #p " + 32]\n" START(p, a, b, c, d)

/* Sums with what windows add to them: products of 32 bits take two cycles, those of 16 bits one. `windows` is a WINDOW_... */
#define ADD_WINDOWS(n, windows)                                                                                        \
    "cbz " windows ", 1f\n"                                                                                            \
    "ldp q0, q1, [%[constants], #64]\n"                                                                                \
    "ldp q2, q3, [%[constants], #96]\n"                                                                                \
    "tbz " windows ", #1, 0f\n"                                                                                        \
    "tbz " windows ", #0, 9f\n"                                                                                        \
    EACH_##n(ADD_FLOAT)                                                                                                \
    "b 1f\n"                                                                                                           \
    "0:\n"                                                                                                             \
    "ldp q0, q1, [%[constants], #128]\n"                                                                               \
    EACH_##n(ADD_NARROW)                                                                                               \
    "b 1f\n"                                                                                                           \
    "9:\n"                                                                                                             \
    EACH_##n(ADD_WINDOW)                                                                                               \
    "1:\n"

/* Sums held between limits if the chain needs it, and the scales. */
#define HOLD_SUMS(n, chain)                                                                                            \
    "tbz " chain ", #0, 0f\n"                                                                                          \
    "ldp q0, q1, [%[constants], #336]\n"                                                                               \
    EACH_##n(HOLD)                                                                                                     \
    "0:\n"                                                                                                             \
    "ldp q0, q1, [%[constants], #160]\n"                                                                               \
    "ldp q2, q3, [%[constants], #192]\n"

/* What follows the products of a tile. All tiles set `weights` again: here it is the place of the operand. */
#define FINISH(n)                                                                                                      \
    ADD_WINDOWS(n, "%w[windows]")                                                                                      \
    "tbnz %w[chain], #31, 9f\n"                                                                                        \
    HOLD_SUMS(n, "%w[chain]")                                                                                          \
    "tbnz %w[chain], #3, 7f\n"                                                                                         \
    "ldp q4, q5, [%[constants], #288]\n"                                                                               \
    "tbnz %w[chain], #2, 0f\n"                                                                                         \
    "tbnz %w[chain], #1, 1f\n"                                                                                         \
    EACH_##n(CHAIN_PLAIN)                                                                                              \
    "b 6f\n"                                                                                                           \
    "1:\n"                                                                                                             \
    EACH_##n(CHAIN_SUBTRACT)                                                                                           \
    "b 6f\n"                                                                                                           \
    "0:\n"                                                                                                             \
    "tbnz %w[chain], #1, 1f\n"                                                                                         \
    EACH_##n(CHAIN_WIDE)                                                                                               \
    "b 6f\n"                                                                                                           \
    "1:\n"                                                                                                             \
    EACH_##n(CHAIN_SUBTRACT_WIDE)                                                                                      \
    "b 6f\n"                                                                                                           \
    "7:\n"                                                                                                             \
    "ldp q4, q5, [%[constants], #368]\n"                                                                               \
    "ldr %[weights], [%[constants], #416]\n"                                                                           \
    "tbnz %w[chain], #2, 0f\n"                                                                                         \
    EACH_##n(CHAIN_ADD)                                                                                                \
    "b 8f\n"                                                                                                           \
    "0:\n"                                                                                                             \
    EACH_##n(CHAIN_ADD_WIDE)                                                                                           \
    "8:\n"                                                                                                             \
    "add %[weights], %[weights], #16 * " #n "\n"                                                                       \
    "str %[weights], [%[constants], #416]\n"                                                                           \
    "b 6f\n"                                                                                                           \
    "9:\n"                                                                                                             \
    EACH_##n(STORE)                                                                                                    \
    "6:\n"
