/* The element `openrknnoverlay`. */
#ifndef OPENRKNN_GSTREAMER_OVERLAY_H
#define OPENRKNN_GSTREAMER_OVERLAY_H
#include <gst/video/gstvideofilter.h>
#include <gst/video/video.h>

#include "paint.h"

#define OPENRKNN_TYPE_OVERLAY (openrknn_overlay_get_type())
G_DECLARE_FINAL_TYPE(OpenrknnOverlay, openrknn_overlay, OPENRKNN, OVERLAY, GstVideoFilter)

/* text.c: lines of text as coverage, kept because labels come again. */
struct text_store;
struct text_store *text_store_new(void);
void text_store_free(struct text_store *store);
/* `pixels`: the height of a line. The result is the store's until the next call. */
const struct coverage *text_render(struct text_store *store, const char *text, const char *font, gint pixels);

#endif
