/*
 * The DPU's chain (openrknn.h tells what it is), for any instruction set. The file that includes this one defines
 *
 *     doubles, ints           NV vectors of doubles, or one ints (16 of int32), are an atom of 16 channels
 *     NV, PX                  vectors per atom; atoms that are worked on at the same time
 *     FUSED                   whether doubles_multiply_add rounds once
 *     doubles_set, doubles_load, doubles_add, doubles_subtract, doubles_multiply, doubles_multiply_add, doubles_max,
 *     doubles_min, load_sums, load_bytes, low_words, store_bytes, look_up
 */

/* 1.5 * 2^52: from here to 2^53 doubles are the integers, so that an addition rounds, ties to even. */
#define MAGIC 6755399441055744.0

/* For every vector of the atoms in flight. */
#define EACH                                                                                                           \
    _Pragma("GCC unroll 4") for (int32_t p = 0; p < PX; p++) _Pragma("GCC unroll 16") for (int32_t v = 0; v < NV; v++)

enum {
    CHAIN_OPERANDS = OPENRKNN_CHAIN_ADD | OPENRKNN_CHAIN_MULTIPLY | OPENRKNN_CHAIN_MAX | OPENRKNN_CHAIN_MIN,
};

/* r = x + MAGIC before and after. */
ALWAYS_INLINE void chain_operand(doubles r[PX][NV], const int8_t *operand, int32_t step, const openrknn_chain *chain,
                                 const int32_t flags)
{
    const doubles magic = doubles_set(MAGIC), scale = doubles_set(chain->operand_scale);
    const doubles addend = doubles_set(chain->operand_addend);
    doubles e[PX][NV];

    for (int32_t p = 0; p < PX; p++)
        load_bytes(operand + p * step, e[p]);
    EACH e[p][v] = doubles_multiply_add(e[p][v], scale, addend);
    if (flags & OPENRKNN_CHAIN_ROUND_OPERAND)
        EACH e[p][v] = doubles_subtract(doubles_add(e[p][v], magic), magic);
    if (flags & OPENRKNN_CHAIN_ADD)
        EACH r[p][v] = doubles_add(r[p][v], e[p][v]);
    if (flags & OPENRKNN_CHAIN_MULTIPLY)
        EACH r[p][v] = doubles_add(doubles_multiply(doubles_subtract(r[p][v], magic), e[p][v]), magic);
    if (flags & OPENRKNN_CHAIN_MAX)
        EACH r[p][v] = doubles_max(r[p][v], doubles_add(e[p][v], magic));
    if (flags & OPENRKNN_CHAIN_MIN)
        EACH r[p][v] = doubles_min(r[p][v], doubles_add(e[p][v], magic));
}

/* PX atoms. `x` are the doubles of the sums or bytes. */
ALWAYS_INLINE void chain_atoms(doubles x[PX][NV], const openrknn_chain *chain, const doubles *scales,
                               const int8_t *operand, int32_t operand_step, int8_t *target, const int32_t flags)
{
    const doubles magic = doubles_set(MAGIC);
    ints words[PX];

    if (flags & OPENRKNN_CHAIN_SCALE)
        EACH x[p][v] = doubles_multiply_add(x[p][v], scales[v], magic);
    else
        EACH x[p][v] = doubles_add(x[p][v], magic);
    if (flags & OPENRKNN_CHAIN_NORM) {
        const doubles scale = doubles_set(chain->norm_scale), addend = doubles_set(chain->norm_addend);
        if (FUSED && flags & OPENRKNN_CHAIN_NORM_FUSED)
            EACH x[p][v] = doubles_multiply_add(x[p][v], scale, doubles_set(chain->norm_fused));
        else /* the sum is exact before the addition that rounds */
            EACH x[p][v] =
                doubles_add(doubles_multiply_add(doubles_subtract(x[p][v], magic), scale, addend), magic);
    }
    if (flags & OPENRKNN_CHAIN_MIDDLE_CLAMP)
        EACH x[p][v] = doubles_min(doubles_max(x[p][v], doubles_set(MAGIC + chain->middle_low)),
                                   doubles_set(MAGIC + chain->middle_high));
    if (flags & OPENRKNN_CHAIN_TABLE) {
        _Pragma("GCC unroll 4") for (int32_t p = 0; p < PX; p++)
            look_up(target + p * ATOM, low_words(x[p]), chain);
        return;
    }
    if (flags & CHAIN_OPERANDS)
        chain_operand(x, operand, operand_step, chain, flags);
    if (flags & OPENRKNN_CHAIN_LAST_CLAMP)
        EACH x[p][v] = doubles_min(doubles_max(x[p][v], doubles_set(MAGIC + chain->last_low)),
                                   doubles_set(MAGIC + chain->last_high));
    if (FUSED && flags & OPENRKNN_CHAIN_OUT_FUSED)
        EACH x[p][v] = doubles_multiply_add(x[p][v], doubles_set(chain->out_scale), doubles_set(chain->out_fused));
    else
        EACH x[p][v] = doubles_multiply_add(doubles_subtract(x[p][v], magic), doubles_set(chain->out_scale),
                                            doubles_set(MAGIC + chain->out_addend));
    _Pragma("GCC unroll 4") for (int32_t p = 0; p < PX; p++)
        words[p] = low_words(x[p]);
    store_bytes(target, words, chain->byte_low, chain->byte_high);
}

