/*
 * From the NPU's layout to plain arrays, and between stored and real numbers: what a program does with every output.
 *
 * Atoms are turned by zipping: read a block of P pixels of A channels as one row of vectors, zip its first half with
 * its second, and every element's place rotates by one bit. After log2(P) rounds the pixel has moved below the channel.
 */
#include "internal.h"

#if defined(__clang__) || __GNUC__ >= 12
#define SHUFFLE __builtin_shufflevector
#else
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (__typeof__(a)){__VA_ARGS__})
#endif

typedef int8_t bytes16 __attribute__((vector_size(16), aligned(1), may_alias));
typedef int16_t words8 __attribute__((vector_size(16), aligned(1), may_alias));
typedef int32_t longs4 __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint32_t bits8 __attribute__((vector_size(32)));
typedef float floats4 __attribute__((vector_size(16), aligned(1), may_alias));
typedef float floats8 __attribute__((vector_size(32), aligned(1), may_alias));
typedef float floats16 __attribute__((vector_size(64), aligned(1), may_alias));
typedef int16_t short16 __attribute__((vector_size(32)));
typedef int32_t long16 __attribute__((vector_size(64)));

enum { MOST_LANES = 32 };

/* ---------------------------------------------------------------------------------------------- numbers */

ALWAYS_INLINE float32 widened(uint16_t bits)
{
#if defined(__aarch64__)
    return half_to_float(bits);
#else
    /* Without branches, so that it becomes vectors: the exponent moves by a multiplication, which is exact. */
    uint32_t magnitude = (uint32_t)(bits & 0x7fff) << 13, sign = (uint32_t)(bits & 0x8000) << 16;
    uint32_t number = float_to_bits(bits_to_float(magnitude) * 0x1p112f);
    uint32_t special = magnitude >= 0x0f800000 ? 0x7f800000 : 0;
    return bits_to_float(number | special | sign);
#endif
}

ALWAYS_INLINE float32 number_at(const uint8_t *at, int32_t format, int32_t zero, float32 scale)
{
    uint16_t half;
    int32_t whole;
    float32 real;
    switch (format) {
    case OPENRKNN_INT8:
        return (float32)((int8_t)*at - zero) * scale;
    case OPENRKNN_UINT8:
        return (float32)(*at - zero) * scale;
    case OPENRKNN_INT16:
        memcpy(&half, at, 2);
        return (float32)((int16_t)half - zero) * scale;
    case OPENRKNN_FP16:
        memcpy(&half, at, 2);
        return widened(half);
    case OPENRKNN_INT32:
        memcpy(&whole, at, 4);
        return (float32)((int64_t)whole - zero) * scale;
    default:
        memcpy(&real, at, 4);
        return real;
    }
}

static int32_t size_of(int32_t format)
{
    switch (format) {
    case OPENRKNN_INT8:
    case OPENRKNN_UINT8:
        return 1;
    case OPENRKNN_INT16:
    case OPENRKNN_FP16:
        return 2;
    default:
        return 4;
    }
}

/* ---------------------------------------------------------------------------------------------- turning atoms */

#define ZIP(name, vector, low, high)                                                                                   \
    ALWAYS_INLINE void name(vector *values, int32_t count, int32_t rounds)                                             \
    {                                                                                                                  \
        vector zipped[MOST_LANES];                                                                                     \
        for (int32_t round = 0; round < rounds; round++) {                                                             \
            for (int32_t i = 0; i < count / 2; i++) {                                                                  \
                zipped[2 * i] = low(values[i], values[i + count / 2]);                                                 \
                zipped[2 * i + 1] = high(values[i], values[i + count / 2]);                                            \
            }                                                                                                          \
            for (int32_t i = 0; i < count; i++)                                                                        \
                values[i] = zipped[i];                                                                                 \
        }                                                                                                              \
    }

#define LOW16(a, b) SHUFFLE(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH16(a, b) SHUFFLE(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#define LOW8(a, b) SHUFFLE(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH8(a, b) SHUFFLE(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define LOW4(a, b) SHUFFLE(a, b, 0, 4, 1, 5)
#define HIGH4(a, b) SHUFFLE(a, b, 2, 6, 3, 7)

