"""Wheels, rewritten so that the same files always make the same bytes."""

import base64
import hashlib
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path

from packing.errors import PackingError

__all__ = ["metadata_folder", "read_wheel", "sha256", "write_wheel"]

_OLDEST = 315532800
"""1980-01-01: zip files know no earlier time."""
_EXECUTABLE = (".data/scripts/",)


def sha256(path: Path) -> str:
    """The hash of a file, in hexadecimal digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read_wheel(path: Path) -> dict[str, bytes]:
    """All files of a wheel but its RECORD, which is written anew."""
    with zipfile.ZipFile(path) as wheel:
        return {name: wheel.read(name) for name in wheel.namelist() if not name.endswith((".dist-info/RECORD", "/"))}


def metadata_folder(files: Mapping[str, bytes], name: str) -> str:
    """The .dist-info folder of a distribution in a wheel (`name` with underscores)."""
    folders = {path.split("/")[0] for path in files}
    found = {folder for folder in folders if folder.startswith(f"{name}-") and folder.endswith(".dist-info")}
    if len(found) != 1:
        raise PackingError(f"the wheel has {len(found)} .dist-info folders of {name} instead of one: {sorted(found)}")
    return found.pop()


def write_wheel(out: Path, name: str, version: str, tag: str, files: Mapping[str, bytes], *, epoch: int) -> Path:
    """Write a wheel with sorted members, one time, two modes, its tag, and a RECORD of everything."""
    info = metadata_folder(files, name)
    files = {**files, f"{info}/WHEEL": _tagged(files[f"{info}/WHEEL"].decode(), tag).encode()}
    record = f"{info}/RECORD"
    lines = [f"{path},{_digest(data)},{len(data)}\n" for path, data in sorted(files.items())]
    members = [*sorted(files.items(), key=lambda item: (".dist-info/" in item[0], item[0]))]
    members.append((record, "".join([*lines, f"{record},,\n"]).encode()))
    path = out / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for member, data in members:
            entry = zipfile.ZipInfo(member, time.gmtime(max(epoch, _OLDEST))[:6])
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # Unix, whose modes follow
            entry.external_attr = (0o100755 if any(part in member for part in _EXECUTABLE) else 0o100644) << 16
            wheel.writestr(entry, data, compresslevel=9)
    return path


def _digest(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def _tagged(text: str, tag: str) -> str:
    """The text of WHEEL with other tags: a compressed set such as py3-none-a.b is written as one line each."""
    python, abi, platforms = tag.split("-")
    lines = [line for line in text.splitlines() if line and not line.startswith(("Tag:", "Root-Is-Purelib:"))]
    lines.append(f"Root-Is-Purelib: {'true' if platforms == 'any' else 'false'}")
    lines += [f"Tag: {python}-{abi}-{platform}" for platform in platforms.split(".")]
    return "\n".join(lines) + "\n"
