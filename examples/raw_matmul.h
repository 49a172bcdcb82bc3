/*
 * C = A x B as commands for the NPU of the RK3588: A is [ROWS, INNER], B is [INNER, COLUMNS], C is [ROWS, COLUMNS],
 * all fp16. A 1x1 convolution does it: the rows are pixels, INNER is its input channels, COLUMNS its kernels.
 *
 * The NPU keeps data in atoms of 16 bytes, here 8 numbers of neighbouring channels:
 *   A, C     number (row, channel) is in atom (channel / 8) * ROWS + row
 *   B        groups of 16 kernels, in them groups of 32 inputs, in them kernel by kernel
 *
 * The registers are described in docs/hardware of openrknn.
 */
#ifndef RAW_MATMUL_H
#define RAW_MATMUL_H
#include <stdint.h>
#include <stdio.h>

enum { ROWS = 32, INNER = 64, COLUMNS = 48 };
enum { ATOM = 8, KERNEL_GROUP = 16, INPUT_GROUP = 32 };
enum { A_BYTES = ROWS * INNER * 2, B_BYTES = INNER * COLUMNS * 2, C_BYTES = ROWS * COLUMNS * 2 };
enum { MAX_COMMANDS = 128, TAIL_COMMANDS = 4 };

typedef _Float16 half;

/* A command writes a value to a register of a block. */
enum { PC = 0x0101, CNA = 0x0201, CORE = 0x0801, DPU = 0x1001 };

struct program { uint64_t *words; int count; };

static void put(struct program *program, unsigned block, unsigned offset, uint32_t value) {
    program->words[program->count++] = (uint64_t)block << 48 | (uint64_t)value << 16 | offset;
}

