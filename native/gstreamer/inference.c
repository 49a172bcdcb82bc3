/* The element `openrknn`: runs a model on video frames and attaches what it finds. Pixels pass through as they are. */
#include "inference.h"

GST_DEBUG_CATEGORY_EXTERN(openrknn_debug);
#define GST_CAT_DEFAULT openrknn_debug

G_DEFINE_FINAL_TYPE(OpenrknnInference, openrknn_inference, GST_TYPE_BASE_TRANSFORM)

#define DMABUF "memory:DMABuf"
#define RAW_CAPS GST_VIDEO_CAPS_MAKE(FRAME_FORMATS) ";" GST_VIDEO_CAPS_MAKE_WITH_FEATURES(DMABUF, FRAME_FORMATS)
#if GST_CHECK_VERSION(1, 24, 0)
#define ALL_CAPS RAW_CAPS ";" GST_VIDEO_DMA_DRM_CAPS_MAKE ", drm-format = (string) " FRAME_DRM_FORMATS
#else
#define ALL_CAPS RAW_CAPS
#endif

static GstStaticPadTemplate sink_template =
    GST_STATIC_PAD_TEMPLATE("sink", GST_PAD_SINK, GST_PAD_ALWAYS, GST_STATIC_CAPS(ALL_CAPS));
static GstStaticPadTemplate source_template =
    GST_STATIC_PAD_TEMPLATE("src", GST_PAD_SRC, GST_PAD_ALWAYS, GST_STATIC_CAPS(ALL_CAPS));

/* ---------------------------------------------------------------- starting and stopping */

static gboolean start(GstBaseTransform *base) {
    OpenrknnInference *self = OPENRKNN_INFERENCE(base);
    self->arrived = 0;
    self->counts = (struct counts){0};
    if (!inference_open(self)) return FALSE;
    if (self->settings.is_async) worker_start(self);
    return TRUE;
}

static void interrupt(OpenrknnInference *self, gboolean on) {
    GST_OBJECT_LOCK(self);
    if (self->engine) engine_interrupt(self->engine, on);
    GST_OBJECT_UNLOCK(self);
}

static gboolean stop(GstBaseTransform *base) {
    OpenrknnInference *self = OPENRKNN_INFERENCE(base);
    interrupt(self, TRUE);
    worker_stop(self);
    worker_forget(self);
    inference_close(self);
    g_clear_pointer(&self->last_note, g_free);
    return TRUE;
}

/* The streaming thread may wait for the engine: pads cannot be stopped before it is woken. */
static GstStateChangeReturn change_state(GstElement *element, GstStateChange change) {
    if (change == GST_STATE_CHANGE_PAUSED_TO_READY) interrupt(OPENRKNN_INFERENCE(element), TRUE);
    return GST_ELEMENT_CLASS(openrknn_inference_parent_class)->change_state(element, change);
}

static gboolean sink_event(GstBaseTransform *base, GstEvent *event) {
    OpenrknnInference *self = OPENRKNN_INFERENCE(base);
    switch (GST_EVENT_TYPE(event)) {
    case GST_EVENT_FLUSH_START: interrupt(self, TRUE); break;
    case GST_EVENT_FLUSH_STOP:
        interrupt(self, FALSE);
        worker_forget(self);
        self->arrived = 0;
        break;
    default: break;
    }
    return GST_BASE_TRANSFORM_CLASS(openrknn_inference_parent_class)->sink_event(base, event);
}

/* ---------------------------------------------------------------- formats and memory */

static gboolean set_caps(GstBaseTransform *base, GstCaps *caps, GstCaps *same) {
    OpenrknnInference *self = OPENRKNN_INFERENCE(base);
    GstVideoInfo info;
    gboolean is_known;
    (void)same;
#if GST_CHECK_VERSION(1, 24, 0)
    GstVideoInfoDmaDrm drm;
    if (gst_video_is_dma_drm_caps(caps))
        is_known = gst_video_info_dma_drm_from_caps(&drm, caps) && gst_video_info_dma_drm_to_video_info(&drm, &info);
    else
#endif
        is_known = gst_video_info_from_caps(&info, caps);
    if (!is_known || frame_format(GST_VIDEO_INFO_FORMAT(&info)) < 0) {
        GST_ERROR_OBJECT(self, "no frames as %" GST_PTR_FORMAT, caps);
        return FALSE;
    }
    worker_settle(self);
    worker_forget(self); /* results of another size */
    self->info = info;
    self->is_mappable = !gst_caps_features_contains(gst_caps_get_features(caps, 0), DMABUF);
    return TRUE;
}

