/* Contexts of models: rknn_init, rknn_dup_context, rknn_destroy, rknn_query. */
#include "capi.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The model of a call: a descriptor of ours, or of the program (not to be closed), and where it begins there. */
struct model { int descriptor, is_ours; int64_t at, bytes; };

/* What the extension says about the place of the model; nothing where the caller's version does not have it. */
struct place { int32_t offset; uint32_t size; int32_t descriptor; };

static struct place place_in(const rknn_init_extend *extend) {
    struct place place = {0, 0, -1};
    if (abi()->number >= ABI_MODEL_OFFSET) place.offset = extend->real_model_offset, place.size = extend->real_model_size;
    if (abi()->number >= ABI_MODEL_BUFFER) place.descriptor = extend->model_buffer_fd;
    return place;
}

static void open_file(struct call *call, const char *user, struct model *model) {
    char path[PATH_MAX];
    struct stat status;
    int length = copy_text(path, sizeof path, user);
    if (length < 0) {
        call_fail(call, RKNN_ERR_PARAM_INVALID, length == -1 ? "model is no address" : "the path of the model is too long");
        return;
    }
    do model->descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    while (model->descriptor < 0 && errno == EINTR);
    if (model->descriptor < 0) {
        call_fail(call, RKNN_ERR_MODEL_INVALID, "%.500s cannot be opened: %s", path, strerror(errno));
        return;
    }
    model->is_ours = 1;
    if (fstat(model->descriptor, &status) != 0 || !S_ISREG(status.st_mode))
        call_fail(call, RKNN_ERR_MODEL_INVALID, "%.500s is not a file", path);
    else model->bytes = status.st_size;
}

static void share_copy(struct call *call, const void *user, uint32_t size, struct model *model) {
    model->descriptor = shared_file("openrknn model");
    model->is_ours = 1, model->bytes = size;
    int problem = model->descriptor < 0 ? errno : copy_to_file(model->descriptor, 0, user, size);
    if (problem == EFAULT) call_fail(call, RKNN_ERR_PARAM_INVALID, "model and size do not describe memory");
    else if (problem) call_fail(call, RKNN_ERR_MALLOC_FAIL, "no shared memory for the model: %s", strerror(problem));
}

/* The part of a file or of a shared buffer that is the model. */
static void apply_place(struct call *call, const struct place *place, struct model *model) {
    if (place->offset < 0 || place->offset > model->bytes || place->size > (uint64_t)(model->bytes - place->offset)) {
        call_fail(call, RKNN_ERR_PARAM_INVALID, "real_model_offset %d and real_model_size %u do not fit %lld bytes",
                  place->offset, place->size, (long long)model->bytes);
        return;
    }
    model->at = place->offset;
    model->bytes = place->size ? place->size : model->bytes - place->offset;
}

static void find_model(struct call *call, const void *user, uint32_t size, uint32_t flag, const struct place *place,
                       struct model *model) {
    if (flag & RKNN_FLAG_MODEL_BUFFER_ZERO_COPY && place->descriptor > 0) {
        model->descriptor = place->descriptor, model->bytes = size;
        if (size) apply_place(call, place, model);
        return;
    }
    if (!user) { call_fail(call, RKNN_ERR_MODEL_INVALID, "model is NULL"); return; }
    if (size) { share_copy(call, user, size, model); return; }
    open_file(call, user, model);
    if (call->code == 0) apply_place(call, place, model);
}

EXPORT int rknn_init(rknn_context *context, void *user, uint32_t size, uint32_t flag, rknn_init_extend *extend) {
    struct call call;
    struct model model = {-1, 0, 0, 0};
    struct place place = {0, 0, -1};
    rknn_init_extend copied = {0};
    call_begin(&call, "rknn_init", OP_INIT);
    if (call.code == 0 && extend) {
        /* The newest struct ends behind older ones, and a program with an older one may have nothing there. */
        if (copy_in(&copied, extend, abi()->rknn_init_extend) != 0 &&
            copy_in(&copied, extend, abi()->rknn_init_extend - sizeof copied.user_key) != 0)
            call_fail(&call, RKNN_ERR_PARAM_INVALID, "extend is no address of an rknn_init_extend");
        place = place_in(&copied);
        copied.ctx = (rknn_context)context_id(copied.ctx);
    }
    call_new_context(&call, context, KIND_MODEL);
    if (call.code == 0) find_model(&call, user, size, flag, &place, &model);
    if (extend) call_part(&call, &copied, abi()->rknn_init_extend);
    call.request.a = flag, call.request.b = size, call.request.c = model.at, call.request.d = model.bytes;
    call_descriptor(&call, model.descriptor);
    call.new_fences = (flag & RKNN_FLAG_FENCE_IN_OUTSIDE) != 0;
    if (call_send(&call) == 0)
        say(LEVEL_INFO, call.name, "the model runs on %.*s", (int)call.message.reply.payload_bytes,
            (const char *)call.message.payload);
    call_end(&call);
    if (model.is_ours) close_quietly(model.descriptor);
    return call.code;
}

