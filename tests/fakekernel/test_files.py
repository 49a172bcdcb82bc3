"""The files of the emulated board: the drivers' texts to the letter, and the tree that holds them."""

from __future__ import annotations

import os
import stat
import tempfile
import time
from pathlib import Path

import pytest

from openrknn import monitor
from openrknn.fakekernel.device import Device
from openrknn.fakekernel.tree import PREFIX, Tree, remove_stale
from openrknn.uapi import drm
from tests.fakekernel.board import allocate, product
from tests.fakekernel.client import Client, File

LIVE = {
    "load": "NPU load:  Core0:  0%, Core1:  0%, Core2:  0%,\n",
    "power": "on\n",
    "freq": "1000000000\n",
    "volt": "800000\n",
    "delayms": "3000\n",
    "reset": "on\n",
}


def read(device: Device, path: str) -> str:
    """A text that the server makes when it is opened."""
    with Client(device.folder) as client:
        file = client.open(path, os.O_RDONLY)
        try:
            return os.read(file.descriptor, 65536).decode()
        finally:
            file.close()


def write(device: Device, path: str, text: str) -> None:
    with Client(device.folder) as client:
        file = client.open(path, os.O_WRONLY)
        os.write(file.descriptor, text.encode())
        file.close()


def root(device: Device, path: str) -> Path:
    return device.folder / "root" / path.lstrip("/")


@pytest.mark.parametrize("folder", ["/sys/kernel/debug/rknpu", "/proc/rknpu"])
def test_texts_of_the_vendors_driver(folder: str) -> None:
    with Device("rk3588") as device:
        assert {name: read(device, f"{folder}/{name}") for name in LIVE} == LIVE
        assert root(device, f"{folder}/version").read_text() == "RKNPU driver: v0.9.8\n"
        assert root(device, f"{folder}/mm").read_text() == ""


def test_a_chip_with_one_core_has_one_load() -> None:
    with Device("rk3568") as device:
        assert read(device, "/proc/rknpu/load") == "NPU load:  0%\n"
        assert root(device, "/proc/device-tree/compatible").read_bytes().endswith(b"\0rockchip,rk3568\0")


def test_the_device_tree(board: Device) -> None:
    compatible = root(board, "/proc/device-tree/compatible").read_text()
    assert compatible.split(",")[-1].strip("\x00") == "rk3588"  # how Frigate reads it
    assert root(board, "/sys/firmware/devicetree/base/compatible").read_text() == compatible
    assert root(board, "/proc/device-tree/model").read_text().endswith("\0")


def test_the_clock(board: Device) -> None:
    folder = "/sys/class/devfreq/fdab0000.npu"
    assert read(board, f"{folder}/cur_freq") == "1000000000\n"
    assert read(board, f"{folder}/load") == "0@1000000000Hz\n"
    assert root(board, f"{folder}/available_frequencies").read_text().split()[0] == "300000000"
    assert "*1000000000:" in read(board, f"{folder}/trans_stat")


def test_writing_changes_what_is_read_later(board: Device) -> None:
    for path, text in (
        ("/sys/class/devfreq/fdab0000.npu/governor", "performance"),
        ("/proc/rknpu/delayms", "500"),
        ("/sys/kernel/debug/rknpu/freq", "600000000"),
    ):
        before = read(board, path)
        write(board, path, f"{text}\n")
        wait_for(board, path, f"{text}\n")
        write(board, path, "nonsense")
        write(board, path, before)
        wait_for(board, path, before)


def wait_for(device: Device, path: str, text: str) -> None:
    for _ in range(30_000):
        if read(device, path) == text:
            return
        time.sleep(0.01)
    raise AssertionError(f"{path} is {read(device, path)!r}, not {text!r}")


def test_what_is_read_only_cannot_be_written(board: Device) -> None:
    with Client(board.folder) as client, pytest.raises(PermissionError):
        client.open("/proc/rknpu/load", os.O_WRONLY)


def test_the_load_rises_when_jobs_run(board: Device, npu: File) -> None:
    job = product(npu)
    loads = set()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        for _ in range(50):
            job.submit()
        loads.add(read(board, "/proc/rknpu/load"))
        if len(loads) > 1:
            break
    assert any("Core0:  0%" not in load for load in loads)
    assert all("Core2:  0%" in load for load in loads)


