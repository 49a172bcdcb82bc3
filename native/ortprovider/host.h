/* Who compiles and runs the parts: functions that a Python process registers, or a process of its own (engine.c).
 *
 * Functions that can fail return a negative number and put a text with its ending zero into `why`. They may be called
 * from any thread. */
#ifndef OPENRKNN_HOST_H
#define OPENRKNN_HOST_H

#include <stdint.h>

enum { HOST_VERSION = 1 };

struct host_tensor {
    const void *data;
    uint64_t bytes;
    const int64_t *dimensions;
    uint32_t rank;
    int32_t type; /* as TensorProto numbers them */
};

/* Where the output number `index` goes; NULL if its shape or its type is refused. */
typedef void *(*host_output)(void *context, uint32_t index, int32_t type, const int64_t *dimensions, uint32_t rank,
                             uint64_t bytes);

struct host {
    uint32_t version;
    /* Options of a session: names and values by turns, each with its ending zero. The number of the session. */
    int64_t (*open)(const char *options, uint64_t size, char *why, uint32_t room);
    /* Which nodes of an ONNX model are taken: the number of the part for each node, or -1. */
    int32_t (*plan)(int64_t session, const void *model, uint64_t size, int32_t *parts, uint64_t nodes, char *why,
                    uint32_t room);
    /* An ONNX model with the nodes of a part. The number of the part. */
    int64_t (*build)(int64_t session, const void *model, uint64_t size, char *why, uint32_t room);
    int32_t (*run)(int64_t part, const struct host_tensor *inputs, uint32_t count, host_output, void *context,
                   char *why, uint32_t room);
    void (*drop)(int64_t part);
    void (*close)(int64_t session);
};

/* The host of this process: the registered one, else the engine. NULL and a reason if the registered one has gone. */
const struct host *host_now(char *why, uint32_t room);

/* The engine process as a host; its first session starts it. */
const struct host *engine_host(void);

#endif
