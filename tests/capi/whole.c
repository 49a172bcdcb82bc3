/* A model once through: from memory and from a path, queries, copied and bound tensors. Prints what it sees. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rknn_api.h"

#define CHECK(call) do { int code = (call); if (code != 0) { printf(#call " = %d\n", code); return 1; } } while (0)

static void *whole_file(const char *path, uint32_t *size) {
    FILE *stream = fopen(path, "rb");
    if (!stream) return NULL;
    fseek(stream, 0, SEEK_END);
    *size = (uint32_t)ftell(stream);
    rewind(stream);
    void *data = malloc(*size);
    if (fread(data, 1, *size, stream) != *size) return NULL;
    fclose(stream);
    return data;
}

static unsigned sum_of(const void *data, uint32_t size) {
    unsigned sum = 0;
    for (uint32_t index = 0; index < size; index++) sum = sum * 31 + ((const unsigned char *)data)[index];
    return sum;
}

static int once(rknn_context context) {
    rknn_input_output_num counts;
    rknn_sdk_version version;
    rknn_tensor_attr in = {0}, out = {0};
    CHECK(rknn_query(context, RKNN_QUERY_IN_OUT_NUM, &counts, sizeof counts));
    CHECK(rknn_query(context, RKNN_QUERY_SDK_VERSION, &version, sizeof version));
    CHECK(rknn_query(context, RKNN_QUERY_INPUT_ATTR, &in, sizeof in));
    CHECK(rknn_query(context, RKNN_QUERY_OUTPUT_ATTR, &out, sizeof out));
    printf("%u in, %u out, %s, %s %s %u bytes\n", counts.n_input, counts.n_output, version.api_version, in.name,
           get_type_string(in.type), in.size);
    unsigned char *data = malloc(in.n_elems);
    for (uint32_t index = 0; index < in.n_elems; index++) data[index] = (unsigned char)index;
    rknn_input input = {.buf = data, .size = in.n_elems, .type = RKNN_TENSOR_UINT8, .fmt = RKNN_TENSOR_NHWC};
    CHECK(rknn_inputs_set(context, 1, &input));
    CHECK(rknn_run(context, NULL));
    rknn_output output = {0};
    CHECK(rknn_outputs_get(context, 1, &output, NULL));
    printf("%u bytes %u\n", output.size, sum_of(output.buf, output.size));
    CHECK(rknn_outputs_release(context, 1, &output));
    free(data);

    rknn_tensor_mem *memory = rknn_create_mem(context, in.size_with_stride), *result = rknn_create_mem(context, out.size);
    if (!memory || !result || memory->fd < 0) return 1;
    for (uint32_t index = 0; index < in.n_elems; index++) ((unsigned char *)memory->virt_addr)[index] = (unsigned char)index;
    in.type = RKNN_TENSOR_UINT8;
    in.fmt = RKNN_TENSOR_NHWC;
    CHECK(rknn_set_io_mem(context, memory, &in));
    CHECK(rknn_set_io_mem(context, result, &out));
    CHECK(rknn_run(context, NULL));
    printf("%u bytes %u\n", out.size, sum_of(result->virt_addr, out.size));
    CHECK(rknn_destroy_mem(context, memory));
    CHECK(rknn_destroy_mem(context, result));
    return 0;
}

int main(int count, char **words) {
    rknn_context context, second;
    uint32_t size = 0;
    if (count < 2) return 2;
    void *model = whole_file(words[1], &size);
    CHECK(rknn_init(&context, model, size, 0, NULL));
    memset(model, 0, size);
    free(model);
    if (once(context) != 0) return 1;
    CHECK(rknn_dup_context(&context, &second));
    CHECK(rknn_destroy(context));
    if (once(second) != 0) return 1;
    CHECK(rknn_destroy(second));
    CHECK(rknn_init(&context, words[1], 0, RKNN_FLAG_COLLECT_PERF_MASK, NULL));
    if (once(context) != 0) return 1;
    CHECK(rknn_destroy(context));
    return 0;
}
