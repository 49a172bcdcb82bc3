"""Whether the NPUs of a node work, and why not."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from openrknn import monitor
from openrknn.kubernetes.inventory import Settings, Unit
from openrknn.monitor import files
from openrknn.monitor.kernel_log import NewLines

__all__ = ["Health", "code", "self_test"]

_LOG = logging.getLogger(__name__)
_TIMEOUT = re.compile(r"(rknpu|rocket|npu).*(job timeout|job timed out|failed to wait job)", re.IGNORECASE)
_BAD_FOR_SECONDS = 300.0
"""How long a timeout in the kernel's log counts; after that the NPU gets another chance."""
_SELF_TEST_SECONDS = 120.0
_CODES = {
    "/dev/": "node-gone",
    "device node": "node-gone",
    "has let": "driver-gone",
    "°C": "too-hot",
    "timeout": "job-timeout",
    "self-test": "self-test",
}


def code(reason: str) -> str:
    """The kind of trouble in a word, for labels and taints; it stays the same while a temperature changes."""
    return next((word for part, word in _CODES.items() if part in reason), "unhealthy")


def self_test(unit: Unit) -> str | None:
    """Small jobs with known answers, in a process of their own: a hanging NPU must not hang the plugin.

    Where the device node cannot be opened at all (a plugin in a container sees the host's /dev, and may not use it) the
    test says nothing about the NPU: that is no reason against it.
    """
    if closed := [node for node in unit.nodes if not os.access(node, os.R_OK | os.W_OK)]:
        _LOG.warning("no self-test of %s: %s cannot be opened here", unit.name, closed[0])
        return None
    command = [sys.executable, "-m", "openrknn.cli", "verify", "--quiet", "--device", unit.open_as]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SELF_TEST_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return "its self-test does not finish"
    return None if done.returncode == 0 else f"its self-test fails: {done.stderr.strip()[-200:] or 'wrong results'}"


class Health:
    """Reasons against using an NPU, by its name; called again and again."""

    def __init__(
        self,
        settings: Settings,
        self_test_seconds: float = 0,
        test: Callable[[Unit], str | None] = self_test,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings, self._every, self._test, self._clock = settings, self_test_seconds, test, clock
        self._tested: dict[str, tuple[float, str | None]] = {}
        self._log = NewLines(settings.root)
        self._bad_until = 0.0

    def check(self, units: Sequence[Unit]) -> Mapping[str, str | None]:
        """Name of the NPU -> the reason why it must not be used, None if it is well."""
        reading = monitor.read(self._settings.root)
        found = {(npu.driver, npu.name): npu for npu in reading.npus if npu.driver != "software"}
        hangs = self._hangs()
        return {
            unit.name: None if unit.driver == "software"
            else self._reason(unit, found.get((unit.driver, unit.device)), hangs)
            for unit in units
        }  # fmt: skip

    def _reason(self, unit: Unit, npu: monitor.Npu | None, hangs: bool) -> str | None:
        if npu is None:
            return f"the driver {unit.driver} has let {unit.device} go"
        if not unit.nodes:
            return f"the driver {unit.driver} has no device node"
        missing = [path for path in unit.nodes if not files.exists(self._settings.root, path)]
        if missing:
            return f"{missing[0]} is gone"
        for zone in npu.temperatures:
            if zone.critical_celsius is not None and zone.celsius >= zone.critical_celsius - 5:
                return f"{zone.zone} has {zone.celsius:.0f} °C"
        if hangs:
            return "jobs ran into a timeout (kernel log)"
        return self._tested_reason(unit)

    def _hangs(self) -> bool:
        if any(_TIMEOUT.search(line) for line in self._log.read()):
            self._bad_until = self._clock() + _BAD_FOR_SECONDS
        return self._clock() < self._bad_until

    def close(self) -> None:
        """Stop reading the kernel's log."""
        self._log.close()

    def _tested_reason(self, unit: Unit) -> str | None:
        if not self._every:
            return None
        when, reason = self._tested.get(unit.name, (float("-inf"), None))
        if self._clock() - when >= self._every:
            reason = self._test(unit)
            self._tested[unit.name] = self._clock(), reason
            _LOG.info("self-test of %s: %s", unit.name, reason or "no complaint")
        return reason
