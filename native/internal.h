/* What the files of the library share. */
#ifndef OPENRKNN_INTERNAL_H
#define OPENRKNN_INTERNAL_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "openrknn.h"

#define ATOM 16
/* Output pixels whose accumulators exist at the same time: they fit into the first level cache. Most widths are
 * multiples of 7; tiles have 16 rows. */
#define SEGMENT 64
#define USUAL_SEGMENT 56
/* Readable bytes behind every scratch area, so that vectors may look beyond the last pixel. */
#define SLACK 256

#ifndef ALWAYS_INLINE /* tools/coverage counts the branches of each function once, not in every copy of it */
#define ALWAYS_INLINE static inline __attribute__((always_inline))
#endif

typedef float float32;

static inline int32_t at_most(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static inline int32_t at_least(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

static inline int32_t divide_up(int32_t a, int32_t b)
{
    return (a + b - 1) / b;
}

static inline int64_t round_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b * b;
}

/* ---------------------------------------------------------------------------------------------- kernels */

/* A run of output pixels in one row, and one block of output channels. */
typedef struct {
    const uint8_t *input;   /* of the first pixel at offset 0 */
    const int32_t *offsets; /* from there to what each tap sees */
    int32_t taps;
    int32_t is_picture; /* each tap is 4 channels wide instead of an atom */
    int32_t run;        /* by_row, pictures: neighbouring columns that a tap stands for */
    int32_t pixels;     /* at most SEGMENT */
    int32_t pixel_step; /* bytes from pixel to pixel */
    int64_t tile_step;  /* by_pixel: bytes from 16 pixels to the next 16 */
    int32_t atoms;      /* of 16 output channels, at most those of the blocks at once */
    const uint8_t *weights; /* of the block */
    /* A sum begins as factor[o] * window[pixel] + addend[o]; any of them may be NULL. */
    const int32_t *window;
    const int32_t *factors;
    const int32_t *addends;
    int32_t *sums; /* [atom][SEGMENT][16] */
    void *constants; /* of the block, from `prepare` */
    uint8_t *target; /* prepared with a chain: bytes go here, [pixels][16], and not sums there */
    const int8_t *operand; /* of the chain, [pixels][16], if it has one */
    struct sums_queue *queue; /* by_pixel: where sums go instead, or NULL; */
    int32_t row, first, atom; /* then where in the output they belong */
    int32_t fetch_part, fetch_parts; /* by_pixel: which part of the weights behind these to fetch, for the next blocks */
} segment_task;

/*
 * By pixel: sums that wait. They go through the DPU while the tiles compute the next ones, an atom at a time: the
 * processor does both at once as long as the instructions are not far apart.
 */
typedef struct sums_queue {
    void (*take)(const struct sums_queue *queue, int32_t atom); /* one of the atoms that wait */
    const void *job;
    int32_t atoms, pixels; /* that wait, and pixels of each; no atoms: nothing waits */
    int32_t row, first, atom; /* of the output, where they belong */
    const int32_t *window; /* of these pixels, or NULL */
    int32_t *sums;     /* of the first atom, [pixels][16]: those of the next one are */
    int32_t atom_step; /* so many behind them */
    int32_t slot; /* of the room, for the next ones: those that wait are in the other one */
    int32_t room[2][4 * ATOM * ATOM] __attribute__((aligned(64)));
} sums_queue;

/* What is known of a block before its segments. */
typedef struct {
    const int32_t *factors; /* of windows; may be NULL */
    const int32_t *addends, *offsets; /* what sums begin with; may be NULL. A chain has its own addends */
    int32_t windows; /* a WINDOW_... */
    const openrknn_chain *chain; /* that follows the sums at once, or NULL; */
    int32_t channel; /* then the first of the block, */
    const int32_t *magnitudes; /* and the sums of the weights of each channel, without their signs */
} block_task;

/* Sums of windows and factors: there are none, they fit into 16 bits, they do not, they are floats of whole numbers, two parts. */
enum { WINDOW_NONE, WINDOW_NARROW, WINDOW_WIDE, WINDOW_FLOAT, WINDOW_PARTS };
enum { CONSTANT_BYTES = 704 };

/* The same in floating point, for 16 output channels, or twice as many, and some of the taps. */
typedef struct {
    const uint8_t *input;   /* floats (half_lone: fp16), of the first pixel at offset 0 */
    const int32_t *offsets; /* from there to what each tap sees */
    const int32_t *list; /* of the taps that count, and which of them are the last of a group of channels */
    int32_t taps; /* in the list: whole groups */
    int32_t lanes; /* inputs of a tap: 8, or 4 of a picture */
    int32_t used_lanes; /* the others have no weights; of a picture, each tap is a group */
    int32_t pixels; /* at most SEGMENT */
    int32_t format;
    int32_t goes_on; /* there are sums of other taps */
    int32_t is_finite; /* the weights are: float_single */
    int32_t blocks; /* float_single: so many sums of 16, one behind the other, of weights that are */
    int64_t block_bytes; /* apart */
    const uint8_t *fetch; /* float_pair: what the next panels are made of, or NULL: */
    int64_t fetch_bytes, fetch_step; /* so many bytes, and as many so far behind */
    const float32 *panel; /* [tap][lane][atom][16] */
    float32 *sums; /* [atom][SEGMENT + 1][16] */
} float_task;

/* From the sums of an atom to those of the next one: a distance of a page would make loads wait for stores. */
enum { FLOAT_ATOM_STEP = (SEGMENT + 1) * ATOM };

/* Taps of 8 channels whose products are added up before they are added to the total; npu/blocks/core.py has the rule. */
enum { FLOAT_GROUP = 4 };

/* An entry of a list of taps. */
static inline int32_t tap_of(int32_t entry)
{
    return entry >> 1;
}

static inline int32_t ends_group(int32_t entry)
{
    return entry & 1;
}

/* Sums of the input under the window, for a run of pixels. */
typedef struct {
    const uint8_t *input;
    const int32_t *offsets;
    int32_t taps;
    int32_t is_picture;
    int32_t run; /* by_row, pictures: as in segment_task */
    int32_t pixels;
    int32_t pixel_step;
    int32_t full_taps;  /* taps before those of the last atom of channels */
    int32_t last_lanes; /* channels of the last atom that count */
    int32_t *window;
} window_task;

/* by_pixel: sums of what a row of the kernel sees, for some rows of the input. */
typedef struct {
    const uint8_t *input;
    int32_t rows, columns;
    int32_t pixel_bytes;
    int32_t is_picture;
    const uint8_t *ones; /* the weights of a channel that adds up the channels of a pixel */
    int32_t width, step, distance; /* of the kernel; from sum to sum, and from column to column of the kernel */
    int32_t *pixels; /* [rows][columns]: sums of the channels */
    int32_t *sums;   /* [rows][row_sums] */
    int32_t row_sums, count; /* of a row, and those that are computed */
} row_sums_task;

/* Kernel columns that see neighbouring columns of the input: columns first, first + step, ... */
typedef struct {
    int32_t first;
    int32_t step;
    int32_t width;
} column_run;

/*
 * Depthwise: a run of output pixels of 16 channels; the sums are complete, corrections included. The kernel is a list
 * of strips: strip k sees the input at offsets[k] + pixel * pixel_step and the widths[k] - 1 that follow.
 */
typedef struct {
    const uint8_t *input;
    const int32_t *offsets;
    const int32_t *widths;
    int32_t strips;
    int32_t pixels;
    int32_t pixel_step;
    const uint8_t *weights;
    const int32_t *addends; /* what the sums begin with; may be NULL */
    int32_t *sums;          /* [SEGMENT][16] */
} depthwise_task;

/*
 * The same with inputs in groups of four pixels, [16 channels][4 pixels], from each second pixel of a row on. A tap is a
 * row of the kernel and four of its columns. Its weights are [layer][even and odd pixels][16 channels][4 columns], and
 * what the two layers add up is added.
 */
typedef struct {
    const uint8_t *const *taps; /* the groups of the first pixel */
    int32_t count; /* of taps */
    int32_t stride; /* 1 or 2 */
    int32_t layers; /* of weights that are not 0, 1 or 2 */
    int32_t pixels; /* of a row; sums of whole fours are stored */
    int32_t rows; /* 1 without a chain */
    int64_t row_step; /* bytes from what taps see of a row to that of the next one */
    const int8_t *weights;
    const void *constants; /* of the atom, from `prepare` */
    int32_t *sums; /* [SEGMENT][16]; */
    uint8_t *target; /* prepared with a chain: bytes go here, [pixels][16], and not sums there */
} groups_task;

/* A row of an atom in groups. Bits that `flips` has are inverted, those of padding as well. */
typedef struct {
    const uint8_t *source; /* the first pixel that has data */
    int32_t before, count; /* pixels of padding, and of data; padding follows them */
    const uint8_t *pads, *flips; /* of an atom */
    uint8_t *groups;
    int32_t pairs; /* groups: from each second pixel on */
} zip_task;

/* The DPU's chain for a run of pixels of one atom of channels. */
typedef struct {
    const openrknn_chain *chain;
    const int32_t *sums; /* [SEGMENT][16], or NULL and then `bytes` */
    const int8_t *bytes; /* [pixels][16] */
    int32_t channel;     /* first of the 16 */
    int32_t pixels;
    const int8_t *operand;    /* [pixels][16] */
    int32_t operand_is_fixed; /* the same atom for all pixels */
    const int32_t *window;    /* chain_adds_windows: what to add factors[o] times to each sum, in two parts; or NULL */
    const int32_t *factors;
    const int32_t *magnitudes; /* sums of the weights of each channel, without their signs; NULL: not known */
    uint8_t *target; /* [pixels][16] */
} chain_task;

/* Parts of a sum w of a window, w & 127 and w >> 7, as two numbers of 16 bits: one VPDPWSSD multiplies and adds both. */
enum { WINDOW_LOW_BITS = 7 };

/* Depthwise in floating point: 16 channels, which are two atoms of 8 floats each. */
typedef struct {
    const uint8_t *input[2];
    const int32_t *offsets;
    int32_t taps;
    int32_t pixels;
    int32_t format;
    const uint8_t *weights;
    float32 *sums; /* [SEGMENT][16] */
} float_depthwise_task;

/* One run of pixels of 16 channels on its way through the DPU. */
typedef struct {
    const openrknn_dpu *dpu;
    const struct kernel_set *kernels;
    int32_t channel; /* first of the 16 */
    int32_t pixel;   /* first, counted through the grid */
    int32_t pixels;
    int32_t blocks; /* of 16 channels, where there is one pixel: [blocks][16]. 0 is 1 */
    const int32_t *sums;   /* [pixels][16]; */
    const int32_t *window, *factors, *magnitudes; /* as those of chain_task */
    const float32 *floats; /* or these; */
    const openrknn_cube *source; /* or from memory */
    int32_t source_format;
    int32_t source_surfaces;
} dpu_task;

/* Rows of A by some columns of B, in integers. */
typedef struct {
    int32_t format; /* of B */
    int32_t rows, columns;
    const uint8_t *a; /* rows of bytes (plus product_offset) */
    int64_t a_row;
    const uint8_t *const *b; /* the first column of each part */
    const int32_t *tiles;    /* of rows in each part */
    int32_t parts;
    int32_t tile_runs; /* of 16 rows in a tile */
    int64_t b_column, b_tile;
    const int32_t *zeros; /* of the columns, or NULL */
    int32_t *column_sums; /* [columns] */
    int32_t *sums;        /* [rows][columns] */
} product_task;

/* 16 rows of some columns of B that are multiplied in floating point. */
typedef struct {
    const uint8_t *at; /* the first column */
    int64_t column; /* bytes to the next one */
    int32_t columns; /* at most 16 */
    int32_t format;
    const int32_t *zeros; /* of the columns, or NULL */
} float_columns;

typedef struct kernel_set {
    const char *name;
    uint32_t needs; /* features of the processor */
    int32_t products, float_products; /* in a nanosecond, roughly, of one thread: see useful_threads */
    const struct kernel_set *rest; /* whose kernels those are that this set has none for; or NULL */
    int32_t chooses; /* the rest's convolution where that is faster */

    /* int8 convolution */
    int32_t input_bytes;    /* 1, or 2 where inputs are widened to int16 */
    int32_t block;          /* atoms of output channels in a block */
    int32_t weight_offset;  /* what the stored weights are too large by */
    int32_t folds;          /* corrections are part of the stored weights: no window sums */
    int32_t at_once;        /* blocks in one call of `segment` */
    /*
     * Inputs are [row][column][atom]. What a pixel sees of a row is one run of bytes; `taps` and `offsets` count pieces
     * of 64 bytes of all runs, and weights of places that no tap sees are 0.
     */
    int32_t by_pixel;
    /*
     * The columns of pictures stay neighbours whatever the stride, and a tap is all columns of a row of the kernel. Sums of
     * windows come from those of each pixel, which `window` adds up once.
     */
    int32_t by_row;
    int64_t (*block_bytes)(int32_t taps, int32_t is_picture);
    /* weights[o][i] of one tap into the block; o < block * 16, i < 16 (pictures: 4); correction included if folds */
    void (*store)(uint8_t *block, int32_t tap, int32_t is_picture, const int16_t *weights);
    void (*segment)(const segment_task *task);
    void (*window)(const window_task *task);     /* not by_pixel, */
    void (*row_sums)(const row_sums_task *task); /* but this */
    void (*begin)(void); /* before and after calls of these; may be NULL */
    void (*end)(void);

    /* int8 depthwise convolution: one strip of weights[tap][16] */
    int64_t (*strip_bytes)(int32_t width);
    void (*store_strip)(uint8_t *packed, int32_t width, const int16_t *weights, const int32_t *corrections);
    void (*depthwise)(const depthwise_task *task);
    /* Or in groups, where these are not NULL. */
    void (*zip_groups)(const zip_task *task);
    void (*depthwise_groups)(const groups_task *task);

    /* floating point: inputs are floats, weights 16 bits */
    void (*float_panel)(const uint16_t *weights, int32_t format, float32 *panel, int64_t rows, int64_t step); /* of 16 */
    void (*float_segment)(const float_task *task);
    void (*float_pair)(const float_task *task); /* fp16, two atoms at a time; or NULL */
    int32_t pair_fetches; /* what `fetch` says */
    int32_t singles; /* blocks at a time, at most, of */
    void (*float_single)(const float_task *task, const uint16_t *weights); /* one pixel, all taps, of fp16; or NULL */
    void (*float_lone)(const float_task *task, const uint16_t *weights); /* fp16, all taps, for one channel; or NULL */
    void (*half_lone)(const float_task *task, const uint16_t *weights); /* the same with inputs of fp16; or NULL */
    void (*float_depthwise)(const float_depthwise_task *task);

    /* products of matrices */
    int32_t product_offset; /* what A is stored too large by */
    void (*product)(const product_task *task);
    void (*float_columns_run)(const float_columns *task, float32 *panel); /* [16][16] */
    void (*widen)(const uint8_t *halves, float32 *out, int32_t count); /* a file may put them at odd addresses */
    void (*narrow)(const float32 *from, uint16_t *halves, int64_t count);

    void (*chain)(const chain_task *task);
    int32_t chain_adds_windows; /* chains with SINGLE and without TABLE */
    /*
     * Whether `segment` can do what the chain does, with sums up to `limit` without their addends: 2 if no sum on the way
     * can be 2^22. May be NULL.
     */
    int32_t (*fuses)(const openrknn_chain *chain, int64_t limit, int32_t channels);
    void (*prepare)(const block_task *task, void *constants); /* CONSTANT_BYTES; may be NULL */
    void (*general)(const dpu_task *task);
    int32_t (*one_pixel)(const dpu_task *task); /* all blocks of a pixel, general form; whether it can. May be NULL */
    void (*map)(const int8_t *table, const uint8_t *source, uint8_t *target, int64_t bytes);
    void (*pool)(const openrknn_pooling *step, int32_t surface, int32_t row);
} kernel_set;

/* The part of a set that has the same names in every file: most of it comes from the templates. */
/* A set may have another one. */
#define PRODUCT_KERNEL product
#ifndef ONE_PIXEL
#define ONE_PIXEL NULL
#endif
#ifndef PAIR_FETCHES
#define PAIR_FETCHES 0
#endif

#define KERNELS_OF_TEMPLATES                                                                                           \
    .strip_bytes = strip_bytes, .store_strip = store_strip, .float_panel = float_panel,                               \
    .float_segment = float_segment, .float_pair = FLOAT_PAIR, .pair_fetches = PAIR_FETCHES,                           \
    .float_single = FLOAT_SINGLE, .singles = SINGLES, .float_lone = FLOAT_LONE, .half_lone = HALF_LONE,               \
    .float_depthwise = float_depthwise, .chain = CHAIN_KERNEL, .general = general, .one_pixel = ONE_PIXEL,                                                                       \
    .map = map, .pool = pool_row, .product = PRODUCT_KERNEL, .product_offset = PRODUCT_OFFSET,                        \
    .float_columns_run = float_columns_run, .widen = widen, .narrow = narrow, .at_once = 1

/* What a set with tiles has of its own; a table without code, because its file may have instructions that are not there. */
typedef struct {
    int32_t at_once, products, chooses;
    int64_t (*block_bytes)(int32_t taps, int32_t is_picture);
    void (*store)(uint8_t *block, int32_t tap, int32_t is_picture, const int16_t *weights);
    void (*segment)(const segment_task *task);
    void (*row_sums)(const row_sums_task *task);
    void (*begin)(void);
    void (*end)(void);
    void (*product)(const product_task *task);
} tile_kernels;

/* What a set with 8-bit products in vectors has of its own; another set has the rest. */
typedef struct {
    int32_t products, offset;
    int64_t (*block_bytes)(int32_t taps, int32_t is_picture);
    void (*store)(uint8_t *block, int32_t tap, int32_t is_picture, const int16_t *weights);
    void (*segment)(const segment_task *task);
    void (*window)(const window_task *task);
    int64_t (*strip_bytes)(int32_t width);
    void (*store_strip)(uint8_t *packed, int32_t width, const int16_t *weights, const int32_t *corrections);
    void (*depthwise)(const depthwise_task *task);
    void (*product)(const product_task *task);
} dot_kernels;

extern const kernel_set kernels_scalar;
#ifdef OPENRKNN_HAS_AVX2
extern const kernel_set kernels_avx2;
#endif
#ifdef OPENRKNN_HAS_AVXVNNI
extern const dot_kernels kernels_avxvnni;
#endif
#ifdef OPENRKNN_HAS_AVXVNNI_EVEX
extern const dot_kernels kernels_avxvnni_evex;
#endif
#ifdef OPENRKNN_HAS_VNNI
extern const kernel_set kernels_vnni;
#endif
#ifdef OPENRKNN_HAS_AMX
extern const tile_kernels kernels_amx;
int openrknn_amx_allowed(void);
#endif
extern const tile_kernels kernels_tiles;
#ifdef OPENRKNN_HAS_NEON
extern const kernel_set kernels_neon;
#endif
#ifdef OPENRKNN_HAS_DOTPROD
extern const kernel_set kernels_dotprod;
#endif
#ifdef OPENRKNN_HAS_I8MM
extern const kernel_set kernels_i8mm;
#endif

/* NULL where the library has no such set. */
const kernel_set *kernels_of(int32_t number);

/* ---------------------------------------------------------------------------------------------- threads and memory */

typedef void (*unit_function)(void *job, int32_t unit);

/* How many threads make work that takes one of them so long soonest. */
int32_t useful_threads(int64_t nanoseconds);

/* Call function(job, 0 ... units - 1), spread over the threads that are useful. */
void run_units(int32_t units, int64_t nanoseconds, unit_function function, void *job);

/*
 * Work in nanoseconds of one thread, roughly: it says only how many threads are worth their price. An atom of the DPU's
 * chain takes about 25 operations on vectors; its general form goes through every stage.
 */
enum { COPY_BYTES = 8, CHAIN_NANOSECONDS = 4, GENERAL_NANOSECONDS = 40 };

static inline int64_t dpu_work(const openrknn_dpu *dpu, int64_t atoms)
{
    return atoms * (dpu->chain.flags ? CHAIN_NANOSECONDS : GENERAL_NANOSECONDS);
}

/* Memory of the calling thread that lives until its next call with the same number; NULL if there is none. */
enum { SCRATCH_INPUT, SCRATCH_OFFSETS, SCRATCH_FEATURES, SCRATCH_WEIGHTS, SCRATCH_ROW_SUMS, SCRATCH_COUNT };
void *scratch(int32_t which, int64_t bytes);

/* ---------------------------------------------------------------------------------------------- steps */

int run_convolution(const openrknn_convolution *step);
int run_flying(const openrknn_flying *step);
int run_map(const openrknn_map *step);
int run_move(const openrknn_move *step);
int run_reduction(const openrknn_reduction *step);
int run_pooling(const openrknn_pooling *step);

/* ---------------------------------------------------------------------------------------------- DPU */

/* Channels of a tile, and entries of each lookup table. */
enum { GENERAL_LANES = 16, ENTRIES = 513 };

void dpu_finish(const dpu_task *task);

/* Set the channels of an atom that carry no data. */
void dpu_fill(const openrknn_dpu *dpu, int32_t channel, uint8_t *target, int32_t pixels);

/* Where atom `atom` of pixel `pixel` goes, and how many pixels follow it without a gap. */
uint8_t *target_run(const openrknn_target *target, int32_t atom, int64_t pixel, int32_t *run);

/* Surface s of a cube, row y. */
static inline uint8_t *cube_row(const openrknn_cube *cube, int32_t surface, int32_t row)
{
    int32_t odd = surface & 1;
    return cube->base[odd] + (surface >> 1) * cube->surface[odd] + row * cube->line[odd];
}

/* x / 2^n to the nearest integer; ties to even, or away from zero; `offset` is added later, and counts in ties. */
static inline int64_t shift_right(int64_t x, int32_t n, int32_t away, int64_t offset)
{
    if (n == 0)
        return x;
    if (n > 63)
        return 0;
    int64_t quotient = x >> n;
    uint64_t rest = (uint64_t)x - ((uint64_t)quotient << n), half = (uint64_t)1 << (n - 1);
    int64_t sum = (int64_t)((uint64_t)quotient + (uint64_t)offset);
    return quotient + (rest > half || (rest == half && (away ? sum >= 0 : sum & 1)));
}

/* x / 2^n, rounded down. */
static inline int64_t shift_floor(int64_t x, int32_t n)
{
    return x >> (n > 63 ? 63 : n);
}

/* ---------------------------------------------------------------------------------------------- 16-bit floats */

float32 half_to_float(uint16_t bits);
uint16_t float_to_half(float32 value);

static inline float32 bits_to_float(uint32_t bits)
{
    float32 value;
    memcpy(&value, &bits, 4);
    return value;
}

static inline uint32_t float_to_bits(float32 value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return bits;
}

#endif
