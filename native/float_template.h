/*
 * Floating point convolution, for any instruction set. The rule of the sums is that of npu/blocks/core.py: the products
 * of 32 channels at one position of the kernel are added one after the other, and what that gives is added to the
 * total; every addition is rounded to single precision. The order never depends on threads, tiles or instructions.
 *
 * The file that includes this one defines FLOAT_PIXELS, halves_to_floats (8 of them) and
 *
 *     floats, NF              NF vectors of floats are 16 channels
 *     floats_set, floats_load, floats_store, floats_add, floats_multiply, floats_multiply_add
 *     DEPTHWISE_VECTORS       how many of them are the sums of a depthwise convolution
 *
 * and where NF is 1, depthwise_weights(at, 0), 8 floats twice, and depthwise_store(sums, v, x), which stores vector v, two
 * pixels of 8 channels, in rows of 16.
 *
 * It may define halves_vector(at), which reads fp16 numbers as a vector of floats: then one pixel takes weights as they are.
 *
 * It may define FLOAT_PAIR_PIXELS, if there are registers for so many pixels by 32 channels: half as many inputs are
 * read for each product; OWN_FLOAT_PAIR is then a function for 8 lanes of a tap and 3 of a picture. It may define float_four, which holds four inputs of a pixel, four_load and four_multiply_add; or, with OWN_FLOAT_TILES,
 * the functions float_tile_1 and so on, which find totals in memory in any case, and picture_segment for 3 lanes.
 *
 * A product of two fp16 numbers has 22 bits, and is exact in single precision: an instruction that multiplies and adds
 * gives the same bits as two. A product of bf16 numbers may be too small for that, and takes two.
 */
#ifndef FOURS_OF_FLOATS
typedef const float32 *float_four;
#define four_load(at) (at)
#define four_multiply_add(w, four, lane, sum) floats_multiply_add(w, floats_set((four)[lane]), sum)
#endif

/* ---------------------------------------------------------------------------------------------- weights */

#ifndef sixteen_to_floats
#define sixteen_to_floats(at, out) (halves_to_floats(at, out), halves_to_floats((at) + 16, (out) + 8))
#endif

/* 16 weights as floats. */
ALWAYS_INLINE void load_weights(const uint16_t *at, const int32_t format, float32 *out)
{
    if (format == OPENRKNN_FP16)
        sixteen_to_floats((const uint8_t *)at, out);
    else
        for (int32_t i = 0; i < ATOM; i++)
            out[i] = bits_to_float((uint32_t)at[i] << 16);
}

/* Rows of the panel are `step` apart. */
static void float_panel(const uint16_t *weights, int32_t format, float32 *panel, int64_t rows, int64_t step)
{
    if (format == OPENRKNN_FP16)
        for (int64_t row = 0; row < rows; row++)
            load_weights(weights + row * ATOM, OPENRKNN_FP16, panel + row * step);
    else
        for (int64_t row = 0; row < rows; row++)
            load_weights(weights + row * ATOM, OPENRKNN_BF16, panel + row * step);
}

/* ---------------------------------------------------------------------------------------------- sums */

/* One register for all pixels, which are at constant distances: compilers keep an address of each, in memory. */
#define HIDE(pointer) __asm__("" : "+r"(pointer))

/*
 * Some pixels by 16 channels in registers, or by twice as many: the sum of a group of channels at one position. The
 * totals are in memory, where one addition of 32 goes. `used` lanes of four have weights, or all.
 */
