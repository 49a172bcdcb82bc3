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

/* fp16, 8 channels at a time: as numerics.larger, which takes the second of two equal numbers. */
ALWAYS_INLINE void pool_half_atoms(const openrknn_pooling *step, const uint8_t *source, int32_t out_row, uint8_t *target,
                                   const int32_t method)
{
    enum { WIDTH = ATOM / 2 };
    const float32 pad = method == 0 ? 0.0f : method == 1 ? -__builtin_inff() : __builtin_inff();
    for (int32_t out = 0; out < step->out_width; out++) {
        float32 total[WIDTH], value[WIDTH];
        uint16_t halves[WIDTH];
        const int32_t top = out_row * step->stride_y - step->pad_top, left = out * step->stride_x - step->pad_left;
        const int32_t is_inside = top >= 0 && top + step->kernel_height <= step->height && left >= 0 &&
                                  left + step->kernel_width <= step->width;
        for (int32_t y = 0; y < step->kernel_height; y++)
            for (int32_t x = 0; x < step->kernel_width; x++) {
                const int32_t row = top + y, column = left + x;
                if (is_inside || (row >= 0 && row < step->height && column >= 0 && column < step->width))
                    halves_to_floats(source + row * step->source_line + (int64_t)column * ATOM, value);
                else
                    for (int32_t i = 0; i < WIDTH; i++)
                        value[i] = pad;
                if (x == 0 && y == 0)
                    memcpy(total, value, sizeof total);
                else if (method == 0)
                    for (int32_t i = 0; i < WIDTH; i++)
                        total[i] += value[i];
                else
                    for (int32_t i = 0; i < WIDTH; i++)
                        total[i] = method == 1 ? larger(total[i], value[i]) : smaller(total[i], value[i]);
            }
        for (int32_t i = 0; i < WIDTH; i++) {
            total[i] = method == 0 ? total[i] * step->factor : total[i];
            total[i] = total[i] != total[i] ? bits_to_float(0x7fc00000) : total[i]; /* one NaN for all, as NumPy has it */
        }
        floats_to_halves(total, halves);
        memcpy(target + (int64_t)out * ATOM, halves, sizeof halves);
    }
}

static void pool_halves(const openrknn_pooling *step, const uint8_t *source, int32_t out_row, uint8_t *target)
{
    if (step->method == 0)
        pool_half_atoms(step, source, out_row, target, 0);
    else if (step->method == 1)
        pool_half_atoms(step, source, out_row, target, 1);
    else
        pool_half_atoms(step, source, out_row, target, 2);
}

static void pool_row(const openrknn_pooling *step, int32_t surface, int32_t row)
{
    const uint8_t *source = step->source + surface * step->source_surface;
    uint8_t *target = step->target + surface * step->target_surface + row * step->target_line;
    int32_t top, bottom;

    pool_range(row, step->stride_y, step->pad_top, step->kernel_height, step->height, &top, &bottom);
    if (step->format == OPENRKNN_FP16)
        pool_halves(step, source, row, target);
    else if (step->method == 0)
        pool_average(step, source, top, bottom, target);
    else
        pool_extreme(step, source, top, bottom, target);
}
