/*
 * Kernels for AVX2 and FMA. Inputs are widened to int16 and weights are int16 with their corrections, because the
 * 8-bit multiplication of AVX2 saturates; VPMADDWD multiplies two inputs of a pixel with 8 channels by two inputs.
 */
#include <immintrin.h>

#include "internal.h"

enum { MOST_PIXELS = 6 };

/* 16 sums of one pixel. */
typedef struct {
    __m256i low, high;
} sums16;

/* Two instructions in one: of additions that it may put in another order, a compiler puts the products first, in memory. */
ALWAYS_INLINE __m256i add_products(__m256i sum, __m256i a, __m256i b)
{
    __m256i products;
    __asm__("vpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0" : "+x"(sum), "=&x"(products) : "x"(a), "x"(b));
    return sum;
}

ALWAYS_INLINE sums16 sums_start(const int32_t *addends)
{
    sums16 sums = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    if (addends) {
        sums.low = _mm256_loadu_si256((const __m256i *)addends);
        sums.high = _mm256_loadu_si256((const __m256i *)(addends + 8));
    }
    return sums;
}

ALWAYS_INLINE void sums_store(int32_t *at, sums16 sums)
{
    _mm256_storeu_si256((__m256i *)at, sums.low);
    _mm256_storeu_si256((__m256i *)(at + 8), sums.high);
}

/* ---------------------------------------------------------------------------------------------- convolution */

/* [tap][pair of inputs][16 channels out][2 inputs] */
static int64_t block_bytes(int32_t taps, int32_t is_picture)
{
    return (int64_t)taps * (is_picture ? 4 : ATOM) * ATOM * (int64_t)sizeof(int16_t);
}

static void store(uint8_t *block, int32_t tap, int32_t is_picture, const int16_t *weights)
{
    int32_t lanes = is_picture ? 4 : ATOM;
    int16_t *out = (int16_t *)block + (int64_t)tap * lanes * ATOM;
    for (int32_t pair = 0; pair < lanes / 2; pair++)
        for (int32_t o = 0; o < ATOM; o++)
            for (int32_t i = 0; i < 2; i++)
                out[(pair * ATOM + o) * 2 + i] = weights[o * lanes + pair * 2 + i];
}

ALWAYS_INLINE void tile(const segment_task *task, int32_t first, const int32_t pixels, const int32_t pairs)
{
    const int32_t step = pairs * 4;
    const uint8_t *weights = task->weights, *input = task->input + first * step;
    sums16 sums[MOST_PIXELS];

#pragma GCC unroll 8
    for (int32_t p = 0; p < pixels; p++)
        sums[p] = sums_start(task->addends);
    for (int32_t tap = 0; tap < task->taps; tap++) {
        const uint8_t *seen = input + task->offsets[tap];
#pragma GCC unroll 8
        for (int32_t pair = 0; pair < pairs; pair++, weights += 64) {
            const __m256i low = _mm256_loadu_si256((const __m256i *)weights);
            const __m256i high = _mm256_loadu_si256((const __m256i *)(weights + 32));
#pragma GCC unroll 8
            for (int32_t p = 0; p < pixels; p++) {
                int32_t two;
                memcpy(&two, seen + p * step + pair * 4, 4);
                const __m256i x = _mm256_set1_epi32(two);
                sums[p].low = add_products(sums[p].low, low, x);
                sums[p].high = add_products(sums[p].high, high, x);
            }
        }
    }
#pragma GCC unroll 8
    for (int32_t p = 0; p < pixels; p++)
        sums_store(task->sums + (first + p) * ATOM, sums[p]);
}

typedef void (*tile_function)(const segment_task *task, int32_t first);

#define TILE(pixels)                                                                                                   \
    static void tile_##pixels(const segment_task *task, int32_t first) { tile(task, first, pixels, 8); }               \
    static void picture_##pixels(const segment_task *task, int32_t first) { tile(task, first, pixels, 2); }
TILE(1)
TILE(2)
TILE(3)
TILE(4)
TILE(5)
TILE(6)

static void segment(const segment_task *task)
{
    static const tile_function tiles[2][MOST_PIXELS] = {
        {tile_1, tile_2, tile_3, tile_4, tile_5, tile_6},
        {picture_1, picture_2, picture_3, picture_4, picture_5, picture_6},
    };
    int32_t count = divide_up(task->pixels, MOST_PIXELS);
    for (int32_t part = 0; part < count; part++) {
        int32_t first = part * task->pixels / count, end = (part + 1) * task->pixels / count;
        tiles[task->is_picture][end - first - 1](task, first);
    }
}

/* ---------------------------------------------------------------------------------------------- depthwise */

/*
 * Two neighbouring inputs are interleaved, so that VPMADDWD is two taps. Interleaving leaves the channels in the order
 * 0-3, 8-11, 4-7, 12-15; the weights have it too. A strip: [pair of taps][16 channels in that order][2 taps]
 */
static const int32_t order[ATOM] = {0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15};

static int64_t strip_bytes(int32_t width)
{
    return (int64_t)divide_up(width, 2) * 2 * ATOM * (int64_t)sizeof(int16_t);
}

