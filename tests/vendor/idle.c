/*
 * A librknnrt.so for any machine: memory, copies and conversions as the vendor's has them, and no NPU.
 *
 * It is told the tensors of a model by idle_describe, and loads anything. A run computes nothing; after idle_answer(1)
 * it fills the outputs with bytes that follow from the first byte of the first input, so that tests can see data flow.
 */
#define _GNU_SOURCE
#include "capi.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SUCC = 0, FAIL = -1, PARAM = -5, MODEL = -6, CTX = -7, TENSORS = 16, CONTEXTS = 4096 };

const char idle_version[] = "librknnrt version: 2.3.2 (idle@2026-01-01T00:00:00)";

struct tensor { rknn_tensor_attr plain, native; };
static struct tensor inputs[TENSORS], outputs[TENSORS];
static uint32_t n_inputs, n_outputs;
static int answers;

struct context {
    int used;
    void *fed[TENSORS], *made[TENSORS];             /* the library's own buffers */
    rknn_tensor_mem *in[TENSORS], *out[TENSORS];    /* bound memory */
    rknn_tensor_attr out_attr[TENSORS];
};
static struct context contexts[CONTEXTS];
static long runs;

void idle_describe(int is_output, uint32_t index, const rknn_tensor_attr *plain, const rknn_tensor_attr *native) {
    struct tensor *t = is_output ? &outputs[index] : &inputs[index];
    t->plain = *plain;
    t->native = *native;
    if (is_output) n_outputs = index + 1; else n_inputs = index + 1;
}
void idle_answer(int on) { answers = on; }
long idle_runs(void) { return runs; }

static struct context *find(rknn_context c) {
    return c && c < CONTEXTS && contexts[c].used ? &contexts[c] : NULL;
}

int rknn_init(rknn_context *number, void *model, uint32_t size, uint32_t flag, rknn_init_extend *extend) {
    (void)model; (void)size; (void)flag; (void)extend;
    for (rknn_context i = 1; i < CONTEXTS; i++)
        if (!contexts[i].used) {
            memset(&contexts[i], 0, sizeof contexts[i]);
            contexts[i].used = 1;
            *number = i;
            return SUCC;
        }
    return FAIL;
}
int rknn_dup_context(rknn_context *in, rknn_context *out) { return find(*in) ? rknn_init(out, 0, 0, 0, 0) : CTX; }
int rknn_destroy(rknn_context number) {
    struct context *c = find(number);
    if (!c) return CTX;
    for (int i = 0; i < TENSORS; i++) { free(c->fed[i]); free(c->made[i]); }
    c->used = 0;
    return SUCC;
}

int rknn_query(rknn_context number, rknn_query_cmd cmd, void *info, uint32_t size) {
    if (!find(number)) return CTX;
    rknn_tensor_attr *attr = info;
    switch (cmd) {
    case RKNN_QUERY_IN_OUT_NUM: *(rknn_input_output_num *)info = (rknn_input_output_num){n_inputs, n_outputs}; return SUCC;
    case RKNN_QUERY_INPUT_ATTR: *attr = inputs[attr->index].plain; return SUCC;
    case RKNN_QUERY_OUTPUT_ATTR: *attr = outputs[attr->index].plain; return SUCC;
    case RKNN_QUERY_NATIVE_INPUT_ATTR: case RKNN_QUERY_NATIVE_NHWC_INPUT_ATTR: *attr = inputs[attr->index].native; return SUCC;
    case RKNN_QUERY_NATIVE_OUTPUT_ATTR: *attr = outputs[attr->index].native; return SUCC;
    case RKNN_QUERY_NATIVE_NHWC_OUTPUT_ATTR: *attr = outputs[attr->index].plain; return SUCC;
    case RKNN_QUERY_MEM_SIZE: memset(info, 0, size); ((rknn_mem_size *)info)->total_weight_size = 4096; return SUCC;
    default: return MODEL;
    }
}

/* ------------------------------------------------------------------------------------------------- memory */

