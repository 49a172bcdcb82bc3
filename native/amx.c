/*
 * Kernels for AMX (Sapphire Rapids and its successors): tile_template.h with the processor's own tiles. What AMX has no
 * instructions for is left to the kernels of AVX-512.
 *
 * Facts: Intel SDM volume 2 (LDTILECFG, TILELOADD, TDPBSSD, ...), volume 1 chapter 18; Linux,
 * Documentation/arch/x86/xstate.rst. The instructions are written in assembly: so each says that it reads or writes
 * memory, and a compiler needs no option for them.
 */
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"

/* Half of 1024 in a cycle. */
enum { TILE_PRODUCTS = 1000, TILE_CHOOSES = 1 };

/* Palette 1: rows, and bytes of a row, of each of 8 tiles. */
typedef struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_shapes;
_Static_assert(sizeof(tile_shapes) == 64, "as LDTILECFG reads it");

static const tile_shapes shapes __attribute__((aligned(64))) = {
    .palette = 1,
    .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
    .rows = {16, 16, 16, 16, 16, 16, 16, 16},
};

/* From here until tiles_end the system saves 8 KB more at each change of threads. */
ALWAYS_INLINE void tiles_begin(void)
{
    __asm__ volatile("ldtilecfg %0" : : "m"(shapes) : "memory");
}

ALWAYS_INLINE void tiles_end(void)
{
    __asm__ volatile("tilerelease" : : : "memory");
}

#define tile_load(tile, at, step)                                                                                      \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile : : "r"(at), "r"((int64_t)(step)) : "memory")
#define tile_store(tile, at, step)                                                                                     \
    __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" : : "r"(at), "r"((int64_t)(step)) : "memory")
#define tile_multiply(sums, a, b) __asm__ volatile("tdpbssd %tmm" #b ", %tmm" #a ", %tmm" #sums)

#include "tile_template.h"

/* Linux gives a process tiles when it asks for them; 18 is their number among the parts of the saved state. */
int openrknn_amx_allowed(void)
{
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
#if defined(__linux__) && defined(SYS_arch_prctl)
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
#else
    return 0;
#endif
}

const tile_kernels kernels_amx = TILE_KERNELS;
