/* What the test programs share. */
#ifndef OPENRKNN_TEST_PROGRAM_H
#define OPENRKNN_TEST_PROGRAM_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rknn_api.h"
#include "rknn_custom_op.h"
#include "rknn_matmul_api.h"

/* Ends with what went wrong. */
#define CHECK(call)                                                                  \
    do {                                                                             \
        int code_ = (call);                                                          \
        if (code_ != 0) { printf("line %d: %s = %d\n", __LINE__, #call, code_); exit(1); } \
    } while (0)
#define MUST(condition)                                                              \
    do {                                                                             \
        if (!(condition)) { printf("line %d: not %s\n", __LINE__, #condition); exit(1); } \
    } while (0)

static inline unsigned sum_of(const void *data, uint32_t size) {
    unsigned sum = 0;
    for (uint32_t index = 0; index < size; index++) sum = sum * 31 + ((const unsigned char *)data)[index];
    return sum;
}

/* The sum of the first output for an input of 0, 1, 2 ... */
static inline unsigned run_once(rknn_context context) {
    unsigned char data[65536];
    rknn_tensor_attr in = {0};
    CHECK(rknn_query(context, RKNN_QUERY_INPUT_ATTR, &in, sizeof in));
    MUST(in.n_elems <= sizeof data);
    for (uint32_t index = 0; index < in.n_elems; index++) data[index] = (unsigned char)index;
    rknn_input input = {.buf = data, .size = in.n_elems, .type = RKNN_TENSOR_UINT8, .fmt = RKNN_TENSOR_NHWC};
    CHECK(rknn_inputs_set(context, 1, &input));
    CHECK(rknn_run(context, NULL));
    rknn_output output = {0};
    CHECK(rknn_outputs_get(context, 1, &output, NULL));
    unsigned sum = sum_of(output.buf, output.size);
    CHECK(rknn_outputs_release(context, 1, &output));
    return sum;
}
#endif
