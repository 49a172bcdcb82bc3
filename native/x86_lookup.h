/*
 * Tables in single precision for AVX2 and AVX-512: lane_lookup.h says why and when. The file that includes this one defines,
 * of as many numbers as a vector has,
 *
 *     lookup_ints, lookup_mask      integers of 32 bits; which numbers are chosen
 *     lookup_set(i), lookup_bits(x), lookup_float(i)    the same integer, the bits of floats, integers as floats
 *     lookup_negative(x)            x < 0
 *     lookup_choose(mask, yes, no)  floats, and lookup_choose_ints
 *     lookup_less_one(i, mask)      i - 1 where chosen
 *     lookup_store(at, i), lookup_joined(fours)    to memory; four numbers of each of these registers, one behind the other
 *     lookup_sums(pairs, by)        the sum of both halves, each times its half of `by`
 *     lookup_least, lookup_most     as MINPS and MAXPS: the second number where one is no number
 *     lookup_is_odd(value, place)   whether doubles have to compute one of these
 *     lookup_any_is(x, number)      whether one of them is that
 *     look_up_doubles(lookup, x, count)
 */
#define OWN_LOOK_UP

/*
 * Entries i and i + 1 of 16 bits, as the lower and the upper half. Loads, as gathers are slow on processors with microcode
 * against data sampling: on a Cascade Lake, 16 numbers take 35 cycles instead of 40, and 49 instead of 72 with AVX2. The
 * assembly keeps compilers from loads into other registers.
 */
ALWAYS_INLINE __m128i lookup_four(uintptr_t base, const uint32_t *at)
{
#define LOOKUP_PAIR(i) (const void *)(base + at[i] * sizeof(int16_t))
    int32_t first, third;
    memcpy(&first, LOOKUP_PAIR(0), sizeof first);
    memcpy(&third, LOOKUP_PAIR(2), sizeof third);
    __m128i low = _mm_cvtsi32_si128(first), high = _mm_cvtsi32_si128(third);
    __asm__("vpinsrd $1, %1, %0, %0" : "+x"(low) : "m"(*(const int32_t *)LOOKUP_PAIR(1)));
    __asm__("vpinsrd $1, %1, %0, %0" : "+x"(high) : "m"(*(const int32_t *)LOOKUP_PAIR(3)));
    return _mm_unpacklo_epi64(low, high);
#undef LOOKUP_PAIR
}

ALWAYS_INLINE lookup_ints lookup_pairs(uintptr_t base, lookup_ints at)
{
    uint32_t places[16 / NF] __attribute__((aligned(64)));
    __m128i fours[4 / NF];
    lookup_store(places, at);
    __asm__("" : "+m"(places)); /* through memory: compilers would extract them one by one */
#pragma GCC unroll 4
    for (int32_t i = 0; i < 4 / NF; i++)
        fours[i] = lookup_four(base, places + 4 * i);
    return lookup_joined(fours);
}

/* `is_flat`: below the tables their first number goes on. */
ALWAYS_INLINE void look_up_singles(const lane_lookup *given, float32 *x, int32_t count, const int32_t is_flat)
{
    enum { LANES_AT_ONCE = 16 / NF, LEFT = 1, RIGHT = 1 << 16, RIGHT_LESS_LEFT = (1 << 16) + 0xffff };
    const lane_lookup lookup = *given;
    const floats le_scale = floats_set((float32)lookup.le_scale), lo_scale = floats_set((float32)lookup.lo_scale);
    const floats rounding = floats_set(ROUNDING), last = floats_set(ROUNDING + (PIECES - 1));
    /* The bits of ROUNDING are the place 0. */
    const uintptr_t base = (uintptr_t)(lookup.shorts + ENTRIES) - (uintptr_t)ROUNDING_BITS * sizeof *lookup.shorts;

    for (int32_t i = 0; i < count; i += LANES_AT_ONCE) {
        const floats value = floats_load(x + i);
        const lookup_mask is_low = lookup_negative(value);
        floats place = floats_multiply(value, lookup_choose(is_low, le_scale, lo_scale));
        int32_t is_odd = 0;
        if (is_flat) { /* what goes on is first + (x - le_start) * 0: no number for an infinite one */
            is_odd = lookup_any_is(value, -INFINITY);
            place = lookup_most(floats_set(-PIECES), place);
        }
        /* The nearest entry but the ends, and an entry where there is none: beyond the tables, and of what is no number. */
        floats nearest = lookup_least(floats_add(place, rounding), last);
        if (!is_flat)
            nearest = lookup_most(nearest, floats_set(ROUNDING - (PIECES - 1)));
        const floats part = floats_subtract(place, floats_subtract(nearest, rounding));
        /* Of a number before the nearest entry, the piece before it counts; pieces of the first table are one further off. */
        const lookup_mask is_before = lookup_negative(part);
        const lookup_ints at = lookup_less_one(lookup_less_one(lookup_bits(nearest), is_low), is_before);
        if (is_odd | lookup_is_odd(value, place)) {
            look_up_doubles(&lookup, x + i, LANES_AT_ONCE);
            continue;
        }
        const lookup_ints pairs = lookup_pairs(base, at);
        const lookup_ints entry = lookup_sums(pairs, lookup_choose_ints(is_before, lookup_set(RIGHT), lookup_set(LEFT)));
        const lookup_ints slope = lookup_sums(pairs, lookup_set(RIGHT_LESS_LEFT));
        floats_store(x + i, floats_multiply_add(lookup_float(slope), part, lookup_float(entry)));
    }
}

/* `count` numbers, a multiple of 16. */
static void look_up_lanes(const lane_lookup *lookup, float32 *x, int32_t count)
{
    if (!lookup->shorts || !meets_at_zero(lookup))
        look_up_doubles(lookup, x, count);
    else if (lookup->below == 0)
        look_up_singles(lookup, x, count, 1);
    else
        look_up_singles(lookup, x, count, 0);
}
