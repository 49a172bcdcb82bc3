"""Values that users give. Each set is rendered and checked."""

from __future__ import annotations

from typing import Any

__all__ = ["CASES", "WRONG"]

CASES: dict[str, dict[str, Any]] = {
    "defaults": {},
    "software": {"devicePlugin": {"software": {"count": 2, "chip": "rk3576"}, "resource": "example.com/npu"}},
    "cores, k3s, labels": {
        "devicePlugin": {
            "strategy": "cores",
            "cdi": True,
            "nodeFeatures": True,
            "kubeletDir": "/var/lib/rancher/kubelet",
            "interval": 10,
            "criticalPodsQuota": True,
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "board", "operator": "In", "values": ["rock-5b"]}]}
            ]}}},
            "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}],
            "podAnnotations": {"example.com/a": "b"},
            "podLabels": {"team": "vision"},
            "serviceAccount": {"name": "npus", "annotations": {"example.com/role": "none"}},
        },
        "commonLabels": {"owner": "me"},
        "imagePullSecrets": [{"name": "registry"}],
        "image": {"repository": "registry.example/openrknn", "digest": "sha256:" + "0" * 64},
        "networkPolicy": {"metricsFrom": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}]},
    },
    "shares": {"devicePlugin": {"shares": 4, "extraArgs": ["--json"]}},
    "nodes that differ": {
        "devicePlugin": {"config": 'strategy = "shares"\n[[node]]\nnames = ["rock5-*"]\nstrategy = "cores"\n'}
    },
    "dra": {"dra": {"enabled": True}, "networkPolicy": {"apiServerPorts": [443, 6443]}},
    "dra, extended resource": {
        "dra": {"enabled": True, "deviceClass": {
            "extendedResourceName": "rockchip.com/npu",
            "selector": 'device.attributes["npu.rockchip.com"].soc == "rk3588"',
        }},
        "devicePlugin": {"software": {"count": 2}},
    },
    "dra beside the plugin, no policies": {
        "dra": {"enabled": True, "devicePluginToo": True, "admissionPolicy": False, "deviceClass": {"create": False},
                "shares": "capacity", "taintEffect": "NoExecute"},
        "devicePlugin": {"strategy": "shares", "configMap": "nodes"},
        "networkPolicy": {"enabled": False},
    },
    "serve": {"serve": {"enabled": True}},
    "serve alone, everything off": {
        "devicePlugin": {"enabled": False},
        "serve": {
            "enabled": True, "token": {"enabled": False}, "tls": {"enabled": False}, "maxUnavailable": "",
            "npu": {"count": 0}, "models": {"hostPath": "/srv/models", "poll": 5}, "allowRepositoryControl": True,
        },
        "networkPolicy": {"enabled": False},
    },
    "serve with all of it": {
        "serve": {
            "enabled": True, "replicas": 3, "maxUnavailable": "50%", "otlp": "http://collector:4318",
            "limits": {"clientConnections": 1000, "clientStreams": 500, "clientRate": 2.5},
            "npu": {"claimTemplate": "one-core"},
            "token": {"existingSecret": "mine"}, "tls": {"existingSecret": "mine-tls"},
            "autoscaling": {"kind": "hpa", "max": 4},
            "ingress": {"enabled": True, "host": "npu.example", "className": "nginx", "tlsSecret": "npu-example",
                        "annotations": {"nginx.ingress.kubernetes.io/backend-protocol": "HTTPS"}},
            "service": {"type": "LoadBalancer", "port": 443, "annotations": {"a": "b"}},
            "extraArgs": ["--no-page"], "extraEnv": [{"name": "A", "value": "b"}],
            "extraEnvFrom": [{"secretRef": {"name": "credentials"}}],
            "nodeSelector": {"npu": "yes"}, "affinity": {"podAntiAffinity": {}}, "priorityClassName": "high",
            "tolerations": [{"operator": "Exists"}], "podAnnotations": {"a": "b"}, "podLabels": {"c": "d"},
        },
        "networkPolicy": {"serveFrom": [{"podSelector": {}}]},
    },
    "serve from elsewhere, cert-manager, KEDA": {
        "serve": {
            "enabled": True,
            "models": {"claim": "", "sources": ["https://models.example/yolo.rknn"], "size": "2Gi",
                       "requireChecksum": True},
            "tls": {"certManager": {"enabled": True, "issuer": {"name": "home"}}, "hosts": ["npu.example"]},
            "autoscaling": {"kind": "keda", "min": 0},
        },
        "monitoring": {"monitors": {"enabled": True, "caKey": ""}},
    },
    "monitoring, kserve": {
        "serve": {"enabled": True},
        "kserve": {"enabled": True, "cluster": True},
        "monitoring": {
            "monitors": {"enabled": True, "labels": {"release": "prometheus"}},
            "rules": {"enabled": True, "labels": {"release": "prometheus"}},
            "dashboard": {"enabled": True, "annotations": {"grafana_folder": "NPUs"}},
        },
    },
    "monitoring without secrets": {
        "serve": {"enabled": True, "token": {"enabled": False}, "tls": {"enabled": False}},
        "monitoring": {"monitors": {"enabled": True, "caKey": ""}},
        "kserve": {"enabled": True},
        "nameOverride": "npu",
    },
}  # fmt: skip

WRONG: dict[str, dict[str, Any]] = {
    "dra.enabled needs devicePlugin.enabled": {"dra": {"enabled": True}, "devicePlugin": {"enabled": False}},
    "not both": {"devicePlugin": {"config": "x = 1", "configMap": "mine"}},
    "would count each NPU twice": {
        "dra": {"enabled": True, "devicePluginToo": True, "deviceClass": {"extendedResourceName": "rockchip.com/npu"}}
    },
    "serve has no models": {"serve": {"enabled": True, "models": {"claim": ""}}},
    "issuer.name": {"serve": {"enabled": True, "tls": {"certManager": {"enabled": True}}}},
    "existingSecret or serve.tls.certManager": {
        "serve": {"enabled": True, "tls": {"existingSecret": "a", "certManager": {
            "enabled": True, "issuer": {"name": "b"}}}}
    },
    "serve.ingress.host": {"serve": {"enabled": True, "ingress": {"enabled": True}}},
    "larger than": {"serve": {"enabled": True, "autoscaling": {"min": 9}}},
    "cannot scale to 0": {"serve": {"enabled": True, "autoscaling": {"kind": "hpa", "min": 0}}},
    "the kubelet has no certificate": {"serve": {"enabled": True, "extraArgs": ["--tls-client-ca=/ca.pem"]}},
}  # fmt: skip
"""What the chart refuses, by words of its message."""
