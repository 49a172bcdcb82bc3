"""No convolution that the compiler cuts into tasks breaks a limit of the hardware.

Every task that is emitted is checked (`compiler.link.emit`), so the graphs of other tests show it too; here are shapes.
"""

from __future__ import annotations

import random

import pytest

from openrknn.chip.limits import Banks, broken_limit
from openrknn.chip.target import Format, Target
from openrknn.compiler.errors import CompileError
from openrknn.compiler.targets import TARGETS
from openrknn.compiler.tile import Band, Shape, tile
from openrknn.task import cna

SHAPES = 120
CHANNELS = (8, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024, 2048, 3072)
SIDES = (1, 2, 7, 14, 20, 28, 40, 56, 80, 112, 160, 224, 320)


def shape_of(target: Target, form: Format, dice: random.Random) -> Shape:
    """A convolution: direct, depthwise, transposed, or on a picture."""
    kind = dice.choice(("direct", "direct", "direct", "depthwise", "transposed", "picture"))
    height, width, side = dice.choice(SIDES), dice.choice(SIDES), dice.choice((1, 1, 3, 5))
    side = min(side, height, width)
    channels = dice.choice((1, 3, 4) if kind == "picture" else CHANNELS)
    while kind != "depthwise" and channels * side * side > target.kernel_volume[form.name]:
        channels //= 2
    spread = 2 if kind == "transposed" else 1
    rows, columns = height * spread, width * spread
    return Shape(
        channels, height, width, rows, (side, side), 1, 1, side // 2, kind == "depthwise",
        1 if kind == "depthwise" else dice.choice(CHANNELS), form.surfaces(channels) * form.atom,
        -(-width // form.atom) * form.atom if kind == "picture" else 0, spread, pixels=rows * columns,
        buffer=target.buffer,
    )  # fmt: skip


def source_of(shape: Shape, form: Format, band: Band) -> cna.Config[int]:
    kernels, side = band.kernels or shape.stored_kernels, shape.kernel[0]
    return cna.Config(
        feature_address=0, height=band.rows, width=shape.picture_row or shape.width,
        channels=form.surfaces(band.channels) * form.atom, packed_channels=shape.channels if shape.picture_row else 0,
        line_bytes=0, surface_bytes=0, precision=form.precision, is_unsigned=False, converter=None, pad_top=0,
        pad_left=0, pad_bits=0, out_height=band.out_rows, out_width=shape.width, weight_address=0,
        weight_bytes=kernels * side * side * shape.kernel_channels * form.element_bytes,
        weight_channels=shape.kernel_channels, weight_precision=form.precision, kernels=kernels, kernel_height=side,
        kernel_width=side, stride_x=1, stride_y=1, dilation_x=1, dilation_y=1, spread_x=shape.spread,
        spread_y=shape.spread, depthwise=shape.depthwise, atom_bytes=form.atom_bytes,
    )  # fmt: skip


@pytest.mark.parametrize("chip", ["rk3588", "rk3566", "rk3562", "rk3576", "rv1106"])
def test_bands_keep_the_limits(chip: str) -> None:
    target, dice, checked = TARGETS[chip], random.Random(chip), 0
    for _ in range(SHAPES):
        form = dice.choice((target.int8, target.fp16))
        shape = shape_of(target, form, dice)
        try:
            bands = tile(shape, form, "convolution")
        except CompileError:
            continue  # too large for the buffer, which is said
        for band in bands:
            banks = Banks(band.data_banks, band.weight_banks)
            assert broken_limit(target.chip, source_of(shape, form, band), banks) is None, (shape, band)
        checked += 1
    assert checked > SHAPES // 2
