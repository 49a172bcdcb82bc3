/* The element `openrknn`: its fields, which its files share. */
#ifndef OPENRKNN_GSTREAMER_INFERENCE_H
#define OPENRKNN_GSTREAMER_INFERENCE_H
#include <gst/base/gstbasetransform.h>
#include <gst/video/video.h>

#include "engine.h"
#include "frames.h"
#include "results.h"

#define OPENRKNN_TYPE_INFERENCE (openrknn_inference_get_type())
G_DECLARE_FINAL_TYPE(OpenrknnInference, openrknn_inference, OPENRKNN, INFERENCE, GstBaseTransform)

/* Properties, as they are set; under the object lock. */
struct settings {
    char *model, *device, *labels, *family, *task, *fit, *regions, *engine;
    double threshold, overlap;
    guint limit, cores, interval;
    gboolean is_repeated, is_async;
};

/* Under the object lock, too. */
struct counts {
    guint64 frames, runs, copies, skipped;
    GstClockTime last, peak, reported;
};

/* With `async`: one frame at a time is with the worker. */
struct worker {
    GThread *thread;
    GMutex lock;
    GCond changed;
    GstBuffer *frame; /* what it is to look at next */
    gboolean is_busy, is_ending;
    guint generation; /* counts flushes: results of before are dropped */
    GstFlowReturn flow;
};

struct _OpenrknnInference {
    GstBaseTransform parent;
    struct settings settings;
    struct counts counts;
    struct engine *engine; /* while started */
    struct worker worker;
    GstVideoInfo info;
    gboolean is_mappable;
    struct staging staging;
    guint64 number;    /* of the last request */
    guint64 arrived;   /* frames since start or flush */
    GArray *last;      /* the last results, repeated on frames in between; the worker's lock protects it */
    gboolean is_unseen; /* `last` has not been attached to any frame */
    char *last_note;
};

/* running.c: one frame through the engine. The results, or NULL with the flow that follows. An error is on the bus. */
GArray *inference_run(OpenrknnInference *self, GstBuffer *buffer, GArray *regions, GstFlowReturn *flow);
gboolean inference_open(OpenrknnInference *self);
void inference_close(OpenrknnInference *self);

/* The regions of earlier elements that `regions` names, as GstVideoRegionOfInterestMeta pointers. */
GArray *inference_regions(OpenrknnInference *self, GstBuffer *buffer);

/* worker.c */
void worker_start(OpenrknnInference *self);
void worker_stop(OpenrknnInference *self);
void worker_settle(OpenrknnInference *self); /* wait until it has no frame */
void worker_forget(OpenrknnInference *self); /* results so far */
/* Returns whether the frame was queued; the caller does not wait for the result. */
gboolean worker_offer(OpenrknnInference *self, GstBuffer *buffer);

/* properties.c */
void inference_install_properties(GObjectClass *class);
void inference_clear_settings(struct settings *settings);

#endif
