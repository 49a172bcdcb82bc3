/*
 * Runs one model once through the vendor's C API and writes down what it says.
 *
 *   driver LIBRARY MODEL REPORT [option ...]
 *
 *   --flags N               flags of rknn_init
 *   --core-mask N           rknn_set_core_mask
 *   --batch-cores N         rknn_set_batch_core_num
 *   --shape D,D,...         rknn_set_input_shapes: one per input, in the layout of the dynamic range
 *   --input PATH:TYPE:LAYOUT:RAW   one per input (numbers of the C API; RAW 1 is pass_through)
 *   --outputs FOLDER        rknn_outputs_get, each output into FOLDER/INDEX
 *   --float                 ask for float32 outputs
 *   --zero-copy             own memory for inputs and outputs (rknn_create_mem, rknn_set_io_mem)
 *   --no-run                stop after rknn_init and the queries
 *
 * Without --input every input is zeros of the model's own type. The report is a file of JSON lines, flushed
 * after each: a crash of the library leaves what came before. Exit code 0 if all calls were made, whatever
 * they returned; 2 for a wrong command line or an unreadable file.
 *
 * The declarations are our own, for the interface of runtime 1.5.2, which has not changed up to 2.3.2.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TYPE_FLOAT32 = 0, TYPE_COUNT = 10, LAYOUT_NHWC = 1 };
enum { MAX_TENSORS = 64, MAX_DIMS = 16, MAX_NAME = 256, MAX_SHAPES = 512 };
enum {
    QUERY_COUNTS = 0, QUERY_INPUT = 1, QUERY_OUTPUT = 2, QUERY_VERSION = 5, QUERY_MEMORY = 6, QUERY_CUSTOM_STRING = 7,
    QUERY_NATIVE_INPUT = 8, QUERY_NATIVE_OUTPUT = 9, QUERY_INPUT_RANGE = 13, QUERY_CURRENT_INPUT = 14,
};

#ifdef __arm__
typedef uint32_t context_t;
#else
typedef uint64_t context_t;
#endif

struct counts { uint32_t inputs, outputs; };
struct attribute {
    uint32_t index, rank, dims[MAX_DIMS];
    char name[MAX_NAME];
    uint32_t elements, size;
    int layout, type, quantization;
    int8_t fraction;
    int32_t zero_point;
    float scale;
    uint32_t width_stride, size_with_stride;
    uint8_t pass_through;
    uint32_t height_stride;
};
struct input_range {
    uint32_t index, shapes;
    int layout;
    char name[MAX_NAME];
    uint32_t dims[MAX_SHAPES][MAX_DIMS], rank;
};
struct versions { char api[256], driver[256]; };
struct memory_size { uint32_t weight, internal; uint64_t total; uint32_t sram, free_sram, reserved[10]; };
struct custom_string { char text[1024]; };
struct input { uint32_t index; void *bytes; uint32_t size; uint8_t pass_through; int type, layout; };
struct output { uint8_t want_float, is_preallocated; uint32_t index; void *bytes; uint32_t size; };
struct tensor_memory { void *bytes; uint64_t address; int32_t fd, offset; uint32_t size, flags; void *private_data; };

_Static_assert(sizeof(struct attribute) == 376, "rknn_tensor_attr");
_Static_assert(sizeof(struct input_range) == 33040, "rknn_input_range");
_Static_assert(sizeof(struct memory_size) == 64, "rknn_mem_size");
#if UINTPTR_MAX > UINT32_MAX
_Static_assert(sizeof(struct input) == 32, "rknn_input");
_Static_assert(sizeof(struct output) == 24, "rknn_output");
_Static_assert(sizeof(struct tensor_memory) == 40, "rknn_tensor_mem");
#endif

struct request { const char *path; int type, layout, raw; };
struct options {
    const char *library, *model, *report, *outputs;
    uint32_t flags;
    int core_mask, batch_cores, want_float, zero_copy, no_run;
    struct request inputs[MAX_TENSORS];
    const char *shapes[MAX_TENSORS];
    int input_count, shape_count;
};
struct file { void *bytes; uint32_t size; };
struct session {
    void *library;
    context_t context;
    struct counts counts;
    struct attribute inputs[MAX_TENSORS], outputs[MAX_TENSORS], native_inputs[MAX_TENSORS], native_outputs[MAX_TENSORS];
    struct tensor_memory *output_memory[MAX_TENSORS];
};

/* ------------------------------------------------------------------------------------------------- basics */

