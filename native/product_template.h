/*
 * Products of matrices, for any instruction set: a few rows of A by a few columns of B at a time, whose sums are
 * registers. Numbers that are multiplied with each other lie behind each other on both sides, so nothing is packed: B is
 * read where it is, once.
 *
 * Before this file comes what float_template.h needs, and for integers, of 32 numbers:
 *     product_bytes                 the type, product_load (bytes) and product_load_nibbles (4 bits, the lower half
 *                                   first), and for 16 of them product_unpack(from, to)
 *     product_sums                  the type, product_none(), product_add(sums, of A, of B) and product_total(sums)
 *     PRODUCT_OFFSET                A is stored as a + PRODUCT_OFFSET; the columns' sums take that back
 * or nothing, and then plain C does it.
 */
#ifndef PRODUCT_OFFSET
#define PRODUCT_OFFSET 0
typedef struct {
    int8_t lane[32];
} product_bytes;
typedef struct {
    int32_t lane[16];
} product_sums;

ALWAYS_INLINE product_bytes product_load(const uint8_t *at)
{
    product_bytes x;
    memcpy(&x, at, sizeof x);
    return x;
}

ALWAYS_INLINE product_bytes product_load_nibbles(const uint8_t *at)
{
    product_bytes x;
    for (int32_t i = 0; i < 16; i++) {
        x.lane[2 * i] = (int8_t)(((at[i] & 15) ^ 8) - 8);
        x.lane[2 * i + 1] = (int8_t)(((at[i] >> 4) ^ 8) - 8);
    }
    return x;
}

ALWAYS_INLINE void product_unpack(const uint8_t *at, int8_t *out)
{
    for (int32_t i = 0; i < 8; i++) {
        out[2 * i] = (int8_t)(((at[i] & 15) ^ 8) - 8);
        out[2 * i + 1] = (int8_t)(((at[i] >> 4) ^ 8) - 8);
    }
}

ALWAYS_INLINE product_sums product_none(void)
{
    return (product_sums){{0}};
}

ALWAYS_INLINE product_sums product_add(product_sums sums, product_bytes a, product_bytes b)
{
    for (int32_t i = 0; i < 16; i++)
        sums.lane[i] += (int16_t)a.lane[i] * (int16_t)b.lane[i] + (int16_t)a.lane[i + 16] * (int16_t)b.lane[i + 16];
    return sums;
}

ALWAYS_INLINE int32_t product_total(product_sums sums)
{
    int32_t total = 0;
    for (int32_t i = 0; i < 16; i++)
        total += sums.lane[i];
    return total;
}
#endif

enum { FEW_ROWS = 4, FEW_COLUMNS = 4, MANY_COLUMNS = 8 };

ALWAYS_INLINE void integer_tile(const product_task *task, int32_t row, int32_t column, const int32_t rows,
                                const int32_t columns, const int32_t has_nibbles, const int32_t is_first)
{
    product_sums sums[FEW_ROWS][MANY_COLUMNS], alone[MANY_COLUMNS];
    const uint8_t ones[32] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    const product_bytes one = product_load(ones);
    const uint8_t *a = task->a + row * task->a_row;

#pragma GCC unroll 8
    for (int32_t c = 0; c < columns; c++) {
        alone[c] = product_none();
#pragma GCC unroll 4
        for (int32_t r = 0; r < rows; r++)
            sums[r][c] = product_none();
    }
    for (int32_t part = 0; part < task->parts; part++) {
        const uint8_t *b = task->b[part] + column * task->b_column;
        for (int32_t tile = 0; tile < task->tiles[part]; tile++, a += 32, b += task->b_tile) {
            product_bytes x[FEW_ROWS];
#pragma GCC unroll 4
            for (int32_t r = 0; r < rows; r++)
                x[r] = product_load(a + r * task->a_row);
#pragma GCC unroll 8
            for (int32_t c = 0; c < columns; c++) {
                const uint8_t *at = b + c * task->b_column;
                const product_bytes y = has_nibbles ? product_load_nibbles(at) : product_load(at);
                if (PRODUCT_OFFSET && is_first)
                    alone[c] = product_add(alone[c], one, y);
#pragma GCC unroll 4
                for (int32_t r = 0; r < rows; r++)
                    sums[r][c] = product_add(sums[r][c], x[r], y);
            }
        }
    }
    for (int32_t c = 0; c < columns; c++) {
        if (PRODUCT_OFFSET && is_first)
            task->column_sums[column + c] = product_total(alone[c]);
        /* Without a sign: on the way sums may leave 32 bits, and come back. */
        const uint32_t back = PRODUCT_OFFSET ? (uint32_t)PRODUCT_OFFSET * (uint32_t)task->column_sums[column + c] : 0;
        for (int32_t r = 0; r < rows; r++)
            task->sums[(row + r) * task->columns + column + c] = (int32_t)((uint32_t)product_total(sums[r][c]) - back);
    }
}

