/*
 * The C ABI of the native library. Python calls it through ctypes: compute/structures.py mirrors the structures,
 * field by field, and asks openrknn_structure_bytes whether both agree.
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
#define OPENRKNN_ABI_VERSION 4

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
    OPENRKNN_KERNELS_COUNT = 7,
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

/* Atoms in memory: surface s begins at base[s % 2] + (s / 2) * surface[s % 2]. */
typedef struct {
    uint8_t *base[2];
    int64_t surface[2];
    int64_t line[2];
} openrknn_cube;

/* The write DMA: atom e of the group, at position t of the group's walk (t = group * pixels + pixel). */
typedef struct {
    uint8_t *base;
    int64_t line;
    int64_t atom_step;
    int64_t group_step;
    int32_t per_pixel;
    int32_t width;
    int32_t height;
    int32_t pixels; /* of the grid that is written, in one surface */
    int32_t atoms;  /* of one pixel that are written */
    int32_t packed; /* bytes kept of each atom, stored back to back; 0: whole atoms at their places */
} openrknn_target;

/* Bits of openrknn_clamp.kinds. */
enum {
    OPENRKNN_CLAMP_LOWER = 1,
    OPENRKNN_CLAMP_UPPER = 2,
    OPENRKNN_CLAMP_BELOW = 4, /* numbers under `lower` become `below` */
};

typedef struct {
    int32_t kinds;
    int32_t lower, below, upper;
    float lower_float, below_float, upper_float;
    int32_t unused;
} openrknn_clamp;

/* BS or BN. Operands per channel are int32 or float, and are there for a multiple of 16 channels. */
typedef struct {
    const void *addends; /* NULL: nothing is added */
    const void *factors; /* NULL: nothing is multiplied */
    int32_t subtracts;
    int32_t shift;
    int32_t shift_negative;
    int32_t negative_only;
    int32_t multiplies_first; /* BN */
    int32_t unused;
    openrknn_clamp clamp;
} openrknn_stage;

/* The two lookup tables, 513 entries each. */
typedef struct {
    const int64_t *entries; /* NULL: no lookup */
    int64_t le_start, lo_start, lo_end;
    int32_t le_select, lo_select;
    int32_t below_scale, below_shift;
    int32_t above_scale, above_shift;
} openrknn_lookup;

typedef struct {
    openrknn_lookup lookup;
    openrknn_cube operand; /* per channel: base[0] */
    int32_t operation;
    int32_t operand_kind; /* 0 constant, 1 per channel, 2 a tensor, 3 one for all channels of a pixel, packed */
    int32_t operand_format;
    int32_t constant;
    float constant_float;
    int32_t negative_only;
    int32_t shift;
    int32_t shift_negative;
    int32_t converts;
    int32_t convert_add_first;
    int32_t convert_offset;
    int32_t convert_scale;
    int32_t convert_shift;
    int32_t convert_away; /* ties go away from zero */
    openrknn_clamp clamp;
} openrknn_element_wise;

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
};

typedef struct {
    int32_t flags;
    int32_t byte_low, byte_high;
    int32_t table_shift;
    const int32_t *addends;
    const double *scales;
    double norm_scale, norm_addend, norm_fused;
    double middle_low, middle_high;
    const uint32_t *table;
    int32_t table_low, table_high;
    double operand_scale, operand_addend;
    double last_low, last_high;
    double out_scale, out_addend, out_fused;
} openrknn_chain;

/* The DPU from the zero-point correction to the write DMA. */
typedef struct {
    openrknn_chain chain;
    openrknn_stage bias;
    openrknn_stage norm;
    openrknn_element_wise element_wise;
    openrknn_target target;
    uint8_t padding[64]; /* what the channels from real_channels on are set to: 64 bytes of the pattern */
    int32_t width;       /* pixels of one row of the grid that is computed */
    int32_t channels;
    int32_t real_channels;
    int32_t is_float;
    int32_t format; /* of the output */
    int32_t scale;
    int32_t shift;
    int32_t offset;
    int32_t add_first;
    int32_t ties_away;
    float factor; /* what is written as floating point is multiplied by this */
    int32_t truncate;
    int32_t truncate_away;
    int32_t halves; /* atoms in memory have 8 bytes, of the convolution's input too; needs a chain */
} openrknn_dpu;

