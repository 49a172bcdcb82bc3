/* One call of the program: its parameters become a request, the reply becomes a code and written structs. */
#include "capi.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void call_begin(struct call *call, const char *name, enum operation operation) {
    memset(call, 0, sizeof *call);
    call->name = name, call->saved_errno = errno;
    call->request.operation = operation;
    call->parts[0] = (struct iovec){&call->request, sizeof call->request};
    call->n_parts = 1;
    lifetime_begin();
    if (!lifetime_enter()) call_fail(call, RKNN_ERR_FAIL, "the library is being unloaded");
    else if (abi_problem()) call_fail(call, RKNN_ERR_PARAM_INVALID, "%s", abi_problem());
}

int call_fail(struct call *call, int code, const char *format, ...) {
    if (call->code != 0) return call->code;
    char text[1024];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    call->code = code;
    say(LEVEL_ERROR, call->name, "%s", text);
    return code;
}

void call_context(struct call *call, uint64_t number, enum kind kind) {
    char reason[200];
    if (call->code != 0) return;
    call->context = context_get(number, kind, reason, sizeof reason);
    if (!call->context) { call_fail(call, RKNN_ERR_CTX_INVALID, "%s", reason); return; }
    call->request.context = call->context->id;
    call->link = call->context->link;
    int code = link_problem(call->link, reason, sizeof reason);
    if (code != 0) call_fail(call, code, "context %#llx: %s", (unsigned long long)number, reason);
}

void call_memory(struct call *call, const rknn_tensor_mem *mem, int with_place) {
    struct memory found;
    if (call->code != 0) return;
    if (memory_find(mem, &found) != 0) {
        call_fail(call, RKNN_ERR_PARAM_INVALID, "mem is %s", mem ? "not memory from rknn_create_mem*, or was destroyed"
                                                                 : "NULL");
        return;
    }
    if (call->link && found.link != call->link) {
        call_fail(call, RKNN_ERR_PARAM_INVALID, "the memory was lost with the engine that made it");
        return;
    }
    call->link = found.link;
    call->request.memory = found.id;
    if (with_place) call->request.a = found.given.offset, call->request.b = found.given.size;
}

void call_part(struct call *call, const void *data, size_t size) {
    if (call->code != 0 || !size) return;
    if (call->n_parts == MOST_PARTS || size > LARGEST_PACKET - sizeof call->request - call->bytes) {
        call_fail(call, RKNN_ERR_PARAM_INVALID, "%zu bytes of parameters are too many", size);
        return;
    }
    call->parts[call->n_parts++] = (struct iovec){(void *)(uintptr_t)data, size};
    call->bytes += size;
}

void call_given(struct call *call, const char *name, const void *user, size_t size, int64_t count) {
    if (call->code != 0) return;
    if (!user) call_fail(call, RKNN_ERR_PARAM_INVALID, "%s is NULL", name);
    else if (count <= 0 || count > LARGEST_PACKET)
        call_fail(call, RKNN_ERR_PARAM_INVALID, "%lld is no number of %s", (long long)count, name);
    else call_part(call, user, size * (size_t)count);
}

void call_optional(struct call *call, const char *name, const void *user, size_t size) {
    if (user) call_given(call, name, user, size, 1);
}

void call_descriptor(struct call *call, int descriptor) {
    if (call->n_descriptors < MOST_DESCRIPTORS) call->descriptors[call->n_descriptors++] = descriptor;
}

void call_made(struct call *call, const char *name, void *user, size_t size, int64_t count) {
    if (call->code != 0) return;
    if (!user) { call_fail(call, RKNN_ERR_PARAM_INVALID, "%s is NULL", name); return; }
    if (count <= 0 || count > LARGEST_PACKET || call->n_made == MOST_MADE) {
        call_fail(call, RKNN_ERR_PARAM_INVALID, "%lld is no number of %s", (long long)count, name);
        return;
    }
    call->made[call->n_made].user = user;
    call->made[call->n_made].bytes = size * (size_t)count;
    call->made[call->n_made++].name = name;
}

void call_new_context(struct call *call, rknn_context *user, enum kind kind) {
    rknn_context before;
    if (call->code != 0) return;
    /* Looked at before the work, so that a wrong address costs nothing. */
    if (!user || copy_in(&before, user, sizeof before) != 0 || copy_out(user, &before, sizeof before) != 0) {
        call_fail(call, RKNN_ERR_CTX_INVALID, user ? "there is no memory where the context is to be written"
                                                   : "the pointer to the context is NULL");
        return;
    }
    call->new_context = user, call->new_kind = kind;
}

/* ---------------------------------------------------------------- the conversation */

