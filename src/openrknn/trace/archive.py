"""Traces on disk: written event by event, read with every size checked."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
import time
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from openrknn.closing import Closing
from openrknn.errors import BadTextError, FormatError, NotRknnError, RknnError
from openrknn.trace.records import (
    BufferState,
    CallRecord,
    CloseRecord,
    Event,
    FinishRecord,
    MapRecord,
    OpenRecord,
    SubmitRecord,
)
from openrknn.wholefiles import new_file

_VERSION = 1
_HEAD, _EVENTS, _BLOBS = "trace.json", "events.jsonl", "blobs/"
_KINDS: dict[str, type[Any]] = {
    "open": OpenRecord,
    "call": CallRecord,
    "map": MapRecord,
    "submit": SubmitRecord,
    "finish": FinishRecord,
    "close": CloseRecord,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}
_BOUNDED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Python inflates the others whole, whatever one asks for."""
_MAX_HEAD_BYTES = 1024 * 1024
_MAX_EVENTS_BYTES = 512 * 1024 * 1024
_MAX_BLOB_BYTES = 2**32
"""All that a device can address."""


class TraceError(RknnError):
    """A trace could not be written."""


class TraceWriter(Closing):
    """Writes a trace; events may come from several threads."""

    def __init__(self, path: str | os.PathLike[str], **about: str) -> None:
        self._path = Path(path)
        self._stack = contextlib.ExitStack()
        file = self._stack.enter_context(new_file(path))
        self._archive = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1)
        try:
            self._archive.writestr(_HEAD, json.dumps({"version": _VERSION, **about}))
        except OSError as error:
            raise self._gave_up(error) from None
        self._lines: list[str] = []
        self._blobs: set[str] = set()
        self._latest: dict[int | None, tuple[bytes, str]] = {}
        self._lock = threading.Lock()
        self._started = time.monotonic_ns()

    def now(self) -> int:
        """Nanoseconds since the recording began."""
        return time.monotonic_ns() - self._started

    def blob(self, data: bytes, buffer: int | None = None) -> str:
        """Store contents once; their name. Most buffers are as they were at the job before: to compare is much faster
        than to hash."""
        last = self._latest.get(buffer)
        if last is not None and last[0] == data:
            return last[1]
        digest = self._stored(data)
        if buffer is not None:
            self._latest[buffer] = data, digest
        return digest

    def forget(self, buffer: int) -> None:
        """A buffer is gone."""
        self._latest.pop(buffer, None)

    def _stored(self, data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()[:24]
        with self._lock:
            if digest not in self._blobs:
                self._blobs.add(digest)
                self._archive.writestr(f"{_BLOBS}{digest}", data)
        return digest

    def add(self, event: Event) -> None:
        """Append one event."""
        with self._lock:
            self._lines.append(json.dumps({"event": _NAMES[type(event)], **asdict(event)}))

    def close(self) -> None:
        """Finish the file."""
        with self._lock:
            if self._archive.fp is None:
                return
            try:
                self._archive.writestr(_EVENTS, "\n".join(self._lines))
                self._archive.close()
                self._stack.close()
            except (OSError, ValueError) as error:  # ValueError: a member before could not be written
                raise self._gave_up(error) from None

    def _gave_up(self, error: OSError | ValueError) -> TraceError:
        """Let go of the file, which the archive would try to finish again."""
        self._archive.fp = None
        with contextlib.suppress(OSError):  # to close the file writes once more what could not be written
            self._stack.__exit__(type(error), error, None)
        reason = error.strerror if isinstance(error, OSError) else error
        return TraceError(f"{self._path}: {reason}; no trace was written")


class Trace(Closing):
    """A recorded trace."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        try:
            self._archive = zipfile.ZipFile(path)
            self.about: Mapping[str, Any] = json.loads(self._member(_HEAD, _MAX_HEAD_BYTES))
            self.events = tuple(_events(self._member(_EVENTS, _MAX_EVENTS_BYTES)))
        except (zipfile.BadZipFile, KeyError) as error:
            raise NotRknnError(f"not a trace of openrknn: {error}", section=str(path)) from None
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise BadTextError(f"a damaged trace: {error}", section=str(path)) from None

    @property
    def chip(self) -> str:
        """The chip that the device was."""
        return str(self.about.get("chip", "rk3588"))

    def contents(self, state: BufferState) -> bytes:
        """The bytes of a buffer at the moment of `state`."""
        try:
            data = self._member(f"{_BLOBS}{state.blob}", min(state.size, _MAX_BLOB_BYTES))
        except (KeyError, zipfile.BadZipFile) as error:
            raise FormatError(f"contents {state.blob} are missing: {error}", section=_BLOBS) from None
        if len(data) != state.size:
            raise FormatError(f"contents {state.blob} have {len(data)} bytes, not {state.size}", section=_BLOBS)
        return data

    def _member(self, name: str, limit: int) -> bytes:
        """One file of the archive. Its declared size is checked, and no more than that is inflated."""
        info = self._archive.getinfo(name)
        data = b""
        if info.compress_type not in _BOUNDED:
            raise FormatError(f"compressed in an unknown way ({info.compress_type})", section=name)
        if info.file_size <= limit:
            try:
                with self._archive.open(info) as file:
                    data = file.read(limit + 1)
            except (zlib.error, NotImplementedError, RuntimeError, EOFError, OSError) as error:
                raise FormatError(f"damaged: {error}", section=name) from None
        if max(info.file_size, len(data)) > limit:
            raise FormatError(f"it has {info.file_size} bytes or more, and at most {limit} are possible", section=name)
        return data

    def jobs(self) -> Iterator[tuple[SubmitRecord, FinishRecord | None]]:
        """Jobs with how they ended."""
        ends = {event.job: event for event in self.events if isinstance(event, FinishRecord)}
        for event in self.events:
            if isinstance(event, SubmitRecord):
                yield event, ends.get(event.job)

    def close(self) -> None:
        self._archive.close()


def _events(data: bytes) -> Iterator[Event]:
    for line in data.decode("utf-8").splitlines():
        fields = json.loads(line)
        kind = _KINDS[fields.pop("event")]
        if "buffers" in fields:
            fields["buffers"] = tuple(BufferState(**state) for state in fields["buffers"])
        if "lists" in fields:
            fields["lists"] = {int(core): (int(first), str(raw)) for core, (first, raw) in fields["lists"].items()}
        yield kind(**fields)
