/* Operators of the program: during a run the engine calls back, and their functions are called here. */
#include "capi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { MOST_OPERATORS = 64 };

/* Values of an attribute; they belong to the library as long as the operator lives. */
struct values { char name[RKNN_MAX_NAME_LEN]; void *data; size_t bytes; struct values *next; };

/* One operator of the model: what its functions get, and keep in priv_data. */
struct operator {
    rknn_custom_op_context given;
    struct values *values;
    struct operator *next;
};

static struct operator *operator_of(struct context *context, uint64_t internal) {
    struct operator *operator = context->operators;
    while (operator && operator->given.internal_ctx != internal) operator = operator->next;
    return operator;
}

int custom_has(const struct context *context, uint64_t internal) {
    for (const struct operator *operator = context->operators; operator; operator = operator->next)
        if (operator->given.internal_ctx == internal) return 1;
    return 0;
}

static void operator_free(struct operator *operator) {
    while (operator->values) {
        struct values *next = operator->values->next;
        free(operator->values->data);
        free(operator->values);
        operator->values = next;
    }
    free(operator);
}

void custom_close(struct context *context) {
    while (context->operators) {
        struct operator *next = context->operators->next;
        operator_free(context->operators);
        context->operators = next;
    }
    free(context->registered);
    if (context->area) munmap(context->area, context->area_bytes);
    context->registered = NULL, context->area = NULL;
}

/* ---------------------------------------------------------------- registering */

static void keep_functions(struct call *call, const rknn_custom_op *ops, uint32_t count) {
    struct context *context = call->context;
    size_t all = (size_t)context->n_registered + count;
    objects_lock(); /* a run in another thread may call back */
    rknn_custom_op *larger = realloc(context->registered, all * sizeof *larger);
    if (larger) {
        memcpy(larger + context->n_registered, ops, count * sizeof *ops);
        context->registered = larger;
        context->n_registered = (int)all;
    }
    objects_unlock();
    if (!larger) call_fail(call, RKNN_ERR_MALLOC_FAIL, "no memory");
}

EXPORT int rknn_register_custom_ops(rknn_context ctx, rknn_custom_op *op, uint32_t custom_op_num) {
    struct call call;
    call_begin(&call, "rknn_register_custom_ops", OP_REGISTER_CUSTOM_OPS);
    call_context(&call, ctx, KIND_MODEL);
    call.request.a = custom_op_num;
    if (call.code == 0 && (!op || !custom_op_num || custom_op_num > MOST_OPERATORS))
        call_fail(&call, RKNN_ERR_PARAM_INVALID, op ? "%u is no number of operators" : "op is NULL", custom_op_num);
    rknn_custom_op *copied = call.code == 0 ? malloc(custom_op_num * sizeof *copied) : NULL;
    if (call.code == 0 && !copied) call_fail(&call, RKNN_ERR_MALLOC_FAIL, "no memory");
    if (call.code == 0 && copy_in(copied, op, custom_op_num * sizeof *copied) != 0)
        call_fail(&call, RKNN_ERR_PARAM_INVALID, "op does not point to %u structs", custom_op_num);
    if (call.code == 0) {
        /* Before the engine calls back: it may want init at once. */
        pthread_mutex_lock(&call.context->lock);
        int before = call.context->n_registered;
        keep_functions(&call, copied, custom_op_num);
        call_part(&call, copied, custom_op_num * sizeof *copied);
        if (call_send(&call) != 0) call.context->n_registered = before;
        pthread_mutex_unlock(&call.context->lock);
    }
    free(copied);
    return call_end(&call);
}

/* ---------------------------------------------------------------- calling back */

static struct operator *known_operator(struct context *context, uint64_t internal, const rknn_custom_op *op) {
    struct operator *operator = operator_of(context, internal);
    if (operator) return operator;
    operator = calloc(1, sizeof *operator);
    if (!operator) return NULL;
    operator->given.internal_ctx = (rknn_custom_op_interal_context)internal;
    operator->given.target = op->target;
    /* Threads that look for an operator (rknn_custom_op_get_op_attr) have this lock too. */
    objects_lock();
    operator->next = context->operators;
    context->operators = operator;
    objects_unlock();
    return operator;
}

static void forget_operator(struct context *context, struct operator *operator) {
    objects_lock();
    struct operator **at = &context->operators;
    while (*at && *at != operator) at = &(*at)->next;
    if (*at) *at = operator->next;
    objects_unlock();
    operator_free(operator);
}

static int map_area(struct context *context, struct message *message) {
    struct stat status;
    int file = message_take(message);
    if (file < 0) return 0;
    void *mapped = MAP_FAILED;
    if (fstat(file, &status) == 0 && status.st_size > 0)
        mapped = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close_quietly(file);
    if (mapped == MAP_FAILED) return -1;
    if (context->area) munmap(context->area, context->area_bytes);
    context->area = mapped, context->area_bytes = (size_t)status.st_size;
    return 0;
}

/* Offsets become addresses in the area. */
static rknn_custom_op_tensor *placed_tensors(struct context *context, const struct message *message, size_t count) {
    if (message->reply.payload_bytes < count * sizeof(rknn_custom_op_tensor)) return NULL;
    rknn_custom_op_tensor *tensors = malloc((count + 1) * sizeof *tensors);
    if (!tensors) return NULL;
    memcpy(tensors, message->payload, count * sizeof *tensors);
    for (size_t index = 0; index < count; index++) {
        uint64_t at = (uintptr_t)tensors[index].mem.virt_addr;
        if (at > context->area_bytes || tensors[index].mem.size > context->area_bytes - at) {
            free(tensors);
            return NULL;
        }
        tensors[index].mem.virt_addr = context->area + at;
    }
    return tensors;
}

