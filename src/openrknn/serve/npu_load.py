"""`NpuLoad`: the NPUs that this server uses; each reading gives the load since the one before."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from openrknn import monitor
from openrknn.monitor import Npu
from openrknn.monitor.merge import merged
from openrknn.serve.plane.plane import Plane

__all__ = ["NpuLoad"]

_SHORTEST_SECONDS = 0.5
"""Two readings closer than this say nothing about the load; the earlier one is repeated."""


class NpuLoad:
    """One reader's view: a reader that comes every 15 s sees the load of these 15 s."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        self._root = Path(plane.settings.root)
        self._lock = threading.Lock()
        self._previous: monitor.Reading | None = None
        self._last: tuple[Npu, ...] = ()

    def npus(self) -> tuple[Npu, ...]:
        """The hardware, and the software NPUs of this server and its workers as if they were one per chip."""
        with self._lock:
            if self._previous is not None and time.monotonic() - self._previous.seconds < _SHORTEST_SECONDS:
                return self._last
            reading = monitor.read(self._root, self._previous)
            pids = {os.getpid(), *self._plane.worker_pids()}
            own = [npu for npu in reading.npus if npu.driver != "software" or npu.clients[0].pid in pids]
            # Each model has a software NPU of its own; people think of one.
            self._previous, self._last = reading, tuple(merged(own, lambda npu: (npu.driver, npu.name)))
            return self._last
