/* A model with operators of the program's. Words on the command line change what the functions do. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rknn_api.h"
#include "rknn_custom_op.h"

static const char *mode = "";
static int state = 7;

static int is_mode(const char *word) { return strcmp(mode, word) == 0; }

static void show(const char *what, rknn_custom_op_tensor *tensors, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        printf(" %s%u=%s[", what, tensors[i].attr.index, tensors[i].attr.name);
        for (uint32_t d = 0; d < tensors[i].attr.n_dims; d++) printf(d ? ",%u" : "%u", tensors[i].attr.dims[d]);
        printf("] type=%d elems=%u size=%u mem=%u", tensors[i].attr.type, tensors[i].attr.n_elems, tensors[i].attr.size,
               tensors[i].mem.size);
    }
}

static int init(rknn_custom_op_context *op, rknn_custom_op_tensor *in, uint32_t n_in, rknn_custom_op_tensor *out,
                uint32_t n_out) {
    printf("init target=%d", op->target);
    show("in", in, n_in);
    show("out", out, n_out);
    printf("\n");
    op->priv_data = &state;
    return is_mode("init-fails") ? -3 : 0;
}

static int prepare(rknn_custom_op_context *op, rknn_custom_op_tensor *in, uint32_t n_in, rknn_custom_op_tensor *out,
                   uint32_t n_out) {
    (void)in, (void)n_in, (void)n_out;
    printf("prepare state=%d\n", *(int *)op->priv_data);
    if (!is_mode("skip")) return 0;
    float *result = out[0].mem.virt_addr;
    for (uint32_t i = 0; i < out[0].attr.n_elems; i++) result[i] = 0.25f;
    return RKNN_WARNING_SKIP_CUSTOM_OP_COMPUTE;
}

static void ask(rknn_custom_op_context *op, const char *name) {
    rknn_custom_op_attr attr;
    memset(&attr, 0xff, sizeof attr);
    rknn_custom_op_get_op_attr(op, name, &attr);
    printf("attribute %s: n=%u", name, attr.n_elems);
    if (attr.n_elems && attr.dtype == RKNN_TENSOR_INT64) printf(" int64 %lld", (long long)((int64_t *)attr.data)[0]);
    if (attr.n_elems && attr.dtype == RKNN_TENSOR_FLOAT32) printf(" float %g", (double)((float *)attr.data)[0]);
    printf("%s\n", attr.data ? "" : " no data");
}

static int compute(rknn_custom_op_context *op, rknn_custom_op_tensor *in, uint32_t n_in, rknn_custom_op_tensor *out,
                   uint32_t n_out) {
    printf("compute state=%d inputs=%u outputs=%u\n", (*(int *)op->priv_data)++, n_in, n_out);
    if (is_mode("compute-fails")) return -4;
    ask(op, "nothing");
    if (is_mode("dies")) _Exit(3);
    const float *seen = in[0].mem.virt_addr;
    float *result = out[0].mem.virt_addr;
    for (uint32_t i = 0; i < out[0].attr.n_elems; i++) result[i] = seen[i] * 0.5f / (1.0f + (seen[i] < 0 ? -seen[i] : seen[i]));
    return 0;
}

static int destroy(rknn_custom_op_context *op) {
    printf("destroy state=%d\n", *(int *)op->priv_data);
    return 0;
}

int main(int count, char **words) {
    rknn_context context;
    rknn_input_output_num number;
    setvbuf(stdout, NULL, _IONBF, 0);
    if (count > 3) mode = words[3];
    printf("rknn_init %d\n", rknn_init(&context, words[1], 0, 0, NULL));
    if (!is_mode("none")) {
        rknn_custom_op op;
        memset(&op, 0, sizeof op);
        snprintf(op.op_type, sizeof op.op_type, "%s", words[2]);
        op.version = 1;
        op.target = is_mode("gpu") ? RKNN_TARGET_TYPE_GPU : RKNN_TARGET_TYPE_CPU;
        op.init = init, op.prepare = prepare, op.destroy = destroy;
        op.compute = is_mode("null") ? NULL : compute;
        printf("rknn_register_custom_ops %d\n", rknn_register_custom_ops(context, &op, 1));
    }
    rknn_query(context, RKNN_QUERY_IN_OUT_NUM, &number, sizeof number);
    rknn_tensor_attr attr;
    memset(&attr, 0, sizeof attr);
    rknn_query(context, RKNN_QUERY_INPUT_ATTR, &attr, sizeof attr);
    float *data = malloc(attr.n_elems * sizeof *data);
    for (uint32_t i = 0; i < attr.n_elems; i++) data[i] = (float)i / (float)attr.n_elems * 6 - 3;
    rknn_input input = {.index = 0, .buf = data, .size = attr.n_elems * 4, .type = RKNN_TENSOR_FLOAT32, .fmt = attr.fmt};
    printf("rknn_inputs_set %d\n", rknn_inputs_set(context, number.n_input, &input));
    for (int run = 0; run < 2; run++) {
        printf("rknn_run %d\n", rknn_run(context, NULL));
        rknn_output output = {.want_float = 1};
        printf("rknn_outputs_get %d\n", rknn_outputs_get(context, 1, &output, NULL));
        printf("output");
        for (uint32_t i = 0; output.buf && i < output.size / 4; i++) printf(" %.9g", (double)((float *)output.buf)[i]);
        printf("\n");
        rknn_outputs_release(context, 1, &output);
    }
    printf("rknn_destroy %d\n", rknn_destroy(context));
    return 0;
}
