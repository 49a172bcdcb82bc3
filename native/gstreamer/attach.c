/* Results as metadata of a buffer.
 *
 * Every version of GStreamer has GstVideoRegionOfInterestMeta, and elements such as videoscale move and scale it. What it
 * has no field for is in its parameter "openrknn". Coordinates there are fractions of the region, so that they stay right
 * when the region is scaled. From 1.24 on the same results are GstAnalytics metadata as well, masks from 1.26. */
#include <gst/video/video.h>
#include <math.h>

#include "results.h"

#ifdef HAVE_ANALYTICS
#include <gst/analytics/analytics.h>
#endif

struct target {
    GstBuffer *buffer;
    const struct origin *origin;
    gint next; /* the number of the next region */
#ifdef HAVE_ANALYTICS
    GstAnalyticsRelationMeta *relations;
#endif
};

static guint whole(float value) { return value > 0 && value < 1e9f ? (guint)value : 0; }

/* The smallest region in whole pixels that covers the box; masks cover the same. */
static GstVideoRegionOfInterestMeta *add_region(struct target *target, const struct found *found) {
    guint left = whole(floorf(found->head.left)), top = whole(floorf(found->head.top));
    guint right = whole(ceilf(found->head.right)), bottom = whole(ceilf(found->head.bottom));
    GstVideoRegionOfInterestMeta *region = gst_buffer_add_video_region_of_interest_meta(
        target->buffer, found->label && *found->label ? found->label : found->head.kind == KIND_AREAS ? "areas" : "text", left, top,
        right > left ? right - left : 0, bottom > top ? bottom - top : 0);
    region->id = target->next++;
    region->parent_id = 0;
    if (found->head.region >= 0 && (guint)found->head.region < target->origin->n_regions)
        region->parent_id = (gint)target->origin->regions[found->head.region];
    return region;
}

static void append_double(GValue *array, double number) {
    GValue value = G_VALUE_INIT;
    g_value_init(&value, G_TYPE_DOUBLE);
    g_value_set_double(&value, number);
    gst_value_array_append_and_take_value(array, &value);
}

static void append_text(GValue *array, const char *text) {
    GValue value = G_VALUE_INIT;
    g_value_init(&value, G_TYPE_STRING);
    g_value_set_string(&value, text);
    gst_value_array_append_and_take_value(array, &value);
}

/* x and y (and more) of each point as fractions of the region. */
static void set_points(GstStructure *details, const char *name, const GstVideoRegionOfInterestMeta *region,
                       const float *points, guint count, guint per_point) {
    GValue array = G_VALUE_INIT;
    double width = MAX(region->w, 1u), height = MAX(region->h, 1u);
    g_value_init(&array, GST_TYPE_ARRAY);
    for (guint at = 0; at < count; at++, points += per_point) {
        append_double(&array, (points[0] - (double)region->x) / width);
        append_double(&array, (points[1] - (double)region->y) / height);
        if (per_point > 2) append_double(&array, points[2]);
    }
    gst_structure_take_value(details, name, &array);
}

static GstStructure *new_details(const struct target *target, const struct found *found, const char *kind) {
    return gst_structure_new(DETAILS_NAME, "kind", G_TYPE_STRING, kind, "source", G_TYPE_STRING, target->origin->source,
                             "fresh", G_TYPE_BOOLEAN, target->origin->is_fresh, "label", G_TYPE_STRING, found->label,
                             "class", G_TYPE_INT, (gint)found->head.number, "score", G_TYPE_DOUBLE,
                             (double)found->head.score, NULL);
}

/* ---------------------------------------------------------------- GstAnalytics */

#ifdef HAVE_ANALYTICS

/* The object that a region of an earlier model stands for, or -1. */
static gint64 object_of(const struct target *target, gint region_id) {
    guint number;
    GstVideoRegionOfInterestMeta *region =
        region_id > 0 ? gst_buffer_get_video_region_of_interest_meta_id(target->buffer, region_id) : NULL;
    GstStructure *details = region ? gst_video_region_of_interest_meta_get_param(region, DETAILS_NAME) : NULL;
    return details && gst_structure_get_uint(details, "analytics-id", &number) ? (gint64)number : -1;
}

