/*
 * Kernels for AVX-VNNI: VPDPBUSD on vectors of 32 bytes, for processors without AVX-512 (Intel since Alder Lake and the N
 * series, AMD since Zen 5). Weights are stored as bytes 0 ... 255, 128 too large; the window sums take that back. What has
 * no products of int8 is left to the kernels of AVX2.
 *
 * avxvnni_evex.c is the same with the encoding of AVX-512: so that processors without AVX-VNNI can test it.
 *
 * 16 output channels of a pixel are two accumulators. A group is 4 inputs: VPDPBUSD multiplies the weights of 8 channels by 4
 * inputs with 4 inputs of the pixel, which are broadcast from memory.
 */
#include <immintrin.h>

#include "internal.h"

#ifndef DOT_TABLE
#define DOT_TABLE kernels_avxvnni
#define dot(sums, unsigned_bytes, bytes) _mm256_dpbusd_avx_epi32(sums, unsigned_bytes, bytes)
#endif

enum { BLOCK = 1, MOST_PIXELS = 6 };

#include "dot_weights.h"

enum { HALF_BYTES = GROUP_BYTES / 2 };

ALWAYS_INLINE __m256i load(const void *at)
{
    return _mm256_loadu_si256((const __m256i *)at);
}

ALWAYS_INLINE void put(void *at, __m256i x)
{
    _mm256_storeu_si256((__m256i *)at, x);
}

/* 16 sums of one pixel. */
typedef struct {
    __m256i low, high;
} sums16;

ALWAYS_INLINE sums16 sums_start(const int32_t *addends)
{
    sums16 sums = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    if (addends) {
        sums.low = load(addends);
        sums.high = load(addends + 8);
    }
    return sums;
}

/* ---------------------------------------------------------------------------------------------- convolution */

/* `pixels` and `groups` are constants where this is used, so that the accumulators are registers. */
ALWAYS_INLINE void tile(const segment_task *task, int32_t first, const int32_t pixels, const int32_t groups)
{
    const int32_t step = groups * 4;
    const uint8_t *weights = task->weights, *input = task->input + first * step;
    const sums16 start = sums_start(task->addends);
    sums16 sums[MOST_PIXELS];

#pragma GCC unroll 8
    for (int32_t p = 0; p < pixels; p++) {
        const __m256i window = _mm256_set1_epi32(task->window[first + p]);
        sums[p].low = _mm256_add_epi32(_mm256_mullo_epi32(load(task->factors), window), start.low);
        sums[p].high = _mm256_add_epi32(_mm256_mullo_epi32(load(task->factors + 8), window), start.high);
    }
    for (int32_t tap = 0; tap < task->taps; tap++) {
        const uint8_t *seen = input + task->offsets[tap];
#pragma GCC unroll 4
        for (int32_t group = 0; group < groups; group++, weights += GROUP_BYTES) {
            const __m256i low = load(weights), high = load(weights + HALF_BYTES);
#pragma GCC unroll 8
            for (int32_t p = 0; p < pixels; p++) {
                int32_t four;
                memcpy(&four, seen + p * step + group * 4, sizeof four);
                const __m256i x = _mm256_set1_epi32(four);
                sums[p].low = dot(sums[p].low, low, x);
                sums[p].high = dot(sums[p].high, high, x);
            }
        }
    }
#pragma GCC unroll 8
    for (int32_t p = 0; p < pixels; p++) {
        put(task->sums + (first + p) * ATOM, sums[p].low);
        put(task->sums + (first + p) * ATOM + 8, sums[p].high);
    }
}

typedef void (*tile_function)(const segment_task *task, int32_t first);

#define TILE(pixels)                                                                                                   \
    static void tile_##pixels(const segment_task *task, int32_t first) { tile(task, first, pixels, 4); }               \
    static void picture_##pixels(const segment_task *task, int32_t first) { tile(task, first, pixels, 1); }
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
    const int32_t count = divide_up(task->pixels, MOST_PIXELS);
    for (int32_t part = 0; part < count; part++) {
        const int32_t first = part * task->pixels / count, end = (part + 1) * task->pixels / count;
        tiles[task->is_picture][end - first - 1](task, first);
    }
}

/* ---------------------------------------------------------------------------------------------- window sums */

/* Atoms: two pixels in a register, each four sums. Pictures: eight pixels. */
static void window(const window_task *task)
{
    const __m256i ones = _mm256_set1_epi8(1);
    const int32_t each = task->is_picture ? 8 : 2;
    uint8_t last[ATOM];

    for (int32_t i = 0; i < ATOM; i++)
        last[i] = i < task->last_lanes;
    const __m256i last_ones = task->is_picture ? ones : _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)last));
    for (int32_t first = 0; first < task->pixels; first += each) {
        const uint8_t *input = task->input + first * task->pixel_step;
        const int32_t count = at_most(each, task->pixels - first);
        __m256i sums = _mm256_setzero_si256(), more = _mm256_setzero_si256();
        int32_t four[8];
        for (int32_t tap = 0; tap < task->taps; tap++) {
            const uint8_t *at = input + task->offsets[tap];
            uint8_t some[HALF_BYTES] = {0}; /* nothing is read behind the last pixel */
            if (count < each) {
                memcpy(some, at, (size_t)(count * task->pixel_step));
                at = some;
            }
            if (tap < task->full_taps)
                sums = dot(sums, ones, load(at));
            else
                more = dot(more, last_ones, load(at));
        }
        put(four, _mm256_add_epi32(sums, more));
        for (int32_t i = 0; i < count; i++)
            task->window[first + i] =
                task->is_picture ? four[i] : four[4 * i] + four[4 * i + 1] + four[4 * i + 2] + four[4 * i + 3];
    }
}