static FILE *report;

static void stop(const char *what, const char *about) {
    fprintf(stderr, "driver: %s: %s\n", what, about);
    exit(2);
}

static void write_string(const char *text, size_t limit) {
    fputc('"', report);
    for (const unsigned char *c = (const unsigned char *)text; limit-- && *c; c++)
        if (*c < 0x20 || *c == '"' || *c == '\\') fprintf(report, "\\u%04x", *c);
        else fputc(*c, report);
    fputc('"', report);
}

static int note_call(const char *name, int code) {
    fprintf(report, "{\"call\": \"%s\", \"code\": %d}\n", name, code);
    fflush(report);
    return code;
}

/* Note the call before it is made too: if the library dies inside, the report names the place. */
static void note_enter(const char *name) {
    fprintf(report, "{\"enter\": \"%s\"}\n", name);
    fflush(report);
}

static struct file read_file(const char *path) {
    FILE *stream = fopen(path, "rb");
    if (!stream) stop("cannot open", path);
    fseek(stream, 0, SEEK_END);
    long size = ftell(stream);
    rewind(stream);
    struct file file = {malloc(size ? (size_t)size : 1), (uint32_t)size};
    if (fread(file.bytes, 1, (size_t)size, stream) != (size_t)size) stop("cannot read", path);
    fclose(stream);
    return file;
}

static void write_file(const char *folder, unsigned index, const void *bytes, size_t size) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%u", folder, index);
    FILE *stream = fopen(path, "wb");
    if (!stream || fwrite(bytes, 1, size, stream) != size || fclose(stream)) stop("cannot write", path);
}

static void *find(const struct session *session, const char *name) {
    void *symbol = dlsym(session->library, name);
    if (!symbol) stop("the library has no", name);
    return symbol;
}

/* ------------------------------------------------------------------------------------------- command line */

static void add_input(struct options *options, char *text) {
    if (options->input_count == MAX_TENSORS) stop("too many inputs", text);
    struct request *request = &options->inputs[options->input_count++];
    char *fields[4];
    for (int field = 3; field > 0; field--) { /* from the right: a path may hold colons */
        char *colon = strrchr(text, ':');
        if (!colon) stop("--input wants PATH:TYPE:LAYOUT:RAW", text);
        fields[field] = colon + 1;
        *colon = 0;
    }
    *request = (struct request){text, atoi(fields[1]), atoi(fields[2]), atoi(fields[3])};
}

static void add_shape(struct options *options, const char *text) {
    if (options->shape_count == MAX_TENSORS) stop("too many shapes", text);
    options->shapes[options->shape_count++] = text;
}

static void parse_option(struct options *options, char ***next) {
    const char *name = *(*next)++;
    if (!strcmp(name, "--float")) { options->want_float = 1; return; }
    if (!strcmp(name, "--zero-copy")) { options->zero_copy = 1; return; }
    if (!strcmp(name, "--no-run")) { options->no_run = 1; return; }
    char *value = **next;
    if (!value) stop("no value for", name);
    (*next)++;
    if (!strcmp(name, "--flags")) options->flags = (uint32_t)strtoul(value, NULL, 0);
    else if (!strcmp(name, "--core-mask")) options->core_mask = atoi(value);
    else if (!strcmp(name, "--batch-cores")) options->batch_cores = atoi(value);
    else if (!strcmp(name, "--outputs")) options->outputs = value;
    else if (!strcmp(name, "--input")) add_input(options, value);
    else if (!strcmp(name, "--shape")) add_shape(options, value);
    else stop("unknown option", name);
}

