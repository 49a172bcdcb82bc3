/*
 * Kernels for AVX-512 with VNNI. Weights are stored as bytes 0 ... 255, 128 too large; the window sums take that back.
 *
 * One accumulator register is one pixel by 16 output channels: an atom of the result. VPDPBUSD multiplies the weights
 * of 16 channels by 4 inputs with 4 inputs of the pixel, which are broadcast from memory.
 */
#include <immintrin.h>

#include "internal.h"

enum { BLOCK = 2, MOST_PIXELS = 14 };

#include "dot_weights.h"

/* ---------------------------------------------------------------------------------------------- convolution */

/* `pixels` and `atoms` are constants where this is used, so that the accumulators are registers. */
ALWAYS_INLINE void tile(const segment_task *task, int32_t first, const int32_t pixels, const int32_t atoms, const int32_t groups)
{
    const int32_t step = groups * 4;
    const uint8_t *weights = task->weights, *input = task->input + first * step;
    __m512i sums[MOST_PIXELS][BLOCK];

#pragma GCC unroll 2
    for (int32_t a = 0; a < atoms; a++) {
        const __m512i factors = _mm512_loadu_si512(task->factors + a * ATOM);
        __m512i addends = _mm512_setzero_si512();
        if (task->addends)
            addends = _mm512_loadu_si512(task->addends + a * ATOM);
#pragma GCC unroll 16
        for (int32_t p = 0; p < pixels; p++)
            sums[p][a] = _mm512_add_epi32(_mm512_mullo_epi32(factors, _mm512_set1_epi32(task->window[first + p])), addends);
    }
    for (int32_t tap = 0; tap < task->taps; tap++) {
        const uint8_t *seen = input + task->offsets[tap];
#pragma GCC unroll 4
        for (int32_t group = 0; group < groups; group++, weights += BLOCK * GROUP_BYTES) {
            __m512i w[BLOCK];
#pragma GCC unroll 2
            for (int32_t a = 0; a < atoms; a++)
                w[a] = _mm512_loadu_si512(weights + a * GROUP_BYTES);
#pragma GCC unroll 16
            for (int32_t p = 0; p < pixels; p++) {
                int32_t four;
                memcpy(&four, seen + p * step + group * 4, 4);
                __m512i x = _mm512_set1_epi32(four);
#pragma GCC unroll 2
                for (int32_t a = 0; a < atoms; a++)
                    sums[p][a] = _mm512_dpbusd_epi32(sums[p][a], w[a], x);
            }
        }
    }
#pragma GCC unroll 16
    for (int32_t p = 0; p < pixels; p++)
#pragma GCC unroll 2
        for (int32_t a = 0; a < atoms; a++)
            _mm512_storeu_si512(task->sums + (a * SEGMENT + first + p) * ATOM, sums[p][a]);
}

typedef void (*tile_function)(const segment_task *task, int32_t first);

#define TILE(pixels)                                                                                                   \
    static void tile_##pixels##_1(const segment_task *task, int32_t first) { tile(task, first, pixels, 1, 4); }        \
    static void tile_##pixels##_2(const segment_task *task, int32_t first) { tile(task, first, pixels, 2, 4); }        \
    static void picture_##pixels##_1(const segment_task *task, int32_t first) { tile(task, first, pixels, 1, 1); }     \
    static void picture_##pixels##_2(const segment_task *task, int32_t first) { tile(task, first, pixels, 2, 1); }
TILE(1)
TILE(2)
TILE(3)
TILE(4)
TILE(5)
TILE(6)
TILE(7)
TILE(8)
TILE(9)
TILE(10)
TILE(11)
TILE(12)
TILE(13)
TILE(14)
#define ROW(pixels) {tile_##pixels##_1, tile_##pixels##_2, picture_##pixels##_1, picture_##pixels##_2}
static const tile_function tiles[MOST_PIXELS + 1][4] = {
    {NULL}, ROW(1), ROW(2), ROW(3), ROW(4), ROW(5), ROW(6), ROW(7), ROW(8), ROW(9), ROW(10), ROW(11), ROW(12), ROW(13), ROW(14),
};

static void segment(const segment_task *task)
{
    int32_t count = divide_up(task->pixels, MOST_PIXELS), kind = task->is_picture * 2 + task->atoms - 1;
    for (int32_t part = 0; part < count; part++) {
        int32_t first = part * task->pixels / count, end = (part + 1) * task->pixels / count;
        tiles[end - first][kind](task, first);
    }
}

/* ---------------------------------------------------------------------------------------------- window sums */

