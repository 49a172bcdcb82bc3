"""Functions by lookup table: 513 entries for -X..0 and 513 for 0..X, with straight lines beyond.

The table of a function depends on how far its inputs reach, and on nothing else; all operators of a model that use a
function share one table, which is loaded once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import MappingProxyType

import numpy as np

from openrknn.compiler.forms import Activation
from openrknn.compiler.ir import Array
from openrknn.compiler.operators import NPU_FUNCTIONS
from openrknn.compiler.operators.row import Formula
from openrknn.compiler.program import Table

_ENTRIES = 513
_HALF = 1 << 14
_LARGEST = 32767
_SLOPE_BITS = 15
_LARGEST_SHIFT = 31
_FAR = 8.0

SOFTMAX_REACH = _HALF / 3072
"""exp(x) for x from -2 * reach to 0, moved to the middle of the table; 3072 table units to one are exact in fp16."""
_SOFTMAX_END = math.exp(-2 * SOFTMAX_REACH)
"""Less than one unit of the table: what is further away is exactly zero."""

SHARED_REACH = 2 * SOFTMAX_REACH
GATE_REACH = SHARED_REACH
"""What a gate does beyond: nothing goes through below, everything above."""


_GELU = math.sqrt(2 / math.pi)


def _gelu_tanh(x: Array, _: Mapping[str, float]) -> Array:
    """As Gemma has it."""
    result: Array = x * 0.5 * (1 + np.tanh(_GELU * (x + 0.044715 * x**3)))
    return result


_GELU_FORMULA = NPU_FUNCTIONS["gelu"].formula or _gelu_tanh


def _sigmoid(x: Array, _: Mapping[str, float]) -> Array:
    result: Array = 1 / (1 + np.exp(np.minimum(-x, 80)))
    return result


def _normal_share(x: Array, parameters: Mapping[str, float]) -> Array:
    """gelu(x) / x."""
    result: Array = np.where(x == 0, 0.5, _GELU_FORMULA(x, parameters) / np.where(x == 0, 1.0, x))
    return result


def _tanh_share(x: Array, _: Mapping[str, float]) -> Array:
    """gelu_tanh(x) / x."""
    result: Array = 0.5 * (1 + np.tanh(_GELU * (x + 0.044715 * x**3)))
    return result


def _shared(share: Formula) -> Formula:
    """Two functions in one table: exp(x) below zero; from zero on, from 0 to 1, what a `Gate` multiplies its input by.

    That of -GATE_REACH to GATE_REACH is there at half the steps; it begins with exactly zero, which is right for all
    numbers below.
    """

    def both(x: Array, parameters: Mapping[str, float]) -> Array:
        below = np.exp(np.maximum(np.minimum(x, 0), -SHARED_REACH)) - _SOFTMAX_END
        at = 2 * np.minimum(np.maximum(x, 0), SHARED_REACH) - GATE_REACH
        least = share(np.array(-GATE_REACH), parameters)
        result: Array = np.where(x < 0, below, share(at, parameters) - least)
        return result

    return both


def shared_name(function: str) -> str:
    """The table that has the exponential and what a gate of that function needs."""
    return f"{_SHARED}{function}"


_SHARED = "shared_"

FUNCTIONS: Mapping[str, tuple[Formula, float]] = MappingProxyType(
    {
        **{name: (one.formula, one.reach) for name, one in NPU_FUNCTIONS.items() if one.formula is not None},
        "softmax": (lambda x, _: np.exp(np.maximum(x, -SOFTMAX_REACH) - SOFTMAX_REACH) - _SOFTMAX_END, SOFTMAX_REACH),
        "gelu_tanh": (_gelu_tanh, 5.0),
        shared_name("silu"): (_shared(_sigmoid), SHARED_REACH),
        shared_name("gelu"): (_shared(_normal_share), SHARED_REACH),
        shared_name("gelu_tanh"): (_shared(_tanh_share), SHARED_REACH),
        "bounds": (lambda x, a: np.clip(x, a["alpha"], a["beta"]), math.inf),
        "leakyfloor": (lambda x, a: np.maximum(np.where(x < 0, a["alpha"] * x, x), a["beta"]), 16.0),
    }
)
"""Name -> the function, and how far a table ever has to reach: beyond that it is a straight line. Those of single ONNX
operators are in the operator table; the others are parts of operators, or several in one."""


@dataclass(frozen=True)
class Function:
    """One table."""

    name: str
    parameters: tuple[tuple[str, float], ...]
    reach: float
    """The table covers -reach to reach."""
    power_of_two: bool
    """fp16: the gain is a power of two, because nothing multiplies after the table."""
    ceiling: float = math.inf
    """Results beyond that are of no use: a steep function would spend the table's digits on them."""

    @property
    def key(self) -> str:
        """Tables with equal keys are equal."""
        numbers = "".join(f",{value:.9g}" for _, value in self.parameters)
        top = f"<{self.ceiling:.9g}" if math.isfinite(self.ceiling) else ""
        return f"{self.name}{numbers}@{self.reach:.9g}{top}"

    def compute(self, x: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(FUNCTIONS[self.name][0](np.asarray(x, np.float64), dict(self.parameters)), np.float64)

    @cached_property
    def _columns(self) -> tuple[Array, Array]:
        steps = np.arange(_ENTRIES) / (_ENTRIES - 1) * self.reach
        lower = steps - self.reach
        if self.name.startswith(_SHARED):  # it jumps at zero: the lower half ends with what is just below
            lower = np.minimum(lower, -1e-9)
        return self.compute(lower), self.compute(steps)

    @cached_property
    def gain(self) -> float:
        """Entries per real unit."""
        peak = max(float(np.abs(column).max()) for column in self._columns) or 1.0
        gain = _LARGEST / min(peak, self.ceiling)
        return 2.0 ** math.floor(math.log2(gain * 1.0001)) if self.power_of_two else gain

    @cached_property
    def table(self) -> Table:
        with np.errstate(over="ignore"):  # at a pole
            low, high = (np.clip(np.rint(column * self.gain), -32768, _LARGEST) for column in self._columns)
        return Table(self.key, tuple(int(v) for v in low), tuple(int(v) for v in high))

    @cached_property
    def slopes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """(multiplier, shift) of the lines below and above the table, in entries per table unit.

        A table that reaches as far as it ever has to ends where the function is as good as straight: the line is that
        of far away. The slope at the end would be wrong by little, times a distance that may be large (a sigmoid of
        -50 was -0.014).
        """
        unit = self.reach / _HALF
        is_straight = self.reach >= FUNCTIONS[self.name][1]
        near, far = (_FAR, 2 * _FAR) if is_straight else (1.0, 1.001)
        values = self.compute(np.array([-far, -near, near, far]) * self.reach) * self.gain
        per_unit = (far - near) * self.reach / unit
        return _slope((values[1] - values[0]) / per_unit), _slope((values[3] - values[2]) / per_unit)


def _slope(value: float) -> tuple[int, int]:
    if abs(value) < 2.0**-_LARGEST_SHIFT or not math.isfinite(value):
        return 0, 0
    shift = min(_LARGEST_SHIFT, max(0, _SLOPE_BITS - 1 - math.frexp(abs(value))[1] + 1))
    multiplier = round(value * 2.0**shift)
    while abs(multiplier) >= 1 << _SLOPE_BITS:
        shift, multiplier = shift - 1, round(value * 2.0 ** (shift - 1))
    return multiplier, max(shift, 0)


def farthest(activation: Activation) -> float:
    """How far a table of a function ever has to reach; infinite where it has no end."""
    name, (alpha, beta) = activation.function, activation.numbers
    if name == "bounds" and math.isfinite(alpha) and math.isfinite(beta):
        # Beyond the bounds it is flat, so the table must not end before them: rounding to three digits may do that.
        return 1.006 * max(abs(alpha), abs(beta))
    return FUNCTIONS[name][1]


def function_for(
    activation: Activation, reach: float, *, power_of_two: bool, ceiling: float = math.inf
) -> Function:
    """The table for an activation whose inputs reach this far, and its results as far as `ceiling`."""
    name, limit = activation.function, farthest(activation)
    given = (("alpha", activation.alpha), ("beta", activation.beta))
    parameters = tuple((key, float(number)) for key, number in given if number is not None)
    # Three significant digits: tables of nearly equal reach become equal, and one load serves both.
    wanted = min(limit, max(reach, 1e-3))
    rounded = _exact(wanted, has_corner=name in _CORNERS) if power_of_two else float(f"{wanted:.3g}")
    top = math.inf if name not in STEEP else ceiling if math.isfinite(ceiling) else STEEP[name]
    return _function(name, parameters, rounded, power_of_two, top)


def _exact(reach: float, *, has_corner: bool) -> float:
    """The next larger reach whose table units to one are a number of fp16: the chip multiplies the inputs by it.

    A factor that is rounded makes every result wrong by the same share: one part in 4,000 for units of 5461.33, and
    twenty hard swishes one after the other add that up.
    """
    units = min(_HALF / reach, _MOST_UNITS)
    step = 2.0 ** (math.frexp(units)[1] - _UNIT_BITS)
    if has_corner and units >= _ENTRY:  # whole numbers then lie on entries
        step = max(step, _ENTRY)
    return _HALF / (math.floor(units / step) * step)


STEEP: Mapping[str, float] = MappingProxyType({"exp": math.inf, "pow": math.inf, "reciprocal": 1000.0})
"""Somewhere in a table, which reaches as far below 0 as above it, these are far larger than at the inputs. Name -> the
largest result where nothing is known of them."""
_CORNERS = {"hardswish", "hardsigmoid"}
"""At whole numbers as a rule, which are entries of the table where they can be. Other corners are at 0, which is one
always, or anywhere."""
_ENTRY = _HALF / (_ENTRIES - 1)
"""Table units between two entries."""
_UNIT_BITS = 8
"""Fewer than the 11 of fp16, so that tables of nearly equal reach become equal here too."""
_MOST_UNITS = 65280.0


@lru_cache(maxsize=64)
def _function(
    name: str, parameters: tuple[tuple[str, float], ...], reach: float, power_of_two: bool, ceiling: float
) -> Function:
    """Equal ones are one: each computes its table once."""
    return Function(name, parameters, reach, power_of_two, ceiling)
