"""What `RKNNLite.inference` costs on top of `Session.run`, on a device that computes nothing.

    python benchmarks/rknnlite_calls.py [MODEL.rknn ...]          microseconds per call, median
    python benchmarks/rknnlite_calls.py --soak 100000             does anything grow?

For comparison, measured on two Neoverse N1 cores with the vendor's wheel 2.5.0 and its runtime 1.5.2 on such a device:
166 us for a 32 x 32 picture in nhwc and 344 us in nchw, 5639 and 9136 us for a YOLOv8n with six outputs.
"""

from __future__ import annotations

import argparse
import gc
import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from openrknn.device import Job
from openrknn.device.software import SoftwareDevice
from openrknn.runtime.session import Session
from rknnlite.api import RKNNLite
from rknnlite.api.rknn_runtime import RKNNRuntime
from rknnlite.engine.sources import Source

ROOT = Path(__file__).resolve().parents[1]
MODELS = (
    ROOT / "tests" / "goldens" / "image_rk3588_i8.rknn",
    ROOT / "examples" / "models" / "efficientnet_lite0_rk3588_i8.rknn",
)


class Nothing:
    """A job that is done at once."""

    def run(self) -> None:
        """Leave everything as it is."""


class IdleDevice(SoftwareDevice):
    """Memory, and no work."""

    def prepare(self, job: Job) -> Any:
        return Nothing()


class IdleSource(Source):
    """A model whose sessions are on such a device."""

    def open_session(self, device: str, core_mask: int) -> Session:
        return Session(self.model, IdleDevice(self.model.chip), core_mask=core_mask)


def median_us(call: Callable[[], object], seconds: float) -> float:
    """Of as many calls as fit into the time, at least 20."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 20:
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return statistics.median(times) * 1e6


def start(source: IdleSource) -> RKNNLite:
    """A runtime on the idle device."""
    lite = RKNNLite()
    lite.rknn_runtime = RKNNRuntime()
    lite.rknn_runtime.build_graph(source)
    return lite


def picture_for(lite: RKNNLite) -> Any:
    """Zeros in the shape of the first input."""
    if lite.rknn_runtime is None:
        raise SystemExit("no runtime")
    attribute = lite.rknn_runtime.get_tensor_attr(0)
    return np.zeros(list(attribute.dims[: attribute.n_dims]), np.uint8)


def measure(path: Path, seconds: float) -> str:
    """One row."""
    source = IdleSource(path.read_bytes())
    lite = start(source)
    picture = picture_for(lite)
    planes = np.ascontiguousarray(picture.transpose(0, 3, 1, 2))
    with source.open_session("auto", 0) as session:
        calls: tuple[Callable[[], object], ...] = (
            lambda: session.run(picture, layout="nhwc", outputs="native"),
            lambda: session.run(picture, layout="nhwc"),
            lambda: lite.inference([picture]),
            lambda: lite.inference([planes], data_format="nchw"),
            lambda: lite.inference([picture], reuse_outputs=True),
        )
        return f"{path.stem:40.39}" + "".join(f"{median_us(call, seconds):>16.1f}" for call in calls)


def soak(path: Path, calls: int) -> str:
    """Memory and garbage over many calls, with the collector off."""
    lite = start(IdleSource(path.read_bytes()))
    picture = picture_for(lite)
    for _ in range(1000):
        lite.inference([picture])
    gc.collect()
    gc.disable()
    before, objects = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, len(gc.get_objects())
    for _ in range(calls):
        lite.inference([picture])
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return f"{calls} calls: {grown} KiB more memory at the peak, {len(gc.get_objects()) - objects} more objects"


def main() -> None:
    """Measure the models that are named, or two of ours."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", metavar="MODEL.rknn", nargs="*", type=Path)
    parser.add_argument("--seconds", type=float, default=1.0, help="per number (default: 1)")
    parser.add_argument("--soak", type=int, metavar="CALLS", help="look for growth instead")
    arguments = parser.parse_args()
    if arguments.soak:
        print(soak((arguments.models or MODELS)[0], arguments.soak))
        return
    names = ("session native", "session float", "lite nhwc", "lite nchw", "lite reused")
    print(f"{'microseconds per call, median':40}" + "".join(f"{name:>16}" for name in names))
    for path in arguments.models or MODELS:
        print(measure(path, arguments.seconds))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
