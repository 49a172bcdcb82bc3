"""`openrknn stream --stats`: where the time of a frame goes, and how often the CPU has copied it."""

from __future__ import annotations

import os
import time
from collections import Counter
from typing import Any

from rich.text import Text

from openrknn.cli.common.output import Output
from openrknn.cli.common.tables import facts, table
from openrknn.quantities import duration
from openrknn.video.sources import VideoSource
from openrknn.vision.result import Result

__all__ = ["StreamStats"]

_STAGES = (
    ("capture", "capture or decode, with waiting"),
    ("convert", "scale and convert"),
    ("npu", "NPU"),
    ("decode", "decode the outputs"),
    ("draw", "draw and encode for the page"),
)


class StreamStats:
    """Sums over all frames of one `stream`."""

    def __init__(self) -> None:
        self.frames = 0
        self._seconds: dict[str, float] = {name: 0.0 for name, _ in _STAGES}
        self._copies: Counter[int] = Counter()
        self._converters: Counter[str] = Counter()
        self._sources: list[VideoSource] = []
        self._started = time.perf_counter()
        self._used = _processor_seconds()

    def opened(self, source: VideoSource) -> None:
        """A source of video was opened, perhaps again."""
        self._sources.append(source)

    def add(self, result: Result, draw_seconds: float) -> None:
        """One more frame or picture."""
        self.frames += 1
        inside = (result.prepare_seconds, result.run_seconds, result.decode_seconds)
        times = (result.capture_seconds, *inside, draw_seconds)
        for (name, _), seconds in zip(_STAGES, times, strict=True):
            self._seconds[name] += seconds
        if result.copies is not None:
            self._copies[result.copies] += 1
            self._converters[result.converter] += 1

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        count, elapsed = max(self.frames, 1), max(time.perf_counter() - self._started, 1e-9)
        copied = sum(self._copies.values())
        return {
            "frames": self.frames,
            "frames_per_second": self.frames / elapsed,
            "seconds_per_frame": {name: seconds / count for name, seconds in self._seconds.items()},
            "cpu_seconds_per_frame": (_processor_seconds() - self._used) / count,
            "copies_per_frame": sum(times * seen for times, seen in self._copies.items()) / copied if copied else None,
            "dropped": sum(source.dropped for source in self._sources),
            "decoders": list(dict.fromkeys(source.about()[0] for source in self._sources)),
            "converters": dict(self._converters),
            "notes": list(dict.fromkeys(note for source in self._sources for note in source.about()[1])),
        }

    def show(self, output: Output) -> None:
        """A table: the mean of each stage, then what did the work."""
        found = self.as_json()
        drawn = table("stage", "per frame", right=("per frame",))
        for name, title in _STAGES:
            drawn.add_row(Text(title), Text(duration(found["seconds_per_frame"][name])))
        drawn.add_row(Text("CPU time of this process"), Text(duration(found["cpu_seconds_per_frame"])))
        output.line()
        output.show(drawn)
        copies = found["copies_per_frame"]
        rows = [
            ("frames", f"{self.frames}, {found['frames_per_second']:.3g} per second, {found['dropped']} dropped"),
            ("copies by the CPU", "pictures are not counted" if copies is None else f"{copies:.3g} per frame"),
            ("decoder", "; ".join(found["decoders"]) or "none"),
            ("converter", ", ".join(found["converters"]) or "Pillow"),
        ]
        output.show(facts(rows))
        for note in found["notes"]:
            output.complain(f"note: {note}")


def _processor_seconds() -> float:
    used = os.times()
    return used.user + used.system