/* Atoms: 4 pixels in a register, each a lane of 4 sums. */
static void window(const window_task *task)
{
    const __m512i ones = _mm512_set1_epi8(1);
    uint8_t last[ATOM];

    for (int32_t i = 0; i < ATOM; i++)
        last[i] = i < task->last_lanes;
    const __m512i last_ones = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)last));
    const int32_t each = task->is_picture ? 16 : 4;
    for (int32_t first = 0; first < task->pixels; first += each) {
        const uint8_t *input = task->input + first * task->pixel_step;
        int32_t count = at_most(each, task->pixels - first);
        __mmask64 mask = count == each ? ~0ull : (1ull << (count * task->pixel_step)) - 1;
        __m512i sums = _mm512_setzero_si512(), more = _mm512_setzero_si512();
        int32_t tap = 0;
        for (; tap < task->full_taps; tap++)
            sums = _mm512_dpbusd_epi32(sums, ones, _mm512_maskz_loadu_epi8(mask, input + task->offsets[tap]));
        for (; tap < task->taps; tap++)
            more = _mm512_dpbusd_epi32(more, task->is_picture ? ones : last_ones,
                                       _mm512_maskz_loadu_epi8(mask, input + task->offsets[tap]));
        sums = _mm512_add_epi32(sums, more);
        if (!task->is_picture) {
            sums = _mm512_add_epi32(sums, _mm512_shuffle_epi32(sums, _MM_PERM_BADC));
            sums = _mm512_add_epi32(sums, _mm512_shuffle_epi32(sums, _MM_PERM_CDAB));
            sums = _mm512_maskz_compress_epi32(0x1111, sums);
        }
        _mm512_mask_storeu_epi32(task->window + first, (__mmask16)((1u << count) - 1), sums);
    }
}

/* ---------------------------------------------------------------------------------------------- depthwise */

/* Four neighbouring inputs of 16 channels are one register. Turned around, each lane holds the 4 inputs of its channel. */

/* [4 pixels][16 channels] to [16 channels][4 pixels] */
ALWAYS_INLINE __m512i turn(__m512i pixels)
{
    const __m512i gather = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i bytes = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    return _mm512_shuffle_epi8(_mm512_permutexvar_epi32(gather, pixels), bytes);
}

/* Sums of two pixels: a - b and c - d. */
typedef struct {
    __m512i a, b, c, d;
} pair;

ALWAYS_INLINE void add_group(pair *sums, const uint8_t *weights, const uint8_t *input)
{
    const __m512i x = turn(_mm512_loadu_si512(input));
    sums->a = _mm512_dpbusd_epi32(sums->a, _mm512_loadu_si512(weights), x);
    sums->b = _mm512_dpbusd_epi32(sums->b, _mm512_loadu_si512(weights + GROUP_BYTES), x);
    sums->c = _mm512_dpbusd_epi32(sums->c, _mm512_loadu_si512(weights + 2 * GROUP_BYTES), x);
    sums->d = _mm512_dpbusd_epi32(sums->d, _mm512_loadu_si512(weights + 3 * GROUP_BYTES), x);
}

