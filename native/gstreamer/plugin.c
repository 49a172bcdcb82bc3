/* The plugin: libgstopenrknn.so with the elements openrknn and openrknnoverlay. */
#include "inference.h"
#include "overlay.h"

GST_DEBUG_CATEGORY(openrknn_debug);

static gboolean plugin_init(GstPlugin *plugin) {
    GST_DEBUG_CATEGORY_INIT(openrknn_debug, "openrknn", 0, "openrknn: models on video");
    return gst_element_register(plugin, "openrknn", GST_RANK_NONE, OPENRKNN_TYPE_INFERENCE) &&
           gst_element_register(plugin, "openrknnoverlay", GST_RANK_NONE, OPENRKNN_TYPE_OVERLAY);
}

#define PACKAGE "openrknn"
GST_PLUGIN_DEFINE(GST_VERSION_MAJOR, GST_VERSION_MINOR, openrknn, "Models on the NPU of Rockchip's chips, on video", plugin_init,
                  OPENRKNN_VERSION, "Apache 2.0", "openrknn", "https://github.com/openrknn/openrknn")