def test_sysfs_as_libdrm_walks_through_it(board: Device) -> None:
    """From the number of the device to its bus, its driver and its names."""
    place = root(board, "/sys/dev/char/226:129")
    assert place.resolve() == root(board, "/sys/devices/platform/fdab0000.npu/drm/renderD129").resolve()
    assert os.readlink(place / "device" / "subsystem").endswith("/bus/platform")
    uevent = (place / "device" / "uevent").read_text()
    assert "OF_FULLNAME=/npu@fdab0000\n" in uevent
    assert "OF_COMPATIBLE_0=rockchip,rk3588-rknpu\n" in uevent
    assert (place / "dev").read_text() == "226:129\n"
    assert "DEVNAME=dri/renderD129\n" in (place / "uevent").read_text()
    assert os.readlink(root(board, "/dev/dri/by-path/platform-fdab0000.npu-render")) == "../renderD129"


def test_the_lists_of_the_drm_core(board: Device, npu: File) -> None:
    folder = "/sys/kernel/debug/dri/1"
    assert root(board, f"{folder}/name").read_text() == "rknpu dev=fdab0000.npu unique=fdab0000.npu\n"
    memory = allocate(npu, 8192)
    assert read(board, f"{folder}/gem_names") == "  name     size handles refcount\n"
    npu.ioctl(drm.GEM_FLINK, handle=memory.handle)
    assert read(board, f"{folder}/gem_names").splitlines()[1] == "     1     8192       1        2"
    header, row = read(board, f"{folder}/clients").splitlines()
    assert header == "             command  tgid dev master a   uid      magic"
    assert row.split()[1:5] == [str(os.getpid()), "1", "n", "y"]


def test_the_mainline_driver_has_no_files_of_the_vendors(rocket_board: Device) -> None:
    assert (root(rocket_board, "/sys/class/accel/accel0") / "dev").read_text() == "261:0\n"
    assert not root(rocket_board, "/proc/rknpu").exists()
    assert not root(rocket_board, "/dev/dri").exists()


def test_nodes_are_sockets_that_nobody_can_open(board: Device) -> None:
    node = root(board, "/dev/dri/card1")
    assert stat.S_ISSOCK(node.lstat().st_mode)
    with pytest.raises(OSError, match="No such device or address"):
        node.open("rb")


def test_the_vendors_library_is_where_programs_look(tmp_path: Path) -> None:
    library = tmp_path / "librknnrt.so.1"
    library.write_bytes(b"\x7fELF")
    with Device("rk3588", library=library) as device:
        assert root(device, "/usr/lib/librknnrt.so").read_bytes() == b"\x7fELF"
        assert (device.folder / "lib" / "librknnrt.so").resolve() == library


def test_nothing_is_left_of_a_device() -> None:
    with tempfile.TemporaryDirectory() as base:
        place = Path(base) / "npu"
        with Device("rk3588", folder=place) as device:
            assert device.folder == place
            with pytest.raises(FileExistsError, match="another device runs there"):
                Tree(place)
        assert list(Path(base).iterdir()) == []


def test_what_a_killed_device_left_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as base:  # tmp_path is too long for a socket
        monkeypatch.setattr("tempfile.tempdir", base)
        left = Path(base) / f"{PREFIX}left"
        (left / "root").mkdir(parents=True)
        (left / "lock").touch()
        living = Tree()
        remove_stale()
        assert sorted(Path(base).iterdir()) == [living.folder]
        living.remove()


def test_a_folder_that_is_too_long_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / ("x" * 100)
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    with pytest.raises(OSError, match="set TMPDIR to a shorter one"):
        Tree()


def test_the_mainline_driver_has_a_device_for_each_core(rocket_board: Device) -> None:
    """FINDINGS 22: one device with the vendor's `compatible`, and `doctor` said 1 core."""
    bound = root(rocket_board, "/sys/bus/platform/drivers/rocket")
    assert sorted(path.name for path in bound.iterdir()) == ["fdab0000.npu", "fdac0000.npu", "fdad0000.npu"]
    for path in bound.iterdir():
        assert "OF_COMPATIBLE_0=rockchip,rk3588-rknn-core\n" in (path / "uevent").read_text()
        tree = root(rocket_board, f"/proc/device-tree/npu@{path.name.partition('.')[0]}")
        assert (tree / "compatible").read_text() == "rockchip,rk3588-rknn-core\0"
    assert root(rocket_board, "/sys/class/accel/accel0/device").resolve().name == "rknn"
    (npu,) = (npu for npu in monitor.read(rocket_board.folder / "root").npus if npu.driver == "rocket")
    assert len(npu.cores) == 3
