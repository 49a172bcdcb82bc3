/* rknn_run and rknn_wait. */
#include "capi.h"

static int run(const char *name, uint64_t context, enum operation operation, rknn_run_extend *extend) {
    struct call call;
    rknn_run_extend copied;
    call_begin(&call, name, operation);
    call_context(&call, context, KIND_MODEL);
    if (call.code == 0 && extend) {
        if (copy_in(&copied, extend, sizeof copied) != 0)
            call_fail(&call, RKNN_ERR_PARAM_INVALID, "extend is no address of an rknn_run_extend");
        call_part(&call, &copied, sizeof copied);
        /* Only a context that waits for fences looks at this field; others leave anything in it. */
        if (operation == OP_RUN && call.code == 0 && call.context->fences && copied.fence_fd > 0)
            call_descriptor(&call, copied.fence_fd);
        call_made(&call, "extend", extend, sizeof *extend, 1);
    }
    return call_end(&call);
}

EXPORT int rknn_run(rknn_context context, rknn_run_extend *extend) { return run("rknn_run", context, OP_RUN, extend); }

EXPORT int rknn_wait(rknn_context context, rknn_run_extend *extend) {
    return run("rknn_wait", context, OP_WAIT, extend);
}
