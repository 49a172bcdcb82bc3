"""Weights in orders of their own: what kernels do not know, they decline; what is constant, nobody guesses.

Witness: the NumPy code, and for rows of image kernels the same network on RK3588.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openrknn.compute import native
from openrknn.errors import ExecutionError
from openrknn.layout.weights import Groups, WeightTiles, pack_image_weights
from openrknn.npu import Buffer, Memory
from openrknn.npu.blocks import cna
from openrknn.npu.native import accelerate
from openrknn.npu.task import Convolution
from tests.npu.chip_models import Placed, place
from tests.npu.loaded import load

GOLDENS = Path(__file__).resolve().parents[1] / "goldens"
needs_kernels = pytest.mark.skipif(not native.find(), reason="no native library")


@pytest.fixture(autouse=True)
def _no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(native.ENVIRONMENT, raising=False)


def first_convolution(placed: Placed, **changes: Any) -> tuple[Convolution, str]:
    """The first convolution of a model with other fields, and why no kernel takes it."""
    program = placed.program()
    number, step = next((n, step) for n, step in enumerate(program.steps) if isinstance(step, Convolution))
    step.source = replace(step.source, **changes)
    return step, accelerate(program, placed.memory).reasons.get(number, "")


@needs_kernels
@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("conv_rk3562_i8", {"inline_zero_points": 2}, "not depthwise"),
        ("conv_rk3562_i8", {"packed_rows": True, "depthwise": True}, "rows of an image kernel"),
        ("conv_rk3562_fp", {"inline_zero_points": 2}, "floating point weights"),
        ("conv_rk3562_fp", {"packed_rows": True}, "floating point weights"),
        ("conv_rk3562_fp", {"weight_offset": 3}, "floating point weights"),
        ("image_rk3588_i8", {"depthwise": True}, "depthwise convolution of a packed picture"),
        ("conv_rk3562_i8", {}, ""),
    ],
)
def test_kernels_decline_orders_that_they_do_not_know(name: str, changes: dict[str, Any], words: str) -> None:
    _, reason = first_convolution(place(GOLDENS / f"{name}.rknn"), **changes)
    assert words in reason if words else not reason


def test_weights_that_are_not_pairs_are_an_error_with_a_name() -> None:
    placed = place(GOLDENS / "conv_rk3562_i8.rknn")
    step, _ = first_convolution(placed)
    step.source = replace(step.source, inline_zero_points=2, weight_bytes=step.source.weight_bytes - 2)
    with pytest.raises(ExecutionError, match="not pairs of 2 weights"):
        step.execute()


@pytest.mark.parametrize("width", [3, 5, 7])
def test_rows_of_image_kernels_are_whole_16_bytes(width: int) -> None:
    """RK3576: 12 bytes fill 16, 20 and 28 fill 32. Found with a 7x7 convolution, which equals RK3588's bit by bit."""
    random = np.random.default_rng(width)
    weights = random.integers(-128, 128, (32, 4, width, width), np.int8)
    stored = pack_image_weights(weights, WeightTiles((Groups(1, 32),), (Groups(1, 4),), width, width))
    memory = Memory([Buffer(0x1000, stored.view(np.uint8), "weights")])
    step, _ = first_convolution(place(GOLDENS / "image_rk3576_i8.rknn"))
    assert step.source.packed_rows
    config = replace(
        step.source, weight_address=0x1000, weight_bytes=stored.size // 2, weight_channels=4, kernels=32,
        kernel_height=width, kernel_width=width, kernel_group=32,
    )  # fmt: skip
    np.testing.assert_array_equal(cna.fetch_weights(config, memory), weights.transpose(0, 2, 3, 1))


@needs_kernels
def test_a_buffer_with_the_name_of_weights_may_change() -> None:
    """An input of a model may be called "weight": what is packed once is what its owner calls constant."""
    loaded = load(GOLDENS / "conv_rk3588_i8.rknn")
    program = loaded.program()
    (step,) = (step for step in program.steps if isinstance(step, Convolution))
    weights = loaded.memory.view(step.source.weight_address, step.source.weight_bytes, "weights").copy()
    loaded.memory.add(Buffer(0x8000_0000, weights, "weight"))
    step.source = replace(step.source, weight_address=0x8000_0000)
    fast = accelerate(program, loaded.memory)
    assert not fast.reasons
    before = loaded.internal.data.copy()
    results = []
    for change in (0, 1):
        weights += np.uint8(change)
        loaded.internal.data[...] = before
        fast.run()
        results.append(loaded.internal.data.copy())
        loaded.internal.data[...] = before
        step.execute()
        np.testing.assert_array_equal(results[-1], loaded.internal.data)
    assert not np.array_equal(results[0], results[1])
