/* Generated from openrknn.uapi and openrknn.fakekernel.protocol; do not edit. A test makes it again and compares. */
#ifndef OPENRKNN_PRELOAD_TABLES_H
#define OPENRKNN_PRELOAD_TABLES_H
#include <stddef.h>
#include <stdint.h>

#define TABLES_VERSION "3454d7d1" /* the library and the server must have the same */
enum { OP_OPEN = 1, OP_IOCTL = 2, OP_MMAP = 3, OP_KIND = 4, OP_SPY_HAND = 5, OP_SPY_BEFORE = 6, OP_SPY_AFTER = 7, OP_SPY_MAP = 8, OP_SPY_CLOSE = 9 };
enum { KIND_BITS = 8, NO_KIND = 0xff, NOT_INHERITED = 1, CLOSE_ON_EXEC = 1, TAKE_BYTE = 2 };
enum { KIND_DMA_BUF = 5, MAX_PAYLOAD = 0x4000000 };
#define BUFFER_KEY 0x8000000000000000ull
#define IOCTL_TYPES ">HVbdr"
#define BUFFER_TYPE 'b'
#define ENVIRONMENT "OPENRKNN_EMULATED"
#define OLD_ENVIRONMENT "OPENRKNN_DEVICE" /* if its value is a path */
#define SPY_ENVIRONMENT "OPENRKNN_SPY"
#define OPEN_ENVIRONMENT "OPENRKNN_OPEN"
#define OPEN_NAMES "librknnrt.so", "librknnmrt.so", "librkllmrt.so"

struct request_header {
    uint32_t op;
    uint32_t length;
    uint64_t file;
    uint64_t a;
    uint64_t b;
};
_Static_assert(sizeof(struct request_header) == 32, "request_header");
_Static_assert(offsetof(struct request_header, op) == 0, "request_header.op");
_Static_assert(offsetof(struct request_header, length) == 4, "request_header.length");
_Static_assert(offsetof(struct request_header, file) == 8, "request_header.file");
_Static_assert(offsetof(struct request_header, a) == 16, "request_header.a");
_Static_assert(offsetof(struct request_header, b) == 24, "request_header.b");
struct reply_header {
    int32_t result;
    uint32_t length;
    uint64_t value;
};
_Static_assert(sizeof(struct reply_header) == 16, "reply_header");
_Static_assert(offsetof(struct reply_header, result) == 0, "reply_header.result");
_Static_assert(offsetof(struct reply_header, length) == 4, "reply_header.length");
_Static_assert(offsetof(struct reply_header, value) == 8, "reply_header.value");

enum { WHEN_ALWAYS, WHEN_POSITIVE, WHEN_FLAG };
enum { NO_FIELD = 0xffff };

/* What holds for programs with 64-bit pointers, and for the others. */
#define WORD(wide, narrow) (sizeof(void *) == 8 ? (wide) : (narrow))

/* A pointer at offset `at` to `count` (a field) elements, `stride` (a field) or `element` bytes apart. With a `mask`
   it is one only if the field `flags` has a bit of it. */
struct array_rule {
    uint16_t at, count, stride, element, child, children, flags, mask;
    uint8_t pointer_bytes, count_bytes, out;
};

/* A descriptor at offset `at`, passed in according to `when` (WHEN_FLAG: the field `flags` has a bit of `mask`), or
   opened by the kernel. */
struct descriptor_rule { uint16_t at, flags; uint32_t mask; uint8_t when, out; };

/* An ioctl; rules are ranges of the arrays below, and need an argument of at least `least` bytes. */
struct ioctl_rule { uint8_t type, number; uint16_t array, arrays, descriptor, descriptors, least; };

struct kind_rule { uint16_t ioctl, ioctls; };

