"""Models that cameras share: loaded once, replaced without stopping anybody, started again when their process dies."""

from __future__ import annotations

import logging
import os
import queue
import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from openrknn.closing import Closing
from openrknn.container.load import load
from openrknn.errors import RknnError
from openrknn.runtime.session import Session
from openrknn.serve.plane.host import Host, InProcessHost
from openrknn.serve.plane.instance import Context
from openrknn.serve.settings import IN_PROCESS, Limits
from openrknn.serve.stamps import stamp_of
from openrknn.serve.worker.host import WorkerHost, reference
from openrknn.vision.heads import Array
from openrknn.vision.pictures import Pixels
from openrknn.vision.pipeline import Pipeline
from openrknn.vision.result import Result
from openrknn.watch.errors import WatchError
from openrknn.watch.settings import ModelSettings

__all__ = ["SharedModel", "open_host"]

_LOG = logging.getLogger(__name__)
OpenHost = Callable[[ModelSettings], Host]


def open_host(device: str, workers: str) -> OpenHost:
    """How models are loaded: in processes of their own, or here."""
    limits = Limits()

    def opened(settings: ModelSettings) -> Host:
        if workers == IN_PROCESS:
            return InProcessHost(settings.path, device=device, cores=settings.cores, warm_up=True)
        return WorkerHost(
            settings.name, settings.path, device=device, cores=settings.cores, warm_up=True,
            memory_bytes=limits.total_bytes, load_seconds=limits.load_seconds, run_seconds=limits.run_seconds,
            open_session=reference(Session),
        )  # fmt: skip

    return opened


