/*
 * Kernels for processors with tiles (AMX): the file that includes this one defines the instructions, on tiles of 16
 * rows of 64 bytes with the numbers 0 to 7, which must be written as digits:
 *
 *     tiles_begin(), tiles_end()       all tiles get that shape; the tiles are given back
 *     tile_load(tile, at, step)        rows of 64 bytes, `step` bytes apart
 *     tile_store(tile, at, step)
 *     TILE_PRODUCTS                    in a nanosecond, roughly
 *     TILE_CHOOSES                     whether other kernels take what is faster without tiles
 *     tile_multiply(sums, a, b)        sums[m][n] += a[m][4k + i] * b[k][4n + i], bytes with signs, sums of 32 bits
 *
 * A convolution finds its input as [row][column][channels], so that the columns of a kernel's row and their channels are
 * one run of bytes. 64 of them for each of 16 neighbouring pixels are a tile, whatever the stride: nothing is gathered.
 * Weights are stored as tiles: [atom][64 inputs as 16 groups of 4][16 channels out][4]. A tile of sums is 16 pixels of
 * an atom. Runs are filled up to 64 bytes: there the weights are 0, and what is read does not matter.
 *
 * tile_multiply takes 16 cycles, and 52 until its sums are there; a load takes 8. So four tiles of sums are in work at
 * the same time, 2 by 2 where there are as many: each load serves two products.
 */
enum { TILE_ROWS = 16, TILE_BYTES = 64, STRIP_BYTES = TILE_ROWS * TILE_BYTES, AT_ONCE = 4, ATOMS_AT_ONCE = 2 };
_Static_assert(SEGMENT == AT_ONCE * TILE_ROWS && TILE_ROWS == ATOM, "a segment is a whole number of tiles");

static const int32_t no_addends[ATOM] __attribute__((aligned(64)));

/* A grid of tiles: `m` tiles of rows of A by `n` tiles of columns of B. */
typedef struct {
    const uint8_t *a;
    const int32_t *offsets; /* of each 64 bytes, from a; NULL: they follow each other */
    int32_t chunks;         /* of 64 bytes */
    int64_t a_row, a_tile;  /* bytes from row to row, and from tile to tile */
    const uint8_t *b;       /* [tile of columns][chunk] */
    int64_t b_tile;
    const int32_t *start; /* what the sums begin with */
    int64_t start_row, start_m, start_n; /* bytes from row to row, and from tile to tile */
    int32_t *sums;
    int64_t sums_m, sums_n;   /* a row of sums is 64 bytes */
    const segment_task *task; /* whose queue takes the sums instead; or NULL */
} tile_grid;

#define GRID_START(tile, m, n)                                                                                         \
    tile_load(tile, (const uint8_t *)grid->start + (m) * grid->start_m + (n) * grid->start_n, grid->start_row)
#define GRID_STORE(tile, i, j) tile_store(tile, (uint8_t *)out.sums + (i) * out.m + (j) * out.n, TILE_BYTES)
#define GRID_A(tile, m) tile_load(tile, a + (m) * a_tile, a_row)
#define GRID_B(tile, n) tile_load(tile, b + (n) * b_tile, TILE_BYTES)
/*
 * What the loops share: where A and B of a chunk are. The chunks are done in two parts, and some of the atoms that wait are
 * taken behind each.
 */
#define GRID_CHUNKS(first_m, first_n)                                                                                  \
    const int64_t a_row = grid->a_row, a_tile = grid->a_tile, b_tile = grid->b_tile;                                   \
    const uint8_t *first = grid->a + (first_m) * a_tile, *b = grid->b + (first_n) * b_tile, *a = first;                \
    for (int32_t part = 0, chunk = 0; part < 2; grid_take(grid, part), part++)                                         \
        for (const int32_t end = part ? grid->chunks : grid->chunks / 2;                                               \
             chunk < end && (a = first + (grid->offsets ? grid->offsets[chunk] : chunk * TILE_BYTES), 1);              \
             chunk++, b += STRIP_BYTES)

/* Where the sums of some tiles go. */
typedef struct {
    int32_t *sums;
    int64_t m, n; /* bytes from tile to tile */
} grid_out;

