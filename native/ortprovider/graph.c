/* An OrtGraph, written as an ONNX model.
 *
 * A message that is given several times is one message with the fields of all (the rule of protobuf), so the graph is
 * written in pieces, and no piece has to be kept until its length is known. */
#include "provider.h"

#include <stdlib.h>
#include <string.h>

enum { MODEL_IR = 1, MODEL_PRODUCER = 2, MODEL_GRAPH = 7, MODEL_OPSET = 8 };
enum { GRAPH_NODE = 1, GRAPH_NAME = 2, GRAPH_INITIALIZER = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12, GRAPH_VALUE = 13 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_OPERATOR = 4, NODE_ATTRIBUTE = 5, NODE_DOMAIN = 7 };
enum { ATTRIBUTE_NAME = 1, ATTRIBUTE_F, ATTRIBUTE_I, ATTRIBUTE_S, ATTRIBUTE_T, ATTRIBUTE_FLOATS = 7, ATTRIBUTE_INTS,
       ATTRIBUTE_STRINGS, ATTRIBUTE_TYPE = 20 };
enum { KIND_FLOAT = 1, KIND_INT, KIND_STRING, KIND_TENSOR, KIND_FLOATS = 6, KIND_INTS, KIND_STRINGS };
enum { TENSOR_DIMS = 1, TENSOR_TYPE = 2, TENSOR_NAME = 8, TENSOR_RAW = 9 };
enum { MOST_RANK = 64, MOST_MODEL = INT32_MAX };

static const char OPAQUE_DOMAIN[] = "openrknn.opaque";

struct walk {
    const ort_function *api;
    struct bytes *model;
    ort_status *status;
};

/* True as long as nothing went wrong; the first failure is kept. */
static bool good(struct walk *walk, ort_status *status) {
    if (!status) return !walk->status;
    if (!walk->status)
        walk->status = status;
    else
        PLAIN_CALL(walk->api, API_RELEASE_STATUS, void, ort_status *)(status);
    return false;
}

static bool memory_gone(struct walk *walk) { return !good(walk, failure(walk->api, ORT_FAIL, "out of memory")); }

/* The things of a thing: all such functions come in pairs, one that counts and one that fills an array. */
static const void **list(struct walk *walk, int counter, int getter, const void *owner, size_t *count) {
    *count = 0;
    size_t found = 0;
    if (!good(walk, STATUS_CALL(walk->api, counter, const void *, size_t *)(owner, &found))) return NULL;
    const void **items = calloc(found ? found : 1, sizeof *items);
    if (!items) {
        memory_gone(walk);
        return NULL;
    }
    if (found && !good(walk, STATUS_CALL(walk->api, getter, const void *, const void **, size_t)(owner, items, found))) {
        free(items);
        return NULL;
    }
    *count = found;
    return items;
}

static const char *text(struct walk *walk, int getter, const void *owner) {
    const char *found = NULL;
    return good(walk, STATUS_CALL(walk->api, getter, const void *, const char **)(owner, &found)) && found ? found : "";
}

/* Inputs that are left out are NULL. */
static const char *name_of(struct walk *walk, const void *value) {
    return value ? text(walk, API_VALUE_INFO_NAME, value) : "";
}

static void piece(struct walk *walk, unsigned number, struct bytes *content) {
    struct bytes head = {0};
    field_head(&head, number, content->length);
    field_head(walk->model, MODEL_GRAPH, head.length + content->length);
    bytes_add(walk->model, head.at, head.length);
    bytes_add(walk->model, content->at, content->length);
    walk->model->failed |= head.failed || content->failed;
    bytes_free(&head);
    bytes_free(content);
}

/* ---------------------------------------------------------------- tensors */

