/*
 * The DPU's chain in single precision with AVX-512 (openrknn.h: SINGLE): an atom is one vector, where doubles need two. A
 * rounded number is M + x with M = 1.5 * 2^23, whose lower bits are x.
 */
enum { SINGLE_BITS = 0x4b400000 }; /* of M */
#define SINGLE_MAGIC 12582912.0f

/* What all pixels of an atom share. */
typedef struct {
    __m512 scale;
    __m512i factors, addends;
    float32 norm, norm_addend, middle_low, middle_high;
    float32 operand, operand_before, operand_addend, out, out_addend; /* OUT_FUSED: with -M * out */
    int32_t low, high, byte_low, byte_high;
} single_factors;

/* What is added to M + x, times the scale of the output. */
ALWAYS_INLINE double single_fused(const openrknn_chain *chain)
{
    return SINGLE_MAGIC + chain->out_addend - SINGLE_MAGIC * chain->out_scale;
}

/* Whether no sum of these channels reaches the limit. Bounds are a little larger than exact. */
ALWAYS_INLINE int32_t single_holds(const chain_task *task)
{
    const __m512 addends = _mm512_abs_ps(_mm512_cvtepi32_ps(_mm512_loadu_si512(task->chain->addends + task->channel)));
    const __m512 sums = _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_loadu_si512(task->magnitudes)), _mm512_set1_ps(128.0f), addends);
    const __m512 limit = _mm512_set1_ps((float32)task->chain->sum_limit * (1.0f - 1.0f / 1024));
    return _mm512_cmp_ps_mask(sums, limit, _CMP_NLT_UQ) == 0;
}

ALWAYS_INLINE single_factors single_start(const chain_task *task, const int32_t flags, const int32_t has_bytes)
{
    const openrknn_chain *chain = task->chain;
    single_factors k = {0};
    if (flags & OPENRKNN_CHAIN_SCALE) {
        const double *scales = chain->scales + task->channel;
        k.scale = _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(_mm512_loadu_pd(scales))),
                                     _mm512_cvtpd_ps(_mm512_loadu_pd(scales + 8)), 1);
    }
    k.norm = (float32)chain->norm_scale;
    k.norm_addend = SINGLE_MAGIC + (float32)chain->norm_addend;
    k.middle_low = (float32)chain->middle_low;
    k.middle_high = (float32)chain->middle_high;
    k.operand = (float32)chain->operand_scale;
    k.operand_before = chain->operand_before;
    k.operand_addend = SINGLE_MAGIC + chain->operand_after;
    k.out = (float32)chain->out_scale;
    k.out_addend = flags & OPENRKNN_CHAIN_OUT_FUSED ? (float32)single_fused(chain) : SINGLE_MAGIC + (float32)chain->out_addend;
    k.low = -chain->sum_limit;
    k.high = chain->sum_limit;
    k.byte_low = chain->byte_low;
    k.byte_high = chain->byte_high;
    if (has_bytes)
        k.addends = _mm512_loadu_si512(chain->addends + task->channel);
    if (task->window) { /* f * (w % 128) + f * 128 * (w / 128) */
        const __m512i f = _mm512_loadu_si512(task->factors);
        k.factors = _mm512_or_si512(_mm512_and_si512(f, _mm512_set1_epi32(0xffff)), _mm512_slli_epi32(f, 16 + WINDOW_LOW_BITS));
    }
    return k;
}

/* The number before the stages that follow the scales, without M; OUT_FUSED: with M. */
ALWAYS_INLINE __m512 single_scaled(__m512i x, const single_factors *k, const int32_t flags)
{
    if (flags & OPENRKNN_CHAIN_SINGLE_CLAMP)
        x = _mm512_min_epi32(_mm512_max_epi32(x, _mm512_set1_epi32(k->low)), _mm512_set1_epi32(k->high));
    const __m512 number = _mm512_cvtepi32_ps(x), magic = _mm512_set1_ps(SINGLE_MAGIC);
    if (flags & OPENRKNN_CHAIN_SINGLE_WHOLE)
        return _mm512_mul_ps(number, k->scale);
    if (flags & OPENRKNN_CHAIN_OUT_FUSED)
        return _mm512_fmadd_ps(number, k->scale, magic);
    return flags & OPENRKNN_CHAIN_SCALE ? _mm512_sub_ps(_mm512_fmadd_ps(number, k->scale, magic), magic) : number;
}

/* M + x as x. */
ALWAYS_INLINE __m512i single_whole(__m512 x)
{
    return _mm512_sub_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(SINGLE_BITS));
}

ALWAYS_INLINE __m512i single_result(__m512 x, const int8_t *operand, __mmask16 seen, const single_factors *k, const int32_t flags)
{
    const __m512 magic = _mm512_set1_ps(SINGLE_MAGIC);
    if (flags & OPENRKNN_CHAIN_NORM)
        x = _mm512_sub_ps(_mm512_fmadd_ps(x, _mm512_set1_ps(k->norm), _mm512_set1_ps(k->norm_addend)), magic);
    if (flags & OPENRKNN_CHAIN_MIDDLE_CLAMP)
        x = _mm512_min_ps(_mm512_max_ps(x, _mm512_set1_ps(k->middle_low)), _mm512_set1_ps(k->middle_high));
    if (flags & CHAIN_OPERANDS) {
        const __m512 bytes = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(seen, operand)));
        const __m512 moved = _mm512_add_ps(bytes, _mm512_set1_ps(k->operand_before));
        const __m512 e = _mm512_sub_ps(_mm512_fmadd_ps(moved, _mm512_set1_ps(k->operand), _mm512_set1_ps(k->operand_addend)), magic);
        if (flags & OPENRKNN_CHAIN_ADD)
            x = _mm512_add_ps(x, e);
        if (flags & OPENRKNN_CHAIN_MAX)
            x = _mm512_max_ps(x, e);
        if (flags & OPENRKNN_CHAIN_MIN)
            x = _mm512_min_ps(x, e);
    }
    return single_whole(_mm512_fmadd_ps(x, _mm512_set1_ps(k->out), _mm512_set1_ps(k->out_addend)));
}

