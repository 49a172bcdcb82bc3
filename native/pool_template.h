/* Pooling, for any instruction set: one row of one surface. Needs what general_template.h needs, and comes behind it. */

typedef int8_t atom_bytes __attribute__((vector_size(16)));

ALWAYS_INLINE atom_bytes load_atom(const uint8_t *at)
{
    atom_bytes atom;
    memcpy(&atom, at, ATOM);
    return atom;
}

ALWAYS_INLINE atom_bytes atom_max(atom_bytes a, atom_bytes b)
{
#if defined(__SSE4_1__)
    return (atom_bytes)_mm_max_epi8((__m128i)a, (__m128i)b);
#else
    atom_bytes greater = a > b;
    return (a & greater) | (b & ~greater);
#endif
}

ALWAYS_INLINE atom_bytes atom_min(atom_bytes a, atom_bytes b)
{
#if defined(__SSE4_1__)
    return (atom_bytes)_mm_min_epi8((__m128i)a, (__m128i)b);
#else
    atom_bytes less = a < b;
    return (a & less) | (b & ~less);
#endif
}

/* The part of a window that is not padding. */
static inline void pool_range(int32_t out, int32_t stride, int32_t pad, int32_t kernel, int32_t size, int32_t *from, int32_t *to)
{
    int32_t start = out * stride - pad;
    *from = at_least(start, 0);
    *to = at_most(start + kernel, size);
}

static void pool_extreme(const openrknn_pooling *step, const uint8_t *source, int32_t top, int32_t bottom, uint8_t *target)
{
    for (int32_t out = 0; out < step->out_width; out++) {
        int32_t left, right;
        atom_bytes best;
        memset(&best, step->method == 1 ? -128 : 127, ATOM);
        pool_range(out, step->stride_x, step->pad_left, step->kernel_width, step->width, &left, &right);
        for (int32_t row = top; row < bottom; row++)
            for (int32_t column = left; column < right; column++) {
                atom_bytes seen = load_atom(source + row * step->source_line + (int64_t)column * ATOM);
                best = step->method == 1 ? atom_max(best, seen) : atom_min(best, seen);
            }
        memcpy(target + (int64_t)out * ATOM, &best, ATOM);
    }
}

static void pool_average(const openrknn_pooling *step, const uint8_t *source, int32_t top, int32_t bottom, uint8_t *target)
{
    for (int32_t out = 0; out < step->out_width; out++) {
        int32_t left, right, area = step->kernel_height * step->kernel_width;
        int64_t sums[ATOM] = {0};
        pool_range(out, step->stride_x, step->pad_left, step->kernel_width, step->width, &left, &right);
        for (int32_t row = top; row < bottom; row++)
            for (int32_t column = left; column < right; column++)
                for (int32_t lane = 0; lane < ATOM; lane++)
                    sums[lane] += (int8_t)source[row * step->source_line + (int64_t)column * ATOM + lane];
        int32_t seen = at_least(bottom - top, 0) * at_least(right - left, 0);
        for (int32_t lane = 0; lane < ATOM; lane++) {
            int64_t total = sums[lane] + (area - seen) * step->pad_value;
            int64_t mean = shift_right((int64_t)((uint64_t)total * (uint64_t)step->reciprocal), 32, 0, 0);
            target[(int64_t)out * ATOM + lane] = (uint8_t)(mean < -128 ? -128 : mean > 127 ? 127 : mean);
        }
    }
}

/* ---------------------------------------------------------------------------------------------- fp16 */

/* An atom of fp16 as floats; the file that includes this one may have it in registers. */
#ifndef OWN_EIGHTS
typedef struct {
    float32 lane[ATOM / 2];
} eight;

#define EACH_OF_EIGHT for (int32_t i = 0; i < ATOM / 2; i++)

ALWAYS_INLINE eight eight_load(const uint8_t *at)
{
    eight x;
    halves_to_floats(at, x.lane);
    return x;
}

