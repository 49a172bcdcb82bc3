/* Which basic blocks of the native library ran: the compiler calls this in each (-fsanitize-coverage=trace-pc).
 * Compiled apart, without that option. */
#include <stdint.h>

enum { PLACES = 1 << 16 };
static uint8_t seen[PLACES];

__attribute__((visibility("default"))) uint8_t *openrknn_coverage(void) { return seen; }

__attribute__((visibility("hidden"))) void __sanitizer_cov_trace_pc(void) {
    /* Relative to the library, so that a place has the same number in every process. */
    uintptr_t place = (uintptr_t)__builtin_return_address(0) - (uintptr_t)openrknn_coverage;
    seen[(place * 0x9E3779B1u) >> 12 & (PLACES - 1)] = 1;
}
