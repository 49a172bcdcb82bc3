"""Triton's traces: timestamps of some requests, in files of its form, as clients set it while the server runs.

    trace_level     OFF, or TIMESTAMPS
    trace_rate      one of so many requests is traced
    trace_count     how many more; -1: no end
    log_frequency   so many traces per file FILE.0, FILE.1, ...; 0: one FILE when the server stops
    trace_file      chosen when the server starts (--trace-file) and by no client

A model may have settings of its own; what it does not set is as for all. What waits for a file and what files take is
bounded, whatever clients set.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from openrknn.serve.errors import BadRequestError, ConflictError
from openrknn.serve.plane.job import Answer
from openrknn.wholefiles import write_atomically

__all__ = ["Trace", "Traces"]

_LOG = logging.getLogger(__name__)
_DEFAULTS: dict[str, Any] = {"trace_level": ["OFF"], "trace_rate": 1000, "trace_count": -1, "log_frequency": 0}
_LEVELS = ("OFF", "TIMESTAMPS")
_MOST_NUMBER = (1 << 31) - 1
_MOST_WAITING = 10_000
"""Traces of one kind of settings that wait for their file; then it is written, whatever log_frequency says."""
_MOST_BYTES = 256 * 1024 * 1024
"""Of all files together."""
_MOST_MODELS = 1024
_MOST_ID = 128


class Trace:
    """One request that is traced. Times are of `time.monotonic`."""

    def __init__(self, kind: _Settings, number: int, model: str, version: str, protocol: str) -> None:
        self.kind, self.protocol = kind, protocol
        self.head: dict[str, Any] = {"id": number, "model_name": model, "model_version": int(version)}
        self._marks: list[tuple[str, int]] = []

    def mark(self, name: str, seconds: float | None = None) -> None:
        """Something happens now, or happened then."""
        self._marks.append((name, int(1e9 * (time.monotonic() if seconds is None else seconds))))

    def name(self, request_id: str | None) -> None:
        """The client's own name of the request."""
        if request_id:
            self.head["request_id"] = request_id[:_MOST_ID]

    def answered(self, answer: Answer, pre_seconds: float) -> None:
        """Where the time in queue and context went; `pre_seconds` of it were parsing."""
        stages, at = answer.stages, answer.arrived
        self.mark("QUEUE_START", at)
        for name, seconds in (
            ("COMPUTE_START", stages.queue),
            ("COMPUTE_INPUT_END", stages.pre - pre_seconds),
            ("COMPUTE_OUTPUT_START", stages.npu),
            ("COMPUTE_END", stages.post),
        ):
            at += max(0.0, seconds)
            self.mark(name, at)
        self.mark("INFER_RESPONSE_COMPLETE")
        self.mark("REQUEST_END")

    def rows(self) -> list[dict[str, Any]]:
        """As Triton writes them."""
        number = self.head["id"]
        return [self.head, *({"id": number, "timestamps": [{"name": name, "ns": ns}]} for name, ns in self._marks)]


class _Settings:
    """Of all models, or of one: only what was set for it. Counts are its own."""

    def __init__(self, above: _Settings | None, own: Mapping[str, Any]) -> None:
        self.above, self.own = above, dict(own)
        self.seen = 0
        self.waiting: list[Trace] = []

    def __getitem__(self, key: str) -> Any:
        return self.own[key] if key in self.own or self.above is None else self.above[key]


