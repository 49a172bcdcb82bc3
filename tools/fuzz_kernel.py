"""Hostile programs at the emulated kernel, beside one that works.

    python -m tools.fuzz_kernel --messages 1000000

Several processes send ioctls with odd and with plausible values, random payloads, wrong descriptors and damaged
messages to a device of each driver, die in the middle of requests and begin again. Another process computes matrix
products all the while and checks each result. At the end nothing may be left: no file, buffer, descriptor or thread,
and every error that is not an answer to a program is a fault of ours. The exit status is 1 if anything went wrong.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import logging
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from openrknn.fakekernel.device import Device
from openrknn.fakekernel.log import LOG

__all__ = ["BOARDS", "Report", "attack"]

ROOT = Path(__file__).resolve().parents[1]
BOARDS = {"rknpu": ("rk3588", "rknpu"), "rocket": ("rk3588", "rocket"), "misc": ("rv1106", "rknpu")}
_PATIENCE = 60.0


@dataclass
class Report:
    """What came of an attack."""

    board: str
    messages: int = 0
    refused: int = 0
    """Answers with an error; the rest were done."""
    hung_up: int = 0
    """Connections that the server or the client ended."""
    products: int = 0
    wrong_products: int = 0
    jobs: int = 0
    failed_jobs: int = 0
    engine_restarts: int = 0
    seconds: float = 0.0
    files_left: int = 0
    buffers_left: int = 0
    descriptors_left: int = 0
    threads_left: int = 0
    rss_before_kb: int = 0
    rss_after_kb: int = 0
    engine_rss_kb: int = 0
    faults: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    """Clients that ended with an error of their own."""

    @property
    def is_clean(self) -> bool:
        left = self.files_left + self.buffers_left + self.descriptors_left + self.threads_left
        return not (left or self.faults or self.failures or self.wrong_products) and self.products > 0


class _Faults(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []
        self.crashes = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.crashes += "crashed" in record.getMessage()
        if record.levelno >= logging.ERROR:
            self.texts.append(logging.Formatter().format(record))


@contextmanager
def _listening() -> Iterator[_Faults]:
    handler, propagates = _Faults(), LOG.propagate
    LOG.addHandler(handler)
    LOG.propagate = False
    try:
        yield handler
    finally:
        LOG.removeHandler(handler)
        LOG.propagate = propagates


def attack(board: str, messages: int, clients: int, seed: int) -> Report:
    """Send so many messages from so many programs at once."""
    chip, driver = BOARDS[board]
    report = Report(board)
    with _listening() as faults, Device(chip, driver=driver, time_scale=1) as device:
        _good(device, board, 1)  # everything is loaded
        report.rss_before_kb, before = _rss(os.getpid()), _counts()
        started = time.monotonic()
        goods = _start("good", device, board, "0")
        share = -(-messages // clients)
        hostile = [_start("hostile", device, board, str(share), str(seed * 1000 + number)) for number in range(clients)]
        for process in hostile:
            _collect(report, process, process.communicate()[0])
        _collect(report, goods, goods.communicate("")[0])
        report.seconds = time.monotonic() - started
        _wait(lambda: device.status.files == 0 and device.status.buffers == 0)
        _wait(lambda: _counts() <= before)
        status, after = device.status, _counts()
        report.files_left, report.buffers_left = status.files, status.buffers
        left = (max(now - then, 0) for now, then in zip(after, before, strict=True))
        report.threads_left, report.descriptors_left = left
        report.jobs, report.failed_jobs = status.totals.jobs, status.totals.failed
        report.rss_after_kb = _rss(os.getpid())
        report.engine_rss_kb = _rss(device.engine_process or os.getpid())
        report.engine_restarts = faults.crashes
        if _good(device, board, 1) != 0:
            report.failures += ("the device does not work any more",)
    report.faults = tuple(faults.texts)
    return report


def _command(role: str, device: Device, *words: str) -> list[str]:
    return [sys.executable, "-m", "tools.fuzz_kernel_clients", role, str(device.folder), *words]


def _start(role: str, device: Device, *words: str) -> subprocess.Popen[str]:
    """A program; it ends when its work is done, or its input if there is no end of work."""
    command = _command(role, device, *words)
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def _good(device: Device, board: str, count: int) -> int:
    process = _start("good", device, board, str(count))
    process.communicate("")
    return process.returncode


def _collect(report: Report, process: subprocess.Popen[str], text: str) -> None:
    if process.returncode != 0:
        report.failures += (f"a client ended with {process.returncode}",)
    for name, value in (json.loads(text) if text else {}).items():
        setattr(report, name, getattr(report, name) + value)


def _counts() -> tuple[int, int]:
    """Threads, and descriptors without the one that lists them."""
    return threading.active_count(), len(os.listdir("/proc/self/fd"))


def _rss(process: int) -> int:
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * resource.getpagesize() // 1024


def _wait(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + _PATIENCE
    while not is_so() and time.monotonic() < end:
        time.sleep(0.02)


def main() -> int:
    """One board after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=10_000, help="in all, shared by the boards")
    parser.add_argument("--clients", type=int, default=3, help="hostile programs at once")
    parser.add_argument("--boards", nargs="+", choices=sorted(BOARDS), default=sorted(BOARDS))
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    is_clean = True
    for board in arguments.boards:
        report = attack(board, arguments.messages // len(arguments.boards), arguments.clients, arguments.seed)
        print(json.dumps(dataclasses.asdict(report), indent=1), flush=True)
        is_clean &= report.is_clean
    return 0 if is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
