/*
 * The DPU's chain in single precision (openrknn.h: SINGLE), where doubles need twice as many vectors. A rounded number is
 * M + x with M = 1.5 * 2^23, whose lower bits are x. The file that includes this one defines, beside chain_template.h's and
 * float_template.h's names,
 *
 *     words, words_set, words_load, words_add, words_subtract, words_max, words_min     NF of them are 16 int32
 *     words_of_bytes(at, v)        vector v of 16 bytes, as words
 *     words_as_floats, words_bits  of the numbers; of the bits of floats
 *     floats_of_doubles(at)        a vector of floats from as many doubles
 *     floats_most, floats_least    the second number where one is NaN: no sum is
 *     floats_are_less(a, b)        in all lanes
 *     SINGLE_PX, single_store(at, x, low, high, stored)    atoms worked on at the same time; the first `stored` of them as bytes
 *     places_store(at, x, last)    an atom as 16 unsigned numbers of 16 bits between 0 and `last`
 *
 * and with chain_adds_windows: words_dot(sums, a, b), which adds two products of 16 bits to each word, words_and, words_or
 * and words_shifted(x, bits).
 */
enum { SINGLE_BITS = 0x4b400000, SINGLE_LANES = ATOM / NF }; /* of M; floats of a vector */
#define SINGLE_MAGIC 12582912.0f
#define EACH_PART _Pragma("GCC unroll 2") for (int32_t v = 0; v < NF; v++)

/* What all pixels of an atom share. */
typedef struct {
    floats scale[NF];
    words factors[NF], addends[NF];
    float32 norm, norm_addend, middle_low, middle_high;
    float32 operand, operand_before, operand_addend, out, out_addend; /* OUT_FUSED: with -M * out */
    int32_t low, high, byte_low, byte_high;
} single_factors;

/* What is added to M + x, times the scale of the output. */
ALWAYS_INLINE double single_fused(const openrknn_chain *chain)
{
    return SINGLE_MAGIC + chain->out_addend - SINGLE_MAGIC * chain->out_scale;
}

/* Whether no sum of these channels reaches the limit. Bounds are a little larger than exact. */
ALWAYS_INLINE int32_t single_holds(const chain_task *task)
{
    const floats limit = floats_set((float32)task->chain->sum_limit * (1.0f - 1.0f / 1024));
    int32_t holds = 1;
    EACH_PART
    {
        const floats addends = floats_abs(words_as_floats(words_load(task->chain->addends + task->channel + v * SINGLE_LANES)));
        const floats magnitudes = words_as_floats(words_load(task->magnitudes + v * SINGLE_LANES));
        holds &= floats_are_less(floats_multiply_add(magnitudes, floats_set(128.0f), addends), limit);
    }
    return holds;
}

ALWAYS_INLINE single_factors single_start(const chain_task *task, const int32_t flags, const int32_t has_bytes)
{
    const openrknn_chain *chain = task->chain;
    single_factors k;
    k.norm = (float32)chain->norm_scale;
    k.norm_addend = SINGLE_MAGIC + (float32)chain->norm_addend;
    k.middle_low = (float32)chain->middle_low;
    k.middle_high = (float32)chain->middle_high;
    k.operand = (float32)chain->operand_scale;
    k.operand_before = chain->operand_before;
    k.operand_addend = SINGLE_MAGIC + chain->operand_after;
    k.out = (float32)chain->out_scale;
    k.out_addend = flags & OPENRKNN_CHAIN_OUT_FUSED ? (float32)single_fused(chain) : SINGLE_MAGIC + (float32)chain->out_addend;
    k.low = -chain->sum_limit;
    k.high = chain->sum_limit;
    k.byte_low = chain->byte_low;
    k.byte_high = chain->byte_high;
    EACH_PART
    {
        const int32_t channel = task->channel + v * SINGLE_LANES;
        k.scale[v] = flags & OPENRKNN_CHAIN_SCALE ? floats_of_doubles(chain->scales + channel) : floats_set(0.0f);
        k.addends[v] = has_bytes ? words_load(chain->addends + channel) : words_set(0);
        k.factors[v] = words_set(0);
#ifdef words_dot
        if (task->window) { /* f * (w % 128) + f * 128 * (w / 128) */
            const words f = words_load(task->factors + v * SINGLE_LANES);
            k.factors[v] = words_or(words_and(f, words_set(0xffff)), words_shifted(f, 16 + WINDOW_LOW_BITS));
        }
#endif
    }
    return k;
}

