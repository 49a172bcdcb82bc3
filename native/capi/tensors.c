/* rknn_inputs_set, rknn_outputs_get, rknn_outputs_release: data travel in shared memory, one of each for a context. */
#include "capi.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ALIGNMENT = 64, MOST_TENSORS = 1024 };

/* The array of the program, copied; NULL with a failure. */
static void *copied_array(struct call *call, const char *name, const void *user, uint32_t count, size_t size) {
    if (call->code != 0) return NULL;
    if (!user || count > MOST_TENSORS) {
        call_fail(call, RKNN_ERR_PARAM_INVALID, user ? "%u is no number of %s" : "%u %s are NULL", count, name);
        return NULL;
    }
    void *copied = malloc(count ? count * size : 1);
    if (!copied) { call_fail(call, RKNN_ERR_MALLOC_FAIL, "no memory"); return NULL; }
    if (copy_in(copied, user, count * size) == 0) return copied;
    free(copied);
    call_fail(call, RKNN_ERR_PARAM_INVALID, "%s does not point to %u structs", name, count);
    return NULL;
}

/* ---------------------------------------------------------------- inputs */

/* Shared memory of at least so many bytes; a new one replaces the old, and the engine is told with the next call. */
static int staging_ready(struct call *call, uint64_t bytes) {
    struct context *context = call->context;
    if (context->staging >= 0 && bytes <= context->staging_bytes) return 0;
    close_quietly(context->staging);
    context->staging = shared_file("openrknn inputs");
    context->staging_bytes = 0, context->staging_known = 0;
    if (context->staging < 0 || ftruncate(context->staging, (off_t)bytes) != 0)
        return call_fail(call, RKNN_ERR_MALLOC_FAIL, "no shared memory for %llu bytes of inputs: %s",
                         (unsigned long long)bytes, strerror(errno));
    context->staging_bytes = bytes;
    return 0;
}

static void drop_staging(struct context *context) {
    close_quietly(context->staging);
    context->staging = -1, context->staging_bytes = 0;
}

