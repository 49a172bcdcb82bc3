/* The open librknnrt.so: what its files share. Models run in an engine, a process of its own (openrknn.capi); here are
   the connection to it, checked copies from and to the program's memory, and what belongs to the program's process.

   No pointer of the program is ever followed: the kernel copies (copy.c), and a wild pointer is an error code. */
#ifndef OPENRKNN_CAPI_H
#define OPENRKNN_CAPI_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifndef _FILE_OFFSET_BITS
#define _FILE_OFFSET_BITS 64 /* models and memory above 2 GB on 32-bit machines */
#endif
#include <pthread.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "abi.h"
#include "protocol.h"

#define EXPORT __attribute__((visibility("default")))
#define PRINTS(text, first) __attribute__((format(printf, text, first)))

/* ---------------------------------------------------------------- abi.c: whose structs */

const struct abi *abi(void);      /* never NULL */
const char *abi_problem(void);    /* why OPENRKNN_ABI cannot be used, or NULL */
size_t query_size(uint32_t command);

/* ---------------------------------------------------------------- log.c */

enum level { LEVEL_ERROR, LEVEL_WARNING, LEVEL_INFO, LEVEL_DEBUG };
void say(enum level level, const char *function, const char *format, ...) PRINTS(3, 4);
int says(enum level level);

/* ---------------------------------------------------------------- copy.c: the program's memory, by the kernel */

int copy_in(void *into, const void *user, size_t size);   /* 0, or -1: the address is wrong */
int copy_out(void *user, const void *from, size_t size);
int copy_text(char *into, size_t room, const char *user); /* its length, or -1; -2: longer than `room` */
int shared_file(const char *name);                        /* a descriptor, or -1 */
int copy_to_file(int file, off_t at, const void *user, size_t size);   /* 0, or an errno; EFAULT: the address */
int copy_from_file(int file, off_t at, void *user, size_t size);

/* ---------------------------------------------------------------- link.c: the connection */

/* A conversation with the engine. One thread has it at a time. */
struct channel {
    int descriptor;
    uint64_t inode;
    uint32_t link; /* of which connection */
    struct channel *next;        /* of the idle ones */
    struct channel *next_known;  /* of all */
    unsigned char *buffer; /* LARGEST_PACKET bytes */
};

struct message {
    struct capi_reply reply;
    unsigned char *payload; /* in the channel's buffer */
    const char *reason;
    int descriptors[MOST_DESCRIPTORS];
    int n_descriptors;
};

/* 0, or a code with a text. `link` 0: any connection, made if there is none. */
int channel_take(uint32_t link, struct channel **channel, char *reason, size_t room);
void channel_give(struct channel *channel);
void channel_break(struct channel *channel); /* the engine is gone */
int channel_send(struct channel *channel, struct iovec *parts, int count, const int *descriptors, int n); /* or errno */
int channel_receive(struct channel *channel, struct message *message);                                  /* or -1 */
int link_problem(uint32_t link, char *reason, size_t room); /* 0: alive, else a code with a text */
void message_close(struct message *message); /* the descriptors that nobody took */
int message_take(struct message *message);   /* the first one, or -1 */
void link_close(void);
void link_forget_after_fork(void);
void link_lock(void);
void link_unlock(void);

/* ---------------------------------------------------------------- start.c: finding and starting the engine */

int engine_connect(char *reason, size_t room); /* a descriptor, or -1 with a text */

/* ---------------------------------------------------------------- objects.c: contexts and memories */

enum kind { KIND_MODEL, KIND_MATMUL, KIND_ANY };

struct output { void *data; struct output *next; };
struct operator; /* custom.c */

struct context {
    uint32_t number; /* what the program has; never used again, not even after fork or with another engine */
    uint64_t id;     /* what its engine has */
    enum kind kind;
    uint32_t link;
    int users; /* calls under way, and one while it is known */
    struct context *next;
    pthread_mutex_t lock; /* of what follows */
    int fences; /* RKNN_FLAG_FENCE_IN_OUTSIDE */
    int staging, results; /* descriptors of shared memory, or -1 */
    uint64_t staging_bytes;
    int staging_known; /* the engine has it */
    char *perf;
    struct output *outputs;
    struct operator *operators;
    rknn_custom_op *registered;
    int n_registered;
    unsigned char *area; /* tensors of custom operators */
    size_t area_bytes;
};

struct memory {
    rknn_tensor_mem given; /* what the program sees; first, so that its address is this one's */
    uint64_t id;
    uint32_t link;
    int descriptor; /* the library's own, or -1 */
    void *mapped;
    size_t mapped_bytes;
    struct memory *next;
};

struct context *context_add(uint64_t id, enum kind kind, uint32_t link); /* NULL: no memory */
struct context *context_get(uint64_t number, enum kind kind, char *reason, size_t room);
void context_put(struct context *context);
int context_remove(uint64_t number, enum kind kind); /* 0 if it was known */
uint64_t context_id(uint64_t number);                /* 0: there is none */
struct context *context_of_operator(uint64_t internal); /* as context_get */
struct memory *memory_add(const struct memory *new_memory); /* NULL: no memory */
int memory_find(const rknn_tensor_mem *mem, struct memory *found); /* a copy; -1: not one of ours */
int memory_remove(const rknn_tensor_mem *mem, struct memory *found);
void objects_lock(void);
void objects_unlock(void);
void objects_close(int all); /* all: also what the program still sees */

/* ---------------------------------------------------------------- call.c: one call of the program */

enum { MOST_PARTS = 6, MOST_MADE = 2 };

struct call {
    const char *name;
    int code, saved_errno;
    int sent; /* the engine has seen it */
    struct capi_request request;
    struct iovec parts[MOST_PARTS];
    int n_parts;
    size_t bytes;
    int descriptors[MOST_DESCRIPTORS];
    int n_descriptors;
    struct context *context;
    uint32_t link;
    struct channel *channel;
    struct message message;
    struct { void *user; size_t bytes; const char *name; } made[MOST_MADE];
    int n_made;
    rknn_context *new_context;
    enum kind new_kind;
    int new_fences;
};

void call_begin(struct call *call, const char *name, enum operation operation);
int call_fail(struct call *call, int code, const char *format, ...) PRINTS(3, 4); /* keeps the first failure */
void call_context(struct call *call, uint64_t id, enum kind kind);
void call_memory(struct call *call, const rknn_tensor_mem *mem, int with_place);
void call_given(struct call *call, const char *name, const void *user, size_t size, int64_t count);
void call_optional(struct call *call, const char *name, const void *user, size_t size); /* NULL: none */
void call_part(struct call *call, const void *data, size_t size);                       /* may be the program's */
void call_descriptor(struct call *call, int descriptor);                                /* stays the caller's */
void call_made(struct call *call, const char *name, void *user, size_t size, int64_t count);
void call_new_context(struct call *call, rknn_context *user, enum kind kind);
int call_send(struct call *call);  /* sends and waits; the code. The reply is in call->message until call_end */
int call_end(struct call *call);   /* sends if that was not done; the code */

/* ---------------------------------------------------------------- custom.c */

int custom_call_back(struct context *context, struct message *message); /* what the function returned */
void custom_close(struct context *context);
int custom_has(const struct context *context, uint64_t internal);

/* ---------------------------------------------------------------- lifetime.c */

void lifetime_begin(void); /* once: what happens at fork */
int lifetime_enter(void);  /* 0: the library is being unloaded */
void lifetime_leave(void);

void close_quietly(int descriptor);
#endif
