/* One frame through the engine, and what can go wrong on the way. */
#include <string.h>

#include "inference.h"

GST_DEBUG_CATEGORY_EXTERN(openrknn_debug);
#define GST_CAT_DEFAULT openrknn_debug

/* ---------------------------------------------------------------- opening */

static void add_text(GString *into, const char *name, const char *value) {
    if (!value || !*value) return;
    g_string_append_printf(into, "%s=%s", name, value);
    g_string_append_c(into, 0);
}

static void add_number(GString *into, const char *name, double value) {
    char text[G_ASCII_DTOSTR_BUF_SIZE];
    if (value >= 0) add_text(into, name, g_ascii_dtostr(text, sizeof text, value));
}

static void add_count(GString *into, const char *name, guint value) {
    g_autofree char *text = g_strdup_printf("%u", value);
    if (value) add_text(into, name, text);
}

static GString *options(OpenrknnInference *self) {
    GString *text = g_string_new(NULL);
    GST_OBJECT_LOCK(self);
    const struct settings *settings = &self->settings;
    add_text(text, "model", settings->model);
    add_text(text, "device", settings->device);
    add_text(text, "labels", settings->labels);
    add_text(text, "family", settings->family);
    add_text(text, "task", settings->task);
    add_text(text, "fit", settings->fit);
    add_number(text, "threshold", settings->threshold);
    add_number(text, "overlap", settings->overlap);
    add_count(text, "limit", settings->limit);
    add_count(text, "cores", settings->cores);
    GST_OBJECT_UNLOCK(self);
    return text;
}

/* The first line is a summary, the others are notes. */
static void tell_notes(OpenrknnInference *self, GBytes *reply) {
    gsize size;
    const char *data = g_bytes_get_data(reply, &size);
    g_autofree char *text = g_strndup(data ? data : "", size);
    g_auto(GStrv) lines = g_strsplit(text, "\n", 0);
    GST_INFO_OBJECT(self, "%s", lines[0] ? lines[0] : "");
    for (char **line = lines; *line && line[1]; line++)
        GST_ELEMENT_INFO(self, STREAM, DECODE, ("%s", line[1]), (NULL));
}

static void refuse(OpenrknnInference *self, GBytes *reply) {
    gsize size;
    const char *data = g_bytes_get_data(reply, &size);
    g_autofree char *text = g_strndup(data ? data : "", size);
    GST_ELEMENT_ERROR(self, RESOURCE, OPEN_READ, ("%s", text), (NULL));
}

gboolean inference_open(OpenrknnInference *self) {
    g_autofree char *why = NULL, *command = NULL;
    g_autoptr(GBytes) reply = NULL;
    GST_OBJECT_LOCK(self);
    gboolean has_model = self->settings.model && *self->settings.model;
    command = g_strdup(self->settings.engine);
    GST_OBJECT_UNLOCK(self);
    if (!has_model) {
        GST_ELEMENT_ERROR(self, RESOURCE, NOT_FOUND, ("No model is set: openrknn model=FILE"), (NULL));
        return FALSE;
    }
    struct engine *engine = engine_start(command, &why);
    if (!engine) {
        GST_ELEMENT_ERROR(self, RESOURCE, NOT_FOUND, ("%s", why), (NULL));
        return FALSE;
    }
    GString *text = options(self);
    gboolean is_fitting = text->len <= LARGEST_PACKET - sizeof(struct wire_request);
    if (is_fitting) engine_send(engine, OP_OPEN, ++self->number, text->str, text->len, NULL, 0);
    g_string_free(text, TRUE);
    if (!is_fitting) {
        GST_ELEMENT_ERROR(self, LIBRARY, SETTINGS, ("The properties are longer than a request may be"), (NULL));
        engine_stop(engine);
        return FALSE;
    }
    switch (engine_receive(engine, self->number, &reply, &why)) {
    case ANSWER_GIVEN:
        tell_notes(self, reply);
        GST_OBJECT_LOCK(self);
        self->engine = engine;
        GST_OBJECT_UNLOCK(self);
        return TRUE;
    case ANSWER_REFUSED: refuse(self, reply); break;
    default: GST_ELEMENT_ERROR(self, RESOURCE, FAILED, ("%s", why ? why : "interrupted"), (NULL));
    }
    engine_stop(engine);
    return FALSE;
}

void inference_close(OpenrknnInference *self) {
    GST_OBJECT_LOCK(self);
    struct engine *engine = self->engine;
    self->engine = NULL;
    GST_OBJECT_UNLOCK(self);
    engine_stop(engine);
    staging_free(&self->staging);
}

/* ---------------------------------------------------------------- regions of earlier elements */

static gboolean is_named(const char *list, const char *label) {
    g_auto(GStrv) names = g_strsplit(list, ",", 0);
    for (char **name = names; *name; name++) {
        g_strstrip(*name);
        if (strcmp(*name, "all") == 0 || strcmp(*name, label) == 0) return TRUE;
    }
    return FALSE;
}

/* Classes of a whole frame and areas are no objects to look at. */
static gboolean is_object(GstVideoRegionOfInterestMeta *region) {
    GstStructure *details = gst_video_region_of_interest_meta_get_param(region, DETAILS_NAME);
    const char *kind = details ? gst_structure_get_string(details, "kind") : NULL;
    return region->w && region->h && (!kind || strcmp(kind, "object") == 0);
}

