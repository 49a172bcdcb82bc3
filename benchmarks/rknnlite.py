"""What a call of `RKNNLite.inference` costs, on a device that computes nothing: ours, and the vendor's wheel.

    python benchmarks/rknnlite.py [MODEL.rknn ...]          microseconds per call, median
    python benchmarks/rknnlite.py --soak 100000             does anything grow?

The vendor's wheel and runtime are aarch64: on other machines both packages run in the same emulated Python. They take
turns, as they come out of the box, and processor time is measured, the best turn of each. The device below the wheel is
our emulated kernel, with an engine that says "done" at once; what its ioctls cost, which is nothing of the wheel's
doing, is measured and taken off. `tools/setup-witness` and `tools/setup-vendor-wheel` fetch the vendor's parts; without
them only ours is measured. Bar: at most a fifth.

An emulator distorts: it is far slower with vector instructions, in which a model with large outputs spends its time,
than with others. So the bar is judged on a real processor only, and elsewhere the ratio is just shown. On two Neoverse
N1 cores the wheel 2.5.0 with the runtime 1.5.2 needed 166 us for a 32 x 32 picture in nhwc and 344 us in nchw, 5639 and
9136 us for a YOLOv8n with six outputs; to copy the floats of these outputs takes 270 us there. The column "copies" says
how many such copies a call of ours costs here; the wheel's 5639 us are 21.
"""

from __future__ import annotations

import argparse
import gc
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[0] = str(ROOT)  # not the folder of this file, which has the name of the package that it measures

import numpy as np  # noqa: E402

from benchmarks import idle  # noqa: E402
from openrknn.fakekernel.device import Device  # noqa: E402
from openrknn.fakekernel.events import Called, Event  # noqa: E402
from openrknn.fakekernel.launch import prepare  # noqa: E402
from tests.compat.wheel import Wheel, WheelMissingError  # noqa: E402

V8N = ROOT.parent / "shared" / "models" / "bench" / "v8n_rk3588_i8.rknn"
EFFICIENTNET = ROOT / "examples" / "models" / "efficientnet_lite0_rk3588_i8.rknn"
MODELS = (ROOT / "tests" / "goldens" / "image_rk3588_i8.rknn", V8N if V8N.is_file() else EFFICIENTNET)
TURNS = 5
BAR = 5.0


# -- ours, in this Python --------------------------------------------------------------------------------------------


