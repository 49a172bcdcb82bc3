"""What language models compute in fewer tasks: norms of one row, gates by a shared table."""

from __future__ import annotations

import numpy as np
import pytest

from openrknn.compiler.functions import FUNCTIONS, GATE_REACH, SHARED_REACH, shared_name
from openrknn.compiler.lower.bits import STRAIGHT_ROOT_CONSTANT
from openrknn.compiler.lower.unit_norm import LARGEST_ERROR


def heron(constant: int) -> float:
    """The largest error of a step behind the guess; it is never below the root."""
    bits = np.arange(0x3C00, 0x4400)  # 1 to 4: other powers of four are the same
    x = bits.astype(np.uint16).view(np.float16).astype(np.float64)
    guess = (np.rint(bits / 2).astype(int) + constant).astype(np.uint16).view(np.float16).astype(np.float64)
    return float(np.max((guess + x / guess) / 2 / np.sqrt(x) - 1))


def test_the_guess_of_a_root_has_the_best_constant() -> None:
    near = range(STRAIGHT_ROOT_CONSTANT - 40, STRAIGHT_ROOT_CONSTANT + 40)
    assert heron(STRAIGHT_ROOT_CONSTANT) == min(heron(one) for one in near)
    assert heron(STRAIGHT_ROOT_CONSTANT) == pytest.approx(LARGEST_ERROR, rel=0.01)


@pytest.mark.parametrize("function", ["silu", "gelu", "gelu_tanh"])
def test_a_gate_times_its_input_is_the_function(function: str) -> None:
    """The upper half of the table has it over twice the range, and ends with all and nothing."""
    table, plain = FUNCTIONS[shared_name(function)][0], FUNCTIONS[function][0]
    x = np.linspace(-GATE_REACH, GATE_REACH, 1001)
    shares = table((x + GATE_REACH) / 2, {})
    assert np.allclose(x * shares, plain(x, {}), atol=3e-4)
    assert shares[0] == 0
    assert shares[-1] == pytest.approx(1, abs=1e-4)
    below = np.linspace(-SHARED_REACH, -1e-6, 100)
    assert np.allclose(table(below, {}), np.exp(below), atol=1e-4)
