"""Why an answer of the software NPU is not the simulator's: causes that are known, each with its proof.

Most proofs are computations: the graph runs in float with the operator replaced by what the commands say, and our
answer must be as near to that as the simulator's is to the true one, or three times nearer than to the true one.
Others are findings of `openrknn lint`, which reads the commands. Where neither helps, each operator runs alone, and
those with an error of their own must be known (causes.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tools.random_graphs.altered import Replacement, attribute, evaluate, tensors
from tools.random_graphs.causes import GENTLE, ROUNDING, Facts, attributed
from tools.random_graphs.make import DEVIATION, MEAN
from tools.random_graphs.own import own_errors

Array = npt.NDArray[Any]
NEAR = 1.25
BETTER = 3.0
MOST_STEPS, MOST_RANGE = 16, 0.01
"""What rounding between operators may add up to."""
ALL = ("rk3562", "rk3566", "rk3576", "rk3588", "rv1106")


@dataclass(frozen=True, slots=True)
class Case:
    """One file with all that is known of it."""

    path: Path
    model: Any
    source: Any
    feeds: dict[str, Array]
    values: list[Array]
    """Our answers, as real numbers."""
    simulated: list[Array]
    true: list[Array]

    @property
    def chip(self) -> str:
        """The folder is named by it."""
        return self.path.parent.name

    @property
    def is_int8(self) -> bool:
        """Whether it is quantized."""
        return self.path.stem.endswith("i8")

    def operator(self, node: Any) -> Any:
        """The operator of the file that makes a tensor of the source."""
        wanted = {f"{node.op_type}:{node.output[0]}"}
        return next((item for item in self.model.operators if item.name in wanted), None)


@dataclass(frozen=True, slots=True)
class Cause:
    """A cause: on which chips, what its operators compute, and the sentence that proves it."""

    name: str
    proof: str
    chips: tuple[str, ...]
    int8_only: bool
    replace: Callable[[Case], Replacement]


def softmax(case: Case) -> Replacement:
    """exp is int16(1477 x + 15300.62) read as the bits of an fp16."""

    def replace(node: Any, inputs: list[Array]) -> Array | None:
        if node.op_type != "Softmax":
            return None
        axis = attribute(node, "axis", -1)
        below = (inputs[0] - inputs[0].max(axis, keepdims=True)).astype(np.float32)
        bits = np.maximum(np.rint(below * np.float32(1477) + np.float32(15300.62)), 0)
        grown = bits.astype(np.int16).view(np.float16).astype(np.float32)
        return np.asarray(grown / grown.sum(axis, keepdims=True))

    return replace


def clip(case: Case) -> Replacement:
    """The lower bound becomes 0."""

    def replace(node: Any, inputs: list[Array]) -> Array | None:
        return np.clip(inputs[0], 0, inputs[2]) if node.op_type == "Clip" and inputs[1] < 0 else None

    return replace


def maximum(case: Case) -> Replacement:
    """The constant becomes 0, or 2^-14 of itself."""
    constants = {item.name for item in case.source.graph.initializer}

    def replace(node: Any, inputs: list[Array]) -> Array | None:
        if node.op_type != "Max" or not constants & set(node.input):
            return None
        first = next(array for name, array in zip(node.input, inputs, strict=True) if name not in constants)
        shape = np.broadcast_shapes(*(array.shape for array in inputs))
        return np.broadcast_to(np.maximum(first, 0), shape)

    return replace


def sine(case: Case) -> Replacement:
    """The remainder saturates where the scale of the result ends."""

    def replace(node: Any, inputs: list[Array]) -> Array | None:
        operator = case.operator(node) if node.op_type in ("Sin", "Cos") else None
        quantization = operator.outputs[0].quantization if operator is not None else None
        if quantization is None:
            return None
        scale, zero = quantization.scale[0], quantization.zero_point[0]
        turn = np.float32(2 * np.pi)
        rest = inputs[0] - turn * np.rint(inputs[0] / turn)
        rest = np.clip(rest, (-128 - zero) * scale, (127 - zero) * scale)
        return np.asarray((np.sin if node.op_type == "Sin" else np.cos)(rest))

    return replace


def largest(case: Case) -> Replacement:
    """Stored numbers less one zero point, plus the other: real numbers times the ratio of the scales."""

    def replace(node: Any, inputs: list[Array]) -> Array | None:
        operator = case.operator(node) if node.op_type == "ReduceMax" else None
        if operator is None or operator.placement != "npu":
            return None
        before, after = operator.inputs[0].quantization, operator.outputs[0].quantization
        axes = tuple(attribute(node, "axes", range(inputs[0].ndim)))
        found = inputs[0].max(axes, keepdims=bool(attribute(node, "keepdims", 1))) * after.scale[0] / before.scale[0]
        low, high = ((end - after.zero_point[0]) * after.scale[0] for end in (-128, 127))
        return np.asarray(np.clip(found, low, high), np.float32)

    return replace


CAUSES = (
    Cause(
        "softmax's exponential",
        "our answer follows from int16(1477 x + 15300.62) read as fp16, the commands' exponential, up to 4 % off",
        ALL, False, softmax,
    ),
    Cause(
        "clip's lower bound lost",
        "BN_LIMIT_MINIMUM is 0 and no stage adds the bound: our answer is that of Clip(0, high)",
        ("rv1106",), True, clip,
    ),
    Cause(
        "max with a constant of 0",
        "EW's operand is 0, or bypasses its converter while x is times 2^14: our answer is that of Max(x, 0)",
        ("rk3562", "rk3576"), False, maximum,
    ),
    Cause(
        "sine's remainder saturated",
        "x mod 2 pi is stored with the scale of the result: our answer is that of the saturated remainder",
        ("rk3576",), True, sine,
    ),
    Cause(
        "maximum not rescaled",
        "the reduction only moves zero points: our answer is the maximum times the ratio of the scales",
        ("rk3576",), True, largest,
    ),
)  # fmt: skip


def explain(case: Case) -> str | None:
    """The name of the cause; of several, joined; None if nothing known explains it."""
    fitting = [
        cause for cause in CAUSES
        if case.chip in cause.chips and (case.is_int8 or not cause.int8_only)
    ]  # fmt: skip
    truth = evaluate(case.source, case.feeds, [])
    effective = []
    for cause in fitting:
        result = evaluate(case.source, case.feeds, [cause.replace(case)])
        if any(not np.array_equal(a, b, equal_nan=True) for a, b in zip(result, truth, strict=True)):
            effective.append((cause, result))
    for cause, result in effective:
        if follows(case, result):
            return cause.name
    if len(effective) > 1:
        causes = [cause for cause, _ in effective]
        if follows(case, evaluate(case.source, case.feeds, [cause.replace(case) for cause in causes])):
            return " and ".join(cause.name for cause in causes)
    return attribution(case) or finding(case)


NO_ROOM, NO_ROOM_WORDS = "no room for spare channels", "elements do not hold"
"""RV1103/06: the size of a tensor leaves out the channels that fill its last group, and the next tensor overlaps."""


def attribution(case: Case) -> str | None:
    """The causes of operators whose own error is large, if all are known."""
    from onnx import numpy_helper

    from openrknn.errors import UnsupportedError

    constants = {item.name: numpy_helper.to_array(item) for item in case.source.graph.initializer}
    path = case.path.parents[1] / "onnx" / f"{case.path.stem.split('_')[0]}.onnx"
    facts = Facts(constants, tensors(case.source, case.feeds, []), tuple(case.source.graph.node))
    try:
        names = attributed(case.chip, own_errors(case.model, path, case.feeds), facts)
    except UnsupportedError as error:
        return NO_ROOM if NO_ROOM_WORDS in str(error) else None
    if GENTLE.issuperset(names) and not is_moderate(case, 1 if names == [ROUNDING.name] else 3):
        return None
    return None if None in names else " and ".join(sorted({name for name in names if name}))


def is_moderate(case: Case, times: int) -> bool:
    """Whether small errors can do it: operators that overwrite each other's memory are right when they run alone."""
    for spec, ours, theirs in zip(case.model.outputs, case.values, case.simulated, strict=True):
        kept = theirs.size // 4 * 4 or theirs.size
        error = np.abs(ours.reshape(-1)[:kept] - theirs.reshape(-1)[:kept])
        error = error[np.isfinite(theirs.reshape(-1)[:kept])]
        unit = spec.quantization.scale[0] * MOST_STEPS if spec.quantization else MOST_RANGE * np.nanmax(np.abs(theirs))
        if error.size and not error.max() <= times * unit:
            return False
    return True