ALWAYS_INLINE void product_weights(const uint8_t *at, const int32_t format, doubles zero, doubles *out)
{
    if (format == OPENRKNN_FP16) {
        float32 wide[16];
        halves_to_floats(at, wide);
        halves_to_floats(at + ATOM, wide + 8);
        load_floats(wide, out);
        return;
    }
    if (format == OPENRKNN_INT8)
        load_bytes((const int8_t *)at, out);
    else {
        int8_t bytes[16];
        product_unpack(at, bytes);
        load_bytes(bytes, out);
    }
#pragma GCC unroll 16
    for (int32_t v = 0; v < NV; v++)
        out[v] = doubles_subtract(out[v], zero);
}

ALWAYS_INLINE double total_of(doubles x)
{
    double lanes[16 / NV], total = 0;
    memcpy(lanes, &x, sizeof lanes);
    for (int32_t i = 0; i < 16 / NV; i++)
        total += lanes[i];
    return total;
}

/* Sums in double precision; for the first rows also the squares of the columns, which say how far off they may be. */
ALWAYS_INLINE void float_product_tile(const product_task *task, int32_t row, int32_t column, const int32_t rows,
                                      const int32_t columns, const int32_t format, const int32_t is_first)
{
    doubles sums[FEW_ROWS][MANY_COLUMNS], squares[MANY_COLUMNS], zero[MANY_COLUMNS];
    const double *a = (const double *)(task->a + row * task->a_row);
    const int32_t run_bytes = format == OPENRKNN_FP16 ? 32 : format == OPENRKNN_INT8 ? 16 : 8;

#pragma GCC unroll 8
    for (int32_t c = 0; c < columns; c++) {
        squares[c] = doubles_set(0.0);
        zero[c] = doubles_set(task->zeros ? (double)task->zeros[column + c] : 0.0);
#pragma GCC unroll 4
        for (int32_t r = 0; r < rows; r++)
            sums[r][c] = doubles_set(0.0);
    }
    for (int32_t part = 0; part < task->parts; part++) {
        const uint8_t *tile = task->b[part] + column * task->b_column;
        for (int32_t left = task->tiles[part]; left > 0; left--, tile += task->b_tile)
            for (int32_t run = 0; run < task->tile_runs; run++, a += 16) {
#pragma GCC unroll 8
                for (int32_t c = 0; c < columns; c++) {
                    doubles w[NV];
                    product_weights(tile + c * task->b_column + run * run_bytes, format, zero[c], w);
#pragma GCC unroll 16
                    for (int32_t v = 0; v < NV; v++) {
                        if (is_first)
                            squares[c] = doubles_multiply_add(w[v], w[v], squares[c]);
#pragma GCC unroll 4
                        for (int32_t r = 0; r < rows; r++) {
                            const double *x = (const double *)((const uint8_t *)a + r * task->a_row) + v * (16 / NV);
                            sums[r][c] = doubles_multiply_add(w[v], doubles_load(x), sums[r][c]);
                        }
                    }
                }
            }
    }
    for (int32_t c = 0; c < columns; c++) {
        if (is_first)
            task->column_lengths[column + c] = sqrt(total_of(squares[c]));
        for (int32_t r = 0; r < rows; r++)
            task->doubles[(row + r) * task->columns + column + c] = total_of(sums[r][c]);
    }
}

/* ---------------------------------------------------------------------------------------------- many rows */

/*
 * Columns become doubles once for PANEL rows: CHUNK rows of 16 columns fit into the first level cache, and so do the
 * sums of a panel, which are vectors until the end.
 */
