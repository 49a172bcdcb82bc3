/* Which host this process has. */
#include "provider.h"

#include <stdatomic.h>
#include <stdio.h>

static _Atomic(const struct host *) registered;
static atomic_bool gone;

/* A Python process registers its functions before ONNX Runtime loads the library, and takes them back (NULL) when it
 * ends: what still lives then is given back without it. */
VISIBLE int32_t openrknn_ort_host(const struct host *host) {
    if (host && host->version != HOST_VERSION) return -1;
    if (!host && atomic_load(&registered)) atomic_store(&gone, true);
    if (host) atomic_store(&gone, false);
    atomic_store(&registered, host);
    return 0;
}

const struct host *host_now(char *why, uint32_t room) {
    const struct host *host = atomic_load(&registered);
    if (host) return host;
    if (atomic_load(&gone)) {
        snprintf(why, room, "the Python process that this provider belongs to is ending");
        return NULL;
    }
    return engine_host();
}
