/*
 * C = A * B on the matrices themselves: integers exactly, floating point as the convolution of the NPU has it, exact
 * and rounded once. runtime/matmul/direct.py describes the matrices.
 *
 * A is brought into rows, in doubles if it is floating point, a few hundred rows at a time. B is cut into blocks of
 * columns, which threads share; it is read as it lies in memory.
 */
#include <math.h>

#include "internal.h"

enum { MOST_ROWS = 256, MOST_COLUMNS = 64, PLAIN_COLUMNS = 16, TILE = 32 };

typedef struct {
    const openrknn_product *step;
    const kernel_set *kernels;
    const uint8_t *a; /* rows of bytes, or of doubles */
    const double *lengths; /* of the rows */
    int64_t a_row;
    int32_t first, rows; /* of A and C that are at work */
    int32_t columns, blocks, blocks_per_unit;
    int32_t parts, part_rows; /* segments of B, and the rows of all but the last one */
} matrices;

static int32_t bits_of(int32_t format)
{
    return format == OPENRKNN_FP16 ? 16 : format == OPENRKNN_INT8 ? 8 : 4;
}

static int8_t nibble(uint8_t byte, int32_t is_upper)
{
    return (int8_t)(((is_upper ? byte >> 4 : byte & 15) ^ 8) - 8);
}

/* ---------------------------------------------------------------------------------------------- A */

static void bring_integers(const matrices *m, uint8_t *out, int32_t row)
{
    const openrknn_product *step = m->step;
    for (int32_t k = 0; k < step->k; k += step->a_width) {
        const uint8_t *at = step->a + row * step->a_row + k / step->a_width * step->a_group;
        int32_t count = at_most(step->a_width, step->k - k);
        if (step->a_format == OPENRKNN_INT8)
            for (int32_t i = 0; i < count; i++)
                out[k + i] = (uint8_t)(at[i] + m->kernels->product_offset);
        else
            for (int32_t i = 0; i < count; i++)
                out[k + i] = (uint8_t)(nibble(at[i / 2], i & 1) + m->kernels->product_offset);
    }
}

static double bring_floats(const matrices *m, double *out, int32_t row)
{
    const openrknn_product *step = m->step;
    double squares[8] = {0}, sum = 0;
    for (int32_t k = 0; k < step->k; k += step->a_width) {
        const uint8_t *at = step->a + row * step->a_row + k / step->a_width * step->a_group;
        m->kernels->widen(at, out + k, at_most(step->a_width, step->k - k));
    }
    for (int32_t k = 0; k < step->k; k++)
        squares[k & 7] += out[k] * out[k];
    for (int32_t i = 0; i < 8; i++)
        sum += squares[i];
    return sqrt(sum);
}

/* ---------------------------------------------------------------------------------------------- C */

static void put(const openrknn_product *step, int32_t row, int32_t column, int32_t columns, const void *values)
{
    const int32_t size = step->to_doubles ? 8 : 4;
    for (int32_t done = 0; done < columns;) {
        int32_t at = column + done, in = at % step->c_width, count = at_most(columns - done, step->c_width - in);
        uint8_t *place = step->c + row * step->c_row + at / step->c_width * step->c_group + in * size;
        memcpy(place, (const uint8_t *)values + size * done, (size_t)count * (size_t)size);
        done += count;
    }
}

/* ---------------------------------------------------------------------------------------------- B */

static uint16_t half_at(const uint8_t *at, int32_t i)
{
    uint16_t half;
    memcpy(&half, at + 2 * i, 2);
    return half;
}

static int32_t whole_at(const product_task *task, const uint8_t *at, int32_t i, int32_t column)
{
    const int32_t whole = task->format == OPENRKNN_INT8 ? (int8_t)at[i] : nibble(at[i / 2], i & 1);
    return whole - (task->zeros ? task->zeros[column] : 0);
}

