/*
 * Products of matrices, for any instruction set: a few rows of A by a few columns of B at a time, whose sums are
 * registers. Numbers that are multiplied with each other lie behind each other on both sides, so nothing is packed: B is
 * read where it is, once. product_floats.h has floating point.
 *
 * Before this file comes, of 32 numbers:
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

static void product(const product_task *task)
{
    (task->format == OPENRKNN_INT8 ? product_of_bytes : product_of_nibbles)(task);
}