/* Elements upstream that let others allocate get memory with descriptors, unless one downstream has its own. */
static gboolean propose_allocation(GstBaseTransform *base, GstQuery *decided, GstQuery *query) {
    GstBaseTransformClass *parent = GST_BASE_TRANSFORM_CLASS(openrknn_inference_parent_class);
    gboolean is_answered = parent->propose_allocation(base, decided, query), wants_pool;
    GstAllocationParams parameters = {0};
    GstVideoInfo info;
    GstCaps *caps;
    gst_query_parse_allocation(query, &caps, &wants_pool);
    if (!caps || gst_query_get_n_allocation_pools(query) || gst_query_get_n_allocation_params(query) ||
        gst_caps_features_contains(gst_caps_get_features(caps, 0), DMABUF) || !gst_video_info_from_caps(&info, caps))
        return is_answered;
    GstAllocator *allocator = shared_allocator_new();
    gst_query_add_allocation_param(query, allocator, &parameters);
    if (wants_pool) {
        GstBufferPool *pool = gst_video_buffer_pool_new();
        GstStructure *config = gst_buffer_pool_get_config(pool);
        gst_buffer_pool_config_set_params(config, caps, (guint)GST_VIDEO_INFO_SIZE(&info), 0, 0);
        gst_buffer_pool_config_set_allocator(config, allocator, &parameters);
        gst_buffer_pool_config_add_option(config, GST_BUFFER_POOL_OPTION_VIDEO_META);
        if (gst_buffer_pool_set_config(pool, config))
            gst_query_add_allocation_pool(query, pool, (guint)GST_VIDEO_INFO_SIZE(&info), 0, 0);
        gst_object_unref(pool);
    }
    gst_object_unref(allocator);
    return TRUE;
}

/* ---------------------------------------------------------------- frames */

/* Metadata needs a buffer of our own; its pixels are those of the input. */
static GstFlowReturn prepare_output_buffer(GstBaseTransform *base, GstBuffer *input, GstBuffer **output) {
    (void)base;
    *output = gst_buffer_is_writable(input) ? input : gst_buffer_copy(input);
    return GST_FLOW_OK;
}

static GArray *numbers_of(GArray *regions) {
    GArray *numbers = g_array_new(FALSE, FALSE, sizeof(guint));
    for (guint at = 0; regions && at < regions->len; at++) {
        guint number = (guint)g_array_index(regions, GstVideoRegionOfInterestMeta *, at)->id;
        g_array_append_val(numbers, number);
    }
    return numbers;
}

static void attach(OpenrknnInference *self, GstBuffer *buffer, gboolean is_fresh, GArray *regions) {
    g_autofree char *name = gst_object_get_name(GST_OBJECT(self));
    GArray *numbers = numbers_of(regions);
    struct origin origin = {name, is_fresh, (const guint *)numbers->data, numbers->len};
    results_attach(self->last, buffer, &origin);
    g_array_unref(numbers);
}

/* Frames between runs carry the last results. */
static void attach_last(OpenrknnInference *self, GstBuffer *buffer, gboolean is_repeated) {
    g_mutex_lock(&self->worker.lock);
    if (self->last && (is_repeated || self->is_unseen)) attach(self, buffer, FALSE, NULL);
    self->is_unseen = FALSE;
    g_mutex_unlock(&self->worker.lock);
}

static GstFlowReturn run_now(OpenrknnInference *self, GstBuffer *buffer) {
    GstFlowReturn flow = GST_FLOW_OK;
    GArray *regions = inference_regions(self, buffer);
    GArray *results = !regions || regions->len ? inference_run(self, buffer, regions, &flow) : NULL;
    if (flow == GST_FLOW_OK) {
        g_mutex_lock(&self->worker.lock);
        results_free(self->last);
        self->last = results;
        if (results) attach(self, buffer, TRUE, regions);
        g_mutex_unlock(&self->worker.lock);
    }
    if (regions) g_array_unref(regions);
    return flow;
}

