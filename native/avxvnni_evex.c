/* The kernels of avxvnni.c with the encoding of AVX-512, for processors that have only that one: for tests. */
#define DOT_TABLE kernels_avxvnni_evex
#define dot(sums, unsigned_bytes, bytes) _mm256_dpbusd_epi32(sums, unsigned_bytes, bytes)
#include "avxvnni.c"