static const struct array_rule array_rules[] = {
    {WORD(24, 16), WORD(16, 12), NO_FIELD, 1, 0, 0, NO_FIELD, 0x0, WORD(8, 4), WORD(8, 4), 1}, /* drm_version.name */
    {WORD(40, 24), WORD(32, 20), NO_FIELD, 1, 0, 0, NO_FIELD, 0x0, WORD(8, 4), WORD(8, 4), 1}, /* drm_version.date */
    {WORD(56, 32), WORD(48, 28), NO_FIELD, 1, 0, 0, NO_FIELD, 0x0, WORD(8, 4), WORD(8, 4), 1}, /* drm_version.desc */
    {WORD(8, 4), 0, NO_FIELD, 1, 0, 0, NO_FIELD, 0x0, WORD(8, 4), WORD(8, 4), 1}, /* drm_unique.unique */
    {0, 24, 28, 8, 0, 0, NO_FIELD, 0x0, 8, 4, 0}, /* drm_rocket_job.tasks */
    {8, 32, NO_FIELD, 4, 0, 0, NO_FIELD, 0x0, 8, 4, 0}, /* drm_rocket_job.in_bo_handles */
    {16, 36, NO_FIELD, 4, 0, 0, NO_FIELD, 0x0, 8, 4, 0}, /* drm_rocket_job.out_bo_handles */
    {0, 8, 12, 40, 4, 3, NO_FIELD, 0x0, 8, 4, 0}, /* drm_rocket_submit.jobs */
    {48, 40, NO_FIELD, 80, 0, 0, NO_FIELD, 0x0, 8, 4, 1}, /* sync_file_info.sync_fence_info */
    {WORD(64, 52), WORD(72, 56), NO_FIELD, 64, 0, 0, 4, 0x8, WORD(8, 4), 4, 1}, /* v4l2_buffer.m */
    {WORD(64, 52), WORD(72, 56), NO_FIELD, 64, 0, 0, 4, 0x8, WORD(8, 4), 4, 0}, /* v4l2_buffer.m */
    {0, 8, NO_FIELD, 288, 0, 0, NO_FIELD, 0x0, 8, 4, 0}, /* rga_buffer_pool.buffers */
    {0, 8, NO_FIELD, 288, 0, 0, NO_FIELD, 0x0, 8, 4, 1}, /* rga_buffer_pool.buffers */
    {0, 8, NO_FIELD, 288, 0, 0, NO_FIELD, 0x0, 8, 4, 0}, /* rga_buffer_pool.buffers */
    {0, 8, NO_FIELD, 504, 0, 0, NO_FIELD, 0x0, 8, 4, 0}, /* rga_user_request.task_ptr */
};

static const struct descriptor_rule descriptor_rules[] = {
    {8, NO_FIELD, 0x0, WHEN_ALWAYS, 1}, /* drm_prime_handle.fd */
    {8, NO_FIELD, 0x0, WHEN_ALWAYS, 0}, /* drm_prime_handle.fd */
    {60, 0, 0x8, WHEN_FLAG, 0}, /* rknpu_submit.fence_fd */
    {60, NO_FIELD, 0x0, WHEN_ALWAYS, 1}, /* rknpu_submit.fence_fd */
    {0, NO_FIELD, 0x0, WHEN_POSITIVE, 0}, /* rknpu_mem_create.handle */
    {0, NO_FIELD, 0x0, WHEN_ALWAYS, 1}, /* rknpu_mem_create.handle */
    {8, NO_FIELD, 0x0, WHEN_ALWAYS, 1}, /* dma_heap_allocation_data.fd */
    {32, NO_FIELD, 0x0, WHEN_ALWAYS, 0}, /* sync_merge_data.fd2 */
    {36, NO_FIELD, 0x0, WHEN_ALWAYS, 1}, /* sync_merge_data.fence */
    {16, NO_FIELD, 0x0, WHEN_ALWAYS, 1}, /* v4l2_exportbuffer.fd */
    {20, NO_FIELD, 0x0, WHEN_POSITIVE, 0}, /* rga_external_buffer.memory */
    {44, NO_FIELD, 0x0, WHEN_POSITIVE, 0}, /* rga_user_request.acquire_fence_fd */
    {36, NO_FIELD, 0x0, WHEN_ALWAYS, 1}, /* rga_user_request.release_fence_fd */
    {44, NO_FIELD, 0x0, WHEN_POSITIVE, 0}, /* rga_user_request.acquire_fence_fd */
};

