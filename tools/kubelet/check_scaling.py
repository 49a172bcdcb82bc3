"""More pods when requests wait: the shipped HorizontalPodAutoscaler under the real controller.

Prometheus and prometheus-adapter are stood in for by a server that answers for the API group custom.metrics.k8s.io.
"""

from __future__ import annotations

import datetime
import json
import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from claims import apply, documents
from cluster import NAMESPACE, Cluster
from images import PAUSE
from processes import expect, wait
from sandbox import NODE_ADDRESS

_ADDRESS, _PORT = "10.96.0.50", 8443
_GROUP, _VERSION = "custom.metrics.k8s.io", "v1beta2"
_METRIC = "openrknn_queue_length"
_SCALERS = f"/apis/autoscaling/v2/namespaces/{NAMESPACE}/horizontalpodautoscalers/openrknn-serve"
_DEPLOYMENT = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/openrknn-serve"
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=app.kubernetes.io/name%3Dopenrknn-serve"


class _Adapter(ThreadingHTTPServer):
    """All pods together have so many requests waiting."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__((_ADDRESS, _PORT), _Handler)
        self.cluster, self.waiting = cluster, 0
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*map(str, cluster.certificates.make("adapter", "adapter", names=f"IP:{_ADDRESS}")))
        self.socket = context.wrap_socket(self.socket, server_side=True)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def answer(self, path: str) -> dict[str, Any] | None:
        """In the words of the group."""
        about = {"apiVersion": "v1", "kind": "APIResourceList", "groupVersion": f"{_GROUP}/{_VERSION}"}
        if path.rstrip("/") == f"/apis/{_GROUP}/{_VERSION}":
            kind = {"name": f"pods/{_METRIC}", "singularName": "", "namespaced": True, "kind": "MetricValueList"}
            return {**about, "resources": [{**kind, "verbs": ["get"]}]}
        if not path.startswith(f"/apis/{_GROUP}/{_VERSION}/namespaces/{NAMESPACE}/pods/*/{_METRIC}"):
            return None
        names = [pod["metadata"]["name"] for pod in self.cluster.api.get(_PODS)["items"]]
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        each = f"{1000 * self.waiting // max(len(names), 1)}m"
        items = [
            {"describedObject": {"kind": "Pod", "namespace": NAMESPACE, "name": name, "apiVersion": "/v1"},
             "metric": {"name": _METRIC}, "timestamp": now, "value": each}
            for name in names
        ]  # fmt: skip
        return {"kind": "MetricValueList", "apiVersion": f"{_GROUP}/{_VERSION}", "metadata": {}, "items": items}


class _Handler(BaseHTTPRequestHandler):
    server: _Adapter

    def do_GET(self) -> None:
        found = self.server.answer(self.path.partition("?")[0].replace("%2A", "*"))
        content = json.dumps(found or {}).encode()
        self.send_response(200 if found is not None else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *values: object) -> None:  # noqa: A002
        """Quiet."""


def pods_follow_what_waits(cluster: Cluster) -> str:
    """12 requests that wait are three pods at 4 each; none are one pod again."""
    subprocess.run(["ip", "address", "add", f"{_ADDRESS}/32", "dev", "lo"], check=True)
    adapter = _Adapter(cluster)
    apply(cluster, [*_aggregated(), *_shipped(cluster)])
    try:
        wait(lambda: cluster.api.get(f"/apis/{_GROUP}/{_VERSION}"), "the adapter's group", 60)
        wait(lambda: cluster.api.get(_DEPLOYMENT)["status"].get("readyReplicas") == 1, "the first pod")
        wait(lambda: cluster.api.get(_SCALERS)["status"].get("currentMetrics"), "the autoscaler's first reading")
        adapter.waiting = 12
        up = wait(lambda: cluster.api.get(_DEPLOYMENT)["status"].get("readyReplicas") == 3, "three pods")
        shown = cluster.api.get(_SCALERS)["status"]
        expect(shown["desiredReplicas"] == 3, f"{shown}")
        adapter.waiting = 0
        # The five minutes of quiet that are shipped are long for a check.
        quiet = {"spec": {"behavior": {"scaleDown": {"stabilizationWindowSeconds": 5}}}}
        cluster.api.call("PATCH", _SCALERS, quiet, "application/merge-patch+json")
        down = wait(lambda: cluster.api.get(_DEPLOYMENT)["spec"]["replicas"] == 1, "one pod again")
    finally:
        cluster.kubectl("-n", NAMESPACE, "delete", "hpa,deployment", "openrknn-serve", "--wait=false", fine=True)
        cluster.kubectl("delete", "apiservice", f"{_VERSION}.{_GROUP}", fine=True)
        adapter.shutdown()
    return f"three pods after {up:.0f} s, one again after {down:.0f} s"


def _aggregated() -> list[dict[str, Any]]:
    place, service = {"name": "adapter", "namespace": NAMESPACE}, {"clusterIP": _ADDRESS, "ports": [{"port": _PORT}]}
    return [
        {"apiVersion": "v1", "kind": "Service", "metadata": place, "spec": service},
        # Without one the API server takes the group for absent, although it asks at the Service's address.
        {
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {**place, "labels": {"kubernetes.io/service-name": "adapter"}},
            "ports": [{"name": "", "port": _PORT, "protocol": "TCP"}], "endpoints": [{"addresses": [NODE_ADDRESS]}],
        },
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": f"{_VERSION}.{_GROUP}"},
            "spec": {
                "group": _GROUP, "version": _VERSION, "groupPriorityMinimum": 100, "versionPriority": 100,
                "insecureSkipTLSVerify": True, "service": {**place, "port": _PORT},
            },
        },
    ]  # fmt: skip


def _shipped(cluster: Cluster) -> list[dict[str, Any]]:
    """The overlay's Deployment with pods that only wait: the autoscaler looks at pods, not into them."""
    found = documents(cluster.kubectl("kustomize", "deploy/kubernetes/serve/overlays/hpa"))
    chosen = [one for one in found if one["kind"] in {"Deployment", "HorizontalPodAutoscaler"}]
    for one in chosen:
        if one["kind"] == "Deployment":
            spec = one["spec"]["template"]["spec"]
            spec["containers"] = [{"name": "serve", "image": PAUSE, "imagePullPolicy": "Never"}]
            spec |= {"volumes": [], "terminationGracePeriodSeconds": 1, "hostNetwork": cluster.binaries.network is None}
    return chosen


CHECKS = (pods_follow_what_waits,)
