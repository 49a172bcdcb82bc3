/* What this library uses of ONNX Runtime's C interface, declared here because no package registry carries its headers.
 *
 * ONNX Runtime hands out a table of functions (of OrtApi, and of OrtEpApi for execution providers). Tables only ever
 * grow at the end, so a function is known for good by its number in the table. All that is named here is there since
 * version 1.23; what came later is marked. The structs that a provider fills say which version they were made for, and
 * ONNX Runtime reads no member that came after it. docs/onnxruntime-plugin.md says how the numbers were checked. */
#ifndef OPENRKNN_ORT_H
#define OPENRKNN_ORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ORT_OLDEST = 23, ORT_FILLED = 23 };

/* Opaque things of ONNX Runtime. All are passed by address only. */
typedef struct ort_status ort_status;
typedef struct ort_value ort_value;
typedef struct ort_value_info ort_value_info;
typedef struct ort_type_info ort_type_info;
typedef struct ort_tensor_info ort_tensor_info;
typedef struct ort_graph ort_graph;
typedef struct ort_node ort_node;
typedef struct ort_attribute ort_attribute;
typedef struct ort_pairs ort_pairs;
typedef struct ort_session_options ort_session_options;
typedef struct ort_logger ort_logger;
typedef struct ort_hardware ort_hardware;
typedef struct ort_ep_device ort_ep_device;
typedef struct ort_support ort_support;
typedef struct ort_kernel ort_kernel;
typedef struct ort_memory ort_memory;

typedef void (*ort_function)(void);

struct ort_base {
    const ort_function *(*get_api)(uint32_t version);
    const char *(*version_text)(void);
};

/* Numbers of the functions in the table of OrtApi. */
enum {
    API_CREATE_STATUS = 0,
    API_GET_ERROR_MESSAGE = 2,
    API_CAST_TYPE_TO_TENSOR = 55,
    API_TYPE_KIND = 56,
    API_ELEMENT_TYPE = 60,
    API_DIMENSION_COUNT = 61,
    API_DIMENSIONS = 62,
    API_SYMBOLIC_DIMENSIONS = 63,
    API_VALUE_TENSOR_INFO = 65,
    API_CONTEXT_INPUT_COUNT = 88,
    API_CONTEXT_INPUT = 90,
    API_CONTEXT_OUTPUT = 91,
    API_MUTABLE_DATA = 51,
    API_RELEASE_STATUS = 93,
    API_RELEASE_VALUE = 96,
    API_RELEASE_TENSOR_INFO = 99,
    API_READ_ATTRIBUTE = 272,
    API_VALUE_INFO_NAME = 289,
    API_VALUE_INFO_TYPE = 290,
    API_CREATE_PAIRS = 295,
    API_ADD_PAIR = 296,
    API_GET_PAIR = 297,
    API_GET_PAIRS = 298,
    API_RELEASE_PAIRS = 300,
    API_HARDWARE_TYPE = 307,
    API_EP_API = 317,
    API_TENSOR_BYTES = 318,
    API_INITIALIZER_VALUE = 326,
    API_IS_CONSTANT = 331,
    API_GRAPH_NAME = 333,
    API_GRAPH_IR_VERSION = 335,
    API_GRAPH_OPSET_COUNT = 336,
    API_GRAPH_OPSETS = 337,
    API_GRAPH_INPUT_COUNT = 338,
    API_GRAPH_INPUTS = 339,
    API_GRAPH_OUTPUT_COUNT = 340,
    API_GRAPH_OUTPUTS = 341,
    API_GRAPH_INITIALIZER_COUNT = 342,
    API_GRAPH_INITIALIZERS = 343,
    API_GRAPH_NODE_COUNT = 344,
    API_GRAPH_NODES = 345,
    API_GRAPH_PARENT = 346,
    API_NODE_NAME = 349,
    API_NODE_OPERATOR = 350,
    API_NODE_DOMAIN = 351,
    API_NODE_INPUT_COUNT = 353,
    API_NODE_INPUTS = 354,
    API_NODE_OUTPUT_COUNT = 355,
    API_NODE_OUTPUTS = 356,
    API_NODE_IMPLICIT_COUNT = 357,
    API_NODE_IMPLICIT = 358,
    API_NODE_ATTRIBUTE_COUNT = 359,
    API_NODE_ATTRIBUTES = 360,
    API_ATTRIBUTE_TENSOR = 362,
    API_ATTRIBUTE_TYPE = 363,
    API_ATTRIBUTE_NAME = 364,
    API_NODE_SUBGRAPH_COUNT = 365,
    API_NODE_PROVIDER = 368,
    API_TENSOR_DATA = 378,
    API_SESSION_ENTRIES = 379,
};

