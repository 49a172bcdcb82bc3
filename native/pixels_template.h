/*
 * One-step conversion of images: openrknn/pixels/specification.py says what is computed. Included once per set of
 * instructions, with CONVERT as the name of the function.
 *
 * Rows are worked on in blocks of 16 columns: the neighbours of 16 target columns are gathered, become colours, and are
 * interpolated along the row. Two such rows of 16-bit numbers are blended into a row of the target. All tables are
 * padded to whole blocks.
 */
#include <string.h>

#include "internal.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#elif defined(__SSSE3__)
#include <immintrin.h>
#endif

enum { COLUMNS = 16, WINDOW = 64, MOST_SIXTHS = 255 << 6 };
enum { KIND_COLOURS = 0, KIND_YUV = 1, KIND_BRIGHTNESS = 2, KIND_LUMA = 3, KIND_GRAY = 4 };
enum { RED_WEIGHT = 9798, GREEN_WEIGHT = 19235, BLUE_WEIGHT = 3735 };

/* Eight numbers of 16 bits: what the three processors' instructions have in common. */
#if defined(__aarch64__)
typedef int16x8_t eight;
#define SPREAD(value) vdupq_n_s16((int16_t)(value))
#define LOAD(from) vld1q_s16(from)
#define STORE(to, value) vst1q_s16(to, value)
#define ADD(a, b) vqaddq_s16(a, b)
#define SUBTRACT(a, b) vsubq_s16(a, b)
#define PRODUCT(a, b) vqrdmulhq_s16(a, b)
#define LARGER(a, b) vmaxq_s16(a, b)
#define SMALLER(a, b) vminq_s16(a, b)
#define LEFT(a, count) vshlq_n_s16(a, count)
#define WIDEN(from) vreinterpretq_s16_u16(vmovl_u8(vld1_u8(from)))
#elif defined(__SSSE3__)
typedef __m128i eight;
#define SPREAD(value) _mm_set1_epi16((int16_t)(value))
#define LOAD(from) _mm_loadu_si128((const __m128i *)(from))
#define STORE(to, value) _mm_storeu_si128((__m128i *)(to), value)
#define ADD(a, b) _mm_adds_epi16(a, b)
#define SUBTRACT(a, b) _mm_sub_epi16(a, b)
#define PRODUCT(a, b) _mm_mulhrs_epi16(a, b)
#define LARGER(a, b) _mm_max_epi16(a, b)
#define SMALLER(a, b) _mm_min_epi16(a, b)
#define LEFT(a, count) _mm_slli_epi16(a, count)
#define WIDEN(from) _mm_unpacklo_epi8(_mm_loadl_epi64((const __m128i *)(from)), _mm_setzero_si128())
#else
typedef struct {
    int16_t at[8];
} eight;
#define EIGHT(...)                                                                                                     \
    eight made;                                                                                                        \
    for (int lane = 0; lane < 8; lane++)                                                                               \
        made.at[lane] = (int16_t)(__VA_ARGS__);                                                                        \
    return made;
ALWAYS_INLINE int32_t saturated(int32_t value)
{
    return value > INT16_MAX ? INT16_MAX : value < INT16_MIN ? INT16_MIN : value;
}
ALWAYS_INLINE eight SPREAD(int32_t value) { EIGHT(value) }
ALWAYS_INLINE eight LOAD(const int16_t *from) { EIGHT(from[lane]) }
ALWAYS_INLINE void STORE(int16_t *to, eight value) { memcpy(to, value.at, sizeof value.at); }
ALWAYS_INLINE eight ADD(eight a, eight b) { EIGHT(saturated(a.at[lane] + b.at[lane])) }
ALWAYS_INLINE eight SUBTRACT(eight a, eight b) { EIGHT(a.at[lane] - b.at[lane]) }
ALWAYS_INLINE eight PRODUCT(eight a, eight b) { EIGHT((a.at[lane] * b.at[lane] + (1 << 14)) >> 15) }
ALWAYS_INLINE eight LARGER(eight a, eight b) { EIGHT(a.at[lane] > b.at[lane] ? a.at[lane] : b.at[lane]) }
ALWAYS_INLINE eight SMALLER(eight a, eight b) { EIGHT(a.at[lane] < b.at[lane] ? a.at[lane] : b.at[lane]) }
ALWAYS_INLINE eight LEFT(eight a, int count) { EIGHT(a.at[lane] * (1 << count)) }
ALWAYS_INLINE eight WIDEN(const uint8_t *from) { EIGHT(from[lane]) }
#endif

/* a at weight 0, b at weight 1; the result lies between them. */
ALWAYS_INLINE eight blend(eight a, eight b, eight weight)
{
    return ADD(a, PRODUCT(SUBTRACT(b, a), weight));
}