/* Dimensions of a tensor's type; -1 for an open one. The rank, or -1. */
static int dimensions_of(struct walk *walk, const ort_tensor_info *info, int64_t *dimensions, const char **names) {
    size_t rank = 0;
    if (!good(walk, STATUS_CALL(walk->api, API_DIMENSION_COUNT, const ort_tensor_info *, size_t *)(info, &rank)))
        return -1;
    if (rank > MOST_RANK) {
        good(walk, failure(walk->api, ORT_INVALID_ARGUMENT, "a tensor has more than 64 dimensions"));
        return -1;
    }
    if (rank && !good(walk, STATUS_CALL(walk->api, API_DIMENSIONS, const ort_tensor_info *, int64_t *, size_t)(
                                info, dimensions, rank)))
        return -1;
    if (rank && names && !good(walk, STATUS_CALL(walk->api, API_SYMBOLIC_DIMENSIONS, const ort_tensor_info *,
                                                 const char **, size_t)(info, names, rank)))
        return -1;
    return (int)rank;
}

static int element_of(struct walk *walk, const ort_tensor_info *info) {
    int type = 0;
    return good(walk, STATUS_CALL(walk->api, API_ELEMENT_TYPE, const ort_tensor_info *, int *)(info, &type)) ? type : 0;
}

/* The fields of a TensorProto up to its data, and where they are. False for what is no tensor of numbers. */
static bool tensor_head(struct walk *walk, const ort_value *value, const char *name, struct bytes *head,
                        const void **data, size_t *size) {
    ort_tensor_info *info = NULL;
    int64_t dimensions[MOST_RANK];
    if (!good(walk, STATUS_CALL(walk->api, API_VALUE_TENSOR_INFO, const ort_value *, ort_tensor_info **)(value, &info)))
        return false;
    int type = element_of(walk, info), rank = dimensions_of(walk, info, dimensions, NULL);
    PLAIN_CALL(walk->api, API_RELEASE_TENSOR_INFO, void, ort_tensor_info *)(info);
    if (rank < 0 || !type || type == ORT_ELEMENT_STRING) return false;
    if (!good(walk, STATUS_CALL(walk->api, API_TENSOR_DATA, const ort_value *, const void **)(value, data)) ||
        !good(walk, STATUS_CALL(walk->api, API_TENSOR_BYTES, const ort_value *, size_t *)(value, size)))
        return false;
    for (int axis = 0; axis < rank; axis++) field_int(head, TENSOR_DIMS, dimensions[axis]);
    field_int(head, TENSOR_TYPE, type);
    if (name) field_text(head, TENSOR_NAME, name);
    field_head(head, TENSOR_RAW, *size);
    return true;
}

/* Constants only: a default that a caller may replace is an input. */
static void write_initializer(struct walk *walk, const void *value_info) {
    bool constant = false;
    const ort_value *value = NULL;
    const void *data = NULL;
    size_t size = 0;
    struct bytes head = {0}, outer = {0};
    if (!good(walk, STATUS_CALL(walk->api, API_IS_CONSTANT, const void *, bool *)(value_info, &constant)) || !constant ||
        !good(walk, STATUS_CALL(walk->api, API_INITIALIZER_VALUE, const void *, const ort_value **)(value_info, &value)) ||
        !value)
        return;
    if (tensor_head(walk, value, name_of(walk, value_info), &head, &data, &size)) {
        field_head(&outer, GRAPH_INITIALIZER, (uint64_t)head.length + size);
        field_head(walk->model, MODEL_GRAPH, (uint64_t)outer.length + head.length + size);
        bytes_add(walk->model, outer.at, outer.length);
        bytes_add(walk->model, head.at, head.length);
        bytes_add(walk->model, data, size);
        walk->model->failed |= head.failed || outer.failed;
    }
    bytes_free(&head);
    bytes_free(&outer);
}

/* ---------------------------------------------------------------- values */

