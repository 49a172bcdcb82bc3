/* Kernels for aarch64 with the dot product instructions (ARMv8.2; Cortex-A55 and A76, Neoverse N1, ...). */
#include "dotprod_common.h"
#include "dotprod_depthwise.h"

SIX_TILES(SDOT_TILE, plain)
SIX_TILES(SDOT_TILE, table)

static void segment(const segment_task *task)
{
    static const tile_function tiles[2][TILE_PIXELS] = {TILES_OF(tile_plain), TILES_OF(tile_table)};
    chained_segment(task, task->is_picture ? picture_tiles : tiles);
}

const kernel_set kernels_dotprod = {
    .name = "dotprod",
    .products = 60,
    .float_products = 10,
    .needs = OPENRKNN_CPU_NEON | OPENRKNN_CPU_DOTPROD,
    .input_bytes = 1,
    .block = 1,
    .by_row = 1,
    .block_bytes = sdot_block_bytes,
    .store = sdot_store,
    .segment = segment,
    .fuses = fuses_chain,
    .prepare = prepare_tiles,
    .window = sdot_window,
    .depthwise = narrow_depthwise,
    .zip_groups = zip_groups,
    .depthwise_groups = depthwise_groups,
    KERNELS_OF_TEMPLATES,
};