/* The rows of a column in their order: `at` is a tile of them, `i` counts in it, and `k` in all. */
#define FOR_COLUMN(task, column)                                                                                       \
    for (int32_t part = 0, k = 0; part < (task)->parts; part++)                                                        \
        for (int32_t tile = 0; tile < (task)->tiles[part]; tile++)                                                     \
            for (const uint8_t *at = (task)->b[part] + (column) * (task)->b_column + tile * (task)->b_tile, *once = at; \
                 once; once = NULL)                                                                                    \
                for (int32_t i = 0; i < (task)->tile_runs * 16; i++, k++)

/* For any numbers; slow. */
static float32 summed(const product_task *task, int32_t column, const double *a)
{
    exact_total total = {.count = 0};
    FOR_COLUMN(task, column)
        exact_add(&total, a[k] * (task->format == OPENRKNN_FP16 ? half_to_float(half_at(at, i))
                                                                : (double)whole_at(task, at, i, column)));
    return exact_rounded(&total);
}

#ifdef __SIZEOF_INT128__
/* Finite numbers: 2^20 products of 80 bits are a sum of 100 bits, which is rounded once. */
static float32 summed_units(const product_task *task, int32_t column, const double *a)
{
    const int32_t is_half = task->format == OPENRKNN_FP16;
    __int128 sum = 0;

    FOR_COLUMN(task, column)
        sum += (__int128)(int64_t)(a[k] * 0x1p24) * (is_half ? half_units(half_at(at, i)) : whole_at(task, at, i, column));
    return units_rounded(sum, is_half ? -48 : -24);
}
#else
#define summed_units summed
#endif

/*
 * As the convolution does it: where the rounding of the doubles could matter, the sum is taken again, exactly. Products
 * are exact; n additions of doubles are off by less than n * 2^-53 times the sum of magnitudes, which the product of
 * the lengths bounds. A lane has k / lanes of them; 16 more are for the sum of the lanes, the lengths and the ends.
 */
static void finish_floats(const matrices *m, const product_task *task, int32_t column)
{
    const double unit = ((double)m->step->k / m->kernels->product_lanes + 32) * 0x1p-53;
    for (int32_t row = 0; row < m->rows; row++) {
        const double *a = (const double *)(m->a + row * m->a_row);
        float32 rounded[MOST_COLUMNS];
        if (m->step->to_doubles) {
            put(m->step, m->first + row, column, task->columns, task->doubles + row * task->columns);
            continue;
        }
        for (int32_t c = 0; c < task->columns; c++) {
            const double sum = task->doubles[row * task->columns + c];
            const double error = unit * m->lengths[row] * task->column_lengths[c];
            const float32 low = (float32)(sum - error), high = (float32)(sum + error);
            rounded[c] = low;
            if (float_to_bits(low) == float_to_bits(high))
                continue;
            rounded[c] = (isfinite(error) ? summed_units : summed)(task, c, a);
        }
        put(m->step, m->first + row, column, task->columns, rounded);
    }
}

/* A block of columns. The tables of a task have room for `parts` entries. */
static void multiply_block(const matrices *m, int32_t block, const uint8_t **b, int32_t *tiles, void *room)
{
    const openrknn_product *step = m->step;
    const int32_t is_float = step->a_format == OPENRKNN_FP16, bits = bits_of(step->b_format);
    const int32_t column = block * m->columns, columns = at_most(m->columns, step->n - column);
    const int32_t tile_rows = step->b_column ? (is_float ? 16 : TILE) : step->tile_rows;
    int32_t column_sums[MOST_COLUMNS];
    double column_lengths[MOST_COLUMNS];

    for (int32_t part = 0; part < m->parts; part++) {
        int64_t first = (int64_t)part * m->part_rows;
        int32_t rows = at_most(m->part_rows, step->k - (int32_t)first);
        b[part] = step->b_column ? step->b + column * step->b_column
                                 : step->b + (first * step->n + (int64_t)column * (step->b_span ? step->b_span : rows)) * bits / 8;
        tiles[part] = rows / tile_rows;
    }
    product_task task = {
        .is_float = is_float,
        .format = step->b_format,
        .rows = m->rows,
        .columns = columns,
        .a = m->a,
        .a_row = m->a_row,
        .b = b,
        .tiles = tiles,
        .parts = m->parts,
        .tile_runs = tile_rows / 16,
        .b_column = step->b_column ? step->b_column : (int64_t)tile_rows * bits / 8,
        .b_tile = (int64_t)tile_rows * (step->b_column ? 1 : m->columns) * bits / 8,
        .zeros = step->zeros ? step->zeros + column : NULL,
        .column_sums = column_sums,
        .column_lengths = column_lengths,
        .sums = room,
        .doubles = room,
    };
    m->kernels->product(&task);
    if (is_float)
        finish_floats(m, &task, column);
    else
        for (int32_t row = 0; row < m->rows; row++)
            put(step, m->first + row, column, columns, task.sums + row * columns);
}