/* Fills `words` (MAX_COMMANDS of them) and returns the number of commands, without the four at the end. */
static int matmul_commands(uint64_t *words, uint32_t a, uint32_t b, uint32_t c) {
    struct program program = {words, 0};
    struct program *p = &program;
    put(p, DPU, 0x4004, 0x0e);                            /* S_POINTER: the two register groups take turns */
    put(p, CNA, 0x100c, 2 << 7 | 2 << 4);                 /* CONV_CON1: fp16 in, fp16 products */
    put(p, CNA, 0x1010, (ROWS + 1) << 4);                 /* CONV_CON2: rows fetched ahead */
    put(p, CNA, 0x1014, 1 << 3 | 1);                      /* CONV_CON3: steps of one */
    put(p, CNA, 0x1020, 1 << 16 | ROWS);                  /* DATA_SIZE0: a picture one pixel wide */
    put(p, CNA, 0x1024, (INNER - 1) << 16 | INNER);       /* DATA_SIZE1: channels */
    put(p, CNA, 0x1028, 1);                               /* DATA_SIZE2: width of the result */
    put(p, CNA, 0x102c, ROWS);                            /* DATA_SIZE3: its pixels */
    put(p, CNA, 0x1030, B_BYTES);                         /* WEIGHT_SIZE0 */
    put(p, CNA, 0x1034, INNER * 2);                       /* WEIGHT_SIZE1: bytes of one kernel */
    put(p, CNA, 0x1038, 1 << 24 | 1 << 16 | COLUMNS);     /* WEIGHT_SIZE2: kernels of 1 x 1 */
    put(p, CNA, 0x1040, 11 << 4 | 1);                     /* CBUF_CON0: one bank for data, eleven for weights */
    put(p, CNA, 0x1044, INNER * 2 / 64);                  /* CBUF_CON1: entries of 64 bytes in a row */
    put(p, CNA, 0x104c, 0x0b);                            /* CVT_CON0: no conversion of the input */
    put(p, CNA, 0x1070, a);                               /* FEATURE_DATA_ADDR */
    put(p, CNA, 0x1078, 0x000f000f);                      /* DMA_CON0: long bursts */
    put(p, CNA, 0x107c, 4);                               /* DMA_CON1: four lines at a time, one atom each */
    put(p, CNA, 0x1080, ROWS - 4);                        /* DMA_CON2: from there to the next surface */
    put(p, CNA, 0x1084, 1 << 16 | ROWS);                  /* FC_DATA_SIZE0: what the DMA reads */
    put(p, CNA, 0x1088, INNER);                           /* FC_DATA_SIZE1 */
    put(p, CNA, 0x1110, b);                               /* DCOMP_ADDR0: the weights */
    put(p, CORE, 0x3010, 2 << 8);                         /* MISC_CFG: fp16 */
    put(p, CORE, 0x3014, (ROWS - 1) << 16);               /* DATAOUT_SIZE_0 */
    put(p, CORE, 0x3018, COLUMNS - 1);                    /* DATAOUT_SIZE_1 */
    put(p, DPU, 0x400c, 0x1e4);                           /* FEATURE_MODE_CFG: from the array to memory */
    put(p, DPU, 0x4010, 2u << 29 | 2 << 26 | 2);          /* DATA_FORMAT: fp16 everywhere */
    put(p, DPU, 0x4020, c);                               /* DST_BASE_ADDR */
    put(p, DPU, 0x4024, ROWS << 4);                       /* DST_SURF_STRIDE: atoms of one surface */
    put(p, DPU, 0x4030, 0);                               /* DATA_CUBE_WIDTH - 1 */
    put(p, DPU, 0x4034, ROWS - 1);                        /* DATA_CUBE_HEIGHT - 1 */
    put(p, DPU, 0x403c, (COLUMNS - 1) << 16 | (COLUMNS - 1)); /* DATA_CUBE_CHANNEL - 1 */
    put(p, DPU, 0x4040, 0x53);                            /* BS_CFG: no bias */
    put(p, DPU, 0x4050, 0x126);                           /* BS_OW_CFG: two atoms of a pixel follow each other */
    put(p, DPU, 0x4058, COLUMNS - 1);                     /* WDMA_SIZE_0 */
    put(p, DPU, 0x405c, (ROWS - 1) << 16);                /* WDMA_SIZE_1 */
    put(p, DPU, 0x4060, 0x53);                            /* BN_CFG: no second stage */
    put(p, DPU, 0x4070, 0x383);                           /* EW_CFG: no element-wise stage */
    put(p, DPU, 0x4078, 1);                               /* EW_CVT_SCALE_VALUE */
    put(p, DPU, 0x4084, 1 << 16 | 1);                     /* OUT_CVT_SCALE: as it is, rounded to fp16 */
    put(p, DPU, 0x40c0, 2 * ROWS << 4);                   /* SURFACE_ADD: two surfaces are a group */
    int body = program.count;
    put(p, 0, 0, 0);                                      /* no next task */
    put(p, PC, 0x0014, 0);
    put(p, 0x0041, 0, 0);
    put(p, 0x0081, 0x0008, 0x0d);                         /* start CNA, CORE and DPU */
    return body;
}

static half a_value(int row, int inner) { return (half)((row * 7 + inner * 3) % 11 - 5); }
static half b_value(int inner, int column) { return (half)((inner * 5 + column * 2) % 13 - 6); }

static void fill_a(half *a) {
    for (int row = 0; row < ROWS; row++)
        for (int inner = 0; inner < INNER; inner++)
            a[(inner / ATOM * ROWS + row) * ATOM + inner % ATOM] = a_value(row, inner);
}

static void fill_b(half *b) {
    for (int group = 0; group < COLUMNS; group += KERNEL_GROUP)
        for (int inputs = 0; inputs < INNER; inputs += INPUT_GROUP)
            for (int column = group; column < group + KERNEL_GROUP; column++)
                for (int inner = inputs; inner < inputs + INPUT_GROUP; inner++) *b++ = b_value(inner, column);
}

/* Small whole numbers: fp16 holds every sum exactly. Returns the number of wrong elements. */
static int check_c(const half *c) {
    int wrong = 0;
    for (int row = 0; row < ROWS; row++)
        for (int column = 0; column < COLUMNS; column++) {
            float wanted = 0, found = (float)c[(column / ATOM * ROWS + row) * ATOM + column % ATOM];
            for (int inner = 0; inner < INNER; inner++)
                wanted += (float)a_value(row, inner) * (float)b_value(inner, column);
            if (found != wanted && !wrong++)
                fprintf(stderr, "C[%d][%d] is %g and should be %g\n", row, column, found, wanted);
        }
    return wrong;
}
#endif
