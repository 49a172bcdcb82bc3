/*
 * The lookup tables of the DPU in floating point: what look_up_lanes needs, look_up_lanes in plain C, and when single
 * precision gives the same bits.
 */
#ifndef OPENRKNN_LANE_LOOKUP_H
#define OPENRKNN_LANE_LOOKUP_H

#include <math.h>

#include "internal.h"

typedef struct {
    const int64_t *entries;
    const int16_t *shorts; /* or NULL */
    double le_start, lo_start, lo_end, le_scale, lo_scale, below, above, first, last;
} lane_lookup;

ALWAYS_INLINE lane_lookup lookup_of(const openrknn_lookup *lookup)
{
    if (!lookup->entries)
        return (lane_lookup){0};
    return (lane_lookup){
        .entries = lookup->entries,
        .shorts = lookup->shorts,
        .le_start = (double)lookup->le_start,
        .lo_start = (double)lookup->lo_start,
        .lo_end = (double)lookup->lo_end,
        /* Powers of two: a product with the reciprocal is the quotient. */
        .le_scale = ldexp(1.0, -lookup->le_select),
        .lo_scale = ldexp(1.0, -lookup->lo_select),
        .below = (double)lookup->below_scale / ldexp(1.0, lookup->below_shift),
        .above = (double)lookup->above_scale / ldexp(1.0, lookup->above_shift),
        .first = (double)lookup->entries[0],
        .last = (double)lookup->entries[2 * ENTRIES - 1],
    };
}

/* `count` numbers. */
static inline void look_up_plain(const lane_lookup *given, float32 *x, int32_t count)
{
    const lane_lookup lookup = *given; /* in registers */
    for (int32_t i = 0; i < count; i++) {
        double value = x[i], y;
        int32_t is_high = !(value < lookup.lo_start);
        const int64_t *table = lookup.entries + (is_high ? ENTRIES : 0);
        double place = (value - (is_high ? lookup.lo_start : lookup.le_start)) * (is_high ? lookup.lo_scale : lookup.le_scale);
        place = place > 0 ? place : 0; /* NaN too */
        place = place < ENTRIES - 1 ? place : ENTRIES - 1;
        int64_t index = (int64_t)place < ENTRIES - 2 ? (int64_t)place : ENTRIES - 2;
        double low = (double)table[index], high = (double)table[index + 1];
        y = low + (high - low) * (place - (double)index);
        if (value < lookup.le_start)
            y = lookup.first + (value - lookup.le_start) * lookup.below;
        if (value > lookup.lo_end)
            y = lookup.last + (value - lookup.lo_end) * lookup.above;
        x[i] = (float32)y;
    }
}

/*
 * In single precision, where the tables meet at 0 and end with their last entries. The place of a number is the number
 * times a power of two, and its distance from the nearest entry is a multiple of the same power of two as the place, and
 * not larger: both are exact. The sum with the product by the slope (one multiply-add) is rounded once, to what the doubles
 * of look_up_plain are rounded to, because these are exact: with places from SMALLEST_PLACE on, a sum has at most 17 bits
 * before the point (of differences of 16-bit entries) and 23 + 12 behind it. All other places but that of 0, and beyond the
 * tables, take doubles.
 */
#define SMALLEST_PLACE 0x1p-12f
#define ROUNDING 0x1.8p23f /* a small number and this one: the nearest integer, in the lower bits */
enum { PIECES = ENTRIES - 1, ROUNDING_BITS = 0x4b400000 };

static inline int32_t meets_at_zero(const lane_lookup *lookup)
{
    return lookup->lo_start == 0 && lookup->le_start * lookup->le_scale == -PIECES && lookup->lo_end * lookup->lo_scale == PIECES;
}

#endif
