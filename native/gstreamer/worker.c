/* With `async`: a thread that has one frame at a time. Frames that come while it is busy are passed on without a run. */
#include "inference.h"

/* Takes the frame over. With the lock at the beginning and at the end. */
static void look(OpenrknnInference *self, GstBuffer *frame) {
    struct worker *worker = &self->worker;
    guint generation = worker->generation;
    GstFlowReturn flow = GST_FLOW_OK;
    g_mutex_unlock(&worker->lock);
    GArray *regions = inference_regions(self, frame);
    GArray *results = !regions || regions->len ? inference_run(self, frame, regions, &flow) : NULL;
    if (regions) g_array_unref(regions);
    gst_buffer_unref(frame);
    g_mutex_lock(&worker->lock);
    if (flow == GST_FLOW_ERROR) worker->flow = flow;
    if (flow == GST_FLOW_OK && generation == worker->generation) {
        results_free(self->last);
        self->last = results;
        self->is_unseen = TRUE;
    } else {
        results_free(results); /* of before a flush */
    }
}

static gpointer work(gpointer pointer) {
    OpenrknnInference *self = pointer;
    struct worker *worker = &self->worker;
    g_mutex_lock(&worker->lock);
    while (!worker->is_ending) {
        if (!worker->frame) {
            g_cond_wait(&worker->changed, &worker->lock);
            continue;
        }
        worker->is_busy = TRUE;
        look(self, g_steal_pointer(&worker->frame));
        worker->is_busy = FALSE;
        g_cond_broadcast(&worker->changed);
    }
    g_mutex_unlock(&worker->lock);
    return NULL;
}

void worker_start(OpenrknnInference *self) {
    self->worker.is_ending = FALSE;
    self->worker.flow = GST_FLOW_OK;
    self->worker.thread = g_thread_new("openrknn", work, self);
}

void worker_stop(OpenrknnInference *self) {
    struct worker *worker = &self->worker;
    if (!worker->thread) return;
    g_mutex_lock(&worker->lock);
    worker->is_ending = TRUE;
    g_clear_pointer(&worker->frame, gst_buffer_unref);
    g_cond_broadcast(&worker->changed);
    g_mutex_unlock(&worker->lock);
    g_thread_join(g_steal_pointer(&worker->thread));
}

void worker_settle(OpenrknnInference *self) {
    struct worker *worker = &self->worker;
    g_mutex_lock(&worker->lock);
    g_clear_pointer(&worker->frame, gst_buffer_unref);
    while (worker->is_busy) g_cond_wait(&worker->changed, &worker->lock);
    g_mutex_unlock(&worker->lock);
}

void worker_forget(OpenrknnInference *self) {
    struct worker *worker = &self->worker;
    g_mutex_lock(&worker->lock);
    worker->generation++;
    g_clear_pointer(&worker->frame, gst_buffer_unref);
    g_clear_pointer(&self->last, results_free);
    g_mutex_unlock(&worker->lock);
}

gboolean worker_offer(OpenrknnInference *self, GstBuffer *buffer) {
    struct worker *worker = &self->worker;
    g_mutex_lock(&worker->lock);
    gboolean is_free = !worker->frame && !worker->is_busy;
    if (is_free) {
        worker->frame = gst_buffer_copy(buffer); /* of its list of memories; pixels are shared */
        g_cond_broadcast(&worker->changed);
    }
    g_mutex_unlock(&worker->lock);
    return is_free;
}