ZIP(zip_bytes, bytes16, LOW16, HIGH16)
ZIP(zip_words, words8, LOW8, HIGH8)
ZIP(zip_longs, longs4, LOW4, HIGH4)

ALWAYS_INLINE void store_bytes(bytes16 row, float32 *to, int32_t zero, float32 scale)
{
    short16 words = __builtin_convertvector(row, short16) - (int16_t)zero;
    *(floats16 *)to = __builtin_convertvector(__builtin_convertvector(words, long16), floats16) * scale;
}

ALWAYS_INLINE void store_halves(words8 row, float32 *to)
{
    uint16_t bits[8];
    memcpy(bits, &row, 16);
    for (int32_t i = 0; i < 8; i++)
        to[i] = widened(bits[i]);
}

typedef struct {
    const uint8_t *source; /* of the first pixel of a run, and its first channel */
    uint8_t *target;
    int64_t plane; /* bytes from channel to channel in the target */
    int32_t lanes; /* channels that count */
    int32_t pixels;
} run_task;

ALWAYS_INLINE int32_t turn_bytes(const run_task *run, int32_t atom, int32_t to_float, int32_t zero, float32 scale)
{
    int32_t pixel = 0;
    for (; pixel + 16 <= run->pixels; pixel += 16) {
        bytes16 rows[MOST_LANES];
        for (int32_t i = 0; i < atom; i++)
            rows[i] = *(const bytes16 *)(run->source + (int64_t)pixel * atom + i * 16);
        zip_bytes(rows, atom, 4);
        for (int32_t lane = 0; lane < run->lanes; lane++) {
            uint8_t *to = run->target + lane * run->plane;
            if (to_float)
                store_bytes(rows[lane], (float32 *)to + pixel, zero, scale);
            else
                *(bytes16 *)(to + pixel) = rows[lane];
        }
    }
    return pixel;
}

ALWAYS_INLINE int32_t turn_words(const run_task *run, int32_t atom, int32_t format, int32_t to_float, int32_t zero,
                                 float32 scale)
{
    int32_t pixel = 0;
    for (; pixel + 8 <= run->pixels; pixel += 8) {
        words8 rows[MOST_LANES];
        for (int32_t i = 0; i < atom; i++)
            rows[i] = *(const words8 *)(run->source + ((int64_t)pixel * atom + i * 8) * 2);
        zip_words(rows, atom, 3);
        for (int32_t lane = 0; lane < run->lanes; lane++) {
            uint8_t *to = run->target + lane * run->plane;
            if (!to_float)
                *(words8 *)(to + pixel * 2) = rows[lane];
            else if (format == OPENRKNN_FP16)
                store_halves(rows[lane], (float32 *)to + pixel);
            else
                for (int32_t i = 0; i < 8; i++)
                    ((float32 *)to)[pixel + i] = (float32)(rows[lane][i] - zero) * scale;
        }
    }
    return pixel;
}

ALWAYS_INLINE int32_t turn_longs(const run_task *run, int32_t atom)
{
    int32_t pixel = 0;
    for (; pixel + 4 <= run->pixels; pixel += 4) {
        longs4 rows[MOST_LANES];
        for (int32_t i = 0; i < atom; i++)
            rows[i] = *(const longs4 *)(run->source + ((int64_t)pixel * atom + i * 4) * 4);
        zip_longs(rows, atom, 2);
        for (int32_t lane = 0; lane < run->lanes; lane++)
            *(longs4 *)(run->target + lane * run->plane + pixel * 4) = rows[lane];
    }
    return pixel;
}

