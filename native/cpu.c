/* Asks the processor, at run time, which instruction sets it has. */
#include "openrknn.h"

uint32_t openrknn_abi_version(void)
{
    return OPENRKNN_ABI_VERSION;
}

#if defined(__x86_64__)

#include <cpuid.h>

/* The register state that the system saves for each program: XCR0. */
static uint32_t saved_state(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

/* Facts: Intel SDM volume 2, CPUID leaves 1 and 7; volume 1, chapter 13 (XCR0). */
uint32_t openrknn_cpu_features(void)
{
    enum { FMA = 1 << 12, OSXSAVE = 1 << 27, F16C = 1 << 29 }; /* leaf 1, ecx */
    const uint32_t AVX2 = 1u << 5, AVX512 = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31; /* leaf 7.0, ebx: F DQ BW VL */
    enum { AVX512VNNI = 1 << 11 };                        /* leaf 7.0, ecx */
    enum { AMX = 1 << 24 | 1 << 25 };                     /* leaf 7.0, edx: TILE, INT8 */
    enum { AVXVNNI = 1 << 4 };                            /* leaf 7.1, eax */
    enum { YMM_STATE = 0x06, ZMM_STATE = 0xe6, TILE_STATE = 0x60000 }; /* XCR0 */
    uint32_t eax, ebx, ecx, edx, features = 0;

    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & OSXSAVE))
        return 0;
    uint32_t state = saved_state();
    if ((state & YMM_STATE) != YMM_STATE)
        return 0;
    if (ecx & F16C)
        features |= OPENRKNN_CPU_F16C;
    uint32_t has_fma = ecx & FMA;

    if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx))
        return features;
    uint32_t subleaves = eax;
    if ((ebx & AVX2) && has_fma)
        features |= OPENRKNN_CPU_AVX2;
    if ((ecx & AVX512VNNI) && (ebx & AVX512) == AVX512 && (state & ZMM_STATE) == ZMM_STATE)
        features |= OPENRKNN_CPU_AVX512VNNI;
    if ((edx & AMX) == AMX && (state & TILE_STATE) == TILE_STATE)
        features |= OPENRKNN_CPU_AMXINT8;

    if (subleaves >= 1 && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) && (eax & AVXVNNI))
        features |= OPENRKNN_CPU_AVXVNNI;
    return features;
}

#elif defined(__aarch64__) && defined(__linux__)

#include <sys/auxv.h>

/* Facts: Linux, Documentation/arch/arm64/elf_hwcaps.rst and asm/hwcap.h. */
uint32_t openrknn_cpu_features(void)
{
    const unsigned long asimd = 1ul << 1, asimddp = 1ul << 20; /* AT_HWCAP */
    const unsigned long i8mm = 1ul << 13;                      /* AT_HWCAP2 */
    unsigned long hwcap = getauxval(AT_HWCAP), hwcap2 = getauxval(AT_HWCAP2);
    uint32_t features = 0;

    if (hwcap & asimd)
        features |= OPENRKNN_CPU_NEON;
    if (hwcap & asimddp)
        features |= OPENRKNN_CPU_DOTPROD;
    if (hwcap2 & i8mm)
        features |= OPENRKNN_CPU_I8MM;
    return features;
}

#else

/* An unknown processor gets the portable kernels. */
uint32_t openrknn_cpu_features(void)
{
    return 0;
}

#endif
