/* The properties of `openrknn`. */
#include "inference.h"

enum property {
    PROP_MODEL = 1, PROP_DEVICE, PROP_LABELS, PROP_FAMILY, PROP_TASK, PROP_FIT, PROP_REGIONS, PROP_ENGINE,
    PROP_THRESHOLD, PROP_OVERLAP, PROP_LIMIT, PROP_CORES, PROP_INTERVAL, PROP_REPEAT, PROP_ASYNC, PROP_STATS,
};

static char **text_field(struct settings *settings, guint property) {
    switch (property) {
    case PROP_MODEL: return &settings->model;
    case PROP_DEVICE: return &settings->device;
    case PROP_LABELS: return &settings->labels;
    case PROP_FAMILY: return &settings->family;
    case PROP_TASK: return &settings->task;
    case PROP_FIT: return &settings->fit;
    case PROP_REGIONS: return &settings->regions;
    case PROP_ENGINE: return &settings->engine;
    default: return NULL;
    }
}

static void set_property(GObject *object, guint property, const GValue *value, GParamSpec *spec) {
    struct settings *settings = &OPENRKNN_INFERENCE(object)->settings;
    GST_OBJECT_LOCK(object);
    char **text = text_field(settings, property);
    switch (property) {
    case PROP_THRESHOLD: settings->threshold = g_value_get_double(value); break;
    case PROP_OVERLAP: settings->overlap = g_value_get_double(value); break;
    case PROP_LIMIT: settings->limit = g_value_get_uint(value); break;
    case PROP_CORES: settings->cores = g_value_get_uint(value); break;
    case PROP_INTERVAL: settings->interval = g_value_get_uint(value); break;
    case PROP_REPEAT: settings->is_repeated = g_value_get_boolean(value); break;
    case PROP_ASYNC: settings->is_async = g_value_get_boolean(value); break;
    default:
        if (text) {
            g_free(*text);
            *text = g_value_dup_string(value);
        } else {
            G_OBJECT_WARN_INVALID_PROPERTY_ID(object, property, spec);
        }
    }
    GST_OBJECT_UNLOCK(object);
}

static GstStructure *stats(const OpenrknnInference *self) {
    const struct counts *counts = &self->counts;
    return gst_structure_new("openrknn-stats", "frames", G_TYPE_UINT64, counts->frames, "runs", G_TYPE_UINT64,
                             counts->runs, "skipped", G_TYPE_UINT64, counts->skipped, "copies", G_TYPE_UINT64,
                             counts->copies, "last-time", G_TYPE_UINT64, counts->last, "longest-time", G_TYPE_UINT64,
                             counts->peak, "engine-process", G_TYPE_INT, self->engine ? engine_process(self->engine) : 0,
                             NULL);
}

static void get_property(GObject *object, guint property, GValue *value, GParamSpec *spec) {
    OpenrknnInference *self = OPENRKNN_INFERENCE(object);
    struct settings *settings = &self->settings;
    GST_OBJECT_LOCK(object);
    char **text = text_field(settings, property);
    switch (property) {
    case PROP_THRESHOLD: g_value_set_double(value, settings->threshold); break;
    case PROP_OVERLAP: g_value_set_double(value, settings->overlap); break;
    case PROP_LIMIT: g_value_set_uint(value, settings->limit); break;
    case PROP_CORES: g_value_set_uint(value, settings->cores); break;
    case PROP_INTERVAL: g_value_set_uint(value, settings->interval); break;
    case PROP_REPEAT: g_value_set_boolean(value, settings->is_repeated); break;
    case PROP_ASYNC: g_value_set_boolean(value, settings->is_async); break;
    case PROP_STATS: g_value_take_boxed(value, stats(self)); break;
    default:
        if (text) g_value_set_string(value, *text);
        else G_OBJECT_WARN_INVALID_PROPERTY_ID(object, property, spec);
    }
    GST_OBJECT_UNLOCK(object);
}

void inference_clear_settings(struct settings *settings) {
    for (guint property = PROP_MODEL; property <= PROP_ENGINE; property++) g_clear_pointer(text_field(settings, property), g_free);
}

#define READY (G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_READY)
#define PLAYING (G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_PLAYING)

static void install_text(GObjectClass *class, guint property, const char *name, const char *nick, const char *about,
                         const char *usual) {
    g_object_class_install_property(class, property, g_param_spec_string(name, nick, about, usual, READY));
}

void inference_install_properties(GObjectClass *class) {
    class->set_property = set_property;
    class->get_property = get_property;
    install_text(class, PROP_MODEL, "model", "Model", "The file of the model: .rknn, or whatever openrknn runs", NULL);
    install_text(class, PROP_DEVICE, "device", "Device", "Where it runs: auto, software:rk3588, ...", "auto");
    install_text(class, PROP_LABELS, "labels", "Labels",
                 "A file with the class names, one per line, or the name of a list: coco, imagenet, voc, ...", NULL);
    install_text(class, PROP_FAMILY, "family", "Family", "The decoder, such as yolov7, where outputs fit several", NULL);
    install_text(class, PROP_TASK, "task", "Task", "detect, segment, pose, classify, text or read, where outputs fit several",
                 NULL);
    install_text(class, PROP_FIT, "fit", "Fit", "How a frame fills the model's input: letterbox, stretch, crop or line", NULL);
    install_text(class, PROP_REGIONS, "regions", "Regions",
                 "Look at the regions that earlier elements found, not at the frame: labels separated by commas, or all",
                 NULL);
    install_text(class, PROP_ENGINE, "engine", "Engine",
                 "The program that runs the model (default: openrknn-gst-engine of the installation that built this)", NULL);
    g_object_class_install_property(class, PROP_THRESHOLD,
        g_param_spec_double("threshold", "Threshold", "Least score of an object (-1: as the model's family has it)", -1, 1,
                            -1, READY));
    g_object_class_install_property(class, PROP_OVERLAP,
        g_param_spec_double("overlap", "Overlap", "Boxes that overlap more are one object (-1: the default of openrknn)",
                            -1, 1, -1, READY));
    g_object_class_install_property(class, PROP_LIMIT,
        g_param_spec_uint("limit", "Limit", "Most objects of a frame (0: the default of openrknn)", 0, 100000, 0, READY));
    g_object_class_install_property(class, PROP_CORES,
        g_param_spec_uint("cores", "Cores", "NPU cores that a frame may use (0: the driver chooses)", 0, 3, 0, READY));
    g_object_class_install_property(class, PROP_INTERVAL,
        g_param_spec_uint("interval", "Interval", "Run the model on every nth frame", 1, G_MAXUINT, 1, PLAYING));
    g_object_class_install_property(class, PROP_REPEAT,
        g_param_spec_boolean("repeat", "Repeat", "Frames that are not run carry the last results (fresh=false)", TRUE,
                             PLAYING));
    g_object_class_install_property(class, PROP_ASYNC,
        g_param_spec_boolean("async", "Asynchronous",
                             "Frames do not wait: they carry the newest results there are, which are of an earlier frame",
                             FALSE, READY));
    g_object_class_install_property(class, PROP_STATS,
        g_param_spec_boxed("stats", "Statistics",
                           "Frames, runs, frames passed on without a run, copies by the CPU, times in ns, process",
                           GST_TYPE_STRUCTURE, G_PARAM_READABLE | G_PARAM_STATIC_STRINGS));
}