static void sending_failed(struct call *call, int problem) {
    switch (problem) {
        case EFAULT: call_fail(call, RKNN_ERR_PARAM_INVALID, "a pointer leads nowhere"); break;
        case EBADF: call_fail(call, RKNN_ERR_PARAM_INVALID, "the descriptor is not open"); break;
        case EMSGSIZE: call_fail(call, RKNN_ERR_PARAM_INVALID, "the parameters are too large"); break;
        case EPIPE: case ECONNRESET: case ENOTCONN: case ENOTSOCK: case ECONNREFUSED:
            channel_break(call->channel);
            call->channel = NULL;
            call_fail(call, RKNN_ERR_DEVICE_UNAVAILABLE, "the engine has ended");
            break;
        default: call_fail(call, RKNN_ERR_FAIL, "the engine cannot be asked: %s", strerror(problem));
    }
}

static int answer_callback(struct call *call) {
    struct capi_request done = {.operation = OP_CALLBACK_DONE, .context = call->request.context};
    struct iovec part = {&done, sizeof done};
    done.a = call->context ? custom_call_back(call->context, &call->message) : RKNN_ERR_FAIL;
    message_close(&call->message);
    return channel_send(call->channel, &part, 1, NULL, 0);
}

static void receive(struct call *call) {
    do {
        if (channel_receive(call->channel, &call->message) != 0) {
            channel_break(call->channel);
            call->channel = NULL;
            call_fail(call, RKNN_ERR_DEVICE_UNAVAILABLE,
                      "the engine has ended during the call; its contexts are lost, and the next rknn_init starts another");
            return;
        }
    } while (call->message.reply.is_callback && answer_callback(call) == 0);
    if (call->message.reply.is_callback) {
        channel_break(call->channel);
        call->channel = NULL;
        call_fail(call, RKNN_ERR_DEVICE_UNAVAILABLE, "the engine has ended while a custom operator was at work");
        return;
    }
    const struct capi_reply *reply = &call->message.reply;
    if (reply->code != 0) call_fail(call, reply->code, "%s", reply->reason_bytes ? call->message.reason : "refused");
    else if (reply->reason_bytes) say(LEVEL_WARNING, call->name, "%s", call->message.reason);
}

int call_send(struct call *call) {
    char reason[900] = "no memory";
    if (call->code != 0 || call->sent) return call->code;
    call->sent = 1;
    call->request.payload_bytes = (uint32_t)call->bytes;
    int code = channel_take(call->link, &call->channel, reason, sizeof reason);
    if (code != 0) return call_fail(call, code, "%s", reason);
    call->link = call->channel->link;
    int problem = channel_send(call->channel, call->parts, call->n_parts, call->descriptors, call->n_descriptors);
    if (problem) sending_failed(call, problem);
    else receive(call);
    return call->code;
}

/* ---------------------------------------------------------------- results */

static void destroy_again(struct call *call, uint64_t id) {
    struct message message;
    struct capi_request request = {.operation = call->new_kind == KIND_MODEL ? OP_DESTROY : OP_MATMUL_DESTROY,
                                   .context = id};
    struct iovec part = {&request, sizeof request};
    if (channel_send(call->channel, &part, 1, NULL, 0) == 0 && channel_receive(call->channel, &message) == 0)
        message_close(&message);
}

static void write_context(struct call *call) {
    uint64_t id = call->message.reply.value;
    struct context *added = context_add(id, call->new_kind, call->link);
    rknn_context number = added ? added->number : 0;
    if (added) added->fences = call->new_fences;
    if (!added) {
        destroy_again(call, id);
        call_fail(call, RKNN_ERR_MALLOC_FAIL, "no memory for a context");
    } else if (copy_out(call->new_context, &number, sizeof number) != 0) {
        context_remove(number, call->new_kind);
        destroy_again(call, id);
        call_fail(call, RKNN_ERR_CTX_INVALID, "there is no memory where the context is to be written");
    }
}

static void write_made(struct call *call) {
    size_t at = 0, length = call->message.reply.payload_bytes;
    for (int index = 0; index < call->n_made; index++) {
        size_t size = call->made[index].bytes;
        if (size > length - at) size = length - at;
        if (copy_out(call->made[index].user, call->message.payload + at, size) != 0) {
            call_fail(call, RKNN_ERR_PARAM_INVALID, "there is no memory where %s points to", call->made[index].name);
            return;
        }
        at += size;
    }
}

int call_end(struct call *call) {
    call_send(call);
    if (call->code == 0) write_made(call);
    if (call->new_context && call->message.reply.code == 0 && call->channel) {
        if (call->code == 0) write_context(call);
        else destroy_again(call, call->message.reply.value);
    }
    message_close(&call->message);
    if (call->channel) channel_give(call->channel);
    say(LEVEL_DEBUG, call->name, "context %#x: %d", call->context ? call->context->number : 0, call->code);
    if (call->context) context_put(call->context);
    lifetime_leave();
    errno = call->saved_errno;
    return call->code;
}
