/*
 * The kernels of AMX with tiles in plain C: not for speed, but so that tile_template.h is tested on every processor. The
 * instructions do what the processor's do, with the shapes that were configured.
 */
#include "internal.h"

enum { TILE_PRODUCTS = 1, TILE_CHOOSES = 0, TILES = 8, MOST_TILE_ROWS = 16, MOST_TILE_BYTES = 64 };

/* The same for each thread that has tiles; rows = 0: they were not configured, and nothing happens to memory. */
static _Thread_local struct {
    int32_t rows, row_bytes;
    uint8_t tile[TILES][MOST_TILE_ROWS][MOST_TILE_BYTES] __attribute__((aligned(64)));
} file;

static void tiles_begin(void)
{
    memset(&file, 0, sizeof file);
    file.rows = MOST_TILE_ROWS;
    file.row_bytes = MOST_TILE_BYTES;
}

static void tiles_end(void)
{
    file.rows = file.row_bytes = 0;
}

static void tile_load(int32_t tile, const void *at, int64_t step)
{
    for (int32_t row = 0; row < file.rows; row++)
        memcpy(file.tile[tile][row], (const uint8_t *)at + row * step, (size_t)file.row_bytes);
}

static void tile_store(int32_t tile, void *at, int64_t step)
{
    for (int32_t row = 0; row < file.rows; row++)
        memcpy((uint8_t *)at + row * step, file.tile[tile][row], (size_t)file.row_bytes);
}

static void tile_multiply(int32_t sums, int32_t a, int32_t b)
{
    const int32_t columns = file.row_bytes / 4;
    for (int32_t m = 0; m < file.rows; m++) {
        uint32_t total[MOST_TILE_BYTES / 4];
        memcpy(total, file.tile[sums][m], sizeof total);
        for (int32_t k = 0; k < file.row_bytes / 4; k++) {
            const int8_t *x = (const int8_t *)file.tile[a][m] + 4 * k, *w = (const int8_t *)file.tile[b][k];
            for (int32_t n = 0; n < columns; n++)
                total[n] += (uint32_t)(x[0] * w[4 * n] + x[1] * w[4 * n + 1] + x[2] * w[4 * n + 2] + x[3] * w[4 * n + 3]);
        }
        memcpy(file.tile[sums][m], total, sizeof total);
    }
}

#include "tile_template.h"

const tile_kernels kernels_tiles = TILE_KERNELS;