def follows(case: Case, results: list[Array]) -> bool:
    """Whether all our answers are near to these."""
    return all(map(_follows, case.values, case.simulated, case.true, results))


def _follows(ours: Array, simulated: Array, true: Array, altered: Array) -> bool:
    kept = simulated.size // 4 * 4 or simulated.size
    mine, theirs, real, other = (
        array.reshape(-1)[:kept].astype(np.float64) for array in (ours, simulated, true, altered)
    )
    wanted = np.isfinite(theirs)
    before, after, his = (
        float(np.sqrt(np.mean(np.square(array[wanted])))) for array in (mine - real, mine - other, theirs - real)
    )
    return before <= NEAR * his or after <= NEAR * his or BETTER * after <= before


def finding(case: Case) -> str | None:
    """An error that `openrknn lint` finds in the commands."""
    from openrknn.analysis.lint import Severity, lint

    errors = [item.code for item in lint(case.model) if item.severity is Severity.ERROR]
    return f"lint {errors[0]}" if errors else None


def feeds_of(source: Any, inputs: list[Array]) -> dict[str, Array]:
    """What the float graph is fed: pictures with mean and deviation, channels first."""
    return {
        item.name: (array.astype(np.float32).transpose(0, 3, 1, 2) - MEAN) / DEVIATION
        if array.dtype == np.uint8
        else array
        for item, array in zip(source.graph.input, inputs, strict=True)
    }
