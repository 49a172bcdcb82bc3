/* The element `openrknnoverlay`: draws what is attached to video frames into them. */
#include "overlay.h"

#include <math.h>
#include <string.h>

#include "frames.h"
#include "results.h"

struct _OpenrknnOverlay {
    GstVideoFilter parent;
    gboolean has_boxes, has_labels, has_masks, has_keypoints;
    guint line_width;
    double opacity;
    char *font;
    struct text_store *texts;
};

G_DEFINE_FINAL_TYPE(OpenrknnOverlay, openrknn_overlay, GST_TYPE_VIDEO_FILTER)

enum property { PROP_BOXES = 1, PROP_LABELS, PROP_MASKS, PROP_KEYPOINTS, PROP_LINE_WIDTH, PROP_OPACITY, PROP_FONT };

static GstStaticPadTemplate sink_template = GST_STATIC_PAD_TEMPLATE(
    "sink", GST_PAD_SINK, GST_PAD_ALWAYS, GST_STATIC_CAPS(GST_VIDEO_CAPS_MAKE(FRAME_FORMATS)));
static GstStaticPadTemplate source_template = GST_STATIC_PAD_TEMPLATE(
    "src", GST_PAD_SRC, GST_PAD_ALWAYS, GST_STATIC_CAPS(GST_VIDEO_CAPS_MAKE(FRAME_FORMATS)));

static const uint8_t WHITE[3] = {255, 255, 255}, DARK[3] = {24, 24, 28};
enum { LISTED = 5, SMALLEST_TEXT = 12, MARGIN = 3 };
static const double VISIBLE = 0.5;

/* One frame that is drawn on; sizes follow the frame's. */
struct sheet {
    const OpenrknnOverlay *self;
    GstVideoFrame *frame;
    gint thickness, text_height;
    gint panel; /* where the next line in the upper left corner goes */
};

/* ---------------------------------------------------------------- reading the metadata */

static const uint8_t *colour_of(const GstStructure *details) {
    gint number = 0;
    if (details) gst_structure_get_int(details, "class", &number);
    return PALETTE[(guint)MAX(number, 0) % G_N_ELEMENTS(PALETTE)];
}

static const uint8_t *readable_on(const uint8_t colour[3]) {
    return 0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2] > 140 ? DARK : WHITE;
}

static double number_at(const GValue *array, guint at) {
    const GValue *value = gst_value_array_get_value(array, at);
    return G_VALUE_HOLDS_DOUBLE(value) ? g_value_get_double(value) : 0;
}

static const GValue *array_of(const GstStructure *details, const char *name) {
    const GValue *value = details ? gst_structure_get_value(details, name) : NULL;
    return value && GST_VALUE_HOLDS_ARRAY(value) ? value : NULL;
}

static const char *text_of(const GstStructure *details, const char *name) {
    const char *text = details ? gst_structure_get_string(details, name) : NULL;
    return text ? text : "";
}

static struct area area_of(const GstVideoRegionOfInterestMeta *region) {
    enum { FAR = 1 << 24 };
    return (struct area){(gint)MIN(region->x, FAR), (gint)MIN(region->y, FAR), (gint)MIN(region->w, FAR), (gint)MIN(region->h, FAR)};
}

/* ---------------------------------------------------------------- labels */

static struct area text_box(const struct coverage *text, gint x, gint y) {
    return (struct area){x, y, text->width + 2 * MARGIN, text->height + 2 * MARGIN};
}

static void draw_text(struct sheet *sheet, const char *text, gint x, gint y, gboolean above, const uint8_t colour[3]) {
    if (!*text) return;
    const struct coverage *letters = text_render(sheet->self->texts, text, sheet->self->font, sheet->text_height);
    struct area box = text_box(letters, x, y);
    if (above) box.y = y >= box.height ? y - box.height : y;
    box.x = CLAMP(box.x, 0, MAX(GST_VIDEO_FRAME_WIDTH(sheet->frame) - box.width, 0));
    paint_fill(sheet->frame, box, paint_of(sheet->frame, colour));
    paint_cover(sheet->frame, (struct area){box.x + MARGIN, box.y + MARGIN, letters->width, letters->height}, letters,
                paint_of(sheet->frame, readable_on(colour)));
}

static void draw_panel_line(struct sheet *sheet, const char *text, const uint8_t colour[3]) {
    if (!*text) return;
    const struct coverage *letters = text_render(sheet->self->texts, text, sheet->self->font, sheet->text_height);
    struct area box = text_box(letters, sheet->text_height, sheet->panel);
    paint_fill(sheet->frame, (struct area){0, box.y, sheet->text_height, box.height}, paint_of(sheet->frame, colour));
    draw_text(sheet, text, box.x, box.y, FALSE, DARK);
    sheet->panel += box.height;
}

