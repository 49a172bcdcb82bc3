/*
 * The C ABI of the native library. Python calls it through ctypes. The structures are declared in
 * openrknn/nativelib/structures.py, which makes structures.h; openrknn_structure_bytes tells an older library.
 *
 * A step is one task of the NPU with all addresses turned into pointers. Whoever fills it has checked that every
 * byte that the step may touch lies inside a buffer; nothing is checked here.
 *
 * All sizes and pitches are bytes unless the name says something else. An atom is 16 bytes.
 */
#ifndef OPENRKNN_H
#define OPENRKNN_H

#include <stdint.h>

#define OPENRKNN_API __attribute__((visibility("default")))

/* Raised whenever something in this file changes; compute/native.py has the same number. */
#define OPENRKNN_ABI_VERSION 13

/* Instruction sets that kernels are written for. compute/native.py has the same bits. */
enum {
    OPENRKNN_CPU_NEON = 1 << 0,
    OPENRKNN_CPU_DOTPROD = 1 << 1,
    OPENRKNN_CPU_I8MM = 1 << 2,
    OPENRKNN_CPU_AVX2 = 1 << 8,
    OPENRKNN_CPU_F16C = 1 << 9,
    OPENRKNN_CPU_AVX512VNNI = 1 << 10,
    OPENRKNN_CPU_AVXVNNI = 1 << 11,
    OPENRKNN_CPU_AMXINT8 = 1 << 12,
};

/* Sets of kernels. compute/native.py has the same numbers. */
enum {
    OPENRKNN_KERNELS_SCALAR = 0,
    OPENRKNN_KERNELS_AVX2 = 1,
    OPENRKNN_KERNELS_VNNI = 2,
    OPENRKNN_KERNELS_AMX = 3,
    OPENRKNN_KERNELS_NEON = 4,
    OPENRKNN_KERNELS_DOTPROD = 5,
    OPENRKNN_KERNELS_I8MM = 6,
    OPENRKNN_KERNELS_TILES = 7, /* those of AMX in plain C: for tests */
    OPENRKNN_KERNELS_AVXVNNI = 8,
    OPENRKNN_KERNELS_COUNT = 9,
};

/* Number formats: the precision codes of the NPU. */
enum {
    OPENRKNN_INT8 = 0,
    OPENRKNN_INT16 = 1,
    OPENRKNN_FP16 = 2,
    OPENRKNN_BF16 = 3,
    OPENRKNN_INT32 = 4,
    OPENRKNN_FP32 = 5,
    OPENRKNN_UINT8 = 16, /* no code of the NPU: pixels */
    OPENRKNN_INT4 = 17,  /* likewise: two in a byte, the lower half first */
};

/* The kinds of steps. */
enum {
    OPENRKNN_CONVOLUTION = 1,
    OPENRKNN_FLYING = 2,
    OPENRKNN_MAP = 3,
    OPENRKNN_MOVE = 4,
    OPENRKNN_REDUCTION = 5,
    OPENRKNN_POOLING = 6,
};

/* Operations of EW; the first nine are the codes of the ALU. */
enum {
    OPENRKNN_MAX = 0,
    OPENRKNN_MIN = 1,
    OPENRKNN_ADD = 2,
    OPENRKNN_DIVIDE = 3,
    OPENRKNN_MINUS = 4,
    OPENRKNN_ABS = 5,
    OPENRKNN_NEGATE = 6,
    OPENRKNN_FLOOR = 7,
    OPENRKNN_CEIL = 8,
    OPENRKNN_MULTIPLY = 16,
    OPENRKNN_NOTHING = 17,
};

/* Bits of openrknn_clamp.kinds. */
enum {
    OPENRKNN_CLAMP_LOWER = 1,
    OPENRKNN_CLAMP_UPPER = 2,
    OPENRKNN_CLAMP_BELOW = 4, /* numbers under `lower` become `below` */
};

/*
 * The usual integer programs of the DPU in double precision. Every number on the way is an integer below 2^51 in
 * magnitude, so that adding M = 1.5 * 2^52 rounds it to the nearest integer, ties to even. Whoever sets `flags` has
 * proved that.
 *
 *     x = sum (of which the addends are part already), or byte + addend[c]
 *     SCALE         x = round(x * scale[c])
 *     NORM          x = round(x * norm_scale + norm_addend)
 *     MIDDLE_CLAMP  x = min(max(x, middle_low), middle_high)
 *     TABLE         y = the value of x in the table, and that is all; else
 *     ADD ... MIN   x = x op round(e * operand_scale + operand_addend)
 *     LAST_CLAMP    x = min(max(x, last_low), last_high)
 *                   y = min(max(saturate(round(x * out_scale + out_addend)), byte_low), byte_high)
 *
 * NORM_FUSED and OUT_FUSED: (x + M) * scale + fused is x * scale + M with one rounding, that of a fused multiply-add.
 *
 * SINGLE: the same with fused multiply-adds in single precision, where vectors hold twice as many of them. x is
 * held between -sum_limit and sum_limit first (SINGLE_CLAMP; the result is the same), so that every number that is
 * rounded is below 2^22 in magnitude and adding M = 1.5 * 2^23 rounds it, ties to even. The last one is below 2^15
 * without SINGLE_WIDE.
 * SINGLE_WHOLE: the scales are integers, and the products below 2^24. The operand is (e + operand_before) *
 * operand_scale + operand_after. Table: y = byte_table[min(max(x - byte_table_low, 0), byte_table_last)], with x before
 * NORM if there is no SINGLE_NORM; without a byte table it is the table below. LAST_CLAMP changes nothing.
 *
 * Table: x is held between table_low and table_high; entry (x - table_low) >> table_shift has the value before (bits
 * 0-7) and after (8-15) the one place in its range where the value changes (bits 16-31).
 */
