"""How a board ends before its program does: signals, and the end of QEMU's process."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["end_process", "ended_by_signals"]

_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
_SECONDS = 5.0


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end this process as Ctrl-C does: QEMU is ended first, and no folder is left."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ours = [number for number in _SIGNALS if signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, _leave)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def _leave(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def end_process(process: subprocess.Popen[bytes]) -> None:
    """Ask first: QEMU gives the terminal back as it found it."""
    process.terminate()
    try:
        process.wait(_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