static void relate(struct target *target, gint64 outer, guint inner) {
    if (outer < 0) return;
    gst_analytics_relation_meta_set_relation(target->relations, GST_ANALYTICS_REL_TYPE_CONTAIN, (guint)outer, inner);
    gst_analytics_relation_meta_set_relation(target->relations, GST_ANALYTICS_REL_TYPE_IS_PART_OF, inner, (guint)outer);
}

static void add_mask(struct target *target, const struct found *found, const GstVideoRegionOfInterestMeta *region,
                     gint64 object) {
#if GST_CHECK_VERSION(1, 26, 0)
    enum { LEVELS = 256 };
    GstAnalyticsSegmentationMtd mask;
    guint ids[LEVELS], count = LEVELS;
    gboolean is_object = found->head.kind == KIND_OBJECT;
    if (!found->mask) return;
    GstBuffer *pixels = gst_buffer_copy(gst_sample_get_buffer(found->mask));
    gsize offsets[GST_VIDEO_MAX_PLANES] = {0};
    gint strides[GST_VIDEO_MAX_PLANES] = {(gint)GST_ROUND_UP_4(found->head.mask_width)};
    gst_buffer_add_video_meta_full(pixels, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_FORMAT_GRAY8, found->head.mask_width,
                                   found->head.mask_height, 1, offsets, strides);
    /* An object's mask has 0 outside and 255 inside: every level is a region, as the library wants it. */
    for (guint level = 0; level < LEVELS; level++) ids[level] = level;
    if (gst_analytics_relation_meta_add_segmentation_mtd(
            target->relations, pixels, is_object ? GST_SEGMENTATION_TYPE_INSTANCE : GST_SEGMENTATION_TYPE_SEMANTIC, count,
            ids, (gint)region->x, (gint)region->y, region->w, region->h, &mask))
        relate(target, object, mask.id);
#else
    (void)target, (void)found, (void)region, (void)object;
#endif
}

static void add_object(struct target *target, const struct found *found, const GstVideoRegionOfInterestMeta *region,
                       GstStructure *details) {
    GstAnalyticsODMtd object;
    gboolean added;
    GQuark label = g_quark_from_string(found->label);
#if GST_CHECK_VERSION(1, 26, 0)
    if (found->corners && found->head.corners == 4) {
        const float *c = found->corners;
        double wide = hypot(c[2] - c[0], c[3] - c[1]), high = hypot(c[4] - c[2], c[5] - c[3]);
        double x = (c[0] + c[2] + c[4] + c[6]) / 4, y = (c[1] + c[3] + c[5] + c[7]) / 4;
        added = gst_analytics_relation_meta_add_oriented_od_mtd(
            target->relations, label, (gint)lround(x - wide / 2), (gint)lround(y - high / 2), (gint)lround(wide),
            (gint)lround(high), (gfloat)atan2(c[3] - c[1], c[2] - c[0]), found->head.score, &object);
    } else
#endif
        added = gst_analytics_relation_meta_add_od_mtd(target->relations, label, (gint)region->x, (gint)region->y,
                                                       (gint)region->w, (gint)region->h, found->head.score, &object);
    if (!added) return;
    gst_structure_set(details, "analytics-id", G_TYPE_UINT, object.id, NULL);
    relate(target, object_of(target, region->parent_id), object.id);
    add_mask(target, found, region, object.id);
}

static void add_classes(struct target *target, const struct found *found, guint count, gint parent) {
    g_autofree gfloat *scores = g_new(gfloat, count);
    g_autofree GQuark *labels = g_new(GQuark, count);
    GstAnalyticsClsMtd classes;
    for (guint at = 0; at < count; at++) {
        scores[at] = found[at].head.score;
        labels[at] = g_quark_from_string(found[at].label);
    }
    if (gst_analytics_relation_meta_add_cls_mtd(target->relations, count, scores, labels, &classes))
        relate(target, object_of(target, parent), classes.id);
}

#endif

/* ---------------------------------------------------------------- one record, or several of one ranking */

