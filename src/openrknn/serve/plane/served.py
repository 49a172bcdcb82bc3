"""`Served`: one version of a model, ready to answer."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

from openrknn.runtime.session import Session
from openrknn.serve.errors import ConflictError, NotReadyError
from openrknn.serve.plane.config import ModelConfig, read_labels
from openrknn.serve.plane.contexts import OpenSession
from openrknn.serve.plane.host import Host, InProcessHost
from openrknn.serve.plane.index import FoundModel
from openrknn.serve.plane.instance import Context, Instance
from openrknn.serve.plane.job import Job
from openrknn.serve.plane.queue import JobQueue
from openrknn.serve.plane.signature import Signature
from openrknn.serve.plane.stats import Stats
from openrknn.serve.settings import IN_PROCESS, Settings
from openrknn.serve.worker import arena
from openrknn.serve.worker.host import WorkerHost, reference

__all__ = ["OpenSession", "Served"]

_LOG = logging.getLogger(__name__)
_CLOSE_SECONDS = 60.0


class Served:
    """A model with its queue and its contexts."""

    def __init__(
        self, found: FoundModel, version: int, settings: Settings, *, open_session: OpenSession = Session
    ) -> None:
        started = time.perf_counter()
        self.name, self.version = found.name, str(version)
        self.config = found.config
        self.labels = read_labels(found.labels) if found.labels else None
        self.stats = Stats()
        self.queue = JobQueue(self.config.queue_size or settings.queue_size, self.name)
        self.device_name = ""
        self.instances: list[Instance] = []
        self.host = self._host(found.versions[version], settings, open_session)
        self.card = self.host.card
        self.signature = self.card.signature
        try:
            check_declared(self.config, self.signature)
        except BaseException:
            self.host.close()
            raise
        delay = self.config.batch_delay_ms
        self.batch_delay_seconds = settings.batch_delay_seconds if delay is None else delay / 1000
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

    def _host(self, path: Path, settings: Settings, open_session: OpenSession) -> Host:
        cores = self.config.cores or settings.cores
        if settings.workers == IN_PROCESS or not arena.is_available():
            return InProcessHost(
                path, device=settings.device, cores=cores, warm_up=settings.warm_up,
                open_session=open_session, describe=settings.describe,
            )  # fmt: skip
        return WorkerHost(
            f"{self.name}/{self.version}",
            path,
            device=settings.device,
            cores=cores,
            warm_up=settings.warm_up,
            memory_bytes=settings.limits.total_bytes,
            load_seconds=settings.limits.load_seconds,
            run_seconds=settings.limits.run_seconds,
            open_session=reference(open_session),
            describe=reference(settings.describe) if settings.describe is not None else None,
            lost=self.queue.poke,
        )

    def _add_instance(self) -> None:
        instance = Instance(
            f"{self.name}/{self.version}#{len(self.instances)}",
            self._open_context,
            self.queue,
            self.stats,
            batch=self.signature.batch,
            batch_delay_seconds=self.batch_delay_seconds,
            is_dynamic=self.signature.is_dynamic,
            changed=self._instance_changed,
        )
        self.instances.append(instance)

    def _usual_instances(self) -> int:
        """One per core keeps an NPU busy; the software NPU has the cores of this machine."""
        cores = self.card.cores
        return min(cores, os.cpu_count() or 1) if self.device_name.startswith("software") else cores

    def _open_context(self) -> Context:
        context, self.device_name = self.host.open_context()
        return context

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
        self.host.close()


def check_declared(config: ModelConfig, signature: Signature) -> None:
    """Refuse a model that is not what a client's configuration says."""
    batch = signature.batch if signature.batch > 1 else 0
    if config.most_batch > max(batch, 1):
        raise ConflictError(f"the configuration has max_batch_size {config.most_batch}, and the model {batch}")
    for declared, ports in ((config.inputs, signature.inputs), (config.outputs, signature.outputs)):
        there = {port.name: (f"TYPE_{port.datatype}", port.shape[1 if batch else 0 :]) for port in ports}
        for name, kind, dims in declared:
            if there.get(name) != (kind, dims):
                raise ConflictError(
                    f"the configuration has {name[:80]!r} {kind[:40]}{list(dims)}, and the model has "
                    + ", ".join(f"{known!r} {has[0]}{list(has[1])}" for known, has in there.items())
                )