enum { PANEL = 32, WIDTH = 16, CHUNK = 128, LANES_OF = 16 / NV };

typedef struct {
    doubles sums[PANEL][WIDTH], squares[WIDTH];
    double weights[WIDTH][CHUNK];
} panel_room;

ALWAYS_INLINE void panel_tile(panel_room *room, const product_task *task, const double *a, int32_t row, int32_t column,
                              int32_t count, const int32_t rows, const int32_t columns)
{
    doubles sums[FEW_ROWS][FEW_COLUMNS];
#pragma GCC unroll 4
    for (int32_t r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int32_t c = 0; c < columns; c++)
            sums[r][c] = room->sums[row + r][column + c];
    for (int32_t k = 0; k < count; k += LANES_OF) {
        doubles w[FEW_COLUMNS];
#pragma GCC unroll 4
        for (int32_t c = 0; c < columns; c++)
            w[c] = doubles_load(room->weights[column + c] + k);
#pragma GCC unroll 4
        for (int32_t r = 0; r < rows; r++) {
            const doubles x = doubles_load((const double *)((const uint8_t *)a + r * task->a_row) + k);
#pragma GCC unroll 4
            for (int32_t c = 0; c < columns; c++)
                sums[r][c] = doubles_multiply_add(w[c], x, sums[r][c]);
        }
    }
#pragma GCC unroll 4
    for (int32_t r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int32_t c = 0; c < columns; c++)
            room->sums[row + r][column + c] = sums[r][c];
}

static void panel_chunk(panel_room *room, const product_task *task, const double *a, int32_t rows, int32_t columns,
                        int32_t count)
{
    for (int32_t row = 0; row < rows;) {
        const double *at = (const double *)((const uint8_t *)a + row * task->a_row);
        const int32_t is_few = row + FEW_ROWS <= rows;
        int32_t column = 0;
        for (; column + FEW_COLUMNS <= columns; column += FEW_COLUMNS)
            if (is_few)
                panel_tile(room, task, at, row, column, count, FEW_ROWS, FEW_COLUMNS);
            else
                panel_tile(room, task, at, row, column, count, 1, FEW_COLUMNS);
        for (; column < columns; column++)
            if (is_few)
                panel_tile(room, task, at, row, column, count, FEW_ROWS, 1);
            else
                panel_tile(room, task, at, row, column, count, 1, 1);
        row += is_few ? FEW_ROWS : 1;
    }
}

/* `tiles` tiles of B, of 16 columns at the most, as doubles. */
ALWAYS_INLINE void panel_weights(panel_room *room, const product_task *task, const uint8_t *b, int32_t column,
                                 int32_t columns, int32_t tiles, const int32_t format)
{
    const int32_t run_bytes = format == OPENRKNN_FP16 ? 32 : format == OPENRKNN_INT8 ? 16 : 8;
    for (int32_t c = 0; c < columns; c++) {
        const doubles zero = doubles_set(task->zeros ? (double)task->zeros[column + c] : 0.0);
        double *out = room->weights[c];
        for (int32_t tile = 0; tile < tiles; tile++)
            for (int32_t run = 0; run < task->tile_runs; run++, out += 16) {
                doubles w[NV];
                product_weights(b + c * task->b_column + tile * task->b_tile + run * run_bytes, format, zero, w);
#pragma GCC unroll 16
                for (int32_t v = 0; v < NV; v++)
                    room->squares[c] = doubles_multiply_add(w[v], w[v], room->squares[c]);
                memcpy(out, w, sizeof w);
            }
    }
}