static struct options parse(char **arguments) {
    struct options options = {.core_mask = -1, .batch_cores = -1};
    for (int index = 1; index <= 3; index++)
        if (!arguments[index]) stop("usage", "driver LIBRARY MODEL REPORT [option ...]");
    options.library = arguments[1], options.model = arguments[2], options.report = arguments[3];
    for (char **next = arguments + 4; *next;) parse_option(&options, &next);
    return options;
}

/* ------------------------------------------------------------------------------------------------ queries */

static int query(const struct session *session, int command, void *answer, uint32_t size, const char *name) {
    int (*call)(context_t, int, void *, uint32_t) = find(session, "rknn_query");
    note_enter(name);
    return note_call(name, call(session->context, command, answer, size));
}

static void note_attribute(const char *role, const struct attribute *a) {
    fprintf(report, "{\"tensor\": \"%s\", \"index\": %u, \"name\": ", role, a->index);
    write_string(a->name, MAX_NAME);
    fprintf(report, ", \"dims\": [");
    for (uint32_t axis = 0; axis < a->rank && axis < MAX_DIMS; axis++)
        fprintf(report, "%s%u", axis ? ", " : "", a->dims[axis]);
    fprintf(report, "], \"elements\": %u, \"size\": %u, \"layout\": %d, \"type\": %d, \"quantization\": %d, "
            "\"fraction\": %d, \"zero_point\": %d, \"scale\": \"%.9g\", \"width_stride\": %u, "
            "\"size_with_stride\": %u, \"height_stride\": %u}\n",
            a->elements, a->size, a->layout, a->type, a->quantization, a->fraction, a->zero_point,
            a->scale, a->width_stride, a->size_with_stride, a->height_stride);
}

static void query_tensors(const struct session *session, struct attribute *into, uint32_t count, int command,
                          const char *role) {
    for (uint32_t index = 0; index < count && index < MAX_TENSORS; index++) {
        into[index].index = index;
        if (query(session, command, &into[index], sizeof *into, role) == 0) note_attribute(role, &into[index]);
    }
}

static void query_all(struct session *session) {
    struct versions versions = {0};
    if (query(session, QUERY_VERSION, &versions, sizeof versions, "sdk_version") == 0) {
        fprintf(report, "{\"api\": ");
        write_string(versions.api, sizeof versions.api);
        fprintf(report, ", \"driver\": ");
        write_string(versions.driver, sizeof versions.driver);
        fprintf(report, "}\n");
    }
    struct memory_size memory = {0};
    if (query(session, QUERY_MEMORY, &memory, sizeof memory, "mem_size") == 0)
        fprintf(report, "{\"weight\": %u, \"internal\": %u, \"total\": %llu}\n", memory.weight, memory.internal,
                (unsigned long long)memory.total);
    struct custom_string custom = {{0}};
    if (query(session, QUERY_CUSTOM_STRING, &custom, sizeof custom, "custom_string") == 0) {
        fprintf(report, "{\"custom_string\": ");
        write_string(custom.text, sizeof custom.text);
        fprintf(report, "}\n");
    }
    if (query(session, QUERY_COUNTS, &session->counts, sizeof session->counts, "in_out_num") != 0) return;
    query_tensors(session, session->inputs, session->counts.inputs, QUERY_INPUT, "input");
    query_tensors(session, session->outputs, session->counts.outputs, QUERY_OUTPUT, "output");
    query_tensors(session, session->native_inputs, session->counts.inputs, QUERY_NATIVE_INPUT, "native_input");
    query_tensors(session, session->native_outputs, session->counts.outputs, QUERY_NATIVE_OUTPUT, "native_output");
}

/* -------------------------------------------------------------------------------------------- the one run */