ALWAYS_INLINE void chain_pixels(const chain_task *task, const int32_t flags, const int32_t has_bytes)
{
    /* A copy, because a store of bytes could change anything that has an address. */
    const openrknn_chain chain = *task->chain;
    const int32_t operand_step = task->operand_is_fixed ? 0 : ATOM, pixels = task->pixels;
    const int32_t *sums = task->sums;
    const int8_t *bytes = task->bytes, *operand = task->operand;
    int8_t *target = (int8_t *)task->target;
    doubles scales[NV], addends[NV], x[PX][NV];
    int32_t pixel = 0;

    for (int32_t v = 0; v < NV; v++)
        scales[v] = addends[v] = doubles_set(1.0);
    if (flags & OPENRKNN_CHAIN_SCALE)
        for (int32_t v = 0; v < NV; v++)
            scales[v] = doubles_load(chain.scales + task->channel + v * (16 / NV));
    if (has_bytes)
        load_sums(chain.addends + task->channel, addends);
    for (; pixel + PX <= pixels; pixel += PX) {
        for (int32_t p = 0; p < PX; p++)
            if (has_bytes)
                load_bytes(bytes + (pixel + p) * ATOM, x[p]);
            else
                load_sums(sums + (pixel + p) * 16, x[p]);
        if (has_bytes)
            EACH x[p][v] = doubles_add(x[p][v], addends[v]);
        chain_atoms(x, &chain, scales, operand + pixel * operand_step, operand_step, target + pixel * ATOM, flags);
    }
    if (PX > 1 && pixel < pixels) {
        /* The last atoms, in a corner of their own: nothing beyond the end is read or written. */
        int8_t seen[PX * ATOM] = {0}, other[PX * ATOM] = {0}, result[PX * ATOM];
        size_t size = (size_t)(pixels - pixel) * ATOM;
        if (flags & CHAIN_OPERANDS)
            memcpy(other, operand + pixel * operand_step, operand_step ? size : ATOM);
        if (has_bytes)
            memcpy(seen, bytes + pixel * ATOM, size);
        for (int32_t p = 0; p < PX; p++)
            if (has_bytes)
                load_bytes(seen + p * ATOM, x[p]);
            else
                load_sums(sums + (pixel + p < pixels ? pixel + p : pixel) * 16, x[p]);
        if (has_bytes)
            EACH x[p][v] = doubles_add(x[p][v], addends[v]);
        chain_atoms(x, &chain, scales, other, operand_step, result, flags);
        memcpy(target + pixel * ATOM, result, size);
    }
}

/* The programs that most tasks have get loops of their own. */
static void chain_run(const chain_task *task)
{
    enum {
        PLAIN = OPENRKNN_CHAIN | OPENRKNN_CHAIN_SCALE | OPENRKNN_CHAIN_OUT_FUSED,
        LOOKED_UP = OPENRKNN_CHAIN | OPENRKNN_CHAIN_SCALE | OPENRKNN_CHAIN_NORM | OPENRKNN_CHAIN_NORM_FUSED | OPENRKNN_CHAIN_TABLE,
        ADDED = PLAIN | OPENRKNN_CHAIN_ADD,
    };
    const int32_t flags = task->chain->flags & ~OPENRKNN_CHAIN_SINGLES;

    if (task->bytes) {
        if (flags == ADDED)
            chain_pixels(task, ADDED, 1);
        else
            chain_pixels(task, flags, 1);
    } else if (flags == PLAIN) {
        chain_pixels(task, PLAIN, 0);
    } else if (flags == LOOKED_UP) {
        chain_pixels(task, LOOKED_UP, 0);
    } else if (flags == ADDED) {
        chain_pixels(task, ADDED, 0);
    } else {
        chain_pixels(task, flags, 0);
    }
}

#define CHAIN_KERNEL chain_run
