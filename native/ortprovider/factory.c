/* What ONNX Runtime loads: the factory of providers, and the devices that it offers. */
#include "provider.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef OPENRKNN_VERSION
#define OPENRKNN_VERSION "0.0.0"
#endif

enum { ROCKCHIP = 0x1d87 }; /* of the PCI vendors */
enum { VIRTUAL_SINCE = 24 };

struct factory {
    struct ort_factory face;
    const ort_function *api, *ep_api;
    ort_hardware *npu; /* made by us, where ONNX Runtime allows it */
    bool virtual_device;
};

static const char *factory_name(const struct ort_factory *face) {
    (void)face;
    return PROVIDER_NAME;
}

static const char *factory_vendor(const struct ort_factory *face) {
    (void)face;
    return "openrknn";
}

static uint32_t factory_vendor_id(const struct ort_factory *face) {
    (void)face;
    return ROCKCHIP;
}

static const char *factory_version(const struct ort_factory *face) {
    (void)face;
    return OPENRKNN_VERSION;
}

/* ---------------------------------------------------------------- devices */

static ort_status *offer(struct factory *self, const ort_hardware *hardware, ort_ep_device **devices, size_t *made) {
    ort_status *status = STATUS_CALL(self->ep_api, EP_CREATE_DEVICE, struct ort_factory *, const ort_hardware *,
                                     const ort_pairs *, const ort_pairs *, ort_ep_device **)(
        &self->face, hardware, NULL, NULL, &devices[*made]);
    if (!status) ++*made;
    return status;
}

static ort_status *virtual_npu(struct factory *self) {
    ort_pairs *about = NULL;
    PLAIN_CALL(self->api, API_CREATE_PAIRS, void, ort_pairs **)(&about);
    PLAIN_CALL(self->api, API_ADD_PAIR, void, ort_pairs *, const char *, const char *)(about, "Description", "RKNN NPU");
    ort_status *status = STATUS_CALL(self->ep_api, EP_CREATE_HARDWARE, int, uint32_t, uint32_t, const char *,
                                     const ort_pairs *, ort_hardware **)(ORT_HARDWARE_NPU, ROCKCHIP, 0, "Rockchip",
                                                                         about, &self->npu);
    PLAIN_CALL(self->api, API_RELEASE_PAIRS, void, ort_pairs *)(about);
    return status;
}

/* ONNX Runtime finds no NPUs on Linux. Where the name of the registration ends in ".virtual" a library may bring a
 * device of its own, which is an NPU then; else the provider stands beside the processor. */
static ort_status *devices(struct ort_factory *face, const ort_hardware *const *found, size_t count,
                           ort_ep_device **offered, size_t room, size_t *made) {
    struct factory *self = (struct factory *)face;
    ort_status *status = NULL;
    *made = 0;
    if (!room) return NULL;
    if (self->virtual_device) {
        if (!self->npu) status = virtual_npu(self);
        return status ? status : offer(self, self->npu, offered, made);
    }
    for (size_t index = 0; index < count; index++)
        if (PLAIN_CALL(self->api, API_HARDWARE_TYPE, int, const ort_hardware *)(found[index]) == ORT_HARDWARE_CPU)
            return offer(self, found[index], offered, made);
    return NULL;
}

/* ---------------------------------------------------------------- providers; memory is the processor's */

static ort_status *create(struct ort_factory *face, const ort_hardware *const *hardware, const ort_pairs *const *about,
                          size_t count, const ort_session_options *options, const ort_logger *logger,
                          struct ort_ep **made) {
    struct factory *self = (struct factory *)face;
    (void)hardware, (void)about, (void)logger;
    *made = NULL;
    if (count != 1) return failure(self->api, ORT_INVALID_ARGUMENT, PROVIDER_NAME " takes one device for each session");
    return provider_create(self->api, self->ep_api, options, made);
}

static void release(struct ort_factory *face, struct ort_ep *made) {
    (void)face;
    provider_release(made);
}

static ort_status *create_allocator(struct ort_factory *face, const ort_memory *memory, const ort_pairs *options,
                                    void **made) {
    (void)face, (void)memory, (void)options;
    *made = NULL;
    return NULL;
}

