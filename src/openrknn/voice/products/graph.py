"""`ProductGraph`: a plan, opened and run. Values live as long as a step still needs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.backports import add_note
from openrknn.closing import Closing
from openrknn.container.onnxdata import check_onnx_file
from openrknn.errors import RknnError
from openrknn.extras import missing
from openrknn.installed_onnxruntime import installed
from openrknn.runtime.session import Session
from openrknn.voice.errors import VoiceSetError
from openrknn.voice.products.plan import CpuStep, NoiseStep, Plan, Product, read_plan

Floats = npt.NDArray[np.float32]
_THREADS = 2
"""Of ONNX Runtime: normalisations and functions between two products are short."""


class ProductGraph(Closing):
    """The steps of `plan.json` in a folder. A context manager."""

    def __init__(self, path: Path, device: str = "auto") -> None:
        self.folder = path.parent
        self.plan: Plan = read_plan(path)
        self.times: dict[str, float] = {}
        """Seconds on each of `cpu` and `npu` since it was opened."""
        self.windows: dict[str, int] = {}
        """Net -> windows that were run."""
        self._stack = ExitStack()
        self._nets: dict[str, Session] = {}
        self._steps: dict[str, Any] = {}
        self._last = _last_uses(self.plan)
        try:
            for step in self.plan.steps:
                if isinstance(step, Product) and step.net not in self._nets:
                    self._nets[step.net] = self._stack.enter_context(self._open(step.net, device))
                if isinstance(step, CpuStep):
                    self._steps[step.file] = cpu_session(self._path(step.file), _THREADS)
        except BaseException:
            self._stack.close()
            raise

    def _path(self, name: str) -> Path:
        path = self.folder / name
        if not path.is_file():
            raise VoiceSetError(f"{path}: this file of the set is missing; make it again with `openrknn voice get`")
        return path

    def _open(self, name: str, device: str) -> Session:
        try:
            return Session(self._path(name), device)
        except RknnError as error:
            add_note(error, f"while the product {name} of {self.folder} was opened")
            raise

    def close(self) -> None:
        """Let go of the networks."""
        self._stack.close()

    def run(
        self, feed: Mapping[str, npt.NDArray[Any]], *, random: np.random.Generator | None = None,
        noise: Sequence[Floats] = (), wanted: Sequence[str] | None = None, forced: Mapping[str, Any] | None = None,
    ) -> dict[str, npt.NDArray[Any]]:  # fmt: skip
        """The outputs (or other values, `wanted`) for these inputs.

        `noise`: arrays for the noise steps in order, for comparisons; what is not given is drawn from `random`.
        `forced`: values that replace what the steps make, for comparisons.
        """
        random = random or np.random.default_rng()
        given = iter(noise)
        forced = forced or {}
        names = list(self.plan.outputs if wanted is None else wanted)
        values: dict[str, npt.NDArray[Any]] = {name: feed[name] for name in self.plan.inputs}
        for number, step in enumerate(self.plan.steps):
            start = perf_counter()
            if isinstance(step, CpuStep):
                made = self._steps[step.file].run(list(step.outputs), {name: values[name] for name in step.inputs})
                values.update(zip(step.outputs, made, strict=True))
                self._count("cpu", start)
            elif isinstance(step, Product):
                values[step.output] = self._product(step, values[step.input])
                self._count("npu", start)
            elif isinstance(step, NoiseStep):
                values[step.output] = self._noise(step, values[step.like].shape, given, random)
            values.update({name: value for name, value in forced.items() if name in values})
            for name in self._last.get(number, ()):
                if name not in names:
                    values.pop(name, None)
        return {name: values[name] for name in names}

    @staticmethod
    def _noise(step: NoiseStep, shape: tuple[int, ...], given: Any, random: np.random.Generator) -> Floats:
        array = next(given, None)
        if array is None:
            array = random.standard_normal(shape, np.float32)
        elif array.shape != shape:
            raise ValueError(f"noise for {step.output!r} should have the shape {shape}, not {array.shape}")
        return np.asarray(array * np.float32(step.scale) + np.float32(step.mean), np.float32)

    def _count(self, where: str, start: float) -> None:
        self.times[where] = self.times.get(where, 0.0) + perf_counter() - start

    def _product(self, step: Product, value: npt.NDArray[Any]) -> Floats:
        net = self._nets[step.net]
        name = net.inputs[0].name

        def one(piece: Floats) -> Floats:
            self.windows[step.net] = self.windows.get(step.net, 0) + 1
            made = next(iter(net.run({name: piece[None]}).values()))
            return np.asarray(made, np.float32).reshape(step.rows_out, -1)

        return product(step, np.asarray(value, np.float32), one)


def product(step: Product, value: Floats, one: Any) -> Floats:
    """All windows of one product; `one`: [rows in, span] -> [rows out, columns], what the compiled net does."""
    if value.shape[-1 if step.kind == "matmul" else 1] != step.rows_in or value.ndim < 2:
        raise VoiceSetError(f"{step.net} takes {step.rows_in} rows, and {step.input!r:.60} is {value.shape}")
    if step.kind == "matmul":
        rows = value.reshape(-1, step.rows_in).T
        made = _convolved(step, rows, one)
        return np.ascontiguousarray(made.T).reshape(*value.shape[:-1], step.rows_out)
    if value.ndim != 3 or value.shape[0] != 1:
        raise VoiceSetError(f"{step.net} takes one sequence at a time, and {step.input!r:.60} is {value.shape}")
    made = (_transposed if step.kind == "transposed" else _convolved)(step, value[0], one)
    return made[None]


def _convolved(step: Product, rows: Floats, one: Any) -> Floats:
    length = rows.shape[1] + step.pad_begin + step.pad_end
    count = (length - (step.kernel - 1) * step.dilation - 1) // step.stride + 1
    if count < 1:
        raise VoiceSetError(f"{rows.shape[1]} columns are too few for the product {step.net}")
    result = np.empty((step.rows_out, count), np.float32)
    for first in range(0, count, step.window):
        kept = min(step.window, count - first)
        piece = columns(rows, first * step.stride - step.pad_begin, step.span)
        result[:, first : first + kept] = one(piece)[:, :kept]
    return result


def _transposed(step: Product, rows: Floats, one: Any) -> Floats:
    """A window gives `window` * stride columns for `window` columns and those before them that reach into them."""
    count = rows.shape[1]
    full = (count - 1) * step.stride + (step.kernel - 1) * step.dilation + 1
    result = np.empty((step.rows_out, full), np.float32)
    for first in range(0, -(-full // step.stride), step.window):
        made = one(columns(rows, first - step.reach, step.span))
        place = first * step.stride
        kept = min(step.window * step.stride, full - place)
        begin = step.reach * step.stride
        result[:, place : place + kept] = made[:, begin : begin + kept]
    return result[:, step.pad_begin : full - step.pad_end]


def columns(rows: Floats, start: int, count: int) -> Floats:
    """Columns start to start + count, zeros outside."""
    if start >= 0 and start + count <= rows.shape[1]:
        return np.ascontiguousarray(rows[:, start : start + count])
    piece = np.zeros((rows.shape[0], count), np.float32)
    low, high = max(start, 0), min(start + count, rows.shape[1])
    if high > low:
        piece[:, low - start : high - start] = rows[:, low:high]
    return piece


def _last_uses(plan: Plan) -> dict[int, list[str]]:
    """Number of a step -> values that no later one needs."""
    last: dict[str, int] = {}
    for number, step in enumerate(plan.steps):
        if isinstance(step, CpuStep):
            used: tuple[str, ...] = (*step.inputs, *step.outputs)
        else:
            used = (step.input if isinstance(step, Product) else step.like, step.output)
        last.update(dict.fromkeys(used, number))
    found: dict[int, list[str]] = {}
    for name, number in last.items():
        found.setdefault(number, []).append(name)
    return found


def cpu_session(path: Path, threads: int = 1) -> Any:
    """A part of a voice for the CPU, opened in ONNX Runtime."""
    try:
        runtime = installed()
    except ImportError as error:
        raise VoiceSetError(f"parts of a voice are computed in ONNX Runtime: {missing(error, 'parts')}") from None
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = threads
    try:
        check_onnx_file(path)
        return runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # it raises types of its own
        raise VoiceSetError(f"{path}: ONNX Runtime does not take it: {error}; make the set again") from error