/* The number before the stages that follow the scales, without M; OUT_FUSED: with M. */
ALWAYS_INLINE floats single_scaled(words x, floats scale, const single_factors *k, const int32_t flags)
{
    if (flags & OPENRKNN_CHAIN_SINGLE_CLAMP)
        x = words_min(words_max(x, words_set(k->low)), words_set(k->high));
    const floats number = words_as_floats(x), magic = floats_set(SINGLE_MAGIC);
    if (flags & OPENRKNN_CHAIN_SINGLE_WHOLE)
        return floats_multiply(number, scale);
    if (flags & OPENRKNN_CHAIN_OUT_FUSED)
        return floats_multiply_add(number, scale, magic);
    return flags & OPENRKNN_CHAIN_SCALE ? floats_subtract(floats_multiply_add(number, scale, magic), magic) : number;
}

/* M + x as x. */
ALWAYS_INLINE words single_whole(floats x)
{
    return words_subtract(words_bits(x), words_set(SINGLE_BITS));
}

/* `e`: the bytes of the operand. */
ALWAYS_INLINE words single_result(floats x, words bytes, const single_factors *k, const int32_t flags)
{
    const floats magic = floats_set(SINGLE_MAGIC);
    if (flags & OPENRKNN_CHAIN_NORM)
        x = floats_subtract(floats_multiply_add(x, floats_set(k->norm), floats_set(k->norm_addend)), magic);
    if (flags & OPENRKNN_CHAIN_MIDDLE_CLAMP)
        x = floats_least(floats_most(x, floats_set(k->middle_low)), floats_set(k->middle_high));
    if (flags & CHAIN_OPERANDS) {
        const floats moved = floats_add(words_as_floats(bytes), floats_set(k->operand_before));
        const floats e = floats_subtract(floats_multiply_add(moved, floats_set(k->operand), floats_set(k->operand_addend)), magic);
        if (flags & OPENRKNN_CHAIN_ADD)
            x = floats_add(x, e);
        if (flags & OPENRKNN_CHAIN_MAX)
            x = floats_most(x, e);
        if (flags & OPENRKNN_CHAIN_MIN)
            x = floats_least(x, e);
    }
    return single_whole(floats_multiply_add(x, floats_set(k->out), floats_set(k->out_addend)));
}

/* Part `v` of the sums of pixel `p`, or of its bytes and the addends. */
ALWAYS_INLINE words single_load(const chain_task *task, int32_t p, const int32_t v, const single_factors *k, const int32_t has_bytes)
{
    if (has_bytes)
        return words_add(words_of_bytes(task->bytes + p * ATOM, v), k->addends[v]);
    const words sums = words_load(task->sums + p * ATOM + v * SINGLE_LANES);
#ifdef words_dot
    return task->window ? words_dot(sums, k->factors[v], words_set(task->window[p])) : sums;
#else
    return sums;
#endif
}

/* Some pixels, of which `stored` are there: of the others nothing is read. */
ALWAYS_INLINE void single_atoms(const chain_task *task, int32_t p, const int32_t stored, int32_t operand_step,
                                const single_factors *k, const int32_t flags, const int32_t has_bytes)
{
    words x[SINGLE_PX][NF];
    _Pragma("GCC unroll 4") for (int32_t i = 0; i < SINGLE_PX; i++) EACH_PART
    {
        x[i][v] = words_set(0);
        if (i >= stored)
            continue;
        const int8_t *operand = task->operand + (p + i) * operand_step;
        const words bytes = flags & CHAIN_OPERANDS ? words_of_bytes(operand, v) : words_set(0);
        x[i][v] = single_result(single_scaled(single_load(task, p + i, v, k, has_bytes), k->scale[v], k, flags), bytes, k, flags);
    }
    single_store((int8_t *)task->target + p * ATOM, x, k->byte_low, k->byte_high, stored);
}

ALWAYS_INLINE void single_pixels(const chain_task *given, const int32_t flags, const int32_t has_bytes)
{
    const chain_task task = *given; /* a store of bytes could change anything that has an address */
    const single_factors k = single_start(&task, flags, has_bytes);
    const int32_t operand_step = task.operand_is_fixed ? 0 : ATOM, pixels = task.pixels;
    int32_t p = 0;
    for (; p + SINGLE_PX <= pixels; p += SINGLE_PX)
        single_atoms(&task, p, SINGLE_PX, operand_step, &k, flags, has_bytes);
    if (p < pixels)
        single_atoms(&task, p, pixels - p, operand_step, &k, flags, has_bytes);
}

/* The bits of M + a place in a table. */
ALWAYS_INLINE words single_place(words x, floats scale, const single_factors *k, const int32_t flags)
{
    if (flags & OPENRKNN_CHAIN_SINGLE_NORM)
        return words_bits(floats_multiply_add(single_scaled(x, scale, k, flags), floats_set(k->norm), floats_set(k->norm_addend)));
    if (flags & OPENRKNN_CHAIN_SCALE)
        return words_bits(single_scaled(x, scale, k, flags | OPENRKNN_CHAIN_OUT_FUSED));
    return words_bits(floats_add(single_scaled(x, scale, k, flags), floats_set(SINGLE_MAGIC)));
}

