"""Operators whose own error is known: on which chips, how large, and what proves it.

An operator's own error (own.py) is that of its commands alone: it is given the float graph's numbers, rounded as the
file stores them, and compared with the float operator on the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tools.random_graphs.altered import attribute
from tools.random_graphs.own import Own

Array = npt.NDArray[Any]
ALL = ("rk3562", "rk3566", "rk3576", "rk3588", "rv1106")
TABLES = (
    "Erf", "Elu", "HardSigmoid", "HardSwish", "Tanh", "Sigmoid", "Softplus", "Sin", "Cos", "Log", "Exp", "Sqrt", "Selu",
)  # fmt: skip
SMALL = 5e-3
"""An error of this part of the range is one of tables or of bf16's eight bits."""
FEW_STEPS = 4.01
EXPONENTIAL, EXPONENTIAL_STEPS = 0.05, 13.0
"""4 % of a probability, and of 255 steps, with some rounding."""
FEW = 0.02
NORMS = ("LayerNormalization", "InstanceNormalization", "LpNormalization")
FLAT = 1e-3


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of the source."""

    constants: dict[str, Array]
    values: dict[str, Array]
    """Every tensor of the float graph."""
    nodes: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Known:
    """A cause for one operator's own error."""

    name: str
    proof: str
    chips: tuple[str, ...]
    fits: Callable[[Own, Facts], bool]


def small(own: Own) -> bool:
    """Within the error of tables and of bf16."""
    return own.error <= (FEW_STEPS if own.is_int8 else SMALL)


def lower_bound(own: Own, facts: Facts) -> float:
    """The lower bound of a Clip among the operators; 0 without."""
    clips = [node for node in own.nodes if node.op_type == "Clip" and len(node.input) > 1]
    bounds = [facts.constants.get(node.input[1]) for node in clips]
    return min((float(bound) for bound in bounds if bound is not None), default=0.0)


def counts_padding(own: Own) -> bool:
    """Whether an average counts pixels of the padding behind the picture."""
    pools = [node for node in own.nodes if node.op_type == "AveragePool" and attribute(node, "count_include_pad", 0)]
    return any(any(attribute(node, "pads", [0] * 4)[2:]) for node in pools)


def has_constant(own: Own, facts: Facts, kind: str) -> bool:
    """Whether such an operator has a constant operand."""
    return any(set(node.input) & set(facts.constants) for node in own.nodes if node.op_type == kind)


def has_part_scale(own: Own, facts: Facts) -> bool:
    """Whether a Resize has a scale that is no whole number."""
    scales = [facts.constants[node.input[2]] for node in own.nodes if node.op_type == "Resize" and len(node.input) > 2]
    return any((scale % 1 != 0).any() for scale in scales)


def is_flat(own: Own, facts: Facts) -> bool:
    """Whether a norm divides by next to nothing: numbers that are nearly equal."""
    for node in own.nodes:
        if node.op_type in NORMS:
            x = facts.values[node.input[0]].astype(np.float64)
            first = 2 if node.op_type == "InstanceNormalization" else attribute(node, "axis", -1) % x.ndim
            if (x.var(tuple(range(first, x.ndim))) <= FLAT * np.square(x).mean()).any():
                return True
    return False


def has_single_product(own: Own, facts: Facts) -> bool:
    """Whether a product of matrices has one element."""
    return any(facts.values[node.output[0]].size == 1 for node in own.nodes if node.op_type == "MatMul")


def has_single_softmax(own: Own, facts: Facts) -> bool:
    """Whether a softmax goes over an axis of one element."""
    nodes = [node for node in own.nodes if node.op_type == "Softmax"]
    return any(facts.values[node.input[0]].shape[attribute(node, "axis", -1)] == 1 for node in nodes)


def is_repeated(own: Own, facts: Facts) -> bool:
    """Whether two operators of one kind take the same input."""
    return any(
        node.op_type == other.op_type and node.input[0] == other.input[0] and node.output[0] != other.output[0]
        for node in own.nodes if node.op_type in ("Add", "Mul", "Sub")
        for other in facts.nodes
    )  # fmt: skip


