/*
 * float_template.h's tiles of 32 channels for AVX-512, in assembly: compilers keep addresses in vector registers, and have
 * none left for more than 12 pixels. 14 pixels by two vectors are 28 registers of sums, 2 are weights and one an input; most
 * widths are multiples of 14 or of 7. While a tile is at work it asks for some of the weights that the next panel is made of,
 * and for the inputs of its next tap.
 */
#define OWN_FLOAT_PAIR own_pair
#undef PAIR_FETCHES
#define PAIR_FETCHES 1
enum { PAIR_PIXELS = 14, PICTURE_PIXELS = 7, FETCHED = 128 }; /* bytes of weights in one tap */
_Static_assert(FLOAT_ATOM_STEP * sizeof(float32) == 4160, "where the totals of the second atom are");

/* A pixel, and the registers of its sums. */
#define PIXELS_1(do, with) do(0, "0", "1", with)
#define PIXELS_2(do, with) PIXELS_1(do, with) do(1, "2", "3", with)
#define PIXELS_3(do, with) PIXELS_2(do, with) do(2, "4", "5", with)
#define PIXELS_4(do, with) PIXELS_3(do, with) do(3, "6", "7", with)
#define PIXELS_5(do, with) PIXELS_4(do, with) do(4, "8", "9", with)
#define PIXELS_6(do, with) PIXELS_5(do, with) do(5, "10", "11", with)
#define PIXELS_7(do, with) PIXELS_6(do, with) do(6, "12", "13", with)
#define PIXELS_8(do, with) PIXELS_7(do, with) do(7, "14", "15", with)
#define PIXELS_9(do, with) PIXELS_8(do, with) do(8, "16", "17", with)
#define PIXELS_10(do, with) PIXELS_9(do, with) do(9, "18", "19", with)
#define PIXELS_11(do, with) PIXELS_10(do, with) do(10, "20", "21", with)
#define PIXELS_12(do, with) PIXELS_11(do, with) do(11, "22", "23", with)
#define PIXELS_13(do, with) PIXELS_12(do, with) do(12, "24", "25", with)
#define PIXELS_14(do, with) PIXELS_13(do, with) do(13, "26", "27", with)

#define NO_SUMS(p, a, b, with) "vpxord %%zmm" a ", %%zmm" a ", %%zmm" a "\n\tvpxord %%zmm" b ", %%zmm" b ", %%zmm" b "\n\t"
#define ONE_INPUT(p, a, b, k)                                                                                          \
    "vbroadcastss " #p "*32+" #k "*4(%[seen]), %%zmm30\n\t"                                                            \
    "vfmadd231ps %%zmm30, %%zmm28, %%zmm" a "\n\tvfmadd231ps %%zmm30, %%zmm29, %%zmm" b "\n\t"
#define ONE_LANE(n, k)                                                                                                 \
    "vmovups " #k "*128(%[panel]), %%zmm28\n\tvmovups " #k "*128+64(%[panel]), %%zmm29\n\t" PIXELS_##n(ONE_INPUT, k)
#define ONE_AHEAD(p, a, b, with) "prefetcht0 " #p "*32(%[ahead])\n\t"
#define ADD_TOTAL(p, a, b, with)                                                                                       \
    "vaddps " #p "*64(%[totals]), %%zmm" a ", %%zmm" a "\n\tvaddps 4160+" #p "*64(%[totals]), %%zmm" b ", %%zmm" b "\n\t"
#define PUT_TOTAL(p, a, b, with)                                                                                       \
    "vmovups %%zmm" a ", " #p "*64(%[totals])\n\tvmovups %%zmm" b ", 4160+" #p "*64(%[totals])\n\t"

/* The next entry of the list: where its inputs are. */
#define TAP_PLACE                                                                                                      \
    "movl (%[list]), %k[entry]\n\t"                                                                                    \
    "addq $4, %[list]\n\t"                                                                                            \
    "movl %k[entry], %k[seen]\n\t"                                                                                     \
    "sarl $1, %k[seen]\n\t"                                                                                           \
    "movslq %k[seen], %[seen]\n\t"                                                                                     \
    "movslq (%[offsets],%[seen],4), %[seen]\n\t"                                                                       \
    "addq %[input], %[seen]\n\t"

#define TAP_AHEAD                                                                                                      \
    "movq %[list], %[ahead]\n\t"                                                                                      \
    "cmpq %[last], %[ahead]\n\t"                                                                                      \
    "cmovaq %[last], %[ahead]\n\t"                                                                                    \
    "movl (%[ahead]), %k[ahead]\n\t"                                                                                  \
    "sarl $1, %k[ahead]\n\t"                                                                                          \
    "movslq %k[ahead], %[ahead]\n\t"                                                                                   \
    "movslq (%[offsets],%[ahead],4), %[ahead]\n\t"                                                                     \
    "addq %[input], %[ahead]\n\t"

