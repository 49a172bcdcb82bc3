"""The texts of the drivers' files, as DRIVERS write them and as old ones did."""

from __future__ import annotations

import pytest

from openrknn.monitor import texts

MM = """SRAM bitmap: "*" - used, "." - free (1bit = 4KB)
[000] [****************................]
[001] [................................]
SRAM total size: 262144, used: 65536, free: 196608
"""


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("NPU load:  0%\n", {0: 0}),
        ("NPU load:  Core0:  0%, Core1:  0%, Core2: 63%,\n", {0: 0, 1: 0, 2: 63}),
        ("NPU load:  Core0: 100%, Core1: 99%,\n", {0: 100, 1: 99}),
        ("NPU load:  Core0: 20000%, Core1:  0%, Core2:  0%,\n", {0: 20000, 1: 0, 2: 0}),
        ("NPU load:Core0:7%,Core1:8%,", {0: 7, 1: 8}),
        ("NPU load:   42%", {0: 42}),
        ("", {}),
        ("cat: load: Operation not permitted", {}),
    ],
)
def test_loads(text: str, wanted: dict[int, int]) -> None:
    assert texts.loads(text) == wanted


def test_the_load_of_devfreq() -> None:
    assert texts.devfreq_load("47@200000000Hz\n") == (47, 200_000_000)
    assert texts.devfreq_load("0@1000000000Hz") == (0, 1_000_000_000)
    assert texts.devfreq_load("none") is None


def test_versions() -> None:
    assert texts.driver_version("RKNPU driver: v0.9.8\n") == "0.9.8"
    assert texts.driver_version("0.9.2\n") == "0.9.2"
    assert texts.driver_version("") is None


def test_sram() -> None:
    assert texts.sram(MM) == (262144, 65536, 196608)
    assert texts.sram("") is None


def test_switches() -> None:
    assert (texts.switch("on\n"), texts.switch("off\n"), texts.switch("?")) == (True, False, None)


def test_interrupts_of_all_processors_are_summed() -> None:
    text = (
        "           CPU0       CPU1\n 70:        100         11     GICv3 142 Level     fdab0000.npu\n"
        "IPI0:    1    2   Rescheduling interrupts\nErr:          0\n"
    )
    assert texts.interrupts(text)["fdab0000.npu"] == 111
    assert texts.interrupts("") == {}


def test_memory_is_in_bytes() -> None:
    assert texts.meminfo("CmaTotal:   65536 kB\nHugePages_Total:  3\nodd\n") == {
        "CmaTotal": 65536 * 1024,
        "HugePages_Total": 3,
    }
