"""Why an NPU is slow: its clock, its governor, its temperature."""

from __future__ import annotations

from collections.abc import Iterator

from openrknn.doctor.facts import Facts
from openrknn.doctor.finding import Finding, Severity
from openrknn.monitor import Npu

__all__ = ["check_clock"]

_SLOW_GOVERNORS = {"powersave", "userspace"}
_MHZ = 1_000_000


def check_clock(facts: Facts) -> Iterator[Finding]:
    """One verdict per NPU with devfreq."""
    for npu in facts.npus:
        clock = npu.clock
        if clock.hz and clock.maximum_hz:
            yield from _clock(npu, clock.hz, max([clock.maximum_hz, *clock.available_hz]))
        for zone in npu.temperatures:
            if zone.is_throttling:
                yield Finding(
                    "throttling",
                    Severity.WARNING,
                    f"{zone.zone} has {zone.celsius:.0f} °C; clocks are lowered from {zone.throttle_celsius:.0f} °C on",
                    "the NPU is slower than it could be until it is cooler",
                    ("give the board a heat sink and a fan; look at `openrknn top` while it works",),
                )


def _clock(npu: Npu, hz: int, highest: int) -> Iterator[Finding]:
    clock = npu.clock
    folder = f"/sys/class/devfreq/{npu.name}"
    limited = clock.maximum_hz is not None and clock.maximum_hz < highest
    if hz < highest and (clock.governor in _SLOW_GOVERNORS or limited):
        reason = f"the governor is {clock.governor}"
        fix = [f"$ echo performance | sudo tee {folder}/governor"]
        if limited:
            reason = f"max_freq is {(clock.maximum_hz or 0) // _MHZ} MHz"
            fix.insert(0, f"$ echo {highest} | sudo tee {folder}/max_freq")
        yield Finding(
            "slow-clock",
            Severity.WARNING,
            f"the NPU runs at {hz // _MHZ} MHz of {highest // _MHZ} MHz: {reason}",
            "the clock does not rise under load, and everything takes longer by that ratio (RK3576 boots at 300 MHz)",
            tuple(fix),
            "radxa/kernel#432",
        )
    else:
        yield Finding("clock", Severity.OK,
                      f"clock {hz // _MHZ} of {highest // _MHZ} MHz, governor {clock.governor or '?'}")  # fmt: skip
