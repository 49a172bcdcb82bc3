"""Sessions that wait or break when a test wants it."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from openrknn.errors import DeviceError
from openrknn.runtime.session import Session
from tests.serve.asking import PATIENCE

POISON = 77
"""A picture whose first pixel has this value breaks its context."""


class Workshop:
    """Opens sessions: `Server(settings, open_session=workshop.open)`."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.running = 0
        self.opened = 0
        self.refuse_to_open = False
        self._lock = threading.Lock()

    def open(self, model: Any, *arguments: Any, **options: Any) -> Session:
        if self.refuse_to_open:
            raise DeviceError("the device is gone", call="open")
        self.opened += 1
        session = Session(model, *arguments, **options)
        really: Callable[..., Any] = session.run

        def run(inputs: Any, **more: Any) -> Any:
            first = next(iter(inputs.values()))
            if int(np.ravel(first)[0]) == POISON:
                raise RuntimeError("the context broke")
            with self._lock:
                self.running += 1
            try:
                assert self.gate.wait(PATIENCE)
                return really(inputs, **more)
            finally:
                with self._lock:
                    self.running -= 1

        session.run = run  # type: ignore[method-assign, assignment]
        return session


CRASH, HANG, HUNGRY, TALK = 78, 79, 80, 81
"""The same for a session in a worker: end it by SIGSEGV, never answer, take a gibibyte, print and abort."""


def open_fragile(model: Any, *arguments: Any, **options: Any) -> Session:
    """Opens sessions that a picture can break in several ways; a worker finds it by its name."""
    session = Session(model, *arguments, **options)
    really: Callable[..., Any] = session.run

    def run(inputs: Any, **more: Any) -> Any:
        first = int(np.ravel(next(iter(inputs.values())))[0])
        if first == POISON:
            raise RuntimeError("the context broke")
        if first == CRASH:
            ctypes.string_at(0)
        if first == HANG:
            threading.Event().wait()
        if first == HUNGRY:
            np.ones(1 << 30, np.uint8)
        if first == TALK:
            os.write(2, b"free(): invalid pointer\n")
            os.abort()
        return really(inputs, **more)

    session.run = run  # type: ignore[method-assign, assignment]
    return session


def open_that_crashes(model: Any, *arguments: Any, **options: Any) -> Session:
    """A model whose very opening ends its process."""
    ctypes.string_at(0)
    raise AssertionError


def until(check: Callable[[], bool]) -> None:
    """Wait until something is so."""
    for _ in range(int(PATIENCE / 0.005)):
        if check():
            return
        time.sleep(0.005)
    raise AssertionError("it did not happen")
