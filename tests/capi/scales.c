/* More scales than a packet holds: one for each of 32768 columns goes there and comes back. */
#include "program.h"

enum { COLUMNS = 32768 };

int main(void) {
    rknn_context context;
    rknn_matmul_info info = {.M = 1, .K = 64, .N = COLUMNS, .type = RKNN_FLOAT16_MM_INT8_TO_FLOAT32,
                             .B_quant_type = RKNN_QUANT_TYPE_PER_CHANNEL_SYM};
    rknn_matmul_io_attr io;
    static float given[COLUMNS], found[COLUMNS + 1];
    static int32_t zeros[COLUMNS];
    CHECK(rknn_matmul_create(&context, &info, &io));
    for (int column = 0; column < COLUMNS; column++) given[column] = (float)(column + 1) / 1024;
    rknn_quant_params params = {.name = "B", .scale = given, .scale_len = COLUMNS, .zp = zeros, .zp_len = COLUMNS};
    CHECK(rknn_matmul_set_quant_params(context, &params));
    float whole = 0;
    params.scale = found;
    found[COLUMNS] = 77;
    CHECK(rknn_matmul_get_quant_params(context, &params, &whole));
    MUST(params.scale == found && params.scale_len == COLUMNS);
    MUST(memcmp(given, found, sizeof given) == 0 && found[COLUMNS] == 77);
    MUST(whole == given[COLUMNS - 1]);
    params.scale = (float *)8;
    MUST(rknn_matmul_set_quant_params(context, &params) == RKNN_ERR_PARAM_INVALID);
    MUST(rknn_matmul_get_quant_params(context, &params, NULL) == RKNN_ERR_PARAM_INVALID);
    CHECK(rknn_matmul_destroy(context));
    printf("fine\n");
    return 0;
}
