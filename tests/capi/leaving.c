/* A program that leaves while its threads are inside calls and in shared memory; and one that has closed all
   descriptors, also those of the library, and opened its own in their place. */
#include "program.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

static rknn_context context;
static rknn_tensor_mem *memory;
static atomic_int rounds;

static void *work(void *nothing) {
    for (;;) {
        rknn_run(context, NULL);
        memset(memory->virt_addr, rounds, 4096);
        rounds++;
    }
    return nothing;
}

static void close_everything(const char *model) {
    unsigned expected = run_once(context);
    rknn_context again;
    int pair[2], letters = 0;
    char letter;
    for (int descriptor = 3; descriptor < 300; descriptor++) close(descriptor);
    for (int number = 0; number < 100; number++) MUST(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0);
    MUST(rknn_run(context, NULL) == RKNN_ERR_DEVICE_UNAVAILABLE);
    for (int descriptor = 3; descriptor < 203; descriptor++)
        letters += recv(descriptor, &letter, 1, MSG_DONTWAIT) >= 0; /* nothing was sent into the program's sockets */
    MUST(letters == 0);
    CHECK(rknn_init(&again, (void *)(uintptr_t)model, 0, 0, NULL));
    MUST(run_once(again) == expected);
    for (int descriptor = 3; descriptor < 203; descriptor++) CHECK(send(descriptor, "x", 1, 0) == 1 ? 0 : 1);
}

int main(int count, char **words) {
    if (count < 3) return 2;
    CHECK(rknn_init(&context, words[2], 0, 0, NULL));
    memory = rknn_create_mem(context, 4096);
    MUST(memory);
    if (strcmp(words[1], "close") == 0) {
        close_everything(words[2]);
    } else {
        pthread_t thread;
        for (int number = 0; number < 4; number++) MUST(pthread_create(&thread, NULL, work, NULL) == 0);
        while (rounds < 20) usleep(100);
    }
    printf("fine\n");
    return 0;
}