#define ALL_VECTORS                                                                                                    \
    "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", \
    "xmm12", "xmm13", "xmm14", "xmm15", "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", \
    "xmm23", "xmm24", "xmm25", "xmm26", "xmm27", "xmm28", "xmm29", "xmm30", "xmm31"

#define WHOLE_TILE(n)                                                                                                   \
    static void whole_tile_##n(const float_task *task, int32_t first, const uint8_t *fetch, int64_t fetch_step)         \
    {                                                                                                                  \
        const int32_t *list = task->list;                                                                              \
        const float32 *panel = task->panel;                                                                            \
        int32_t goes_on = task->goes_on;                                                                               \
        int64_t entry, seen, ahead;                                                                                    \
        __asm__ volatile(".p2align 5\n1:\n\t" PIXELS_##n(NO_SUMS, 0) ".p2align 5\n2:\n\t" TAP_PLACE TAP_AHEAD         \
                         ONE_LANE(n, 0) ONE_LANE(n, 1) PIXELS_##n(ONE_AHEAD, 0) ONE_LANE(n, 2) ONE_LANE(n, 3)          \
                         "prefetcht1 (%[fetch])\n\tprefetcht1 (%[fetch],%[apart])\n\t" ONE_LANE(n, 4) ONE_LANE(n, 5)  \
                         "prefetcht1 64(%[fetch])\n\tprefetcht1 64(%[fetch],%[apart])\n\t" ONE_LANE(n, 6)             \
                         ONE_LANE(n, 7)                                                                                \
                         "addq $1024, %[panel]\n\taddq %[step], %[fetch]\n\t"                                         \
                         "testl $1, %k[entry]\n\tjz 2b\n\t"                                                           \
                         "cmpl $0, %[goes_on]\n\tje 3f\n\t" PIXELS_##n(ADD_TOTAL, 0) "3:\n\t"                       \
                         PIXELS_##n(PUT_TOTAL, 0) "movl $1, %[goes_on]\n\tcmpq %[last], %[list]\n\tjbe 1b\n\t"        \
                         : [list] "+&r"(list), [panel] "+&r"(panel), [fetch] "+&r"(fetch), [goes_on] "+m"(goes_on),    \
                           [entry] "=&r"(entry), [seen] "=&r"(seen), [ahead] "=&r"(ahead)                              \
                         : [input] "r"(task->input + first * 32), [offsets] "r"(task->offsets),                        \
                           [last] "r"(list + task->taps - 1), [totals] "r"(task->sums + first * ATOM),                 \
                           [step] "r"(fetch_step ? (int64_t)FETCHED : 0), [apart] "r"(fetch_step)                      \
                         : "cc", "memory", ALL_VECTORS);                                                               \
    }
WHOLE_TILE(1)
WHOLE_TILE(2)
WHOLE_TILE(3)
WHOLE_TILE(4)
WHOLE_TILE(5)
WHOLE_TILE(6)
WHOLE_TILE(7)
WHOLE_TILE(8)
WHOLE_TILE(9)
WHOLE_TILE(10)
WHOLE_TILE(11)
WHOLE_TILE(12)
WHOLE_TILE(13)
WHOLE_TILE(14)

/*
 * A picture of 3 channels has a group of 3 products for each position of the kernel: totals stay in registers. A group
 * begins with a product instead of a sum with 0: they differ in the sign of zero alone, and totals begin with +0, which stays
 * what it is with a zero of either sign.
 */
#define TOTALS_1(do, with) do(0, "0", "1", "14", "15", with)
#define TOTALS_2(do, with) TOTALS_1(do, with) do(1, "2", "3", "16", "17", with)
#define TOTALS_3(do, with) TOTALS_2(do, with) do(2, "4", "5", "18", "19", with)
#define TOTALS_4(do, with) TOTALS_3(do, with) do(3, "6", "7", "20", "21", with)
#define TOTALS_5(do, with) TOTALS_4(do, with) do(4, "8", "9", "22", "23", with)
#define TOTALS_6(do, with) TOTALS_5(do, with) do(5, "10", "11", "24", "25", with)
#define TOTALS_7(do, with) TOTALS_6(do, with) do(6, "12", "13", "26", "27", with)