/* ---------------------------------------------------------------- masks */

static void draw_mask(struct sheet *sheet, const GstVideoRegionOfInterestMeta *region, const GstStructure *details,
                      const struct paint *levels, guint *histogram) {
    const GValue *value = details ? gst_structure_get_value(details, "mask") : NULL;
    GstSample *sample = value && G_VALUE_HOLDS(value, GST_TYPE_SAMPLE) ? gst_value_get_sample(value) : NULL;
    GstVideoInfo info;
    GstVideoFrame mask;
    if (!sample || !gst_sample_get_caps(sample) || !gst_video_info_from_caps(&info, gst_sample_get_caps(sample)) ||
        GST_VIDEO_INFO_FORMAT(&info) != GST_VIDEO_FORMAT_GRAY8 ||
        !gst_video_frame_map(&mask, &info, gst_sample_get_buffer(sample), GST_MAP_READ))
        return;
    struct coverage coverage = {GST_VIDEO_FRAME_PLANE_DATA(&mask, 0), GST_VIDEO_FRAME_WIDTH(&mask),
                                GST_VIDEO_FRAME_HEIGHT(&mask), GST_VIDEO_FRAME_PLANE_STRIDE(&mask, 0),
                                sheet->self->opacity, levels};
    paint_cover(sheet->frame, area_of(region), &coverage, paint_of(sheet->frame, colour_of(details)));
    for (gint y = 0; histogram && y < coverage.height; y++)
        for (gint x = 0; x < coverage.width; x++) histogram[coverage.data[(gssize)y * coverage.stride + x]]++;
    gst_video_frame_unmap(&mask);
}

/* A class for every pixel; the largest areas are listed. */
static void draw_areas(struct sheet *sheet, const GstVideoRegionOfInterestMeta *region, const GstStructure *details) {
    struct paint levels[G_N_ELEMENTS(PALETTE)];
    guint histogram[G_N_ELEMENTS(PALETTE)] = {0}, total = 0;
    const GValue *labels = array_of(details, "labels");
    for (guint at = 0; at < G_N_ELEMENTS(PALETTE); at++) levels[at] = paint_of(sheet->frame, PALETTE[at]);
    draw_mask(sheet, region, details, levels, histogram);
    for (guint at = 0; at < G_N_ELEMENTS(histogram); at++) total += histogram[at];
    for (guint line = 0; labels && sheet->self->has_labels && line < LISTED; line++) {
        guint most = 0;
        for (guint at = 1; at < G_N_ELEMENTS(histogram); at++) most = histogram[at] > histogram[most] ? at : most;
        if (!histogram[most] || most >= gst_value_array_get_size(labels)) break;
        const char *name = g_value_get_string(gst_value_array_get_value(labels, most));
        g_autofree char *text = g_strdup_printf("%s  %.0f %%", name, 100.0 * histogram[most] / total);
        draw_panel_line(sheet, text, PALETTE[most]);
        histogram[most] = 0;
    }
}

/* ---------------------------------------------------------------- objects and classes */

static void draw_keypoints(struct sheet *sheet, const GstVideoRegionOfInterestMeta *region, const GValue *points,
                           const uint8_t colour[3]) {
    guint count = gst_value_array_get_size(points) / 3;
    struct paint paint = paint_of(sheet->frame, colour), white = paint_of(sheet->frame, WHITE);
#define X(at) (region->x + number_at(points, 3 * (at)) * region->w)
#define Y(at) (region->y + number_at(points, 3 * (at) + 1) * region->h)
#define IS_SEEN(at) (number_at(points, 3 * (at) + 2) >= VISIBLE)
    for (guint bone = 0; count == PERSON_POINTS && bone < BONES; bone++) {
        guint first = SKELETON[bone][0], second = SKELETON[bone][1];
        if (IS_SEEN(first) && IS_SEEN(second))
            paint_line(sheet->frame, X(first), Y(first), X(second), Y(second), sheet->thickness, paint);
    }
    for (guint at = 0; at < count; at++) {
        if (!IS_SEEN(at)) continue;
        paint_line(sheet->frame, X(at), Y(at), X(at), Y(at), 3 * sheet->thickness, paint);
        paint_line(sheet->frame, X(at), Y(at), X(at), Y(at), sheet->thickness, white);
    }
#undef X
#undef Y
#undef IS_SEEN
}