class _Loaded:
    """One version of a model: its contexts, and the pipeline around them."""

    def __init__(self, settings: ModelSettings, open_host: OpenHost) -> None:
        self.stamp = stamp_of(settings.path)
        self.host = open_host(settings)
        self._idle: queue.SimpleQueue[Context | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._uses, self._is_retired = 0, False
        try:
            first, self.device = self.host.open_context()
            has_npu = not self.device.startswith("software")
            most = self.host.card.cores if has_npu else min(self.host.card.cores, os.cpu_count() or 1)
            self.instances = settings.instances or max(most // settings.cores, 1)
            self._idle.put(first)
            for _ in range(self.instances - 1):
                self._idle.put(self.host.open_context()[0])
            self.pipeline = Pipeline(
                load(settings.path), family=settings.family, labels=settings.labels, threshold=settings.threshold,
                overlap=settings.overlap, pool=self,
            )  # fmt: skip
        except BaseException:
            self._close()
            raise

    def run(self, inputs: object, **options: Any) -> dict[str, Array]:
        """As `SessionPool.run`. A context that fails is replaced before the next run."""
        assert isinstance(inputs, Mapping)
        context = self._idle.get()
        try:
            if context is None or not context.is_alive:
                if context is not None:
                    context.close()
                    context = None
                context = self.host.open_context()[0]
            outputs = context.run(inputs, layout=dict.fromkeys(inputs, options["layout"]), outputs=options["outputs"])
            return {name: np.array(values) for name, values in outputs.items()}  # the context lends them
        except RknnError:
            if context is not None:
                context.close()
                context = None
            raise
        finally:
            self._idle.put(context)

    def __enter__(self) -> _Loaded:
        with self._lock:
            self._uses += 1
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._uses -= 1
            is_last = self._is_retired and not self._uses
        if is_last:
            self._close()

    def retire(self) -> None:
        """Closed when it has no users."""
        with self._lock:
            self._is_retired = True
            is_last = not self._uses
        if is_last:
            self._close()

    def _close(self) -> None:
        while not self._idle.empty():
            context = self._idle.get()
            if context is not None:
                context.close()
        self.host.close()


class SharedModel(Closing):
    """A model by name; `run` always uses the newest version."""

    def __init__(self, settings: ModelSettings, open_host: OpenHost) -> None:
        self.settings, self._open = settings, open_host
        self.reloads = self.failures = self._old_restarts = 0
        self.problem = ""
        self._lock = threading.Lock()
        self._reloading = threading.Lock()
        self._refused: object = None
        """The file that could not be loaded: it is not tried again until it changes."""
        try:
            self._loaded = _Loaded(settings, open_host)
        except (RknnError, OSError, ValueError) as error:
            raise WatchError(f"model {settings.name}: {settings.path}: {error}") from error
        self._check(self._loaded)

    def _check(self, loaded: _Loaded) -> None:
        pipeline = loaded.pipeline
        if pipeline.family.task not in ("detect", "segment", "pose"):
            what = f"it is for {pipeline.family.task} ({pipeline.family.about}) and finds no objects"
            raise WatchError(f"model {self.settings.name}: {self.settings.path}: {what}; cameras need a detector")
        unknown = [name for name in self.settings.classes if pipeline.labels is None or name not in pipeline.labels]
        if unknown:
            raise WatchError(
                f"model {self.settings.name}: it has no class {unknown[0]!r}; there are "
                f"{', '.join((pipeline.labels or ())[:100]) or 'no names: give labels'}"
            )

    # -- running ---------------------------------------------------------------------------------------------------

    def run(self, pixels: Pixels) -> Result:
        """What is in an image."""
        with self._lock:
            loaded = self._loaded.__enter__()
        try:
            result = loaded.pipeline(pixels)
        except RknnError as error:
            self.failures += 1
            if not self.problem:
                _LOG.warning("model-failed: %s: %s", self.settings.name, error)
            self.problem = str(error)
            raise
        finally:
            loaded.__exit__()
        self.problem = ""
        return result

    @property
    def labels(self) -> tuple[str, ...] | None:
        """Names of the classes."""
        return self._loaded.pipeline.labels

    @property
    def instances(self) -> int:
        """Runs at the same time."""
        return self._loaded.instances

    @property
    def npu_cores(self) -> int:
        """Of the chip that it is for; without an NPU, processors of this machine where there are fewer."""
        cores = self._loaded.host.card.cores
        return min(cores, os.cpu_count() or 1) if self.device.startswith("software") else cores

    @property
    def device(self) -> str:
        """Where it runs."""
        return self._loaded.device

    @property
    def about(self) -> str:
        """What it is, in words."""
        return self._loaded.pipeline.family.about

    @property
    def restarts(self) -> int:
        """Processes that ended and were replaced."""
        return self._old_restarts + self._loaded.host.restarts

    def pids(self) -> tuple[int, ...]:
        """Its processes."""
        return tuple(self._loaded.host.pids())

    # -- replacing -------------------------------------------------------------------------------------------------

    def refresh(self) -> bool:
        """Load the file again where it has changed; whether there is a new version."""
        stamp = stamp_of(self.settings.path)
        if stamp is None or stamp in (self._loaded.stamp, self._refused):
            return False
        return self.reload()

    def reload(self) -> bool:
        """Load the file again; cameras go on with the old version until the new one is ready, or where it is not."""
        with self._reloading:
            stamp = stamp_of(self.settings.path)
            try:
                fresh = _Loaded(self.settings, self._open)
                try:
                    self._check(fresh)
                except BaseException:
                    fresh.retire()
                    raise
            except (RknnError, OSError, ValueError) as error:
                self._refused = stamp
                _LOG.error("model-kept: %s: the new file cannot be used, the old model stays: %s",
                           self.settings.name, error)  # fmt: skip
                return False
            with self._lock:
                old, self._loaded = self._loaded, fresh
                self._old_restarts += old.host.restarts
            self.reloads += 1
            self._refused = None
            old.retire()
            _LOG.info("model %s was replaced", self.settings.name)
            return True

    def close(self) -> None:
        """End its process."""
        self._loaded.retire()
