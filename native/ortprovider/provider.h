/* The execution provider: what its files share. */
#ifndef OPENRKNN_PROVIDER_H
#define OPENRKNN_PROVIDER_H

#include "host.h"
#include "ort.h"

#define PROVIDER_NAME "RknnExecutionProvider"
#define VISIBLE __attribute__((visibility("default")))

enum { REASON_ROOM = 2048 };

/* Bytes that grow. After a failure (`failed`) nothing more is written. */
struct bytes {
    uint8_t *at;
    size_t length, room;
    bool failed;
};

void bytes_free(struct bytes *);
void bytes_add(struct bytes *, const void *, size_t);
void bytes_varint(struct bytes *, uint64_t);

/* Fields of protobuf messages. */
void field_int(struct bytes *, unsigned number, int64_t);
void field_float(struct bytes *, unsigned number, float);
void field_bytes(struct bytes *, unsigned number, const void *, size_t);
void field_text(struct bytes *, unsigned number, const char *);
/* The head of a field whose `length` bytes follow. */
void field_head(struct bytes *, unsigned number, uint64_t length);

/* An OrtGraph as an ONNX model. `fused`: its inputs and outputs in order, or NULL for those of the graph itself. Nodes
 * that cannot be told become operators of the domain "openrknn.opaque", with all that they read. */
ort_status *graph_to_model(const ort_function *api, const ort_graph *, const ort_node *fused, struct bytes *model,
                           size_t *nodes);

ort_status *failure(const ort_function *api, int code, const char *text);

/* The provider of a session: made by the factory. */
ort_status *provider_create(const ort_function *api, const ort_function *ep_api, const ort_session_options *,
                            struct ort_ep **);
void provider_release(struct ort_ep *);

#endif
