/* Memory that the engine and the program share. */
#include "capi.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

/* The engine's reply becomes a struct that the program sees. */
static rknn_tensor_mem *keep(struct call *call, struct memory *memory) {
    if (call->message.reply.payload_bytes >= sizeof memory->given) {
        void *address = memory->given.virt_addr;
        int32_t descriptor = memory->given.fd;
        memcpy(&memory->given, call->message.payload, sizeof memory->given);
        memory->given.virt_addr = address, memory->given.fd = descriptor;
    }
    memory->id = call->message.reply.value, memory->link = call->link;
    struct memory *added = memory_add(memory);
    return added ? &added->given : NULL;
}

static void map(struct call *call, struct memory *memory) {
    const struct capi_reply *reply = &call->message.reply;
    memory->descriptor = message_take(&call->message);
    if (memory->descriptor < 0 || reply->a <= 0 || reply->b < 0 || reply->b > reply->a) {
        call_fail(call, RKNN_ERR_FAIL, "the engine gave no memory");
        return;
    }
    void *mapped = mmap(NULL, (size_t)reply->a, PROT_READ | PROT_WRITE, MAP_SHARED, memory->descriptor, 0);
    if (mapped == MAP_FAILED) {
        call_fail(call, RKNN_ERR_MALLOC_FAIL, "%lld bytes cannot be mapped: %s", (long long)reply->a, strerror(errno));
        return;
    }
    memory->mapped = mapped, memory->mapped_bytes = (size_t)reply->a;
    memory->given.virt_addr = (char *)mapped + reply->b;
    memory->given.fd = memory->descriptor;
}

static void give_up(struct call *call, struct memory *memory) {
    struct capi_request request = {.operation = OP_DESTROY_MEM, .context = call->request.context,
                                   .memory = call->message.reply.value};
    struct iovec part = {&request, sizeof request};
    struct message message;
    if (memory->mapped) munmap(memory->mapped, memory->mapped_bytes);
    close_quietly(memory->descriptor);
    if (call->channel && channel_send(call->channel, &part, 1, NULL, 0) == 0 &&
        channel_receive(call->channel, &message) == 0)
        message_close(&message);
}

/* The same for all functions that make memory: `mapped` if the library maps it. */
static rknn_tensor_mem *finish(struct call *call, struct memory *memory, int mapped) {
    rknn_tensor_mem *given = NULL;
    if (call_send(call) == 0) {
        if (mapped) map(call, memory);
        if (call->code == 0) given = keep(call, memory);
        if (!given) {
            call_fail(call, RKNN_ERR_MALLOC_FAIL, "no memory for a struct");
            give_up(call, memory);
        }
    }
    call_end(call);
    return given;
}

static rknn_tensor_mem *create(const char *name, uint64_t ctx, uint64_t size, uint64_t flags) {
    struct call call;
    struct memory memory = {.descriptor = -1};
    call_begin(&call, name, OP_CREATE_MEM);
    if (ctx || !(flags & RKNN_MEM_FLAG_ALLOC_NO_CONTEXT)) call_context(&call, ctx, KIND_ANY);
    if (call.code == 0 && (!size || size > UINT32_MAX))
        call_fail(&call, RKNN_ERR_PARAM_INVALID, "%llu bytes cannot be allocated: 1 to 4294967295 can",
                  (unsigned long long)size);
    call.request.a = (int64_t)size, call.request.b = (int64_t)flags;
    return finish(&call, &memory, 1);
}

EXPORT rknn_tensor_mem *rknn_create_mem(rknn_context ctx, uint32_t size) {
    return create("rknn_create_mem", ctx, size, 0);
}

EXPORT rknn_tensor_mem *rknn_create_mem2(rknn_context ctx, uint64_t size, uint64_t alloc_flags) {
    return create("rknn_create_mem2", ctx, size, alloc_flags);
}

EXPORT rknn_tensor_mem *rknn_create_mem_from_fd(rknn_context ctx, int32_t fd, void *virt_addr, uint32_t size,
                                                int32_t offset) {
    struct call call;
    struct memory memory = {.given = {.virt_addr = virt_addr, .fd = fd}, .descriptor = -1};
    call_begin(&call, "rknn_create_mem_from_fd", OP_MEM_FROM_FD);
    call_context(&call, ctx, KIND_ANY);
    call.request.a = size, call.request.b = offset;
    if (call.code == 0 && (fd < 0 || offset < 0 || !size))
        call_fail(&call, RKNN_ERR_PARAM_INVALID, "fd %d, offset %d and size %u do not describe memory", fd, offset, size);
    call_descriptor(&call, fd);
    return finish(&call, &memory, 0);
}

EXPORT rknn_tensor_mem *rknn_create_mem_from_phys(rknn_context ctx, uint64_t phys_addr, void *virt_addr, uint32_t size) {
    struct call call;
    struct memory memory = {.given = {.virt_addr = virt_addr, .fd = -1}, .descriptor = -1};
    call_begin(&call, "rknn_create_mem_from_phys", OP_MEM_FROM_PHYS);
    call_context(&call, ctx, KIND_ANY);
    call.request.a = (int64_t)phys_addr, call.request.b = size;
    return finish(&call, &memory, 0);
}

EXPORT rknn_tensor_mem *rknn_create_mem_from_mb_blk(rknn_context ctx, void *mb_blk, int32_t offset) {
    struct call call;
    struct memory memory = {.given = {.fd = -1}, .descriptor = -1};
    (void)mb_blk; /* a handle of the vendor's media library: the engine says so */
    call_begin(&call, "rknn_create_mem_from_mb_blk", OP_MEM_FROM_MB_BLK);
    call_context(&call, ctx, KIND_ANY);
    call.request.a = offset;
    return finish(&call, &memory, 0);
}

/* What the library has of it goes in any case; the engine is told if it still has it. */
EXPORT int rknn_destroy_mem(rknn_context ctx, rknn_tensor_mem *mem) {
    struct call call;
    struct memory memory;
    char reason[200];
    call_begin(&call, "rknn_destroy_mem", OP_DESTROY_MEM);
    call.request.context = context_id(ctx);
    /* A copy of the struct names the original. */
    if (call.code == 0 && memory_find(mem, &memory) == 0 && memory_remove(memory.given.priv_data, &memory) == 0) {
        if (memory.mapped) munmap(memory.mapped, memory.mapped_bytes);
        close_quietly(memory.descriptor);
        call.request.memory = memory.id, call.link = memory.link;
        int code = link_problem(memory.link, reason, sizeof reason);
        if (code != 0) call_fail(&call, code, "%s", reason);
    } else {
        call_fail(&call, RKNN_ERR_PARAM_INVALID, "mem is %s",
                  mem ? "not memory from rknn_create_mem*, or was destroyed already" : "NULL");
    }
    return call_end(&call);
}
