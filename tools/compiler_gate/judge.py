"""One model through the compiler and the software NPU: right, warned of, refused by name, wrong, or a traceback.

`silent` is wrong too: fewer decibels than `LEAST` on inputs of some size, where the compiler's own check had nothing to
say and fp16 has numbers for all values of the float model.
"""

from __future__ import annotations

import signal
import traceback
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from openrknn.compiler import Compiled, compile_model
from openrknn.compiler.check import check
from openrknn.compiler.errors import WrongResultError
from openrknn.compiler.float_model import FloatModel
from openrknn.distance import measure
from openrknn.errors import RknnError
from openrknn.runtime.session import Session

__all__ = ["BAD", "KINDS", "LEAST", "Outcome", "feed_for", "judge_model", "reference_of"]

KINDS = ("right", "warned", "refused", "wrong", "silent", "traceback")
BAD = frozenset({"wrong", "silent", "traceback"})
_LARGEST = 1000.0
"""Numbers beyond that test the range of fp16, not the compiler."""
_SECONDS = 60
_CALIBRATED = 3
LEAST = {"fp16": 30.0, "int8": 0.0}
"""Decibels. What int8 keeps of random graphs is for the check to judge, which knows what rounding costs."""
_MORE = 8
_LARGEST_FP16, _SMALLEST_FP16 = 60000.0, 2.0**-14


class Outcome(NamedTuple):
    """One of `KINDS`, and what there is to say."""

    kind: str
    text: str = ""


def feed_for(model: Any, seed: int, spread: float = 1.0) -> dict[str, npt.NDArray[Any]]:
    """Random numbers for the inputs of a model with known shapes."""
    random = np.random.default_rng(seed)
    constants = {tensor.name for tensor in model.graph.initializer}
    feed = {}
    for entry in model.graph.input:
        if entry.name not in constants:
            shape = [dim.dim_value for dim in entry.type.tensor_type.shape.dim]
            feed[entry.name] = random.normal(0, spread, shape).astype(np.float32)
    return feed


def reference_of(model: Any, feed: Mapping[str, npt.NDArray[Any]]) -> dict[str, Any] | None:
    """What ONNX Runtime makes of it; None where it cannot, or where fp16 could not hold it."""
    names = [name for node in model.graph.node for name in node.output if name]
    try:
        values = dict(FloatModel(model, names).run(dict(feed)))
    except RknnError:
        return None
    for array in values.values():
        if array.dtype.kind == "f" and not (np.isfinite(array).all() and np.abs(array).max(initial=0) < _LARGEST):
            return None
    return values


def judge_model(
    model: Any, form: str, target: str, seed: int = 0, *, runs: bool = True, sizes: Sequence[float] = ()
) -> Outcome:
    """`form`: fp16, or int8 calibrated on random numbers; `sizes`: deviations of inputs to measure with, in fp16."""
    feeds = [feed_for(model, seed + number) for number in range(_CALIBRATED)]
    is_compiled = False
    signal.signal(signal.SIGALRM, _late)
    signal.alarm(_SECONDS)
    try:
        calibration = feeds if form == "int8" else None
        made = compile_model(model, target, calibration=calibration, check=False, adaptive_rounding=runs)
        is_compiled = True
        if not runs:
            return Outcome("right")
        found = check(made)
        if found.warnings or found.notes:
            return Outcome("warned", "; ".join((*found.warnings, *found.notes)))
        lost = _lost(model, made, seed, sizes, LEAST[form]) if form == "fp16" else ""
        return Outcome("silent", lost) if lost else Outcome("right", found.text)
    except WrongResultError as error:
        return Outcome("wrong", str(error))
    except RknnError as error:
        return Outcome("wrong" if is_compiled else "refused", str(error))
    except Exception as error:  # noqa: BLE001  (that is what is looked for)
        places = traceback.extract_tb(error.__traceback__)
        place = next((entry for entry in reversed(places) if "openrknn" in entry.filename), places[-1])
        where = f"{place.filename.rpartition('openrknn/')[2]}:{place.lineno}"
        return Outcome("traceback", f"{type(error).__name__}: {str(error)[:200]} ({where})")
    finally:
        signal.alarm(0)


def _lost(model: Any, made: Compiled, seed: int, sizes: Sequence[float], least: float) -> str:
    """The first output that keeps less than `least`, on inputs of these sizes; empty if there is none.

    What is less is measured on more inputs: of a few numbers, one may happen to be near 0, where its sum has no digits.
    """
    for size in sizes:
        found = _kept(model, made, [seed], size)
        if min(found.values(), default=least) < least:
            found = _kept(model, made, range(seed, seed + _MORE), size)
        for name, decibels in found.items():
            if decibels < least:
                return f"{name} has {decibels:.1f} dB for inputs of {size:g}"
    return ""


def _kept(model: Any, made: Compiled, seeds: Sequence[int], size: float) -> dict[str, float]:
    """Decibels of the outputs, all inputs taken together; those left out for which fp16 has no numbers."""
    names = [name for node in model.graph.node for name in node.output if name]
    outputs = [entry.name for entry in model.graph.output]
    wanted: dict[str, list[npt.NDArray[Any]]] = {name: [] for name in outputs}
    given: dict[str, list[npt.NDArray[Any]]] = {name: [] for name in outputs}
    for seed in seeds:
        feed = {name: value.astype(np.float16).astype(np.float32) for name, value in
                feed_for(model, seed, size).items()}  # fmt: skip
        values = dict(FloatModel(model, names).run(dict(feed)))
        floats = [np.abs(array, dtype=np.float64) for array in values.values()
                  if array.dtype.kind == "f" and array.size]  # fmt: skip
        if any(not np.isfinite(array).all() or array.max() > _LARGEST_FP16 for array in floats):
            continue
        if any(0 < np.sqrt(np.mean(np.square(array))) < _SMALLEST_FP16 for array in floats):
            continue
        layouts = {name: "nchw" for name, value in feed.items() if value.ndim == 4}
        with Session(made.model, "software") as session:
            found = session.run(feed, layout=layouts or None)
        for name in outputs:
            given[name].append(found[name].reshape(-1))
            wanted[name].append(values[name].reshape(-1))
    return {name: measure(np.concatenate(given[name]), np.concatenate(arrays)).snr_db
            for name, arrays in wanted.items() if any(array.any() for array in arrays)}  # fmt: skip


def _late(*_: object) -> None:
    raise TimeoutError(f"more than {_SECONDS} s")
