/* The child process that runs the model: starting it, one request and its reply at a time, ending it. */
#ifndef OPENRKNN_GSTREAMER_ENGINE_H
#define OPENRKNN_GSTREAMER_ENGINE_H
#include <glib.h>
#include <stdint.h>

#include "protocol.h"

struct engine;

enum engine_answer {
    ANSWER_GIVEN,       /* the payload of the reply */
    ANSWER_REFUSED,     /* the engine says why not: the payload is its text */
    ANSWER_ENDED,       /* the process is gone; `why` says how, with what it wrote last */
    ANSWER_INTERRUPTED, /* by engine_interrupt */
};

/* `command`: program and arguments, split at blanks; NULL: the usual one. NULL with `why` if it cannot be started. */
struct engine *engine_start(const char *command, char **why);

/* Whether it was sent. Otherwise the engine has ended: engine_receive says how. */
gboolean engine_send(struct engine *engine, uint32_t operation, uint64_t number, const void *payload, gsize bytes,
                     const int *descriptors, guint n_descriptors);

/* Waits for the reply to request `number`; replies to earlier requests are dropped. */
enum engine_answer engine_receive(struct engine *engine, uint64_t number, GBytes **payload, char **why);

/* From any thread. While it is on, engine_receive returns at once. */
void engine_interrupt(struct engine *engine, gboolean on);

int engine_process(const struct engine *engine);

/* Ends the process, and frees. NULL is allowed. */
void engine_stop(struct engine *engine);

#endif
