/*
 * Preloaded into a program, hides AVX-512 and AMX from it, so that a processor stands for one that has AVX2 (and AVX-VNNI)
 * alone: benchmarks/inference.py --hide-avx512. The kernel lets CPUID trap (ARCH_SET_CPUID, processors of Intel since Ivy
 * Bridge); the signal handler executes it and clears the bits.
 *
 * Facts: Linux, arch_prctl(2); Intel SDM volume 2, CPUID leaf 7.
 */
#define _GNU_SOURCE
#include <cpuid.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { SET_CPUID = 0x1012, CPUID_BYTES = 2 };

static void allow(long is_allowed)
{
    syscall(SYS_arch_prctl, SET_CPUID, is_allowed);
}

static void answer(int number, siginfo_t *info, void *context)
{
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    const uint8_t *at = (const uint8_t *)registers[REG_RIP];
    uint32_t eax, ebx, ecx, edx;
    const uint32_t leaf = (uint32_t)registers[REG_RAX], subleaf = (uint32_t)registers[REG_RCX];

    (void)info;
    if (at[0] != 0x0f || at[1] != 0xa2) { /* another fault: as without this handler */
        signal(number, SIG_DFL);
        return;
    }
    allow(1);
    __cpuid_count(leaf, subleaf, eax, ebx, ecx, edx);
    allow(0);
    if (leaf == 7 && subleaf == 0) {
        ebx &= ~(1u << 16 | 1u << 17 | 1u << 21 | 1u << 26 | 1u << 27 | 1u << 28 | 1u << 30 | 1u << 31); /* AVX-512 F ... VL */
        ecx &= ~(1u << 1 | 1u << 6 | 1u << 11 | 1u << 12 | 1u << 14); /* VBMI, VBMI2, VNNI, BITALG, VPOPCNTDQ */
        edx &= ~(1u << 2 | 1u << 3 | 1u << 8 | 1u << 22 | 1u << 23 | 1u << 24 | 1u << 25); /* FP16, AMX */
    }
    if (leaf == 7 && subleaf == 1)
        eax &= ~(1u << 5 | 1u << 21); /* AVX512-BF16, AMX-FP16 */
    registers[REG_RAX] = eax;
    registers[REG_RBX] = ebx;
    registers[REG_RCX] = ecx;
    registers[REG_RDX] = edx;
    registers[REG_RIP] += CPUID_BYTES;
}

__attribute__((constructor)) static void hide(void)
{
    const struct sigaction action = {.sa_sigaction = answer, .sa_flags = SA_SIGINFO | SA_NODEFER};
    if (sigaction(SIGSEGV, &action, NULL) || syscall(SYS_arch_prctl, SET_CPUID, 0L)) {
        fputs("hidden_cpuid: this processor or kernel cannot let CPUID trap\n", stderr);
        _exit(2);
    }
}
