"""The outer file: header, payload, trailing JSON. Which of the three flavours it is, or why it is refused."""

from __future__ import annotations

import mmap
import os
import stat
import struct
from dataclasses import field
from typing import BinaryIO, TypeAlias

from openrknn.backports import StrEnum
from openrknn.errors import (
    EmptyFileError,
    EncryptedModelError,
    NotRknnError,
    OtherGenerationError,
    TruncatedError,
    UnsupportedError,
)
from openrknn.records import dataclass

Source: TypeAlias = "str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO"

MAGIC = b"RKNN\0\0\0\0"
HEADER_BYTES = 64
_MAPPED_BYTES = 1 << 30
_FIRST_VERSION = 1
"""Both Toolkit 1 (OpenVX) and Toolkit 2 before 1.3 (a FlatBuffer with its identifier) call their container 1."""
_FLATBUFFERS = frozenset({1, 2, 4, 6})
"""Toolkits 1.1 and 1.2; 1.3 and 1.4; 1.5.0; 1.5.2 and newer. The model format inside says what is in which slot."""
_SHORT_HEADER_BYTES = 24
_HEADER = struct.Struct("<8sQQ")
_JSON_SIZE = struct.Struct("<Q")

# The first bytes of files that people hand over by mistake, to say what they are.
_LOOKS_LIKE = (
    (b"\x89PNG", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"PK\x03\x04", "a ZIP archive, perhaps a PyTorch checkpoint"),
    (b"\x7fELF", "a program or library"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"version https://git-lfs", "a Git LFS pointer: run `git lfs pull` to get the model itself"),
    (b"<!DOCTYPE", "a web page: was the download a log-in page?"),
    (b"<html", "a web page: was the download a log-in page?"),
    (b"\x08", "an ONNX model: compile it first"),
)


class Flavour(StrEnum):
    """The three layouts of the RKNPU2 family."""

    FLATBUFFER = "flatbuffer"
    """One FlatBuffer (toolkit 1.4 and newer)."""
    MINI = "mini"
    """A linked memory image with a small FlatBuffer of names (RV1103/RV1106 by default)."""


@dataclass(frozen=True, slots=True)
class Outer:
    """The parts of the file, not yet understood."""

    container_version: int
    flavour: Flavour
    payload: memoryview = field(repr=False)
    payload_offset: int
    json: memoryview = field(repr=False)
    json_offset: int
    trailing_bytes: int
    """Bytes after the JSON; the vendor's runtime ignores them."""


def open_source(source: Source) -> memoryview:
    """The bytes of a path, a buffer, or an open binary file.

    A mapped file that somebody cuts short ends the process (SIGBUS) at the next look at it, and copying a new model
    over an old one cuts it short. So files are read; only huge ones are mapped.
    """
    if isinstance(source, bytes | bytearray | memoryview):
        view = memoryview(source)
        return view.cast("B") if view.format != "B" or view.ndim != 1 else view
    if hasattr(source, "read"):
        data = source.read()
        if not isinstance(data, bytes):
            raise TypeError("the file is open in text mode; open it with mode 'rb'")
        return memoryview(data)
    if not isinstance(source, str | os.PathLike):  # a number would be a descriptor to `open`
        raise TypeError(f"a model is a path, bytes or a binary file, not {type(source).__name__}")
    kind = os.stat(source).st_mode
    if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):  # of a folder `open` says what it is; a pipe would block it
        raise UnsupportedError(f"{os.fspath(source)} is not a regular file; read it and pass the bytes")
    with open(source, "rb") as file:
        if os.fstat(file.fileno()).st_size > _MAPPED_BYTES:
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        return memoryview(file.read())


def split(data: memoryview) -> Outer:
    """Header, payload and JSON, every size checked against the file's."""
    _refuse_others(data)
    if len(data) < _SHORT_HEADER_BYTES:
        raise TruncatedError(f"the file has {len(data)} bytes, the header 24", offset=len(data), section="header")
    _, version, payload_bytes = _HEADER.unpack_from(data)
    if version == _FIRST_VERSION and bytes(data[28:32]) != MAGIC[:4]:
        raise OtherGenerationError(
            "this model was made by RKNN-Toolkit 1 for the first NPU generation (RKNPU1: RK1808, RK3399Pro, RV1109, "
            "RV1126); openrknn reads models for RKNPU2 (RK3588, RK3576, RK356x, RV1103/1106). Convert it again with "
            "RKNN-Toolkit 2 for your chip"
        )
    flavour = _flavour(version)
    start = HEADER_BYTES if version & 0xFF > 1 and payload_bytes else _SHORT_HEADER_BYTES
    end = start + payload_bytes
    if end > len(data):
        raise TruncatedError(
            f"the header announces {payload_bytes} bytes of model, but only {max(len(data) - start, 0)} follow; "
            "was the download or copy cut off?",
            offset=len(data),
            section="header",
        )
    if end + _JSON_SIZE.size > len(data):
        raise TruncatedError(
            "the file ends before the size of its JSON part", offset=len(data), section="trailing JSON"
        )
    json_bytes: int = _JSON_SIZE.unpack_from(data, end)[0]
    json_start = end + _JSON_SIZE.size
    if json_start + json_bytes > len(data):
        raise TruncatedError(
            f"{json_bytes} bytes of JSON are announced, {len(data) - json_start} follow",
            offset=end,
            section="trailing JSON",
        )
    if not payload_bytes:
        raise OtherGenerationError(
            "the file holds no network, only JSON: a custom operator or a model for the simulator of RKNN-Toolkit 1 "
            "(RK1808, RK3399Pro, RV1126). Convert the model for your chip with RKNN-Toolkit 2"
        )
    payload = data[start:end]
    if bytes(payload[:4]) == b"VPMN":
        raise OtherGenerationError(
            "this model is for the first NPU generation (RKNPU1: RK1808, RK3399Pro, RV1126); "
            "openrknn reads models for RKNPU2 (RK3588, RK3576, RK356x, RV1103/1106). Convert it again for your chip"
        )
    return Outer(
        container_version=version,
        flavour=flavour,
        payload=payload,
        payload_offset=start,
        json=data[json_start : json_start + json_bytes],
        json_offset=json_start,
        trailing_bytes=len(data) - json_start - json_bytes,
    )


def _flavour(version: int) -> Flavour:
    if version in _FLATBUFFERS:
        return Flavour.FLATBUFFER
    if version >> 8 == 0x10:
        return Flavour.MINI
    raise UnsupportedError(
        f"container version {version:#x} is not known; openrknn reads 1 and 2 (toolkits 1.1 to 1.4), 4 (1.5.0), "
        "6 (1.5.2 and newer), 0x1003 and 0x1004 (mini)"
    )


def _refuse_others(data: memoryview) -> None:
    if not len(data):
        raise EmptyFileError("the file is empty")
    head = bytes(data[:32])
    if head.startswith(b"RKNX"):
        raise OtherGenerationError(
            "this is a model of the RKNN3 generation (RKNX); openrknn reads the RKNPU2 generation (RKNN)"
        )
    if head.startswith(b"CYPTRKNN"):
        raise EncryptedModelError(
            "the model is encrypted (CYPTRKNN); only the vendor's runtime can open it. Ask its maker for a plain one"
        )
    if not head.startswith(MAGIC[: len(head)]) or head.strip(b"\0") == b"":
        guess = next((name for start, name in _LOOKS_LIKE if head.startswith(start)), "")
        raise NotRknnError(
            f"not a .rknn file: it starts with {head[:8]!r}, not {MAGIC!r}"
            + (f"; it looks like {guess}" if guess else ""),
            offset=0,
            section="header",
        )
