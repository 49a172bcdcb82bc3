/* The provider of a session: which nodes it takes, the parts that it makes of them, and their runs. */
#include "provider.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_RANK = 64 };

struct provider {
    struct ort_ep face; /* first: ONNX Runtime knows a provider by the address of it */
    const ort_function *api, *ep_api;
    const struct host *host;
    int64_t session;
};

struct part {
    struct ort_compute face;
    const ort_function *api;
    int64_t number;
};

ort_status *failure(const ort_function *api, int code, const char *text) {
    return STATUS_CALL(api, API_CREATE_STATUS, int, const char *)(code, text);
}

static const char *provider_name(const struct ort_ep *face) {
    (void)face;
    return PROVIDER_NAME;
}

/* ---------------------------------------------------------------- what is taken */

/* Parts are numbered from 0 without gaps; the nodes of each go to ONNX Runtime together. */
static ort_status *claim(struct provider *self, ort_support *support, const void **nodes, const int32_t *parts,
                         size_t count) {
    const struct ort_fusion fusion = {.version = ORT_FILLED, .drop_constants = true};
    const void **chosen = calloc(count ? count : 1, sizeof *chosen);
    ort_status *status = chosen ? NULL : failure(self->api, ORT_FAIL, "out of memory");
    size_t found = 1;
    for (int32_t part = 0; !status && found; part++) {
        found = 0;
        for (size_t index = 0; index < count; index++)
            if (parts[index] == part) chosen[found++] = nodes[index];
        if (found)
            status = STATUS_CALL(self->ep_api, EP_ADD_NODES, ort_support *, const void *const *, size_t,
                                 const struct ort_fusion *)(support, chosen, found, &fusion);
    }
    free(chosen);
    return status;
}

static ort_status *capability(struct ort_ep *face, const ort_graph *graph, ort_support *support) {
    struct provider *self = (struct provider *)face;
    const ort_node *parent = NULL;
    struct bytes model = {0};
    char why[REASON_ROOM] = "";
    size_t count = 0;
    ort_status *status =
        STATUS_CALL(self->api, API_GRAPH_PARENT, const ort_graph *, const ort_node **)(graph, &parent);
    if (status || parent) return status; /* the body of an If or a Loop stays where it is */
    status = graph_to_model(self->api, graph, NULL, &model, &count);
    const void **nodes = calloc(count + 1, sizeof *nodes);
    int32_t *parts = calloc(count + 1, sizeof *parts);
    if (!status && (!nodes || !parts)) status = failure(self->api, ORT_FAIL, "out of memory");
    if (!status && count)
        status = STATUS_CALL(self->api, API_GRAPH_NODES, const ort_graph *, const void **, size_t)(graph, nodes, count);
    if (!status && count) {
        for (size_t index = 0; index < count; index++) parts[index] = -1;
        if (self->host->plan(self->session, model.at, model.length, parts, count, why, sizeof why) < 0)
            status = failure(self->api, ORT_EP_FAIL, why);
        else
            status = claim(self, support, nodes, parts, count);
    }
    bytes_free(&model);
    free(nodes);
    free(parts);
    return status;
}

/* ---------------------------------------------------------------- runs */

static ort_status *create_state(struct ort_compute *face, void *context, void **state) {
    (void)context;
    *state = face;
    return NULL;
}

static void release_state(struct ort_compute *face, void *state) {
    (void)face;
    (void)state;
}

struct running {
    const ort_function *api;
    ort_kernel *kernel;
    ort_status *status;
};