/* The first or second half of the atoms that wait. */
static void grid_take(const tile_grid *grid, int32_t part)
{
    const sums_queue *queue = grid->task ? grid->task->queue : NULL;
    if (!queue)
        return;
    for (int32_t atom = part ? queue->atoms / 2 : 0; atom < (part ? queue->atoms : queue->atoms / 2); atom++)
        queue->take(queue, atom);
}

/* Tiles m ... m + rows - 1 of columns n ... n + columns - 1. */
static grid_out grid_place(const tile_grid *grid, int32_t m, int32_t n, int32_t rows)
{
    const segment_task *task = grid->task;
    if (!task || !task->queue)
        return (grid_out){grid->sums + (m * grid->sums_m + n * grid->sums_n) / (int64_t)sizeof(int32_t), grid->sums_m, grid->sums_n};
    return (grid_out){task->queue->room[task->queue->slot], STRIP_BYTES, (int64_t)rows * STRIP_BYTES};
}

/* They are there, and wait from now on. */
static void grid_wait(const tile_grid *grid, int32_t m, int32_t n, int32_t rows, int32_t columns)
{
    const segment_task *task = grid->task;
    if (!task || !task->queue)
        return;
    sums_queue *queue = task->queue;
    queue->sums = queue->room[queue->slot];
    queue->slot ^= 1;
    queue->atom_step = rows * TILE_ROWS * ATOM;
    queue->atoms = columns;
    queue->pixels = at_most(rows * TILE_ROWS, task->pixels - m * TILE_ROWS);
    queue->row = task->row;
    queue->first = task->first + m * TILE_ROWS;
    queue->atom = task->atom + n;
    queue->window = task->window ? task->window + m * TILE_ROWS : NULL;
}

/*
 * Weights come from afar, where a product waits three times as long as it takes: each grid of a pair of columns fetches a
 * part of each tile of the next pair.
 */
typedef struct {
    int32_t from, to; /* bytes of a tile */
} grid_fetch;

static grid_fetch grid_fetches(const tile_grid *grid, int32_t m)
{
    enum { LINES = STRIP_BYTES / TILE_BYTES };
    const segment_task *task = grid->task;
    if (!task || !task->fetch_parts)
        return (grid_fetch){0, 0};
    /* Segments that have fewer pixels, and grids of odd rows, count as whole ones: some lines are then not fetched. */
    const int32_t each = SEGMENT / (2 * TILE_ROWS), parts = each * task->fetch_parts, part = each * task->fetch_part + m / 2;
    return (grid_fetch){part * LINES / parts * TILE_BYTES, (part + 1) * LINES / parts * TILE_BYTES};
}

static void grid_2_2(const tile_grid *grid, int32_t m, int32_t n)
{
    const grid_out out = grid_place(grid, m, n, 2);
    const grid_fetch fetch = grid_fetches(grid, m);
    GRID_START(0, m, n);
    GRID_START(1, m, n + 1);
    GRID_START(2, m + 1, n);
    GRID_START(3, m + 1, n + 1);
    GRID_CHUNKS(m, n)
    {
        /* All loads first: a product takes 6 % less time than with loads between the products (Sapphire Rapids, measured). */
        GRID_B(6, 0);
        GRID_A(4, 0);
        GRID_B(7, 1);
        GRID_A(5, 1);
        tile_multiply(0, 4, 6);
        tile_multiply(1, 4, 7);
        tile_multiply(2, 5, 6);
        tile_multiply(3, 5, 7);
        for (int32_t line = fetch.from; line < fetch.to; line += TILE_BYTES) {
            __builtin_prefetch(b + 2 * b_tile + line, 0, 2);
            __builtin_prefetch(b + 3 * b_tile + line, 0, 2);
        }
    }
    GRID_STORE(0, 0, 0);
    GRID_STORE(1, 0, 1);
    GRID_STORE(2, 1, 0);
    GRID_STORE(3, 1, 1);
    grid_wait(grid, m, n, 2, 2);
}

