/*
 * Names what is in a picture, with the C API of librknnrt.so: the vendor's on a board, or openrknn's anywhere.
 *
 *   cc -o classify classify.c $(openrknn library --cflags --libs)
 *   ./classify MODEL.rknn PICTURE.ppm LABELS.txt
 *
 * The picture is a binary PPM (P6) of the size that the model wants.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rknn_api.h"

enum { BEST = 3, LONGEST = 200 };

static void fail(const char *what, int code) {
    fprintf(stderr, "%s: %d\n", what, code);
    exit(1);
}

/* The pixels of a PPM, red, green, blue; the caller frees them. */
static unsigned char *read_picture(const char *path, unsigned width, unsigned height) {
    unsigned columns = 0, rows = 0, most = 0;
    size_t size = (size_t)width * height * 3;
    unsigned char *pixels = malloc(size);
    FILE *file = fopen(path, "rb");
    if (!file || !pixels || fscanf(file, "P6 %u %u %u", &columns, &rows, &most) != 3 || fgetc(file) == EOF)
        fail("the picture is not a binary PPM", -1);
    if (columns != width || rows != height || most != 255) {
        fprintf(stderr, "the model wants %u x %u pixels, the picture has %u x %u\n", width, height, columns, rows);
        exit(1);
    }
    if (fread(pixels, 1, size, file) != size) fail("the picture is cut short", -1);
    fclose(file);
    return pixels;
}

static void print_label(const char *path, unsigned wanted, float score) {
    char line[LONGEST] = "?";
    FILE *file = fopen(path, "r");
    for (unsigned number = 0; file && number <= wanted && fgets(line, sizeof line, file); number++) {}
    if (file) fclose(file);
    line[strcspn(line, "\n")] = 0;
    printf("%6.2f  %s\n", score, line);
}

static void print_best(const float *scores, unsigned count, const char *labels) {
    char *taken = calloc(count, 1);
    for (int place = 0; taken && place < BEST; place++) {
        unsigned best = 0;
        for (unsigned at = 0; at < count; at++)
            if (!taken[at] && (taken[best] || scores[at] > scores[best])) best = at;
        taken[best] = 1;
        print_label(labels, best, scores[best]);
    }
    free(taken);
}

int main(int count, char **words) {
    rknn_context context = 0;
    rknn_sdk_version version;
    rknn_tensor_attr input = {.index = 0};
    if (count != 4) fail("usage: classify MODEL.rknn PICTURE.ppm LABELS.txt", count);

    int code = rknn_init(&context, words[1], 0, 0, NULL);
    if (code != RKNN_SUCC) fail("rknn_init", code);
    code = rknn_query(context, RKNN_QUERY_SDK_VERSION, &version, sizeof version);
    if (code != RKNN_SUCC) fail("rknn_query", code);
    printf("librknnrt %s, driver %s\n", version.api_version, version.drv_version);
    code = rknn_query(context, RKNN_QUERY_INPUT_ATTR, &input, sizeof input);
    if (code != RKNN_SUCC) fail("rknn_query", code);

    unsigned char *pixels = read_picture(words[2], input.dims[2], input.dims[1]); /* [N, H, W, C] */
    rknn_input given = {.index = 0, .buf = pixels, .size = input.dims[1] * input.dims[2] * 3,
                        .type = RKNN_TENSOR_UINT8, .fmt = RKNN_TENSOR_NHWC};
    code = rknn_inputs_set(context, 1, &given);
    if (code != RKNN_SUCC) fail("rknn_inputs_set", code);
    code = rknn_run(context, NULL);
    if (code != RKNN_SUCC) fail("rknn_run", code);

    rknn_output output = {.index = 0, .want_float = 1};
    code = rknn_outputs_get(context, 1, &output, NULL);
    if (code != RKNN_SUCC) fail("rknn_outputs_get", code);
    print_best(output.buf, output.size / sizeof(float), words[3]);

    rknn_outputs_release(context, 1, &output);
    free(pixels);
    return rknn_destroy(context) != RKNN_SUCC;
}