/* The left and right neighbours of 16 columns: one number of each pixel. */
ALWAYS_INLINE void gather(const openrknn_pixels *task, int32_t component, const uint8_t *row, int32_t block,
                          uint8_t *left, uint8_t *right)
{
    int32_t padded = task->padded, first = block * COLUMNS;
#if defined(__aarch64__)
    int32_t window = task->windows[component][block];
    if (window >= 0) {
        const uint8_t *lanes = task->lanes[component] + first;
        uint8x16x4_t table = {{vld1q_u8(row + window), vld1q_u8(row + window + 16), vld1q_u8(row + window + 32),
                               vld1q_u8(row + window + 48)}};
        vst1q_u8(left, vqtbl4q_u8(table, vld1q_u8(lanes)));
        vst1q_u8(right, vqtbl4q_u8(table, vld1q_u8(lanes + padded)));
        return;
    }
#endif
    const int32_t *places = task->places[component] + first;
    for (int lane = 0; lane < COLUMNS; lane++) {
        left[lane] = row[places[lane]];
        right[lane] = row[places[padded + lane]];
    }
}

/* Luma with 6 fractional bits; what is below black is black. */
ALWAYS_INLINE eight sixths(const openrknn_pixels *task, const uint8_t *luma)
{
    eight above = LARGER(SUBTRACT(WIDEN(luma), SPREAD(task->black)), SPREAD(0));
    return PRODUCT(LEFT(above, 7), SPREAD(task->luma));
}

ALWAYS_INLINE eight clipped(eight value)
{
    return LEFT(SMALLER(LARGER(value, SPREAD(0)), SPREAD(MOST_SIXTHS)), 1);
}

/* Eight pixels as colours with 7 fractional bits. Sums that saturate are clipped anyway. */
ALWAYS_INLINE void colours_of(const openrknn_pixels *task, const uint8_t *samples, const int kind, eight *colours)
{
    const uint8_t *second = samples + 2 * COLUMNS, *third = samples + 4 * COLUMNS;
    if (kind == KIND_LUMA) {
        colours[0] = clipped(sixths(task, samples));
    } else if (kind == KIND_YUV) {
        eight luma = sixths(task, samples), middle = SPREAD(128);
        eight u = LEFT(SUBTRACT(WIDEN(second), middle), 8), v = LEFT(SUBTRACT(WIDEN(third), middle), 8);
        eight green = ADD(PRODUCT(u, SPREAD(task->green_u)), PRODUCT(v, SPREAD(task->green_v)));
        colours[0] = clipped(ADD(luma, PRODUCT(v, SPREAD(task->red_v))));
        colours[1] = clipped(ADD(luma, green));
        colours[2] = clipped(ADD(luma, PRODUCT(u, SPREAD(task->blue_u))));
    } else if (kind == KIND_BRIGHTNESS) {
        eight red = PRODUCT(LEFT(WIDEN(samples), 7), SPREAD(RED_WEIGHT));
        eight green = PRODUCT(LEFT(WIDEN(second), 7), SPREAD(GREEN_WEIGHT));
        colours[0] = ADD(ADD(red, green), PRODUCT(LEFT(WIDEN(third), 7), SPREAD(BLUE_WEIGHT)));
    } else {
        colours[0] = LEFT(WIDEN(samples), 7);
        if (kind == KIND_COLOURS) {
            colours[1] = LEFT(WIDEN(second), 7);
            colours[2] = LEFT(WIDEN(third), 7);
        }
    }
}

/* One row of the source: [channel][padded], interpolated along the row. */
ALWAYS_INLINE void source_row(const openrknn_pixels *task, int32_t number, int16_t *out, const int kind)
{
    const int32_t components = kind == KIND_LUMA || kind == KIND_GRAY ? 1 : 3;
    const int32_t channels = kind == KIND_COLOURS || kind == KIND_YUV ? 3 : 1;
    const uint8_t *rows[3] = {0};
    for (int32_t component = 0; component < components; component++)
        rows[component] = task->planes[component] + number / task->shares[component] * task->strides[component];
    for (int32_t block = 0; block < task->padded / COLUMNS; block++) {
        uint8_t samples[3 * 2 * COLUMNS]; /* [component][left, right][column] */
        for (int32_t component = 0; component < components; component++)
            gather(task, component, rows[component], block, samples + 2 * component * COLUMNS,
                   samples + (2 * component + 1) * COLUMNS);
        for (int32_t half = 0; half < COLUMNS; half += 8) {
            eight left[3], right[3], weight = LOAD(task->column_weights + block * COLUMNS + half);
            colours_of(task, samples + half, kind, left);
            colours_of(task, samples + COLUMNS + half, kind, right);
            for (int32_t channel = 0; channel < channels; channel++)
                STORE(out + channel * (int64_t)task->padded + block * COLUMNS + half,
                      blend(left[channel], right[channel], weight));
        }
    }
}

