/* The engine dies: pending and later calls fail, the next rknn_init starts another. Reads words from standard input. */
#include "program.h"

#include <time.h>

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

int main(int count, char **words) {
    rknn_context context, again;
    rknn_tensor_attr attr = {0};
    if (count < 2) return 2;
    CHECK(rknn_init(&context, words[1], 0, 0, NULL));
    unsigned expected = run_once(context);
    rknn_tensor_mem *memory = rknn_create_mem(context, 4096);
    MUST(memory);
    printf("ready\n");
    fflush(stdout);
    double begin = 0;
    int code = 0;
    while (code == 0) begin = now(), code = rknn_run(context, NULL); /* until it is killed */
    MUST(code == RKNN_ERR_DEVICE_UNAVAILABLE);
    MUST(now() - begin < 1);
    begin = now();
    MUST(rknn_run(context, NULL) == RKNN_ERR_DEVICE_UNAVAILABLE);
    MUST(rknn_query(context, RKNN_QUERY_INPUT_ATTR, &attr, sizeof attr) == RKNN_ERR_DEVICE_UNAVAILABLE);
    MUST(rknn_create_mem(context, 4096) == NULL);
    MUST(now() - begin < 1);
    memset(memory->virt_addr, 1, 4096); /* still mapped */
    CHECK(rknn_init(&again, words[1], 0, 0, NULL));
    MUST(run_once(again) == expected);
    MUST(rknn_set_weight_mem(again, memory) < 0);
    MUST(rknn_run(context, NULL) < 0);
    MUST(rknn_destroy(context) < 0); /* and it is forgotten */
    MUST(rknn_destroy(context) == RKNN_ERR_CTX_INVALID);
    MUST(rknn_destroy_mem(context, memory) < 0);
    CHECK(rknn_destroy(again));
    printf("fine\n");
    return 0;
}
