"""Sessions that wait or break when a test wants it."""

from __future__ import annotations

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


def until(check: Callable[[], bool]) -> None:
    """Wait until something is so."""
    for _ in range(int(PATIENCE / 0.005)):
        if check():
            return
        time.sleep(0.005)
    raise AssertionError("it did not happen")
