/* Drawing into a video frame of any 8-bit format, without a conversion. */
#ifndef OPENRKNN_GSTREAMER_PAINT_H
#define OPENRKNN_GSTREAMER_PAINT_H
#include <gst/video/video.h>
#include <stdint.h>

/* A colour as the components of the frame's format: red, green and blue, or luma and chroma; then alpha. */
struct paint {
    uint8_t component[4];
};

/* A rectangle in pixels of the frame; it may reach over its edges. */
struct area {
    gint x, y, width, height;
};

struct paint paint_of(const GstVideoFrame *frame, const uint8_t colour[3]);
void paint_fill(GstVideoFrame *frame, struct area area, struct paint paint);
void paint_outline(GstVideoFrame *frame, struct area area, gint thickness, struct paint paint);
void paint_line(GstVideoFrame *frame, double x0, double y0, double x1, double y1, gint thickness, struct paint paint);

/* How much of a colour each pixel of an area gets: `coverage` is stretched over it. Of `levels`, NULL or 256 paints, the
   one of the value is taken with `opacity`; else `paint` with value * opacity / 255. */
struct coverage {
    const uint8_t *data;
    gint width, height, stride;
    double opacity;
    const struct paint *levels;
};
void paint_cover(GstVideoFrame *frame, struct area area, const struct coverage *coverage, struct paint paint);

#endif
