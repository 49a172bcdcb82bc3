/* The door: which kernels there are, and running steps. */
#include <stdatomic.h>
#include <time.h>

#include "internal.h"

static const kernel_set *sets[OPENRKNN_KERNELS_COUNT] = {
    [OPENRKNN_KERNELS_SCALAR] = &kernels_scalar,
#ifdef OPENRKNN_HAS_AVX2
    [OPENRKNN_KERNELS_AVX2] = &kernels_avx2,
#endif
#ifdef OPENRKNN_HAS_VNNI
    [OPENRKNN_KERNELS_VNNI] = &kernels_vnni,
#endif
#ifdef OPENRKNN_HAS_NEON
    [OPENRKNN_KERNELS_NEON] = &kernels_neon,
#endif
#ifdef OPENRKNN_HAS_DOTPROD
    [OPENRKNN_KERNELS_DOTPROD] = &kernels_dotprod,
#endif
#ifdef OPENRKNN_HAS_I8MM
    [OPENRKNN_KERNELS_I8MM] = &kernels_i8mm,
#endif
};

static kernel_set with_tiles(const kernel_set *rest, const tile_kernels *own, const char *name, uint32_t needs)
{
    kernel_set set = *rest;
    set.name = name;
    set.needs |= needs;
    set.rest = rest;
    set.input_bytes = set.block = set.by_pixel = 1;
    set.weight_offset = set.folds = set.product_offset = 0;
    set.at_once = own->at_once;
    set.chooses = own->chooses;
    set.products = own->products;
    set.block_bytes = own->block_bytes;
    set.store = own->store;
    set.segment = own->segment;
    set.window = NULL;
    set.row_sums = own->row_sums;
    set.begin = own->begin;
    set.end = own->end;
    set.product = own->product;
    return set;
}

#if defined(OPENRKNN_HAS_AVX2) && defined(OPENRKNN_HAS_AVXVNNI)
static kernel_set with_dots(const kernel_set *rest, const dot_kernels *own, uint32_t needs)
{
    kernel_set set = *rest;
    set.name = "avxvnni";
    set.needs |= needs;
    set.products = own->products;
    set.input_bytes = 1;
    set.folds = 0;
    set.weight_offset = set.product_offset = own->offset;
    set.block_bytes = own->block_bytes;
    set.store = own->store;
    set.segment = own->segment;
    set.window = own->window;
    set.strip_bytes = own->strip_bytes;
    set.store_strip = own->store_strip;
    set.depthwise = own->depthwise;
    set.product = own->product;
    return set;
}
#endif

/* Sets that have only some kernels of their own. */
__attribute__((constructor)) static void complete_sets(void)
{
    static kernel_set tiles;
    tiles = with_tiles(&kernels_scalar, &kernels_tiles, "tiles", 0);
    sets[OPENRKNN_KERNELS_TILES] = &tiles;
#if defined(OPENRKNN_HAS_AVX2) && defined(OPENRKNN_HAS_AVXVNNI)
    static kernel_set dots;
    dots = with_dots(&kernels_avx2, &kernels_avxvnni, OPENRKNN_CPU_AVXVNNI);
#ifdef OPENRKNN_HAS_AVXVNNI_EVEX
    const uint32_t features = openrknn_cpu_features();
    if (!(features & OPENRKNN_CPU_AVXVNNI) && features & OPENRKNN_CPU_AVX512VNNI)
        dots = with_dots(&kernels_avx2, &kernels_avxvnni_evex, OPENRKNN_CPU_AVX512VNNI);
#endif
    sets[OPENRKNN_KERNELS_AVXVNNI] = &dots;
#endif
#if defined(OPENRKNN_HAS_AMX) && defined(OPENRKNN_HAS_VNNI)
    static kernel_set amx;
    amx = with_tiles(&kernels_vnni, &kernels_amx, "amx", OPENRKNN_CPU_AMXINT8);
    sets[OPENRKNN_KERNELS_AMX] = &amx;
#endif
}

/* The system may refuse what the processor has. */
static int is_allowed(int32_t number)
{
#ifdef OPENRKNN_HAS_AMX
    if (number == OPENRKNN_KERNELS_AMX)
        return openrknn_amx_allowed();
#endif
    (void)number;
    return 1;
}

const kernel_set *kernels_of(int32_t number)
{
    return number >= 0 && number < OPENRKNN_KERNELS_COUNT ? sets[number] : NULL;
}

uint32_t openrknn_kernels_available(void)
{
    uint32_t features = openrknn_cpu_features(), available = 0;
    for (int32_t number = 0; number < OPENRKNN_KERNELS_COUNT; number++)
        if (sets[number] && (features & sets[number]->needs) == sets[number]->needs && is_allowed(number))
            available |= 1u << number;
    return available;
}

void openrknn_narrow(const float *source, uint16_t *target, int64_t count)
{
    static uint32_t known; /* every thread finds the same */
    uint32_t available = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (!available) {
        available = openrknn_kernels_available() & ~(1u << OPENRKNN_KERNELS_TILES | 1u << OPENRKNN_KERNELS_AVXVNNI);
        __atomic_store_n(&known, available, __ATOMIC_RELAXED);
    }
    sets[31 - __builtin_clz(available)]->narrow(source, target, count);
}

int32_t openrknn_structure_bytes(int32_t kind)
{
    switch (kind) {
    case OPENRKNN_CONVOLUTION:
        return (int32_t)sizeof(openrknn_convolution);
    case OPENRKNN_FLYING:
        return (int32_t)sizeof(openrknn_flying);
    case OPENRKNN_MAP:
        return (int32_t)sizeof(openrknn_map);
    case OPENRKNN_MOVE:
        return (int32_t)sizeof(openrknn_move);
    case OPENRKNN_REDUCTION:
        return (int32_t)sizeof(openrknn_reduction);
    case OPENRKNN_POOLING:
        return (int32_t)sizeof(openrknn_pooling);
    default:
        return 0;
    }
}

static int run_step(const void *step)
{
    switch (*(const int32_t *)step) {
    case OPENRKNN_CONVOLUTION:
        return run_convolution(step);
    case OPENRKNN_FLYING:
        return run_flying(step);
    case OPENRKNN_MAP:
        return run_map(step);
    case OPENRKNN_MOVE:
        return run_move(step);
    case OPENRKNN_REDUCTION:
        return run_reduction(step);
    default:
        return run_pooling(step);
    }
}

int32_t openrknn_run(const void *const *steps, int32_t count)
{
    for (int32_t i = 0; i < count; i++)
        if (run_step(steps[i]) != 0)
            return -1;
    return 0;
}

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

int32_t openrknn_run_timed(const void *const *steps, int32_t count, int64_t *nanoseconds)
{
    for (int32_t i = 0; i < count; i++) {
        int64_t start = now();
        if (run_step(steps[i]) != 0)
            return -1;
        nanoseconds[i] = now() - start;
    }
    return 0;
}
