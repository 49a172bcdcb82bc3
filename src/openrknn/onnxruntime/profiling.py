"""What `end_profiling` writes: ONNX Runtime's trace (Chrome's format), with the parts of the NPU in it."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterable
from typing import Any

from openrknn.container.bundle import Part
from openrknn.onnxruntime.real import CPU, RKNN


class Profiling:
    """Collects events of a session; any thread may add some."""

    def __init__(self, prefix: str) -> None:
        self.start_time_ns = time.time_ns()
        self._zero = time.monotonic_ns()
        self._prefix = prefix
        self._events: list[dict[str, Any]] = []
        self._lock = threading.Lock()
        self._ended = False

    def session(self, name: str, start: int, stop: int) -> None:
        """Something that the whole session did; times are of `time.monotonic_ns`."""
        self._add("Session", name, start, stop, {})

    def parts(self, timings: Iterable[tuple[Part, int, int]]) -> None:
        """Parts that ran: (part, start, stop)."""
        for number, (part, start, stop) in enumerate(timings):
            npu = part.kind == "npu"
            name = f"{part.kind}_part_{number}"
            args = {
                "provider": RKNN if npu else CPU,
                "op_name": "RknnPart" if npu else "CpuPart",
                "node_index": str(number),
                "operators": str(part.operators),
                "macs": str(part.macs),
                "inputs": list(part.inputs),
                "outputs": list(part.outputs),
                "reason": part.reason,
            }
            self._add("Node", f"{name}_kernel_time", start, stop, args)

    def _add(self, kind: str, name: str, start: int, stop: int, args: dict[str, Any]) -> None:
        event = {
            "cat": kind,
            "pid": os.getpid(),
            "tid": threading.get_native_id(),
            "dur": max(stop - start, 0) // 1000,
            "ts": max(start - self._zero, 0) // 1000,
            "ph": "X",
            "name": name,
            "args": args,
        }
        with self._lock:
            if not self._ended:
                self._events.append(event)

    def end(self) -> str:
        """Write the file and say its name; nothing the second time, as ONNX Runtime does."""
        with self._lock:
            if self._ended:
                return ""
            self._ended = True
            events = sorted(self._events, key=lambda event: (event["ts"], -event["dur"]))
        now = time.time_ns()
        stamp = time.strftime("%Y-%m-%d_%H-%M-%S", time.localtime(now // 10**9))
        name = f"{self._prefix}_{stamp}_{now // 10**6 % 1000:03}.json"
        with open(name, "w", encoding="utf-8") as file:
            file.write("[\n" + ",\n".join(json.dumps(event) for event in events) + "\n]\n")
        return name