typedef struct {
    int32_t kind;
    int32_t kernels; /* the set that the step was prepared for */

    const uint8_t *source;
    int64_t surface;
    int64_t line;
    int32_t height;
    int32_t width;
    int32_t picture;  /* channels of a packed picture; 0 for feature maps */
    int32_t channels; /* that have data and weights */
    int32_t format;   /* of features and weights */
    int32_t pads[2];  /* int8: of even and odd channels; otherwise a bit pattern */
    int32_t pad_top;
    int32_t pad_left;
    int32_t out_height;
    int32_t out_width;
    int32_t kernel_height;
    int32_t kernel_width;
    int32_t stride_y;
    int32_t stride_x;
    int32_t dilation_y;
    int32_t dilation_x;
    int32_t spread_y;
    int32_t spread_x;
    int32_t depthwise;
    int32_t weight_channels;
    int32_t weight_kernels;
    int32_t kernel_group; /* how the weights are grouped in memory */
    int32_t input_group;
    int32_t depthwise_group;
    int32_t fresh_weights; /* other steps write the weights: pack them each time */
    int32_t copies_first;  /* the result overlaps the input: nothing may be written before all is read */
    const int8_t *converter; /* NULL, or 16 tables of 256: channel c is converted by table c % 16 */
    const uint8_t *weights;
    const int32_t *corrections; /* per output channel: what is added to each weight */
    uint8_t *packed;            /* room for openrknn_packed_bytes */

    openrknn_dpu dpu;
} openrknn_convolution;

typedef struct {
    int32_t kind;
    int32_t kernels;
    const uint8_t *snapshot; /* the result overlaps these bytes of the source: they are copied first; or NULL */
    int64_t snapshot_bytes;
    openrknn_cube source;
    int32_t format; /* of the source */
    int32_t surfaces;
    int32_t height;
    int32_t width;
    openrknn_dpu dpu;
} openrknn_flying;

/* int8 to int8 through a table of 256 entries, or a copy of atoms. */
typedef struct {
    int32_t kind;
    int32_t kernels;
    const uint8_t *snapshot; /* the result overlaps these bytes of the source: they are copied first; or NULL */
    int64_t snapshot_bytes;
    openrknn_cube source;
    int32_t height;
    int32_t width;
    const int8_t *table; /* by value + 128; NULL: a copy */
    int32_t last_lanes;  /* bytes of the last atom that come from the source; the others from padding */
    int32_t unused;
    uint8_t padding[16];
    openrknn_target target;
} openrknn_map;

/* Atoms change places. */
typedef struct {
    int32_t kind;
    int32_t kernels;
    const uint8_t *snapshot; /* the result overlaps these bytes of the source: they are copied first; or NULL */
    int64_t snapshot_bytes;
    openrknn_cube source;
    int32_t surfaces;
    int32_t height;
    int32_t width;
    int32_t lanes; /* 8 or 16: runs of so many pixels and lanes change places; 0: no; -1: repeat */
    int32_t repeat_x;
    int32_t repeat_y;
    openrknn_target target;
} openrknn_move;

/* The largest or smallest channel of each pixel. */
typedef struct {
    int32_t kind;
    int32_t kernels;
    openrknn_cube source;
    int32_t format;
    int32_t channels;
    int32_t height;
    int32_t width;
    int32_t largest;
    int32_t unused;
    uint8_t *target;
} openrknn_reduction;

typedef struct {
    int32_t kind;
    int32_t kernels;
    const uint8_t *snapshot; /* the result overlaps these bytes of the source: they are copied first; or NULL */
    int64_t snapshot_bytes;
    const uint8_t *source;
    int64_t source_line;
    int64_t source_surface;
    uint8_t *target;
    int64_t target_line;
    int64_t target_surface;
    int32_t surfaces;
    int32_t format;
    int32_t method; /* 0 average, 1 maximum, 2 minimum */
    int32_t height;
    int32_t width;
    int32_t out_height;
    int32_t out_width;
    int32_t kernel_height;
    int32_t kernel_width;
    int32_t stride_y;
    int32_t stride_x;
    int32_t pad_top;
    int32_t pad_left;
    float factor;
    int64_t pad_value;
    int64_t reciprocal; /* of the window's area, times 2^32 */
} openrknn_pooling;

