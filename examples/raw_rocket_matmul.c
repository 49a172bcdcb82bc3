/*
 * Multiplies two matrices on the NPU with nothing but ioctls of the mainline kernel's driver `rocket`.
 *
 *   gcc -o raw_rocket_matmul raw_rocket_matmul.c
 *   ./raw_rocket_matmul                                          on an RK3588 board with Linux 6.18 or newer
 *   openrknn exec --driver rocket -- ./raw_rocket_matmul         anywhere
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "raw_matmul.h"

/* ------------------------------------------------------------------- the driver's interface, our own words */

struct create { uint32_t size, handle; uint64_t address, offset; };
struct task { uint32_t commands, count; };
struct job { uint64_t tasks, read, written; uint32_t task_count, task_size, read_count, written_count; };
struct submit { uint64_t jobs; uint32_t job_count, job_size; uint64_t reserved; };
struct prepare { uint32_t handle, reserved; int64_t deadline; };
struct finish { uint32_t handle, reserved; };
struct gem_close { uint32_t handle, pad; };

#define CREATE _IOWR('d', 0x40, struct create)
#define SUBMIT _IOW('d', 0x41, struct submit)
#define PREPARE _IOW('d', 0x42, struct prepare)
#define FINISH _IOW('d', 0x43, struct finish)
#define GEM_CLOSE _IOW('d', 0x09, struct gem_close)

static void stop(const char *what) { perror(what); exit(1); }

struct buffer { struct create made; void *bytes; };

static struct buffer make_buffer(int npu, uint32_t size) {
    struct buffer buffer = {.made = {.size = size}};
    if (ioctl(npu, CREATE, &buffer.made) != 0) stop("CREATE_BO");
    buffer.bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, npu, (off_t)buffer.made.offset);
    if (buffer.bytes == MAP_FAILED) stop("mmap");
    return buffer;
}

/* The CPU takes a buffer: it waits until no job writes it. */
static void take(int npu, const struct buffer *buffer) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    struct prepare prepare = {.handle = buffer->made.handle, .deadline = (now.tv_sec + 60) * 1000000000ll + now.tv_nsec};
    if (ioctl(npu, PREPARE, &prepare) != 0) stop("PREP_BO");
}

/* The CPU gives it to the NPU. */
static void give(int npu, const struct buffer *buffer) {
    struct finish finish = {.handle = buffer->made.handle};
    if (ioctl(npu, FINISH, &finish) != 0) stop("FINI_BO");
}

int main(void) {
    int npu = open("/dev/accel/accel0", O_RDWR | O_CLOEXEC);
    if (npu < 0) stop("/dev/accel/accel0");
    struct buffer a = make_buffer(npu, A_BYTES), b = make_buffer(npu, B_BYTES), c = make_buffer(npu, C_BYTES);
    struct buffer commands = make_buffer(npu, MAX_COMMANDS * sizeof(uint64_t));
    struct buffer *all[] = {&a, &b, &c, &commands};
    for (int number = 0; number < 4; number++) take(npu, all[number]);
    fill_a(a.bytes);
    fill_b(b.bytes);
    int amount = matmul_commands(commands.bytes, (uint32_t)a.made.address, (uint32_t)b.made.address,
                                 (uint32_t)c.made.address);
    for (int number = 0; number < 4; number++) give(npu, all[number]);

    uint32_t read[] = {a.made.handle, b.made.handle, commands.made.handle}, written[] = {c.made.handle};
    struct task task = {(uint32_t)commands.made.address, (uint32_t)amount + TAIL_COMMANDS};
    struct job job = {(uintptr_t)&task, (uintptr_t)read, (uintptr_t)written, 1, sizeof task, 3, 1};
    struct submit submit = {.jobs = (uintptr_t)&job, .job_count = 1, .job_size = sizeof job};
    if (ioctl(npu, SUBMIT, &submit) != 0) stop("SUBMIT");
    take(npu, &c);
    int wrong = check_c(c.bytes);
    printf("%d x %d x %d: %s\n", ROWS, INNER, COLUMNS, wrong ? "WRONG" : "right");
    for (int number = 0; number < 4; number++) {
        munmap(all[number]->bytes, all[number]->made.size);
        struct gem_close gone = {.handle = all[number]->made.handle};
        if (ioctl(npu, GEM_CLOSE, &gone) != 0) stop("GEM_CLOSE");
    }
    close(npu);
    return wrong != 0;
}
