"""`Cage`: a real limit of memory around a process, and what the kernel says about it afterwards.

In this order: a memory cgroup of version 1 or 2 that we may make, `systemd-run --scope`, and where neither can be had
an address space limit (RLIMIT_AS) for each process, which is named so.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["Cage"]

_ROOT = Path("/sys/fs/cgroup")
_MIB = 1 << 20


class Cage:
    """`start` runs a command inside; `report` says how close it came."""

    def __init__(self, mebibytes: int, name: str = "openrknn-siege") -> None:
        self.limit_bytes = mebibytes * _MIB
        self._folder: Path | None = None
        self._unit = f"{name}-{os.getpid()}"
        self.kind = self._version_1() or self._version_2() or self._systemd() or "RLIMIT_AS per process (no cgroup)"

    def _version_1(self) -> str:
        folder = _ROOT / "memory" / self._unit
        try:
            folder.mkdir()
        except OSError:
            return ""
        self._folder = folder
        (folder / "memory.limit_in_bytes").write_text(str(self.limit_bytes))
        with contextlib.suppress(OSError):  # memory and swap together: swapping is no way out
            (folder / "memory.memsw.limit_in_bytes").write_text(str(self.limit_bytes))
        return "cgroup v1"

    def _version_2(self) -> str:
        if not (_ROOT / "cgroup.controllers").exists():
            return ""
        folder = _ROOT / self._unit
        try:
            folder.mkdir()
            (folder / "memory.max").write_text(str(self.limit_bytes))
        except OSError:
            with contextlib.suppress(OSError):
                folder.rmdir()
            return ""
        self._folder = folder
        with contextlib.suppress(OSError):
            (folder / "memory.swap.max").write_text("0")
        return "cgroup v2"

    @staticmethod
    def _systemd() -> str:
        is_running = Path("/run/systemd/system").exists() and shutil.which("systemd-run") is not None
        return "systemd-run" if is_running else ""

    def start(self, command: Sequence[str], **options: Any) -> subprocess.Popen[str]:
        """The command and all its children inside the limit."""
        before = None
        if self._folder is not None:
            door = str(self._folder / "cgroup.procs")

            def before() -> None:
                with open(door, "w", encoding="ascii") as file:
                    file.write("0")
        elif self.kind == "systemd-run":
            command = ["systemd-run", "--user", "--scope", "--quiet", f"--unit={self._unit}",
                       f"--property=MemoryMax={self.limit_bytes}", "--property=MemorySwapMax=0", *command]  # fmt: skip
        else:

            def before() -> None:
                resource.setrlimit(resource.RLIMIT_AS, (4 * self.limit_bytes, 4 * self.limit_bytes))

        return subprocess.Popen(command, text=True, preexec_fn=before, **options)  # noqa: PLW1509 - one thread yet

    def report(self) -> dict[str, Any]:
        """Peak and refusals, as far as the kernel tells."""
        folder = self._folder
        if folder is None:
            return {"kind": self.kind}
        if self.kind == "cgroup v1":
            killed = _words(folder / "memory.oom_control").get("oom_kill", 0)
            return {
                "kind": self.kind,
                "peak_mib": round(_number(folder / "memory.max_usage_in_bytes") / _MIB),
                "anonymous_mib": round(_words(folder / "memory.stat").get("total_rss", 0) / _MIB),
                "limit_hits": _number(folder / "memory.failcnt"),
                "killed": killed,
            }
        events = _words(folder / "memory.events")
        return {
            "kind": self.kind,
            "peak_mib": round(_number(folder / "memory.peak") / _MIB),
            "anonymous_mib": round(_words(folder / "memory.stat").get("anon", 0) / _MIB),
            "limit_hits": events.get("max", 0),
            "killed": events.get("oom_kill", 0),
        }

    def anonymous_bytes(self) -> int:
        """What the processes hold now, without files."""
        if self._folder is None:
            return 0
        words = _words(self._folder / "memory.stat")
        return words.get("total_rss", words.get("anon", 0)) + words.get("total_shmem", words.get("shmem", 0))

    def pids(self) -> set[int]:
        """Who is inside."""
        if self._folder is None:
            return set()
        return {int(line) for line in (self._folder / "cgroup.procs").read_text("ascii").split()}

    def close(self) -> None:
        """Take it away; what is inside has ended."""
        for _ in range(50):
            if self._folder is None:
                return
            try:
                self._folder.rmdir()
                return
            except OSError:  # the kernel has not buried the last process yet
                time.sleep(0.1)


def _number(file: Path) -> int:
    try:
        return int(file.read_text("ascii"))
    except (OSError, ValueError):
        return 0


def _words(file: Path) -> dict[str, int]:
    try:
        lines = file.read_text("ascii").splitlines()
    except OSError:
        return {}
    pairs = (line.split() for line in lines)
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}