static void release_allocator(struct ort_factory *face, void *made) { (void)face, (void)made; }

static ort_status *create_transfer(struct ort_factory *face, void **made) {
    (void)face;
    *made = NULL;
    return NULL;
}

static bool stream_aware(const struct ort_factory *face) {
    (void)face;
    return false;
}

/* ---------------------------------------------------------------- loading */

/* Functions whose effect can be seen are tried before the others are trusted: texts that come back as they were put
 * in show that the table is the one that we know. */
static bool table_is_right(const ort_function *api) {
    static const char word[] = "openrknn";
    ort_status *status = failure(api, ORT_FAIL, word);
    const char *back = status ? PLAIN_CALL(api, API_GET_ERROR_MESSAGE, const char *, const ort_status *)(status) : NULL;
    bool right = back && strcmp(back, word) == 0;
    if (status) PLAIN_CALL(api, API_RELEASE_STATUS, void, ort_status *)(status);
    if (!right) return false;
    ort_pairs *pairs = NULL;
    PLAIN_CALL(api, API_CREATE_PAIRS, void, ort_pairs **)(&pairs);
    if (!pairs) return false;
    PLAIN_CALL(api, API_ADD_PAIR, void, ort_pairs *, const char *, const char *)(pairs, word, word);
    back = PLAIN_CALL(api, API_GET_PAIR, const char *, const ort_pairs *, const char *)(pairs, word);
    right = back && strcmp(back, word) == 0;
    PLAIN_CALL(api, API_RELEASE_PAIRS, void, ort_pairs *)(pairs);
    return right;
}

/* 1.23.0 takes every provider whose name it does not know for one with memory of its own, and asks it for
 * copies that nobody can make. */
static bool copies_for_strangers(const struct ort_base *base) {
    int minor = 0, patch = 0;
    return sscanf(base->version_text(), "1.%d.%d", &minor, &patch) == 2 && minor == 23 && patch < 1;
}

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

VISIBLE ort_status *CreateEpFactories(const char *name, const struct ort_base *base, const ort_logger *logger,
                                      struct ort_factory **factories, size_t room, size_t *made) {
    const ort_function *api = base->get_api(ORT_OLDEST);
    char text[160];
    (void)logger;
    if (!api || copies_for_strangers(base)) { /* 1.22 calls this function with other arguments: nothing but `base` may be used */
        const ort_function *old = base->get_api(1);
        snprintf(text, sizeof text, "the plug-in of openrknn needs ONNX Runtime 1.23.1 or newer, and this is %s",
                 base->version_text());
        return old ? failure(old, ORT_NOT_IMPLEMENTED, text) : NULL;
    }
    *made = 0;
    if (!room) return failure(api, ORT_INVALID_ARGUMENT, "there is no room for a factory");
    if (!table_is_right(api)) return failure(api, ORT_FAIL, "ONNX Runtime's table of functions is not the known one");
    const ort_function *ep_api = PLAIN_CALL(api, API_EP_API, const ort_function *, void)();
    struct factory *self = calloc(1, sizeof *self);
    if (!ep_api || !self) {
        free(self);
        return failure(api, ORT_FAIL, "out of memory, or no functions for execution providers");
    }
    self->face = (struct ort_factory){
        .version = ORT_FILLED,
        .name = factory_name,
        .vendor = factory_vendor,
        .devices = devices,
        .create = create,
        .release = release,
        .vendor_id = factory_vendor_id,
        .provider_version = factory_version,
        .create_allocator = create_allocator,
        .release_allocator = release_allocator,
        .create_transfer = create_transfer,
        .stream_aware = stream_aware,
    };
    self->api = api;
    self->ep_api = ep_api;
    self->virtual_device = name && ends_with(name, ".virtual") && base->get_api(VIRTUAL_SINCE);
    factories[0] = &self->face;
    *made = 1;
    return NULL;
}

VISIBLE ort_status *ReleaseEpFactory(struct ort_factory *face) {
    struct factory *self = (struct factory *)face;
    if (self && self->npu) PLAIN_CALL(self->ep_api, EP_RELEASE_HARDWARE, void, ort_hardware *)(self->npu);
    free(self);
    return NULL;
}
