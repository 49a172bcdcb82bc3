"""Images for containerd, made without a container tool."""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
from io import BytesIO
from pathlib import Path

PAUSE, TOOLS = "openrknn.test/pause:1", "openrknn.test/tools:1"
_FOLDERS = ("bin", "dev", "etc", "proc", "sys", "tmp", "usr", "lib", "lib64")


def write_image(path: Path, name: str, command: list[str], busybox: str) -> None:
    """A docker archive with one layer: busybox, and folders to mount things on."""
    layer = BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for folder in _FOLDERS:
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            tar.addfile(entry)
        tar.add(os.path.realpath(busybox), "bin/busybox")
        for tool in ("env", "grep"):
            entry = tarfile.TarInfo(f"bin/{tool}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(entry)
    content = layer.getvalue()
    machine = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
    config = json.dumps(
        {
            "architecture": machine,
            "os": "linux",
            "config": {"Cmd": command, "Env": ["PATH=/usr/local/bin:/usr/bin:/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(content).hexdigest()}"]},
        }
    ).encode()
    manifest = json.dumps([{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]).encode()
    with tarfile.open(path, "w") as tar:
        for entry_name, data in (("config.json", config), ("layer.tar", content), ("manifest.json", manifest)):
            entry = tarfile.TarInfo(entry_name)
            entry.size = len(data)
            tar.addfile(entry, BytesIO(data))
