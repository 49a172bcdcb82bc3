/*
 * C = A * B on the matrices themselves: integers exactly, floating point as the convolution of the NPU has it.
 * runtime/matmul/direct.py describes the matrices.
 *
 * A is brought into rows, or into atoms of 8 floats, a few hundred rows at a time. B is cut into blocks of columns,
 * which threads share; it is read as it lies in memory.
 */
#include "internal.h"

enum { MOST_ROWS = 256, MOST_COLUMNS = 64, PLAIN_COLUMNS = 16, TILE = 32, TAP = 8, PANEL_ROWS = 256 };

typedef struct {
    const openrknn_product *step;
    const kernel_set *kernels;
    const uint8_t *a; /* rows of bytes, or atoms of floats */
    const int32_t *offsets; /* from atom to atom of a row, for a panel */
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

/* Of each row 8 numbers side by side, as a convolution has its pixels. */
static void bring_floats(const matrices *m, int32_t row, float32 *one, float32 *out)
{
    const openrknn_product *step = m->step;
    for (int32_t k = 0; k < step->k; k += step->a_width) {
        const uint8_t *at = step->a + (m->first + row) * step->a_row + k / step->a_width * step->a_group;
        m->kernels->widen(at, one + k, at_most(step->a_width, step->k - k));
    }
    for (int32_t tap = 0; tap < step->k / TAP; tap++)
        memcpy(out + ((int64_t)tap * m->rows + row) * TAP, one + tap * TAP, TAP * sizeof *one);
}

/* ---------------------------------------------------------------------------------------------- C */

static void put(const openrknn_product *step, int32_t row, int32_t column, int32_t columns, const void *values)
{
    const int32_t size = 4;
    for (int32_t done = 0; done < columns;) {
        int32_t at = column + done, in = at % step->c_width, count = at_most(columns - done, step->c_width - in);
        uint8_t *place = step->c + row * step->c_row + at / step->c_width * step->c_group + in * size;
        memcpy(place, (const uint8_t *)values + size * done, (size_t)count * (size_t)size);
        done += count;
    }
}

/* ---------------------------------------------------------------------------------------------- B */

/* Runs of 16 rows of B, one after the other. */
typedef struct {
    int32_t part, tile, run;
} run_place;

/* The rows of B from `place` on, PANEL_ROWS of them at the most, as floats; how many. */
static int32_t bring_columns(const matrices *m, const product_task *task, int32_t first, int32_t columns, run_place *place,
                             float32 *panel)
{
    const int32_t run_bytes = 16 * bits_of(task->format) / 8;
    int32_t rows = 0;
    for (; place->part < task->parts && rows < PANEL_ROWS; rows += 16) {
        const float_columns run = {
            .at = task->b[place->part] + first * task->b_column + place->tile * task->b_tile + place->run * run_bytes,
            .column = task->b_column,
            .columns = columns,
            .format = task->format,
            .zeros = task->zeros ? task->zeros + first : NULL,
        };
        m->kernels->float_columns_run(&run, panel + rows * ATOM);
        if (++place->run == task->tile_runs) {
            place->run = 0;
            if (++place->tile == task->tiles[place->part]) {
                place->tile = 0;
                place->part++;
            }
        }
    }
    return rows;
}

/* The sums of a convolution whose pixels are the rows of A. */
static void multiply_floats(const matrices *m, const product_task *task, int32_t column, float32 *sums)
{
    float32 panel[PANEL_ROWS * ATOM] __attribute__((aligned(64)));
    int32_t list[PANEL_ROWS / TAP];

    for (int32_t first = 0; first < task->columns; first += ATOM) {
        const int32_t columns = at_most(ATOM, task->columns - first);
        run_place place = {0};
        for (int32_t done = 0, rows; done < m->step->k; done += rows) {
            rows = bring_columns(m, task, first, columns, &place, panel);
            for (int32_t tap = 0; tap < rows / TAP; tap++)
                list[tap] = tap << 1 | (tap % FLOAT_GROUP == FLOAT_GROUP - 1 || tap == rows / TAP - 1);
            for (int32_t row = 0; row < m->rows; row += USUAL_SEGMENT) {
                const float_task segment = {
                    .input = m->a + ((int64_t)done / TAP * m->rows + row) * TAP * (int64_t)sizeof(float32),
                    .offsets = m->offsets,
                    .list = list,
                    .taps = rows / TAP,
                    .lanes = TAP,
                    .pixels = at_most(USUAL_SEGMENT, m->rows - row),
                    .format = OPENRKNN_FP16,
                    .goes_on = done > 0,
                    .panel = panel,
                    .sums = sums + row * ATOM,
                };
                m->kernels->float_segment(&segment);
            }
        }
        for (int32_t row = 0; row < m->rows; row++)
            put(m->step, m->first + row, column + first, columns, sums + row * ATOM);
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

    for (int32_t part = 0; part < m->parts; part++) {
        int64_t first = (int64_t)part * m->part_rows;
        int32_t rows = at_most(m->part_rows, step->k - (int32_t)first);
        b[part] = step->b_column ? step->b + column * step->b_column
                                 : step->b + (first * step->n + (int64_t)column * (step->b_span ? step->b_span : rows)) * bits / 8;
        tiles[part] = rows / tile_rows;
    }
    product_task task = {
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
        .sums = room,
    };
    if (is_float) {
        multiply_floats(m, &task, column, room);
        return;
    }
    m->kernels->product(&task);
    for (int32_t row = 0; row < m->rows; row++)
        put(step, m->first + row, column, columns, task.sums + row * columns);
}

static void multiply_unit(void *job, int32_t unit)
{
    const matrices *m = job;
    int32_t room[MOST_ROWS * MOST_COLUMNS] __attribute__((aligned(64)));
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
    const int32_t is_float = step->a_format == OPENRKNN_FP16, size = is_float ? (int32_t)sizeof(float32) : 1;
    const int32_t most = at_most(MOST_ROWS, step->m);
    matrices m = {.step = step, .kernels = kernels_for(step), .a_row = (int64_t)step->k * size};
    int32_t offsets[PANEL_ROWS / TAP];
    uint8_t *a = scratch(SCRATCH_INPUT, (round_up(most, 16) + 1) * m.a_row + SLACK);
    float32 *one = (float32 *)(a + most * m.a_row);

    if (!a)
        return -1;
    m.a = a;
    m.offsets = offsets;
    m.part_rows = step->segment && !step->b_column ? step->segment : step->k;
    m.parts = divide_up(step->k, m.part_rows);
    m.columns = step->b_column ? PLAIN_COLUMNS : step->tile_columns;
    m.blocks = divide_up(step->n, m.columns);
    for (m.first = 0; m.first < step->m; m.first += most) {
        m.rows = at_most(most, step->m - m.first);
        for (int32_t tap = 0; tap < PANEL_ROWS / TAP; tap++)
            offsets[tap] = tap * m.rows * TAP * (int32_t)sizeof(float32);
        for (int32_t row = 0; row < m.rows; row++)
            if (is_float)
                bring_floats(&m, row, one, (float32 *)a);
            else
                bring_integers(&m, a + row * m.a_row, m.first + row);
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
