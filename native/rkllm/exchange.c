/* One request to the engine and its answer. Strings of the program are copied by the kernel, as in native/capi. */
#include "library.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The connection says at its beginning whose structs it sends; here no structs are sent. */
const struct abi *abi(void) {
    static const struct abi known[] = {KNOWN_ABIS};
    return &known[sizeof known / sizeof *known - 1];
}

void exchange_begin(struct exchange *exchange, const char *function, enum operation operation) {
    memset(exchange, 0, sizeof *exchange);
    exchange->function = function;
    exchange->request.operation = operation;
    exchange->descriptor = -1;
    lifetime_begin();
    if (!lifetime_enter()) exchange_fail(exchange, "the library is being unloaded");
    else if (version_problem()) exchange_fail(exchange, "%s", version_problem());
}

void exchange_on(struct exchange *exchange, const struct handle *handle) { exchange->request.context = handle->id; }

int exchange_fail(struct exchange *exchange, const char *format, ...) {
    char text[1024];
    va_list values;
    if (exchange->failed) return -1;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    exchange->failed = 1;
    say(LEVEL_ERROR, exchange->function, "%s", text);
    return -1;
}

static char *room_for(struct exchange *exchange, const char *name) {
    if (exchange->failed) return NULL;
    if (!exchange->text && !(exchange->text = malloc(MOST_TEXT))) {
        exchange_fail(exchange, "no memory");
        return NULL;
    }
    size_t length = strlen(name) + 1;
    if (length + 64 > MOST_TEXT - exchange->bytes) {
        exchange_fail(exchange, "the texts are longer than %d bytes", MOST_TEXT);
        return NULL;
    }
    memcpy(exchange->text + exchange->bytes, name, length - 1);
    exchange->text[exchange->bytes + length - 1] = '=';
    return exchange->text + exchange->bytes + length;
}

void exchange_text(struct exchange *exchange, const char *name, const char *user) {
    if (!user) return;
    char *at = room_for(exchange, name);
    if (!at) return;
    int length = copy_text(at, (size_t)(exchange->text + MOST_TEXT - at), user);
    if (length == -1) exchange_fail(exchange, "%s is no address of a text", name);
    else if (length < 0) exchange_fail(exchange, "%s is longer than %d bytes", name, MOST_TEXT);
    else exchange->bytes = (size_t)(at + length + 1 - exchange->text);
}

void exchange_number(struct exchange *exchange, const char *name, double value) {
    char *at = room_for(exchange, name);
    if (!at) return;
    int length = snprintf(at, 64, "%.9g", value);
    exchange->bytes = (size_t)(at + length + 1 - exchange->text);
}

int exchange_send(struct exchange *exchange, uint32_t link) {
    char reason[900] = "no memory";
    struct iovec parts[2] = {{&exchange->request, sizeof exchange->request}, {exchange->text, exchange->bytes}};
    if (exchange->failed) return -1;
    exchange->request.payload_bytes = (uint32_t)exchange->bytes;
    if (channel_take(link, &exchange->channel, reason, sizeof reason) != 0) return exchange_fail(exchange, "%s", reason);
    int problem = channel_send(exchange->channel, parts, exchange->bytes ? 2 : 1, &exchange->descriptor,
                               exchange->descriptor >= 0);
    if (problem || channel_receive(exchange->channel, &exchange->message) != 0) {
        channel_break(exchange->channel);
        exchange->channel = NULL;
        return exchange_fail(exchange, "the engine has ended%s%s; the next rkllm_init starts another",
                             problem ? ": " : "", problem ? strerror(problem) : "");
    }
    const struct capi_reply *reply = &exchange->message.reply;
    if (reply->code != 0)
        return exchange_fail(exchange, "%s", reply->reason_bytes ? exchange->message.reason : "refused");
    if (reply->reason_bytes) say(LEVEL_WARNING, exchange->function, "%s", exchange->message.reason);
    return 0;
}

int exchange_end(struct exchange *exchange) {
    if (exchange->channel) {
        message_close(&exchange->message);
        channel_give(exchange->channel);
    }
    free(exchange->text);
    close_quietly(exchange->descriptor);
    lifetime_leave();
    return exchange->failed ? -1 : 0;
}