static void set_shapes(struct session *session, const struct options *options) {
    static struct input_range range;
    static struct attribute wanted[MAX_TENSORS];
    for (int index = 0; index < options->shape_count; index++) {
        range.index = (uint32_t)index;
        query(session, QUERY_INPUT_RANGE, &range, sizeof range, "input_dynamic_range");
        wanted[index] = session->inputs[index];
        wanted[index].layout = range.layout;
        wanted[index].rank = 0;
        for (const char *text = options->shapes[index]; *text && wanted[index].rank < MAX_DIMS;) {
            char *end;
            wanted[index].dims[wanted[index].rank++] = (uint32_t)strtoul(text, &end, 10);
            text = *end ? end + 1 : end;
        }
    }
    int (*call)(context_t, uint32_t, struct attribute *) = find(session, "rknn_set_input_shapes");
    note_enter("rknn_set_input_shapes");
    note_call("rknn_set_input_shapes", call(session->context, (uint32_t)options->shape_count, wanted));
    query_tensors(session, session->inputs, session->counts.inputs, QUERY_CURRENT_INPUT, "current_input");
}

static struct input make_input(const struct session *session, const struct options *options, uint32_t index) {
    const struct attribute *attribute = &session->inputs[index];
    if ((int)index >= options->input_count) {
        void *zeros = calloc((size_t)attribute->elements + 1, 8); /* enough for the widest type */
        if (attribute->type < TYPE_COUNT)
            return (struct input){index, zeros, attribute->size, 0, attribute->type, attribute->layout};
        /* For 16-bit models 1.5.2 states no valid type and a negative size; it takes float32. */
        return (struct input){index, zeros, attribute->elements * 4, 0, TYPE_FLOAT32, attribute->layout};
    }
    const struct request *request = &options->inputs[index];
    struct file file = read_file(request->path);
    return (struct input){index, file.bytes, file.size, (uint8_t)request->raw, request->type, request->layout};
}

static void set_inputs(const struct session *session, const struct options *options) {
    struct input inputs[MAX_TENSORS];
    for (uint32_t index = 0; index < session->counts.inputs; index++)
        inputs[index] = make_input(session, options, index);
    int (*call)(context_t, uint32_t, struct input *) = find(session, "rknn_inputs_set");
    note_enter("rknn_inputs_set");
    note_call("rknn_inputs_set", call(session->context, session->counts.inputs, inputs));
}

static struct tensor_memory *bind(const struct session *session, struct attribute *attribute, const char *role) {
    struct tensor_memory *(*create)(context_t, uint32_t) = find(session, "rknn_create_mem");
    int (*set)(context_t, struct tensor_memory *, struct attribute *) = find(session, "rknn_set_io_mem");
    note_enter("rknn_create_mem");
    uint32_t size = attribute->size_with_stride > attribute->size ? attribute->size_with_stride : attribute->size;
    struct tensor_memory *memory = create(session->context, size);
    note_call("rknn_create_mem", memory ? 0 : -1);
    if (!memory) return NULL;
    fprintf(report, "{\"memory\": \"%s\", \"index\": %u, \"address\": %llu, \"size\": %u}\n", role, attribute->index,
            (unsigned long long)memory->address, size);
    note_enter("rknn_set_io_mem");
    note_call("rknn_set_io_mem", set(session->context, memory, attribute));
    return memory;
}

/* Rows of pictures may be longer in the device's memory. */
static void copy_rows(const struct tensor_memory *memory, const struct attribute *attribute, const struct input *input) {
    const uint32_t *dims = attribute->dims;
    uint32_t rows = 1, row = input->size, stride = row;
    if (attribute->layout == LAYOUT_NHWC && attribute->rank == 4 && attribute->width_stride > dims[2])
        rows = dims[0] * dims[1], row = input->size / rows, stride = row / dims[2] * attribute->width_stride;
    for (uint32_t number = 0; number < rows && (uint64_t)number * stride + row <= memory->size; number++)
        memcpy((char *)memory->bytes + (size_t)number * stride, (char *)input->bytes + (size_t)number * row, row);
}

