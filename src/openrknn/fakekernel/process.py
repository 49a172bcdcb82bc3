"""Runs a program to its end: signals go through to it, and its exit code comes back."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from openrknn.fakekernel.launch import Command

__all__ = ["run_process", "signals_for_child"]

_PASSED_ON = frozenset({
    signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM,
})  # fmt: skip
_WAITED_FOR = _PASSED_ON | {signal.SIGCHLD}
_RESET = (signal.SIGPIPE, signal.SIGXFSZ)
"""Python ignores them; programs do not expect that."""
_FROM_KERNEL = 0x80
"""SI_KERNEL: the terminal sent it, to the whole group, so the program has it already."""


@contextmanager
def signals_for_child() -> Iterator[None]:
    """Hold signals back from now on. Enter it before threads are started: they inherit it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED_FOR)
    try:
        yield
    finally:
        while signal.sigtimedwait(_WAITED_FOR, 0) is not None:
            pass  # they were for the program, and it is gone
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def run_process(command: Command) -> int:
    """Start it and wait (inside `signals_for_child`): its exit code, or 128 plus the signal that ended it."""
    process = os.posix_spawn(
        command.path, command.arguments, command.environment, setsigmask=(), setsigdef=_RESET
    )
    while True:
        received = signal.sigwaitinfo(_WAITED_FOR)
        if received.si_signo == signal.SIGCHLD:
            done, status = os.waitpid(process, os.WNOHANG)
            if done:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code
        elif received.si_code != _FROM_KERNEL:
            os.kill(process, received.si_signo)
