"""Whether this is a container, and which kind."""

from __future__ import annotations

import os
import re
from pathlib import Path

from openrknn.monitor import files

__all__ = ["container_kind"]

_CGROUP = re.compile(r"kubepods|docker|containerd|libpod|lxc|crio")
_KINDS = {"kubepods": "Kubernetes", "docker": "Docker", "libpod": "Podman", "lxc": "LXC"}


def container_kind(root: Path) -> str | None:
    """ "Kubernetes", "Docker", "Podman", "LXC" or "container"; None on a plain machine."""
    service_account = files.exists(root, "/var/run/secrets/kubernetes.io")
    if service_account or (root == Path("/") and "KUBERNETES_SERVICE_HOST" in os.environ):
        return "Kubernetes"
    if files.exists(root, "/.dockerenv"):
        return "Docker"
    if files.exists(root, "/run/.containerenv"):
        return "Podman"
    match = _CGROUP.search(files.text(root, "/proc/1/cgroup") or "")
    return _KINDS.get(match[0], "container") if match else None
