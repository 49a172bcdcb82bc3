/*
 * Products of matrices with SDOT where A has several rows: 16 columns of B become a panel [group of 4 rows][16 columns][4],
 * and the rows of A are multiplied as the pixels of a convolution are.
 */
static const tile_function row_tiles[] = {rows_1, rows_2, rows_3, rows_4, rows_5, rows_6};

enum { PANEL_TILES = 32, TILE_DEPTH = 32, PANEL_STEP = TILE_DEPTH * ATOM, FEWEST_ROWS = 24, FEWEST_OF_NIBBLES = 8, MOST_PRODUCT_ROWS = 256 };

/* 16 rows of 4 columns, as 4 groups of 4 rows. */
ALWAYS_INLINE void store_groups(const int8x16_t *columns, uint8_t *panel)
{
    const int32x4_t a = vreinterpretq_s32_s8(columns[0]), b = vreinterpretq_s32_s8(columns[1]);
    const int32x4_t c = vreinterpretq_s32_s8(columns[2]), d = vreinterpretq_s32_s8(columns[3]);
    const int32x4_t low_0 = vzip1q_s32(a, c), low_1 = vzip1q_s32(b, d), high_0 = vzip2q_s32(a, c), high_1 = vzip2q_s32(b, d);

    vst1q_s32((int32_t *)panel, vzip1q_s32(low_0, low_1));
    vst1q_s32((int32_t *)(panel + 4 * ATOM), vzip2q_s32(low_0, low_1));
    vst1q_s32((int32_t *)(panel + 8 * ATOM), vzip1q_s32(high_0, high_1));
    vst1q_s32((int32_t *)(panel + 12 * ATOM), vzip2q_s32(high_0, high_1));
}

/* 32 rows of up to 16 columns; the others are 0. */
ALWAYS_INLINE void bring_panel(const uint8_t *at, int64_t column_bytes, int32_t columns, uint8_t *panel, const int32_t has_nibbles)
{
    for (int32_t first = 0; first < ATOM; first += 4) {
        int8x16_t upper[4], lower[4];
        for (int32_t i = 0; i < 4; i++) {
            product_bytes bytes = {{vdupq_n_s8(0), vdupq_n_s8(0)}};
            if (first + i < columns) {
                const uint8_t *column = at + (first + i) * column_bytes;
                bytes = has_nibbles ? product_load_nibbles(column) : product_load(column);
            }
            upper[i] = bytes.val[0];
            lower[i] = bytes.val[1];
        }
        store_groups(upper, panel + 4 * first);
        store_groups(lower, panel + 4 * first + 16 * ATOM);
    }
}

/* The next rows of 16 columns, from a place in B on; how many times 32. */
ALWAYS_INLINE int32_t bring_panels(const product_task *task, int32_t column, int32_t *part, int32_t *tile, uint8_t *panel,
                                   const int32_t has_nibbles)
{
    const int32_t columns = at_most(ATOM, task->columns - column);
    int32_t count = 0;
    while (*part < task->parts && count < PANEL_TILES) {
        if (*tile >= task->tiles[*part]) {
            *tile = 0;
            (*part)++;
            continue;
        }
        bring_panel(task->b[*part] + column * task->b_column + (*tile)++ * task->b_tile, task->b_column, columns,
                    panel + count++ * PANEL_STEP, has_nibbles);
    }
    return count;
}

/* Into the result, or added to what is there. */
ALWAYS_INLINE void put_sums(int32_t *out, const int32_t *sums, int32_t columns, int32_t is_first)
{
    if (columns == ATOM) {
        for (int32_t i = 0; i < ATOM; i += 4)
            vst1q_s32(out + i, is_first ? vld1q_s32(sums + i) : vaddq_s32(vld1q_s32(out + i), vld1q_s32(sums + i)));
        return;
    }
    for (int32_t c = 0; c < columns; c++)
        out[c] = (int32_t)((is_first ? 0 : (uint32_t)out[c]) + (uint32_t)sums[c]);
}

ALWAYS_INLINE void product_columns(const product_task *task, int32_t column, const int32_t has_nibbles)
{
    uint8_t panel[PANEL_TILES * PANEL_STEP + SLACK] __attribute__((aligned(64)));
    int32_t sums[MOST_PRODUCT_ROWS * ATOM] __attribute__((aligned(64)));
    const int32_t columns = at_most(ATOM, task->columns - column);
    const uint8_t *a = task->a;
    int32_t part = 0, tile = 0;
    tile_constants constants;

    prepare_tiles(&(block_task){0}, &constants);
    for (int32_t count, is_first = 1; (count = bring_panels(task, column, &part, &tile, panel, has_nibbles)); is_first = 0) {
        const segment_task rows = {
            .input = a,
            .taps = count * (TILE_DEPTH / ATOM),
            .pixels = task->rows,
            .pixel_step = (int32_t)task->a_row,
            .weights = panel,
            .constants = &constants,
            .sums = sums,
        };
        sdot_segment(&rows, row_tiles);
        a += count * TILE_DEPTH;
        for (int32_t row = 0; row < task->rows; row++)
            put_sums(task->sums + row * task->columns + column, sums + row * ATOM, columns, is_first);
    }
}

static void sdot_product(const product_task *task)
{
    const int32_t fewest = task->format == OPENRKNN_INT8 ? FEWEST_ROWS : FEWEST_OF_NIBBLES;
    if (task->rows < fewest || task->rows > MOST_PRODUCT_ROWS) {
        product(task);
        return;
    }
    for (int32_t column = 0; column < task->columns; column += ATOM)
        if (task->format == OPENRKNN_INT8)
            product_columns(task, column, 0);
        else
            product_columns(task, column, 1);
}
#undef PRODUCT_KERNEL
#define PRODUCT_KERNEL sdot_product
