"""Names of chips: one table, with the variants that boards and people name."""

from __future__ import annotations

import pytest

from openrknn.chips import CHIPS, VARIANTS, chip_for, chip_in, chip_named, find_chip
from openrknn.cli.completing.values import _chips
from openrknn.compiler.options import CompileOptions
from openrknn.errors import UnsupportedError
from openrknn.isa import map_for
from openrknn.partition.options import PartitionOptions


@pytest.mark.parametrize("name", ["rk3588s", "RK3588S", "rk3582", "rk3588s2", "rk3588j"])
def test_variants_are_known_wherever_a_chip_is_named(name: str) -> None:
    """`compile --target rk3588s` (Orange Pi 5): "not a chip that openrknn knows"."""
    assert chip_named(name) is CHIPS["rk3588"]
    assert CompileOptions(target=name).chip.name == "rk3588"
    assert PartitionOptions(target=name).target == "rk3588"
    assert map_for(name) is map_for("rk3588")
    assert chip_for("RKNPU v2", name).name == "rk3588"


def test_device_trees() -> None:
    """The first entry that is a chip: boards of RK3582 name it before RK3588S, or alone."""
    assert chip_in("xunlong,orangepi-5\0rockchip,rk3588s\0") == "rk3588"
    assert chip_in("radxa,e52c\0rockchip,rk3582\0rockchip,rk3588s\0") == "rk3588"
    assert chip_in("friendlyarm,nanopi\0rockchip,rk3576\0") == "rk3576"
    assert chip_in("raspberrypi,4-model-b\0brcm,bcm2711\0") is None


def test_the_table_is_whole() -> None:
    assert set(VARIANTS.values()) <= set(CHIPS)
    assert not set(VARIANTS) & set(CHIPS)
    assert {"rk3588s", "rk3582"} <= set(_chips().words)
    assert find_chip("") is None
    with pytest.raises(UnsupportedError, match=r"no chip is called 'rk3399'; known are rk3588, .*rk3588s"):
        chip_named("rk3399")
