"""What the page shows beside the picture: speed, latency, load, and what was found."""

from __future__ import annotations

import os
import time
from collections import deque
from io import BytesIO
from typing import Any

from openrknn.vision.live.broadcast import Broadcast
from openrknn.vision.pipeline import Pipeline
from openrknn.vision.result import Result

_QUALITY = 80
_WINDOW = 30
"""Speed and load are means over this many pictures."""
_LARGEST_SIDE = 1280
"""Larger pictures are scaled down for the browser."""
_MOST_ROWS = 8
_LONGEST_NAME = 120


class Meter:
    """Draws results, publishes them, and measures."""

    def __init__(self, broadcast: Broadcast, pipeline: Pipeline) -> None:
        self.count = 0
        self._broadcast = broadcast
        self._about = {"model": os.path.basename(pipeline.model.path or ""), "device": pipeline.device}
        self._workers = pipeline.workers
        self._seen: deque[tuple[float, float, float]] = deque(maxlen=_WINDOW)
        """When each picture was done, the processor's seconds until then, and how long the NPU worked on it."""

    def show(self, result: Result) -> float:
        """One more picture for everybody who looks; how many seconds drawing and encoding took."""
        started = time.perf_counter()
        picture = result.annotated()
        picture.thumbnail((_LARGEST_SIDE, _LARGEST_SIDE))
        data = BytesIO()
        picture.save(data, "jpeg", quality=_QUALITY)
        seconds = time.perf_counter() - started
        self._broadcast.publish(data.getvalue(), self._state(result, seconds))
        return seconds

    def _state(self, result: Result, draw_seconds: float) -> dict[str, Any]:
        self.count += 1
        used, now = os.times(), time.perf_counter()
        self._seen.append((now, used.user + used.system, result.run_seconds))
        steps = len(self._seen) - 1
        elapsed = max(now - self._seen[0][0], 1e-9)
        ran = sum(entry[2] for entry in self._seen) - self._seen[0][2]
        parts = (result.prepare_seconds, result.run_seconds, result.decode_seconds, draw_seconds)
        return {
            **self._about,
            "name": os.path.basename(result.name)[-_LONGEST_NAME:],
            "found": result.in_words(),
            "rows": _rows(result),
            "pictures_per_second": steps / elapsed if steps else 0.0,
            "latency_ms": 1e3 * sum(parts),
            "run_ms": 1e3 * result.run_seconds,
            "age_ms": 1e3 * (now - result.taken) if result.taken else None,
            "npu_percent": min(100 * ran / elapsed / self._workers, 100.0) if steps else 0.0,
            "cpu_percent": 100 * (self._seen[-1][1] - self._seen[0][1]) / elapsed if steps else 0.0,
            "cores": os.cpu_count() or 1,
        }


def _rows(result: Result) -> list[dict[str, Any]]:
    """The best few: a name or a text, and how sure."""
    rows = []
    for row in list(result.rows(_MOST_ROWS))[:_MOST_ROWS]:
        sure = row.get("score", row.get("probability", row.get("share", 0.0)))
        rows.append({"name": str(row.get("text", row.get("label", "text")))[:_LONGEST_NAME], "score": float(sure)})
    return rows
