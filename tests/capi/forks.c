/* fork: the parent goes on, the child is refused what is the parent's and makes its own. */
#include "program.h"

#include <sys/wait.h>
#include <unistd.h>

static int in_child(rknn_context inherited, rknn_tensor_mem *memory, const char *model, unsigned expected) {
    rknn_context own;
    rknn_tensor_attr attr = {0};
    MUST(rknn_run(inherited, NULL) == RKNN_ERR_DEVICE_UNAVAILABLE);
    MUST(rknn_query(inherited, RKNN_QUERY_INPUT_ATTR, &attr, sizeof attr) == RKNN_ERR_DEVICE_UNAVAILABLE);
    MUST(rknn_set_weight_mem(inherited, memory) == RKNN_ERR_DEVICE_UNAVAILABLE);
    MUST(strcmp(memory->virt_addr, "of the parent") == 0); /* shared, and still mapped */
    CHECK(rknn_init(&own, (void *)(uintptr_t)model, 0, 0, NULL));
    MUST(run_once(own) == expected);
    MUST(rknn_run(inherited, NULL) < 0);
    rknn_destroy_mem(inherited, memory);
    rknn_destroy(inherited);
    CHECK(rknn_destroy(own));
    return 0;
}

int main(int count, char **words) {
    rknn_context context;
    if (count < 2) return 2;
    CHECK(rknn_init(&context, words[1], 0, 0, NULL));
    unsigned expected = run_once(context);
    rknn_tensor_mem *memory = rknn_create_mem(context, 4096);
    MUST(memory);
    strcpy(memory->virt_addr, "of the parent");
    for (int round = 0; round < 3; round++) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) exit(in_child(context, memory, words[1], expected));
        int status;
        MUST(run_once(context) == expected);
        MUST(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
        MUST(run_once(context) == expected);
        MUST(strcmp(memory->virt_addr, "of the parent") == 0);
    }
    CHECK(rknn_destroy_mem(context, memory));
    CHECK(rknn_destroy(context));
    printf("fine\n");
    return 0;
}