static void store_strip(uint8_t *packed, int32_t width, const int16_t *weights, const int32_t *corrections)
{
    int16_t *out = (int16_t *)packed;
    for (int32_t pair = 0; pair < divide_up(width, 2); pair++)
        for (int32_t lane = 0; lane < ATOM; lane++)
            for (int32_t i = 0; i < 2; i++) {
                int32_t tap = pair * 2 + i, channel = order[lane];
                *out++ = tap < width ? (int16_t)(weights[tap * ATOM + channel] + corrections[channel]) : 0;
            }
}

/* From the order of interleaving to that of channels, and back. */
ALWAYS_INLINE sums16 reorder(sums16 sums)
{
    sums16 result = {
        _mm256_permute2x128_si256(sums.low, sums.high, 0x20),
        _mm256_permute2x128_si256(sums.low, sums.high, 0x31),
    };
    return result;
}

ALWAYS_INLINE void depthwise_pixels(const depthwise_task *task, const int32_t width)
{
    const int32_t step = ATOM * (int32_t)sizeof(int16_t);
    const sums16 start = reorder(sums_start(task->addends));

    for (int32_t p = 0; p < task->pixels; p++) {
        const uint8_t *weights = task->weights;
        sums16 sums = start;
        for (int32_t strip = 0; strip < task->strips; strip++) {
            const uint8_t *input = task->input + task->offsets[strip] + p * step;
            const int32_t taps = width ? width : task->widths[strip];
#pragma GCC unroll 4
            for (int32_t tap = 0; tap < taps; tap += 2, weights += 64) {
                /* Beyond the last tap anything may stand: its weight is 0. */
                __m256i a = _mm256_loadu_si256((const __m256i *)(input + tap * step));
                __m256i b = tap + 1 < taps ? _mm256_loadu_si256((const __m256i *)(input + (tap + 1) * step)) : a;
                const __m256i low = _mm256_loadu_si256((const __m256i *)weights);
                const __m256i high = _mm256_loadu_si256((const __m256i *)(weights + 32));
                sums.low = add_products(sums.low, _mm256_unpacklo_epi16(a, b), low);
                sums.high = add_products(sums.high, _mm256_unpackhi_epi16(a, b), high);
            }
        }
        sums_store(task->sums + p * ATOM, reorder(sums));
    }
}

static void depthwise(const depthwise_task *task)
{
    int32_t is_regular = 1;
    for (int32_t strip = 1; strip < task->strips; strip++)
        is_regular &= task->widths[strip] == task->widths[0];
    if (is_regular && task->widths[0] == 3)
        depthwise_pixels(task, 3);
    else if (is_regular && task->widths[0] == 5)
        depthwise_pixels(task, 5);
    else
        depthwise_pixels(task, 0);
}

/* ---------------------------------------------------------------------------------------------- chain */

enum { NV = 4, PX = 1, FUSED = 1, NF = 2 };
#define FLOAT_PIXELS 6
#define DEPTHWISE_VECTORS 8
typedef struct {
    __m256i low, high;
} ints;
typedef __m256d doubles;
typedef __m256 floats;
#define halves_vector(at) _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(at)))

#define floats_set(value) _mm256_set1_ps(value)
#define floats_load(at) _mm256_loadu_ps(at)
#define floats_store(at, x) _mm256_storeu_ps(at, x)
#define floats_add(a, b) _mm256_add_ps(a, b)
#define floats_multiply(a, b) _mm256_mul_ps(a, b)
#define floats_multiply_add(a, b, c) _mm256_fmadd_ps(a, b, c)

#define doubles_set(value) _mm256_set1_pd(value)
#define doubles_load(at) _mm256_loadu_pd(at)
#define doubles_add(a, b) _mm256_add_pd(a, b)
#define doubles_subtract(a, b) _mm256_sub_pd(a, b)
#define doubles_multiply(a, b) _mm256_mul_pd(a, b)
#define doubles_multiply_add(a, b, c) _mm256_fmadd_pd(a, b, c)
#define doubles_max(a, b) _mm256_max_pd(a, b)
#define doubles_min(a, b) _mm256_min_pd(a, b)

ALWAYS_INLINE void load_sums(const int32_t *at, doubles *out)
{
#pragma GCC unroll 4
    for (int32_t i = 0; i < 4; i++)
        out[i] = _mm256_cvtepi32_pd(_mm_loadu_si128((const __m128i *)(at + 4 * i)));
}

ALWAYS_INLINE void load_bytes(const int8_t *at, doubles *out)
{
#pragma GCC unroll 4
    for (int32_t i = 0; i < 4; i++) {
        int32_t four;
        memcpy(&four, at + 4 * i, 4);
        out[i] = _mm256_cvtepi32_pd(_mm_cvtepi8_epi32(_mm_cvtsi32_si128(four)));
    }
}

