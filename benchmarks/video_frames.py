"""CPU time of one 1080p frame from a file to a model's input: openrknn's sources beside OpenCV's, in turns.

    python benchmarks/video_frames.py [--frames 60] [--size 640] [--backends pyav gst ffmpeg]

Both decode the same H.264 file and end with RGB in a letterbox of 640x640. Decoding has the same cost on both sides and
is shown alone. CPU time is that of the process with all of its threads, and of ended children (ffmpeg).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from openrknn.video import boxes_for, convert
from openrknn.video.sources import open_source


def used() -> float:
    """Seconds of the CPU."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def ours(place: str, size: int, *, converts: bool) -> tuple[int, str]:
    """Decode, and convert straight into the input."""
    target, count, name = np.empty((size, size, 3), np.uint8), 0, ""
    with open_source(place) as source:
        for frame in source:
            with frame:
                if converts:
                    crop, box = boxes_for(frame.width, frame.height, size, size, "letterbox")
                    name = convert(frame, target, crop=crop, place=box).converter
            count += 1
    return count, name


def opencv(path: str, size: int, *, converts: bool) -> tuple[int, str]:
    """VideoCapture, cvtColor, resize, letterbox: what most programs do."""
    import cv2

    capture, count = cv2.VideoCapture(path), 0
    while True:
        # `grab` decodes; `read` also converts to BGR and copies.
        well, image = capture.read() if converts else (capture.grab(), None)
        if not well:
            break
        count += 1
        if image is not None:
            height, width = image.shape[:2]
            scale = min(size / width, size / height)
            inner = (round(width * scale), round(height * scale))
            small = cv2.resize(cv2.cvtColor(image, cv2.COLOR_BGR2RGB), inner, interpolation=cv2.INTER_LINEAR)
            top, left = (size - inner[1]) // 2, (size - inner[0]) // 2
            edges = (top, size - inner[1] - top, left, size - inner[0] - left)
            cv2.copyMakeBorder(small, *edges, cv2.BORDER_CONSTANT, value=(114, 114, 114))
    capture.release()
    return count, "OpenCV"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=60)
    parser.add_argument("--size", type=int, default=640)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--backends", nargs="+", default=["pyav", "gst"])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "clip.mp4"
        source = f"testsrc2=size=1920x1080:rate=30:duration={arguments.frames / 30}"
        command = ["ffmpeg", "-loglevel", "error", "-f", "lavfi", "-i", source, "-pix_fmt", "yuv420p", str(path)]
        subprocess.run(command, check=True)
        ways: dict[str, Callable[..., tuple[int, str]]] = {}
        ways["OpenCV"] = lambda **how: opencv(str(path), arguments.size, **how)
        for name in arguments.backends:
            place = f"gst:filesrc location={path} ! decodebin" if name == "gst" else f"{name}:{path}"
            ways[name] = lambda place=place, **how: ours(place, arguments.size, **how)
        measure(ways, arguments.repeats)


def measure(ways: dict[str, Callable[..., Any]], repeats: int) -> None:
    """The best of several turns, per frame."""
    best: dict[tuple[str, bool], float] = {}
    converters: dict[str, str] = {}
    for _ in range(repeats):
        for name, way in ways.items():
            for converts in (True, False):
                before = used()
                count, converter = way(converts=converts)
                seconds = (used() - before) / max(count, 1)
                best[name, converts] = min(best.get((name, converts), seconds), seconds)
                converters[name] = converter or converters.get(name, "")
    print(f"{'way':10} {'decode':>10} {'all':>10} {'beyond decoding':>16}  converter")
    for name in ways:
        alone, whole = 1e3 * best[name, False], 1e3 * best[name, True]
        print(f"{name:10} {alone:7.2f} ms {whole:7.2f} ms {whole - alone:13.2f} ms  {converters[name]}")


if __name__ == "__main__":
    main()