static void draw_frame(struct sheet *sheet, const GstVideoRegionOfInterestMeta *region, const GstStructure *details,
                       const uint8_t colour[3]) {
    const GValue *corners = array_of(details, "corners");
    struct paint paint = paint_of(sheet->frame, colour);
    guint count = corners ? gst_value_array_get_size(corners) / 2 : 0;
    if (!count) paint_outline(sheet->frame, area_of(region), sheet->thickness, paint);
    for (guint at = 0; at < count; at++) {
        guint next = (at + 1) % count;
        paint_line(sheet->frame, region->x + number_at(corners, 2 * at) * region->w,
                   region->y + number_at(corners, 2 * at + 1) * region->h,
                   region->x + number_at(corners, 2 * next) * region->w,
                   region->y + number_at(corners, 2 * next + 1) * region->h, sheet->thickness, paint);
    }
}

static void draw_object(struct sheet *sheet, const GstVideoRegionOfInterestMeta *region, const GstStructure *details) {
    const uint8_t *colour = colour_of(details);
    const GValue *points = array_of(details, "keypoints");
    double score = -1;
    const char *name = text_of(details, "text");
    if (!*name && region->roi_type) name = g_quark_to_string(region->roi_type);
    if (details) gst_structure_get_double(details, "score", &score);
    if (sheet->self->has_boxes) draw_frame(sheet, region, details, colour);
    if (sheet->self->has_keypoints && points) draw_keypoints(sheet, region, points, colour);
    g_autofree char *text = score < 0 ? g_strdup(name) : g_strdup_printf("%s %.0f %%", name, 100 * score);
    if (sheet->self->has_labels) draw_text(sheet, text, (gint)region->x, (gint)region->y, TRUE, colour);
}

/* Of the whole frame in the corner; of an object at the foot of its box. */
static void draw_classes(struct sheet *sheet, const GstVideoRegionOfInterestMeta *region, const GstStructure *details) {
    const GValue *labels = array_of(details, "labels"), *scores = array_of(details, "scores");
    guint count = labels && scores ? MIN(gst_value_array_get_size(labels), gst_value_array_get_size(scores)) : 0;
    if (!sheet->self->has_labels) return;
    for (guint at = 0; at < MIN(count, region->parent_id > 0 ? 1u : (guint)LISTED); at++) {
        const char *name = g_value_get_string(gst_value_array_get_value(labels, at));
        g_autofree char *text = g_strdup_printf("%s  %.1f %%", name, 100 * number_at(scores, at));
        if (region->parent_id > 0)
            draw_text(sheet, text, (gint)region->x, (gint)(region->y + region->h), TRUE, colour_of(details));
        else
            draw_panel_line(sheet, text, PALETTE[at]);
    }
}

static void draw_region(struct sheet *sheet, GstVideoRegionOfInterestMeta *region, gboolean is_below) {
    GstStructure *details = gst_video_region_of_interest_meta_get_param(region, DETAILS_NAME);
    const char *kind = text_of(details, "kind");
    gboolean is_areas = strcmp(kind, "areas") == 0;
    if (is_below) {
        if (sheet->self->has_masks && is_areas) draw_areas(sheet, region, details);
        else if (sheet->self->has_masks) draw_mask(sheet, region, details, NULL, NULL);
    } else if (strcmp(kind, "class") == 0) {
        draw_classes(sheet, region, details);
    } else if (strcmp(kind, "text") == 0) {
        if (sheet->self->has_labels) draw_panel_line(sheet, text_of(details, "text"), PALETTE[0]);
    } else if (!is_areas) {
        draw_object(sheet, region, details);
    }
}

static GstFlowReturn transform_frame_ip(GstVideoFilter *filter, GstVideoFrame *frame) {
    OpenrknnOverlay *self = OPENRKNN_OVERLAY(filter);
    g_autoptr(GPtrArray) regions = g_ptr_array_new();
    gpointer state = NULL;
    GstMeta *meta;
    gint side = MAX(GST_VIDEO_FRAME_WIDTH(frame), GST_VIDEO_FRAME_HEIGHT(frame));
    while ((meta = gst_buffer_iterate_meta_filtered(frame->buffer, &state, GST_VIDEO_REGION_OF_INTEREST_META_API_TYPE)))
        g_ptr_array_add(regions, meta);
    GST_OBJECT_LOCK(self);
    struct sheet sheet = {self, frame, self->line_width ? (gint)self->line_width : MAX(side / 300, 2),
                          MAX(side / 45, SMALLEST_TEXT), 0};
    /* Masks below everything else; the best, which is the first, on top. */
    for (guint at = regions->len; at > 0; at--) draw_region(&sheet, g_ptr_array_index(regions, at - 1), TRUE);
    for (guint at = regions->len; at > 0; at--) draw_region(&sheet, g_ptr_array_index(regions, at - 1), FALSE);
    GST_OBJECT_UNLOCK(self);
    return GST_FLOW_OK;
}