static const struct ioctl_rule ioctl_rules[] = {
    {'d', 0x00, 0, 3, 0, 0, WORD(64, 36)}, /* VERSION */
    {'d', 0x01, 3, 1, 0, 0, WORD(16, 8)}, /* GET_UNIQUE */
    {'d', 0x02, 0, 0, 0, 0, 0}, /* GET_MAGIC */
    {'d', 0x07, 0, 0, 0, 0, 0}, /* SET_VERSION */
    {'d', 0x09, 0, 0, 0, 0, 0}, /* GEM_CLOSE */
    {'d', 0x0a, 0, 0, 0, 0, 0}, /* GEM_FLINK */
    {'d', 0x0b, 0, 0, 0, 0, 0}, /* GEM_OPEN */
    {'d', 0x0c, 0, 0, 0, 0, 0}, /* GET_CAP */
    {'d', 0x0d, 0, 0, 0, 0, 0}, /* SET_CLIENT_CAP */
    {'d', 0x2d, 0, 0, 0, 1, 12}, /* PRIME_HANDLE_TO_FD */
    {'d', 0x2e, 0, 0, 1, 1, 12}, /* PRIME_FD_TO_HANDLE */
    {'d', 0x40, 0, 0, 0, 0, 0}, /* ACTION */
    {'d', 0x41, 0, 0, 2, 2, 64}, /* SUBMIT */
    {'d', 0x42, 0, 0, 0, 0, 0}, /* MEM_CREATE */
    {'d', 0x43, 0, 0, 0, 0, 0}, /* MEM_MAP */
    {'d', 0x44, 0, 0, 0, 0, 0}, /* MEM_DESTROY */
    {'d', 0x45, 0, 0, 0, 0, 0}, /* MEM_SYNC */
    {'d', 0x00, 0, 3, 0, 0, WORD(64, 36)}, /* VERSION */
    {'d', 0x01, 3, 1, 0, 0, WORD(16, 8)}, /* GET_UNIQUE */
    {'d', 0x02, 0, 0, 0, 0, 0}, /* GET_MAGIC */
    {'d', 0x07, 0, 0, 0, 0, 0}, /* SET_VERSION */
    {'d', 0x09, 0, 0, 0, 0, 0}, /* GEM_CLOSE */
    {'d', 0x0a, 0, 0, 0, 0, 0}, /* GEM_FLINK */
    {'d', 0x0b, 0, 0, 0, 0, 0}, /* GEM_OPEN */
    {'d', 0x0c, 0, 0, 0, 0, 0}, /* GET_CAP */
    {'d', 0x0d, 0, 0, 0, 0, 0}, /* SET_CLIENT_CAP */
    {'d', 0x2d, 0, 0, 0, 1, 12}, /* PRIME_HANDLE_TO_FD */
    {'d', 0x2e, 0, 0, 1, 1, 12}, /* PRIME_FD_TO_HANDLE */
    {'d', 0x40, 0, 0, 0, 0, 0}, /* CREATE_BO */
    {'d', 0x41, 7, 1, 0, 0, 16}, /* SUBMIT */
    {'d', 0x42, 0, 0, 0, 0, 0}, /* PREP_BO */
    {'d', 0x43, 0, 0, 0, 0, 0}, /* FINI_BO */
    {'r', 0x00, 0, 0, 0, 0, 0}, /* ACTION */
    {'r', 0x01, 0, 0, 2, 2, 64}, /* SUBMIT */
    {'r', 0x02, 0, 0, 4, 2, 4}, /* MEM_CREATE */
    {'r', 0x03, 0, 0, 0, 0, 0}, /* MEM_MAP */
    {'r', 0x04, 0, 0, 0, 0, 0}, /* MEM_DESTROY */
    {'r', 0x05, 0, 0, 0, 0, 0}, /* MEM_SYNC */
    {'H', 0x00, 0, 0, 6, 1, 12}, /* DMA_HEAP_ALLOC */
    {'>', 0x04, 8, 1, 0, 0, 56}, /* SYNC_FILE_INFO */
    {'>', 0x03, 0, 0, 7, 2, 40}, /* SYNC_MERGE */
    {'b', 0x00, 0, 0, 0, 0, 0}, /* DMA_BUF_SYNC */
    {'V', 0x00, 0, 0, 0, 0, 0}, /* QUERYCAP */
    {'V', 0x02, 0, 0, 0, 0, 0}, /* ENUM_FMT */
    {'V', 0x04, 0, 0, 0, 0, 0}, /* G_FMT */
    {'V', 0x05, 0, 0, 0, 0, 0}, /* S_FMT */
    {'V', 0x08, 0, 0, 0, 0, 0}, /* REQBUFS */
    {'V', 0x09, 9, 1, 0, 0, WORD(76, 60)}, /* QUERYBUF */
    {'V', 0x0f, 10, 1, 0, 0, WORD(76, 60)}, /* QBUF */
    {'V', 0x10, 0, 0, 9, 1, 20}, /* EXPBUF */
    {'V', 0x11, 9, 1, 0, 0, WORD(76, 60)}, /* DQBUF */
    {'V', 0x12, 0, 0, 0, 0, 0}, /* STREAMON */
    {'V', 0x13, 0, 0, 0, 0, 0}, /* STREAMOFF */
    {'V', 0x16, 0, 0, 0, 0, 0}, /* S_PARM */
    {'r', 0x01, 0, 0, 0, 0, 0}, /* RGA_GET_DRIVER_VERSION */
    {'r', 0x02, 0, 0, 0, 0, 0}, /* RGA_GET_HW_VERSION */
    {'r', 0x03, 11, 2, 10, 1, 12}, /* RGA_IMPORT_BUFFER */
    {'r', 0x04, 13, 1, 0, 0, 12}, /* RGA_RELEASE_BUFFER */
    {'r', 0x05, 0, 0, 0, 0, 0}, /* RGA_REQUEST_CREATE */
    {'r', 0x06, 14, 1, 11, 2, 48}, /* RGA_REQUEST_SUBMIT */
    {'r', 0x07, 14, 1, 13, 1, 48}, /* RGA_REQUEST_CONFIG */
    {'r', 0x08, 0, 0, 0, 0, 0}, /* RGA_REQUEST_CANCEL */
};

static const struct kind_rule kind_rules[] = {
    {0, 17}, /* rknpu */
    {17, 15}, /* rocket */
    {32, 6}, /* rknpu_misc */
    {38, 1}, /* dma_heap */
    {39, 2}, /* sync_file */
    {41, 1}, /* dma_buf */
    {42, 12}, /* v4l2 */
    {54, 8}, /* rga */
};

#endif
