/*
 * The DPU's chain in single precision (openrknn.h: SINGLE): two multiply-adds of four numbers start in each cycle, while
 * a product of four integers takes two cycles. A number x is M + x on its way, with M = 1.5 * 2^23: the bits of x are
 * then the lower ones of the float, and an addition of integers or a narrowing makes one of the other.
 */
enum { SINGLE_BITS = 0x4b400000 }; /* of M */
#define SINGLE_MAGIC 12582912.0f

/* FMLA overwrites its addend. It is loaded again each time: that costs less than a move between registers. */
typedef struct {
    float32 sum[ATOM], norm[4], operand[4], out[4];
} single_addends;

/* What all pixels of an atom share. */
typedef struct {
    float32x4_t sum[4];
    float32x4_t norm, operand, operand_before, out, middle_low, middle_high;
    int32x4_t low, high;
} single_factors;

ALWAYS_INLINE single_factors single_start(const openrknn_chain *chain, int32_t channel, single_addends *addends,
                                          const int32_t flags)
{
    const float32x4_t magic = vdupq_n_f32(SINGLE_MAGIC);
    single_factors k = {.norm = vdupq_n_f32((float32)chain->norm_scale)};
    for (int32_t i = 0; i < 4 && flags & OPENRKNN_CHAIN_SCALE; i++) {
        const double *scales = chain->scales + channel + 4 * i;
        k.sum[i] = vcvt_high_f32_f64(vcvt_f32_f64(vld1q_f64(scales)), vld1q_f64(scales + 2));
        vst1q_f32(addends->sum + 4 * i, vfmsq_f32(magic, magic, k.sum[i])); /* exact */
    }
    vst1q_f32(addends->norm, vdupq_n_f32(SINGLE_MAGIC + (float32)chain->norm_addend));
    vst1q_f32(addends->operand, vdupq_n_f32(SINGLE_MAGIC + chain->operand_after));
    vst1q_f32(addends->out, vdupq_n_f32(SINGLE_MAGIC + (float32)chain->out_addend));
    k.operand = vdupq_n_f32((float32)chain->operand_scale);
    k.operand_before = vdupq_n_f32(SINGLE_MAGIC - chain->operand_before);
    k.out = vdupq_n_f32((float32)chain->out_scale);
    k.middle_low = vdupq_n_f32((float32)chain->middle_low);
    k.middle_high = vdupq_n_f32((float32)chain->middle_high);
    k.low = vdupq_n_s32(-chain->sum_limit);
    k.high = vdupq_n_s32(chain->sum_limit);
    return k;
}

/* M + what SCALE leaves, or the number itself where scales are whole numbers. */
ALWAYS_INLINE float32x4_t single_scaled(int32x4_t x, const single_factors *k, const single_addends *addends, int32_t i,
                                        const int32_t flags)
{
    if (flags & OPENRKNN_CHAIN_SINGLE_CLAMP)
        x = vminq_s32(vmaxq_s32(x, k->low), k->high);
    const float32x4_t number = vreinterpretq_f32_s32(vaddq_s32(x, vdupq_n_s32(SINGLE_BITS)));
    if (flags & OPENRKNN_CHAIN_SINGLE_WHOLE)
        return vmulq_f32(vsubq_f32(number, vdupq_n_f32(SINGLE_MAGIC)), k->sum[i]);
    return flags & OPENRKNN_CHAIN_SCALE ? vfmaq_f32(vld1q_f32(addends->sum + 4 * i), number, k->sum[i]) : number;
}

/* EW and the output converter of four numbers; `operand` is M + e. The lower half of each word is the result. */
ALWAYS_INLINE int16x8_t single_result(float32x4_t x, float32x4_t operand, const single_factors *k,
                                      const single_addends *addends, const int32_t flags)
{
    const float32x4_t magic = vdupq_n_f32(SINGLE_MAGIC);
    if (!(flags & OPENRKNN_CHAIN_SINGLE_WHOLE))
        x = vsubq_f32(x, magic);
    if (flags & OPENRKNN_CHAIN_NORM)
        x = vsubq_f32(vfmaq_f32(vld1q_f32(addends->norm), x, k->norm), magic);
    if (flags & OPENRKNN_CHAIN_MIDDLE_CLAMP)
        x = vminq_f32(vmaxq_f32(x, k->middle_low), k->middle_high);
    if (flags & CHAIN_OPERANDS) {
        const float32x4_t e = vsubq_f32(
            vfmaq_f32(vld1q_f32(addends->operand), vsubq_f32(operand, k->operand_before), k->operand), magic);
        if (flags & OPENRKNN_CHAIN_ADD)
            x = vaddq_f32(x, e);
        if (flags & OPENRKNN_CHAIN_MAX)
            x = vmaxq_f32(x, e);
        if (flags & OPENRKNN_CHAIN_MIN)
            x = vminq_f32(x, e);
    }
    return vreinterpretq_s16_f32(vfmaq_f32(vld1q_f32(addends->out), x, k->out));
}

