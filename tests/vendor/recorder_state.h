/* What recorder.c keeps: the log of calls, the failure asked for, the contexts. */
#include "capi.h"
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SUCC = 0, FAIL = -1, MALLOC_FAIL = -4, PARAM = -5, MODEL = -6, CTX = -7 };
enum { LOG_BYTES = 1 << 20, FIRST_CONTEXT = 0x1000, MAX_CONTEXTS = 4096, MAX_OPS = 8 };

struct context {
    int used, matmul, dynamic, shape, runs, ops;
    uint32_t flags;
    rknn_tensor_mem *memories[5]; /* image, features, map, scores, - or A, B, C */
    rknn_tensor_attr attributes[4];
    rknn_matmul_info info;
    rknn_matmul_shape shapes[4];
    rknn_custom_op op[MAX_OPS];
    rknn_custom_op_context op_context[MAX_OPS];
};

static struct context contexts[MAX_CONTEXTS];
static char log_text[LOG_BYTES];
static size_t log_used;
static char fail_name[64];
static int fail_code;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ------------------------------------------------------------------------------------------------- the log */

const char *recorder_log(void) { return log_text; }
void recorder_clear(void) { log_used = 0; log_text[0] = 0; }
void recorder_fail(const char *name, int code) { snprintf(fail_name, sizeof fail_name, "%s", name); fail_code = code; }

__attribute__((format(printf, 1, 2))) static void note(const char *format, ...) {
    pthread_mutex_lock(&lock);
    va_list list;
    va_start(list, format);
    int written = vsnprintf(log_text + log_used, LOG_BYTES - log_used, format, list);
    va_end(list);
    if (written > 0 && log_used + (size_t)written < LOG_BYTES) log_used += (size_t)written;
    pthread_mutex_unlock(&lock);
}

static int failing(const char *name) {
    if (strcmp(name, fail_name) != 0) return 0;
    fail_name[0] = 0;
    return fail_code;
}
#define FAIL_IF_ASKED do { int code_ = failing(__func__); if (code_) return code_; } while (0)

static struct context *find(rknn_context number) {
    return number >= FIRST_CONTEXT && number < FIRST_CONTEXT + MAX_CONTEXTS && contexts[number - FIRST_CONTEXT].used
               ? &contexts[number - FIRST_CONTEXT] : NULL;
}
#define CONTEXT_OR_FAIL(number) struct context *context = find(number); if (!context) return CTX

static rknn_context allocate(struct context **made) {
    static rknn_context next;
    pthread_mutex_lock(&lock);
    rknn_context index = next++ % MAX_CONTEXTS;
    pthread_mutex_unlock(&lock);
    *made = &contexts[index];
    memset(*made, 0, sizeof **made);
    (*made)->used = 1;
    return index + FIRST_CONTEXT;
}