/* The sum of pixel `p`, or its byte and the addend; nothing is read where `seen` is 0. */
ALWAYS_INLINE __m512i single_load(const chain_task *task, int32_t p, __mmask16 seen, const single_factors *k, const int32_t has_bytes)
{
    if (has_bytes)
        return _mm512_add_epi32(_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(seen, task->bytes + p * ATOM)), k->addends);
    const __m512i sums = _mm512_maskz_loadu_epi32(seen, task->sums + p * ATOM);
    return task->window ? _mm512_dpwssd_epi32(sums, k->factors, _mm512_set1_epi32(seen ? task->window[p] : 0)) : sums;
}

/* Four pixels, of which `stored` are there. */
ALWAYS_INLINE void single_four(const chain_task *task, int32_t p, const int32_t stored, int32_t operand_step,
                               const single_factors *k, const int32_t flags, const int32_t has_bytes)
{
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    __m512i x[PX];
    _Pragma("GCC unroll 4") for (int32_t i = 0; i < PX; i++)
    {
        const __mmask16 seen = i < stored ? 0xffff : 0;
        const __m512i sums = single_load(task, p + i, seen, k, has_bytes);
        x[i] = single_result(single_scaled(sums, k, flags), task->operand + (p + i) * operand_step, seen, k, flags);
    }
    __m512i bytes = _mm512_packs_epi16(_mm512_packs_epi32(x[0], x[1]), _mm512_packs_epi32(x[2], x[3]));
    bytes = _mm512_min_epi8(_mm512_max_epi8(bytes, _mm512_set1_epi8((char)k->byte_low)), _mm512_set1_epi8((char)k->byte_high));
    bytes = _mm512_permutexvar_epi32(order, bytes);
    if (stored == PX)
        _mm512_storeu_si512(task->target + p * ATOM, bytes);
    else
        _mm512_mask_storeu_epi32(task->target + p * ATOM, (__mmask16)((1u << (stored * 4)) - 1), bytes);
}

ALWAYS_INLINE void single_pixels(const chain_task *given, const int32_t flags, const int32_t has_bytes)
{
    const chain_task task = *given; /* a store of bytes could change anything that has an address */
    const single_factors k = single_start(&task, flags, has_bytes);
    const int32_t operand_step = task.operand_is_fixed ? 0 : ATOM, pixels = task.pixels;
    int32_t p = 0;
    for (; p + PX <= pixels; p += PX)
        single_four(&task, p, PX, operand_step, &k, flags, has_bytes);
    if (p < pixels)
        single_four(&task, p, pixels - p, operand_step, &k, flags, has_bytes);
}

/* The programs that most tasks have get loops of their own. Tables stay with doubles: gathers are what takes their time. */
static void single_run(const chain_task *task)
{
    enum {
        IGNORED = OPENRKNN_CHAIN_SINGLE | OPENRKNN_CHAIN_LAST_CLAMP | OPENRKNN_CHAIN_OUT_FUSED | OPENRKNN_CHAIN_NORM_FUSED |
                  OPENRKNN_CHAIN_ROUND_OPERAND | OPENRKNN_CHAIN_SINGLE_WIDE,
        PLAIN = OPENRKNN_CHAIN | OPENRKNN_CHAIN_SCALE,
        ADDED = PLAIN | OPENRKNN_CHAIN_ADD,
        CLAMP = OPENRKNN_CHAIN_SINGLE_CLAMP,
        FUSED_OUT = PLAIN | OPENRKNN_CHAIN_OUT_FUSED, /* here: without a subtraction of M in between */
    };
    const openrknn_chain *chain = task->chain;
    int32_t flags = chain->flags & ~IGNORED;

    if (chain->flags & OPENRKNN_CHAIN_TABLE || !(chain->flags & OPENRKNN_CHAIN_SINGLE)) {
        chain_run(task);
        return;
    }
    if (flags & CLAMP && task->magnitudes && single_holds(task))
        flags &= ~CLAMP;
    if (task->bytes)
        single_pixels(task, flags, 1);
    else if ((flags & ~CLAMP) == PLAIN && (double)(float32)single_fused(chain) == single_fused(chain)) {
        if (flags & CLAMP)
            single_pixels(task, FUSED_OUT | CLAMP, 0);
        else
            single_pixels(task, FUSED_OUT, 0);
    } else if (flags == ADDED)
        single_pixels(task, ADDED, 0);
    else if (flags == (ADDED | CLAMP))
        single_pixels(task, ADDED | CLAMP, 0);
    else
        single_pixels(task, flags, 0);
}

#undef CHAIN_KERNEL
#define CHAIN_KERNEL single_run