ALWAYS_INLINE int32x4_t single_whole(int16x8_t words)
{
    return vsubq_s32(vreinterpretq_s32_s16(words), vdupq_n_s32(SINGLE_BITS));
}

/* The inputs are bytes with addends, or sums. */
ALWAYS_INLINE void single_inputs(chain_task *task, const openrknn_chain *chain, const int32_t has_bytes, int32x4_t *sum_addends)
{
    if (!has_bytes)
        task->bytes = NULL;
    for (int32_t i = 0; i < 4; i++)
        sum_addends[i] = has_bytes ? vld1q_s32(chain->addends + task->channel + 4 * i) : vdupq_n_s32(0);
}

/* Bytes as M + byte, or as sums with these addends: x must be M then. */
ALWAYS_INLINE void single_bytes(const int8_t *at, const int32x4_t *addends, int32x4_t *x)
{
    const int8x16_t bytes = vld1q_s8(at);
    const int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_high_s8(bytes);
    x[0] = vaddw_s16(addends[0], vget_low_s16(low));
    x[1] = vaddw_high_s16(addends[1], low);
    x[2] = vaddw_s16(addends[2], vget_low_s16(high));
    x[3] = vaddw_high_s16(addends[3], high);
}

ALWAYS_INLINE void single_load(const chain_task *task, int32_t pixel, const int32x4_t *addends, int32x4_t *x)
{
    if (task->bytes)
        single_bytes(task->bytes + pixel * ATOM, addends, x);
    else
        for (int32_t i = 0; i < 4; i++)
            x[i] = vld1q_s32(task->sums + pixel * ATOM + 4 * i);
}

ALWAYS_INLINE void single_pixels(const chain_task *given, const int32_t flags, const int32_t has_bytes)
{
    /* Copies, because a store of bytes could change anything that has an address. */
    const openrknn_chain chain = *given->chain;
    chain_task task = *given;
    single_addends store, *addends = &store;
    const single_factors k = single_start(&chain, task.channel, addends, flags);
    const int32_t operand_step = task.operand_is_fixed ? 0 : ATOM;
    const int32x4_t magic[4] = {vdupq_n_s32(SINGLE_BITS), vdupq_n_s32(SINGLE_BITS), vdupq_n_s32(SINGLE_BITS), vdupq_n_s32(SINGLE_BITS)};
    const int8x16_t low = vdupq_n_s8((int8_t)chain.byte_low), high = vdupq_n_s8((int8_t)chain.byte_high);
    int32x4_t sum_addends[4];

    single_inputs(&task, &chain, has_bytes, sum_addends);
    for (int32_t pixel = 0; pixel < task.pixels; pixel++, task.target += ATOM) {
        int32x4_t x[4], e[4] = {magic[0], magic[0], magic[0], magic[0]};
        int16x8_t words[4];
        __asm__("" : "+r"(addends)); /* the compiler would keep them in registers */
        single_load(&task, pixel, sum_addends, x);
        if (flags & CHAIN_OPERANDS)
            single_bytes(task.operand + pixel * operand_step, magic, e);
        for (int32_t i = 0; i < 4; i++)
            words[i] = single_result(single_scaled(x[i], &k, addends, i, flags), vreinterpretq_f32_s32(e[i]), &k, addends, flags);
        int16x8_t a = vuzp1q_s16(words[0], words[1]), b = vuzp1q_s16(words[2], words[3]);
        if (flags & OPENRKNN_CHAIN_SINGLE_WIDE) {
            a = vqmovn_high_s32(vqmovn_s32(single_whole(words[0])), single_whole(words[1]));
            b = vqmovn_high_s32(vqmovn_s32(single_whole(words[2])), single_whole(words[3]));
        }
        const int8x16_t bytes = vqmovn_high_s16(vqmovn_s16(a), b);
        vst1q_s8((int8_t *)task.target, vminq_s8(vmaxq_s8(bytes, low), high));
    }
}

