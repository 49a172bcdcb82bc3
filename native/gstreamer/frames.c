/* Frames as descriptors. A dma-buf or memfd is passed on as it is; other memory is copied into shared memory once. */
#define _GNU_SOURCE
#include "frames.h"

#include <errno.h>
#include <gst/allocators/allocators.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int frame_format(GstVideoFormat format) {
    switch (format) {
    case GST_VIDEO_FORMAT_NV12: return FORMAT_NV12;
    case GST_VIDEO_FORMAT_NV21: return FORMAT_NV21;
    case GST_VIDEO_FORMAT_I420: return FORMAT_I420;
    case GST_VIDEO_FORMAT_YUY2: return FORMAT_YUYV;
    case GST_VIDEO_FORMAT_UYVY: return FORMAT_UYVY;
    case GST_VIDEO_FORMAT_RGB: return FORMAT_RGB;
    case GST_VIDEO_FORMAT_BGR: return FORMAT_BGR;
    case GST_VIDEO_FORMAT_RGBA:
    case GST_VIDEO_FORMAT_RGBx: return FORMAT_RGBA;
    case GST_VIDEO_FORMAT_BGRA:
    case GST_VIDEO_FORMAT_BGRx: return FORMAT_BGRA;
    case GST_VIDEO_FORMAT_GRAY8: return FORMAT_GRAY;
    default: return -1;
    }
}

static uint32_t colour_space(const GstVideoInfo *info) {
    switch (info->colorimetry.matrix) {
    case GST_VIDEO_COLOR_MATRIX_BT709: return SPACE_BT709;
    case GST_VIDEO_COLOR_MATRIX_BT2020: return SPACE_BT2020;
    default: return SPACE_BT601;
    }
}

static void describe_format(struct sent_frame *frame, const GstVideoInfo *info) {
    frame->head = (struct wire_frame){
        .format = (uint32_t)frame_format(GST_VIDEO_INFO_FORMAT(info)),
        .width = (uint32_t)GST_VIDEO_INFO_WIDTH(info),
        .height = (uint32_t)GST_VIDEO_INFO_HEIGHT(info),
        .colour_space = colour_space(info),
        .colour_range = info->colorimetry.range == GST_VIDEO_COLOR_RANGE_0_255 ? RANGE_FULL : RANGE_LIMITED,
        .planes = GST_VIDEO_INFO_N_PLANES(info),
    };
    frame->n_descriptors = 0;
}

/* Bytes from the first of a plane to its last. */
static gsize plane_bytes(const GstVideoInfo *info, guint plane, gsize stride) {
    gint component[GST_VIDEO_MAX_COMPONENTS];
    gst_video_format_info_component(info->finfo, plane, component);
    gsize rows = (gsize)GST_VIDEO_FORMAT_INFO_SCALE_HEIGHT(info->finfo, component[0], GST_VIDEO_INFO_HEIGHT(info));
    gsize wide = (gsize)GST_VIDEO_FORMAT_INFO_SCALE_WIDTH(info->finfo, component[0], GST_VIDEO_INFO_WIDTH(info)) *
                 (gsize)GST_VIDEO_FORMAT_INFO_PSTRIDE(info->finfo, component[0]);
    if (GST_VIDEO_INFO_FORMAT(info) == GST_VIDEO_FORMAT_YUY2 || GST_VIDEO_INFO_FORMAT(info) == GST_VIDEO_FORMAT_UYVY)
        wide = GST_ROUND_UP_4(wide); /* two pixels share four bytes */
    return rows ? (rows - 1) * stride + wide : 0;
}

static uint32_t descriptor_number(struct sent_frame *frame, int descriptor) {
    for (guint at = 0; at < frame->n_descriptors; at++)
        if (frame->descriptors[at] == descriptor) return at;
    frame->descriptors[frame->n_descriptors] = descriptor;
    return frame->n_descriptors++;
}

/* Whether all planes are in memory with descriptors. */
static gboolean describe_planes(struct sent_frame *frame, GstBuffer *buffer, const GstVideoInfo *info) {
    GstVideoMeta *meta = gst_buffer_get_video_meta(buffer);
    for (guint plane = 0; plane < frame->head.planes; plane++) {
        gsize offset = meta ? meta->offset[plane] : GST_VIDEO_INFO_PLANE_OFFSET(info, plane), skip;
        gint stride = meta ? meta->stride[plane] : GST_VIDEO_INFO_PLANE_STRIDE(info, plane);
        guint first, length;
        if (stride <= 0) return FALSE; /* rows from the bottom up */
        gsize bytes = plane_bytes(info, plane, (gsize)stride);
        if (!gst_buffer_find_memory(buffer, offset, bytes, &first, &length, &skip) || length != 1) return FALSE;
        GstMemory *memory = gst_buffer_peek_memory(buffer, first);
        if (!gst_is_fd_memory(memory)) return FALSE;
        frame->planes[plane] = (struct wire_plane){
            .offset = memory->offset + skip,
            .stride = (uint32_t)stride,
            .descriptor = descriptor_number(frame, gst_fd_memory_get_fd(memory)),
        };
    }
    return TRUE;
}

/* ---------------------------------------------------------------- copies */

