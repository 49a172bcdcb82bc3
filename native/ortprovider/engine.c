#include "provider.h"
#include <stdio.h>
const struct host *engine_host(char *why, uint32_t room) {
    snprintf(why, room, "no host is registered: call openrknn.onnxruntime.plugin.register()");
    return NULL;
}
