/*
 * Multiplies two matrices on the NPU with nothing but ioctls of the vendor's kernel driver `rknpu`.
 *
 *   gcc -o raw_rknpu_matmul raw_rknpu_matmul.c
 *   ./raw_rknpu_matmul                          on a board with an RK3588
 *   openrknn exec -- ./raw_rknpu_matmul         anywhere
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "raw_matmul.h"

/* ------------------------------------------------------------------- the driver's interface, our own words */

struct version { int major, minor, patch; size_t name_size; char *name; size_t date_size; char *date;
                 size_t text_size; char *text; };
struct action { uint32_t number, value; };
struct create { uint32_t handle, flags; uint64_t size, object, address, sram_size; int32_t domain; uint32_t cores; };
struct map { uint32_t handle, reserved; uint64_t offset; };
struct destroy { uint32_t handle, reserved; uint64_t object; };
struct sync { uint32_t flags, reserved; uint64_t object, offset, size; };
struct submit { uint32_t flags, timeout, task_start, task_number, task_counter; int32_t priority; uint64_t task_object;
                uint32_t domain, reserved; uint64_t base; int64_t nanoseconds; uint32_t core_mask; int32_t fence;
                struct { uint32_t start, number; } cores[5]; };
struct task { uint32_t flags, operator, enable, interrupt_mask, interrupt_clear, interrupt_status, amount, offset;
              uint64_t commands; } __attribute__((packed));

#define VERSION _IOWR('d', 0x00, struct version)
#define ACTION _IOWR('d', 0x40, struct action)
#define SUBMIT _IOWR('d', 0x41, struct submit)
#define CREATE _IOWR('d', 0x42, struct create)
#define MAP _IOWR('d', 0x43, struct map)
#define DESTROY _IOWR('d', 0x44, struct destroy)
#define SYNC _IOWR('d', 0x45, struct sync)

enum { CACHEABLE = 2, KERNEL_MAPPING = 8, NON_CONTIGUOUS = 1 };
enum { TO_DEVICE = 1, FROM_DEVICE = 2 };
enum { JOB_PC = 1, JOB_PING_PONG = 4 };
enum { DPU_INTERRUPT = 0x300 };

/* ------------------------------------------------------------------------------------------------ helpers */

static void stop(const char *what) { perror(what); exit(1); }

/* The NPU is the DRM device whose driver is called rknpu; its number differs from board to board. */
static int open_npu(void) {
    DIR *folder = opendir("/dev/dri");
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        char path[300], name[16] = {0};
        if (strncmp(entry->d_name, "card", 4) != 0) continue;
        snprintf(path, sizeof path, "/dev/dri/%s", entry->d_name);
        int npu = open(path, O_RDWR | O_CLOEXEC);
        struct version version = {.name_size = sizeof name - 1, .name = name};
        if (npu >= 0 && ioctl(npu, VERSION, &version) == 0 && !strcmp(name, "rknpu")) {
            printf("%s: %s %d.%d.%d\n", path, name, version.major, version.minor, version.patch);
            closedir(folder);
            return npu;
        }
        if (npu >= 0) close(npu);
    }
    fprintf(stderr, "no DRM device with the driver rknpu\n");
    exit(1);
}

struct buffer { struct create made; void *bytes; };

static struct buffer make_buffer(int npu, size_t size, uint32_t flags) {
    struct buffer buffer = {.made = {.flags = NON_CONTIGUOUS | CACHEABLE | flags, .size = size}};
    if (ioctl(npu, CREATE, &buffer.made) != 0) stop("MEM_CREATE");
    struct map map = {.handle = buffer.made.handle};
    if (ioctl(npu, MAP, &map) != 0) stop("MEM_MAP");
    buffer.bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, npu, (off_t)map.offset);
    if (buffer.bytes == MAP_FAILED) stop("mmap");
    return buffer;
}

static void flush(int npu, const struct buffer *buffer, uint32_t direction) {
    struct sync sync = {.flags = direction, .object = buffer->made.object, .size = buffer->made.size};
    if (ioctl(npu, SYNC, &sync) != 0) stop("MEM_SYNC");
}

static void free_buffer(int npu, struct buffer *buffer) {
    munmap(buffer->bytes, buffer->made.size);
    struct destroy destroy = {.handle = buffer->made.handle, .object = buffer->made.object};
    if (ioctl(npu, DESTROY, &destroy) != 0) stop("MEM_DESTROY");
}

int main(void) {
    int npu = open_npu();
    struct action hardware = {0};
    if (ioctl(npu, ACTION, &hardware) != 0) stop("ACTION");
    printf("hardware version %#x\n", hardware.value);

    struct buffer a = make_buffer(npu, A_BYTES, 0), b = make_buffer(npu, B_BYTES, 0), c = make_buffer(npu, C_BYTES, 0);
    struct buffer commands = make_buffer(npu, MAX_COMMANDS * sizeof(uint64_t), 0);
    struct buffer tasks = make_buffer(npu, sizeof(struct task), KERNEL_MAPPING);
    fill_a(a.bytes);
    fill_b(b.bytes);
    int amount = matmul_commands(commands.bytes, (uint32_t)a.made.address, (uint32_t)b.made.address,
                                 (uint32_t)c.made.address);
    *(struct task *)tasks.bytes = (struct task){
        .enable = 0x0d, .interrupt_mask = DPU_INTERRUPT, .interrupt_clear = 0x1ffff, .amount = (uint32_t)amount,
        .commands = commands.made.address,
    };
    struct buffer *all[] = {&a, &b, &c, &commands, &tasks};
    for (int number = 0; number < 5; number++) flush(npu, all[number], TO_DEVICE);

    struct submit submit = {
        .flags = JOB_PC | JOB_PING_PONG, .timeout = 6000, .task_number = 1, .task_object = tasks.made.object,
        .core_mask = 1, .fence = -1, .cores = {{0, 1}},
    };
    if (ioctl(npu, SUBMIT, &submit) != 0) stop("SUBMIT");
    flush(npu, &c, FROM_DEVICE);
    printf("%u task done in %.3f ms, interrupt status %#x\n", submit.task_counter, (double)submit.nanoseconds / 1e6,
           ((struct task *)tasks.bytes)->interrupt_status);
    int wrong = check_c(c.bytes);
    printf("%d x %d x %d: %s\n", ROWS, INNER, COLUMNS, wrong ? "WRONG" : "right");
    for (int number = 0; number < 5; number++) free_buffer(npu, all[number]);
    close(npu);
    return wrong != 0;
}