#define NO_TOTALS(p, a, b, c, d, with) NO_SUMS(p, c, d, with)
#define GET_TOTALS(p, a, b, c, d, with)                                                                                \
    "vmovups " #p "*64(%[totals]), %%zmm" c "\n\tvmovups 4160+" #p "*64(%[totals]), %%zmm" d "\n\t"
#define PUT_TOTALS(p, a, b, c, d, with) PUT_TOTAL(p, c, d, with)
#define FIRST_INPUT(p, a, b, c, d, with)                                                                               \
    "vbroadcastss " #p "*16(%[seen]), %%zmm30\n\t"                                                                     \
    "vmulps %%zmm30, %%zmm28, %%zmm" a "\n\tvmulps %%zmm30, %%zmm29, %%zmm" b "\n\t"
#define NEXT_INPUT(p, a, b, c, d, k)                                                                                   \
    "vbroadcastss " #p "*16+" #k "*4(%[seen]), %%zmm30\n\t"                                                            \
    "vfmadd231ps %%zmm30, %%zmm28, %%zmm" a "\n\tvfmadd231ps %%zmm30, %%zmm29, %%zmm" b "\n\t"
#define GROUP_ADDED(p, a, b, c, d, with)                                                                               \
    "vaddps %%zmm" a ", %%zmm" c ", %%zmm" c "\n\tvaddps %%zmm" b ", %%zmm" d ", %%zmm" d "\n\t"
#define LANE_WEIGHTS(k) "vmovups " #k "*128(%[panel]), %%zmm28\n\tvmovups " #k "*128+64(%[panel]), %%zmm29\n\t"

#define PICTURE_TILE(n)                                                                                                \
    static void picture_tile_##n(const float_task *task, int32_t first)                                                \
    {                                                                                                                  \
        const int32_t *list = task->list;                                                                              \
        const float32 *panel = task->panel;                                                                            \
        int64_t entry, seen;                                                                                           \
        __asm__ volatile(TOTALS_##n(NO_TOTALS, 0) "cmpl $0, %[goes_on]\n\tje 1f\n\t" TOTALS_##n(GET_TOTALS, 0)         \
                         ".p2align 5\n1:\n\t" TAP_PLACE LANE_WEIGHTS(0) TOTALS_##n(FIRST_INPUT, 0)                    \
                         LANE_WEIGHTS(1) TOTALS_##n(NEXT_INPUT, 1) LANE_WEIGHTS(2) TOTALS_##n(NEXT_INPUT, 2)           \
                         TOTALS_##n(GROUP_ADDED, 0) "addq $512, %[panel]\n\tcmpq %[last], %[list]\n\tjbe 1b\n\t"      \
                         TOTALS_##n(PUT_TOTALS, 0)                                                                     \
                         : [list] "+&r"(list), [panel] "+&r"(panel), [entry] "=&r"(entry), [seen] "=&r"(seen)          \
                         : [input] "r"(task->input + first * 16), [offsets] "r"(task->offsets),                        \
                           [last] "r"(list + task->taps - 1), [totals] "r"(task->sums + first * ATOM),                 \
                           [goes_on] "m"(task->goes_on)                                                                \
                         : "cc", "memory", ALL_VECTORS);                                                               \
    }
PICTURE_TILE(1)
PICTURE_TILE(2)
PICTURE_TILE(3)
PICTURE_TILE(4)
PICTURE_TILE(5)
PICTURE_TILE(6)
PICTURE_TILE(7)

static void picture_pair(const float_task *task)
{
    static void (*const functions[PICTURE_PIXELS + 1])(const float_task *task, int32_t first) = {
        NULL, picture_tile_1, picture_tile_2, picture_tile_3, picture_tile_4, picture_tile_5, picture_tile_6, picture_tile_7,
    };
    const int32_t count = divide_up(task->pixels, PICTURE_PIXELS);
    for (int32_t part = 0; part < count; part++) {
        const int32_t first = part * task->pixels / count, end = (part + 1) * task->pixels / count;
        functions[end - first](task, first);
    }
}

/* What is usual; whether it was. */
static int32_t own_pair(const float_task *task)
{
    typedef void (*pair_function)(const float_task *task, int32_t first, const uint8_t *fetch, int64_t fetch_step);
    static const pair_function functions[PAIR_PIXELS + 1] = {
        NULL, whole_tile_1, whole_tile_2, whole_tile_3, whole_tile_4, whole_tile_5, whole_tile_6, whole_tile_7,
        whole_tile_8, whole_tile_9, whole_tile_10, whole_tile_11, whole_tile_12, whole_tile_13, whole_tile_14,
    };
    if (task->lanes == 4 && task->used_lanes <= 3) {
        picture_pair(task);
        return 1;
    }
    if (task->lanes != 8 || task->used_lanes <= 4)
        return 0;
    const int32_t count = divide_up(task->pixels, PAIR_PIXELS);
    for (int32_t part = 0; part < count; part++) {
        const int32_t first = part * task->pixels / count, end = (part + 1) * task->pixels / count;
        const int64_t done = (int64_t)part * task->taps * FETCHED;
        const int32_t fetches = task->fetch && done < task->fetch_bytes;
        functions[end - first](task, first, fetches ? task->fetch + done : (const uint8_t *)task->panel, fetches ? task->fetch_step : 0);
    }
    return 1;
}