void staging_free(struct staging *staging) {
    if (staging->data) munmap(staging->data, staging->bytes);
    if (staging->descriptor >= 0) close(staging->descriptor);
    *staging = (struct staging){.descriptor = -1};
}

static gboolean staging_reserve(struct staging *staging, gsize bytes, char **why) {
    if (staging->data && staging->bytes >= bytes) return TRUE;
    staging_free(staging);
    staging->descriptor = memfd_create("openrknn-frame", MFD_CLOEXEC);
    if (staging->descriptor >= 0 && ftruncate(staging->descriptor, (off_t)bytes) == 0) {
        void *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, staging->descriptor, 0);
        if (data != MAP_FAILED) {
            staging->data = data;
            staging->bytes = bytes;
            return TRUE;
        }
    }
    *why = g_strdup_printf("no shared memory of %" G_GSIZE_FORMAT " bytes for a frame: %s", bytes, g_strerror(errno));
    staging_free(staging);
    return FALSE;
}

static gboolean copy_planes(struct sent_frame *frame, GstBuffer *buffer, const GstVideoInfo *info,
                            struct staging *staging, char **why) {
    GstVideoFrame mapped;
    GstVideoInfo plain;
    if (!gst_video_info_set_format(&plain, GST_VIDEO_INFO_FORMAT(info), frame->head.width, frame->head.height) ||
        !staging_reserve(staging, GST_VIDEO_INFO_SIZE(&plain), why)) {
        if (!*why) *why = g_strdup("the size of the frame is not possible");
        return FALSE;
    }
    if (!gst_video_frame_map(&mapped, info, buffer, GST_MAP_READ)) {
        *why = g_strdup("the pixels of a buffer cannot be read: it is smaller than its caps say, or not mappable");
        return FALSE;
    }
    frame->n_descriptors = 0;
    for (guint plane = 0; plane < frame->head.planes; plane++) {
        gsize stride = (gsize)GST_VIDEO_INFO_PLANE_STRIDE(&plain, plane);
        gsize rows = (plane_bytes(&plain, plane, stride) + stride - 1) / stride;
        gsize wide = plane_bytes(&plain, plane, stride) - (rows - 1) * stride;
        const uint8_t *from = GST_VIDEO_FRAME_PLANE_DATA(&mapped, plane);
        uint8_t *to = staging->data + GST_VIDEO_INFO_PLANE_OFFSET(&plain, plane);
        for (gsize row = 0; row < rows; row++)
            memcpy(to + row * stride, from + (gssize)row * GST_VIDEO_FRAME_PLANE_STRIDE(&mapped, plane), wide);
        frame->planes[plane] = (struct wire_plane){
            .offset = GST_VIDEO_INFO_PLANE_OFFSET(&plain, plane),
            .stride = (uint32_t)stride,
            .descriptor = descriptor_number(frame, staging->descriptor),
        };
    }
    frame->head.copies = 1;
    gst_video_frame_unmap(&mapped);
    return TRUE;
}

gboolean frame_describe(struct sent_frame *frame, GstBuffer *buffer, const GstVideoInfo *info, struct staging *staging,
                        gboolean is_mappable, char **why) {
    describe_format(frame, info);
    if (describe_planes(frame, buffer, info)) return TRUE;
    if (is_mappable) return copy_planes(frame, buffer, info, staging, why);
    *why = g_strdup("caps say memory:DMABuf, and the buffer has no dma-buf that holds its planes");
    return FALSE;
}

/* ---------------------------------------------------------------- memory for others */

typedef struct {
    GstFdAllocator parent;
} OpenrknnAllocator;
typedef struct {
    GstFdAllocatorClass parent_class;
} OpenrknnAllocatorClass;
GType openrknn_allocator_get_type(void);
G_DEFINE_TYPE(OpenrknnAllocator, openrknn_allocator, GST_TYPE_FD_ALLOCATOR)

static GstMemory *shared_alloc(GstAllocator *allocator, gsize size, GstAllocationParams *parameters) {
    gsize whole = parameters->prefix + size + parameters->padding;
    int descriptor = memfd_create("openrknn-pool", MFD_CLOEXEC);
    if (descriptor < 0) return NULL;
    if (ftruncate(descriptor, (off_t)whole) != 0) {
        close(descriptor);
        return NULL;
    }
    GstMemory *memory = gst_fd_allocator_alloc(allocator, descriptor, whole, GST_FD_MEMORY_FLAG_KEEP_MAPPED);
    if (!memory) {
        close(descriptor);
        return NULL;
    }
    gst_memory_resize(memory, (gssize)parameters->prefix, size);
    return memory;
}

static void openrknn_allocator_class_init(OpenrknnAllocatorClass *class) { GST_ALLOCATOR_CLASS(class)->alloc = shared_alloc; }

static void openrknn_allocator_init(OpenrknnAllocator *allocator) {
    GST_OBJECT_FLAG_UNSET(allocator, GST_ALLOCATOR_FLAG_CUSTOM_ALLOC);
}

GstAllocator *shared_allocator_new(void) {
    GstAllocator *allocator = g_object_new(openrknn_allocator_get_type(), NULL);
    gst_object_ref_sink(allocator);
    return allocator;
}
