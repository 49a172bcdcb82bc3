"""The OCI layout of an image for several architectures: blobs by digest, manifests, an index. No container tool needed.

Everything that could differ from build to build is fixed: order, times, owners, the head of gzip, the form of JSON.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from packing.errors import PackingError

from shipping.tree import Tree

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
_LEVEL = 6


@dataclass
class Platform:
    """One architecture of an image: its layers, lowest first, each with a word on how it came about."""

    architecture: str
    layers: list[tuple[str, bytes]]


class Layout:
    """Blobs, and the files that name them."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}

    def blob(self, data: bytes, kind: str, **more: Any) -> dict[str, Any]:
        """Keep a blob; its descriptor."""
        digest = hashlib.sha256(data).hexdigest()
        self.blobs[digest] = data
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(data), **more}

    def image(self, platform: Platform, run: Mapping[str, Any], labels: Mapping[str, str], time: int) -> dict[str, Any]:
        """Keep the layers, the configuration and the manifest of one architecture; the manifest's descriptor."""
        created = rfc3339(time)
        layers, plain, history = [], [], []
        for word, data in platform.layers:
            layers.append(self.blob(compress(data), LAYER))
            plain.append(f"sha256:{hashlib.sha256(data).hexdigest()}")
            history.append({"created": created, "created_by": word})
        system: dict[str, Any] = {"architecture": platform.architecture, "os": "linux"}
        if platform.architecture == "arm64":
            system["variant"] = "v8"
        config = {
            "created": created, **system, "config": {**run, "Labels": dict(labels)},
            "rootfs": {"type": "layers", "diff_ids": plain}, "history": history,
        }  # fmt: skip
        manifest = {
            "schemaVersion": 2, "mediaType": MANIFEST, "config": self.blob(canonical(config), CONFIG),
            "layers": layers, "annotations": dict(labels),
        }  # fmt: skip
        return self.blob(canonical(manifest), MANIFEST, platform=system)

    def finish(self, manifests: Iterable[Mapping[str, Any]], name: str, labels: Mapping[str, str]) -> str:
        """Keep the index over all architectures, named in the layout; its digest."""
        index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": list(manifests), "annotations": dict(labels)}
        tag = name.rpartition(":")[2]
        # Docker and containerd read the full name from the second one when they load the file.
        names = {"org.opencontainers.image.ref.name": tag, "io.containerd.image.name": f"docker.io/library/{name}"}
        top = self.blob(canonical(index), INDEX, annotations=names)
        self.top = canonical({"schemaVersion": 2, "mediaType": INDEX, "manifests": [top]})
        return str(top["digest"])

    def write(self, path: Path, time: int) -> None:
        """Write the layout as one tar, which `skopeo`, `podman load`, `ctr` and `docker load` read."""
        tree = Tree(time)
        tree.file("oci-layout", canonical({"imageLayoutVersion": "1.0.0"}))
        tree.file("index.json", self.top)
        for digest, data in self.blobs.items():
            tree.file(f"blobs/sha256/{digest}", data)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(tree.tar())


def compress(data: bytes) -> bytes:
    """gzip without a name and a time in its head."""
    return gzip.compress(data, _LEVEL, mtime=0)


def canonical(value: Any) -> bytes:
    """JSON in one form: sorted, without spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def rfc3339(time: int) -> str:
    """A time as OCI writes it."""
    return datetime.fromtimestamp(time, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def unpack(path: Path, architecture: str, target: Path) -> dict[str, Any]:
    """Unpack one architecture of a layout into a folder, every digest checked; the image's configuration."""
    with tarfile.open(path) as archive:
        blobs = _Blobs(archive)
        index = blobs.json(json.loads(blobs.read("index.json"))["manifests"][0])
        for entry in index["manifests"]:
            if entry["platform"]["architecture"] == architecture:
                manifest = blobs.json(entry)
                break
        else:
            raise PackingError(f"{path.name} has no image for {architecture}")
        config: dict[str, Any] = blobs.json(manifest["config"])
        for layer, plain in zip(manifest["layers"], config["rootfs"]["diff_ids"], strict=True):
            data = zlib.decompress(blobs.blob(layer), wbits=31)
            if f"sha256:{hashlib.sha256(data).hexdigest()}" != plain:
                raise PackingError(f"a layer of {path.name} is not what its configuration says")
            with tarfile.open(fileobj=io.BytesIO(data)) as files:
                files.extractall(target, filter="fully_trusted")  # our own, checked by digest
    return config


class _Blobs:
    """Blobs of a layout, checked as they are read."""

    def __init__(self, archive: tarfile.TarFile) -> None:
        self.archive = archive

    def read(self, name: str) -> bytes:
        try:
            source = self.archive.extractfile(name)
        except KeyError:
            source = None
        if source is None:
            raise PackingError(f"the layout has no {name}")
        return source.read()

    def blob(self, descriptor: Mapping[str, Any]) -> bytes:
        digest = str(descriptor["digest"]).removeprefix("sha256:")
        data = self.read(f"blobs/sha256/{digest}")
        if hashlib.sha256(data).hexdigest() != digest or len(data) != descriptor["size"]:
            raise PackingError(f"blob {digest[:12]} is not what its digest says")
        return data

    def json(self, descriptor: Mapping[str, Any]) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.blob(descriptor))
        return value
