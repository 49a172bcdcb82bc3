/* Drawing, one component at a time: GStreamer says where each lies, how far its samples are apart, and how many pixels
 * one covers. */
#include "paint.h"

#include <math.h>

static uint8_t clamped(double value) { return (uint8_t)CLAMP(value + 0.5, 0.0, 255.0); }

struct paint paint_of(const GstVideoFrame *frame, const uint8_t colour[3]) {
    const GstVideoInfo *info = &frame->info;
    double r = colour[0], g = colour[1], b = colour[2], kr = 0.299, kb = 0.114;
    if (GST_VIDEO_INFO_IS_RGB(info)) return (struct paint){{colour[0], colour[1], colour[2], 255}};
    if (!GST_VIDEO_INFO_IS_GRAY(info)) gst_video_color_matrix_get_Kr_Kb(info->colorimetry.matrix, &kr, &kb);
    gint offset[GST_VIDEO_MAX_COMPONENTS], scale[GST_VIDEO_MAX_COMPONENTS];
    gst_video_color_range_offsets(info->colorimetry.range, info->finfo, offset, scale);
    double y = kr * r + (1 - kr - kb) * g + kb * b, u = (b - y) / (2 * (1 - kb)), v = (r - y) / (2 * (1 - kr));
    return (struct paint){{clamped(offset[0] + y * scale[0] / 255), clamped(offset[1] + u * scale[1] / 255),
                           clamped(offset[2] + v * scale[2] / 255), 255}};
}

/* One component of the part of an area that is in the frame. */
struct part {
    uint8_t *data;
    gint stride, step, x0, x1, y0, y1, wide, high;
};

static gboolean part_of(struct part *part, GstVideoFrame *frame, struct area area, guint component) {
    const GstVideoFormatInfo *format = frame->info.finfo;
    gint left = MAX(area.x, 0), top = MAX(area.y, 0);
    gint right = MIN(area.x + area.width, GST_VIDEO_FRAME_WIDTH(frame));
    gint bottom = MIN(area.y + area.height, GST_VIDEO_FRAME_HEIGHT(frame));
    if (left >= right || top >= bottom) return FALSE;
    part->wide = (gint)GST_VIDEO_FORMAT_INFO_W_SUB(format, component);
    part->high = (gint)GST_VIDEO_FORMAT_INFO_H_SUB(format, component);
    part->x0 = left >> part->wide, part->x1 = ((right - 1) >> part->wide) + 1;
    part->y0 = top >> part->high, part->y1 = ((bottom - 1) >> part->high) + 1;
    part->data = GST_VIDEO_FRAME_COMP_DATA(frame, component);
    part->stride = GST_VIDEO_FRAME_COMP_STRIDE(frame, component);
    part->step = GST_VIDEO_FRAME_COMP_PSTRIDE(frame, component);
    return TRUE;
}

void paint_fill(GstVideoFrame *frame, struct area area, struct paint paint) {
    for (guint component = 0; component < GST_VIDEO_FRAME_N_COMPONENTS(frame); component++) {
        struct part part;
        if (!part_of(&part, frame, area, component)) return;
        for (gint y = part.y0; y < part.y1; y++) {
            uint8_t *at = part.data + (gssize)y * part.stride + (gssize)part.x0 * part.step;
            for (gint x = part.x0; x < part.x1; x++, at += part.step) *at = paint.component[component];
        }
    }
}

void paint_outline(GstVideoFrame *frame, struct area area, gint thickness, struct paint paint) {
    gint inner = MAX(area.height - 2 * thickness, 0);
    paint_fill(frame, (struct area){area.x, area.y, area.width, thickness}, paint);
    paint_fill(frame, (struct area){area.x, area.y + area.height - thickness, area.width, thickness}, paint);
    paint_fill(frame, (struct area){area.x, area.y + thickness, thickness, inner}, paint);
    paint_fill(frame, (struct area){area.x + area.width - thickness, area.y + thickness, thickness, inner}, paint);
}

void paint_line(GstVideoFrame *frame, double x0, double y0, double x1, double y1, gint thickness, struct paint paint) {
    double reach = 4.0 * MAX(GST_VIDEO_FRAME_WIDTH(frame), GST_VIDEO_FRAME_HEIGHT(frame));
    double length = fmax(fabs(x1 - x0), fabs(y1 - y0));
    /* Points of a model can be anywhere; nothing of such a line would be seen. */
    if (!(length <= reach && fabs(x0) <= reach && fabs(y0) <= reach)) return;
    gint steps = MAX((gint)ceil(length), 1);
    for (gint step = 0; step <= steps; step++) {
        double part = (double)step / steps, half = (thickness - 1) / 2.0;
        paint_fill(frame, (struct area){(gint)floor(x0 + (x1 - x0) * part - half), (gint)floor(y0 + (y1 - y0) * part - half),
                                        thickness, thickness}, paint);
    }
}

void paint_cover(GstVideoFrame *frame, struct area area, const struct coverage *coverage, struct paint paint) {
    if (area.width < 1 || area.height < 1 || coverage->width < 1 || coverage->height < 1) return;
    guint whole = (guint)CLAMP(coverage->opacity * 256, 0, 256);
    for (guint component = 0; component < GST_VIDEO_FRAME_N_COMPONENTS(frame); component++) {
        struct part part;
        if (!part_of(&part, frame, area, component)) return;
        for (gint y = part.y0; y < part.y1; y++) {
            gint64 row = CLAMP((gint64)((y << part.high) - area.y) * coverage->height / area.height, 0, coverage->height - 1);
            const uint8_t *values = coverage->data + row * coverage->stride;
            uint8_t *at = part.data + (gssize)y * part.stride + (gssize)part.x0 * part.step;
            for (gint x = part.x0; x < part.x1; x++, at += part.step) {
                gint64 column = CLAMP((gint64)((x << part.wide) - area.x) * coverage->width / area.width, 0, coverage->width - 1);
                uint8_t value = values[column];
                uint8_t colour = (coverage->levels ? coverage->levels + value : &paint)->component[component];
                guint share = coverage->levels ? whole : whole * value / 255;
                *at = (uint8_t)((*at * (256 - share) + colour * share + 128) >> 8);
            }
        }
    }
}