static void bind_all(struct session *session, const struct options *options) {
    for (uint32_t index = 0; index < session->counts.inputs; index++) {
        struct attribute *attribute = &session->native_inputs[index];
        struct input input = {0};
        attribute->pass_through = 1; /* the native layouts are taken only so */
        if ((int)index < options->input_count) {
            input = make_input(session, options, index);
            attribute->type = input.type, attribute->layout = input.layout;
            attribute->pass_through = input.pass_through;
        }
        struct tensor_memory *memory = bind(session, attribute, "input");
        if (memory && input.bytes) copy_rows(memory, attribute, &input);
    }
    for (uint32_t index = 0; index < session->counts.outputs; index++)
        session->output_memory[index] = bind(session, &session->native_outputs[index], "output");
}

static void get_outputs(const struct session *session, const struct options *options) {
    struct output outputs[MAX_TENSORS] = {0};
    for (uint32_t index = 0; index < session->counts.outputs; index++)
        outputs[index] = (struct output){.index = index, .want_float = (uint8_t)options->want_float};
    int (*get)(context_t, uint32_t, struct output *, void *) = find(session, "rknn_outputs_get");
    int (*release)(context_t, uint32_t, struct output *) = find(session, "rknn_outputs_release");
    note_enter("rknn_outputs_get");
    if (note_call("rknn_outputs_get", get(session->context, session->counts.outputs, outputs, NULL)) != 0) return;
    for (uint32_t index = 0; index < session->counts.outputs; index++)
        write_file(options->outputs, index, outputs[index].bytes, outputs[index].size);
    note_enter("rknn_outputs_release");
    note_call("rknn_outputs_release", release(session->context, session->counts.outputs, outputs));
}

static void write_bound_outputs(const struct session *session, const struct options *options) {
    for (uint32_t index = 0; index < session->counts.outputs; index++) {
        const struct tensor_memory *memory = session->output_memory[index];
        if (memory) write_file(options->outputs, index, memory->bytes, memory->size);
    }
}

static void set_number(const struct session *session, const char *name, int value) {
    int (*call)(context_t, int) = find(session, name);
    note_enter(name);
    note_call(name, call(session->context, value));
}

static void run(struct session *session, const struct options *options) {
    if (options->core_mask >= 0) set_number(session, "rknn_set_core_mask", options->core_mask);
    if (options->batch_cores >= 0) set_number(session, "rknn_set_batch_core_num", options->batch_cores);
    if (options->shape_count) set_shapes(session, options);
    if (options->zero_copy) bind_all(session, options);
    else set_inputs(session, options);
    int (*call)(context_t, void *) = find(session, "rknn_run");
    note_enter("rknn_run");
    if (note_call("rknn_run", call(session->context, NULL)) != 0 || !options->outputs) return;
    if (options->zero_copy) write_bound_outputs(session, options);
    else get_outputs(session, options);
}

int main(int count, char **arguments) {
    (void)count;
    struct options options = parse(arguments);
    static struct session session;
    report = fopen(options.report, "w");
    if (!report) stop("cannot write", options.report);
    struct file model = read_file(options.model);
    session.library = dlopen(options.library, RTLD_NOW);
    if (!session.library) stop("cannot load the library", dlerror());

    int (*init)(context_t *, void *, uint32_t, uint32_t, void *) = find(&session, "rknn_init");
    note_enter("rknn_init");
    if (note_call("rknn_init", init(&session.context, model.bytes, model.size, options.flags, NULL)) != 0) return 0;
    query_all(&session);
    if (!options.no_run && session.counts.inputs <= MAX_TENSORS && session.counts.outputs <= MAX_TENSORS)
        run(&session, &options);
    int (*destroy)(context_t) = find(&session, "rknn_destroy");
    note_enter("rknn_destroy");
    note_call("rknn_destroy", destroy(session.context));
    return 0;
}
