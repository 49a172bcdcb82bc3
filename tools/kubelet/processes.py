"""Processes that end with the script, their logs, and waiting for what they do."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

SECONDS = float(os.environ.get("OPENRKNN_KUBELET_SECONDS", "300"))
"""How long to wait for anything: a small machine that does other things too is slow."""


class CheckError(Exception):
    """Something did not happen, or not as it should."""


class Processes:
    """All that run, each with a log in the work folder."""

    def __init__(self, work: Path, stack: contextlib.ExitStack, path: str) -> None:
        self.work, self.path, self._stack = work, path, stack
        (work / "logs").mkdir()

    def start(self, name: str, *command: str, **variables: str) -> subprocess.Popen[bytes]:
        """A process that ends with this script."""
        log = (self.work / "logs" / name).open("ab")
        environment = {**os.environ, "PATH": self.path, **variables}
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        self._stack.callback(log.close)
        self._stack.callback(end, process)
        return process

    def log(self, name: str) -> str:
        """What a process has said."""
        path = self.work / "logs" / name
        return path.read_text(errors="replace") if path.exists() else ""

    def logs(self) -> list[str]:
        """Of which processes there are logs."""
        return sorted(path.name for path in (self.work / "logs").iterdir())


def wait(condition: Callable[[], object], what: str, seconds: float = SECONDS, pause: float = 0.2) -> float:
    """Until it is so; how long it took."""
    started = time.monotonic()
    problem: Exception | None = None
    while True:
        try:
            if condition():
                return time.monotonic() - started
        except (OSError, subprocess.CalledProcessError, KeyError, IndexError) as error:
            problem = error
        if time.monotonic() - started > seconds:
            raise CheckError(f"{what} did not happen in {seconds:.0f} s" + (f" ({problem})" if problem else ""))
        time.sleep(pause)


def end(process: subprocess.Popen[bytes]) -> None:
    """And wait until it is gone."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def kill(process: subprocess.Popen[bytes]) -> None:
    """Without a warning."""
    process.kill()
    process.wait()


def resident(process: subprocess.Popen[bytes], field: str = "VmRSS") -> float:
    """MiB; `VmHWM` for the most there ever was."""
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    raise CheckError(f"the process {process.pid} has no {field}")


def expect(condition: object, text: str) -> None:
    """An assertion that no option of Python switches off."""
    if not condition:
        raise CheckError(text)


def say(text: str) -> None:
    """A line for whoever watches."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