/* ---------------------------------------------------------------------------------------------- one output channel */

/*
 * Sums of all channels of each pixel, as softmax and norms need them: vectors of 16 pixels instead of 16 output channels, of
 * which there is one. Inputs are read where they are: to make floats of them first takes more time than the sums. Each
 * pixel's sums have the same order as in tiles.
 */
#define HALF_LONE half_lone

/* 8 channels of pixels 4 i + j, at places 4 j + i: as unpacking leaves them. */
ALWAYS_INLINE void turn_pixels(const uint8_t *at, __m512 *x)
{
    const __m512i even = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    __m512i z[4], a[4], b[4];
#pragma GCC unroll 4
    for (int32_t i = 0; i < 4; i++)
        z[i] = _mm512_loadu_si512(at + 64 * i);
#pragma GCC unroll 2
    for (int32_t i = 0; i < 4; i += 2) {
        a[i] = _mm512_unpacklo_epi16(z[i], z[i + 1]);
        a[i + 1] = _mm512_unpackhi_epi16(z[i], z[i + 1]);
    }
#pragma GCC unroll 2
    for (int32_t i = 0; i < 2; i++) {
        b[2 * i] = _mm512_unpacklo_epi32(a[i], a[i + 2]);
        b[2 * i + 1] = _mm512_unpackhi_epi32(a[i], a[i + 2]);
    }
#pragma GCC unroll 4
    for (int32_t i = 0; i < 4; i++) {
        const __m512i two = _mm512_permutexvar_epi64(even, b[i]);
        x[2 * i] = _mm512_cvtph_ps(_mm512_castsi512_si256(two));
        x[2 * i + 1] = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(two, 1));
    }
}

static void half_lone(const float_task *task, const uint16_t *weights)
{
    enum { CHANNELS = 8, PIXELS = 16, PARTS = SEGMENT / PIXELS, AHEAD = 4 };
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const int32_t parts = divide_up(task->pixels, PIXELS), left = task->pixels - (parts - 1) * PIXELS;
    __m512 totals[PARTS], sums[PARTS];
    float32 ordered[PARTS * PIXELS];

    for (int32_t i = 0; i < parts; i++)
        totals[i] = sums[i] = _mm512_setzero_ps();
    for (int32_t tap = 0; tap < task->taps; tap++, weights += CHANNELS * ATOM) {
        const int32_t entry = task->list[tap];
        const uint8_t *seen = task->input + task->offsets[tap_of(entry)];
        /* Channels are far apart: no processor guesses where the next ones are. */
        const uint8_t *later = task->input + task->offsets[tap_of(task->list[at_most(tap + AHEAD, task->taps - 1)])];
        for (int32_t i = 0; i < parts; i++) {
            const uint8_t *at = seen + i * PIXELS * ATOM;
#pragma GCC unroll 4
            for (int32_t line = 0; line < PIXELS * ATOM; line += 64)
                __builtin_prefetch(later + i * PIXELS * ATOM + line);
            uint8_t last[PIXELS * ATOM] = {0};
            __m512 x[CHANNELS];
            if (i == parts - 1 && left < PIXELS) {
                memcpy(last, at, (size_t)left * ATOM);
                at = last;
            }
            turn_pixels(at, x);
#pragma GCC unroll 8
            for (int32_t k = 0; k < CHANNELS; k++)
                sums[i] = _mm512_fmadd_ps(_mm512_set1_ps(_cvtsh_ss(weights[k * ATOM])), x[k], sums[i]);
        }
        for (int32_t i = 0; i < parts && ends_group(entry); i++) {
            totals[i] = _mm512_add_ps(totals[i], sums[i]);
            sums[i] = _mm512_setzero_ps();
        }
    }
    for (int32_t i = 0; i < parts; i++)
        _mm512_storeu_ps(ordered + i * PIXELS, _mm512_permutexvar_ps(order, totals[i]));
    for (int32_t p = 0; p < task->pixels; p++)
        task->sums[p * ATOM] = ordered[p];
}