/* Four bytes of a table. A load of each place takes fewer instructions than one load that is then taken apart. */
ALWAYS_INLINE uint32_t single_look_up(const uint8_t *table, const uint16_t *places)
{
    return table[places[0]] | (uint32_t)table[places[1]] << 8 | (uint32_t)table[places[2]] << 16 | (uint32_t)table[places[3]] << 24;
}

/* First the places of all bytes in the table, then the bytes, one by one: gathers of words take longer. */
ALWAYS_INLINE void single_table(const chain_task *given, const int32_t flags, const int32_t has_bytes)
{
    const chain_task task = *given;
    const single_factors k = single_start(&task, flags, has_bytes);
    const uint8_t *table = task.chain->byte_table;
    const words first = words_set(SINGLE_BITS + task.chain->byte_table_low);
    const int32_t last = task.chain->byte_table_last;
    uint16_t places[SEGMENT * ATOM] __attribute__((aligned(64)));
    uint8_t *target = task.target;

    for (int32_t done = 0; done < task.pixels; done += SEGMENT) {
        const int32_t pixels = at_most(SEGMENT, task.pixels - done);
        for (int32_t p = 0; p < pixels; p++) {
            words x[NF];
            EACH_PART x[v] = words_subtract(single_place(single_load(&task, done + p, v, &k, has_bytes), k.scale[v], &k, flags), first);
            places_store(places + p * ATOM, x, last);
        }
        for (int32_t i = 0; i < pixels * ATOM; i += 4, target += 4) {
            const uint32_t bytes = single_look_up(table, places + i);
            memcpy(target, &bytes, sizeof bytes);
        }
    }
}

static void single_tables(const chain_task *task, int32_t flags)
{
    const int32_t scale = flags & (OPENRKNN_CHAIN_SCALE | OPENRKNN_CHAIN_SINGLE_CLAMP | OPENRKNN_CHAIN_SINGLE_NORM);
    if (task->bytes)
        single_table(task, scale, 1);
    else if (scale == OPENRKNN_CHAIN_SCALE)
        single_table(task, OPENRKNN_CHAIN_SCALE, 0);
    else if (scale == (OPENRKNN_CHAIN_SCALE | OPENRKNN_CHAIN_SINGLE_CLAMP))
        single_table(task, OPENRKNN_CHAIN_SCALE | OPENRKNN_CHAIN_SINGLE_CLAMP, 0);
    else
        single_table(task, scale, 0);
}

/* The programs that most tasks have get loops of their own. */
static void single_run(const chain_task *task)
{
    enum {
        IGNORED = OPENRKNN_CHAIN_SINGLE | OPENRKNN_CHAIN_LAST_CLAMP | OPENRKNN_CHAIN_OUT_FUSED | OPENRKNN_CHAIN_NORM_FUSED |
                  OPENRKNN_CHAIN_ROUND_OPERAND | OPENRKNN_CHAIN_SINGLE_WIDE,
        PLAIN = OPENRKNN_CHAIN | OPENRKNN_CHAIN_SCALE,
        ADDED = PLAIN | OPENRKNN_CHAIN_ADD,
        CLAMP = OPENRKNN_CHAIN_SINGLE_CLAMP,
        FUSED_OUT = PLAIN | OPENRKNN_CHAIN_OUT_FUSED, /* here: without a subtraction of M in between */
    };
    const openrknn_chain *chain = task->chain;
    int32_t flags = chain->flags & ~IGNORED;

    /* Tables that are too long for a byte of each number stay with doubles: gathers are what takes their time. */
    if (!(chain->flags & OPENRKNN_CHAIN_SINGLE) || (chain->flags & OPENRKNN_CHAIN_TABLE && !chain->byte_table)) {
        chain_run(task);
        return;
    }
    if (flags & CLAMP && task->magnitudes && single_holds(task))
        flags &= ~CLAMP;
    if (flags & OPENRKNN_CHAIN_TABLE)
        single_tables(task, flags);
    else if (task->bytes)
        single_pixels(task, flags, 1);
    else if ((flags & ~CLAMP) == PLAIN && (double)(float32)single_fused(chain) == single_fused(chain)) {
        if (flags & CLAMP)
            single_pixels(task, FUSED_OUT | CLAMP, 0);
        else
            single_pixels(task, FUSED_OUT, 0);
    } else if (flags == ADDED)
        single_pixels(task, ADDED, 0);
    else if (flags == (ADDED | CLAMP))
        single_pixels(task, ADDED | CLAMP, 0);
    else
        single_pixels(task, flags, 0);
}

#undef CHAIN_KERNEL
#define CHAIN_KERNEL single_run