/* One tile of columns and up to 4 of rows. */
ALWAYS_INLINE void grid_m_1(const tile_grid *grid, int32_t m, int32_t n, const int32_t count)
{
    const grid_out out = grid_place(grid, m, n, count);
    GRID_START(0, m, n);
    if (count > 1)
        GRID_START(1, m + 1, n);
    if (count > 2)
        GRID_START(2, m + 2, n);
    if (count > 3)
        GRID_START(3, m + 3, n);
    GRID_CHUNKS(m, n)
    {
        GRID_B(4, 0);
        GRID_A(5, 0);
        tile_multiply(0, 5, 4);
        if (count > 1) {
            GRID_A(6, 1);
            tile_multiply(1, 6, 4);
        }
        if (count > 2) {
            GRID_A(7, 2);
            tile_multiply(2, 7, 4);
        }
        if (count > 3) {
            GRID_A(5, 3);
            tile_multiply(3, 5, 4);
        }
    }
    GRID_STORE(0, 0, 0);
    if (count > 1)
        GRID_STORE(1, 1, 0);
    if (count > 2)
        GRID_STORE(2, 2, 0);
    if (count > 3)
        GRID_STORE(3, 3, 0);
    grid_wait(grid, m, n, count, 1);
}

/* One tile of rows and up to 4 of columns. */
ALWAYS_INLINE void grid_1_n(const tile_grid *grid, int32_t m, int32_t n, const int32_t count)
{
    const grid_out out = grid_place(grid, m, n, 1);
    GRID_START(0, m, n);
    if (count > 1)
        GRID_START(1, m, n + 1);
    if (count > 2)
        GRID_START(2, m, n + 2);
    if (count > 3)
        GRID_START(3, m, n + 3);
    GRID_CHUNKS(m, n)
    {
        GRID_A(4, 0);
        GRID_B(5, 0);
        tile_multiply(0, 4, 5);
        if (count > 1) {
            GRID_B(6, 1);
            tile_multiply(1, 4, 6);
        }
        if (count > 2) {
            GRID_B(7, 2);
            tile_multiply(2, 4, 7);
        }
        if (count > 3) {
            GRID_B(5, 3);
            tile_multiply(3, 4, 5);
        }
    }
    GRID_STORE(0, 0, 0);
    if (count > 1)
        GRID_STORE(1, 0, 1);
    if (count > 2)
        GRID_STORE(2, 0, 2);
    if (count > 3)
        GRID_STORE(3, 0, 3);
    grid_wait(grid, m, n, 1, count);
}

static void grid_column(const tile_grid *grid, int32_t m, int32_t n, int32_t count)
{
    switch (count) {
    case 1: grid_m_1(grid, m, n, 1); break;
    case 2: grid_m_1(grid, m, n, 2); break;
    case 3: grid_m_1(grid, m, n, 3); break;
    default: grid_m_1(grid, m, n, 4);
    }
}

static void grid_row(const tile_grid *grid, int32_t m, int32_t n, int32_t count)
{
    switch (count) {
    case 1: grid_1_n(grid, m, n, 1); break;
    case 2: grid_1_n(grid, m, n, 2); break;
    case 3: grid_1_n(grid, m, n, 3); break;
    default: grid_1_n(grid, m, n, 4);
    }
}

/* `rows` by `columns` tiles, 4 at most of each. */
static void grid_all(const tile_grid *grid, int32_t rows, int32_t columns)
{
    int32_t m = 0, n = 0;
    if (columns == 1) {
        grid_column(grid, 0, 0, rows);
        return;
    }
    for (; n + 2 <= columns; n += 2)
        for (m = 0; m + 2 <= rows; m += 2)
            grid_2_2(grid, m, n);
    if (n < columns && m)
        grid_column(grid, 0, n, m);
    m = rows & ~1;
    if (m < rows)
        grid_row(grid, m, 0, columns);
}

/* ---------------------------------------------------------------------------------------------- convolution */

/* `taps` of 16 inputs, or 4 of a picture: places in the runs of bytes, so that all of them are a whole number of tiles. */
static int64_t block_bytes(int32_t taps, int32_t is_picture)
{
    return (int64_t)taps * (is_picture ? 4 : ATOM) * ATOM;
}

