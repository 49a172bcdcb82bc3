"""One call in every way, beside each other, in a process that has a library. Used by vendor_overhead.py.

    python vendor_calls.py REPORT HELPER SECONDS MODEL ...      the library is that of OPENRKNN_LIBRARY

Below the emulated device this runs in an aarch64 Python; `VENDOR_NATIVE` is a folder with our native library for it,
`VENDOR_WHEEL` one with the vendor's rknn-toolkit-lite2.
"""

from __future__ import annotations

import builtins
import ctypes
import gc
import io
import json
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("RKNN_LOG_LEVEL", "0")
# Below the emulated device PYTHONPATH would reach the wrong Python.
sys.path[1:1] = filter(None, os.environ.get("OPENRKNN_BOARD_PATH", "").split(os.pathsep))

import numpy as np  # noqa: E402

import openrknn  # noqa: E402
from openrknn import Session  # noqa: E402
from openrknn.vendor import Context, Library  # noqa: E402
from openrknn.vendor.library.library import default_library  # noqa: E402

if os.environ.get("VENDOR_NATIVE"):
    openrknn.__path__.append(os.environ["VENDOR_NATIVE"])

ROUNDS = 9


def picture(session: Session) -> np.ndarray:
    """An input that the model takes: pixels."""
    return np.random.default_rng(1).integers(0, 256, session.inputs[0].shape, dtype=np.uint8)


def bare(context: Context, pixels: np.ndarray) -> Callable[[], object]:
    """rknn_inputs_set, rknn_run, rknn_outputs_get, rknn_outputs_release: structs and outputs exist already."""
    library = context.library
    inputs = context.prepare_inputs([pixels])
    outputs = context.prepare_outputs()
    given, got, extend = inputs._structs, outputs._structs, None
    put, run, get, release = (
        library.function(name) for name in ("rknn_inputs_set", "rknn_run", "rknn_outputs_get", "rknn_outputs_release")
    )
    number, count = context.number, len(got)

    def call() -> None:
        put(number, 1, given)
        run(number, None)
        get(number, count, got, extend)
        release(number, count, got)

    call.keep = (inputs, outputs)  # type: ignore[attr-defined]
    return call


def bare_outputs(context: Context) -> Callable[[], object]:
    """rknn_outputs_get and rknn_outputs_release alone, into arrays that exist already."""
    outputs = context.prepare_outputs()
    got, number = outputs._structs, context.number
    get, release = (context.library.function(name) for name in ("rknn_outputs_get", "rknn_outputs_release"))

    def call() -> None:
        get(number, len(got), got, None)
        release(number, len(got), got)

    call.keep = outputs  # type: ignore[attr-defined]
    return call


def vendor_lite(model: str, pixels: np.ndarray) -> Callable[[], object] | None:
    """`RKNNLite.inference` of the vendor's wheel, which looks for its library and board in one fixed place."""
    folder = os.environ.get("VENDOR_WHEEL")
    if not folder:
        return None
    sys.path.insert(0, folder)
    _pretend_a_board()
    from rknnlite.api import RKNNLite

    lite = RKNNLite()
    if lite.load_rknn(model) != 0 or lite.init_runtime() != 0:
        return None
    assert lite.inference(inputs=[pixels]) is not None
    return lambda: lite.inference(inputs=[pixels])


def _pretend_a_board() -> None:
    real_open, real_library, real_exists = builtins.open, ctypes.CDLL, os.path.exists
    tree = "/proc/device-tree/compatible"

    def opened(path: Any, *arguments: Any, **options: Any) -> Any:
        if path == tree:
            return io.StringIO("rockchip,rk3588\0")
        return real_open(path, *arguments, **options)

    class Loaded(real_library):  # type: ignore[misc, valid-type]
        def __init__(self, name: Any, *arguments: Any, **options: Any) -> None:
            wanted = os.environ["OPENRKNN_LIBRARY"] if "librknnrt" in str(name) else name
            super().__init__(wanted, *arguments, **options)

    if builtins.open.__name__ != "opened":
        builtins.open, ctypes.CDLL = opened, Loaded  # type: ignore[assignment, misc]
        there = (tree, "/usr/lib/librknnrt.so", "/dev/dri/renderD129")  # what it wants to see in a container
        os.path.exists = lambda path: str(path) in there or real_exists(path)


def microseconds(call: Callable[[], object], seconds: float) -> float:
    """Mean of as many calls as fit into the time, at least three."""
    calls, began = 0, time.perf_counter()
    while (used := time.perf_counter() - began) < seconds or calls < 3:
        call()
        calls += 1
    return used / calls * 1e6


def measure(model: str, library: Library, helper: str, seconds: float) -> dict[str, float]:
    """Medians of rounds in which every way has its turn."""
    with Context(model, library=library) as context, Session(model, device=f"vendor:{library.path}") as session:
        pixels = picture(session)
        bound = session.bind()
        view = bound.inputs[session.inputs[0].name]

        def zero_copy() -> None:
            view[...] = pixels
            bound.run()

        ways: dict[str, Callable[[], object]] = {
            "ctypes": bare(context, pixels),
            "Session.run": lambda: session.run(pixels),
            "bind + run": zero_copy,
            "outputs_get": bare_outputs(context),
            "our outputs": lambda: [port.read("float") for port in session._program.outputs],
        }
        if (lite := vendor_lite(model, pixels)) is not None:
            ways["RKNNLite.inference"] = lite
        for way in ways.values():
            way()
        loop = _bare_c(helper, session, view, pixels)
        seen: dict[str, list[float]] = {name: [] for name in [*ways, "C zero copy"]}
        gc.collect()
        for _ in range(ROUNDS):
            for name, way in ways.items():
                seen[name].append(microseconds(way, seconds / ROUNDS))
            bound.run()
            seen["C zero copy"].append(loop(max(int(seconds / ROUNDS / 1e-4), 10)))
        return {name: statistics.median(times) for name, times in seen.items()}


def _bare_c(helper: str, session: Session, view: np.ndarray, pixels: np.ndarray) -> Callable[[int], float]:
    function = ctypes.CDLL(helper).vendor_loop
    function.restype = ctypes.c_double
    run = ctypes.cast(session.context.library.function("rknn_run"), ctypes.c_void_p)
    number = ctypes.c_uint64(session.context.number)
    target, source = ctypes.c_void_p(view.ctypes.data), ctypes.c_void_p(pixels.ctypes.data)
    size = ctypes.c_size_t(pixels.nbytes)
    return lambda calls: float(function(run, number, target, source, size, calls)) / 1e3


def soak(model: str, library: Library, calls: int) -> dict[str, float]:
    """Objects and memory after many calls, without the collector."""
    with Session(model, device=f"vendor:{library.path}") as session:
        pixels = picture(session)
        bound = session.bind()
        for _ in range(1000):
            session.run(pixels)
            bound.run()
        gc.collect()
        gc.disable()
        objects, memory = len(gc.get_objects()), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(calls):
            session.run(pixels)
            bound.run()
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory
        more = len(gc.get_objects()) - objects
        gc.enable()
        return {"calls": calls, "objects": more, "kilobytes": grown, "garbage": gc.collect()}


def main(report: str, helper: str, seconds: str, *models: str) -> int:
    """Measure each model and append a JSON line."""
    library = default_library()
    with open(report, "a", encoding="utf-8") as stream:
        for model in models:
            line = {"model": Path(model).stem, **measure(model, library, helper, float(seconds))}
            print(json.dumps(line), file=stream, flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