/* Numbers in the table of OrtEpApi. */
enum {
    EP_CREATE_DEVICE = 0,
    EP_ADD_NODES = 2,
    EP_CREATE_HARDWARE = 16, /* since 1.24 */
    EP_RELEASE_HARDWARE = 17,
};

enum { ORT_FAIL = 1, ORT_INVALID_ARGUMENT = 2, ORT_NOT_IMPLEMENTED = 9, ORT_EP_FAIL = 11 };
enum { ORT_TYPE_TENSOR = 1 };
enum { ORT_HARDWARE_CPU = 0, ORT_HARDWARE_NPU = 2 };
enum { ORT_ATTRIBUTE_INT = 1, ORT_ATTRIBUTE_INTS, ORT_ATTRIBUTE_FLOAT, ORT_ATTRIBUTE_FLOATS, ORT_ATTRIBUTE_STRING,
       ORT_ATTRIBUTE_STRINGS, ORT_ATTRIBUTE_GRAPH, ORT_ATTRIBUTE_TENSOR };
enum { ORT_ELEMENT_STRING = 8 };

/* CALL(table, number, arguments the function takes) (arguments): a call through the table. */
#define STATUS_CALL(table, number, ...) ((ort_status * (*)(__VA_ARGS__))(table)[number])
#define PLAIN_CALL(table, number, type, ...) ((type(*)(__VA_ARGS__))(table)[number])

/* ---------------------------------------------------------------- what a provider fills */

struct ort_fusion {
    uint32_t version;
    bool drop_constants;
};

struct ort_compute {
    uint32_t version;
    ort_status *(*create_state)(struct ort_compute *, void *context, void **state);
    ort_status *(*compute)(struct ort_compute *, void *state, ort_kernel *);
    void (*release_state)(struct ort_compute *, void *state);
};

struct ort_ep {
    uint32_t version;
    const char *(*name)(const struct ort_ep *);
    ort_status *(*capability)(struct ort_ep *, const ort_graph *, ort_support *);
    ort_status *(*compile)(struct ort_ep *, const ort_graph **, const ort_node **fused, size_t count,
                           struct ort_compute **, ort_node **contexts);
    void (*release_computes)(struct ort_ep *, struct ort_compute **, size_t count);
    ort_function layout[2];  /* preferred layout, which operators follow it: NULL is the usual one */
    ort_function dynamic;    /* options that change at run time */
    ort_function run_start;
    ort_function run_end;
    ort_function allocator;
    ort_function stream;
    ort_function compatibility;
    ort_function later[24];  /* never read: `version` says so */
};

struct ort_factory {
    uint32_t version;
    const char *(*name)(const struct ort_factory *);
    const char *(*vendor)(const struct ort_factory *);
    ort_status *(*devices)(struct ort_factory *, const ort_hardware *const *, size_t count, ort_ep_device **,
                           size_t room, size_t *made);
    ort_status *(*create)(struct ort_factory *, const ort_hardware *const *, const ort_pairs *const *, size_t count,
                          const ort_session_options *, const ort_logger *, struct ort_ep **);
    void (*release)(struct ort_factory *, struct ort_ep *);
    uint32_t (*vendor_id)(const struct ort_factory *);
    const char *(*provider_version)(const struct ort_factory *);
    ort_function compatibility; /* of compiled models */
    ort_status *(*create_allocator)(struct ort_factory *, const ort_memory *, const ort_pairs *, void **);
    void (*release_allocator)(struct ort_factory *, void *);
    ort_status *(*create_transfer)(struct ort_factory *, void **);
    bool (*stream_aware)(const struct ort_factory *);
    ort_function stream;
    ort_function later[24];
};

#endif
