/* dlopen and dlclose again and again: nothing stays mapped, open or allocated, whatever the program forgot. */
#include "program.h"

#include <dirent.h>
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

static int entries(const char *folder) {
    int count = 0;
    DIR *stream = opendir(folder);
    while (readdir(stream)) count++;
    closedir(stream);
    return count;
}

static int mappings(void) {
    int lines = 0;
    FILE *stream = fopen("/proc/self/maps", "r");
    char line[512];
    while (fgets(line, sizeof line, stream)) lines += strstr(line, "rknn") != NULL;
    fclose(stream);
    return lines;
}

static void use(const char *library, const char *model) {
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    MUST(handle);
    int (*init)(rknn_context *, void *, uint32_t, uint32_t, rknn_init_extend *) = dlsym(handle, "rknn_init");
    int (*run)(rknn_context, rknn_run_extend *) = dlsym(handle, "rknn_run");
    int (*get)(rknn_context, uint32_t, rknn_output *, rknn_output_extend *) = dlsym(handle, "rknn_outputs_get");
    rknn_tensor_mem *(*create)(rknn_context, uint32_t) = dlsym(handle, "rknn_create_mem");
    MUST(init && run && create && get && !dlsym(handle, "call_begin"));
    rknn_context context;
    rknn_output output = {0};
    CHECK(init(&context, (void *)(uintptr_t)model, 0, 0, NULL));
    CHECK(run(context, NULL));
    CHECK(get(context, 1, &output, NULL));
    rknn_tensor_mem *memory = create(context, 100000);
    MUST(memory && memory->virt_addr);
    dlclose(handle); /* context, memory and output are forgotten */
}

int main(int count, char **words) {
    if (count < 3) return 2;
    use(words[1], words[2]);
    int open_before = entries("/proc/self/fd"), mapped_before = mappings();
    for (int round = 0; round < 10; round++) use(words[1], words[2]);
    MUST(entries("/proc/self/fd") == open_before);
    MUST(mappings() == mapped_before);
    MUST(mapped_before == 0);
    MUST(entries("/proc/self/task") == 3); /* one thread, and two dots */
    pid_t child = fork(); /* what the library does at fork has gone with it */
    if (child == 0) _exit(0);
    int status;
    MUST(waitpid(child, &status, 0) == child && status == 0);
    printf("fine\n");
    return 0;
}