def median_us(call: Callable[[], object], seconds: float) -> float:
    """Of as many calls as fit into the time, at least 20."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 20:
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return statistics.median(times) * 1e6


def measure(path: Path, seconds: float) -> str:
    """One row."""
    source = idle.IdleSource(path.read_bytes())
    lite = idle.start(source)
    picture = idle.picture_for(lite)
    planes = np.ascontiguousarray(picture.transpose(0, 3, 1, 2))
    with source.open_session("auto", 0) as session:
        calls: tuple[Callable[[], object], ...] = (
            lambda: session.run(picture, layout="nhwc", outputs="native"),
            lambda: session.run(picture, layout="nhwc"),
            lambda: lite.inference([picture]),
            lambda: lite.inference([planes], data_format="nchw"),
            lambda: lite.inference([picture], reuse_outputs=True),
        )
        times = [median_us(call, seconds) for call in calls]
    results = lite.inference([picture]) or []
    places = [np.empty_like(result) for result in results]

    def copied() -> None:
        for place, result in zip(places, results, strict=True):
            np.copyto(place, result)

    copy = median_us(copied, seconds)
    return f"{path.stem:40.39}" + "".join(f"{each:>16.1f}" for each in times) + f"{times[2] / copy:>10.1f}"


def soak(path: Path, calls: int) -> str:
    """Memory and garbage over many calls, with the collector off."""
    lite = idle.start(idle.IdleSource(path.read_bytes()))
    picture = idle.picture_for(lite)
    for _ in range(1000):
        lite.inference([picture])
    gc.collect()
    gc.disable()
    before, objects = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, len(gc.get_objects())
    for _ in range(calls):
        lite.inference([picture])
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return f"{calls} calls: {grown} KiB more memory at the peak, {len(gc.get_objects()) - objects} more objects"


# -- both, in the Python that the vendor's wheel needs -----------------------------------------------------------------


class IdleLink:
    """In place of the engine's link: the engine computes each kind of job once, later ones are done at once."""

    def __init__(self, device: Device) -> None:
        self._scheduler = device._system.scheduler
        assert self._scheduler.link is not None
        self._real: Any = self._scheduler.link
        self._known: dict[bytes, Any] = {}
        self._asked: dict[int, bytes] = {}
        self._real._on_result = self._learn
        self._scheduler.link = self  # type: ignore[assignment]

    def run(self, job: int, space: Any, kind: str, lists: Any) -> bool:
        key = b"".join(data for _, data in lists.values())
        if key in self._known:
            self._scheduler.on_result(job, self._known[key])
            return True
        self._asked[job] = key
        return bool(self._real.run(job, space, kind, lists))

    def _learn(self, job: int, outcome: Any) -> None:
        self._known[self._asked.pop(job)] = outcome
        self._scheduler.on_result(job, outcome)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class Inside:
    """One of the packages in a process of its own."""

    def __init__(self, words: list[str], wheel: Wheel, device: Device | None) -> None:
        os.environ.update(wheel.environment)  # the launcher looks there for the emulator's libraries
        environment = dict(os.environ)
        if device is None:
            qemu = shutil.which("qemu-aarch64") or "qemu-aarch64-static"
            emulator = [] if platform.machine() == "aarch64" else [qemu]
            arguments, path = [*emulator, *words], (emulator or words)[0]
        else:
            command = prepare(words, device.environment, device.folder, environment)
            arguments, path, environment = list(command.arguments), command.path, dict(command.environment)
        self._process = subprocess.Popen(
            arguments, executable=path, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        while self._line() != "ready":
            pass

    def measure(self, count: int) -> list[float]:
        """nhwc, nchw, and a bare ioctl."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{count}\n")
        self._process.stdin.flush()
        while not (line := self._line())[:1].isdigit():
            pass  # the vendor's runtime talks on standard output too
        return [float(word) for word in line.split()]

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("a process ended before it was ready")
        return line.strip()

    def end(self) -> None:
        """No more."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


@contextmanager
def native_library() -> Iterator[list[str]]:
    """A folder that has our native library for aarch64; empty where the installed one already is."""
    if platform.machine() == "aarch64":
        yield []
        return
    if shutil.which("aarch64-linux-gnu-gcc") is None:
        raise SystemExit("no compiler for aarch64; Debian: apt install gcc-aarch64-linux-gnu libc6-dev-arm64-cross")
    with tempfile.TemporaryDirectory(prefix="openrknn-aarch64-") as name:
        cmake = shutil.which("cmake", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        options = ["-DCMAKE_SYSTEM_NAME=Linux", "-DCMAKE_SYSTEM_PROCESSOR=aarch64", "-DCMAKE_BUILD_TYPE=Release"]
        options += ["-DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc", f"-DCMAKE_INSTALL_PREFIX={name}/out"]
        for words in (["-S", str(ROOT / "native"), "-B", f"{name}/build", *options], ["--build", f"{name}/build"]):
            subprocess.run([str(cmake), *words], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([str(cmake), "--install", f"{name}/build"], check=True, stdout=subprocess.DEVNULL)
        yield [f"{name}/out"]


def ioctls_per_call(wheel: Wheel, words: list[str]) -> float:
    """How often the vendor's runtime asks the kernel, counted."""
    seen = [0]

    def hook(event: Event) -> None:
        seen[0] += isinstance(event, Called)

    with Device("rk3588", library=wheel.library, hook=hook) as device:
        IdleLink(device)
        inside = Inside(words, wheel, device)
        inside.measure(2)
        before = seen[0]
        inside.measure(10)
        inside.end()
        return (seen[0] - before - 10) / 20  # ten bare ones, and ten calls in nhwc and nchw each


def against_the_vendor(paths: list[Path]) -> bool:
    """A table; whether every ratio is above the bar."""
    try:
        wheel = Wheel.find()
    except WheelMissingError as missing:
        print(f"the vendor's wheel is not here ({missing}): nothing to compare with")
        return True
    columns = "".join(f"{kind + ' vendor':>14}{'ours':>10}{'ratio':>8}" for kind in ("nhwc", "nchw"))
    print(f"{'the same, both in one Python':32}{columns}")
    well = True
    with native_library() as folders:
        for path in paths:
            well &= _row(wheel, path, folders)
    return well


def _row(wheel: Wheel, path: Path, folders: list[str]) -> bool:
    inside = [str(wheel.python), "-B", str(ROOT / "benchmarks" / "rknnlite_inside.py")]
    numpy_only = [str(folder) for folder in wheel.packages[1:]]
    here = [str(ROOT / part) for part in ("src", "compat/rknnlite/src", ".")]
    theirs = [*inside, "vendor", str(path), *map(str, wheel.packages)]
    mine = [*inside, "ours", str(path), *here, *numpy_only, *folders]
    calls = ioctls_per_call(wheel, theirs)
    count = 300 if path.stat().st_size < 1 << 20 else 20
    with Device("rk3588", library=wheel.library) as device:
        IdleLink(device)
        vendor, ours = Inside(theirs, wheel, device), Inside(mine, wheel, None)
        turns = [(vendor.measure(count), ours.measure(count)) for _ in range(TURNS + 1)][1:]
        vendor.end()
        ours.end()
    text, ratios = f"{path.stem:32.31}", []
    for which in (0, 1):
        slow = min(them[which] - calls * them[2] for them, _ in turns)
        quick = min(us[which] for _, us in turns)
        ratios.append(slow / quick)
        text += f"{slow:>14.0f}{quick:>10.0f}{slow / quick:>8.1f}"
    ping = min(them[2] for them, _ in turns)
    print(f"{text}   ({calls:.1f} ioctls of {ping:.0f} us taken off)", flush=True)
    return min(ratios) >= BAR


def main() -> int:
    """Measure the models that are named, or two of ours."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", metavar="MODEL.rknn", nargs="*", type=Path)
    parser.add_argument("--seconds", type=float, default=1.0, help="per number (default: 1)")
    parser.add_argument("--soak", type=int, metavar="CALLS", help="look for growth instead")
    arguments = parser.parse_args()
    paths = arguments.models or list(MODELS)
    if arguments.soak:
        print(soak(paths[0], arguments.soak))
        return 0
    names = ("session native", "session float", "lite nhwc", "lite nchw", "lite reused")
    print(f"{'microseconds per call, median':40}" + "".join(f"{name:>16}" for name in names) + f"{'copies':>10}")
    for path in paths:
        print(measure(path, arguments.seconds), flush=True)
    well = against_the_vendor(paths)
    if platform.machine() != "aarch64":
        print("emulated: the bar is not judged here")
        return 0
    print("bar met" if well else f"NOT met: {BAR:g} times")
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
