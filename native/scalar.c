/* Kernels in plain C: for every processor, and to compare the others with. Weights are int16, corrections included. */
#include "internal.h"

/* ---------------------------------------------------------------------------------------------- convolution */

/* [tap][channel in][16 channels out] */
static int64_t block_bytes(int32_t taps, int32_t is_picture)
{
    return (int64_t)taps * (is_picture ? 4 : ATOM) * ATOM * (int64_t)sizeof(int16_t);
}

static void store(uint8_t *block, int32_t tap, int32_t is_picture, const int16_t *weights)
{
    int32_t lanes = is_picture ? 4 : ATOM;
    int16_t *out = (int16_t *)block + (int64_t)tap * lanes * ATOM;
    for (int32_t i = 0; i < lanes; i++)
        for (int32_t o = 0; o < ATOM; o++)
            out[i * ATOM + o] = weights[o * lanes + i];
}

static void segment(const segment_task *task)
{
    int32_t lanes = task->is_picture ? 4 : ATOM;
    for (int32_t pixel = 0; pixel < task->pixels; pixel++) {
        const int16_t *weights = (const int16_t *)task->weights;
        int32_t sums[ATOM] = {0};
        if (task->addends)
            memcpy(sums, task->addends, sizeof sums);
        for (int32_t tap = 0; tap < task->taps; tap++) {
            const int8_t *input = (const int8_t *)task->input + task->offsets[tap] + pixel * task->pixel_step;
            for (int32_t i = 0; i < lanes; i++, weights += ATOM) {
                const int16_t x = input[i]; /* compilers know 16 times 16 bits */
                for (int32_t o = 0; o < ATOM; o++)
                    sums[o] += x * weights[o];
            }
        }
        memcpy(task->sums + pixel * ATOM, sums, sizeof sums);
    }
}

/* [tap][16 channels] */
static int64_t strip_bytes(int32_t width)
{
    return (int64_t)width * ATOM * (int64_t)sizeof(int16_t);
}

static void store_strip(uint8_t *packed, int32_t width, const int16_t *weights, const int32_t *corrections)
{
    for (int32_t i = 0; i < width * ATOM; i++)
        ((int16_t *)packed)[i] = (int16_t)(weights[i] + corrections[i % ATOM]);
}

static void depthwise(const depthwise_task *task)
{
    for (int32_t pixel = 0; pixel < task->pixels; pixel++) {
        const int16_t *weights = (const int16_t *)task->weights;
        int32_t sums[ATOM] = {0};
        if (task->addends)
            memcpy(sums, task->addends, sizeof sums);
        for (int32_t strip = 0; strip < task->strips; strip++) {
            const int8_t *input = (const int8_t *)task->input + task->offsets[strip] + pixel * ATOM;
            for (int32_t i = 0; i < task->widths[strip]; i++, weights += ATOM, input += ATOM)
                for (int32_t lane = 0; lane < ATOM; lane++)
                    sums[lane] += (int16_t)input[lane] * weights[lane];
        }
        memcpy(task->sums + pixel * ATOM, sums, sizeof sums);
    }
}

/* ---------------------------------------------------------------------------------------------- chain */

enum { NV = 16, PX = 1, FUSED = 0, NF = 1 };
#define FLOAT_PIXELS 2
#define DEPTHWISE_VECTORS 2
#define depthwise_weights(at, part) floats_twice(at)
#define depthwise_store(sums, v, x)                                                                                    \
    (memcpy((sums) + 2 * (v) * ATOM, (x).lane, 8 * sizeof(float32)),                                                   \
     memcpy((sums) + (2 * (v) + 1) * ATOM, (x).lane + 8, 8 * sizeof(float32)))
typedef struct {
    int32_t lane[16];
} ints;
typedef double doubles;
typedef struct {
    float32 lane[16];
} floats;

#define LANES for (int32_t i = 0; i < 16; i++)

ALWAYS_INLINE ints ints_load(const int32_t *at)
{
    ints x;
    memcpy(&x, at, sizeof x);
    return x;
}

ALWAYS_INLINE floats floats_set(float32 value)
{
    floats x;
    LANES x.lane[i] = value;
    return x;
}

ALWAYS_INLINE floats floats_load(const float32 *at)
{
    floats x;
    memcpy(&x, at, sizeof x);
    return x;
}

