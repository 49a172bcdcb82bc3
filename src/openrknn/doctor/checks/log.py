"""What the kernel's log says about jobs."""

from __future__ import annotations

from collections.abc import Iterator

from openrknn.doctor.checks.driver import RECOMMENDED, version_numbers
from openrknn.doctor.facts import Facts
from openrknn.doctor.finding import Finding, Severity

__all__ = ["check_log"]

_TIMEOUT = r"(rknpu|rocket|npu).*(job timeout|job timed out|failed to wait job|soft reset)"


def check_log(facts: Facts) -> Iterator[Finding]:
    """Jobs that did not end."""
    if not facts.npus:
        return
    line = facts.logged(_TIMEOUT)
    if line is not None:
        npu = facts.driver("rknpu")
        old = npu is not None and version_numbers(npu.version) < RECOMMENDED
        yield Finding(
            "job-timeouts",
            Severity.ERROR,
            f"jobs of the NPU ran into a timeout: {line.partition('] ')[2] or line}",
            'the vendor\'s library says "failed to submit!, op id ..., task counter: 0, int status: 0"; the cause is'
            + (f" the driver {npu.version if npu else ''}, or" if old else "")
            + " a library that does not fit the driver, or too little voltage for the clock",
            (
                *(("update the driver to 0.9.8 first",) if old else ()),
                "use a librknnrt.so of the toolkit that made the model",
                "$ openrknn verify --device " + facts.npus[0].driver + "   # is it the model or the NPU?",
                "lower the clock once, to see whether it is the voltage",
            ),
            "rockchip-linux/rknn-toolkit2#320",
        )
    elif facts.log is None:
        yield Finding("no-kernel-log", Severity.NOTE, "the kernel's log may not be read by this user",
                      "timeouts and memory problems are reported only there", ("$ sudo openrknn doctor",))  # fmt: skip