/* `strips` and `groups` are constants for the usual kernels; groups = 0: as the widths say. */
ALWAYS_INLINE void depthwise_pairs(const depthwise_task *task, const int32_t strips, const int32_t groups)
{
    const __m512i start = task->addends ? _mm512_loadu_si512(task->addends) : _mm512_setzero_si512();
    const int32_t *offsets = task->offsets, pixels = task->pixels;

    for (int32_t p = 0; p < pixels; p += 2) {
        const uint8_t *weights = task->weights, *input = task->input + p * ATOM;
        pair sums = {start, _mm512_setzero_si512(), start, _mm512_setzero_si512()};
#pragma GCC unroll 8
        for (int32_t strip = 0; strip < strips; strip++) {
            const int32_t count = groups ? groups : strip_groups(task->widths[strip]);
#pragma GCC unroll 2
            for (int32_t group = 0; group < count; group++, weights += 4 * GROUP_BYTES)
                add_group(&sums, weights, input + offsets[strip] + group * 4 * ATOM);
        }
        _mm512_storeu_si512(task->sums + p * ATOM, _mm512_sub_epi32(sums.a, sums.b));
        if (p + 1 < pixels)
            _mm512_storeu_si512(task->sums + (p + 1) * ATOM, _mm512_sub_epi32(sums.c, sums.d));
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

/* ---------------------------------------------------------------------------------------------- chain */

enum { NV = 2, PX = 4, FUSED = 1, NF = 1 };
#define FLOAT_PIXELS 14
#define FLOAT_PAIR_PIXELS 12
#define DEPTHWISE_VECTORS 8
#define depthwise_weights(at, part) _mm512_broadcast_f32x8(_mm256_loadu_ps(at))
#define depthwise_store(sums, v, x)                                                                                    \
    (_mm256_storeu_ps((sums) + 2 * (v) * ATOM, _mm512_castps512_ps256(x)),                                             \
     _mm256_storeu_ps((sums) + (2 * (v) + 1) * ATOM, _mm512_extractf32x8_ps(x, 1)))
#define sixteen_to_floats(at, out) _mm512_storeu_ps(out, halves_vector(at))
typedef __m512i ints;
typedef __m512d doubles;
typedef __m512 floats;
#define halves_vector(at) _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(at)))

#define floats_set(value) _mm512_set1_ps(value)
#define floats_load(at) _mm512_loadu_ps(at)
#define floats_store(at, x) _mm512_storeu_ps(at, x)
#define floats_add(a, b) _mm512_add_ps(a, b)
#define floats_multiply(a, b) _mm512_mul_ps(a, b)
#define floats_multiply_add(a, b, c) _mm512_fmadd_ps(a, b, c)

#define doubles_set(value) _mm512_set1_pd(value)
#define doubles_load(at) _mm512_loadu_pd(at)
#define doubles_add(a, b) _mm512_add_pd(a, b)
#define doubles_subtract(a, b) _mm512_sub_pd(a, b)
#define doubles_multiply(a, b) _mm512_mul_pd(a, b)
#define doubles_multiply_add(a, b, c) _mm512_fmadd_pd(a, b, c)
#define doubles_max(a, b) _mm512_max_pd(a, b)
#define doubles_min(a, b) _mm512_min_pd(a, b)

ALWAYS_INLINE void load_sums(const int32_t *at, doubles *out)
{
    out[0] = _mm512_cvtepi32_pd(_mm256_loadu_si256((const __m256i *)at));
    out[1] = _mm512_cvtepi32_pd(_mm256_loadu_si256((const __m256i *)(at + 8)));
}

ALWAYS_INLINE void load_bytes(const int8_t *at, doubles *out)
{
    out[0] = _mm512_cvtepi64_pd(_mm512_cvtepi8_epi64(_mm_loadl_epi64((const __m128i *)at)));
    out[1] = _mm512_cvtepi64_pd(_mm512_cvtepi8_epi64(_mm_loadl_epi64((const __m128i *)(at + 8))));
}

ALWAYS_INLINE ints low_words(const doubles *x)
{
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    return _mm512_permutex2var_epi32(_mm512_castpd_si512(x[0]), even, _mm512_castpd_si512(x[1]));
}

/* Four atoms: packing interleaves them by quarters, and one permutation puts them in order. */
ALWAYS_INLINE void store_bytes(int8_t *at, const ints *x, int32_t low, int32_t high)
{
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    __m512i bytes = _mm512_packs_epi16(_mm512_packs_epi32(x[0], x[1]), _mm512_packs_epi32(x[2], x[3]));
    bytes = _mm512_min_epi8(_mm512_max_epi8(bytes, _mm512_set1_epi8((char)low)), _mm512_set1_epi8((char)high));
    _mm512_storeu_si512(at, _mm512_permutexvar_epi32(order, bytes));
}

ALWAYS_INLINE void look_up(int8_t *target, ints x, const openrknn_chain *chain)
{
    const __m512i low = _mm512_set1_epi32(chain->table_low), high = _mm512_set1_epi32(chain->table_high);
    const __m512i mask = _mm512_set1_epi32((1 << chain->table_shift) - 1);
    const __m128i shift = _mm_cvtsi32_si128(chain->table_shift);
    __m512i place = _mm512_sub_epi32(_mm512_min_epi32(_mm512_max_epi32(x, low), high), low);
    __m512i entry = _mm512_i32gather_epi32(_mm512_srl_epi32(place, shift), chain->table, 4);
    __mmask16 is_after = _mm512_cmpge_epu32_mask(_mm512_and_si512(place, mask), _mm512_srli_epi32(entry, 16));
    _mm_storeu_si128((__m128i *)target, _mm512_cvtepi32_epi8(_mm512_mask_srli_epi32(entry, is_after, entry, 8)));
}

#define TURNS_HALVES 1
/* As in x86_halves.h, with columns c and c + 8 in one register of four lanes. */
ALWAYS_INLINE void turn_halves(const uint8_t *from, int64_t step, float32 *to)
{
    const __m512i order = _mm512_setr_epi64(0, 1, 4, 5, 2, 3, 6, 7);
    __m512i a[8], b[8];
#pragma GCC unroll 8
    for (int32_t i = 0; i < 8; i++) {
        const __m512i low = _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)(from + i * step)));
        a[i] = _mm512_inserti64x4(low, _mm256_loadu_si256((const __m256i *)(from + (i + 8) * step)), 1);
    }