static void *output_place(void *context, uint32_t index, int32_t type, const int64_t *dimensions, uint32_t rank,
                          uint64_t bytes) {
    struct running *running = context;
    const ort_function *api = running->api;
    ort_value *value = NULL;
    ort_tensor_info *info = NULL;
    void *place = NULL;
    int found = 0;
    size_t size = 0;
    if (running->status) return NULL;
    running->status = STATUS_CALL(api, API_CONTEXT_OUTPUT, ort_kernel *, size_t, const int64_t *, size_t, ort_value **)(
        running->kernel, index, dimensions, rank, &value);
    if (running->status || !value) return NULL; /* no value: nobody wants this output */
    running->status = STATUS_CALL(api, API_VALUE_TENSOR_INFO, const ort_value *, ort_tensor_info **)(value, &info);
    if (running->status) return NULL;
    running->status = STATUS_CALL(api, API_ELEMENT_TYPE, const ort_tensor_info *, int *)(info, &found);
    PLAIN_CALL(api, API_RELEASE_TENSOR_INFO, void, ort_tensor_info *)(info);
    if (!running->status)
        running->status = STATUS_CALL(api, API_TENSOR_BYTES, const ort_value *, size_t *)(value, &size);
    if (!running->status && (found != type || size != bytes))
        running->status = failure(api, ORT_EP_FAIL, "an output of the part has another type or size than the graph says");
    if (!running->status) running->status = STATUS_CALL(api, API_MUTABLE_DATA, ort_value *, void **)(value, &place);
    return running->status ? NULL : place;
}

static ort_status *input_of(const ort_function *api, const ort_kernel *kernel, size_t index, int64_t *dimensions,
                            struct host_tensor *tensor) {
    const ort_value *value = NULL;
    ort_tensor_info *info = NULL;
    int type = 0;
    size_t rank = 0, size = 0;
    ort_status *status =
        STATUS_CALL(api, API_CONTEXT_INPUT, const ort_kernel *, size_t, const ort_value **)(kernel, index, &value);
    if (status) return status;
    if (!value) return failure(api, ORT_INVALID_ARGUMENT, "an input of the part is missing");
    status = STATUS_CALL(api, API_VALUE_TENSOR_INFO, const ort_value *, ort_tensor_info **)(value, &info);
    if (status) return status;
    status = STATUS_CALL(api, API_ELEMENT_TYPE, const ort_tensor_info *, int *)(info, &type);
    if (!status) status = STATUS_CALL(api, API_DIMENSION_COUNT, const ort_tensor_info *, size_t *)(info, &rank);
    if (!status && rank > MOST_RANK) status = failure(api, ORT_INVALID_ARGUMENT, "an input has more than 64 dimensions");
    if (!status && rank)
        status = STATUS_CALL(api, API_DIMENSIONS, const ort_tensor_info *, int64_t *, size_t)(info, dimensions, rank);
    PLAIN_CALL(api, API_RELEASE_TENSOR_INFO, void, ort_tensor_info *)(info);
    if (!status) status = STATUS_CALL(api, API_TENSOR_DATA, const ort_value *, const void **)(value, &tensor->data);
    if (!status) status = STATUS_CALL(api, API_TENSOR_BYTES, const ort_value *, size_t *)(value, &size);
    tensor->bytes = size;
    tensor->dimensions = dimensions;
    tensor->rank = (uint32_t)rank;
    tensor->type = type;
    return status;
}

static ort_status *compute(struct ort_compute *face, void *state, ort_kernel *kernel) {
    struct part *part = (struct part *)face;
    const ort_function *api = part->api;
    struct running running = {.api = api, .kernel = kernel};
    char why[REASON_ROOM] = "";
    size_t count = 0;
    (void)state;
    const struct host *host = host_now(why, sizeof why); /* not the one of the session: it may have gone */
    if (!host) return failure(api, ORT_EP_FAIL, why);
    ort_status *status = STATUS_CALL(api, API_CONTEXT_INPUT_COUNT, const ort_kernel *, size_t *)(kernel, &count);
    if (status) return status;
    struct host_tensor *inputs = calloc(count + 1, sizeof *inputs);
    int64_t *dimensions = calloc(count + 1, MOST_RANK * sizeof *dimensions);
    if (!inputs || !dimensions) status = failure(api, ORT_FAIL, "out of memory");
    for (size_t index = 0; index < count && !status; index++)
        status = input_of(api, kernel, index, dimensions + index * MOST_RANK, inputs + index);
    if (!status) {
        int32_t result =
            host->run(part->number, inputs, (uint32_t)count, output_place, &running, why, sizeof why);
        status = running.status;
        if (!status && result < 0) status = failure(api, ORT_EP_FAIL, why);
    }
    free(inputs);
    free(dimensions);
    return status;
}