/* The lower halves of 8 doubles. */
ALWAYS_INLINE __m256i low_eight(doubles a, doubles b)
{
    __m256 halves = _mm256_shuffle_ps(_mm256_castpd_ps(a), _mm256_castpd_ps(b), 0x88);
    return _mm256_permute4x64_epi64(_mm256_castps_si256(halves), 0xd8);
}

ALWAYS_INLINE ints low_words(const doubles *x)
{
    ints words = {low_eight(x[0], x[1]), low_eight(x[2], x[3])};
    return words;
}

ALWAYS_INLINE void store_bytes(int8_t *at, const ints *x, int32_t low, int32_t high)
{
    __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(x->low, x->high), 0xd8);
    __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    bytes = _mm_min_epi8(_mm_max_epi8(bytes, _mm_set1_epi8((char)low)), _mm_set1_epi8((char)high));
    _mm_storeu_si128((__m128i *)at, bytes);
}

/* 8 bytes in the low bytes of 8 words. */
ALWAYS_INLINE __m256i look_up_eight(__m256i x, const openrknn_chain *chain)
{
    const __m256i low = _mm256_set1_epi32(chain->table_low), high = _mm256_set1_epi32(chain->table_high);
    const __m256i mask = _mm256_set1_epi32((1 << chain->table_shift) - 1), byte = _mm256_set1_epi32(0xff);
    const __m128i shift = _mm_cvtsi32_si128(chain->table_shift);
    __m256i place = _mm256_sub_epi32(_mm256_min_epi32(_mm256_max_epi32(x, low), high), low);
    __m256i entry = _mm256_i32gather_epi32((const int *)chain->table, _mm256_srl_epi32(place, shift), 4);
    __m256i is_before = _mm256_cmpgt_epi32(_mm256_srli_epi32(entry, 16), _mm256_and_si256(place, mask));
    __m256i value = _mm256_blendv_epi8(_mm256_srli_epi32(entry, 8), entry, is_before);
    return _mm256_and_si256(value, byte);
}

ALWAYS_INLINE void look_up(int8_t *target, ints x, const openrknn_chain *chain)
{
    __m256i words = _mm256_packus_epi32(look_up_eight(x.low, chain), look_up_eight(x.high, chain));
    words = _mm256_permute4x64_epi64(words, 0xd8);
    __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128((__m128i *)target, bytes);
}

#include "x86_halves.h"
#include "avx2_halves.h"

/* ---------------------------------------------------------------------------------------------- products of matrices */

#define PRODUCT_OFFSET 0
typedef __m256i product_bytes, product_sums;

#define product_load(at) _mm256_loadu_si256((const __m256i *)(at))
#define product_none() _mm256_setzero_si256()

ALWAYS_INLINE product_sums product_add(product_sums sums, product_bytes a, product_bytes b)
{
    const __m256i low_a = _mm256_cvtepi8_epi16(_mm256_castsi256_si128(a)), low_b = _mm256_cvtepi8_epi16(_mm256_castsi256_si128(b));
    const __m256i high_a = _mm256_cvtepi8_epi16(_mm256_extracti128_si256(a, 1));
    const __m256i high_b = _mm256_cvtepi8_epi16(_mm256_extracti128_si256(b, 1));
    return add_products(add_products(sums, low_a, low_b), high_a, high_b);
}

#include "x86_product.h"

#include "chain_template.h"
#include "avx2_singles.h"
#include "half_dpu.h"
#include "half_pixel.h"
#include "float_template.h"
#include "general_template.h"
#include "pool_template.h"
#include "product_template.h"
#include "product_floats.h"

/* 16 times 16 entries: the upper half of a byte says which register, the lower half which entry. */
static void map(const int8_t *table, const uint8_t *source, uint8_t *target, int64_t bytes)
{
    const __m256i low = _mm256_set1_epi8(0x0f);
    int64_t at = 0;
    for (; at + 32 <= bytes; at += 32) {
        __m256i x = _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)(source + at)), _mm256_set1_epi8((char)0x80));
        __m256i entry = _mm256_and_si256(x, low), part = _mm256_and_si256(_mm256_srli_epi16(x, 4), low);
        __m256i result = _mm256_setzero_si256();
#pragma GCC unroll 16
        for (int32_t i = 0; i < 16; i++) {
            __m256i entries = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(table + i * 16)));
            __m256i is_here = _mm256_cmpeq_epi8(part, _mm256_set1_epi8((char)i));
            result = _mm256_or_si256(result, _mm256_and_si256(is_here, _mm256_shuffle_epi8(entries, entry)));
        }
        _mm256_storeu_si256((__m256i *)(target + at), result);
    }
    for (; at < bytes; at++)
        target[at] = (uint8_t)table[source[at] ^ 0x80];
}

const kernel_set kernels_avx2 = {
    .name = "avx2",
    .products = 40,
    .float_products = 20,
    .needs = OPENRKNN_CPU_AVX2 | OPENRKNN_CPU_F16C,
    .input_bytes = 2,
    .block = 1,
    .folds = 1,
    .block_bytes = block_bytes,
    .store = store,
    .segment = segment,
    .depthwise = depthwise,
    KERNELS_OF_TEMPLATES,
};