OPENRKNN_API uint32_t openrknn_abi_version(void);

/* sizeof the structure of a kind of step; 0 for an unknown kind. */
OPENRKNN_API int32_t openrknn_structure_bytes(int32_t kind);

/* The instruction sets that this processor has and that the system lets programs use. */
OPENRKNN_API uint32_t openrknn_cpu_features(void);

/* Bit k: set k of kernels is in this library and runs on this processor. */
OPENRKNN_API uint32_t openrknn_kernels_available(void);

/* Bytes that `packed` of this convolution needs, with the set of kernels in its field. */
OPENRKNN_API int64_t openrknn_packed_bytes(const openrknn_convolution *step);

/* Rearrange the weights into `packed`. */
OPENRKNN_API void openrknn_pack(const openrknn_convolution *step);

/* How many threads work on a step, at most; the calling thread is one of them. */
OPENRKNN_API void openrknn_set_threads(int32_t count);
OPENRKNN_API int32_t openrknn_threads(void);

/* Run steps one after another; 0, or -1 when there is no memory for intermediate results. */
OPENRKNN_API int32_t openrknn_run(const void *const *steps, int32_t count);

/* The same, and the nanoseconds that each step took. */
OPENRKNN_API int32_t openrknn_run_timed(const void *const *steps, int32_t count, int64_t *nanoseconds);

/* A feature map [N, C1, H, W, C2] as a plain [N, C, H, W]; openrknn/layout/arrange.py mirrors it. */
typedef struct {
    const void *source;
    void *target;
    int64_t source_batch; /* bytes from batch to batch, surface to surface, line to line */
    int64_t source_surface;
    int64_t source_line;
    int32_t batches;
    int32_t channels;
    int32_t height;
    int32_t width;
    int32_t atom;     /* C2 */
    int32_t format;   /* of the source */
    int32_t to_float; /* 1: (number - zero_point) * scale, and 16-bit floats widened; 0: as they are */
    int32_t zero_point;
    float scale;
    int32_t unused;
} openrknn_arrangement;

OPENRKNN_API void openrknn_arrange(const openrknn_arrangement *step);

/* (source - zero) * scale, or 16-bit floats widened; -1 for a format that it does not know. */
OPENRKNN_API int32_t openrknn_dequantize(const void *source, float *target, int64_t count, int32_t format, int32_t zero,
                                         float scale);

/* round(source / scale + zero) in single precision, ties to even, held inside the type; -1 likewise. */
OPENRKNN_API int32_t openrknn_quantize(const float *source, void *target, int64_t count, int32_t format, int32_t zero,
                                       float scale);

/* The cells of one stride of a detector whose best score passes; openrknn/vision/native.py mirrors it. */
typedef struct {
    const int8_t *scores;  /* [classes, cells] */
    const int8_t *boxes;   /* [4 * bins, cells] */
    const float *powers;   /* [256]: e^(-d * scale of the boxes) */
    int64_t cells;
    int32_t classes, bins; /* bins: 2 to 64 */
    int32_t limit, unused; /* the smallest stored score that passes */
    int64_t *chosen;       /* [cells]: which cells passed, in their order */
    int64_t *kinds;        /* [cells]: the first class with the best score */
    int8_t *best;          /* [cells]: that score */
    float *distances;      /* [4, cells]: left, top, right, bottom; the first ones of each row are set */
} openrknn_picking;

/* How many passed; -1 if the bins are too many. */
OPENRKNN_API int64_t openrknn_pick(const openrknn_picking *pick);

/* Non-maximum suppression of boxes [n, 4], from order[0] on: how many stay, and which (`kept` has room for n). */
OPENRKNN_API int64_t openrknn_suppress(
    const float *boxes, const int64_t *classes, const int64_t *order, int64_t boxes_count, float overlap, int64_t limit,
    int64_t *kept);

#endif
