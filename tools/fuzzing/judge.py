"""One mutant through `Session.run` twice, with native kernels and with NumPy alone, and what came of it."""

from __future__ import annotations

import ctypes
import os
import random
import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any
from unittest import mock

import numpy as np

from openrknn import Session
from openrknn.cachefiles import FileCache
from openrknn.compute import native
from openrknn.container.load import load
from openrknn.container.model import Model, TensorSpec
from openrknn.device.software import SoftwareDevice
from openrknn.errors import RknnError
from openrknn.npu.native import accelerate
from openrknn.npu.task import Program

__all__ = ["CRASH", "DIFFERENT", "FAILURES", "FOREIGN", "HANG", "MEMORY", "OUTCOMES", "Verdict", "Way", "judge", "ways"]

UNREADABLE, REFUSED, EQUAL = "not loaded", "refused by both", "equal"
DIFFERENT, ONE_SIDED, FOREIGN = "DIFFERENT", "ONE-SIDED", "FOREIGN ERROR"
CRASH, HANG, MEMORY = "CRASH", "HANG", "MEMORY"
FAILURES = (DIFFERENT, ONE_SIDED, FOREIGN, CRASH, HANG, MEMORY)
OUTCOMES = (EQUAL, REFUSED, UNREADABLE, *FAILURES)

_PLACES = 1 << 16
_WHOLE = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "bool")
_PATTERN = np.random.default_rng(14).integers(0, 256, 4099, np.uint8)


@dataclass(frozen=True, slots=True)
class Way:
    """How a mutant runs: everything that is not in its bytes."""

    kernels: str = "auto"
    threads: int = 1
    cores: int = 1
    pixels: bool = False
    """Feed uint8 instead of float32."""

    @classmethod
    def drawn(cls, rng: random.Random, cores: int) -> Way:
        usable = _kernels()
        kernels = rng.choice(usable) if usable and rng.random() < 0.4 else "auto"
        return cls(kernels, rng.choice((1, 1, 1, 1, 1, 1, 1, 2)), rng.choice((1, 1, rng.randint(1, cores))),
                   rng.random() < 0.3)  # fmt: skip


@cache
def _kernels() -> tuple[str, ...]:
    return tuple(kernels.name.lower() for kernels in native.available())


def ways(cores: int) -> list[Way]:
    """Every way, for files without a record of theirs."""
    kernels = ("auto", *_kernels())
    return [Way(name, 1, count, pixels) for name in kernels for count in {1, cores} for pixels in (False, True)]


@dataclass(slots=True)
class Verdict:
    """What came of a mutant."""

    outcome: str
    detail: str = ""
    features: set[str] = field(default_factory=set)
    """What it reached: kinds of steps, reasons of refusals, blocks of native code."""

    @property
    def failed(self) -> bool:
        return self.outcome in FAILURES

    def record(self, way: Way) -> dict[str, Any]:
        return {"outcome": self.outcome, "detail": self.detail, "way": asdict(way)}


@dataclass(slots=True)
class _Run:
    outputs: dict[str, bytes] = field(default_factory=dict)
    memory: dict[tuple[str, int], bytes] = field(default_factory=dict)
    error: Exception | None = None
    trace: str = ""


class _Probe(SoftwareDevice):
    """A software NPU that shows its memory."""

    def contents(self) -> dict[tuple[str, int], bytes]:
        return {(buffer.name, buffer.address): buffer.data.tobytes() for buffer in self._memory}


@contextmanager
def _noted(features: set[str]) -> Iterator[None]:
    """Note what programs consist of."""

    def noting(program: Program, *rest: Any, **options: Any) -> Any:
        result = accelerate(program, *rest, **options)
        for number, step in enumerate(program.steps):
            reason = result.reasons.get(number)
            features.add(f"{step.kind}: {_template(reason) if reason else 'native'}")
        return result

    with mock.patch("openrknn.npu.native.accelerate", noting), mock.patch.object(FileCache, "is_on", False):
        yield


def judge(data: bytes, way: Way) -> Verdict:
    """Load it, run it in both worlds, compare errors, outputs and all memory of the device."""
    features: set[str] = set()
    try:
        model = load(data)
    except RknnError as error:
        return Verdict(UNREADABLE, str(error), {f"load: {_signature(error)}"})
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the find
        return Verdict(FOREIGN, f"load: {error!r}\n{traceback.format_exc()}")
    _clear()
    fast = _run(model, way, way.kernels, features)
    features |= _covered()
    slow = _run(model, way, "numpy", set())
    return _compared(fast, slow, features)


