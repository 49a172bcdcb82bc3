/* Threads: contexts of their own, one context for all, and contexts that come and go, while signals arrive and another
   thread forks. */
#include "program.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 8, ROUNDS = 12 };

static rknn_context shared;
static const char *model;
static unsigned expected;
static atomic_int alarms;

static void on_alarm(int number) { (void)number; alarms++; }

static void *work(void *which) {
    rknn_context own;
    for (int round = 0; round < ROUNDS; round++) {
        if ((intptr_t)which % 2) {
            CHECK(rknn_init(&own, (void *)(uintptr_t)model, 0, 0, NULL));
        } else {
            CHECK(rknn_dup_context(&shared, &own));
        }
        MUST(run_once(own) == expected);
        rknn_tensor_mem *memory = rknn_create_mem(own, 8192);
        MUST(memory);
        memset(memory->virt_addr, round, 8192);
        CHECK(rknn_destroy_mem(own, memory));
        CHECK(rknn_run(shared, NULL));
        CHECK(rknn_destroy(own));
    }
    return NULL;
}

int main(int count, char **words) {
    pthread_t threads[THREADS];
    if (count < 2) return 2;
    model = words[1];
    struct sigaction action = {.sa_handler = on_alarm}; /* without SA_RESTART: calls are interrupted */
    sigaction(SIGALRM, &action, NULL);
    struct itimerval every = {{0, 500}, {0, 500}};
    setitimer(ITIMER_REAL, &every, NULL);
    CHECK(rknn_init(&shared, (void *)(uintptr_t)model, 0, 0, NULL));
    expected = run_once(shared);
    for (intptr_t index = 0; index < THREADS; index++) MUST(pthread_create(&threads[index], NULL, work, (void *)index) == 0);
    for (int round = 0; round < 5; round++) {
        pid_t child = fork();
        if (child == 0) _exit(rknn_run(shared, NULL) == RKNN_ERR_DEVICE_UNAVAILABLE ? 0 : 1);
        int status;
        while (waitpid(child, &status, 0) != child) {}
        MUST(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    for (int index = 0; index < THREADS; index++) pthread_join(threads[index], NULL);
    CHECK(rknn_destroy(shared));
    MUST(alarms > 20);
    printf("fine\n");
    return 0;
}
