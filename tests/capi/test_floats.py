"""Outputs as float32: the three ways of runtime 1.5.2. The numbers are its own answers for goldens."""

from __future__ import annotations

import numpy as np
import pytest

from openrknn.capi.floats import read_into
from openrknn.chips import chip_named
from openrknn.container.parts import DataType, Kind, Layout, Quantization, Tensor
from openrknn.runtime.io.outputs import OutputPort
from openrknn.runtime.io.tensors import StoredTensor

FUSED_ZERO = -1.8626451e-09
"""What 1.5.2 makes of the zero point of residual_rk3588_i8: the bias was rounded, the product was not."""


def port(shape: tuple[int, int, int], lanes: int, scale: float, zero: int, code: int) -> OutputPort:
    """An output of one code everywhere."""
    channels, height, width = shape
    surfaces = -(-channels // lanes)
    native = (1, surfaces, height, width, lanes)
    tensor = Tensor(
        1, "y", DataType.INT8, Layout.NC1HWC2, Kind.OUTPUT, (1, channels, height, width), native,
        Quantization((scale,), (zero,)), surfaces * height * width * lanes, 0,
    )  # fmt: skip
    memory = np.full(surfaces * height * width * lanes, code, np.int8).view(np.uint8)
    return OutputPort(StoredTensor(tensor, memory))


def floats(made: OutputPort, chip: str) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    out = np.empty(made.stored.tensor.shape, np.float32)
    read_into(made, out, chip_named(chip), is_float=True)
    return out


def test_whole_groups_are_rounded_once() -> None:
    found = floats(port((32, 4, 4), 16, 0.029290153, -3, -3), "rk3588")
    assert found == pytest.approx(FUSED_ZERO, rel=1e-6)


def test_the_rest_is_exact() -> None:
    """18 channels of 30 pixels: 16 channels and 28 pixels are whole groups on RK3588."""
    found = floats(port((18, 6, 5), 16, 0.029290153, -3, -3), "rk3588").reshape(18, 30)
    assert np.all(found[:16, :28] != 0)
    assert not found[16:].any()
    assert not found[:, 28:].any()


def test_groups_of_the_other_chip() -> None:
    """RK3566: groups of 8 pixels, and every channel has one."""
    found = floats(port((18, 6, 5), 8, 0.029290153, -3, -3), "rk3566").reshape(18, 30)
    assert np.all(found[:, :24] != 0)
    assert not found[:, 24:].any()


def test_maps_that_the_npu_converts() -> None:
    """image_rk3566_i8: 1.5.2 gives 0.92562866 for -79, not 0.92546785; the scale went through float16."""
    made = port((16, 16, 16), 8, 0.018887099, -128, -79)
    assert floats(made, "rk3566") == pytest.approx(0.92562866, rel=1e-7)


def test_chips_that_the_runtime_does_not_know_get_exact_numbers() -> None:
    assert not floats(port((32, 4, 4), 16, 0.029290153, -3, -3), "rk3576").any()