EXPORT int rknn_dup_context(rknn_context *context_in, rknn_context *context_out) {
    struct call call;
    rknn_context number = 0;
    call_begin(&call, "rknn_dup_context", OP_DUP_CONTEXT);
    if (call.code == 0 && (!context_in || copy_in(&number, context_in, sizeof number) != 0))
        call_fail(&call, RKNN_ERR_CTX_INVALID, "context_in is no address of a context");
    call_context(&call, number, KIND_MODEL);
    call_new_context(&call, context_out, KIND_MODEL);
    if (call.context) call.new_fences = call.context->fences;
    return call_end(&call);
}

/* Ends a context. It is forgotten even where its engine has ended: then there is nothing to destroy but our side. */
static int destroy(const char *name, uint64_t context, enum operation operation, enum kind kind) {
    struct call call;
    call_begin(&call, name, operation);
    call_context(&call, context, kind);
    call_send(&call);
    if (call.context && (call.code == 0 || call.code == RKNN_ERR_DEVICE_UNAVAILABLE))
        context_remove(context, call.context->kind);
    return call_end(&call);
}

/* In the vendor's runtime a context of rknn_matmul_create is one like others: rknn_destroy and rknn_query know it. */
EXPORT int rknn_destroy(rknn_context context) { return destroy("rknn_destroy", context, OP_DESTROY, KIND_ANY); }

EXPORT int rknn_matmul_destroy(rknn_matmul_ctx ctx) {
    return destroy("rknn_matmul_destroy", ctx, OP_MATMUL_DESTROY, KIND_MATMUL);
}

/* ---------------------------------------------------------------- queries */

/* The text belongs to the context, until the next such query or its end. */
static void keep_perf(struct call *call, rknn_perf_detail *detail) {
    int file = message_take(&call->message);
    int64_t bytes = call->message.reply.a;
    char *text = file >= 0 && bytes >= 0 && bytes < INT_MAX ? malloc((size_t)bytes + 1) : NULL;
    if (text && copy_from_file(file, 0, text, (size_t)bytes) != 0) {
        free(text);
        text = NULL;
    }
    close_quietly(file);
    if (!text) { call_fail(call, RKNN_ERR_MALLOC_FAIL, "the text of PERF_DETAIL cannot be read"); return; }
    text[bytes] = 0;
    pthread_mutex_lock(&call->context->lock);
    free(call->context->perf);
    call->context->perf = text;
    pthread_mutex_unlock(&call->context->lock);
    detail->perf_data = text, detail->data_len = (uint64_t)bytes;
}

static void write_info(struct call *call, uint32_t command, void *info, uint32_t size) {
    rknn_perf_detail detail = {0};
    const void *answer = call->message.payload;
    size_t bytes = call->message.reply.payload_bytes;
    if (command == RKNN_QUERY_PERF_DETAIL) {
        keep_perf(call, &detail);
        answer = &detail, bytes = sizeof detail;
    }
    if (call->code == 0 && copy_out(info, answer, bytes < size ? bytes : size) != 0)
        call_fail(call, RKNN_ERR_PARAM_INVALID, "info and size do not describe memory");
}

EXPORT int rknn_query(rknn_context context, rknn_query_cmd cmd, void *info, uint32_t size) {
    struct call call;
    call_begin(&call, "rknn_query", OP_QUERY);
    call_context(&call, context, KIND_ANY);
    if (call.code == 0 && !info) call_fail(&call, RKNN_ERR_PARAM_INVALID, "info is NULL");
    call.request.a = (int32_t)cmd, call.request.b = size;
    size_t seen = call.code == 0 ? query_size((uint32_t)cmd) : 0;
    call_part(&call, info, size < seen ? size : seen);
    if (call_send(&call) == 0) write_info(&call, (uint32_t)cmd, info, size);
    return call_end(&call);
}
