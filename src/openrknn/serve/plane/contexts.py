"""`Contexts`: the sessions of one model, in the process that runs it."""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import Callable
from pathlib import Path

from openrknn.container.load import load
from openrknn.container.model import Model
from openrknn.errors import RknnError
from openrknn.runtime.session import Session
from openrknn.serve.plane.card import Card

__all__ = ["Contexts", "OpenSession"]

OpenSession = Callable[..., Session]
"""`Session`, or something that behaves like it."""


class Contexts:
    """A model and the sessions that share its weights. Its file is read once: replacing it on disk changes nothing."""

    def __init__(
        self,
        path: Path,
        *,
        device: str = "auto",
        cores: int | None = None,
        warm_up: bool = True,
        open_session: OpenSession = Session,
    ) -> None:
        # From memory: a mapped file that somebody truncates would end the process.
        self.model: Model = dataclasses.replace(load(path.read_bytes()), path=os.fspath(path))
        self.card = Card.of(self.model)
        self._device, self._cores, self._warm_up = device, cores, warm_up
        self._open_session = open_session
        self._sessions: list[Session] = []
        self._lock = threading.Lock()

    def open(self) -> Session:
        """A session that has proved itself with one run; its weights are shared with one that is open."""
        with self._lock:
            session = self._open_with_shared_weights()
            try:
                if self._warm_up:
                    session.run(self.card.signature.zeros())
            except BaseException:
                session.close()
                raise
            self._sessions.append(session)
            return session

    def _open_with_shared_weights(self) -> Session:
        for other in list(self._sessions):
            try:
                return self._open_session(self.model, cores=self._cores, share_weights_with=other)
            except RknnError:  # that one is closed or broken
                self._sessions.remove(other)
        return self._open_session(self.model, device=self._device, cores=self._cores)
