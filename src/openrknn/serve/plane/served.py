"""`Served`: one version of a model, ready to answer."""

from __future__ import annotations

import dataclasses
import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

from openrknn.container.load import load
from openrknn.container.model import Model
from openrknn.errors import RknnError
from openrknn.runtime.session import Session
from openrknn.serve.errors import NotReadyError
from openrknn.serve.plane.config import read_labels
from openrknn.serve.plane.index import FoundModel
from openrknn.serve.plane.instance import Context, Instance
from openrknn.serve.plane.job import Job
from openrknn.serve.plane.queue import JobQueue
from openrknn.serve.plane.signature import Signature
from openrknn.serve.plane.stats import Stats
from openrknn.serve.settings import Settings

__all__ = ["OpenSession", "Served"]

_LOG = logging.getLogger(__name__)
_CLOSE_SECONDS = 60.0

OpenSession = Callable[..., Session]
"""`Session`, or something that behaves like it."""


class Served:
    """A model with its queue and its contexts. Its file is read once: replacing it on the disk changes nothing here."""

    def __init__(
        self, found: FoundModel, version: int, settings: Settings, *, open_session: OpenSession = Session
    ) -> None:
        self.name, self.version = found.name, str(version)
        self.config = found.config
        path = found.versions[version]
        started = time.perf_counter()
        self.model: Model = _read(path)
        self.labels = read_labels(found.labels) if found.labels else None
        self.signature = Signature(self.model)
        self.stats = Stats()
        self.queue = JobQueue(self.config.queue_size or settings.queue_size, self.name)
        self._device, self._warm_up = settings.device, settings.warm_up
        self._cores = self.config.cores or settings.cores
        self._open_session = open_session
        self._sessions: list[Session] = []
        self._lock = threading.Lock()
        self.device_name = ""
        self.instances: list[Instance] = []
        delay = self.config.batch_delay_ms
        self._delay = settings.batch_delay_seconds if delay is None else delay / 1000
        try:
            self._add_instance()
            count = self.config.instances or settings.instances or self._usual_instances()
            while len(self.instances) < count:
                self._add_instance()
        except BaseException:
            self.close()
            raise
        for instance in self.instances:
            instance.start()
        self.load_seconds = time.perf_counter() - started

    def _add_instance(self) -> None:
        instance = Instance(
            f"{self.name}/{self.version}#{len(self.instances)}",
            self._open_context,
            self.queue,
            self.stats,
            batch=self.signature.batch,
            batch_delay_seconds=self._delay,
            is_dynamic=self.signature.is_dynamic,
            changed=self._instance_changed,
        )
        self.instances.append(instance)

    def _usual_instances(self) -> int:
        """One per core keeps an NPU busy; the software NPU has the cores of this machine."""
        cores = self.model.chip.cores
        return min(cores, os.cpu_count() or 1) if self.device_name.startswith("software") else cores

    def _open_context(self) -> Context:
        """A session that has proved itself; the weights are shared with one that lives."""
        with self._lock:
            session = self._open_with_shared_weights()
            try:
                if self._warm_up:
                    session.run(self.signature.zeros())
            except BaseException:
                session.close()
                raise
            self.device_name = session.device.name
            self._sessions.append(session)
            return cast(Context, session)

    def _open_with_shared_weights(self) -> Session:
        for other in list(self._sessions):
            try:
                return self._open_session(self.model, cores=self._cores, share_weights_with=other)
            except RknnError:  # that one is closed or broken
                self._sessions.remove(other)
        return self._open_session(self.model, device=self._device, cores=self._cores)

    # -- requests ------------------------------------------------------------------------------------------------

    def submit(self, job: Job) -> None:
        """Put a job into the queue, or refuse it."""
        self.queue.put(job, retry_seconds=max(0.05, self.wait_seconds()))

    def wait_seconds(self) -> float:
        """About how long a new job would wait."""
        return len(self.queue) * self.stats.mean_npu_seconds() / max(len(self.instances), 1)

    @property
    def problem(self) -> str:
        """Why it cannot answer; empty: it can."""
        problems = [instance.problem for instance in self.instances]
        return problems[0] if problems and all(problems) else ""

    def _instance_changed(self) -> None:
        problem = self.problem
        if problem:
            _LOG.error("model %s version %s is not ready: %s", self.name, self.version, problem)
            self.queue.refuse(NotReadyError(f"model {self.name!r} is not ready: {problem}"))
        else:
            self.queue.refuse(None)

    def busy(self) -> list[float]:
        """Busy seconds of each context."""
        return [instance.busy() for instance in self.instances]

    def close(self) -> None:
        """Answer what waits, then give everything back."""
        self.queue.close()
        for instance in reversed(self.instances):
            instance.close(_CLOSE_SECONDS)


def _read(path: Path) -> Model:
    """From memory: a mapped file that somebody truncates would kill the whole server."""
    return dataclasses.replace(load(path.read_bytes()), path=os.fspath(path))
