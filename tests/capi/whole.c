/* A model once through: from memory and from a path, queries, copied and bound tensors. Prints what it sees. */
#include "program.h"

static void *whole_file(const char *path, uint32_t *size) {
    FILE *stream = fopen(path, "rb");
    MUST(stream);
    fseek(stream, 0, SEEK_END);
    *size = (uint32_t)ftell(stream);
    rewind(stream);
    void *data = malloc(*size);
    MUST(fread(data, 1, *size, stream) == *size);
    fclose(stream);
    return data;
}

static void bound(rknn_context context, rknn_tensor_attr *in, rknn_tensor_attr *out) {
    rknn_tensor_mem *memory = rknn_create_mem(context, in->size_with_stride), *result = rknn_create_mem(context, out->size);
    MUST(memory && result && memory->fd >= 0);
    for (uint32_t index = 0; index < in->n_elems; index++)
        ((unsigned char *)memory->virt_addr)[index] = (unsigned char)index;
    in->type = RKNN_TENSOR_UINT8;
    in->fmt = RKNN_TENSOR_NHWC;
    rknn_tensor_mem copy = *memory; /* a copy of the struct is as good */
    CHECK(rknn_set_io_mem(context, &copy, in));
    CHECK(rknn_set_io_mem(context, result, out));
    CHECK(rknn_run(context, NULL));
    CHECK(rknn_mem_sync(context, result, RKNN_MEMORY_SYNC_FROM_DEVICE));
    printf("%u bytes %u\n", out->size, sum_of(result->virt_addr, out->size));
    CHECK(rknn_destroy_mem(context, memory));
    CHECK(rknn_destroy_mem(context, result));
}

/* The program's own buffer may be larger than the output: its size and what is behind the output stay. */
static void into_a_large_buffer(rknn_context context, const rknn_tensor_attr *out) {
    enum { MORE = 100000 };
    size_t size = out->size + MORE;
    unsigned char *buffer = memset(malloc(size), 0xab, size);
    rknn_output output = {.is_prealloc = 1, .buf = buffer, .size = (uint32_t)size};
    CHECK(rknn_outputs_get(context, 1, &output, NULL));
    MUST(output.size == size && output.buf == buffer);
    for (size_t index = out->size; index < size; index++) MUST(buffer[index] == 0xab);
    CHECK(rknn_outputs_release(context, 1, &output));
    free(buffer);
}

static void once(rknn_context context) {
    rknn_input_output_num counts;
    rknn_sdk_version version;
    rknn_perf_detail detail;
    rknn_tensor_attr in = {0}, out = {0};
    CHECK(rknn_query(context, RKNN_QUERY_IN_OUT_NUM, &counts, sizeof counts));
    CHECK(rknn_query(context, RKNN_QUERY_SDK_VERSION, &version, sizeof version));
    CHECK(rknn_query(context, RKNN_QUERY_INPUT_ATTR, &in, sizeof in));
    CHECK(rknn_query(context, RKNN_QUERY_OUTPUT_ATTR, &out, sizeof out));
    printf("%u in, %u out, %s, %s %s %u bytes\n", counts.n_input, counts.n_output, version.api_version, in.name,
           get_type_string(in.type), in.size);
    printf("%u\n", run_once(context));
    CHECK(rknn_query(context, RKNN_QUERY_PERF_DETAIL, &detail, sizeof detail));
    MUST(detail.perf_data[detail.data_len] == 0);
    into_a_large_buffer(context, &out);
    bound(context, &in, &out);
}

int main(int count, char **words) {
    rknn_context context, second;
    uint32_t size = 0;
    if (count < 2) return 2;
    void *model = whole_file(words[1], &size);
    CHECK(rknn_init(&context, model, size, 0, NULL));
    memset(model, 0, size);
    free(model);
    once(context);
    CHECK(rknn_dup_context(&context, &second));
    CHECK(rknn_destroy(context));
    once(second);
    CHECK(rknn_destroy(second));
    CHECK(rknn_init(&context, words[1], 0, RKNN_FLAG_COLLECT_PERF_MASK, NULL));
    once(context);
    CHECK(rknn_destroy(context));
    return 0;
}
