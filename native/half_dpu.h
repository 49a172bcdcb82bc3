/*
 * The DPU on fp16, on registers, for every instruction set with vectors: general_stages.h's stages of floating point. A
 * pixel's 16 channels are NF vectors, which go from memory through all stages and back without a stop. general_template.h
 * asks for it with OWN_HALVES, and says what it means; what is neither fp16 nor fp32 stays there.
 *
 * The file that includes this one defines, beside what float_template.h needs,
 *
 *     floats_subtract, floats_divide, floats_abs, floats_negate, floats_floor, floats_ceil
 *     floats_larger, floats_smaller   as general_stages.h's larger and smaller
 *     floats_if_less(a, b, yes, no)   a < b ? yes : no
 *     floats_quiet(x)                 with one NaN for all, 0x7fc00000
 *     halves_load(from, out)          16 fp16 numbers, of two atoms from[0] and from[1], as NF vectors
 *     halves_same(bits)               a vector of one fp16 number
 *     half_lanes                      16 fp16 numbers; half_lanes_load(at), half_lanes_merge(x, kept, filling): x & kept
 *                                     | filling, half_lanes_store(low, high, x): to two atoms
 *     half_lanes_of(x)                NF vectors as fp16, with one NaN for all
 *
 * and with OWN_LOOK_UP the function look_up_lanes(lookup, x, count), which lane_lookup.h has in plain C.
 */
#include "lane_lookup.h"

#define OWN_HALVES

#ifndef OWN_LOOK_UP
#define look_up_lanes look_up_plain
#endif

typedef struct {
    floats v[NF];
} lanes16;

enum { VECTOR = GENERAL_LANES / NF };
#define EACH_VECTOR _Pragma("GCC unroll 4") for (int32_t v = 0; v < NF; v++)

ALWAYS_INLINE lanes16 lanes_load(const float32 *at)
{
    lanes16 x;
    EACH_VECTOR x.v[v] = floats_load(at + VECTOR * v);
    return x;
}

ALWAYS_INLINE void lanes_store(float32 *at, const lanes16 *x)
{
    EACH_VECTOR floats_store(at + VECTOR * v, x->v[v]);
}

ALWAYS_INLINE lanes16 lanes_set(float32 value)
{
    lanes16 x;
    EACH_VECTOR x.v[v] = floats_set(value);
    return x;
}

/* Of two atoms of fp16. */
ALWAYS_INLINE lanes16 lanes_of_halves(const uint8_t *low, const uint8_t *high)
{
    const uint8_t *const from[2] = {low, high};
    lanes16 x;
    halves_load(from, x.v);
    return x;
}

ALWAYS_INLINE void clamp_lanes(const openrknn_clamp *clamp, lanes16 *x)
{
    const int32_t kinds = clamp->kinds;
    if (!kinds)
        return;
    const floats lower = floats_set(clamp->lower_float), upper = floats_set(clamp->upper_float);
    if (kinds & OPENRKNN_CLAMP_BELOW) {
        const floats below = floats_set(clamp->below_float);
        EACH_VECTOR x->v[v] = floats_if_less(x->v[v], lower, below, x->v[v]);
    } else if (kinds & OPENRKNN_CLAMP_LOWER)
        EACH_VECTOR x->v[v] = floats_larger(x->v[v], lower);
    if (kinds & OPENRKNN_CLAMP_UPPER)
        EACH_VECTOR x->v[v] = floats_smaller(x->v[v], upper);
}

ALWAYS_INLINE floats times_if_negative(floats x, floats factor)
{
    return floats_if_less(x, floats_set(0.0f), floats_multiply(x, factor), x);
}

/* A stage with its operands in registers. */
typedef struct {
    lanes16 addends, factors;
    int32_t adds_first, adds_last, multiplies, negative_only, clamps;
    const openrknn_clamp *clamp;
} lane_stage;

ALWAYS_INLINE lane_stage stage_of(const openrknn_stage *stage, int32_t channel)
{
    lane_stage made = {
        .adds_first = stage->addends && !stage->multiplies_first,
        .adds_last = stage->addends && stage->multiplies_first,
        .multiplies = stage->factors != NULL,
        .negative_only = stage->negative_only,
        .clamps = stage->clamp.kinds,
        .clamp = &stage->clamp,
    };
    made.addends = made.factors = lanes_set(0.0f);
    if (stage->addends)
        made.addends = lanes_load((const float32 *)stage->addends + channel);
    if (stage->addends && stage->subtracts) /* x - a is x + -a */
        EACH_VECTOR made.addends.v[v] = floats_negate(made.addends.v[v]);
    if (stage->factors)
        made.factors = lanes_load((const float32 *)stage->factors + channel);
    return made;
}

ALWAYS_INLINE void stage_lanes(const lane_stage *stage, lanes16 *x)
{
    if (stage->adds_first)
        EACH_VECTOR x->v[v] = floats_add(x->v[v], stage->addends.v[v]);
    if (stage->multiplies) {
        if (stage->negative_only)
            EACH_VECTOR x->v[v] = times_if_negative(x->v[v], stage->factors.v[v]);
        else
            EACH_VECTOR x->v[v] = floats_multiply(x->v[v], stage->factors.v[v]);
    }
    if (stage->adds_last)
        EACH_VECTOR x->v[v] = floats_add(x->v[v], stage->addends.v[v]);
    if (stage->clamps)
        clamp_lanes(stage->clamp, x);
}

/* ---------------------------------------------------------------------------------------------- two numbers */

ALWAYS_INLINE void operate_lanes(int32_t operation, int32_t negative_only, lanes16 *x, const lanes16 *e)
{
    switch (operation) {
    case OPENRKNN_MAX:
        EACH_VECTOR x->v[v] = floats_larger(x->v[v], e->v[v]);
        break;
    case OPENRKNN_MIN:
        EACH_VECTOR x->v[v] = floats_smaller(x->v[v], e->v[v]);
        break;
    case OPENRKNN_ADD:
        EACH_VECTOR x->v[v] = floats_add(x->v[v], e->v[v]);
        break;
    case OPENRKNN_DIVIDE:
        EACH_VECTOR x->v[v] = floats_divide(x->v[v], e->v[v]);
        break;
    case OPENRKNN_MINUS:
        EACH_VECTOR x->v[v] = floats_subtract(x->v[v], e->v[v]);
        break;
    case OPENRKNN_ABS:
        EACH_VECTOR x->v[v] = floats_abs(x->v[v]);
        break;
    case OPENRKNN_NEGATE:
        EACH_VECTOR x->v[v] = floats_negate(x->v[v]);
        break;
    case OPENRKNN_FLOOR:
        EACH_VECTOR x->v[v] = floats_floor(x->v[v]);
        break;
    case OPENRKNN_CEIL:
        EACH_VECTOR x->v[v] = floats_ceil(x->v[v]);
        break;
    case OPENRKNN_MULTIPLY:
        if (negative_only)
            EACH_VECTOR x->v[v] = times_if_negative(x->v[v], e->v[v]);
        else
            EACH_VECTOR x->v[v] = floats_multiply(x->v[v], e->v[v]);
        break;
    default:
        break;
    }
}

#include "half_run.h"