def _compared(fast: _Run, slow: _Run, features: set[str]) -> Verdict:
    for name, run in (("native", fast), ("numpy", slow)):
        if run.error is not None:
            features.add(f"{name}: {_signature(run.error)}")
            if not isinstance(run.error, RknnError):
                return Verdict(FOREIGN, f"{name}: {run.error!r}\n{run.trace}", features)
    if fast.error is not None and slow.error is not None:
        if type(fast.error) is not type(slow.error):
            return Verdict(ONE_SIDED, f"native: {fast.error!r}\nnumpy: {slow.error!r}", features)
        return Verdict(REFUSED, str(slow.error), features)
    if fast.error is not None or slow.error is not None:
        kinds = f"native: {fast.error!r}\nnumpy: {slow.error!r}\n{fast.trace}{slow.trace}"
        return Verdict(ONE_SIDED, kinds, features)
    pairs: tuple[tuple[str, dict[Any, bytes], dict[Any, bytes]], ...] = (
        ("output", fast.outputs, slow.outputs), ("memory", fast.memory, slow.memory),
    )  # fmt: skip
    for what, ours, theirs in pairs:
        if ours != theirs:
            names = [str(name) for name in ours if ours[name] != theirs.get(name)]
            return Verdict(DIFFERENT, f"{what} {', '.join(names)}", features)
    features.add("equal")
    return Verdict(EQUAL, "", features)


def _run(model: Model, way: Way, kernels: str, features: set[str]) -> _Run:
    os.environ["OPENRKNN_KERNELS"] = kernels
    result = _Run()
    try:
        native.set_threads(way.threads)
        cores = min(way.cores, model.chip.cores)
        with _noted(features), _Probe(model.chip) as device, Session(model, device, cores=cores) as opened:
            inputs = {spec.name: _input(spec, way, model.batch_size) for spec in opened.inputs}
            layouts = {spec.name: spec.layout for spec in opened.inputs if spec.layout in ("nhwc", "nchw")}
            outputs = opened.run(inputs, outputs="raw", layout=layouts)
            result.outputs = {name: array.tobytes() for name, array in outputs.items()}
            result.memory = device.contents()
    except Exception as error:  # noqa: BLE001 - sorted by the caller
        result.error, result.trace = error, traceback.format_exc()
    finally:
        os.environ["OPENRKNN_KERNELS"] = "auto"
    return result


def _input(spec: TensorSpec, way: Way, batch: int) -> np.ndarray[Any, Any]:
    """A pattern in the input's shape; views of one period, so that a huge shape takes no memory here."""
    shape = spec.shape
    count = int(np.prod(shape, dtype=object)) if shape else 1
    if way.pixels and (spec.is_image or spec.dtype == "uint8"):
        return np.resize(_PATTERN, count).reshape(shape)
    if spec.dtype in _WHOLE and (spec.quantization is None or not spec.dtype.startswith("int")):
        return np.resize(_PATTERN, count).astype("uint8" if spec.dtype == "bool" else spec.dtype).reshape(shape)
    return ((np.resize(_PATTERN, count).astype(np.float32) - 128) / 64).reshape(shape)


# -- what a mutant reached --------------------------------------------------------------------------------------------


@cache
def _counters() -> Any:
    library = native.load()
    try:
        function = None if library is None else library.openrknn_coverage
    except AttributeError:
        return None
    if function is None:
        return None
    function.restype = ctypes.POINTER(ctypes.c_uint8 * _PLACES)
    return np.frombuffer(function().contents, np.uint8)


def _clear() -> None:
    counters = _counters()
    if counters is not None:
        counters[:] = 0


def _covered() -> set[str]:
    counters = _counters()
    return set() if counters is None else {f"@{place}" for place in np.flatnonzero(counters.copy()).tolist()}


_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|-?\d+(\.\d+)?|'[^']*'|\[[^\]]*\]")


def _template(text: str) -> str:
    return _NUMBERS.sub("#", text)[:120]


def _signature(error: Exception) -> str:
    register = getattr(error, "register", None) or ""
    return f"{type(error).__name__} {register} {_template(getattr(error, 'message', str(error)))}"
