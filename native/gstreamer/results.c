/* Reading the records of a reply. It comes from another process: nothing in it is taken on trust. */
#include "results.h"

#include <string.h>

static void found_clear(gpointer pointer) {
    struct found *found = pointer;
    g_free(found->label);
    g_free(found->text);
    g_free(found->keypoints);
    g_free(found->corners);
    if (found->mask) gst_sample_unref(found->mask);
}

static GstSample *mask_sample(const uint8_t *pixels, guint width, guint height) {
    /* Rows of GRAY8 are padded to 4 bytes wherever GStreamer works a stride out of caps. */
    gsize stride = GST_ROUND_UP_4((gsize)width);
    GstBuffer *buffer = gst_buffer_new_allocate(NULL, stride * height, NULL);
    GstMapInfo map;
    gst_buffer_map(buffer, &map, GST_MAP_WRITE);
    for (guint row = 0; row < height; row++) {
        memcpy(map.data + row * stride, pixels + (gsize)row * width, width);
        memset(map.data + row * stride + width, 0, stride - width);
    }
    gst_buffer_unmap(buffer, &map);
    GstCaps *caps = gst_caps_new_simple("video/x-raw", "format", G_TYPE_STRING, "GRAY8", "width", G_TYPE_INT, (int)width,
                                        "height", G_TYPE_INT, (int)height, "framerate", GST_TYPE_FRACTION, 0, 1, NULL);
    GstSample *sample = gst_sample_new(buffer, caps, NULL, NULL);
    gst_caps_unref(caps);
    gst_buffer_unref(buffer);
    return sample;
}

/* Whether a record of `room` bytes has what its head says. */
static gboolean found_parse(struct found *found, const uint8_t *data, gsize room) {
    const struct wire_record *head = &found->head;
    enum { MOST_POINTS = 4096, MOST_PIXELS = 1 << 28 };
    uint64_t mask = (uint64_t)head->mask_width * head->mask_height;
    if (head->keypoints > MOST_POINTS || head->corners > MOST_POINTS || mask > MOST_PIXELS) return FALSE;
    gsize keypoints = head->keypoints * 3 * sizeof(float), corners = head->corners * 2 * sizeof(float);
    uint64_t needed = (uint64_t)head->label_bytes + head->text_bytes + keypoints + corners + mask;
    if (needed > room) return FALSE;
    const char *text = (const char *)data;
    if (!g_utf8_validate(text, head->label_bytes, NULL) || !g_utf8_validate(text + head->label_bytes, head->text_bytes, NULL))
        return FALSE;
    found->label = g_strndup(text, head->label_bytes);
    found->text = g_strndup(text + head->label_bytes, head->text_bytes);
    const uint8_t *at = data + head->label_bytes + head->text_bytes;
    if (keypoints) found->keypoints = g_memdup2(at, keypoints);
    if (corners) found->corners = g_memdup2(at + keypoints, corners);
    if (mask) found->mask = mask_sample(at + keypoints + corners, head->mask_width, head->mask_height);
    return TRUE;
}

GArray *results_parse(GBytes *reply) {
    gsize size, at = 0;
    const uint8_t *data = g_bytes_get_data(reply, &size);
    GArray *results = g_array_new(FALSE, TRUE, sizeof(struct found));
    g_array_set_clear_func(results, found_clear);
    while (at < size) {
        struct found found = {0};
        gboolean is_whole = size - at >= sizeof found.head;
        if (is_whole) memcpy(&found.head, data + at, sizeof found.head);
        gsize bytes = found.head.bytes;
        is_whole = is_whole && bytes >= sizeof found.head && bytes <= size - at &&
                   found_parse(&found, data + at + sizeof found.head, bytes - sizeof found.head);
        g_array_append_val(results, found); /* even half of one: it is freed with the others */
        if (!is_whole) {
            g_array_unref(results);
            return NULL;
        }
        at += bytes;
    }
    return results;
}

void results_free(GArray *results) {
    if (results) g_array_unref(results);
}
