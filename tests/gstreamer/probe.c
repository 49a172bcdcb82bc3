/* Runs a pipeline and prints what is on its bus, and what is attached to the buffers that reach the element `out`.
 *
 *     probe PIPELINE [ACTION@FRAME ...]
 *
 * Actions happen when that frame (counted from 1) has reached `out`: kill (the engine of the element `net`), seek (to the
 * beginning, flushing), eos, stop (to READY and to PLAYING again), stats. An appsrc called `feed` gets three red NV12 frames
 * of 64x64, with padded rows, as dma-bufs (memfds, really); called `plain`, in memory of another kind. */
#define _GNU_SOURCE
#include <gst/allocators/allocators.h>
#include <gst/app/gstappsrc.h>
#include <gst/gst.h>
#include <gst/video/video.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#ifdef HAVE_ANALYTICS
#include <gst/analytics/analytics.h>
#endif

static char **actions;
static GstElement *pipeline;
static guint frames;

static void print_analytics(GstBuffer *buffer) {
#ifdef HAVE_ANALYTICS
    GstAnalyticsRelationMeta *relations = gst_buffer_get_analytics_relation_meta(buffer);
    gpointer state = NULL;
    GstAnalyticsMtd mtd;
    while (relations && gst_analytics_relation_meta_iterate(relations, &state, GST_ANALYTICS_MTD_TYPE_ANY, &mtd)) {
        GstAnalyticsMtdType type = gst_analytics_mtd_get_mtd_type(&mtd);
        if (type == gst_analytics_od_mtd_get_mtd_type()) {
            gint x, y, w, h;
            gfloat score;
            gst_analytics_od_mtd_get_location(&mtd, &x, &y, &w, &h, &score);
            printf("analytics object %s %d %d %d %d %.3f\n", g_quark_to_string(gst_analytics_od_mtd_get_obj_type(&mtd)), x, y,
                   w, h, score);
        } else if (type == gst_analytics_cls_mtd_get_mtd_type()) {
            printf("analytics classes %zu %s %.3f\n", gst_analytics_cls_mtd_get_length(&mtd),
                   g_quark_to_string(gst_analytics_cls_mtd_get_quark(&mtd, 0)), gst_analytics_cls_mtd_get_level(&mtd, 0));
#if GST_CHECK_VERSION(1, 26, 0)
        } else if (type == gst_analytics_segmentation_mtd_get_mtd_type()) {
            gint x, y;
            guint w, h;
            GstBuffer *mask = gst_analytics_segmentation_mtd_get_mask(&mtd, &x, &y, &w, &h);
            GstVideoMeta *meta = gst_buffer_get_video_meta(mask);
            printf("analytics mask %d %d %u %u %ux%u\n", x, y, w, h, meta->width, meta->height);
            gst_buffer_unref(mask);
#endif
        }
    }
#else
    (void)buffer;
#endif
}

static void print_regions(GstBuffer *buffer) {
    gpointer state = NULL;
    GstMeta *meta;
    while ((meta = gst_buffer_iterate_meta_filtered(buffer, &state, GST_VIDEO_REGION_OF_INTEREST_META_API_TYPE))) {
        GstVideoRegionOfInterestMeta *region = (GstVideoRegionOfInterestMeta *)meta;
        GstStructure *details = gst_video_region_of_interest_meta_get_param(region, "openrknn");
        printf("region %d parent %d %u %u %u %u", region->id, region->parent_id, region->x, region->y, region->w, region->h);
        GstStructure *plain = details ? gst_structure_copy(details) : NULL;
        const GValue *mask = plain ? gst_structure_get_value(plain, "mask") : NULL;
        if (mask) {
            GstBuffer *pixels = gst_sample_get_buffer(gst_value_get_sample(mask));
            printf(" mask %zu", gst_buffer_get_size(pixels));
            gst_structure_remove_field(plain, "mask");
        }
        char *text = plain ? gst_structure_to_string(plain) : g_strdup("none");
        printf(" %s\n", text);
        g_free(text);
        if (plain) gst_structure_free(plain);
    }
}

static void print_stats(void) {
    GstElement *net = gst_bin_get_by_name(GST_BIN(pipeline), "net");
    GstStructure *stats;
    g_object_get(net, "stats", &stats, NULL);
    char *text = gst_structure_to_string(stats);
    printf("stats %s\n", text);
    g_free(text);
    gst_structure_free(stats);
    gst_object_unref(net);
}

static void kill_engine(void) {
    GstElement *net = gst_bin_get_by_name(GST_BIN(pipeline), "net");
    GstStructure *stats;
    gint process = 0;
    g_object_get(net, "stats", &stats, NULL);
    gst_structure_get_int(stats, "engine-process", &process);
    gst_structure_free(stats);
    gst_object_unref(net);
    if (process > 0) kill(process, SIGKILL);
}

static GstPadProbeReturn reached(GstPad *pad, GstPadProbeInfo *info, gpointer data) {
    GstBuffer *buffer = GST_PAD_PROBE_INFO_BUFFER(info);
    (void)pad, (void)data;
    printf("frame %u\n", ++frames);
    print_regions(buffer);
    print_analytics(buffer);
    for (char **action = actions; *action; action++) {
        char *at = strchr(*action, '@');
        if (!at || (guint)atoi(at + 1) != frames) continue;
        if (g_str_has_prefix(*action, "kill")) kill_engine();
        else if (g_str_has_prefix(*action, "stats")) print_stats();
        else /* the others are for the main thread */
            gst_element_post_message(pipeline, gst_message_new_application(
                                                   GST_OBJECT(pipeline),
                                                   gst_structure_new("act", "what", G_TYPE_STRING, *action, NULL)));
    }
    return GST_PAD_PROBE_OK;
}