static GstFlowReturn transform_ip(GstBaseTransform *base, GstBuffer *buffer) {
    OpenrknnInference *self = OPENRKNN_INFERENCE(base);
    GST_OBJECT_LOCK(self);
    gboolean is_due = self->arrived++ % self->settings.interval == 0, is_async = self->worker.thread != NULL;
    gboolean is_repeated = self->settings.is_repeated;
    self->counts.frames++;
    GST_OBJECT_UNLOCK(self);
    if (is_due && !is_async) return run_now(self, buffer);
    gboolean is_taken = is_due && worker_offer(self, buffer);
    if (!is_taken) {
        GST_OBJECT_LOCK(self);
        self->counts.skipped++;
        GST_OBJECT_UNLOCK(self);
    }
    attach_last(self, buffer, is_repeated);
    g_mutex_lock(&self->worker.lock);
    GstFlowReturn flow = self->worker.flow;
    g_mutex_unlock(&self->worker.lock);
    return flow;
}

/* ---------------------------------------------------------------- latency */

static gboolean query(GstBaseTransform *base, GstPadDirection direction, GstQuery *query) {
    OpenrknnInference *self = OPENRKNN_INFERENCE(base);
    GstBaseTransformClass *parent = GST_BASE_TRANSFORM_CLASS(openrknn_inference_parent_class);
    GstClockTime least, most, own;
    gboolean is_live;
    if (!parent->query(base, direction, query)) return FALSE;
    if (GST_QUERY_TYPE(query) != GST_QUERY_LATENCY || direction != GST_PAD_SRC) return TRUE;
    GST_OBJECT_LOCK(self);
    own = self->settings.is_async ? 0 : self->counts.reported;
    GST_OBJECT_UNLOCK(self);
    gst_query_parse_latency(query, &is_live, &least, &most);
    gst_query_set_latency(query, is_live, least + own, GST_CLOCK_TIME_IS_VALID(most) ? most + own : most);
    return TRUE;
}

/* ---------------------------------------------------------------- the type */

static void finalize(GObject *object) {
    OpenrknnInference *self = OPENRKNN_INFERENCE(object);
    inference_clear_settings(&self->settings);
    g_mutex_clear(&self->worker.lock);
    g_cond_clear(&self->worker.changed);
    G_OBJECT_CLASS(openrknn_inference_parent_class)->finalize(object);
}

static void openrknn_inference_class_init(OpenrknnInferenceClass *class) {
    GstElementClass *element = GST_ELEMENT_CLASS(class);
    GstBaseTransformClass *transform = GST_BASE_TRANSFORM_CLASS(class);
    G_OBJECT_CLASS(class)->finalize = finalize;
    inference_install_properties(G_OBJECT_CLASS(class));
    element->change_state = change_state;
    gst_element_class_add_static_pad_template(element, &sink_template);
    gst_element_class_add_static_pad_template(element, &source_template);
    gst_element_class_set_static_metadata(
        element, "openrknn inference", "Filter/Analyzer/Video",
        "Runs a model on the NPU and attaches boxes, masks, keypoints and classes to video frames",
        "The openrknn project");
    transform->start = start;
    transform->stop = stop;
    transform->sink_event = sink_event;
    transform->set_caps = set_caps;
    transform->propose_allocation = propose_allocation;
    transform->prepare_output_buffer = prepare_output_buffer;
    transform->transform_ip = transform_ip;
    transform->transform_ip_on_passthrough = TRUE;
    transform->query = query;
}

static void openrknn_inference_init(OpenrknnInference *self) {
    self->settings = (struct settings){
        .device = g_strdup("auto"), .threshold = -1, .overlap = -1, .interval = 1, .is_repeated = TRUE};
    self->staging.descriptor = -1;
    g_mutex_init(&self->worker.lock);
    g_cond_init(&self->worker.changed);
    gst_base_transform_set_in_place(GST_BASE_TRANSFORM(self), TRUE);
    gst_base_transform_set_passthrough(GST_BASE_TRANSFORM(self), TRUE);
    gst_base_transform_set_qos_enabled(GST_BASE_TRANSFORM(self), TRUE);
}