static void attach_object(struct target *target, const struct found *found) {
    GstVideoRegionOfInterestMeta *region = add_region(target, found);
    gboolean is_object = found->head.kind == KIND_OBJECT;
    GstStructure *details = new_details(target, found, is_object ? "object" : "text");
    if (found->text && *found->text) gst_structure_set(details, "text", G_TYPE_STRING, found->text, NULL);
    if (found->keypoints) set_points(details, "keypoints", region, found->keypoints, found->head.keypoints, 3);
    if (found->corners) set_points(details, "corners", region, found->corners, found->head.corners, 2);
    if (found->mask) gst_structure_set(details, "mask", GST_TYPE_SAMPLE, found->mask, NULL);
#ifdef HAVE_ANALYTICS
    if (is_object) add_object(target, found, region, details);
#endif
    gst_video_region_of_interest_meta_add_param(region, details);
}

static void attach_areas(struct target *target, const struct found *found) {
    GstVideoRegionOfInterestMeta *region = add_region(target, found);
    GstStructure *details = new_details(target, found, "areas");
    GValue labels = G_VALUE_INIT;
    g_auto(GStrv) names = g_strsplit(found->text, "\n", 0);
    g_value_init(&labels, GST_TYPE_ARRAY);
    for (char **name = names; *name; name++) append_text(&labels, *name);
    gst_structure_take_value(details, "labels", &labels);
    if (found->mask) gst_structure_set(details, "mask", GST_TYPE_SAMPLE, found->mask, NULL);
#ifdef HAVE_ANALYTICS
    add_mask(target, found, region, object_of(target, region->parent_id));
#endif
    gst_video_region_of_interest_meta_add_param(region, details);
}

/* The best of a ranking names the region; the lists have all. */
static void attach_classes(struct target *target, const struct found *found, guint count) {
    GstVideoRegionOfInterestMeta *region = add_region(target, found);
    GstStructure *details = new_details(target, found, "class");
    GValue labels = G_VALUE_INIT, scores = G_VALUE_INIT;
    g_value_init(&labels, GST_TYPE_ARRAY);
    g_value_init(&scores, GST_TYPE_ARRAY);
    for (guint at = 0; at < count; at++) {
        append_text(&labels, found[at].label);
        append_double(&scores, (double)found[at].head.score);
    }
    gst_structure_take_value(details, "labels", &labels);
    gst_structure_take_value(details, "scores", &scores);
#ifdef HAVE_ANALYTICS
    add_classes(target, found, count, region->parent_id);
#endif
    gst_video_region_of_interest_meta_add_param(region, details);
}

static gint highest_region(GstBuffer *buffer) {
    gpointer state = NULL;
    GstMeta *meta;
    gint highest = 0;
    while ((meta = gst_buffer_iterate_meta_filtered(buffer, &state, GST_VIDEO_REGION_OF_INTEREST_META_API_TYPE)))
        highest = MAX(highest, ((GstVideoRegionOfInterestMeta *)meta)->id);
    return highest;
}

static guint same_ranking(GArray *results, guint first) {
    const struct found *all = &g_array_index(results, struct found, 0);
    guint end = first;
    while (end < results->len && all[end].head.kind == KIND_CLASS && all[end].head.region == all[first].head.region) end++;
    return end - first;
}

void results_attach(GArray *results, GstBuffer *buffer, const struct origin *origin) {
    struct target target = {.buffer = buffer, .origin = origin, .next = highest_region(buffer) + 1};
#ifdef HAVE_ANALYTICS
    target.relations = gst_buffer_get_analytics_relation_meta(buffer);
    if (!target.relations && results->len) target.relations = gst_buffer_add_analytics_relation_meta(buffer);
#endif
    for (guint at = 0; at < results->len; at++) {
        const struct found *found = &g_array_index(results, struct found, at);
        switch (found->head.kind) {
        case KIND_OBJECT:
        case KIND_TEXT: attach_object(&target, found); break;
        case KIND_AREAS: attach_areas(&target, found); break;
        case KIND_CLASS: {
            guint count = same_ranking(results, at);
            attach_classes(&target, found, count);
            at += count - 1;
            break;
        }
        default: break; /* notes are for the bus */
        }
    }
}
