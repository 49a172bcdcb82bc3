"""The range of the numbers that a chain of native kernels relies on, when clamps move them far."""

from __future__ import annotations

import pytest

from openrknn.isa import Precision
from openrknn.nativelib.structures import Chain
from openrknn.npu.native.chain import _NoChainError, _out, _Range
from openrknn.numerics import Rounding
from openrknn.task.out_cvt import Config
from openrknn.task.stage import Clamp


def converter(scale: int, shift: int) -> Config:
    return Config(Precision.INT8, scale, shift, 0, add_first=False, rounding=Rounding.EVEN, minus_exponent=0)


@pytest.mark.parametrize(
    ("clamp", "ends"),
    [
        (Clamp(lower=500, upper=None, below=None), (500, 500)),
        (Clamp(lower=None, upper=-500, below=None), (-500, -500)),
        (Clamp(lower=500, upper=200, below=None), (200, 200)),
        (Clamp(lower=-500, upper=500, below=None), (-100, 100)),
        (Clamp(lower=0, upper=None, below=None), (0, 100)),
    ],
)
def test_a_clamp_can_move_numbers_away_from_zero(clamp: Clamp, ends: tuple[int, int]) -> None:
    numbers = _Range(100, -100, 100)
    numbers.clamp(clamp)
    assert (numbers.low, numbers.high) == ends
    assert numbers.limit == max(100, *map(abs, ends))


def test_clamps_are_never_left_out_of_the_last_bytes() -> None:
    """Where the ends of the range cannot be computed in 64 bits, the chain is refused; ReLU was lost there."""
    numbers = _Range(2**50, -(2**50), 2**50)
    numbers.clamp(Clamp(lower=0, upper=None, below=None))
    with pytest.raises(_NoChainError):
        _out(Chain(), converter(1 << 14, 14), numbers)
    numbers.clamp(Clamp(lower=None, upper=90, below=None))
    chain = Chain()
    _out(chain, converter(1 << 14, 14), numbers)
    assert (chain.byte_low, chain.byte_high) == (0, 90)


def test_numbers_that_can_wrap_around_have_no_chain() -> None:
    """The specification computes in 64 bits, and wraps around; a chain would saturate."""
    for limit, is_possible in ((2**48, True), (2**49, False)):
        chain = Chain()
        if is_possible:
            _out(chain, converter(1 << 14, 14), _Range(limit, -limit, limit))
            assert chain.last_high > 0
        else:
            with pytest.raises(_NoChainError):
                _out(chain, converter(1 << 14, 14), _Range(limit, -limit, limit))