/* ---------------------------------------------------------------- parts */

static void release_parts(struct ort_ep *face, struct ort_compute **parts, size_t count) {
    char why[REASON_ROOM];
    (void)face;
    const struct host *host = host_now(why, sizeof why);
    for (size_t index = 0; index < count; index++) {
        struct part *part = (struct part *)parts[index];
        if (part && host) host->drop(part->number);
        free(part);
    }
}

static ort_status *build(struct provider *self, const ort_graph *graph, const ort_node *fused,
                         struct ort_compute **result) {
    struct bytes model = {0};
    char why[REASON_ROOM] = "";
    size_t nodes;
    struct part *part = calloc(1, sizeof *part);
    ort_status *status = part ? graph_to_model(self->api, graph, fused, &model, &nodes)
                              : failure(self->api, ORT_FAIL, "out of memory");
    if (!status) {
        part->face = (struct ort_compute){ORT_FILLED, create_state, compute, release_state};
        part->api = self->api;
        part->number = self->host->build(self->session, model.at, model.length, why, sizeof why);
        if (part->number < 0) status = failure(self->api, ORT_EP_FAIL, why);
    }
    bytes_free(&model);
    if (status)
        free(part);
    else
        *result = &part->face;
    return status;
}

/* Parts that were made before one fails are in the array: ONNX Runtime gives them back. */
static ort_status *compile(struct ort_ep *face, const ort_graph **graphs, const ort_node **fused, size_t count,
                           struct ort_compute **parts, ort_node **contexts) {
    ort_status *status = NULL;
    (void)contexts;
    for (size_t index = 0; index < count && !status; index++)
        status = build((struct provider *)face, graphs[index], fused[index], &parts[index]);
    return status;
}

/* ---------------------------------------------------------------- sessions */

/* All entries of the session's options: names and values by turns. */
static ort_status *options_of(const ort_function *api, const ort_session_options *options, struct bytes *found) {
    ort_pairs *pairs = NULL;
    const char *const *names = NULL, *const *values = NULL;
    size_t count = 0;
    ort_status *status =
        STATUS_CALL(api, API_SESSION_ENTRIES, const ort_session_options *, ort_pairs **)(options, &pairs);
    if (status) return status;
    PLAIN_CALL(api, API_GET_PAIRS, void, const ort_pairs *, const char *const **, const char *const **, size_t *)(
        pairs, &names, &values, &count);
    for (size_t index = 0; index < count; index++) {
        bytes_add(found, names[index], strlen(names[index]) + 1);
        bytes_add(found, values[index], strlen(values[index]) + 1);
    }
    PLAIN_CALL(api, API_RELEASE_PAIRS, void, ort_pairs *)(pairs);
    return found->failed ? failure(api, ORT_FAIL, "out of memory") : NULL;
}

ort_status *provider_create(const ort_function *api, const ort_function *ep_api, const ort_session_options *options,
                            struct ort_ep **result) {
    char why[REASON_ROOM] = "";
    struct bytes told = {0};
    const struct host *host = host_now(why, sizeof why);
    if (!host) return failure(api, ORT_EP_FAIL, why);
    ort_status *status = options_of(api, options, &told);
    struct provider *made = calloc(1, sizeof *made);
    if (!status && !made) status = failure(api, ORT_FAIL, "out of memory");
    if (!status) {
        made->face = (struct ort_ep){.version = ORT_FILLED, .name = provider_name, .capability = capability,
                                     .compile = compile, .release_computes = release_parts};
        made->api = api;
        made->ep_api = ep_api;
        made->host = host;
        made->session = host->open((const char *)told.at, told.length, why, sizeof why);
        if (made->session < 0) status = failure(api, ORT_INVALID_ARGUMENT, why);
    }
    bytes_free(&told);
    if (status)
        free(made);
    else
        *result = &made->face;
    return status;
}

void provider_release(struct ort_ep *face) {
    struct provider *self = (struct provider *)face;
    char why[REASON_ROOM];
    const struct host *host = host_now(why, sizeof why);
    if (self && host) host->close(self->session);
    free(self);
}