ALWAYS_INLINE void float_tile(const float_task *task, int32_t first, const int32_t pixels, const int32_t atoms,
                              const int32_t lanes, const int32_t used, const int32_t is_fused)
{
    const uint8_t *input = task->input + first * lanes * (int32_t)sizeof(float32);
    const float32 *panel = task->panel;
    float32 *totals = task->sums + first * ATOM;
    int32_t goes_on = task->goes_on;

    for (int32_t tap = 0; tap < task->taps;) {
        floats sums[FLOAT_PIXELS][2 * NF];
        HIDE(totals);
        int32_t entry;
#pragma GCC unroll 16
        for (int32_t p = 0; p < pixels; p++)
#pragma GCC unroll 16
            for (int32_t v = 0; v < atoms * NF; v++)
                sums[p][v] = floats_set(0.0f);
        do {
            entry = task->list[tap++];
            const float32 *seen = (const float32 *)(input + task->offsets[tap_of(entry)]);
            HIDE(seen);
            if (pixels > 1) {
                /* Taps are far from each other: no processor guesses where the next ones are. */
                const uint8_t *later = input + task->offsets[tap_of(task->list[at_most(tap + 1, task->taps - 1)])];
#pragma GCC unroll 16
                for (int32_t p = 0; p < pixels; p += 2)
                    __builtin_prefetch(later + p * lanes * (int32_t)sizeof(float32));
            }
#pragma GCC unroll 2
            for (int32_t i = 0; i < lanes && i < used; i += 4) {
                float_four x[FLOAT_PIXELS];
#pragma GCC unroll 16
                for (int32_t p = 0; p < pixels; p++)
                    x[p] = four_load(seen + p * lanes + i);
#pragma GCC unroll 4
                for (int32_t k = 0; k < (used - i < 4 ? used - i : 4); k++) {
                    const float32 *row = panel + (i + k) * atoms * ATOM;
                    floats w[2 * NF];
#pragma GCC unroll 16
                    for (int32_t v = 0; v < atoms * NF; v++)
                        w[v] = floats_load(row + v * (16 / NF));
#pragma GCC unroll 16
                    for (int32_t p = 0; p < pixels; p++)
#pragma GCC unroll 16
                        for (int32_t v = 0; v < atoms * NF; v++)
                            sums[p][v] = is_fused
                                             ? four_multiply_add(w[v], x[p], k, sums[p][v])
                                             : floats_add(floats_multiply(w[v], floats_set(seen[p * lanes + i + k])),
                                                          sums[p][v]);
                }
            }
            panel += lanes * atoms * ATOM;
        } while (!ends_group(entry));
#pragma GCC unroll 16
        for (int32_t p = 0; p < pixels; p++)
#pragma GCC unroll 16
            for (int32_t v = 0; v < atoms * NF; v++) {
                float32 *total = totals + v / NF * FLOAT_ATOM_STEP + p * ATOM + v % NF * (16 / NF);
                floats_store(total, goes_on ? floats_add(floats_load(total), sums[p][v]) : sums[p][v]);
            }
        goes_on = 1;
    }
}

typedef void (*float_function)(const float_task *task, int32_t first);

/* ---------------------------------------------------------------------------------------------- one pixel */

#ifdef halves_vector
/*
 * As many products as weights: to read those is what takes time, and they become floats on their way. Each addition waits
 * for the one before it, so some blocks of 16 channels take turns.
 */
#define FLOAT_SINGLE float_single
enum { SINGLES = 4 };

ALWAYS_INLINE void single_blocks(const float_task *task, const uint16_t *weights, const int32_t blocks)
{
    enum { VECTOR_FLOATS = ATOM / NF, AHEAD = 1024 };
    const int64_t step = task->block_bytes / (int64_t)sizeof *weights;
    floats totals[SINGLES][NF];
    for (int32_t b = 0; b < blocks; b++)
        for (int32_t v = 0; v < NF; v++)
            totals[b][v] = floats_set(0.0f);
    for (int32_t tap = 0; tap < task->taps;) {
        floats sums[SINGLES][NF];
        int32_t entry;
#pragma GCC unroll 4
        for (int32_t b = 0; b < blocks; b++)
#pragma GCC unroll 4
            for (int32_t v = 0; v < NF; v++)
                sums[b][v] = floats_set(0.0f);
        do {
            entry = task->list[tap++];
            const float32 *seen = (const float32 *)(task->input + task->offsets[tap_of(entry)]);
#pragma GCC unroll 8
            for (int32_t k = 0; k < 8; k++, weights += ATOM) {
                const floats x = floats_set(seen[k]);
#pragma GCC unroll 4
                for (int32_t b = 0; b < blocks; b++) {
                    if (k % 2 == 0)
                        __builtin_prefetch(weights + b * step + AHEAD);
#pragma GCC unroll 4
                    for (int32_t v = 0; v < NF; v++)
                        sums[b][v] = floats_multiply_add(halves_vector(weights + b * step + v * VECTOR_FLOATS), x, sums[b][v]);
                }
            }
        } while (!ends_group(entry));
#pragma GCC unroll 4
        for (int32_t b = 0; b < blocks; b++)
#pragma GCC unroll 4
            for (int32_t v = 0; v < NF; v++)
                totals[b][v] = floats_add(totals[b][v], sums[b][v]);
    }
    for (int32_t b = 0; b < blocks; b++)
        for (int32_t v = 0; v < NF; v++)
            floats_store(task->sums + b * ATOM + v * VECTOR_FLOATS, totals[b][v]);
}