static rknn_tensor_mem *memory(int fd, void *address, uint32_t size, int32_t offset, uint32_t flags) {
    rknn_tensor_mem *made = calloc(1, sizeof *made);
    *made = (rknn_tensor_mem){.virt_addr = address, .fd = fd, .offset = offset, .size = size, .flags = flags};
    return made;
}
rknn_tensor_mem *rknn_create_mem(rknn_context number, uint32_t size) {
    if (!find(number)) return NULL;
    int fd = memfd_create("idle", MFD_CLOEXEC);
    size_t pages = ((size_t)size + 4095) / 4096 * 4096;
    if (fd < 0 || ftruncate(fd, (off_t)pages) < 0) return NULL;
    void *address = mmap(NULL, pages, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return address == MAP_FAILED ? NULL : memory(fd, address, size, 0, 1);
}
rknn_tensor_mem *rknn_create_mem_from_fd(rknn_context number, int32_t fd, void *address, uint32_t size, int32_t offset) {
    return find(number) ? memory(fd, address, size, offset, 2) : NULL;
}
int rknn_destroy_mem(rknn_context number, rknn_tensor_mem *mem) {
    (void)number;
    if (mem->flags == 1) { munmap(mem->virt_addr, ((size_t)mem->size + 4095) / 4096 * 4096); close(mem->fd); }
    free(mem);
    return SUCC;
}
int rknn_set_io_mem(rknn_context number, rknn_tensor_mem *mem, rknn_tensor_attr *attr) {
    struct context *c = find(number);
    if (!c) return CTX;
    for (uint32_t i = 0; i < n_inputs; i++)
        if (!strcmp(inputs[i].plain.name, attr->name)) { c->in[i] = mem; return SUCC; }
    for (uint32_t i = 0; i < n_outputs; i++)
        if (!strcmp(outputs[i].plain.name, attr->name)) { c->out[i] = mem; c->out_attr[i] = *attr; return SUCC; }
    return PARAM;
}
int rknn_set_core_mask(rknn_context number, rknn_core_mask mask) { (void)mask; return find(number) ? SUCC : CTX; }

/* ------------------------------------------------------------------------------------------------- running */

int rknn_inputs_set(rknn_context number, uint32_t count, rknn_input given[]) {
    struct context *c = find(number);
    if (!c) return CTX;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t index = given[i].index;
        const rknn_tensor_attr *a = &inputs[index].native;
        if (!c->fed[index]) c->fed[index] = calloc(1, a->size_with_stride + given[i].size);
        memcpy(c->fed[index], given[i].buf, given[i].size);
        c->in[index] = NULL;
    }
    return SUCC;
}

static uint8_t *bytes(struct context *c, uint32_t i) {
    if (c->out[i]) return (uint8_t *)c->out[i]->virt_addr + c->out[i]->offset;
    if (!c->made[i]) c->made[i] = calloc(1, outputs[i].native.size_with_stride);
    return c->made[i];
}

int rknn_run(rknn_context number, rknn_run_extend *extend) {
    struct context *c = find(number);
    (void)extend;
    if (!c) return CTX;
    runs++;
    if (answers) {
        const uint8_t *first = c->in[0] ? (uint8_t *)c->in[0]->virt_addr + c->in[0]->offset : c->fed[0];
        for (uint32_t i = 0; i < n_outputs; i++) {
            uint8_t *to = bytes(c, i);
            for (uint32_t k = 0; k < outputs[i].native.size_with_stride; k++) to[k] = (uint8_t)(first[0] + k * 7 + i);
        }
    }
    return SUCC;
}

/* From [N, C1, H, W, C2] to floats, plainly. */
static void convert(const struct tensor *t, const int8_t *from, float *to) {
    const rknn_tensor_attr *n = &t->native;
    float scale = n->scale;
    int32_t zp = n->zp;
    if (n->fmt != RKNN_TENSOR_NC1HWC2) {
        for (uint32_t i = 0; i < n->n_elems; i++) to[i] = (float)(from[i] - zp) * scale;
        return;
    }
    uint32_t pixels = n->dims[2] * n->dims[3], c2 = n->dims[4], channels = t->plain.dims[1];
    uint32_t kept = t->plain.dims[2] * t->plain.dims[3];
    for (uint32_t c = 0; c < channels; c++) {
        const int8_t *surface = from + (size_t)(c / c2) * pixels * c2 + c % c2;
        for (uint32_t p = 0; p < kept; p++) to[(size_t)c * kept + p] = (float)(surface[(size_t)p * c2] - zp) * scale;
    }
}

int rknn_outputs_get(rknn_context number, uint32_t count, rknn_output wanted[], rknn_output_extend *extend) {
    struct context *c = find(number);
    (void)extend;
    if (!c) return CTX;
    for (uint32_t i = 0; i < count; i++) {
        const struct tensor *t = &outputs[wanted[i].index];
        if (!wanted[i].is_prealloc) {
            wanted[i].size = t->plain.n_elems * 4;
            wanted[i].buf = malloc(wanted[i].size);
        }
        if (wanted[i].want_float && t->plain.type == RKNN_TENSOR_INT8)
            convert(t, (const int8_t *)bytes(c, wanted[i].index), wanted[i].buf);
        else
            memcpy(wanted[i].buf, bytes(c, wanted[i].index), wanted[i].size);
    }
    return SUCC;
}
int rknn_outputs_release(rknn_context number, uint32_t count, rknn_output wanted[]) {
    for (uint32_t i = 0; i < count; i++)
        if (!wanted[i].is_prealloc) free(wanted[i].buf);
    return find(number) ? SUCC : CTX;
}
