/*
 * Products of matrices by tiles, behind the grids of tile_template.h. Rows of A are tiles as they are. Columns of B are
 * brought into tiles, TILE_CHUNKS of 64 rows at a time, so that they stay near while all rows of A pass by; the sums are in
 * memory meanwhile.
 */
enum { TILE_CHUNKS = 8, PAIR = 32 };

/* Bytes of 32 rows of a column, whatever their format. */
static void bring_rows(const uint8_t *at, int32_t format, uint8_t *out)
{
    if (format == OPENRKNN_INT8)
        memcpy(out, at, PAIR);
    else
        for (int32_t i = 0; i < PAIR; i++)
            out[i] = (uint8_t)(((i & 1 ? at[i / 2] >> 4 : at[i / 2] & 15) ^ 8) - 8);
}

/* 32 rows of 16 columns at most into half `half` of a tile. */
static void bring_columns(const product_task *task, const uint8_t *at, int32_t columns, uint8_t *tile, int32_t half)
{
    for (int32_t column = 0; column < ATOM; column++) {
        uint8_t rows[PAIR] = {0};
        if (column < columns)
            bring_rows(at + column * task->b_column, task->format, rows);
        for (int32_t group = 0; group < PAIR / 4; group++)
            memcpy(tile + ((half * (PAIR / 4) + group) * ATOM + column) * 4, rows + group * 4, 4);
    }
}

/* The tiles of B in their order, of 32 rows each. */
typedef struct {
    int32_t part, tile;
} product_place;

/* The next chunks of 16 columns; how many there are. */
static int32_t bring_chunks(const product_task *task, product_place *place, int32_t column, uint8_t *panel)
{
    const int32_t columns = at_most(ATOM, task->columns - column);
    int32_t halves = 0;
    for (; place->part < task->parts && halves < 2 * TILE_CHUNKS; halves++) {
        bring_columns(task, task->b[place->part] + column * task->b_column + place->tile * task->b_tile, columns,
                      panel + halves / 2 * STRIP_BYTES, halves & 1);
        if (++place->tile >= task->tiles[place->part]) {
            place->tile = 0;
            place->part++;
        }
    }
    if (halves & 1)
        memset(panel + halves / 2 * STRIP_BYTES + STRIP_BYTES / 2, 0, STRIP_BYTES / 2);
    return divide_up(halves, 2);
}

static void product(const product_task *task)
{
    uint8_t panel[TILE_CHUNKS * STRIP_BYTES] __attribute__((aligned(64)));
    int32_t sums[AT_ONCE * TILE_ROWS * ATOM] __attribute__((aligned(64)));

    tiles_begin();
    for (int32_t column = 0; column < task->columns; column += ATOM) {
        const int32_t columns = at_most(ATOM, task->columns - column);
        product_place place = {0, 0};
        for (int64_t k = 0, chunks; place.part < task->parts; k += chunks * TILE_BYTES) {
            chunks = bring_chunks(task, &place, column, panel);
            for (int32_t row = 0; row < task->rows; row += AT_ONCE * TILE_ROWS) {
                const int32_t rows = at_most(AT_ONCE * TILE_ROWS, task->rows - row);
                int32_t *out = task->sums + row * task->columns + column;
                for (int32_t r = 0; r < rows && k; r++)
                    memcpy(sums + r * ATOM, out + r * task->columns, (size_t)columns * sizeof *sums);
                tile_grid grid = {
                    .a = task->a + row * task->a_row + k,
                    .chunks = (int32_t)chunks,
                    .a_row = task->a_row,
                    .a_tile = TILE_ROWS * task->a_row,
                    .b = panel,
                    .start = k ? sums : no_addends,
                    .start_row = k ? ATOM * (int64_t)sizeof *sums : 0,
                    .start_m = k ? TILE_ROWS * ATOM * (int64_t)sizeof *sums : 0,
                    .sums = sums,
                    .sums_m = TILE_ROWS * ATOM * sizeof *sums,
                };
                grid_all(&grid, divide_up(rows, TILE_ROWS), 1);
                for (int32_t r = 0; r < rows; r++)
                    memcpy(out + r * task->columns, sums + r * ATOM, (size_t)columns * sizeof *sums);
            }
        }
    }
    tiles_end();
}