/* ---------------------------------------------------------------------------------------------- depthwise */

/* Four neighbouring inputs of 16 channels are two registers. Turned around, each lane holds the 4 inputs of its channel. */

/* [4 pixels][16 channels] to [16 channels][4 pixels] */
ALWAYS_INLINE sums16 turn(const uint8_t *at)
{
    const __m128i *pixels = (const __m128i *)at;
    const __m128i a = _mm_loadu_si128(pixels), b = _mm_loadu_si128(pixels + 1);
    const __m128i c = _mm_loadu_si128(pixels + 2), d = _mm_loadu_si128(pixels + 3);
    const __m128i even_low = _mm_unpacklo_epi8(a, c), even_high = _mm_unpackhi_epi8(a, c);
    const __m128i odd_low = _mm_unpacklo_epi8(b, d), odd_high = _mm_unpackhi_epi8(b, d);
    return (sums16){
        _mm256_set_m128i(_mm_unpackhi_epi8(even_low, odd_low), _mm_unpacklo_epi8(even_low, odd_low)),
        _mm256_set_m128i(_mm_unpackhi_epi8(even_high, odd_high), _mm_unpacklo_epi8(even_high, odd_high)),
    };
}

ALWAYS_INLINE sums16 add_dot(sums16 sums, const uint8_t *weights, sums16 x)
{
    return (sums16){dot(sums.low, load(weights), x.low), dot(sums.high, load(weights + HALF_BYTES), x.high)};
}

ALWAYS_INLINE void put_difference(int32_t *at, sums16 a, sums16 b)
{
    put(at, _mm256_sub_epi32(a.low, b.low));
    put(at + 8, _mm256_sub_epi32(a.high, b.high));
}

/* `strips` and `groups` are constants for the usual kernels; groups = 0: as the widths say. */
ALWAYS_INLINE void depthwise_pairs(const depthwise_task *task, const int32_t strips, const int32_t groups)
{
    const sums16 start = sums_start(task->addends), none = sums_start(NULL);
    const int32_t *offsets = task->offsets, pixels = task->pixels;

    for (int32_t p = 0; p < pixels; p += 2) {
        const uint8_t *weights = task->weights, *input = task->input + p * ATOM;
        sums16 a = start, b = none, c = start, d = none; /* of two pixels: a - b and c - d */
#pragma GCC unroll 8
        for (int32_t strip = 0; strip < strips; strip++) {
            const int32_t count = groups ? groups : strip_groups(task->widths[strip]);
#pragma GCC unroll 2
            for (int32_t group = 0; group < count; group++, weights += 4 * GROUP_BYTES) {
                const sums16 x = turn(input + offsets[strip] + group * 4 * ATOM);
                a = add_dot(a, weights, x);
                b = add_dot(b, weights + GROUP_BYTES, x);
                c = add_dot(c, weights + 2 * GROUP_BYTES, x);
                d = add_dot(d, weights + 3 * GROUP_BYTES, x);
            }
        }
        put_difference(task->sums + p * ATOM, a, b);
        if (p + 1 < pixels)
            put_difference(task->sums + (p + 1) * ATOM, c, d);
    }
}

static void depthwise(const depthwise_task *task)
{
    if (task->strips == 3 && task->widths[0] == 3)
        depthwise_pairs(task, 3, 1);
    else if (task->strips == 5 && task->widths[0] == 5)
        depthwise_pairs(task, 5, 2);
    else if (task->strips == 6 && task->widths[0] == 2)
        depthwise_pairs(task, 6, 1);
    else
        depthwise_pairs(task, task->strips, 0);
}

/* ---------------------------------------------------------------------------------------------- products of matrices */

#define PRODUCT_OFFSET OFFSET
typedef __m256i product_bytes, product_sums;
#define product_load(at) load(at)
#define product_none() _mm256_setzero_si256()
#define product_add(sums, a, b) dot(sums, a, b)

#include "x86_product.h"
#include "product_template.h"

const dot_kernels DOT_TABLE = {
    .products = 80,
    .offset = OFFSET,
    .block_bytes = block_bytes,
    .store = store,
    .segment = segment,
    .window = window,
    .strip_bytes = strip_bytes,
    .store_strip = store_strip,
    .depthwise = depthwise,
    .product = product,
};