static void float_single(const float_task *task, const uint16_t *weights)
{
    if (task->blocks == 4)
        single_blocks(task, weights, 4);
    else if (task->blocks == 3)
        single_blocks(task, weights, 3);
    else if (task->blocks == 2)
        single_blocks(task, weights, 2);
    else
        single_blocks(task, weights, 1);
}
#elif defined(FLOAT_SINGLE)
enum { SINGLES = 1 };
#else
#define FLOAT_SINGLE NULL
enum { SINGLES = 0 };
#endif
#ifndef FLOAT_LONE
#define FLOAT_LONE NULL
#endif
#ifndef HALF_LONE
#define HALF_LONE NULL
#endif

#ifndef OWN_FLOAT_TILES
#define FLOAT_TILE(pixels)                                                                                             \
    static void float_tile_##pixels(const float_task *task, int32_t first)                                             \
    {                                                                                                                  \
        if (task->lanes == 8)                                                                                          \
            float_tile(task, first, pixels, 1, 8, 8, 1);                                                               \
        else                                                                                                           \
            float_tile(task, first, pixels, 1, 4, 4, 1);                                                               \
    }
FLOAT_TILE(1)
FLOAT_TILE(2)
#if FLOAT_PIXELS > 2
FLOAT_TILE(3)
FLOAT_TILE(4)
FLOAT_TILE(5)
#endif
#if FLOAT_PIXELS > 5
FLOAT_TILE(6)
#endif
#if FLOAT_PIXELS > 6
FLOAT_TILE(7)
FLOAT_TILE(8)
FLOAT_TILE(9)
FLOAT_TILE(10)
FLOAT_TILE(11)
FLOAT_TILE(12)
FLOAT_TILE(13)
FLOAT_TILE(14)
#endif
#endif

static const float_function float_functions[FLOAT_PIXELS + 1] = {
    NULL, float_tile_1, float_tile_2,
#if FLOAT_PIXELS > 2
    float_tile_3, float_tile_4, float_tile_5,
#endif
#if FLOAT_PIXELS > 5
    float_tile_6,
#endif
#if FLOAT_PIXELS > 6
    float_tile_7, float_tile_8, float_tile_9, float_tile_10, float_tile_11, float_tile_12, float_tile_13, float_tile_14,
#endif
};

static void float_segment(const float_task *task)
{
    if (!task->taps) {
        for (int32_t i = 0; !task->goes_on && i < task->pixels * ATOM; i++)
            task->sums[i] = 0.0f;
        return;
    }
    if (task->format == OPENRKNN_BF16) {
        for (int32_t pixel = 0; pixel < task->pixels; pixel++)
            float_tile(task, pixel, 1, 1, task->lanes, task->lanes, 0);
        return;
    }
#ifdef OWN_FLOAT_TILES
    if (!task->goes_on)
        memset(task->sums, 0, (size_t)task->pixels * ATOM * sizeof *task->sums);
    if (task->lanes == 4 && task->used_lanes == 3) {
        picture_segment(task);
        return;
    }
#endif
    const int32_t count = divide_up(task->pixels, FLOAT_PIXELS);
    for (int32_t part = 0; part < count; part++) {
        const int32_t first = part * task->pixels / count, end = (part + 1) * task->pixels / count;
        float_functions[end - first](task, first);
    }
}

#ifdef FLOAT_PAIR_PIXELS
#define FLOAT_PAIR float_pair

/* What the file has assembly for. */
#ifdef OWN_FLOAT_PAIR
#define USUAL_PAIR(...) (void)0
#else
#define OWN_FLOAT_PAIR(task) 0
#define USUAL_PAIR(...) float_tile(__VA_ARGS__)
#endif

#define PAIR_TILE(pixels)                                                                                              \
    static void pair_tile_##pixels(const float_task *task, int32_t first)                                              \
    {                                                                                                                  \
        if (task->lanes == 8)                                                                                          \
            if (task->used_lanes > 4)                                                                                  \
                USUAL_PAIR(task, first, pixels, 2, 8, 8, 1);                                                           \
            else if (task->used_lanes == 4)                                                                            \
                float_tile(task, first, pixels, 2, 8, 4, 1);                                                           \
            else                                                                                                       \
                float_tile(task, first, pixels, 2, 8, 3, 1);                                                           \
        else if (task->used_lanes == 4)                                                                                \
            float_tile(task, first, pixels, 2, 4, 4, 1);                                                               \
        else                                                                                                           \
            USUAL_PAIR(task, first, pixels, 2, 4, 3, 1);                                                               \
    }
PAIR_TILE(1)
PAIR_TILE(2)
PAIR_TILE(3)
PAIR_TILE(4)
PAIR_TILE(5)
PAIR_TILE(6)
PAIR_TILE(7)
PAIR_TILE(8)
PAIR_TILE(9)
PAIR_TILE(10)
PAIR_TILE(11)
PAIR_TILE(12)