/* What is no tensor has a name and no type. No dimensions can mean a number or an unknown rank: then no shape is told. */
static void write_value(struct walk *walk, unsigned field, const void *value_info) {
    const ort_type_info *type = NULL;
    const ort_tensor_info *info = NULL;
    int64_t dimensions[MOST_RANK];
    const char *names[MOST_RANK] = {NULL};
    struct bytes value = {0}, shape = {0}, tensor = {0}, wrapped = {0};
    if (!good(walk, STATUS_CALL(walk->api, API_VALUE_INFO_TYPE, const void *, const ort_type_info **)(value_info, &type)))
        return;
    int kind = 0;
    if (type && !good(walk, STATUS_CALL(walk->api, API_TYPE_KIND, const ort_type_info *, int *)(type, &kind))) return;
    if (kind == ORT_TYPE_TENSOR &&
        !good(walk, STATUS_CALL(walk->api, API_CAST_TYPE_TO_TENSOR, const ort_type_info *, const ort_tensor_info **)(
                        type, &info)))
        return;
    field_text(&value, 1, name_of(walk, value_info));
    if (info) {
        int element = element_of(walk, info), rank = dimensions_of(walk, info, dimensions, names);
        field_int(&tensor, 1, element);
        for (int axis = 0; axis < rank; axis++) {
            struct bytes dimension = {0};
            if (dimensions[axis] >= 0)
                field_int(&dimension, 1, dimensions[axis]);
            else if (names[axis] && *names[axis])
                field_text(&dimension, 2, names[axis]);
            field_bytes(&shape, 1, dimension.at, dimension.length);
            shape.failed |= dimension.failed;
            bytes_free(&dimension);
        }
        if (rank > 0) field_bytes(&tensor, 2, shape.at, shape.length);
        field_bytes(&wrapped, 1, tensor.at, tensor.length);
        field_bytes(&value, 2, wrapped.at, wrapped.length);
        value.failed |= shape.failed || tensor.failed || wrapped.failed;
        bytes_free(&shape);
        bytes_free(&tensor);
        bytes_free(&wrapped);
    }
    piece(walk, field, &value);
}

static void write_values(struct walk *walk, unsigned field, int counter, int getter, const void *owner) {
    size_t count;
    const void **values = list(walk, counter, getter, owner, &count);
    for (size_t index = 0; index < count; index++)
        if (values[index]) write_value(walk, field, values[index]);
    free(values);
}

/* Old models list their constants among the inputs. */
static void write_inputs(struct walk *walk, const ort_graph *graph) {
    size_t count;
    const void **values = list(walk, API_GRAPH_INPUT_COUNT, API_GRAPH_INPUTS, graph, &count);
    for (size_t index = 0; index < count; index++) {
        bool constant = false;
        if (!good(walk, STATUS_CALL(walk->api, API_IS_CONSTANT, const void *, bool *)(values[index], &constant))) break;
        if (!constant) write_value(walk, GRAPH_INPUT, values[index]);
    }
    free(values);
}

/* ---------------------------------------------------------------- nodes */

/* Whatever is too short is told how long it has to be. */
static uint8_t *attribute_data(struct walk *walk, const ort_attribute *attribute, int type, size_t *size) {
    size_t room = 64;
    for (int attempt = 0; attempt < 2; attempt++) {
        uint8_t *data = calloc(1, room + 8);
        *size = 0;
        if (!data) {
            memory_gone(walk);
            return NULL;
        }
        ort_status *status = STATUS_CALL(walk->api, API_READ_ATTRIBUTE, const ort_attribute *, int, void *, size_t,
                                         size_t *)(attribute, type, data, room, size);
        if (!status && *size <= room) return data;
        if (status) PLAIN_CALL(walk->api, API_RELEASE_STATUS, void, ort_status *)(status);
        if (*size <= room) { /* it has a type and no value: zero, by the rules of protobuf */
            memset(data, 0, room);
            return data;
        }
        free(data);
        room = *size;
    }
    return NULL;
}