ALWAYS_INLINE eight eight_set(float32 value)
{
    eight x;
    EACH_OF_EIGHT x.lane[i] = value;
    return x;
}

ALWAYS_INLINE eight eight_add(eight a, eight b)
{
    EACH_OF_EIGHT a.lane[i] += b.lane[i];
    return a;
}

ALWAYS_INLINE eight eight_multiply(eight a, eight b)
{
    EACH_OF_EIGHT a.lane[i] *= b.lane[i];
    return a;
}

ALWAYS_INLINE eight eight_larger(eight a, eight b)
{
    EACH_OF_EIGHT a.lane[i] = larger(a.lane[i], b.lane[i]);
    return a;
}

ALWAYS_INLINE eight eight_smaller(eight a, eight b)
{
    EACH_OF_EIGHT a.lane[i] = smaller(a.lane[i], b.lane[i]);
    return a;
}

/* One NaN for all, as NumPy has it. */
ALWAYS_INLINE void eight_store(uint8_t *at, eight x)
{
    uint16_t halves[ATOM / 2];
    EACH_OF_EIGHT x.lane[i] = x.lane[i] != x.lane[i] ? bits_to_float(0x7fc00000) : x.lane[i];
    floats_to_halves(x.lane, halves);
    memcpy(at, halves, sizeof halves);
}
#endif

/*
 * As numerics.larger, which takes the second of two equal numbers: what follows an infinity stays what it is, so padding
 * needs no loop. NumPy adds up zeros of the padding: they make -0 a +0, and nothing else. Without padding a sum begins
 * with -0, which keeps a -0.
 */
ALWAYS_INLINE void pool_eights(const openrknn_pooling *step, const uint8_t *source, int32_t top, int32_t bottom,
                               uint8_t *target, const int32_t method)
{
    const eight factor = eight_set(step->factor);
    const int32_t has_rows = bottom - top == step->kernel_height;
    for (int32_t out = 0; out < step->out_width; out++) {
        int32_t left, right;
        pool_range(out, step->stride_x, step->pad_left, step->kernel_width, step->width, &left, &right);
        const int32_t is_inside = has_rows && right - left == step->kernel_width;
        eight total = eight_set(method == 1 ? -__builtin_inff() : method == 2 ? __builtin_inff() : is_inside ? -0.0f : 0.0f);
        for (int32_t row = top; row < bottom; row++) {
            const uint8_t *line = source + row * step->source_line;
            for (int32_t column = left; column < right; column++) {
                const eight seen = eight_load(line + (int64_t)column * ATOM);
                total = method == 0 ? eight_add(total, seen) : method == 1 ? eight_larger(total, seen) : eight_smaller(total, seen);
            }
        }
        eight_store(target + (int64_t)out * ATOM, method == 0 ? eight_multiply(total, factor) : total);
    }
}

static void pool_halves(const openrknn_pooling *step, const uint8_t *source, int32_t top, int32_t bottom, uint8_t *target)
{
    if (step->method == 0)
        pool_eights(step, source, top, bottom, target, 0);
    else if (step->method == 1)
        pool_eights(step, source, top, bottom, target, 1);
    else
        pool_eights(step, source, top, bottom, target, 2);
}

static void pool_row(const openrknn_pooling *step, int32_t surface, int32_t row)
{
    const uint8_t *source = step->source + surface * step->source_surface;
    uint8_t *target = step->target + surface * step->target_surface + row * step->target_line;
    int32_t top, bottom;

    pool_range(row, step->stride_y, step->pad_top, step->kernel_height, step->height, &top, &bottom);
    if (step->format == OPENRKNN_FP16)
        pool_halves(step, source, top, bottom, target);
    else if (step->method == 0)
        pool_average(step, source, top, bottom, target);
    else
        pool_extreme(step, source, top, bottom, target);
}