static void act(const char *what) {
    printf("act %s\n", what);
    if (g_str_has_prefix(what, "seek"))
        gst_element_seek_simple(pipeline, GST_FORMAT_TIME, GST_SEEK_FLAG_FLUSH, 0);
    else if (g_str_has_prefix(what, "eos"))
        gst_element_send_event(pipeline, gst_event_new_eos());
    else if (g_str_has_prefix(what, "stop")) {
        gst_element_set_state(pipeline, GST_STATE_READY);
        gst_element_set_state(pipeline, GST_STATE_PLAYING);
    }
}

/* Whether the pipeline is at its end. */
static gboolean tell(GstMessage *message) {
    GError *error = NULL;
    switch (GST_MESSAGE_TYPE(message)) {
    case GST_MESSAGE_EOS: printf("eos\n"); return TRUE;
    case GST_MESSAGE_ERROR:
        gst_message_parse_error(message, &error, NULL);
        printf("error %s: %s\n", GST_MESSAGE_SRC_NAME(message), error->message);
        break;
    case GST_MESSAGE_WARNING: gst_message_parse_warning(message, &error, NULL); printf("warning %s\n", error->message); break;
    case GST_MESSAGE_INFO: gst_message_parse_info(message, &error, NULL); printf("info %s\n", error->message); break;
    case GST_MESSAGE_LATENCY: gst_bin_recalculate_latency(GST_BIN(pipeline)); break;
    case GST_MESSAGE_APPLICATION: act(gst_structure_get_string(gst_message_get_structure(message), "what")); break;
    default: break;
    }
    g_clear_error(&error);
    return GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR;
}

/* Red in limited range BT.601: Y 81, U 90, V 240. */
static GstBuffer *red_frame(gboolean is_shared) {
    enum { SIDE = 64, STRIDE = 80, LUMA = 4096, BYTES = LUMA + STRIDE * SIDE + STRIDE * SIDE / 2 };
    gsize offsets[GST_VIDEO_MAX_PLANES] = {LUMA, LUMA + STRIDE * SIDE};
    gint strides[GST_VIDEO_MAX_PLANES] = {STRIDE, STRIDE};
    uint8_t *pixels = g_malloc0(BYTES);
    for (int row = 0; row < SIDE; row++) memset(pixels + offsets[0] + row * STRIDE, 81, SIDE);
    for (int row = 0; row < SIDE / 2; row++)
        for (int pair = 0; pair < SIDE / 2; pair++) {
            pixels[offsets[1] + row * STRIDE + 2 * pair] = 90;
            pixels[offsets[1] + row * STRIDE + 2 * pair + 1] = 240;
        }
    GstBuffer *buffer = gst_buffer_new();
    if (is_shared) {
        int descriptor = memfd_create("probe", MFD_CLOEXEC);
        if (write(descriptor, pixels, BYTES) != BYTES) abort();
        GstAllocator *allocator = gst_dmabuf_allocator_new();
        gst_buffer_append_memory(buffer, gst_dmabuf_allocator_alloc(allocator, descriptor, BYTES));
        gst_object_unref(allocator);
        g_free(pixels);
    } else {
        gst_buffer_append_memory(buffer, gst_memory_new_wrapped(0, pixels, BYTES, 0, BYTES, pixels, g_free));
    }
    gst_buffer_add_video_meta_full(buffer, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_FORMAT_NV12, SIDE, SIDE, 2, offsets, strides);
    return buffer;
}

static void feed(const char *name, gboolean is_shared) {
    GstElement *source = gst_bin_get_by_name(GST_BIN(pipeline), name);
    if (!source) return;
    for (int at = 0; at < 3; at++) gst_app_src_push_buffer(GST_APP_SRC(source), red_frame(is_shared));
    gst_app_src_end_of_stream(GST_APP_SRC(source));
    gst_object_unref(source);
}

int main(int count, char **words) {
    GError *error = NULL;
    gst_init(NULL, NULL);
    pipeline = count > 1 ? gst_parse_launch(words[1], &error) : NULL;
    if (!pipeline || error) {
        printf("no pipeline: %s\n", error ? error->message : "");
        return 2;
    }
    actions = words + 2;
    GstElement *out = gst_bin_get_by_name(GST_BIN(pipeline), "out");
    GstPad *pad = gst_element_get_static_pad(out, "sink");
    gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, reached, NULL, NULL);
    GstBus *bus = gst_element_get_bus(pipeline);
    gboolean is_over = FALSE;
    if (gst_element_set_state(pipeline, GST_STATE_PLAYING) == GST_STATE_CHANGE_FAILURE) printf("state change failed\n");
    feed("feed", TRUE);
    feed("plain", FALSE);
    while (!is_over) {
        GstMessage *message = gst_bus_timed_pop(bus, GST_CLOCK_TIME_NONE);
        is_over = tell(message);
        gst_message_unref(message);
    }
    gst_element_set_state(pipeline, GST_STATE_NULL);
    printf("end %u\n", frames);
    gst_object_unref(bus);
    gst_object_unref(pad);
    gst_object_unref(out);
    gst_object_unref(pipeline);
    gst_deinit();
    return 0;
}