static void store(uint8_t *block, int32_t tap, int32_t is_picture, const int16_t *weights)
{
    const int32_t lanes = is_picture ? 4 : ATOM;
    for (int32_t o = 0; o < ATOM; o++)
        for (int32_t i = 0; i < lanes; i++) {
            const int64_t k = (int64_t)tap * lanes + i;
            block[(k / 4 * ATOM + o) * 4 + k % 4] = (uint8_t)weights[o * lanes + i];
        }
}

static void segment(const segment_task *task)
{
    const int32_t rows = divide_up(task->pixels, TILE_ROWS);
    tile_grid grid = {
        .a = task->input,
        .offsets = task->offsets,
        .chunks = task->taps,
        .a_row = task->pixel_step,
        .a_tile = task->tile_step,
        .b = task->weights,
        .b_tile = (int64_t)task->taps * STRIP_BYTES,
        .start = task->addends ? task->addends : no_addends,
        .start_n = task->addends ? ATOM * (int64_t)sizeof(int32_t) : 0,
        .sums = task->sums,
        .sums_m = STRIP_BYTES,
        .sums_n = SEGMENT * ATOM * sizeof(int32_t),
        .task = task,
    };

    grid_all(&grid, rows, task->atoms);
}

/* The channels of each pixel, added up. */
static void add_channels(const row_sums_task *task)
{
    int32_t sums[SEGMENT * ATOM] __attribute__((aligned(64)));
    const int32_t count = task->rows * task->columns;
    for (int32_t first = 0, pixels; first < count; first += pixels) {
        const segment_task some = {
            .input = task->input + (int64_t)first * task->pixel_bytes,
            .taps = divide_up(task->pixel_bytes, TILE_BYTES),
            .pixels = pixels = at_most(SEGMENT, count - first),
            .pixel_step = task->pixel_bytes,
            .tile_step = (int64_t)TILE_ROWS * task->pixel_bytes,
            .atoms = 1,
            .weights = task->ones,
            .sums = sums,
        };
        segment(&some);
        for (int32_t pixel = 0; pixel < pixels; pixel++)
            task->pixels[first + pixel] = sums[pixel * ATOM];
    }
}

/* The same of pictures: the channels of a pixel are the bytes of a word. */
static void add_bytes(const row_sums_task *task)
{
    const int32_t count = task->rows * task->columns;
    const uint8_t *input = task->input;
    int32_t *restrict sums = task->pixels;
    for (int32_t i = 0; i < count; i++) {
        uint32_t word;
        memcpy(&word, input + i * 4, sizeof word);
        sums[i] = (int8_t)word + (int8_t)(word >> 8) + (int8_t)(word >> 16) + (int8_t)(word >> 24);
    }
}

/* sums[i] = pixels[i * step] + pixels[i * step + distance] + ... */
ALWAYS_INLINE void add_columns(const row_sums_task *task, const int32_t *pixels, int32_t *restrict sums, const int32_t step)
{
    for (int32_t x = 0; x < task->width; x++, pixels += task->distance)
        for (int32_t i = 0; i < task->count; i++)
            sums[i] += pixels[i * step];
}

static void row_sums(const row_sums_task *task)
{
    (task->is_picture ? add_bytes : add_channels)(task);
    memset(task->sums, 0, (size_t)task->rows * (size_t)task->row_sums * sizeof *task->sums);
    for (int32_t row = 0; row < task->rows; row++) {
        const int32_t *pixels = task->pixels + (int64_t)row * task->columns;
        int32_t *sums = task->sums + (int64_t)row * task->row_sums;
        if (task->step == 1)
            add_columns(task, pixels, sums, 1);
        else if (task->step == 2)
            add_columns(task, pixels, sums, 2);
        else
            add_columns(task, pixels, sums, task->step);
    }
}

static void begin(void)
{
    tiles_begin();
}

static void end(void)
{
    tiles_end();
}

#include "tile_product.h"

#define TILE_KERNELS                                                                                                   \
    {                                                                                                                  \
        .at_once = ATOMS_AT_ONCE, .products = TILE_PRODUCTS, .chooses = TILE_CHOOSES, .block_bytes = block_bytes, .store = store, .segment = segment, .row_sums = row_sums,      \
        .begin = begin, .end = end, .product = product,                                                                \
    }
