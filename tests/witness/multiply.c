/*
 * Multiplies two matrices through the vendor's C API.
 *
 *   multiply LIBRARY TYPE M K N B_LAYOUT AC_LAYOUT A B C [RUNS]
 *
 * TYPE and the layouts are numbers of the C API; A and B are files with the bytes in that layout, C is written. The
 * dimensions and sizes that the library states go to standard output, one line of JSON for each matrix. A call that
 * fails ends it: its name and code on standard error, exit code 1.
 *
 * The declarations are our own, for runtimes 1.6.0 and newer.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DIMS = 16, MAX_NAME = 256, FIRST_FILE = 8 };

#ifdef __arm__
typedef uint32_t context_t;
#else
typedef uint64_t context_t;
#endif

struct attribute { char name[MAX_NAME]; uint32_t rank, dims[MAX_DIMS], size; int type; };
struct matrices { struct attribute of[3]; };
struct info {
    int32_t m, k, n, type;
    int16_t b_layout, b_quantization, ac_layout, ac_quantization;
    int32_t domain;
    int8_t reserved[36];
};
struct tensor_memory { void *bytes; uint64_t address; int32_t fd, offset; uint32_t size, flags; void *private_data; };

_Static_assert(sizeof(struct attribute) == 332, "rknn_matmul_tensor_attr");
_Static_assert(sizeof(struct info) == 64, "rknn_matmul_info");

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

static void fill(const struct tensor_memory *memory, const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) fail("cannot read", path);
    size_t size = fread(memory->bytes, 1, memory->size, file);
    if (!size || fgetc(file) != EOF) fail("empty, or longer than the matrix", path);
    fclose(file);
}

static void store(const struct tensor_memory *memory, uint32_t size, const char *path) {
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(memory->bytes, 1, size, file) != size || fclose(file)) fail("cannot write", path);
}

static void show(const struct attribute *matrix) {
    printf("{\"name\": \"%s\", \"type\": %d, \"size\": %u, \"dims\": [", matrix->name, matrix->type, matrix->size);
    for (uint32_t axis = 0; axis < matrix->rank && axis < MAX_DIMS; axis++)
        printf("%s%u", axis ? ", " : "", matrix->dims[axis]);
    puts("]}");
}

int main(int count, char **arguments) {
    if (count < FIRST_FILE + 3) fail("usage", "multiply LIBRARY TYPE M K N B_LAYOUT AC_LAYOUT A B C [RUNS]");
    library = dlopen(arguments[1], RTLD_NOW);
    if (!library) fail("cannot load the library", dlerror());
    int (*create)(context_t *, struct info *, struct matrices *) = function("rknn_matmul_create");
    struct tensor_memory *(*allocate)(context_t, uint32_t) = function("rknn_create_mem");
    int (*bind)(context_t, struct tensor_memory *, struct attribute *) = function("rknn_matmul_set_io_mem");
    int (*run)(context_t) = function("rknn_matmul_run");
    int (*release)(context_t, struct tensor_memory *) = function("rknn_destroy_mem");
    int (*destroy)(context_t) = function("rknn_matmul_destroy");
    struct info info = {
        .type = atoi(arguments[2]), .m = atoi(arguments[3]), .k = atoi(arguments[4]), .n = atoi(arguments[5]),
        .b_layout = (int16_t)atoi(arguments[6]), .ac_layout = (int16_t)atoi(arguments[7]),
    };
    static struct matrices matrices;
    struct tensor_memory *memory[3];
    context_t context = 0;
    check("rknn_matmul_create", create(&context, &info, &matrices));
    for (int number = 0; number < 3; number++) {
        show(&matrices.of[number]);
        memory[number] = allocate(context, matrices.of[number].size);
        if (!memory[number]) fail("rknn_create_mem", "no memory");
        if (number < 2) fill(memory[number], arguments[FIRST_FILE + number]);
        check("rknn_matmul_set_io_mem", bind(context, memory[number], &matrices.of[number]));
    }
    for (int left = count > FIRST_FILE + 3 ? atoi(arguments[FIRST_FILE + 3]) : 1; left > 0; left--)
        check("rknn_matmul_run", run(context));
    store(memory[2], matrices.of[2].size, arguments[FIRST_FILE + 2]);
    for (int number = 0; number < 3; number++) check("rknn_destroy_mem", release(context, memory[number]));
    check("rknn_matmul_destroy", destroy(context));
    return 0;
}
