"""`Contexts`: the sessions of one model, in the process that runs it."""

from __future__ import annotations

import dataclasses
import logging
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from openrknn.container.bundle import Bundle, is_bundle, read_bundle
from openrknn.container.load import load
from openrknn.container.model import Model
from openrknn.errors import RknnError
from openrknn.runtime.session import Session
from openrknn.serve.datatypes import Array
from openrknn.serve.plane.model_info import ModelInfo

__all__ = ["Contexts", "OpenSession", "run_session"]

_LOG = logging.getLogger(__name__)

OpenSession = Callable[..., Session]
"""`Session`, or something that behaves like it."""


def run_session(session: Session, inputs: Mapping[str, Array], layout: Mapping[str, str], outputs: Any) -> Any:
    """`Session.run`; what ONNX Runtime says about the inputs of a CPU part is a `ValueError`, as ours is."""
    try:
        return session.run(inputs, layout=layout, outputs=outputs)
    except Exception as error:
        if not type(error).__module__.startswith("onnxruntime"):
            raise
        raise ValueError(f"a part on the CPU cannot run on these inputs: {str(error).splitlines()[0][:500]}") from None


def _read(path: Path) -> Model | Bundle:
    data = path.read_bytes()
    if is_bundle(data):
        return dataclasses.replace(read_bundle(data), path=os.fspath(path))
    return dataclasses.replace(load(data), path=os.fspath(path))


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
        self.model: Model | Bundle = _read(path)
        self.card = ModelInfo.of(self.model)
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
                    self._prove(session)
            except BaseException:
                session.close()
                raise
            self._sessions.append(session)
            return session

    def _prove(self, session: Session) -> None:
        """One run. Made-up numbers and sizes may be wrong for a model in parts with open ones: its users know them."""
        try:
            run_session(session, self.card.signature.zeros(), {}, "float")
        except ValueError as error:
            if not self.card.signature.is_parted:
                raise
            _LOG.warning("the warm-up of %s did not fit it: %s", getattr(self.model, "path", "the model"), error)

    def _open_with_shared_weights(self) -> Session:
        for other in list(self._sessions):
            try:
                return self._open_session(self.model, cores=self._cores, share_weights_with=other)
            except RknnError:  # that one is closed or broken
                self._sessions.remove(other)
        return self._open_session(self.model, device=self._device, cores=self._cores)