enum {
    OPENRKNN_CHAIN = 1 << 0, /* there is a chain */
    OPENRKNN_CHAIN_SCALE = 1 << 1,
    OPENRKNN_CHAIN_NORM = 1 << 2,
    OPENRKNN_CHAIN_NORM_FUSED = 1 << 3,
    OPENRKNN_CHAIN_MIDDLE_CLAMP = 1 << 4,
    OPENRKNN_CHAIN_TABLE = 1 << 5,
    OPENRKNN_CHAIN_ADD = 1 << 6,
    OPENRKNN_CHAIN_MULTIPLY = 1 << 7,
    OPENRKNN_CHAIN_MAX = 1 << 8,
    OPENRKNN_CHAIN_MIN = 1 << 9,
    OPENRKNN_CHAIN_ROUND_OPERAND = 1 << 10, /* the operand's product is not an integer by itself */
    OPENRKNN_CHAIN_LAST_CLAMP = 1 << 11,
    OPENRKNN_CHAIN_OUT_FUSED = 1 << 12,
    OPENRKNN_CHAIN_SINGLE = 1 << 13,
    OPENRKNN_CHAIN_SINGLE_CLAMP = 1 << 14,
    OPENRKNN_CHAIN_SINGLE_WHOLE = 1 << 15,
    OPENRKNN_CHAIN_SINGLE_NORM = 1 << 16,
    OPENRKNN_CHAIN_SINGLE_WIDE = 1 << 17,
    OPENRKNN_CHAIN_SINGLES = 0x1f << 13,
};

/* Segments of B in a product of matrices, at most. */
enum { OPENRKNN_PRODUCT_PARTS = 256 };

#include "structures.h"

OPENRKNN_API uint32_t openrknn_abi_version(void);

/* sizeof the structure of a kind of step; 0 for an unknown kind. */
OPENRKNN_API int32_t openrknn_structure_bytes(int32_t kind);

/* The instruction sets that this processor has and that the system lets programs use. */
OPENRKNN_API uint32_t openrknn_cpu_features(void);

/* Bit k: set k of kernels is in this library and runs on this processor. */
OPENRKNN_API uint32_t openrknn_kernels_available(void);

/* Bytes that `packed` of this convolution needs, with the set of kernels in its field. */
OPENRKNN_API int64_t openrknn_packed_bytes(const openrknn_convolution *step);

/* Rearrange the weights into `packed`; 0, or -1 when there is no memory to widen them in. */
OPENRKNN_API int32_t openrknn_pack(const openrknn_convolution *step);

/* The same for many, on all threads that are useful; -1 when there was no memory for one of them. */
OPENRKNN_API int32_t openrknn_pack_all(const openrknn_convolution *const *steps, int32_t count);

/* How many threads work on a step, at most; the calling thread is one of them. */
OPENRKNN_API void openrknn_set_threads(int32_t count);
OPENRKNN_API int32_t openrknn_threads(void);

/*
 * What decides how many of them a step gets: the cores there are (0: unknown), and the nanoseconds that one more thread
 * costs (-1: the usual ones; 0: nothing, all threads work on everything).
 */
OPENRKNN_API void openrknn_set_sharing(int32_t cores, int32_t nanoseconds);

/* How many threads work that takes one thread so long gets, and how many the last step of the calling thread had. */
OPENRKNN_API int32_t openrknn_threads_for(int64_t nanoseconds);
OPENRKNN_API int32_t openrknn_last_parts(void);

/* Run steps one after another; 0, or -1 when there is no memory for intermediate results. */
OPENRKNN_API int32_t openrknn_run(const void *const *steps, int32_t count);

/* The same, and the nanoseconds that each step took. */
OPENRKNN_API int32_t openrknn_run_timed(const void *const *steps, int32_t count, int64_t *nanoseconds);

/* C = A * B; 0, or -1 when there is no memory for A in the order of the kernels. */
OPENRKNN_API int32_t openrknn_multiply(const openrknn_product *step);

OPENRKNN_API void openrknn_arrange(const openrknn_arrangement *step);

/* (source - zero) * scale, or floats, widened where they have 16 bits; -1 for a format that it does not know. */
OPENRKNN_API int32_t openrknn_dequantize(const void *source, float *target, int64_t count, int32_t format, int32_t zero,
                                         float scale);

/* Numbers as fp16, nearest even; none is NaN. Libraries before this function lack it only, as with openrknn_convert. */
OPENRKNN_API void openrknn_narrow(const float *source, uint16_t *target, int64_t count);

/*
 * Softmax of rows. `tail` has the exponentials of what is left behind the last whole group of four in each row. -1: a
 * number is infinite or none, and nothing useful was written.
 */
OPENRKNN_API int32_t openrknn_softmax(const float *source, float *target, int64_t rows, int64_t length, const float *tail);

/* One-step conversion of an image: crop, scale, colour and channel order. Libraries before this function lack it only:
 * nothing else has changed, so that it has no ABI version of its own. */
OPENRKNN_API void openrknn_convert(const openrknn_pixels *task);

/* How many passed; -1 if the bins are too many. */
OPENRKNN_API int64_t openrknn_pick(const openrknn_picking *pick);

/* Non-maximum suppression of boxes [n, 4], from order[0] on: how many stay, and which (`kept` has room for n). */
OPENRKNN_API int64_t openrknn_suppress(
    const float *boxes, const int64_t *classes, const int64_t *order, int64_t boxes_count, float overlap, int64_t limit,
    int64_t *kept);

#endif
