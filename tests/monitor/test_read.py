"""Readings of whole machines."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from openrknn import monitor
from openrknn.chips import CHIPS
from openrknn.device.software import SoftwareDevice
from openrknn.monitor import software
from openrknn.verify.battery import run_battery
from tests.machines import Machine, rknpu_board, rocket_board


def only(reading: monitor.Reading) -> monitor.Npu:
    (npu,) = reading.npus
    return npu


def test_a_board_with_the_vendors_driver(tmp_path: Path) -> None:
    machine = rknpu_board(tmp_path).process(812, "python3", "/dev/dri/renderD129", "/dev/null")
    machine.write({"/sys/kernel/debug/rknpu/load": "NPU load:  Core0:  0%, Core1:  0%, Core2: 63%,\n"})
    machine.write({"/sys/kernel/debug/rknpu/mm": "SRAM total size: 8192, used: 4096, free: 4096\n"})
    reading = monitor.read(tmp_path)
    npu = only(reading)
    assert reading.soc == "rk3588"
    assert (npu.driver, npu.interface, npu.name, npu.version) == ("rknpu", "drm", "fdab0000.npu", "0.9.8")
    assert [node.path for node in npu.nodes] == ["/dev/dri/card1", "/dev/dri/renderD129"]
    assert [core.load_percent for core in npu.cores] == [0, 0, 63]
    assert npu.load_percent == 63
    assert (npu.clock.hz, npu.clock.governor) == (10**9, "rknpu_ondemand")
    assert (npu.memory.sram_total_bytes, npu.memory.sram_used_bytes) == (8192, 4096)
    assert npu.memory.cma_free_bytes == 245760 * 1024
    assert (npu.temperatures[0].celsius, npu.temperatures[0].throttle_celsius) == (48, 85)
    assert (npu.is_powered, npu.microvolts) == (False, 800_000)
    assert [(client.pid, client.command, client.node) for client in npu.clients] == [
        (812, "python3", "/dev/dri/renderD129")
    ]
    json.dumps(reading.as_json())


def test_procfs_is_enough_without_root(tmp_path: Path) -> None:
    machine = rknpu_board(tmp_path)
    (tmp_path / "sys/kernel/debug/rknpu/load").unlink()
    machine.write({"/proc/rknpu/load": "NPU load:  Core0: 12%, Core1:  0%, Core2:  0%,\n"})
    assert only(monitor.read(tmp_path)).load_percent == 12


def test_devfreq_is_the_last_way_to_a_load(tmp_path: Path) -> None:
    machine = rknpu_board(tmp_path)
    (tmp_path / "sys/kernel/debug/rknpu/load").unlink()
    machine.write({"/sys/class/devfreq/fdab0000.npu/load": "47@200000000Hz\n"})
    assert [core.load_percent for core in only(monitor.read(tmp_path)).cores] == [47]


def test_a_load_of_twenty_thousand_percent(tmp_path: Path) -> None:
    rknpu_board(tmp_path, "rk3568").write({"/sys/kernel/debug/rknpu/load": "NPU load: 20000%\n"})
    (core,) = only(monitor.read(tmp_path)).cores
    assert (core.load_percent, core.reported_percent) == (100, 20000)


def test_builds_without_drm_have_one_node(tmp_path: Path) -> None:
    rknpu_board(tmp_path, "rk3568", misc=True)
    npu = only(monitor.read(tmp_path))
    assert (npu.interface, [node.path for node in npu.nodes]) == ("misc", ["/dev/rknpu"])


def test_a_link_is_not_a_node(tmp_path: Path) -> None:
    rknpu_board(tmp_path).link("/dev/rknpu", "dri/renderD129")
    assert only(monitor.read(tmp_path)).interface == "drm"


def test_rocket_counts_and_two_readings_make_a_load(tmp_path: Path) -> None:
    machine = rocket_board(tmp_path).process(5, "frigate", "/dev/accel/accel0")
    first = monitor.read(tmp_path)
    assert only(first).load_percent is None
    assert [core.interrupts for core in only(first).cores] == [10, 11, 12]
    machine.write({"/sys/devices/platform/fdac0000.npu/power/runtime_active_time": "999000\n"})
    npu = only(monitor.read(tmp_path, first))
    assert (npu.driver, [node.path for node in npu.nodes]) == ("rocket", ["/dev/accel/accel0"])
    assert [core.load_percent for core in npu.cores] == [0, 100, 0]
    assert [client.command for client in npu.clients] == ["frigate"]


def test_a_driver_without_a_node_in_this_container(tmp_path: Path) -> None:
    rknpu_board(tmp_path)
    for name in ("card1", "renderD129"):
        (tmp_path / "dev/dri" / name).unlink()
    assert [node.exists for node in only(monitor.read(tmp_path)).nodes] == [False, False]


def test_chips_by_their_device_tree(tmp_path: Path) -> None:
    Machine(tmp_path).soc("rk3588s", "xunlong,orangepi-5")
    assert monitor.read(tmp_path).soc == "rk3588"


def test_a_machine_without_an_npu(tmp_path: Path) -> None:
    reading = monitor.read(tmp_path)
    assert (reading.soc, reading.npus) == (None, ())


def test_the_software_npu_tells_others_what_it_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(software.VARIABLE, str(tmp_path / "status"))
    with SoftwareDevice(CHIPS["rk3588"]) as device:
        first = monitor.read()
        buffer = device.allocate(5000, "room")
        before = next(npu for npu in first.npus if npu.clients[0].node.startswith(str(tmp_path)))
        assert (before.name, before.jobs, len(before.cores)) == ("software:rk3588", 0, 3)
        assert all(verdict.is_equal for verdict in run_battery(device))
        second = monitor.read(previous=first)
        after = next(npu for npu in second.npus if npu.clients[0].node == before.clients[0].node)
        assert after.memory.used_bytes is not None
        assert after.memory.used_bytes >= 8192
        assert after.jobs is not None
        assert after.jobs > 0
        assert (after.failed_jobs, after.load_percent is not None) == (0, True)
        assert after.cores[0].busy_seconds is not None
        assert after.cores[0].busy_seconds > 0
        device.free(buffer)
    assert list((tmp_path / "status").iterdir()) == []


def test_jobs_side_by_side_take_different_cores(tmp_path: Path) -> None:
    status = software.Status(tmp_path / "status", CHIPS["rk3588"])
    with status.job(1), status.job(1), status.job(2):
        assert status._running == [2, 1, 1]
    assert status._running == [0, 0, 0]


def test_status_files_of_strangers_are_not_believed(tmp_path: Path) -> None:
    (tmp_path / "tmp/openrknn-0").mkdir(parents=True)
    (tmp_path / "tmp/openrknn-0/1-0").write_bytes(b"orknpu1\n" + b"\xff" * 4088)
    (tmp_path / "tmp/openrknn-0/1-1").write_bytes(b"orknpu1\n")
    (tmp_path / "tmp/openrknn-0/1-2").mkdir()
    assert monitor.read(tmp_path).npus == ()


def test_telling_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(software.VARIABLE, "off")
    assert software.publish(CHIPS["rk3588"]) is None


def test_a_full_disk_means_no_status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FINDINGS 5: the file was sparse, and the first store into it ended the process with SIGBUS."""
    monkeypatch.setenv(software.VARIABLE, str(tmp_path))
    monkeypatch.setattr(os, "posix_fallocate", full)
    with SoftwareDevice(CHIPS["rk3588"]) as device:
        device.allocate(1, "room")
        assert list(tmp_path.iterdir()) == []


