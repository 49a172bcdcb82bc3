/* The open librkllmrt.so: what its files share. It talks to the same engine as librknnrt.so (native/capi), where models
   are held and run; here are the program's structs in all versions, and the callbacks. */
#ifndef OPENRKNN_RKLLM_LIBRARY_H
#define OPENRKNN_RKLLM_LIBRARY_H
#include "../capi/capi.h"
#include "include/rkllm.h"

/* ---------------------------------------------------------------- versions.c: whose structs */

enum version { VERSION_UNKNOWN = 0, VERSION_1_1 = 101, VERSION_1_2_0 = 10200, VERSION_1_2 = 102, VERSION_1_3 = 103 };

enum version version_named(void);                  /* OPENRKNN_RKLLM_ABI; VERSION_UNKNOWN: not set, or `version_problem` */
const char *version_problem(void);                 /* or NULL */
enum version version_of_callback(const void *callback); /* a function: 1.2; a struct: 1.3 */
enum version version_of_input(enum version version, const void *input); /* tells 1.2.0 and 1.2.1 apart */
const char *version_text(enum version version);

/* What the functions are given, in the newest layout. Each returns 0, or -1: the address is wrong. */
int read_param(enum version version, const void *user, RKLLMParam *param);
int read_input(enum version version, const void *user, RKLLMInput *input);
int read_infer(enum version version, const void *user, RKLLMInferParam *infer);

/* ---------------------------------------------------------------- handles.c */

struct handle {
    uintptr_t number; /* what the program has as LLMHandle */
    uint64_t id;      /* what the engine has */
    uint32_t link;
    enum version version; /* 1.2 may turn out to be 1.2.0 with the first input */
    int is_settled;       /* an input was seen; this and the version are read while another thread runs */
    LLMResultCallback callback;
    void *userdata;
    RKLLMParam param; /* model_path is not valid any more */
    int users, is_running, is_closed; /* with the lock of handles.c */
    pthread_t runner;
    struct handle *next;
};

struct handle *handle_add(const struct handle *values); /* NULL: no memory; it has one user */
struct handle *handle_get(const char *function, LLMHandle number); /* NULL with a message */
void handle_put(struct handle *handle);
int handle_begin(struct handle *handle); /* 0; -1: a run is under way */
void handle_runs_here(struct handle *handle);
void handle_end(struct handle *handle);
int handle_close(struct handle *handle); /* removes it from the table; waits for its run unless this thread runs it */
int handle_is_running(struct handle *handle);
int handle_is_closed(struct handle *handle);

/* ---------------------------------------------------------------- exchange.c: one request and its answer */

enum { MOST_TEXT = LARGEST_PACKET - 4096 };

struct exchange {
    const char *function;
    struct capi_request request;
    char *text; /* records NAME=VALUE, each ended by a zero byte */
    size_t bytes;
    int descriptor; /* sent along; -1: none */
    int failed;
    struct channel *channel;
    struct message message;
};

void exchange_begin(struct exchange *exchange, const char *function, enum operation operation);
void exchange_on(struct exchange *exchange, const struct handle *handle);
int exchange_fail(struct exchange *exchange, const char *format, ...) PRINTS(2, 3); /* -1 */
void exchange_text(struct exchange *exchange, const char *name, const char *user); /* a string of the program; NULL: none */
void exchange_number(struct exchange *exchange, const char *name, double value);
int exchange_send(struct exchange *exchange, uint32_t link); /* 0, or -1 with a message */
int exchange_end(struct exchange *exchange);                 /* sends nothing; 0 or -1 */

#endif