/* Four bytes of a table. */
ALWAYS_INLINE uint32_t single_look_up(const uint8_t *table, const uint16_t *index)
{
    uint64_t four;
    memcpy(&four, index, sizeof four);
    return table[four & 0xffff] | (uint32_t)table[four >> 16 & 0xffff] << 8 | (uint32_t)table[four >> 32 & 0xffff] << 16 |
           (uint32_t)table[four >> 48] << 24;
}

/* The bits of M + a place in a table. */
ALWAYS_INLINE int32x4_t single_place(int32x4_t x, const single_factors *k, const single_addends *addends, int32_t i,
                                     const int32_t flags)
{
    float32x4_t number = single_scaled(x, k, addends, i, flags);
    if (flags & OPENRKNN_CHAIN_SINGLE_NORM)
        number = vfmaq_f32(vld1q_f32(addends->norm), vsubq_f32(number, vdupq_n_f32(SINGLE_MAGIC)), k->norm);
    return vreinterpretq_s32_f32(number);
}

/* First the places of all bytes in the table, then the bytes: no load waits for what was just computed. */
ALWAYS_INLINE void single_table(const chain_task *given, const int32_t flags, const int32_t has_bytes)
{
    const openrknn_chain chain = *given->chain;
    chain_task task = *given;
    single_addends store, *addends = &store;
    const single_factors k = single_start(&chain, task.channel, addends, flags);
    const int32x4_t first = vdupq_n_s32(SINGLE_BITS + chain.byte_table_low);
    const uint16x8_t last = vdupq_n_u16((uint16_t)chain.byte_table_last);
    uint16_t places[SEGMENT * ATOM];
    int32x4_t sum_addends[4];

    single_inputs(&task, &chain, has_bytes, sum_addends);
    for (int32_t done = 0; done < task.pixels; done += SEGMENT) {
        const int32_t pixels = at_most(SEGMENT, task.pixels - done);
        for (int32_t pixel = 0; pixel < pixels; pixel++) {
            int32x4_t x[4];
            uint16x4_t narrow[4];
            __asm__("" : "+r"(addends));
            single_load(&task, done + pixel, sum_addends, x);
            for (int32_t i = 0; i < 4; i++)
                narrow[i] = vqmovun_s32(vsubq_s32(single_place(x[i], &k, addends, i, flags), first));
            vst1q_u16(places + pixel * ATOM, vminq_u16(vcombine_u16(narrow[0], narrow[1]), last));
            vst1q_u16(places + pixel * ATOM + 8, vminq_u16(vcombine_u16(narrow[2], narrow[3]), last));
        }
        for (int32_t i = 0; i < pixels * ATOM; i += 4, task.target += 4) {
            const uint32_t bytes = single_look_up(chain.byte_table, places + i);
            memcpy(task.target, &bytes, sizeof bytes);
        }
    }
}