static void multiply_unit(void *job, int32_t unit)
{
    const matrices *m = job;
    double room[MOST_ROWS * MOST_COLUMNS];
    const uint8_t *b[OPENRKNN_PRODUCT_PARTS];
    int32_t tiles[OPENRKNN_PRODUCT_PARTS];
    const int32_t from = unit * m->blocks_per_unit, to = at_most(from + m->blocks_per_unit, m->blocks);

    for (int32_t block = from; block < to; block++)
        multiply_block(m, block, b, tiles, room);
}

/* Tiles are for whole numbers and for several rows: few of them wait for the memory of B, whatever computes. */
static const kernel_set *kernels_for(const openrknn_product *step)
{
    enum { FEW = 8 };
    const kernel_set *kernels = kernels_of(step->kernels);
    return kernels->rest && (step->a_format == OPENRKNN_FP16 || step->m < FEW) ? kernels->rest : kernels;
}

int32_t openrknn_multiply(const openrknn_product *step)
{
    const int32_t is_float = step->a_format == OPENRKNN_FP16, size = is_float ? (int32_t)sizeof(double) : 1;
    const int32_t most = at_most(MOST_ROWS, step->m);
    matrices m = {.step = step, .kernels = kernels_for(step), .a_row = (int64_t)step->k * size};
    uint8_t *a = scratch(SCRATCH_INPUT, round_up(most, 16) * m.a_row + most * (int64_t)sizeof(double) + SLACK);
    double *lengths = (double *)a;

    if (!a)
        return -1;
    m.lengths = lengths;
    m.a = a + most * sizeof(double);
    m.part_rows = step->segment && !step->b_column ? step->segment : step->k;
    m.parts = divide_up(step->k, m.part_rows);
    m.columns = step->b_column ? PLAIN_COLUMNS : step->tile_columns;
    m.blocks = divide_up(step->n, m.columns);
    for (m.first = 0; m.first < step->m; m.first += most) {
        m.rows = at_most(most, step->m - m.first);
        for (int32_t row = 0; row < m.rows; row++) {
            uint8_t *out = a + most * sizeof(double) + row * m.a_row;
            if (is_float)
                lengths[row] = bring_floats(&m, (double *)out, m.first + row);
            else
                bring_integers(&m, out, m.first + row);
        }
        /* With few rows the memory of B is what takes time. */
        const int64_t macs = (int64_t)m.rows * step->k * step->n;
        const int64_t bytes = (int64_t)step->k * step->n * bits_of(step->b_format) / 8;
        const int64_t work = macs / (is_float ? m.kernels->float_products : m.kernels->products) + bytes / COPY_BYTES;
        const int32_t threads = useful_threads(work);
        m.blocks_per_unit = threads > 1 ? divide_up(m.blocks, 8 * threads) : m.blocks;
        run_units(divide_up(m.blocks, m.blocks_per_unit), work, multiply_unit, &m);
    }
    return 0;
}
