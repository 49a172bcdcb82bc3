/* The lookup tables of the DPU in floating point: what look_up_lanes needs, and look_up_lanes in plain C. */
#ifndef OPENRKNN_LANE_LOOKUP_H
#define OPENRKNN_LANE_LOOKUP_H

#include <math.h>

#include "internal.h"

typedef struct {
    const int64_t *entries;
    double le_start, lo_start, lo_end, le_scale, lo_scale, below, above, first, last;
} lane_lookup;

ALWAYS_INLINE lane_lookup lookup_of(const openrknn_lookup *lookup)
{
    if (!lookup->entries)
        return (lane_lookup){0};
    return (lane_lookup){
        .entries = lookup->entries,
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

#endif