KNOWN = (
    Known(
        "softmax's exponential",
        "the commands' exponential is int16(1477 x + 15300.62) read as fp16, up to 4 % off (tests/runtime/test_causes)",
        ALL,
        lambda own, _: own.has("Softmax") and own.error <= (EXPONENTIAL_STEPS if own.is_int8 else EXPONENTIAL),
    ),
    Known(
        "a table for the function",
        "the file holds 1026 integers of 16 bits with lines between them; the simulator computes the function",
        ALL,
        lambda own, _: own.has(*TABLES) and small(own),
    ),
    Known(
        "norms in bf16",
        "the commands square and take the root in bf16, which has eight bits",
        ALL,
        lambda own, _: own.has(*NORMS) and small(own),
    ),
    Known(
        "sine's remainder saturated",
        "the task '..._remain' multiplies with s_in / s_out: x mod 2 pi is stored with the scale of the result",
        ("rk3576",),
        lambda own, _: own.has("Sin", "Cos") and own.is_int8,
    ),
    Known(
        "clip's lower bound lost",
        "BN_LIMIT_MINIMUM is 0 and no stage adds the bound; behind a convolution bs_alu_src is 0: the bias is lost too",
        ("rv1106",),
        lambda own, facts: own.is_int8 and lower_bound(own, facts) < 0,
    ),
    Known(
        "clip's bound added before the clamp",
        "BN adds the lower bound and clamps at 0 and high - low after that; it had to clamp first",
        ("rk3562",),
        lambda own, facts: own.op_type == "ConvClip" and lower_bound(own, facts) < 0,
    ),
    Known(
        "max with a lost constant",
        "EW's operand is 0, or bypasses its converter while x is times 2^14; on RK3566 and RV1106 BS and BN read four "
        "bytes a channel of a constant that has one or two",
        ("rk3562", "rk3566", "rk3576", "rv1106"),
        lambda own, facts: has_constant(own, facts, "Max"),
    ),
    Known(
        "maximum not rescaled",
        "the reduction only moves zero points, though the scales of input and output differ",
        ("rk3576",),
        lambda own, _: own.has("ReduceMax") and own.is_int8,
    ),
    Known(
        "resize by the ratio of sizes",
        "the interpolation of the commands is that of out / in; ONNX and the simulator take the given scale, 1.5",
        ("rk3562", "rk3576"),
        has_part_scale,
    ),
    Known(
        "average over a shortened window",
        "POOLING_KERNEL_CFG and RECIP leave out rows and columns behind the picture, which count_include_pad counts",
        ALL,
        lambda own, _: counts_padding(own),
    ),
    Known(
        "overlapping lines of a transposed convolution",
        "DATA_CUBE_NOTCH is negative: the filled-up end of a line lands in the next one; under 2 % of the elements",
        ALL,
        lambda own, _: own.op_type.startswith("ConvTranspose") and own.wrong <= FEW,
    ),
    Known(
        "the product's zero point too late",
        "its converter computes x * scale + offset, the product needs (x + offset) * scale (tests/runtime/test_causes)",
        ("rv1106",),
        lambda own, _: own.has("MatMul") and own.is_int8,
    ),
    Known(
        "a norm of equal numbers",
        "the variance is next to nothing: the rounding of the mean is divided by it",
        ALL,
        is_flat,
    ),
    Known(
        "unwritten lanes of a softmax",
        "of an axis of one element the sum reads lanes that no task wrote, times 0: with zeros there, it is right",
        ALL,
        has_single_softmax,
    ),
    Known(
        "a convolution in two parts",
        "its first part is stored as int8, and the second is added to that",
        ALL,
        lambda own, _: own.op_type == "ConvAdd" and not own.has("Add") and own.error <= FEW_STEPS,
    ),
    Known(
        "slopes that did not move",
        "the converter moves a Transpose before PRelu and leaves the slopes with the channels: 0 behind the last one",
        ALL,
        lambda own, _: own.has("PRelu") and own.has("Transpose"),
    ),
    Known(
        "a square without its second factor",
        "a product of one element becomes a task whose stages all bypass their multiplier",
        ALL,
        has_single_product,
    ),
    Known(
        "one configuration for two additions",
        "RDMA_BS_CONFIG_ADDR of both is the tensor that is named by their input: one has the other's factors",
        ("rk3576",),
        is_repeated,
    ),
)
ROUNDING = Known(
    "rounding between operators",
    "each operator alone is within two steps, or two units of fp16: what is left is rounding that the simulator, "
    "which keeps fused operators in float, does not do, and the half step of a picture's whole-number mean",
    ALL,
    lambda own, _: not own.is_large,
)

GENTLE = {
    "softmax's exponential", "a table for the function", "norms in bf16", "a convolution in two parts", ROUNDING.name,
}  # fmt: skip
"""Causes of small errors: alone they cannot explain a large one."""


def attributed(chip: str, found: list[Own], facts: Facts) -> list[str | None]:
    """The cause of every large own error, None where there is none known; of no large one: rounding."""
    large = [own for own in found if own.is_large]
    if not large:
        return [ROUNDING.name]
    return [
        next((known.name for known in KNOWN if chip in known.chips and known.fits(own, facts)), None) for own in large
    ]