/* How many pixels were done in blocks; the caller does the rest one by one. */
static int32_t turn_blocks(const openrknn_arrangement *step, const run_task *run)
{
    int32_t zero = step->zero_point, floats = step->to_float;
    float32 scale = step->scale;
    int fits = zero >= INT16_MIN / 2 && zero <= INT16_MAX / 2;

    if (step->format == OPENRKNN_INT8 && fits) {
        if (step->atom == 16)
            return floats ? turn_bytes(run, 16, 1, zero, scale) : turn_bytes(run, 16, 0, 0, 0);
        if (step->atom == 8)
            return floats ? turn_bytes(run, 8, 1, zero, scale) : turn_bytes(run, 8, 0, 0, 0);
        if (step->atom == 32)
            return floats ? turn_bytes(run, 32, 1, zero, scale) : turn_bytes(run, 32, 0, 0, 0);
    } else if (step->format == OPENRKNN_FP16) {
        if (step->atom == 8)
            return turn_words(run, 8, OPENRKNN_FP16, floats, 0, 0);
        if (step->atom == 4)
            return turn_words(run, 4, OPENRKNN_FP16, floats, 0, 0);
        if (step->atom == 16)
            return turn_words(run, 16, OPENRKNN_FP16, floats, 0, 0);
    } else if (step->format == OPENRKNN_INT16 && step->atom == 8 && fits) {
        return turn_words(run, 8, OPENRKNN_INT16, floats, zero, scale);
    } else if (step->atom == 4 && (step->format == OPENRKNN_FP32 || (step->format == OPENRKNN_INT32 && !floats))) {
        return turn_longs(run, 4);
    }
    return 0;
}

static void turn_run(const openrknn_arrangement *step, const run_task *run, int32_t size)
{
    int32_t done = turn_blocks(step, run);

    for (int32_t lane = 0; lane < run->lanes; lane++)
        for (int32_t pixel = done; pixel < run->pixels; pixel++) {
            const uint8_t *from = run->source + ((int64_t)pixel * step->atom + lane) * size;
            uint8_t *to = run->target + lane * run->plane;
            if (step->to_float)
                ((float32 *)to)[pixel] = number_at(from, step->format, step->zero_point, step->scale);
            else
                memcpy(to + (int64_t)pixel * size, from, (size_t)size);
        }
}

void openrknn_arrange(const openrknn_arrangement *step)
{
    int32_t size = size_of(step->format), out_size = step->to_float ? 4 : size;
    int64_t pixels = (int64_t)step->height * step->width;
    int32_t whole = step->source_line == (int64_t)step->width * step->atom * size;
    int32_t rows = whole ? 1 : step->height;
    run_task run = {.plane = pixels * out_size, .pixels = whole ? (int32_t)pixels : step->width};

    for (int32_t batch = 0; batch < step->batches; batch++)
        for (int32_t first = 0; first < step->channels; first += step->atom)
            for (int32_t row = 0; row < rows; row++) {
                run.lanes = at_most(step->atom, step->channels - first);
                run.source = (const uint8_t *)step->source + batch * step->source_batch +
                             first / step->atom * step->source_surface + row * step->source_line;
                run.target = (uint8_t *)step->target +
                             (((int64_t)batch * step->channels + first) * pixels + (int64_t)row * step->width) * out_size;
                turn_run(step, &run, size);
            }
}

/* ---------------------------------------------------------------------------------------------- affine numbers */

#define DEQUANTIZE(type, wide)                                                                                         \
    for (int64_t i = 0; i < count; i++)                                                                                \
        target[i] = (float32)((wide)((const type *)source)[i] - zero) * scale;                                         \
    return 0

int32_t openrknn_dequantize(const void *source, float32 *target, int64_t count, int32_t format, int32_t zero,
                            float32 scale)
{
    switch (format) {
    case OPENRKNN_INT8:
        DEQUANTIZE(int8_t, int32_t);
    case OPENRKNN_UINT8:
        DEQUANTIZE(uint8_t, int32_t);
    case OPENRKNN_INT16:
        DEQUANTIZE(int16_t, int32_t);
    case OPENRKNN_INT32:
        DEQUANTIZE(int32_t, int64_t);
    case OPENRKNN_FP16:
        for (int64_t i = 0; i < count; i++)
            target[i] = widened(((const uint16_t *)source)[i]);
        return 0;
    case OPENRKNN_FP32:
        memcpy(target, source, (size_t)count * sizeof *target);
        return 0;
    default:
        return -1;
    }
}