static int call_function(const rknn_custom_op *op, int64_t phase, rknn_custom_op_context *given,
                         rknn_custom_op_tensor *tensors, uint32_t inputs, uint32_t outputs) {
    int (*function)(rknn_custom_op_context *, rknn_custom_op_tensor *, uint32_t, rknn_custom_op_tensor *, uint32_t) = NULL;
    switch (phase) {
        case PHASE_INIT: function = op->init; break;
        case PHASE_PREPARE: function = op->prepare; break;
        case PHASE_COMPUTE: function = op->compute; break;
        case PHASE_DESTROY: return op->destroy ? op->destroy(given) : 0;
        default: return RKNN_ERR_FAIL;
    }
    return function ? function(given, tensors, inputs, tensors + inputs, outputs) : 0;
}

int custom_call_back(struct context *context, struct message *message) {
    const struct capi_reply *reply = &message->reply;
    rknn_custom_op op;
    objects_lock();
    int is_known = reply->a >= 0 && reply->a < context->n_registered;
    if (is_known) op = context->registered[reply->a];
    objects_unlock();
    if (!is_known || reply->c < 0 || reply->d < 0 || reply->c > LARGEST_PACKET || reply->d > LARGEST_PACKET ||
        map_area(context, message) != 0)
        return RKNN_ERR_FAIL;
    struct operator *operator = known_operator(context, reply->value, &op);
    rknn_custom_op_tensor *tensors = placed_tensors(context, message, (size_t)(reply->c + reply->d));
    int result = RKNN_ERR_MALLOC_FAIL;
    int64_t phase = reply->b;
    if (operator && tensors)
        result = call_function(&op, phase, &operator->given, tensors, (uint32_t)reply->c, (uint32_t)reply->d);
    if (operator && phase == PHASE_DESTROY) forget_operator(context, operator);
    free(tensors);
    return result;
}

/* ---------------------------------------------------------------- attributes of an operator */

/* Where the values of an attribute stay; the same attribute stays at the same place. */
static void *keep_values(struct operator *operator, const char *name, const void *data, size_t bytes) {
    struct values *values = operator->values;
    while (values && (strcmp(values->name, name) != 0 || values->bytes != bytes)) values = values->next;
    if (!values) {
        values = calloc(1, sizeof *values);
        if (values) values->data = calloc(1, bytes + 1);
        if (!values || !values->data) { free(values); return NULL; }
        snprintf(values->name, sizeof values->name, "%s", name);
        values->bytes = bytes, values->next = operator->values;
        operator->values = values;
    }
    memcpy(values->data, data, bytes);
    return values->data;
}

static void write_attribute(struct call *call, uint64_t internal, const char *name, rknn_custom_op_attr *user) {
    rknn_custom_op_attr attribute;
    size_t bytes = call->message.reply.payload_bytes;
    if (bytes < sizeof attribute) { call_fail(call, RKNN_ERR_FAIL, "the engine answered too little"); return; }
    memcpy(&attribute, call->message.payload, sizeof attribute);
    objects_lock(); /* it may have been destroyed since the question */
    struct operator *operator = operator_of(call->context, internal);
    attribute.data = operator ? keep_values(operator, name, call->message.payload + sizeof attribute,
                                            bytes - sizeof attribute) : NULL;
    objects_unlock();
    if (!attribute.data) { call_fail(call, RKNN_ERR_FAIL, "the operator is gone, or there is no memory"); return; }
    if (copy_out(user, &attribute, sizeof attribute) != 0)
        call_fail(call, RKNN_ERR_PARAM_INVALID, "op_attr cannot be written");
}

EXPORT void rknn_custom_op_get_op_attr(rknn_custom_op_context *op_ctx, const char *attr_name,
                                       rknn_custom_op_attr *op_attr) {
    struct call call;
    rknn_custom_op_context given = {0};
    rknn_custom_op_attr none = {0};
    char name[RKNN_MAX_NAME_LEN];
    int length = -1;
    call_begin(&call, "rknn_custom_op_get_op_attr", OP_GET_OP_ATTR);
    if (call.code == 0 && (!op_ctx || copy_in(&given, op_ctx, sizeof given) != 0 || !attr_name ||
                           (length = copy_text(name, sizeof name, attr_name)) < 0))
        call_fail(&call, RKNN_ERR_PARAM_INVALID, "op_ctx or attr_name is no address");
    if (call.code == 0) call.context = context_of_operator(given.internal_ctx);
    if (call.code == 0 && !call.context) call_fail(&call, RKNN_ERR_PARAM_INVALID, "op_ctx is not one of a callback");
    if (call.code == 0) {
        call.request.context = call.context->id, call.request.a = (int64_t)given.internal_ctx;
        call.link = call.context->link;
        call_part(&call, name, (size_t)length);
        if (call_send(&call) == 0) write_attribute(&call, given.internal_ctx, name, op_attr);
    }
    if (call.code != 0) (void)copy_out(op_attr, &none, sizeof none);
    call_end(&call);
}
