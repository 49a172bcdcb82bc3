"""Health with reasons."""

from __future__ import annotations

from pathlib import Path

from openrknn.kubernetes.health import Health, self_test
from openrknn.kubernetes.inventory import Settings, Unit, units
from openrknn.monitor.kernel_log import NewLines
from tests.machines import Machine, rknpu_board


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def reason(health: Health, found: tuple[Unit, ...]) -> str | None:
    return health.check(found)["npu0"]


def test_a_node_that_is_gone(tmp_path: Path) -> None:
    machine = rknpu_board(tmp_path)
    settings = Settings(tmp_path)
    found, health = units(settings), Health(settings)
    assert reason(health, found) is None
    (machine.root / "dev/dri/renderD129").unlink()
    assert reason(health, found) == "/dev/dri/renderD129 is gone"


def test_a_driver_that_let_go(tmp_path: Path) -> None:
    rknpu_board(tmp_path / "a")
    Machine(tmp_path / "b")
    found = units(Settings(tmp_path / "a"))
    assert reason(Health(Settings(tmp_path / "b")), found) == "the driver rknpu has let fdab0000.npu go"


def test_too_hot(tmp_path: Path) -> None:
    rknpu_board(tmp_path).temperature(112)
    assert reason(Health(Settings(tmp_path)), units(Settings(tmp_path))) == "npu-thermal has 112 °C"


def test_timeouts_count_for_five_minutes_and_old_ones_not_at_all(tmp_path: Path) -> None:
    machine = rknpu_board(tmp_path).log("RKNPU: job timeout, of yesterday")
    settings, clock = Settings(tmp_path), Clock()
    found, health = units(settings), Health(settings, clock=clock)
    assert reason(health, found) is None
    machine.log("RKNPU: job timeout, flags: 0x0")
    assert reason(health, found) == "jobs ran into a timeout (kernel log)"
    clock.now = 301
    assert reason(health, found) is None


def test_the_self_test_runs_now_and_then(tmp_path: Path) -> None:
    rknpu_board(tmp_path)
    answers = [None, "its self-test fails: wrong results"]
    settings, clock = Settings(tmp_path), Clock()
    found, health = units(settings), Health(settings, 60, lambda unit: answers.pop(0), clock)
    assert reason(health, found) is None
    clock.now = 59
    assert reason(health, found) is None
    clock.now = 60
    assert reason(health, found) == "its self-test fails: wrong results"


def test_software_npus_are_always_well(tmp_path: Path) -> None:
    Machine(tmp_path)
    settings = Settings(tmp_path, software=1)
    assert Health(settings).check(units(settings)) == {"soft0": None}


def test_a_self_test_that_passes_and_one_that_cannot_open() -> None:
    unit = Unit("soft0", "rk3588", "software", "process", "rk3588", None, 3, ())
    assert self_test(unit) is None
    hidden = Unit("npu0", "x.npu", "rknpu", "drm", "rk3588", None, 3, ("/dev/does-not-exist",))
    assert self_test(hidden) is None, "a node that cannot be opened here says nothing about the NPU"
    broken = Unit("npu0", "x.npu", "rknpu", "drm", "rk3588", None, 3, ("/dev/null",))
    assert "self-test fails" in (self_test(broken) or "")


def test_the_newest_lines_of_a_large_log_count(tmp_path: Path) -> None:
    machine = rknpu_board(tmp_path).log(*["something else"] * 20_000)
    settings = Settings(tmp_path)
    found, health = units(settings), Health(settings)
    assert reason(health, found) is None
    machine.log("RKNPU: job timeout, flags: 0x0")
    assert reason(health, found) == "jobs ran into a timeout (kernel log)"


def test_a_log_that_was_rotated_is_read_from_its_start(tmp_path: Path) -> None:
    machine = rknpu_board(tmp_path).log(*["something else"] * 10)
    lines = NewLines(tmp_path)
    (tmp_path / "var/log/dmesg").unlink()
    machine.log("new")
    assert [line.split()[-1] for line in lines.read()] == ["new"]
    assert lines.read() == []
