/*
 * Runs a model on some inputs through the vendor's C API.
 *
 *   vendor_run LIBRARY MODEL FOLDER RUNS LAYOUT[:SIZE,SIZE,...]...
 *
 * One LAYOUT (number of the C API) per input, with its shape where the model has several; the inputs are float32 in FOLDER/RUN.INDEX.in, the outputs go as they are
 * stored to FOLDER/RUN.INDEX.out. A call that fails ends it: its name and code on standard error, exit code 1.
 *
 * The declarations are our own, for the 64-bit interface of runtime 1.5.2; they have not changed up to 2.3.2.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64, FLOAT32 = 0, COUNTS = 0, INPUT = 1, RANGE = 13, DIMS = 16, NAME = 256, SHAPES = 512 };

struct counts { uint32_t inputs, outputs; };
struct input { uint32_t index; void *bytes; uint32_t size; uint8_t pass_through; int type, layout; };
struct output { uint8_t want_float, is_preallocated; uint32_t index; void *bytes; uint32_t size; };
struct attribute {
    uint32_t index, rank, dims[DIMS];
    char name[NAME];
    uint32_t elements, size;
    int layout, type, quantization;
    int8_t fraction;
    int32_t zero_point;
    float scale;
    uint32_t width_stride, size_with_stride;
    uint8_t pass_through;
    uint32_t height_stride;
};
struct range { uint32_t index, shapes; int layout; char name[NAME]; uint32_t dims[SHAPES][DIMS], rank; };

static void *library;

static void fail(const char *what, const char *about) {
    fprintf(stderr, "%s: %s\n", what, about);
    exit(1);
}

static void check(const char *name, int code) {
    if (code == 0) return;
    fprintf(stderr, "%s returned %d\n", name, code);
    exit(1);
}

static void *function(const char *name) {
    void *found = dlsym(library, name);
    if (!found) fail("the library has no function", name);
    return found;
}

static void *contents(const char *path, uint32_t *size) {
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END)) fail("cannot read", path);
    long length = ftell(file);
    rewind(file);
    void *bytes = malloc(length > 0 ? (size_t)length : 1);
    if (!bytes || fread(bytes, 1, (size_t)length, file) != (size_t)length) fail("cannot read", path);
    fclose(file);
    *size = (uint32_t)length;
    return bytes;
}

/* The shapes behind the layouts; nothing to do where there are none. */
static void set_shapes(uint64_t context, const struct counts *counts, char **layouts) {
    static struct attribute wanted[MOST];
    static struct range range;
    if (!counts->inputs || !strchr(layouts[0], ':')) return;
    int (*query)(uint64_t, int, void *, uint32_t) = function("rknn_query");
    int (*set)(uint64_t, uint32_t, struct attribute *) = function("rknn_set_input_shapes");
    for (uint32_t index = 0; index < counts->inputs; index++) {
        wanted[index].index = range.index = index;
        check("rknn_query", query(context, INPUT, &wanted[index], sizeof wanted[index]));
        check("rknn_query", query(context, RANGE, &range, sizeof range));
        wanted[index].layout = range.layout;
        wanted[index].rank = 0;
        const char *text = strchr(layouts[index], ':');
        while (text && *text && wanted[index].rank < DIMS) {
            char *end;
            wanted[index].dims[wanted[index].rank++] = (uint32_t)strtoul(text + 1, &end, 10);
            text = end;
        }
    }
    check("rknn_set_input_shapes", set(context, counts->inputs, wanted));
}

static void run_once(uint64_t context, const struct counts *counts, const char *folder, int number, char **layouts) {
    int (*set)(uint64_t, uint32_t, struct input *) = function("rknn_inputs_set");
    int (*run)(uint64_t, void *) = function("rknn_run");
    int (*get)(uint64_t, uint32_t, struct output *, void *) = function("rknn_outputs_get");
    int (*release)(uint64_t, uint32_t, struct output *) = function("rknn_outputs_release");
    static struct input inputs[MOST];
    static struct output outputs[MOST];
    char path[4096];
    for (uint32_t index = 0; index < counts->inputs; index++) {
        snprintf(path, sizeof path, "%s/%d.%u.in", folder, number, index);
        inputs[index] = (struct input){.index = index, .type = FLOAT32, .layout = atoi(layouts[index])};
        inputs[index].bytes = contents(path, &inputs[index].size);
    }
    for (uint32_t index = 0; index < counts->outputs; index++) outputs[index] = (struct output){.index = index};
    check("rknn_inputs_set", set(context, counts->inputs, inputs));
    check("rknn_run", run(context, NULL));
    check("rknn_outputs_get", get(context, counts->outputs, outputs, NULL));
    for (uint32_t index = 0; index < counts->outputs; index++) {
        snprintf(path, sizeof path, "%s/%d.%u.out", folder, number, index);
        FILE *file = fopen(path, "wb");
        if (!file || fwrite(outputs[index].bytes, 1, outputs[index].size, file) != outputs[index].size || fclose(file))
            fail("cannot write", path);
    }
    check("rknn_outputs_release", release(context, counts->outputs, outputs));
    for (uint32_t index = 0; index < counts->inputs; index++) free(inputs[index].bytes);
}

int main(int count, char **arguments) {
    if (count < 5) fail("usage", "vendor_run LIBRARY MODEL FOLDER RUNS LAYOUT[:SHAPE]...");
    library = dlopen(arguments[1], RTLD_NOW);
    if (!library) fail("cannot load the library", dlerror());
    int (*init)(uint64_t *, void *, uint32_t, uint32_t, void *) = function("rknn_init");
    int (*query)(uint64_t, int, void *, uint32_t) = function("rknn_query");
    int (*destroy)(uint64_t) = function("rknn_destroy");
    uint32_t size;
    void *model = contents(arguments[2], &size);
    uint64_t context = 0;
    struct counts counts = {0, 0};
    check("rknn_init", init(&context, model, size, 0, NULL));
    check("rknn_query", query(context, COUNTS, &counts, sizeof counts));
    if (counts.inputs > MOST || counts.outputs > MOST || (int)counts.inputs != count - 5)
        fail("wrong number of inputs or outputs", arguments[2]);
    set_shapes(context, &counts, arguments + 5);
    for (int number = 0; number < atoi(arguments[4]); number++)
        run_once(context, &counts, arguments[3], number, arguments + 5);
    check("rknn_destroy", destroy(context));
    return 0;
}
