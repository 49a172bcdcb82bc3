/*
 * The C ABI of the native library. Python calls these functions through ctypes,
 * so every type here has a fixed width and nothing is passed by structure.
 */
#ifndef OPENRKNN_H
#define OPENRKNN_H

#include <stdint.h>

#define OPENRKNN_API __attribute__((visibility("default")))

/* Raised whenever a function of this file changes; compute/native.py has the same number. */
#define OPENRKNN_ABI_VERSION 1

/* Instruction sets that kernels are written for. compute/native.py has the same bits. */
enum {
    OPENRKNN_CPU_NEON = 1 << 0,
    OPENRKNN_CPU_DOTPROD = 1 << 1,
    OPENRKNN_CPU_I8MM = 1 << 2,
    OPENRKNN_CPU_AVX2 = 1 << 8,
    OPENRKNN_CPU_F16C = 1 << 9,
    OPENRKNN_CPU_AVX512VNNI = 1 << 10,
    OPENRKNN_CPU_AVXVNNI = 1 << 11,
};

OPENRKNN_API uint32_t openrknn_abi_version(void);

/* The instruction sets that this processor has and that the system lets programs use. */
OPENRKNN_API uint32_t openrknn_cpu_features(void);

#endif