/* False for what cannot be told. */
static bool write_attribute(struct walk *walk, struct bytes *node, const ort_attribute *attribute) {
    int type = 0;
    size_t size = 0;
    struct bytes made = {0};
    bool told = true;
    if (!good(walk, STATUS_CALL(walk->api, API_ATTRIBUTE_TYPE, const ort_attribute *, int *)(attribute, &type))) {
        PLAIN_CALL(walk->api, API_RELEASE_STATUS, void, ort_status *)(walk->status);
        walk->status = NULL; /* a kind that this version has no name for */
        return false;
    }
    field_text(&made, ATTRIBUTE_NAME, text(walk, API_ATTRIBUTE_NAME, attribute));
    if (type == ORT_ATTRIBUTE_TENSOR) {
        ort_value *value = NULL;
        const void *data = NULL;
        struct bytes head = {0};
        told = good(walk, STATUS_CALL(walk->api, API_ATTRIBUTE_TENSOR, const ort_attribute *, ort_value **)(
                              attribute, &value)) && value && tensor_head(walk, value, NULL, &head, &data, &size);
        if (told) {
            field_head(&made, ATTRIBUTE_T, (uint64_t)head.length + size);
            bytes_add(&made, head.at, head.length);
            bytes_add(&made, data, size);
            field_int(&made, ATTRIBUTE_TYPE, KIND_TENSOR);
        }
        if (value) PLAIN_CALL(walk->api, API_RELEASE_VALUE, void, ort_value *)(value);
        made.failed |= head.failed;
        bytes_free(&head);
    } else if (type >= ORT_ATTRIBUTE_INT && type <= ORT_ATTRIBUTE_STRINGS) {
        static const int kinds[] = {0, KIND_INT, KIND_INTS, KIND_FLOAT, KIND_FLOATS, KIND_STRING, KIND_STRINGS};
        uint8_t *data = attribute_data(walk, attribute, type, &size);
        if (!data) size = 0;
        for (size_t at = 0; data && at + 8 <= size && (type == ORT_ATTRIBUTE_INT || type == ORT_ATTRIBUTE_INTS); at += 8) {
            int64_t number;
            memcpy(&number, data + at, sizeof number);
            field_int(&made, type == ORT_ATTRIBUTE_INT ? ATTRIBUTE_I : ATTRIBUTE_INTS, number);
        }
        for (size_t at = 0; data && at + 4 <= size && (type == ORT_ATTRIBUTE_FLOAT || type == ORT_ATTRIBUTE_FLOATS);
             at += 4) {
            float number;
            memcpy(&number, data + at, sizeof number);
            field_float(&made, type == ORT_ATTRIBUTE_FLOAT ? ATTRIBUTE_F : ATTRIBUTE_FLOATS, number);
        }
        if (data && type == ORT_ATTRIBUTE_STRING) field_bytes(&made, ATTRIBUTE_S, data, size);
        for (size_t at = 0; data && at < size && type == ORT_ATTRIBUTE_STRINGS;) {
            size_t length = strnlen((const char *)data + at, size - at);
            field_bytes(&made, ATTRIBUTE_STRINGS, data + at, length);
            at += length + 1;
        }
        field_int(&made, ATTRIBUTE_TYPE, kinds[type]);
        told = data != NULL;
        free(data);
    } else {
        told = false;
    }
    if (told) field_bytes(node, NODE_ATTRIBUTE, made.at, made.length);
    node->failed |= made.failed;
    bytes_free(&made);
    return told && !walk->status;
}

static void write_names(struct walk *walk, struct bytes *node, unsigned field, int counter, int getter,
                        const void *owner) {
    size_t count;
    const void **values = list(walk, counter, getter, owner, &count);
    for (size_t index = 0; index < count; index++) field_text(node, field, name_of(walk, values[index]));
    free(values);
}

/* Nodes with a graph inside, and those that another provider has, are not for us. */
static bool is_foreign(struct walk *walk, const void *node) {
    size_t graphs = 0;
    const char *provider = text(walk, API_NODE_PROVIDER, node);
    if (!good(walk, STATUS_CALL(walk->api, API_NODE_SUBGRAPH_COUNT, const void *, size_t *)(node, &graphs))) return true;
    return graphs || (*provider && strcmp(provider, PROVIDER_NAME) != 0);
}