class Traces:
    """All of them."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._global = _Settings(None, _DEFAULTS)
        self._models: dict[str, _Settings] = {}
        self._number = self._index = self._written_bytes = 0
        self._writer = ThreadPoolExecutor(1, "openrknn-traces")
        self.is_on = False
        """Whether anything at all is traced: most servers ask no further."""

    @property
    def is_offered(self) -> bool:
        return self._file is not None

    # -- settings ------------------------------------------------------------------------------------------------

    def settings(self, model: str = "") -> dict[str, Any]:
        """In words of the protocol: numbers are texts."""
        kind = self._models.get(model, self._global)
        words = {key: kind[key] if key == "trace_level" else str(kind[key]) for key in _DEFAULTS}
        return {**words, "trace_file": str(self._file or ""), "trace_mode": "triton"}

    def update(self, words: Mapping[str, Any], model: str = "") -> dict[str, Any]:
        """Set some; None takes a setting back. All of them are right, or nothing changes."""
        changes = {key: _read(key, value) for key, value in words.items()}
        if "TIMESTAMPS" in (changes.get("trace_level") or ()) and self._file is None:
            raise ConflictError("there is no file for traces: start the server with --trace-file")
        with self._lock:
            kind = self._global
            if model:
                if model not in self._models and len(self._models) >= _MOST_MODELS:
                    raise ConflictError(f"{_MOST_MODELS} models have trace settings of their own")
                kind = self._models.get(model) or _Settings(self._global, {})
                self._models = {**self._models, model: kind}
            for key, value in changes.items():
                if value is not None:
                    kind.own[key] = value
                elif model:
                    kind.own.pop(key, None)
                else:
                    kind.own[key] = _DEFAULTS[key]
            kind.seen = 0
            self.is_on = any("TIMESTAMPS" in one["trace_level"] for one in (self._global, *self._models.values()))
        return self.settings(model)

    # -- requests ------------------------------------------------------------------------------------------------

    def start(self, model: str, version: str, protocol: str) -> Trace | None:
        """A trace of a request that begins; None: this one is not traced. `protocol` is HTTP or GRPC."""
        if not self.is_on:
            return None
        with self._lock:
            kind = self._models.get(model, self._global)
            if "TIMESTAMPS" not in kind["trace_level"] or not kind["trace_count"]:
                return None
            kind.seen += 1
            if kind.seen % kind["trace_rate"]:
                return None
            if kind["trace_count"] > 0:
                owner = kind if "trace_count" in kind.own else self._global
                owner.own["trace_count"] -= 1
            self._number += 1
            return Trace(kind, self._number, model, version, protocol)

    def end(self, trace: Trace) -> None:
        """It is answered: keep it for a file."""
        with self._lock:
            kind = trace.kind
            kind.waiting.append(trace)
            most = min(kind["log_frequency"] or _MOST_WAITING, _MOST_WAITING)
            if len(kind.waiting) < most and kind["trace_count"]:
                return
            full, kind.waiting = kind.waiting, []
            name = self._next()
        self._later(full, name)

    def _next(self) -> str:
        """FILE.0, FILE.1, ...: files of an earlier server stay."""
        while os.path.lexists(f"{self._file}.{self._index}"):
            self._index += 1
        self._index += 1
        return f"{self._file}.{self._index - 1}"

    def _later(self, traces: list[Trace], name: str) -> None:
        try:
            self._writer.submit(self._write, traces, name)
        except RuntimeError:  # the server has stopped
            self._write(traces, name)

    def _write(self, traces: list[Trace], name: str) -> None:
        text = json.dumps([row for trace in traces for row in trace.rows()])
        if self._written_bytes + len(text) > _MOST_BYTES:
            _LOG.warning("%d traces are lost: the trace files have %d bytes already", len(traces), self._written_bytes)
            return
        try:
            write_atomically(name, text)
        except OSError as error:
            _LOG.error("%d traces cannot be written to %s: %s", len(traces), name, error.strerror)
            return
        self._written_bytes += len(text)

    def close(self) -> None:
        """Write what is left."""
        with self._lock:
            kinds = [self._global, *self._models.values()]
            left = [trace for kind in kinds for trace in kind.waiting]
            for kind in kinds:
                kind.waiting = []
            name = self._next() if self._global["log_frequency"] else str(self._file)
        if left:
            self._later(left, name)
        self._writer.shutdown(wait=True)


def _read(key: str, value: Any) -> Any:
    """One setting from the network."""
    if key == "trace_file":
        raise BadRequestError("trace_file is chosen when the server starts (--trace-file)")
    if key not in _DEFAULTS:
        raise BadRequestError(f"there is no trace setting {key[:80]!r}; there are {', '.join(_DEFAULTS)}")
    if value is None:
        return None
    given = value if isinstance(value, list) else [value]
    if key == "trace_level":
        if not given or len(given) > len(_LEVELS) or not all(level in _LEVELS for level in given):
            raise BadRequestError(f"trace_level is a list of {' or '.join(_LEVELS)}; tensors are not traced")
        return ["TIMESTAMPS"] if "TIMESTAMPS" in given else ["OFF"]
    least = {"trace_rate": 1, "trace_count": -1, "log_frequency": 0}[key]
    text = str(given[0]) if len(given) == 1 and isinstance(given[0], str | int) else ""
    if not text.removeprefix("-").isascii() or not text.removeprefix("-").isdigit() or len(text) > 10:
        raise BadRequestError(f"{key} is a whole number")
    if not least <= int(text) <= _MOST_NUMBER:
        raise BadRequestError(f"{key} is a whole number from {least} to {_MOST_NUMBER}")
    return int(text)
