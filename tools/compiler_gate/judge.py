"""One model through the compiler and the software NPU: right, refused by name, wrong, or a traceback."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from openrknn.compiler import compile_model
from openrknn.compiler.check import check
from openrknn.compiler.errors import WrongResultError
from openrknn.compiler.float_model import FloatModel
from openrknn.errors import RknnError

__all__ = ["KINDS", "Outcome", "feed_for", "judge_model", "reference_of"]

KINDS = ("right", "refused", "wrong", "traceback")
_LARGEST = 1000.0
"""Numbers beyond that test the range of fp16, not the compiler."""
_SECONDS = 60
_CALIBRATED = 3


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


def judge_model(model: Any, form: str, target: str, seed: int = 0, *, runs: bool = True) -> Outcome:
    """`form`: fp16, or int8 calibrated on random numbers."""
    feeds = [feed_for(model, seed + number) for number in range(_CALIBRATED)]
    is_compiled = False
    signal.signal(signal.SIGALRM, _late)
    signal.alarm(_SECONDS)
    try:
        made = compile_model(model, target, calibration=feeds if form == "int8" else None, check=False)
        is_compiled = True
        return Outcome("right", check(made) if runs else "")
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


def _late(*_: object) -> None:
    raise TimeoutError(f"more than {_SECONDS} s")
