/*
 * The most products that one core of this processor can do, on registers alone: int8 (SDOT, SMMLA, SMLAL, TDPBSSD,
 * VPDPBUSD with 64 and 32 bytes, VPMADDWD) and single precision (FMA). One line for each instruction: its name, and
 * products in a nanosecond of the thread's time.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { TURNS = 50000, REPEATS = 31, SUMS = 16, SHORT_SUMS = 14 };

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    const double first = *(const double *)a, second = *(const double *)b;
    return (first > second) - (first < second);
}

/*
 * The median of many short runs of a loop with `sums` instructions, each with sums of its own: instructions that wait for
 * each other would hide the peak. Not the best run: where the kernel counts time in ticks, some of it is credited to
 * another process.
 */
#define PEAK(name, sums, products, body, ...)                                                                          \
    do {                                                                                                               \
        double rates[REPEATS];                                                                                         \
        for (int repeat = 0; repeat < REPEATS; repeat++) {                                                             \
            int64_t turns = TURNS;                                                                                     \
            double start = now();                                                                                      \
            __asm__ volatile(body : "+r"(turns) : : "cc", __VA_ARGS__);                                                \
            rates[repeat] = (double)TURNS * (sums) * (products) / (now() - start);                                     \
        }                                                                                                              \
        qsort(rates, REPEATS, sizeof *rates, by_size);                                                                 \
        printf("%s %.3f\n", name, rates[REPEATS / 2]);                                                                 \
    } while (0)

#if defined(__aarch64__)
#include <sys/auxv.h>
#define SIXTEEN(one)                                                                                                   \
    one(0) one(1) one(2) one(3) one(4) one(5) one(6) one(7) one(8) one(9) one(10) one(11) one(12) one(13) one(14) one(15)
#define LOOP(one) "1:\n" SIXTEEN(one) "subs %0, %0, #1\nb.ne 1b\n"
#define SDOT(n) "sdot v" #n ".4s, v20.16b, v21.4b[1]\n"
#define SMMLA(n) "smmla v" #n ".4s, v20.16b, v21.16b\n"
#define SMLAL(n) "smlal v" #n ".4s, v20.4h, v21.4h\n"
#define FMLA(n) "fmla v" #n ".4s, v20.4s, v21.s[1]\n"
#define CLOBBERED                                                                                                      \
    "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15"
__asm__(".arch armv8.6-a+dotprod+i8mm");

int main(void)
{
    if (getauxval(AT_HWCAP) & 1 << 20)
        PEAK("sdot", SUMS, 16, LOOP(SDOT), CLOBBERED);
    if (getauxval(AT_HWCAP2) & 1 << 13)
        PEAK("smmla", SUMS, 32, LOOP(SMMLA), CLOBBERED);
    PEAK("smlal", SUMS, 4, LOOP(SMLAL), CLOBBERED);
    PEAK("fma", SUMS, 4, LOOP(FMLA), CLOBBERED);
    return 0;
}
#elif defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#define SIXTEEN(one)                                                                                                   \
    one(0) one(1) one(2) one(3) one(4) one(5) one(6) one(7) one(8) one(9) one(10) one(11) one(12) one(13) one(14) one(15)
/* Where there are 16 registers, two of them are not sums. */
#define FOURTEEN(one)                                                                                                  \
    one(0) one(1) one(2) one(3) one(4) one(5) one(6) one(7) one(8) one(9) one(10) one(11) one(12) one(13)
#define LOOP(one) "1:\n" SIXTEEN(one) "sub $1, %0\njnz 1b\n"
#define SHORT_LOOP(one) "1:\n" FOURTEEN(one) "sub $1, %0\njnz 1b\n"
#define DOT(n) "vpdpbusd %%zmm20, %%zmm21, %%zmm" #n "\n"
#define SHORT_DOT(n) "%{vex%} vpdpbusd %%ymm14, %%ymm15, %%ymm" #n "\n"
#define MADD(n) "vpmaddwd %%ymm14, %%ymm15, %%ymm" #n "\n"
#define FMA(n) "vfmadd231ps %%ymm14, %%ymm15, %%ymm" #n "\n"
#define WIDE_FMA(n) "vfmadd231ps %%zmm20, %%zmm21, %%zmm" #n "\n"
#define CLOBBERED                                                                                                      \
    "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", \
        "xmm14", "xmm15"
#define TILES "tdpbssd %%tmm6, %%tmm7, %%tmm0\ntdpbssd %%tmm6, %%tmm7, %%tmm1\ntdpbssd %%tmm6, %%tmm7, %%tmm2\ntdpbssd %%tmm6, %%tmm7, %%tmm3\n"

/* AMX: the processor has it, and the system gives this process tiles, 8 of 16 rows of 64 bytes. */
static int has_tiles(void)
{
    enum { TILE_AND_INT8 = 3 << 24, REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
    static const struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } shapes = {.palette = 1, .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = {16, 16, 16, 16, 16, 16, 16, 16}};
    uint32_t eax, ebx, ecx, edx;
    if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) || (edx & TILE_AND_INT8) != TILE_AND_INT8 ||
        syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) != 0)
        return 0;
    __asm__ volatile("ldtilecfg %0" : : "m"(shapes));
    return 1;
}

/* AVX-VNNI: leaf 7.1. */
static int has_short_dots(void)
{
    uint32_t eax, ebx, ecx, edx;
    return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) && eax & 1 << 4 && __builtin_cpu_supports("avx2");
}

int main(void)
{
    if (has_tiles())
        PEAK("tdpbssd", SUMS, 16384, "1:\n" TILES TILES TILES TILES "sub $1, %0\njnz 1b\n", "memory");
    if (__builtin_cpu_supports("avx512vnni"))
        PEAK("vpdpbusd", SUMS, 64, LOOP(DOT), CLOBBERED);
    if (has_short_dots())
        PEAK("avx-vnni", SHORT_SUMS, 32, SHORT_LOOP(SHORT_DOT), CLOBBERED);
    if (__builtin_cpu_supports("avx2"))
        PEAK("vpmaddwd", SHORT_SUMS, 16, SHORT_LOOP(MADD), CLOBBERED);
    if (__builtin_cpu_supports("avx512f"))
        PEAK("fma", SUMS, 16, LOOP(WIDE_FMA), CLOBBERED);
    else if (__builtin_cpu_supports("fma"))
        PEAK("fma", SHORT_SUMS, 8, SHORT_LOOP(FMA), CLOBBERED);
    return 0;
}
#else
int main(void)
{
    return 0;
}
#endif