static void float_pair(const float_task *task)
{
    static const float_function functions[FLOAT_PAIR_PIXELS + 1] = {
        NULL, pair_tile_1, pair_tile_2, pair_tile_3, pair_tile_4, pair_tile_5, pair_tile_6, pair_tile_7, pair_tile_8,
        pair_tile_9, pair_tile_10, pair_tile_11, pair_tile_12,
    };
    if (OWN_FLOAT_PAIR(task))
        return;
    const int32_t count = divide_up(task->pixels, FLOAT_PAIR_PIXELS);
    for (int32_t part = 0; part < count; part++) {
        const int32_t first = part * task->pixels / count, end = (part + 1) * task->pixels / count;
        functions[end - first](task, first);
    }
}
#else
#define FLOAT_PAIR NULL
#endif

/* ---------------------------------------------------------------------------------------------- depthwise */

/*
 * An atom of 8 channels of some pixels, which lie side by side; weights[tap][16]. A position is a group of one, so the sum is
 * added up in registers.
 */
enum {
    DEPTHWISE_PARTS = NF > 1 ? NF / 2 : 1, /* vectors of a pixel, or of two */
    DEPTHWISE_PIXELS = DEPTHWISE_VECTORS / DEPTHWISE_PARTS * (NF > 1 ? 1 : 2),
};

#ifndef depthwise_weights
#define depthwise_weights(at, part) floats_load((at) + (part) * (ATOM / NF))
#define depthwise_store(sums, v, x) floats_store((sums) + (v) / DEPTHWISE_PARTS * ATOM + (v) % DEPTHWISE_PARTS * (ATOM / NF), x)
#endif

ALWAYS_INLINE void depthwise_tile(const float_depthwise_task *task, int32_t atom, int32_t pixel, const int32_t vectors,
                                  const int32_t is_fused)
{
    const float32 *weights = (const float32 *)task->weights + atom * 8;
    floats sums[DEPTHWISE_VECTORS];
#pragma GCC unroll 16
    for (int32_t v = 0; v < vectors; v++)
        sums[v] = floats_set(0.0f);
    for (int32_t tap = 0; tap < task->taps; tap++, weights += ATOM) {
        const float32 *x = (const float32 *)(task->input[atom] + task->offsets[tap]) + pixel * 8;
        HIDE(x);
        floats w[DEPTHWISE_PARTS];
        for (int32_t part = 0; part < DEPTHWISE_PARTS; part++)
            w[part] = depthwise_weights(weights, part);
#pragma GCC unroll 16
        for (int32_t v = 0; v < vectors; v++) {
            const floats seen = floats_load(x + v * (ATOM / NF));
            sums[v] = is_fused ? floats_multiply_add(w[v % DEPTHWISE_PARTS], seen, sums[v])
                               : floats_add(floats_multiply(w[v % DEPTHWISE_PARTS], seen), sums[v]);
        }
    }
    float32 *to = task->sums + pixel * ATOM + atom * 8;
#pragma GCC unroll 16
    for (int32_t v = 0; v < vectors; v++)
        depthwise_store(to, v, sums[v]);
}

/* Where a vector has two pixels, the last one may lie behind the end: there is room for it in the input and the sums. */
ALWAYS_INLINE void depthwise_floats(const float_depthwise_task *task, const int32_t is_fused)
{
    enum { LEAST = NF > 1 ? 1 : 2, SOME = DEPTHWISE_PIXELS / 4 > LEAST ? DEPTHWISE_PIXELS / 4 : LEAST };
    _Static_assert(SEGMENT % 2 == 0, "room for a second pixel");
    for (int32_t atom = 0; atom < 2; atom++) {
        int32_t pixel = 0;
        for (; task->pixels - pixel >= DEPTHWISE_PIXELS; pixel += DEPTHWISE_PIXELS)
            depthwise_tile(task, atom, pixel, DEPTHWISE_VECTORS, is_fused);
        for (; task->pixels - pixel >= SOME; pixel += SOME)
            depthwise_tile(task, atom, pixel, SOME / LEAST * DEPTHWISE_PARTS, is_fused);
        for (; pixel < task->pixels; pixel += LEAST)
            depthwise_tile(task, atom, pixel, DEPTHWISE_PARTS, is_fused);
    }
}

static void float_depthwise(const float_depthwise_task *task)
{
    if (task->format == OPENRKNN_BF16)
        depthwise_floats(task, 0);
    else
        depthwise_floats(task, 1);
}