ALWAYS_INLINE void panel_product(const product_task *task, int32_t row, int32_t rows, const int32_t format)
{
    const int32_t most = CHUNK / (task->tile_runs * 16);
    for (int32_t column = 0; column < task->columns; column += WIDTH) {
        const int32_t columns = at_most(WIDTH, task->columns - column);
        const double *a = (const double *)(task->a + row * task->a_row);
        panel_room room;
        for (int32_t c = 0; c < columns; c++) {
            room.squares[c] = doubles_set(0.0);
            for (int32_t r = 0; r < rows; r++)
                room.sums[r][c] = doubles_set(0.0);
        }
        for (int32_t part = 0; part < task->parts; part++)
            for (int32_t tile = 0; tile < task->tiles[part]; tile += most) {
                const int32_t tiles = at_most(most, task->tiles[part] - tile), count = tiles * task->tile_runs * 16;
                panel_weights(&room, task, task->b[part] + column * task->b_column + tile * task->b_tile, column,
                              columns, tiles, format);
                panel_chunk(&room, task, a, rows, columns, count);
                a += count;
            }
        for (int32_t c = 0; c < columns; c++) {
            task->column_lengths[column + c] = sqrt(total_of(room.squares[c]));
            for (int32_t r = 0; r < rows; r++)
                task->doubles[(row + r) * task->columns + column + c] = total_of(room.sums[r][c]);
        }
    }
}

#define FLOAT_PRODUCT(name, format)                                                                                    \
    static void name(const product_task *task)                                                                         \
    {                                                                                                                  \
        for (int32_t row = 0; row < task->rows && task->rows >= FEW_ROWS; row += PANEL)                                \
            panel_product(task, row, at_most(PANEL, task->rows - row), format);                                        \
        for (int32_t row = 0; row < task->rows && task->rows < FEW_ROWS; row++) {                                      \
            int32_t column = 0;                                                                                        \
            for (; column + MANY_COLUMNS <= task->columns; column += MANY_COLUMNS)                                     \
                float_product_tile(task, row, column, 1, MANY_COLUMNS, format, 1);                                     \
            for (; column < task->columns; column++)                                                                   \
                float_product_tile(task, row, column, 1, 1, format, 1);                                                \
        }                                                                                                              \
    }

#define ROWS_OF(tile, count, width, what, first)                                                                        \
    do {                                                                                                               \
        int32_t column = 0;                                                                                            \
        for (; column + (width) <= task->columns; column += (width))                                                   \
            tile(task, row, column, count, width, what, first);                                                         \
        for (; column < task->columns; column++)                                                                       \
            tile(task, row, column, count, 1, what, first);                                                             \
    } while (0)

#define PRODUCT(name, tile, what)                                                                                      \
    static void name(const product_task *task)                                                                         \
    {                                                                                                                  \
        int32_t row = 0;                                                                                               \
        if (task->rows < FEW_ROWS)                                                                                     \
            ROWS_OF(tile, 1, MANY_COLUMNS, what, 1);                                                                   \
        else                                                                                                           \
            ROWS_OF(tile, FEW_ROWS, FEW_COLUMNS, what, 1);                                                             \
        for (row = task->rows < FEW_ROWS ? 1 : FEW_ROWS; row + FEW_ROWS <= task->rows; row += FEW_ROWS)                \
            ROWS_OF(tile, FEW_ROWS, FEW_COLUMNS, what, 0);                                                             \
        for (; row < task->rows; row++)                                                                                \
            ROWS_OF(tile, 1, MANY_COLUMNS, what, 0);                                                                   \
    }

PRODUCT(product_of_bytes, integer_tile, 0)
PRODUCT(product_of_nibbles, integer_tile, 1)
FLOAT_PRODUCT(product_of_halves, OPENRKNN_FP16)
FLOAT_PRODUCT(product_with_bytes, OPENRKNN_INT8)
FLOAT_PRODUCT(product_with_nibbles, OPENRKNN_INT4)

static void product(const product_task *task)
{
    if (task->is_float)
        (task->format == OPENRKNN_FP16 ? product_of_halves
         : task->format == OPENRKNN_INT8 ? product_with_bytes
                                         : product_with_nibbles)(task);
    else
        (task->format == OPENRKNN_INT8 ? product_of_bytes : product_of_nibbles)(task);
}

static void widen(const uint8_t *halves, double *out, int32_t count)
{
    int32_t i = 0;
    uint16_t half;
    for (; i + 8 <= count; i += 8) {
        float32 wide[8];
        halves_to_floats(halves + 2 * i, wide);
        for (int32_t lane = 0; lane < 8; lane++)
            out[i + lane] = wide[lane];
    }
    for (; i < count; i++) {
        memcpy(&half, halves + 2 * i, sizeof half);
        out[i] = half_to_float(half);
    }
}
