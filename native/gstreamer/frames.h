/* Frames as descriptors: what a buffer has already, or a copy in shared memory. */
#ifndef OPENRKNN_GSTREAMER_FRAMES_H
#define OPENRKNN_GSTREAMER_FRAMES_H
#include <gst/video/video.h>

#include "protocol.h"

#define FRAME_FORMATS "{ NV12, NV21, I420, YUY2, UYVY, RGB, BGR, RGBA, RGBx, BGRA, BGRx, GRAY8 }"
#define FRAME_DRM_FORMATS "{ NV12, NV21, YU12, YUYV, UYVY, BG24, RG24, AB24, XB24, AR24, XR24 }"

/* The number of a format in a request, or -1. */
int frame_format(GstVideoFormat format);

/* A frame ready to be sent. */
struct sent_frame {
    struct wire_frame head;
    struct wire_plane planes[MOST_PLANES];
    int descriptors[MOST_DESCRIPTORS];
    guint n_descriptors;
};

/* Memory for frames that come without a descriptor; it grows with them. */
struct staging {
    int descriptor;
    gsize bytes;
    uint8_t *data;
};

void staging_free(struct staging *staging);

/* FALSE with `why`: the buffer does not have what its caps say. The descriptors are the buffer's or the staging's. */
gboolean frame_describe(struct sent_frame *frame, GstBuffer *buffer, const GstVideoInfo *info, struct staging *staging,
                        gboolean is_mappable, char **why);

/* Memory that the engine can read without a copy, for elements upstream that let others allocate. */
GstAllocator *shared_allocator_new(void);

#endif