#pragma GCC unroll 4
    for (int32_t i = 0; i < 4; i++) {
        b[i] = _mm512_unpacklo_epi16(a[2 * i], a[2 * i + 1]);
        b[i + 4] = _mm512_unpackhi_epi16(a[2 * i], a[2 * i + 1]);
    }
#pragma GCC unroll 4
    for (int32_t i = 0; i < 4; i++) {
        a[i] = _mm512_unpacklo_epi32(b[2 * i], b[2 * i + 1]);
        a[i + 4] = _mm512_unpackhi_epi32(b[2 * i], b[2 * i + 1]);
    }
#pragma GCC unroll 4
    for (int32_t i = 0; i < 4; i++) {
        const int32_t pair = (i & 1) * 4 + (i >> 1) * 2;
        b[2 * i] = _mm512_unpacklo_epi64(a[pair], a[pair + 1]);
        b[2 * i + 1] = _mm512_unpackhi_epi64(a[pair], a[pair + 1]);
    }
#pragma GCC unroll 8
    for (int32_t i = 0; i < 8; i++) {
        const __m512i both = _mm512_permutexvar_epi64(order, b[i]);
        _mm512_storeu_ps(to + i * 16, _mm512_cvtph_ps(_mm512_castsi512_si256(both)));
        _mm512_storeu_ps(to + (i + 8) * 16, _mm512_cvtph_ps(_mm512_extracti64x4_epi64(both, 1)));
    }
}

#include "x86_halves.h"
#include "avx512_halves.h"

/* ---------------------------------------------------------------------------------------------- products of matrices */

#define PRODUCT_OFFSET 128
typedef __m256i product_bytes, product_sums;

#define product_load(at) _mm256_loadu_si256((const __m256i *)(at))
#define product_none() _mm256_setzero_si256()
#define product_add(sums, a, b) _mm256_dpbusd_epi32(sums, a, b)

#include "x86_product.h"

#include "chain_template.h"
#include "avx512_singles.h"
#include "half_dpu.h"
#include "half_pixel.h"
#include "avx512_floats.h"
#include "float_template.h"
#include "general_template.h"
#include "pool_template.h"
#include "product_template.h"
#include "product_floats.h"

/* 16 times 16 entries: the upper half of a byte says which register, the lower half which entry. */
static void map(const int8_t *table, const uint8_t *source, uint8_t *target, int64_t bytes)
{
    const __m512i low = _mm512_set1_epi8(0x0f);
    __m512i parts[16];

    for (int32_t i = 0; i < 16; i++)
        parts[i] = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(table + i * 16)));
    for (int64_t at = 0; at < bytes; at += 64) {
        __mmask64 mask = bytes - at >= 64 ? ~0ull : (1ull << (bytes - at)) - 1;
        __m512i x = _mm512_xor_si512(_mm512_maskz_loadu_epi8(mask, source + at), _mm512_set1_epi8((char)0x80));
        __m512i entry = _mm512_and_si512(x, low), part = _mm512_and_si512(_mm512_srli_epi16(x, 4), low);
        __m512i result = _mm512_setzero_si512();
        for (int32_t i = 0; i < 16; i++)
            result = _mm512_mask_shuffle_epi8(result, _mm512_cmpeq_epi8_mask(part, _mm512_set1_epi8((char)i)), parts[i], entry);
        _mm512_mask_storeu_epi8(target + at, mask, result);
    }
}

const kernel_set kernels_vnni = {
    .name = "vnni",
    .products = 150,
    .float_products = 40,
    .needs = OPENRKNN_CPU_AVX512VNNI | OPENRKNN_CPU_AVX2 | OPENRKNN_CPU_F16C,
    .input_bytes = 1,
    .block = BLOCK,
    .weight_offset = OFFSET,
    .block_bytes = block_bytes,
    .store = store,
    .segment = segment,
    .window = window,
    .depthwise = depthwise,
    .chain_adds_windows = 1,
    KERNELS_OF_TEMPLATES,
};