ALWAYS_INLINE floats floats_twice(const float32 *at)
{
    floats x;
    memcpy(x.lane, at, 8 * sizeof *at);
    memcpy(x.lane + 8, at, 8 * sizeof *at);
    return x;
}

ALWAYS_INLINE void floats_store(float32 *at, floats x)
{
    memcpy(at, &x, sizeof x);
}

ALWAYS_INLINE floats floats_add(floats a, floats b)
{
    LANES a.lane[i] += b.lane[i];
    return a;
}

ALWAYS_INLINE floats floats_multiply(floats a, floats b)
{
    LANES a.lane[i] *= b.lane[i];
    return a;
}

/* Rounded twice: the same where the product is exact. */
ALWAYS_INLINE floats floats_multiply_add(floats a, floats b, floats c)
{
    LANES c.lane[i] = a.lane[i] * b.lane[i] + c.lane[i];
    return c;
}

ALWAYS_INLINE doubles doubles_set(double value)
{
    return value;
}

ALWAYS_INLINE doubles doubles_load(const double *at)
{
    return *at;
}

ALWAYS_INLINE doubles doubles_add(doubles a, doubles b)
{
    return a + b;
}

ALWAYS_INLINE doubles doubles_subtract(doubles a, doubles b)
{
    return a - b;
}

ALWAYS_INLINE doubles doubles_multiply(doubles a, doubles b)
{
    return a * b;
}

ALWAYS_INLINE doubles doubles_multiply_add(doubles a, doubles b, doubles c)
{
    return a * b + c;
}

ALWAYS_INLINE doubles doubles_max(doubles a, doubles b)
{
    return a > b ? a : b;
}

ALWAYS_INLINE doubles doubles_min(doubles a, doubles b)
{
    return a < b ? a : b;
}

ALWAYS_INLINE void load_sums(const int32_t *at, doubles *out)
{
    LANES out[i] = at[i];
}

ALWAYS_INLINE void load_bytes(const int8_t *at, doubles *out)
{
    LANES out[i] = at[i];
}

ALWAYS_INLINE ints low_words(const doubles *x)
{
    ints out;
    LANES {
        uint64_t bits;
        memcpy(&bits, &x[i], 8);
        out.lane[i] = (int32_t)(uint32_t)bits;
    }
    return out;
}

ALWAYS_INLINE void store_bytes(int8_t *at, const ints *x, int32_t low, int32_t high)
{
    LANES at[i] = (int8_t)at_most(at_least(x->lane[i], low), high);
}

ALWAYS_INLINE void look_up(int8_t *target, ints x, const openrknn_chain *chain)
{
    LANES {
        int32_t place = at_most(at_least(x.lane[i], chain->table_low), chain->table_high) - chain->table_low;
        uint32_t entry = chain->table[place >> chain->table_shift];
        int32_t is_after = (uint32_t)(place & ((1 << chain->table_shift) - 1)) >= entry >> 16;
        target[i] = (int8_t)(is_after ? entry >> 8 : entry);
    }
}

ALWAYS_INLINE void halves_to_floats(const uint8_t *at, float32 *out)
{
    uint16_t halves[8];
    memcpy(halves, at, sizeof halves);
    for (int32_t i = 0; i < 8; i++)
        out[i] = half_to_float(halves[i]);
}

ALWAYS_INLINE void floats_to_halves(const float32 *at, uint16_t *out)
{
    for (int32_t i = 0; i < 8; i++)
        out[i] = float_to_half(at[i]);
}

ALWAYS_INLINE void turn_floats(const float32 *from, float32 *to)
{
    for (int32_t row = 0; row < 16; row++)
        LANES to[row * 16 + i] = from[i * 16 + row];
}

#include "chain_template.h"
#include "float_template.h"
#include "general_template.h"
#include "pool_template.h"
#include "product_template.h"
#include "product_floats.h"

static void map(const int8_t *table, const uint8_t *source, uint8_t *target, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i++)
        target[i] = (uint8_t)table[source[i] ^ 0x80];
}

const kernel_set kernels_scalar = {
    .name = "scalar",
    .products = 2,
    .float_products = 2,
    .input_bytes = 1,
    .block = 1,
    .folds = 1,
    .block_bytes = block_bytes,
    .store = store,
    .segment = segment,
    .depthwise = depthwise,
    KERNELS_OF_TEMPLATES,
};
