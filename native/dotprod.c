/* Kernels for aarch64 with the dot product instructions (ARMv8.2; Cortex-A55 and A76, Neoverse N1, ...). */
#include "dotprod_common.h"
#include "dotprod_depthwise.h"

SDOT_TILE(1)
SDOT_TILE(2)
SDOT_TILE(3)
SDOT_TILE(4)
SDOT_TILE(5)
SDOT_TILE(6)

static void segment(const segment_task *task)
{
    static const tile_function tiles[] = {tile_1, tile_2, tile_3, tile_4, tile_5, tile_6};
    sdot_segment(task, task->is_picture ? picture_tiles : tiles);
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
