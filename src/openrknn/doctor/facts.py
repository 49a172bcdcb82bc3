"""What is on the machine, collected once. Every path is below `root`."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from openrknn import monitor
from openrknn.doctor.container import container_kind
from openrknn.doctor.distributions import Distribution, find_distributions
from openrknn.doctor.libraries import Library, Teflon, find_libraries, find_teflon
from openrknn.monitor import files
from openrknn.monitor.kernel_log import kernel_log

__all__ = ["Facts", "Who"]


@dataclass(frozen=True, slots=True)
class Who:
    """For whom: the user whose permissions count."""

    user_id: int
    group_ids: frozenset[int]

    @classmethod
    def this_process(cls) -> Who:
        return cls(os.geteuid(), frozenset({os.getegid(), *os.getgroups()}))


def _try_open(path: Path) -> int | None:
    """The number of the error, None if it opens."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK))
    except OSError as error:
        return error.errno
    return None


@dataclass
class Facts:
    """Everything that checks look at."""

    root: Path = Path("/")
    who: Who = field(default_factory=Who.this_process)
    try_open: Callable[[Path], int | None] = _try_open
    """Opens a node of this machine; below another root nothing is opened."""

    @cached_property
    def reading(self) -> monitor.Reading:
        return monitor.read(self.root)

    @cached_property
    def npus(self) -> tuple[monitor.Npu, ...]:
        """Real ones."""
        return tuple(npu for npu in self.reading.npus if npu.driver != "software")

    def driver(self, name: str) -> monitor.Npu | None:
        return next((npu for npu in self.npus if npu.driver == name), None)

    @property
    def soc(self) -> str | None:
        return self.reading.soc

    @property
    def is_this_machine(self) -> bool:
        return self.root == Path("/")

    @cached_property
    def machine(self) -> str:
        """Processor: "aarch64"."""
        return platform.machine() if self.is_this_machine else "aarch64" if self.soc else "unknown"

    @cached_property
    def release(self) -> str:
        """Of the kernel: "6.1.75-vendor-rk35xx"."""
        return (files.text(self.root, "/proc/sys/kernel/osrelease") or "").strip()

    @cached_property
    def kernel(self) -> tuple[int, int]:
        match = re.match(r"(\d{1,3})\.(\d{1,4})", self.release)
        return (int(match[1]), int(match[2])) if match else (0, 0)

    @cached_property
    def container(self) -> str | None:
        return container_kind(self.root)

    @cached_property
    def log(self) -> tuple[str, ...] | None:
        return kernel_log(self.root)

    def logged(self, pattern: str) -> str | None:
        """The last line of the kernel's log with this in it."""
        return next((line for line in reversed(self.log or ()) if re.search(pattern, line, re.IGNORECASE)), None)

    @cached_property
    def libraries(self) -> tuple[Library, ...]:
        return find_libraries(self.root)

    @cached_property
    def teflon(self) -> tuple[Teflon, ...]:
        return find_teflon(self.root)

    @cached_property
    def distributions(self) -> tuple[Distribution, ...]:
        return find_distributions(self.root)

    def distribution(self, name: str) -> Distribution | None:
        return next((found for found in self.distributions if found.name == name), None)

    def text(self, path: str) -> str | None:
        return files.text(self.root, path)

    def group_name(self, group_id: int) -> str:
        """From /etc/group."""
        for line in (self.text("/etc/group") or "").splitlines():
            parts = line.split(":")
            if len(parts) > 2 and parts[2] == str(group_id):
                return parts[0]
        return str(group_id)