static void write_node(struct walk *walk, const void *node) {
    struct bytes made = {0};
    bool told = !is_foreign(walk, node);
    write_names(walk, &made, NODE_INPUT, API_NODE_INPUT_COUNT, API_NODE_INPUTS, node);
    write_names(walk, &made, NODE_INPUT, API_NODE_IMPLICIT_COUNT, API_NODE_IMPLICIT, node);
    write_names(walk, &made, NODE_OUTPUT, API_NODE_OUTPUT_COUNT, API_NODE_OUTPUTS, node);
    field_text(&made, NODE_NAME, text(walk, API_NODE_NAME, node));
    field_text(&made, NODE_OPERATOR, text(walk, API_NODE_OPERATOR, node));
    if (told) {
        size_t count;
        const void **attributes = list(walk, API_NODE_ATTRIBUTE_COUNT, API_NODE_ATTRIBUTES, node, &count);
        for (size_t index = 0; index < count && told; index++) told = write_attribute(walk, &made, attributes[index]);
        free(attributes);
    }
    field_text(&made, NODE_DOMAIN, told ? text(walk, API_NODE_DOMAIN, node) : OPAQUE_DOMAIN);
    piece(walk, GRAPH_NODE, &made);
}

/* ---------------------------------------------------------------- the whole */

static void write_opsets(struct walk *walk, const ort_graph *graph) {
    size_t count = 0;
    struct bytes made = {0};
    if (!good(walk, STATUS_CALL(walk->api, API_GRAPH_OPSET_COUNT, const ort_graph *, size_t *)(graph, &count))) return;
    const char **domains = calloc(count + 1, sizeof *domains);
    int64_t *versions = calloc(count + 1, sizeof *versions);
    if (!domains || !versions)
        memory_gone(walk);
    else if (good(walk, STATUS_CALL(walk->api, API_GRAPH_OPSETS, const ort_graph *, const char **, int64_t *, size_t)(
                            graph, domains, versions, count))) {
        domains[count] = OPAQUE_DOMAIN;
        versions[count] = 1;
        for (size_t index = 0; index <= count; index++) {
            field_text(&made, 1, domains[index]);
            field_int(&made, 2, versions[index]);
            field_bytes(walk->model, MODEL_OPSET, made.at, made.length);
            walk->model->failed |= made.failed;
            bytes_free(&made);
        }
    }
    free(domains);
    free(versions);
}

ort_status *graph_to_model(const ort_function *api, const ort_graph *graph, const ort_node *fused, struct bytes *model,
                           size_t *nodes) {
    struct walk walk = {.api = api, .model = model};
    int64_t version = 0;
    size_t count;
    struct bytes name = {0};
    if (good(&walk, STATUS_CALL(api, API_GRAPH_IR_VERSION, const ort_graph *, int64_t *)(graph, &version)))
        field_int(model, MODEL_IR, version);
    field_text(model, MODEL_PRODUCER, "openrknn");
    write_opsets(&walk, graph);
    field_text(&name, GRAPH_NAME, text(&walk, API_GRAPH_NAME, graph));
    field_bytes(model, MODEL_GRAPH, name.at, name.length);
    bytes_free(&name);
    if (fused) { /* in the order of the kernel's arguments; those that are constants too are listed all the same */
        write_values(&walk, GRAPH_INPUT, API_NODE_INPUT_COUNT, API_NODE_INPUTS, fused);
        write_values(&walk, GRAPH_OUTPUT, API_NODE_OUTPUT_COUNT, API_NODE_OUTPUTS, fused);
    } else {
        write_inputs(&walk, graph);
        write_values(&walk, GRAPH_OUTPUT, API_GRAPH_OUTPUT_COUNT, API_GRAPH_OUTPUTS, graph);
    }
    const void **values = list(&walk, API_GRAPH_INITIALIZER_COUNT, API_GRAPH_INITIALIZERS, graph, &count);
    for (size_t index = 0; index < count; index++) write_initializer(&walk, values[index]);
    free(values);
    const void **items = list(&walk, API_GRAPH_NODE_COUNT, API_GRAPH_NODES, graph, &count);
    for (size_t index = 0; index < count; index++) {
        write_node(&walk, items[index]);
        write_values(&walk, GRAPH_VALUE, API_NODE_OUTPUT_COUNT, API_NODE_OUTPUTS, items[index]);
    }
    free(items);
    *nodes = count;
    if (!walk.status && model->failed) memory_gone(&walk);
    if (!walk.status && model->length > MOST_MODEL)
        good(&walk, failure(api, ORT_FAIL, "the graph is over 2 GiB, which ONNX cannot hold in one piece"));
    return walk.status;
}
