"""The bill of materials of a release: what each package needs, and what the Debian packages and the image bring along.

It is read from the packages themselves, in the form of CycloneDX 1.6 (JSON). Two runs over the same files give the same
bytes: the time is that of the commit, and the serial number is made from the content.
"""

import hashlib
import io
import json
import re
import tarfile
import uuid
from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from email.parser import BytesParser
from pathlib import Path
from typing import Any

from packing import archives, sources
from packing.errors import PackingError

__all__ = ["document", "write"]

FORMAT = "1.6"
_METADATA = re.compile(r"(?:^|/)[^/]+\.dist-info/METADATA$")
_DEBIAN = re.compile(r"(?:^|/)var/lib/dpkg/status\.d/[^/]+$")
_REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?:\[[^]]*\])?\s*(?P<range>[^;]*)(?:;\s*(?P<marker>.*))?")
_OPTIONAL = re.compile(r"extra\s*==\s*['\"]([\w-]+)['\"]")
_OURS = ("docs", "test")
"""Extras for work on openrknn itself."""
_MODELS = (".rknn", ".onnx", ".tflite")
Component = dict[str, Any]


def write(root: Path, folder: Path) -> Path:
    """openrknn-VERSION.cdx.json of all packages of a folder, beside them."""
    version = sources.version(root)
    path = folder / f"openrknn-{version}.cdx.json"
    packages = [file for file in sorted(folder.iterdir()) if file.name.endswith((".whl", ".deb", "-image.tar"))]
    if not packages:
        raise PackingError(f"{folder} has no wheel, Debian package or image; packaging/build makes them")
    path.write_text(json.dumps(document(packages, version, sources.epoch(root)), indent=1) + "\n", "utf-8")
    return path


def document(packages: Iterable[Path], version: str, epoch: int) -> dict[str, Any]:
    """The bill of these packages, as CycloneDX has it."""
    components: dict[str, Component] = {}
    dependencies = []
    for package in packages:
        reference = f"file:{package.name}"
        own, parts = _parts(package)
        file: Component = {"type": "file", "bom-ref": reference, "name": package.name, "hashes": [_sha256(package)]}
        components[reference] = {**file, **own}
        for part in parts:
            known = components.setdefault(part["bom-ref"], part)
            if part.get("scope") == "required" and "scope" in known:
                known["scope"] = "required"
        dependencies.append({"ref": reference, "dependsOn": sorted({part["bom-ref"] for part in parts})})
    found = [components[name] for name in sorted(components)]
    main = {"type": "application", "bom-ref": "openrknn", **_python("openrknn", version)}
    main["licenses"] = [_license("Apache-2.0")]
    dependencies.insert(0, {"ref": "openrknn", "dependsOn": sorted(entry["ref"] for entry in dependencies)})
    content = json.dumps([main, found, dependencies], sort_keys=True)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": FORMAT,
        "serialNumber": f"urn:uuid:{uuid.UUID(bytes=hashlib.sha256(content.encode()).digest()[:16], version=4)}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(epoch, timezone.utc).isoformat().replace("+00:00", "Z"),
            "tools": {"components": [{"type": "application", "name": "packaging/release", "version": version}]},
            "component": main,
        },
        "components": found,
        "dependencies": dependencies,
    }


def _parts(package: Path) -> tuple[Component, list[Component]]:
    """What a package says about itself, and what it needs or has inside."""
    if package.name.endswith(".whl"):
        return _wheel(package)
    archive = _deb(package) if package.name.endswith(".deb") else _image(package)
    parts = []
    for name, data in archive:
        if _METADATA.search(name):
            fields = BytesParser().parsebytes(data, headersonly=True)
            parts.append(_component(_python(fields["Name"], fields["Version"]), _licenses(fields)))
        elif _DEBIAN.search(name):
            fields = BytesParser().parsebytes(data, headersonly=True)
            parts.append(_component(_debian(fields["Package"], fields["Version"], fields["Architecture"]), []))
    return {}, parts


def _wheel(package: Path) -> tuple[Component, list[Component]]:
    files = archives.read_wheel(package)
    info = archives.metadata_folder(files, package.name.split("-", 1)[0])
    fields = BytesParser().parsebytes(files[f"{info}/METADATA"], headersonly=True)
    parts = []
    for line in fields.get_all("Requires-Dist") or []:
        match = _REQUIREMENT.match(line)
        assert match is not None
        extra = _OPTIONAL.search(match["marker"] or "")
        if extra is not None and (match["name"] == "openrknn" or extra[1] in _OURS):
            continue  # one extra that contains another, or what only developers install
        part = _component({"name": match["name"], "purl": f"pkg:pypi/{_name(match['name'])}"}, [])
        part["bom-ref"] = f"needs:{part['purl']}{match['range'].strip()}"
        part["scope"] = "optional" if extra else "required"
        part["properties"] = [{"name": "openrknn:range", "value": match["range"].strip() or "any"}]
        parts.append(part)
    for name, data in sorted(files.items()):
        if name.endswith(_MODELS):
            digest = hashlib.sha256(data).hexdigest()
            parts.append({
                "type": "machine-learning-model", "bom-ref": f"model:{digest}", "name": name,
                "hashes": [{"alg": "SHA-256", "content": digest}],
            })  # fmt: skip
    return {**_python(fields["Name"], fields["Version"]), "licenses": _licenses(fields), "name": package.name}, parts


def _component(identity: Component, licenses: list[Component]) -> Component:
    return {"type": "library", "bom-ref": identity["purl"], **identity, **({"licenses": licenses} if licenses else {})}


def _python(name: str, version: str) -> Component:
    return {"name": name, "version": version, "purl": f"pkg:pypi/{_name(name)}@{version.replace('+', '%2B')}"}


def _debian(name: str, version: str, architecture: str) -> Component:
    escaped = version.replace("+", "%2B").replace(":", "%3A")
    return {"name": name, "version": version, "purl": f"pkg:deb/debian/{name}@{escaped}?arch={architecture}"}


def _name(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _licenses(fields: Any) -> list[Component]:
    """The licence as an SPDX expression, where the package states one."""
    return [_license(str(fields["License-Expression"]))] if fields["License-Expression"] else []


def _license(expression: str) -> Component:
    return {"expression": expression}


def _sha256(path: Path) -> Component:
    return {"alg": "SHA-256", "content": archives.sha256(path)}


def _deb(path: Path) -> Iterator[tuple[str, bytes]]:
    """The files of a Debian package: an `ar` archive with a compressed tar in it."""
    data = path.read_bytes()
    offset = 8
    while offset + 60 <= len(data):
        name, size = data[offset : offset + 16].decode().strip().rstrip("/"), int(data[offset + 48 : offset + 58])
        if name.startswith("data.tar"):
            if name.endswith(".zst"):
                raise PackingError(f"{path.name}: {name} cannot be read; packaging/build deb writes xz")
            yield from _tar(data[offset + 60 : offset + 60 + size])
        offset += 60 + size + size % 2


def _image(path: Path) -> Iterator[tuple[str, bytes]]:
    """The files of all layers of an OCI archive; a layer that several images share is read once."""
    with tarfile.open(path) as layout:
        for member in layout:
            stream = layout.extractfile(member) if member.isfile() else None
            data = stream.read() if stream is not None else b""
            if data[:2] == b"\x1f\x8b":
                yield from _tar(data)


def _tar(data: bytes) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:*") as archive:
        for member in archive:
            if _METADATA.search(member.name) or _DEBIAN.search(member.name):
                stream = archive.extractfile(member)
                if stream is not None:
                    yield member.name, stream.read()