/* The same for tables that are too long for a byte of each number. */
ALWAYS_INLINE void single_long_table(const chain_task *given, const int32_t flags, const int32_t has_bytes)
{
    const openrknn_chain chain = *given->chain;
    chain_task task = *given;
    single_addends store, *addends = &store;
    const single_factors k = single_start(&chain, task.channel, addends, flags);
    const int32x4_t low = vdupq_n_s32(chain.table_low), high = vdupq_n_s32(chain.table_high), shift = vdupq_n_s32(-chain.table_shift);
    const uint32x4_t mask = vdupq_n_u32((1u << chain.table_shift) - 1);
    uint32_t places[SEGMENT * ATOM], entries[SEGMENT * ATOM];
    int32x4_t sum_addends[4];

    single_inputs(&task, &chain, has_bytes, sum_addends);
    for (int32_t done = 0; done < task.pixels; done += SEGMENT) {
        const int32_t pixels = at_most(SEGMENT, task.pixels - done);
        for (int32_t pixel = 0; pixel < pixels; pixel++) {
            int32x4_t x[4];
            __asm__("" : "+r"(addends));
            single_load(&task, done + pixel, sum_addends, x);
            for (int32_t i = 0; i < 4; i++) {
                const int32x4_t number = single_whole(vreinterpretq_s16_s32(single_place(x[i], &k, addends, i, flags)));
                const uint32x4_t held = vreinterpretq_u32_s32(vsubq_s32(vminq_s32(vmaxq_s32(number, low), high), low));
                vst1q_u32(places + pixel * ATOM + 4 * i, vandq_u32(held, mask));
                vst1q_u32(entries + pixel * ATOM + 4 * i, vshlq_u32(held, shift));
            }
        }
        for (int32_t i = 0; i < pixels * ATOM; i++)
            entries[i] = chain.table[entries[i]];
        for (int32_t pixel = 0; pixel < pixels; pixel++, task.target += ATOM) {
            uint16x4_t halves[4];
            for (int32_t i = 0; i < 4; i++) {
                const uint32x4_t entry = vld1q_u32(entries + pixel * ATOM + 4 * i);
                const uint32x4_t is_after = vcgeq_u32(vld1q_u32(places + pixel * ATOM + 4 * i), vshrq_n_u32(entry, 16));
                halves[i] = vmovn_u32(vbslq_u32(is_after, vshrq_n_u32(entry, 8), entry));
            }
            vst1q_u8(task.target, vcombine_u8(vmovn_u16(vcombine_u16(halves[0], halves[1])), vmovn_u16(vcombine_u16(halves[2], halves[3]))));
        }
    }
}

/* The programs that most tasks have get loops of their own. */
static void single_run(const chain_task *task)
{
    enum {
        IGNORED = OPENRKNN_CHAIN_SINGLE | OPENRKNN_CHAIN_LAST_CLAMP | OPENRKNN_CHAIN_OUT_FUSED | OPENRKNN_CHAIN_NORM_FUSED |
                  OPENRKNN_CHAIN_ROUND_OPERAND,
        PLAIN = OPENRKNN_CHAIN | OPENRKNN_CHAIN_SCALE,
        ADDED = PLAIN | OPENRKNN_CHAIN_ADD,
        CLAMP = OPENRKNN_CHAIN_SINGLE_CLAMP,
    };
    const int32_t flags = task->chain->flags & ~IGNORED;

    if (flags & OPENRKNN_CHAIN_TABLE) {
        const int32_t scale = flags & (OPENRKNN_CHAIN_SCALE | OPENRKNN_CHAIN_SINGLE_CLAMP | OPENRKNN_CHAIN_SINGLE_NORM);
        if (task->bytes && task->chain->byte_table)
            single_table(task, scale, 1);
        else if (task->bytes)
            single_long_table(task, scale, 1);
        else if (!task->chain->byte_table)
            single_long_table(task, scale, 0);
        else if (scale == OPENRKNN_CHAIN_SCALE)
            single_table(task, OPENRKNN_CHAIN_SCALE, 0);
        else if (scale == (OPENRKNN_CHAIN_SCALE | OPENRKNN_CHAIN_SINGLE_NORM))
            single_table(task, OPENRKNN_CHAIN_SCALE | OPENRKNN_CHAIN_SINGLE_NORM, 0);
        else
            single_table(task, scale, 0);
    } else if (task->bytes) {
        if (flags == (ADDED | OPENRKNN_CHAIN_SINGLE_WHOLE))
            single_pixels(task, ADDED | OPENRKNN_CHAIN_SINGLE_WHOLE, 1);
        else
            single_pixels(task, flags, 1);
    } else if (flags == PLAIN) {
        single_pixels(task, PLAIN, 0);
    } else if (flags == (PLAIN | CLAMP)) {
        single_pixels(task, PLAIN | CLAMP, 0);
    } else if (flags == ADDED) {
        single_pixels(task, ADDED, 0);
    } else if (flags == (ADDED | CLAMP)) {
        single_pixels(task, ADDED | CLAMP, 0);
    } else {
        single_pixels(task, flags, 0);
    }
}

static void neon_chain(const chain_task *task)
{
    if (task->chain->flags & OPENRKNN_CHAIN_SINGLE)
        single_run(task);
    else
        chain_run(task);
}

#undef CHAIN_KERNEL
#define CHAIN_KERNEL neon_chain
