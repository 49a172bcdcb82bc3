/*
 * From a detector's outputs to its boxes. openrknn/vision/native.py mirrors the structure; the NumPy code in
 * openrknn/vision (nms.py, decoders/yolov8.py) says what each function has to compute.
 */
#include <string.h>

#include "internal.h"

enum { BLOCK = 1024, MOST_BINS = 64 };

/* The largest of `classes` scores of each cell of a block, as unsigned numbers: every processor has that maximum. */
static void largest(const int8_t *scores, int64_t pitch, int32_t classes, int64_t cells, uint8_t *best)
{
    memset(best, 0, (size_t)cells);
    for (int32_t number = 0; number < classes; number++) {
        const uint8_t *row = (const uint8_t *)scores + number * pitch;
        for (int64_t cell = 0; cell < cells; cell++) {
            uint8_t value = row[cell] ^ 0x80;
            best[cell] = value > best[cell] ? value : best[cell];
        }
    }
}

static int64_t class_of(const int8_t *scores, int64_t pitch, int8_t best)
{
    int64_t number = 0;
    while (scores[number * pitch] != best)
        number++;
    return number;
}

/* Distribution focal loss: the mean of `bins` distances, weighted by e^score; powers[d] = e^(-d * scale). */
static float mean_distance(const int8_t *scores, int64_t pitch, int32_t bins, const float *powers)
{
    int8_t bin[MOST_BINS];
    int top = -128;
    for (int32_t number = 0; number < bins; number++) {
        bin[number] = scores[number * pitch];
        top = bin[number] > top ? bin[number] : top;
    }
    float sum = 0, moment = 0;
    for (int32_t number = 0; number < bins; number++) {
        float power = powers[top - bin[number]];
        sum += power;
        moment += power * (float)number;
    }
    return moment / sum;
}

int64_t openrknn_pick(const openrknn_picking *pick)
{
    uint8_t best[BLOCK];
    int64_t count = 0;
    if (pick->bins < 2 || pick->bins > MOST_BINS)
        return -1;
    for (int64_t first = 0; first < pick->cells; first += BLOCK) {
        int64_t cells = pick->cells - first < BLOCK ? pick->cells - first : BLOCK;
        largest(pick->scores + first, pick->cells, pick->classes, cells, best);
        for (int64_t cell = 0; cell < cells; cell++) {
            int8_t value = (int8_t)(best[cell] ^ 0x80);
            if (value < pick->limit)
                continue;
            int64_t place = first + cell;
            pick->chosen[count] = place;
            pick->best[count] = value;
            pick->kinds[count] = class_of(pick->scores + place, pick->cells, value);
            for (int32_t side = 0; side < 4; side++)
                pick->distances[side * pick->cells + count] = mean_distance(
                    pick->boxes + side * pick->bins * pick->cells + place, pick->cells, pick->bins, pick->powers);
            count++;
        }
    }
    return count;
}

static float area_of(const float *box)
{
    float width = box[2] - box[0], height = box[3] - box[1];
    return (width > 0 ? width : 0) * (height > 0 ? height : 0);
}

/* Whether two boxes overlap by more than a part of what they cover together. */
ALWAYS_INLINE int overlaps(const float *a, float area_a, const float *b, float area_b, float overlap)
{
    float left = a[0] > b[0] ? a[0] : b[0], top = a[1] > b[1] ? a[1] : b[1];
    float width = (a[2] < b[2] ? a[2] : b[2]) - left, height = (a[3] < b[3] ? a[3] : b[3]) - top;
    float both = (width > 0 ? width : 0) * (height > 0 ? height : 0);
    float together = area_a + area_b - both;
    return both / (together > 0x1p-126f ? together : 0x1p-126f) > overlap;
}

int64_t openrknn_suppress(
    const float *boxes, const int64_t *classes, const int64_t *order, int64_t boxes_count, float overlap, int64_t limit,
    int64_t *kept)
{
    int64_t count = 0;
    for (int64_t turn = 0; turn < boxes_count && count < limit; turn++) {
        int64_t row = order[turn], rival = 0;
        const float *box = boxes + 4 * row;
        float area = area_of(box);
        for (; rival < count; rival++) {
            const float *other = boxes + 4 * kept[rival];
            if (classes[kept[rival]] == classes[row] && overlaps(other, area_of(other), box, area, overlap))
                break;
        }
        if (rival == count)
            kept[count++] = row;
    }
    return count;
}
