/* What the engine found in a frame, and how it is attached to a buffer. */
#ifndef OPENRKNN_GSTREAMER_RESULTS_H
#define OPENRKNN_GSTREAMER_RESULTS_H
#include <gst/gst.h>

#include "protocol.h"

/* One record; the pointers lead into the reply, or are NULL where it has none. */
struct found {
    struct wire_record head;
    char *label;
    char *text;
    float *keypoints; /* 3 per point: x, y, how visible */
    float *corners;   /* 2 per corner: x, y */
    GstSample *mask;  /* GRAY8: 255 inside, or classes of areas */
};

/* Records of one frame; NULL if the reply is damaged. Free with results_free. */
GArray *results_parse(GBytes *reply);
void results_free(GArray *results);

/* The name of the structure in a region's parameters that has what a region itself has no field for. */
#define DETAILS_NAME "openrknn"

/* What goes with the results of one run. */
struct origin {
    const char *source;   /* the element's name */
    gboolean is_fresh;    /* of this very frame, and not repeated from one before */
    const guint *regions; /* the number of each region that was asked about */
    guint n_regions;
};

/* Adds regions of interest, and GstAnalytics metadata where this GStreamer has them. */
void results_attach(GArray *results, GstBuffer *buffer, const struct origin *origin);

#endif
