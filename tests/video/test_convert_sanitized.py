"""The native kernel under the address and undefined behaviour sanitizers, on odd sizes, in a process of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import ctypes, sys
import numpy as np
from openrknn import nativelib
from openrknn.video import PixelFormat, Plane, VideoFrame, convert
from tests.video.images import random_frame
from tests.video.test_convert import random_box

library = ctypes.CDLL(sys.argv[1])
nativelib.library = lambda: library
for number in range(120):
    random = np.random.default_rng(number)
    sizes = (1, 2, 3, 7, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 300)
    width, height, columns, rows = (int(random.choice(sizes)) for _ in range(4))
    frame = random_frame(random, list(PixelFormat)[number % len(PixelFormat)], width, height)
    channels = int(random.choice((1, 3, 4)))
    target = np.zeros((rows, columns, channels), np.uint8)
    how = dict(crop=random_box(random, width, height), place=random_box(random, columns, rows))
    # Exactly as large as the frame is: what lies behind the last row belongs to nobody.
    end = max(plane.offset + (layout.rows(height) - 1) * plane.stride + layout.row_bytes(width)
              for plane, layout in zip(frame.planes, frame.format.planes))
    memory = frame.planes[0].memory[:end].copy()
    planes = [Plane(plane.offset, plane.stride, -1, memory) for plane in frame.planes]
    assert convert(VideoFrame(frame.format, width, height, planes), target, **how).converter == "native"
print("clean")
"""


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The kernel alone, and the runtime of the sanitizer."""
    gcc = shutil.which("gcc")
    if gcc is None:
        pytest.skip("gcc is not here")
    runtime = subprocess.run([gcc, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    if not os.path.isabs(runtime.stdout.strip()):
        pytest.skip("gcc has no address sanitizer here")
    library = tmp_path_factory.mktemp("sanitized") / "pixels.so"
    flags = [
        "-std=gnu11",
        "-O1",
        "-g1",
        "-fPIC",
        "-shared",
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=all",
    ]
    sources = [str(ROOT / "native" / name) for name in ("pixels.c", "cpu.c")]
    subprocess.run([gcc, *flags, *sources, "-o", str(library)], check=True)
    return library, runtime.stdout.strip()


def test_odd_sizes_stay_inside_of_their_memory(sanitized: tuple[Path, str]) -> None:
    library, runtime = sanitized
    environment = {
        **os.environ,
        "LD_PRELOAD": runtime,
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
        "PYTHONMALLOC": "malloc",
    }
    command = [sys.executable, "-c", PROGRAM, str(library)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "clean\n"), done.stderr[-3000:]