def full(descriptor: int, offset: int, size: int) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_the_status_has_its_place_on_disk(tmp_path: Path) -> None:
    status = software.Status(tmp_path / "status", CHIPS["rk3588"])
    assert (tmp_path / "status").stat().st_blocks * 512 >= 4096
    status.close()


def test_a_forked_process_has_a_status_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FINDINGS 10c: the normal end of a child took the parent's file away; its jobs counted as the parent's."""
    monkeypatch.setenv(software.VARIABLE, str(tmp_path))
    with SoftwareDevice(CHIPS["rk3588"]) as device:
        status = device._status
        assert status is not None
        mine = status.path
        process = os.fork()
        if process == 0:
            code = 3
            try:
                status.close()
                assert mine is not None
                alone = mine.exists() and status.path is None
                with status.job(1):
                    own = sorted(int(path.name.partition("-")[0]) for path in tmp_path.iterdir())
                status.close()
                code = 0 if alone and own == sorted([os.getppid(), os.getpid()]) else 1
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
        assert list(tmp_path.iterdir()) == [mine]
        npu = next(npu for npu in monitor.read().npus if npu.clients[0].node == str(mine))
        assert npu.jobs == 0


def test_what_is_killed_is_cleaned_up_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(software.VARIABLE, str(tmp_path))
    ours = os.stat("/proc/self/ns/pid").st_ino
    for name in ("4194999-0", f"4194999-0-{ours}"):
        (tmp_path / name).write_bytes(b"")
    foreign = tmp_path / f"4194999-0-{ours + 1}"  # of another container, where that process may live
    foreign.write_bytes(b"")
    status = software.publish(CHIPS["rk3588"])
    assert status is not None
    assert set(tmp_path.iterdir()) == {status.path, foreign}
    status.close()


def test_a_user_who_is_not_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """debugfs is root's alone: not even the question whether something is there gets an answer."""
    rknpu_board(tmp_path)
    stat, opened = os.stat, os.open

    def refuse(path: object) -> None:
        if "kernel/debug" in str(path):
            raise PermissionError(13, "Permission denied", str(path))

    def stat_or_not(path: Any, *more: Any, **named: Any) -> os.stat_result:
        refuse(path)
        return stat(path, *more, **named)

    def open_or_not(path: Any, *more: Any, **named: Any) -> int:
        refuse(path)
        return opened(path, *more, **named)

    monkeypatch.setattr(os, "stat", stat_or_not)
    monkeypatch.setattr(os, "open", open_or_not)
    npu = only(monitor.read(tmp_path))
    assert (npu.version, npu.load_percent) == ("0.9.8", 0)  # from the module and from devfreq
    assert npu.hidden
    assert monitor.read(tmp_path / "nothing").npus == ()