static void read_row(const openrknn_pixels *task, int32_t number, int16_t *out)
{
    switch (task->kind) {
    case KIND_YUV:
        source_row(task, number, out, KIND_YUV);
        break;
    case KIND_COLOURS:
        source_row(task, number, out, KIND_COLOURS);
        break;
    case KIND_BRIGHTNESS:
        source_row(task, number, out, KIND_BRIGHTNESS);
        break;
    case KIND_LUMA:
        source_row(task, number, out, KIND_LUMA);
        break;
    default:
        source_row(task, number, out, KIND_GRAY);
    }
}

/* 16 pixels of one channel between two rows, rounded to bytes. */
ALWAYS_INLINE void bytes_between(const int16_t *upper, const int16_t *lower, eight weight, uint8_t *out)
{
#if defined(__aarch64__)
    for (int32_t half = 0; half < COLUMNS; half += 8)
        vst1_u8(out + half, vqrshrun_n_s16(blend(LOAD(upper + half), LOAD(lower + half), weight), 7));
#elif defined(__SSSE3__)
    eight low = blend(LOAD(upper), LOAD(lower), weight), high = blend(LOAD(upper + 8), LOAD(lower + 8), weight);
    low = _mm_srai_epi16(_mm_adds_epi16(low, SPREAD(64)), 7);
    high = _mm_srai_epi16(_mm_adds_epi16(high, SPREAD(64)), 7);
    _mm_storeu_si128((__m128i *)out, _mm_packus_epi16(low, high));
#else
    for (int32_t lane = 0; lane < COLUMNS; lane++) {
        int32_t value = upper[lane] + (((lower[lane] - upper[lane]) * weight.at[0] + (1 << 14)) >> 15);
        out[lane] = (uint8_t)((value + 64) >> 7);
    }
#endif
}

/* 16 pixels, their channels next to each other. */
ALWAYS_INLINE void interleave(uint8_t channels[3][COLUMNS], int32_t count, uint8_t *out)
{
#if defined(__aarch64__)
    uint8x16_t first = vld1q_u8(channels[0]), second = vld1q_u8(channels[1]), third = vld1q_u8(channels[2]);
    if (count == 3)
        vst3q_u8(out, ((uint8x16x3_t){{first, second, third}}));
    else
        vst4q_u8(out, ((uint8x16x4_t){{first, second, third, vdupq_n_u8(255)}}));
#else
    for (int32_t lane = 0; lane < COLUMNS; lane++) {
        for (int32_t channel = 0; channel < 3; channel++)
            out[lane * count + channel] = channels[channel][lane];
        if (count == 4)
            out[lane * 4 + 3] = 255;
    }
#endif
}

static void write_row(const openrknn_pixels *task, const int16_t *upper, const int16_t *lower, int32_t weight,
                      uint8_t *out)
{
    const int32_t is_gray = task->kind >= KIND_BRIGHTNESS, count = task->channels;
    for (int32_t first = 0; first < task->width; first += COLUMNS) {
        uint8_t channels[3][COLUMNS], pixels[4 * COLUMNS];
        int32_t columns = at_most(task->width - first, COLUMNS);
        uint8_t *into = columns == COLUMNS ? out + (int64_t)first * count : pixels;
        for (int32_t channel = 0; channel < 3; channel++) {
            int64_t from = (int64_t)(is_gray ? 0 : task->is_bgr ? 2 - channel : channel) * task->padded + first;
            if (channel == 0 || !is_gray)
                bytes_between(upper + from, lower + from, SPREAD(weight), channels[channel]);
            else
                memcpy(channels[channel], channels[0], COLUMNS);
        }
        if (count == 1)
            memcpy(into, channels[0], COLUMNS);
        else if (count == 3)
            interleave(channels, 3, into);
        else
            interleave(channels, 4, into);
        if (into == pixels)
            memcpy(out + (int64_t)first * count, pixels, (size_t)(columns * count));
    }
}

void CONVERT(const openrknn_pixels *task)
{
    /* The two rows that were read last: enlarging needs each of them several times. */
    int16_t *rows[2] = {task->scratch, task->scratch + 3 * (int64_t)task->padded};
    int32_t held[2] = {-1, -1};
    for (int32_t row = 0; row < task->height; row++) {
        int32_t weight = task->row_weights[row];
        int32_t upper = task->rows[row], lower = weight ? task->rows[task->height + row] : upper;
        if (held[0] != upper && held[1] == upper) {
            int16_t *spare = rows[0];
            rows[0] = rows[1], rows[1] = spare;
            held[1] = held[0], held[0] = upper;
        }
        if (held[0] != upper) {
            read_row(task, upper, rows[0]);
            held[0] = upper;
        }
        if (lower != upper && held[1] != lower) {
            read_row(task, lower, rows[1]);
            held[1] = lower;
        }
        write_row(task, rows[0], lower == upper ? rows[0] : rows[1], weight, task->target + row * task->target_stride);
    }
}
