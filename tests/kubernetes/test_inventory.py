"""What nodes offer, what containers get, which devices go well together, and labels."""

from __future__ import annotations

from pathlib import Path

import pytest

from openrknn.kubernetes.allocation import grant, prefer
from openrknn.kubernetes.inventory import Offer, Settings, Unit, offers, units
from openrknn.kubernetes.labels import labels, write_labels
from tests.machines import Machine, rknpu_board, rocket_board


def offered(root: Path, **more: object) -> tuple[Offer, ...]:
    settings = Settings(root, **more)  # type: ignore[arg-type]
    return offers(settings, units(settings))


def ids(found: tuple[Offer, ...] | list[Offer]) -> list[str]:
    return [offer.id for offer in found]


def test_nodes_are_found_by_the_drivers_name(tmp_path: Path) -> None:
    rknpu_board(tmp_path)
    found = offered(tmp_path)
    assert ids(found) == ["npu0-fdab0000-npu-0", "npu0-fdab0000-npu-1", "npu0-fdab0000-npu-2"]
    assert found[0].unit.open_as == "rknpu:/dev/dri/renderD129"


def test_old_drivers_are_not_shared(tmp_path: Path) -> None:
    rknpu_board(tmp_path, version="0.9.7")
    assert len(offered(tmp_path)) == 1
    assert len(offered(tmp_path, shares=4)) == 4


def test_cores_are_devices(tmp_path: Path) -> None:
    rknpu_board(tmp_path)
    found = offered(tmp_path, strategy="cores")
    assert [offer.core_mask for offer in found] == [1, 2, 4]
    assert grant([found[1]]).variables["OPENRKNN_CORE_MASK"] == "2"
    assert grant(found[:2]).variables["OPENRKNN_CORE_MASK"] == "3"


def test_rocket_has_no_cores_to_give(tmp_path: Path) -> None:
    rocket_board(tmp_path)
    found = offered(tmp_path, strategy="cores")
    assert [offer.core_mask for offer in found] == [0, 0, 0]
    assert grant([found[0]]).variables["OPENRKNN_NPU"] == "rocket:/dev/accel/accel0"
    assert grant([found[0]]).nodes == ("/dev/accel/accel0",)


def test_builds_without_drm_need_a_heap_too(tmp_path: Path) -> None:
    rknpu_board(tmp_path, "rk3568", misc=True)
    (found,) = offered(tmp_path)
    assert grant([found]).nodes == ("/dev/rknpu", "/dev/dma_heap/system")
    assert found.unit.open_as == "rknpu:/dev/rknpu"


def test_the_chips_name_comes_along(tmp_path: Path) -> None:
    machine = rknpu_board(tmp_path)
    machine.write({"/sys/firmware/devicetree/base/compatible": "rockchip,rk3588\0"})
    given = grant(offered(tmp_path)[:1])
    assert given.mounts == (("/sys/firmware/devicetree/base/compatible", "/run/openrknn/compatible"),)
    assert given.nodes == ("/dev/dri/card1", "/dev/dri/renderD129")


def test_software_npus_everywhere(tmp_path: Path) -> None:
    Machine(tmp_path)
    found = offered(tmp_path, software=2)
    assert ids(found) == ["soft0-rk3588-0", "soft1-rk3588-0"]
    assert grant([found[0]]).variables["OPENRKNN_NPU"] == "software"
    assert grant([found[0]]).nodes == ()


def test_the_order_of_the_kubelet_does_not_matter(tmp_path: Path) -> None:
    rocket_board(tmp_path)
    found = offered(tmp_path, software=1)
    for order in (found, found[::-1]):
        given = grant(order).variables
        assert given["OPENRKNN_NPU"] == "rocket:/dev/accel/accel0"
        assert given["OPENRKNN_NPUS"] == "rocket:/dev/accel/accel0,software"


UNITS = tuple(Unit(f"npu{n}", f"{n}.npu", "rknpu", "drm", "rk3588", "0.9.8", 3, (f"/dev/{n}",)) for n in range(2))
CORES = tuple(Offer(f"{unit.name}-core{core}", unit, 1 << core) for unit in UNITS for core in range(3))
SHARES = tuple(Offer(f"{unit.name}-{share}", unit) for unit in UNITS for share in range(2))


@pytest.mark.parametrize(
    ("available", "required", "count", "wanted"),
    [
        (CORES[:3], (), 2, ["npu0-core0", "npu0-core1"]),
        (CORES[:3], (), 1, ["npu0-core2"]),
        (CORES[:3], (), 3, ["npu0-core0", "npu0-core1", "npu0-core2"]),
        (CORES[2:], (), 2, ["npu1-core0", "npu1-core1"]),
        (CORES[2:], (), 1, ["npu0-core2"]),
        (CORES, (CORES[4],), 2, ["npu1-core1", "npu1-core0"]),
        (SHARES, (), 2, ["npu0-0", "npu1-0"]),
        (SHARES, (), 3, ["npu0-0", "npu1-0", "npu0-1"]),
        (SHARES[:1], (), 4, ["npu0-0"]),
    ],
)
def test_preferences(available: tuple[Offer, ...], required: tuple[Offer, ...], count: int, wanted: list[str]) -> None:
    assert ids(prefer(available, required, count)) == wanted


def test_labels(tmp_path: Path) -> None:
    rknpu_board(tmp_path / "root")
    found = units(Settings(tmp_path / "root"))
    assert labels(found) == {
        "rockchip.com/npu.cores": "3",
        "rockchip.com/npu.count": "1",
        "rockchip.com/npu.driver": "rknpu",
        "rockchip.com/npu.driver-version": "0.9.8",
        "rockchip.com/npu.present": "true",
        "rockchip.com/npu.soc": "rk3588",
    }
    write_labels(tmp_path / "features.d", found)
    assert "rockchip.com/npu.soc=rk3588\n" in (tmp_path / "features.d/openrknn").read_text()
    assert [entry.name for entry in (tmp_path / "features.d").iterdir()] == ["openrknn"]
    assert labels(()) == {}
