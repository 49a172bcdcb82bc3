"""Zip archives of untrusted models: one reading of them, bounded, and a new archive with nothing else in it.

Two readers of the same zip can see two different archives: names that differ in case, a name twice, local headers that
contradict the directory. So a library never gets the archive that was given, but one written from what was read here.
"""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any

from openrknn.compiler.errors import ModelError
from openrknn.compiler.importer.formats.pairs import Source

_MOST_MEMBERS = 100_000
_MOST_SMALL = 64 * 2**20
_FREE_BYTES, _BYTES_PER_BYTE = 64 * 2**20, 4
"""Weights are not compressed; code and JSON are."""
_CHUNK = 1 << 20
_PLAIN = re.compile(r"[A-Za-z0-9_.\-+ @=]+(/[A-Za-z0-9_.\-+ @=]+)*")
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError, ValueError,
           OverflowError)  # fmt: skip
"""What zipfile raises on archives that are damaged, encrypted or compressed in another way."""


class Archive:
    """The members of a zip by name, without the folder that PyTorch puts around them. `BadZipFile` if it is none."""

    def __init__(self, source: Source | IO[bytes], name: str, *, is_rooted: bool = True) -> None:
        self.name = name
        stream: Any = io.BytesIO(source) if isinstance(source, bytes | bytearray) else source
        try:
            self._zip = zipfile.ZipFile(stream if hasattr(stream, "read") else Path(str(stream)))
        except FileNotFoundError:
            raise
        except _DAMAGE as error:
            raise zipfile.BadZipFile(str(error)) from None
        # `is_dir` of zipfile fails on a member without a name; `_check` refuses it.
        entries = [entry for entry in self._zip.infolist() if not entry.filename.endswith("/")]
        if len(entries) > _MOST_MEMBERS:
            raise ModelError(f"{name} has {len(entries)} members; a model has at most {_MOST_MEMBERS}")
        self._check(entries)
        root = _root(entries) if is_rooted else ""
        self._entries = {entry.filename[len(root) :]: entry for entry in entries}

    @property
    def names(self) -> list[str]:
        """In the order of the directory."""
        return list(self._entries)

    def size(self, member: str) -> int:
        """Bytes of a member."""
        return self._entries[member].file_size

    def read(self, member: str, most: int = _MOST_SMALL) -> bytes:
        """A member as a whole."""
        if self.size(member) > most:
            raise ModelError(f"{self.name}: {member!r} has over {most >> 20} MB, more than this part of a model has")
        return b"".join(self.chunks(member))

    def chunks(self, member: str) -> Iterable[bytes]:
        """A member, piece by piece, exactly as long as the directory says."""
        left = self.size(member)
        try:
            with self._zip.open(self._entries[member]) as file:
                while data := file.read(min(_CHUNK, left + 1)):
                    left -= len(data)
                    if left < 0:
                        break
                    yield data
        except _DAMAGE as error:
            raise ModelError(f"{self.name} is damaged: {member!r}: {error}") from None
        if left:
            raise ModelError(f"{self.name} is damaged: {member!r} is not as long as its directory says")

    def close(self) -> None:
        """Close the file."""
        self._zip.close()

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check(self, entries: Iterable[zipfile.ZipInfo]) -> None:
        """One name, one member, for readers of every kind; and no more bytes than a model of this size has."""
        seen: dict[str, str] = {}
        total = packed = 0
        for entry in entries:
            plain = _PLAIN.fullmatch(entry.filename)
            if not plain or len(entry.filename) > 500 or {".", ".."} & set(entry.filename.split("/")):
                raise ModelError(
                    f"{self.name} has a member with the name {entry.filename[:80]!r}; models have plain names"
                )
            if entry.filename != entry.orig_filename or entry.flag_bits & 0x1:
                raise ModelError(f"{self.name}: {entry.filename!r} is encrypted, or has two names; export it again")
            other = seen.setdefault(entry.filename.casefold(), entry.filename)
            if other is not entry.filename:
                raise ModelError(
                    f"{self.name} has two members {other!r} and {entry.filename!r}: programs differ in which of them "
                    "they read. Export the model again"
                )
            total, packed = total + entry.file_size, packed + entry.compress_size
        if total > _FREE_BYTES + _BYTES_PER_BYTE * packed:
            raise ModelError(f"{self.name} unpacks to {total} bytes from {packed}: more than a model of its size has")


def write_archive(target: Path | IO[bytes], archive: Archive, members: Mapping[str, str | bytes], root: str) -> None:
    """A new zip: its names -> a member of `archive` to copy, or bytes."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED, allowZip64=True) as made:
        for name, value in members.items():
            entry = zipfile.ZipInfo(f"{root}{name}")
            with made.open(entry, "w", force_zip64=isinstance(value, str) and archive.size(value) >= 1 << 31) as file:
                for data in [value] if isinstance(value, bytes) else archive.chunks(value):
                    file.write(data)


def _root(entries: Iterable[zipfile.ZipInfo]) -> str:
    """PyTorch puts all members into one folder, named after the file; old .pt2 files have none."""
    firsts = {entry.filename.partition("/")[0] if "/" in entry.filename else "" for entry in entries}
    return f"{firsts.pop()}/" if len(firsts) == 1 and "" not in firsts else ""