/* ---------------------------------------------------------------- properties */

static void set_property(GObject *object, guint property, const GValue *value, GParamSpec *spec) {
    OpenrknnOverlay *self = OPENRKNN_OVERLAY(object);
    GST_OBJECT_LOCK(self);
    switch (property) {
    case PROP_BOXES: self->has_boxes = g_value_get_boolean(value); break;
    case PROP_LABELS: self->has_labels = g_value_get_boolean(value); break;
    case PROP_MASKS: self->has_masks = g_value_get_boolean(value); break;
    case PROP_KEYPOINTS: self->has_keypoints = g_value_get_boolean(value); break;
    case PROP_LINE_WIDTH: self->line_width = g_value_get_uint(value); break;
    case PROP_OPACITY: self->opacity = g_value_get_double(value); break;
    case PROP_FONT:
        g_free(self->font);
        self->font = g_value_get_string(value) ? g_value_dup_string(value) : g_strdup("sans");
        break;
    default: G_OBJECT_WARN_INVALID_PROPERTY_ID(object, property, spec);
    }
    GST_OBJECT_UNLOCK(self);
}

static void get_property(GObject *object, guint property, GValue *value, GParamSpec *spec) {
    OpenrknnOverlay *self = OPENRKNN_OVERLAY(object);
    GST_OBJECT_LOCK(self);
    switch (property) {
    case PROP_BOXES: g_value_set_boolean(value, self->has_boxes); break;
    case PROP_LABELS: g_value_set_boolean(value, self->has_labels); break;
    case PROP_MASKS: g_value_set_boolean(value, self->has_masks); break;
    case PROP_KEYPOINTS: g_value_set_boolean(value, self->has_keypoints); break;
    case PROP_LINE_WIDTH: g_value_set_uint(value, self->line_width); break;
    case PROP_OPACITY: g_value_set_double(value, self->opacity); break;
    case PROP_FONT: g_value_set_string(value, self->font); break;
    default: G_OBJECT_WARN_INVALID_PROPERTY_ID(object, property, spec);
    }
    GST_OBJECT_UNLOCK(self);
}

static void finalize(GObject *object) {
    OpenrknnOverlay *self = OPENRKNN_OVERLAY(object);
    text_store_free(self->texts);
    g_free(self->font);
    G_OBJECT_CLASS(openrknn_overlay_parent_class)->finalize(object);
}

#define PLAYING (G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_PLAYING)

static void install_flag(GObjectClass *class, guint property, const char *name, const char *nick, const char *about) {
    g_object_class_install_property(class, property, g_param_spec_boolean(name, nick, about, TRUE, PLAYING));
}

static void openrknn_overlay_class_init(OpenrknnOverlayClass *class) {
    GObjectClass *object = G_OBJECT_CLASS(class);
    GstElementClass *element = GST_ELEMENT_CLASS(class);
    object->set_property = set_property;
    object->get_property = get_property;
    object->finalize = finalize;
    install_flag(object, PROP_BOXES, "boxes", "Boxes", "Draw the boxes of objects");
    install_flag(object, PROP_LABELS, "labels", "Labels", "Write names, scores and text");
    install_flag(object, PROP_MASKS, "masks", "Masks", "Colour the pixels of objects and areas");
    install_flag(object, PROP_KEYPOINTS, "keypoints", "Keypoints", "Draw keypoints, and the lines between those of people");
    g_object_class_install_property(object, PROP_LINE_WIDTH,
        g_param_spec_uint("line-width", "Line width", "Of boxes and lines, in pixels (0: as the size of the frame suggests)",
                          0, 64, 0, PLAYING));
    g_object_class_install_property(object, PROP_OPACITY,
        g_param_spec_double("opacity", "Opacity", "Of masks", 0, 1, 0.45, PLAYING));
    g_object_class_install_property(object, PROP_FONT,
        g_param_spec_string("font", "Font", "Family and style for Pango, without a size", "sans", PLAYING));
    gst_element_class_add_static_pad_template(element, &sink_template);
    gst_element_class_add_static_pad_template(element, &source_template);
    gst_element_class_set_static_metadata(element, "openrknn overlay", "Filter/Effect/Video",
                                          "Draws what openrknn found into video frames", "The openrknn project");
    GST_VIDEO_FILTER_CLASS(class)->transform_frame_ip = transform_frame_ip;
}

static void openrknn_overlay_init(OpenrknnOverlay *self) {
    self->has_boxes = self->has_labels = self->has_masks = self->has_keypoints = TRUE;
    self->opacity = 0.45;
    self->font = g_strdup("sans");
    self->texts = text_store_new();
}