GArray *inference_regions(OpenrknnInference *self, GstBuffer *buffer) {
    gpointer state = NULL;
    GstMeta *meta;
    GST_OBJECT_LOCK(self);
    g_autofree char *list = g_strdup(self->settings.regions);
    GST_OBJECT_UNLOCK(self);
    if (!list || !*list) return NULL;
    GArray *found = g_array_new(FALSE, FALSE, sizeof(GstVideoRegionOfInterestMeta *));
    while ((meta = gst_buffer_iterate_meta_filtered(buffer, &state, GST_VIDEO_REGION_OF_INTEREST_META_API_TYPE))) {
        GstVideoRegionOfInterestMeta *region = (GstVideoRegionOfInterestMeta *)meta;
        const char *label = g_quark_to_string(region->roi_type);
        if (found->len < MOST_REGIONS && label && is_named(list, label) && is_object(region)) g_array_append_val(found, region);
    }
    return found;
}

/* ---------------------------------------------------------------- running */

static GByteArray *request(const struct sent_frame *frame, GArray *regions) {
    struct wire_frame head = frame->head;
    GByteArray *payload = g_byte_array_new();
    head.regions = regions ? regions->len : 0;
    g_byte_array_append(payload, (const guint8 *)&head, sizeof head);
    g_byte_array_append(payload, (const guint8 *)frame->planes, head.planes * sizeof *frame->planes);
    for (guint at = 0; at < head.regions; at++) {
        const GstVideoRegionOfInterestMeta *region = g_array_index(regions, GstVideoRegionOfInterestMeta *, at);
        struct wire_region place = {(int32_t)MIN(region->x, (guint)G_MAXINT32 / 2), (int32_t)MIN(region->y, (guint)G_MAXINT32 / 2),
                                    (int32_t)MIN(region->w, (guint)G_MAXINT32 / 2), (int32_t)MIN(region->h, (guint)G_MAXINT32 / 2)};
        g_byte_array_append(payload, (const guint8 *)&place, sizeof place);
    }
    return payload;
}

/* Post each note once; repeat it only after a different one. */
static void tell_strange(OpenrknnInference *self, GArray *results) {
    for (guint at = 0; at < results->len; at++) {
        const struct found *found = &g_array_index(results, struct found, at);
        if (found->head.kind != KIND_NOTE || g_strcmp0(found->text, self->last_note) == 0) continue;
        GST_ELEMENT_WARNING(self, STREAM, DECODE, ("%s", found->text), (NULL));
        g_free(self->last_note);
        self->last_note = g_strdup(found->text);
    }
}

static GArray *understand(OpenrknnInference *self, GBytes *reply, GstFlowReturn *flow) {
    GArray *results = results_parse(reply);
    if (results) {
        tell_strange(self, results);
        return results;
    }
    GST_ELEMENT_ERROR(self, STREAM, DECODE, ("The engine's reply is damaged"), (NULL));
    *flow = GST_FLOW_ERROR;
    return NULL;
}

static void count_run(OpenrknnInference *self, const struct sent_frame *frame, GstClockTime time) {
    gboolean is_first, is_longer;
    GST_OBJECT_LOCK(self);
    struct counts *counts = &self->counts;
    is_first = counts->runs++ == 0;
    counts->copies += frame->head.copies;
    counts->last = time;
    counts->peak = MAX(counts->peak, time);
    /* The first run of a process is slower than all others. */
    is_longer = !is_first && !self->settings.is_async && time > counts->reported;
    if (is_longer) counts->reported = time + time / 4;
    GST_OBJECT_UNLOCK(self);
    if (is_longer) gst_element_post_message(GST_ELEMENT(self), gst_message_new_latency(GST_OBJECT(self)));
}

GArray *inference_run(OpenrknnInference *self, GstBuffer *buffer, GArray *regions, GstFlowReturn *flow) {
    g_autofree char *why = NULL;
    g_autoptr(GBytes) reply = NULL;
    struct sent_frame frame;
    GstClockTime begin = gst_util_get_timestamp();
    *flow = GST_FLOW_OK;
    if (!frame_describe(&frame, buffer, &self->info, &self->staging, self->is_mappable, &why)) {
        GST_ELEMENT_ERROR(self, STREAM, FORMAT, ("%s", why), (NULL));
        *flow = GST_FLOW_ERROR;
        return NULL;
    }
    GByteArray *payload = request(&frame, regions);
    engine_send(self->engine, OP_FRAME, ++self->number, payload->data, payload->len, frame.descriptors,
                frame.n_descriptors);
    g_byte_array_unref(payload);
    switch (engine_receive(self->engine, self->number, &reply, &why)) {
    case ANSWER_GIVEN: count_run(self, &frame, gst_util_get_timestamp() - begin); return understand(self, reply, flow);
    case ANSWER_INTERRUPTED: *flow = GST_FLOW_FLUSHING; return NULL;
    case ANSWER_REFUSED: refuse(self, reply); break;
    case ANSWER_ENDED: GST_ELEMENT_ERROR(self, RESOURCE, FAILED, ("%s", why), (NULL)); break;
    }
    *flow = GST_FLOW_ERROR;
    return NULL;
}