/* Writes the data and puts offsets into `buf`. */
static void stage(struct call *call, rknn_input *inputs, uint32_t count) {
    uint64_t total = 0, at = 0;
    for (uint32_t index = 0; index < count; index++) {
        if (!inputs[index].buf) { call_fail(call, RKNN_ERR_PARAM_INVALID, "inputs[%u].buf is NULL", index); return; }
        total += ((uint64_t)inputs[index].size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    if (staging_ready(call, total ? total : ALIGNMENT) != 0) return;
    for (uint32_t index = 0; index < count; index++) {
        int problem = copy_to_file(call->context->staging, (off_t)at, inputs[index].buf, inputs[index].size);
        if (problem) {
            /* A wrong size may have filled a lot of it. */
            drop_staging(call->context);
            call_fail(call, problem == EFAULT ? RKNN_ERR_PARAM_INVALID : RKNN_ERR_MALLOC_FAIL,
                      "inputs[%u]: buf and size (%u) do not describe memory: %s", index, inputs[index].size,
                      strerror(problem));
            return;
        }
        inputs[index].buf = (void *)(uintptr_t)at;
        at += ((uint64_t)inputs[index].size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
}

EXPORT int rknn_inputs_set(rknn_context context, uint32_t n_inputs, rknn_input *inputs) {
    struct call call;
    call_begin(&call, "rknn_inputs_set", OP_INPUTS_SET);
    call_context(&call, context, KIND_MODEL);
    rknn_input *copied = copied_array(&call, "inputs", inputs, n_inputs, sizeof *inputs);
    if (!copied) return call_end(&call);
    struct context *mine = call.context;
    pthread_mutex_lock(&mine->lock);
    stage(&call, copied, n_inputs);
    call.request.a = n_inputs, call.request.b = (int64_t)mine->staging_bytes;
    call_part(&call, copied, n_inputs * sizeof *copied);
    if (!mine->staging_known && mine->staging >= 0) call_descriptor(&call, mine->staging);
    if (call_send(&call) == 0) mine->staging_known = 1;
    else mine->staging_known = 0;
    pthread_mutex_unlock(&mine->lock);
    free(copied);
    return call_end(&call);
}

/* ---------------------------------------------------------------- outputs */

static int remember_output(struct context *context, void *data) {
    struct output *output = malloc(sizeof *output);
    if (!output) return -1;
    output->data = data, output->next = context->outputs;
    context->outputs = output;
    return 0;
}

/* Frees a buffer that the library allocated; -1: it did not. */
static int release_output(struct context *context, const void *data) {
    for (struct output **at = &context->outputs; *at; at = &(*at)->next)
        if ((*at)->data == data) {
            struct output *found = *at;
            *at = found->next;
            free(found->data);
            free(found);
            return 0;
        }
    return -1;
}

/* One output into its buffer. `given` is the program's struct, `found` the engine's, whose buf is an offset. */
static void fetch(struct call *call, const rknn_output *given, rknn_output *found, uint32_t index) {
    off_t at = (off_t)(uintptr_t)found->buf;
    found->buf = given->buf;
    size_t size = found->size;
    if (given->is_prealloc) { /* which may be larger: its size stays, and so do the bytes behind the output */
        if (size > given->size) size = given->size;
        found->size = given->size;
    } else {
        found->buf = malloc(size ? size : 1);
        if (!found->buf || remember_output(call->context, found->buf) != 0) {
            free(found->buf);
            found->buf = NULL;
            call_fail(call, RKNN_ERR_MALLOC_FAIL, "no memory for outputs[%u], %zu bytes", index, size);
            return;
        }
    }
    int problem = size ? copy_from_file(call->context->results, at, found->buf, size) : 0;
    if (problem)
        call_fail(call, problem == EFAULT ? RKNN_ERR_PARAM_INVALID : RKNN_ERR_FAIL,
                  problem == EFAULT ? "outputs[%u].buf and size do not describe memory: %s"
                                    : "outputs[%u] cannot be read: %s", index, strerror(problem));
}

static void take_results(struct call *call) {
    int file = message_take(&call->message);
    if (file < 0) return;
    close_quietly(call->context->results);
    call->context->results = file;
}

static void fetch_all(struct call *call, const rknn_output *given, uint32_t count, rknn_output *outputs) {
    size_t bytes = count * sizeof *given;
    take_results(call);
    if (call->message.reply.payload_bytes < bytes) {
        call_fail(call, RKNN_ERR_FAIL, "the engine answered too little");
        return;
    }
    rknn_output *found = malloc(bytes);
    if (!found) { call_fail(call, RKNN_ERR_MALLOC_FAIL, "no memory"); return; }
    memcpy(found, call->message.payload, bytes);
    uint32_t done = 0;
    while (done < count && call->code == 0) fetch(call, &given[done], &found[done], done), done++;
    if (call->code == 0 && copy_out(outputs, found, bytes) != 0)
        call_fail(call, RKNN_ERR_PARAM_INVALID, "outputs cannot be written");
    if (call->code != 0)
        while (done--)
            if (!given[done].is_prealloc && found[done].buf) release_output(call->context, found[done].buf);
    free(found);
}

static void write_extend(struct call *call, uint32_t count, rknn_output_extend *extend) {
    size_t at = count * sizeof(rknn_output);
    if (!extend || call->code != 0 || call->message.reply.payload_bytes < at + sizeof *extend) return;
    if (copy_out(extend, call->message.payload + at, sizeof *extend) != 0)
        call_fail(call, RKNN_ERR_PARAM_INVALID, "extend cannot be written");
}

EXPORT int rknn_outputs_get(rknn_context context, uint32_t n_outputs, rknn_output *outputs, rknn_output_extend *extend) {
    struct call call;
    call_begin(&call, "rknn_outputs_get", OP_OUTPUTS_GET);
    call_context(&call, context, KIND_MODEL);
    rknn_output *copied = copied_array(&call, "outputs", outputs, n_outputs, sizeof *outputs);
    if (!copied) return call_end(&call);
    call.request.a = n_outputs, call.request.b = extend != NULL;
    call_part(&call, copied, n_outputs * sizeof *copied);
    pthread_mutex_lock(&call.context->lock);
    if (call_send(&call) == 0) fetch_all(&call, copied, n_outputs, outputs);
    write_extend(&call, n_outputs, extend);
    pthread_mutex_unlock(&call.context->lock);
    free(copied);
    return call_end(&call);
}

EXPORT int rknn_outputs_release(rknn_context context, uint32_t n_ouputs, rknn_output *outputs) {
    struct call call;
    call_begin(&call, "rknn_outputs_release", OP_OUTPUTS_GET);
    call.sent = 1; /* the engine has no part in it */
    char reason[200];
    if (call.code == 0) call.context = context_get(context, KIND_MODEL, reason, sizeof reason);
    if (call.code == 0 && !call.context) call_fail(&call, RKNN_ERR_CTX_INVALID, "%s", reason);
    rknn_output *copied = copied_array(&call, "outputs", outputs, n_ouputs, sizeof *outputs);
    if (!copied) return call_end(&call);
    pthread_mutex_lock(&call.context->lock);
    for (uint32_t index = 0; index < n_ouputs; index++) {
        if (copied[index].is_prealloc || !copied[index].buf) continue;
        if (release_output(call.context, copied[index].buf) != 0)
            call_fail(&call, RKNN_ERR_PARAM_INVALID,
                      "outputs[%u].buf is not from rknn_outputs_get, or was released already", index);
    }
    pthread_mutex_unlock(&call.context->lock);
    free(copied);
    return call_end(&call);
}
