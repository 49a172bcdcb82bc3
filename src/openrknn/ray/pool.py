"""Workers: one here (`Local`), or actors of Ray Data with an `npu` each (`Actors`)."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from openrknn.extras import missing
from openrknn.ray.errors import ClusterError
from openrknn.ray.items import Work
from openrknn.ray.ledger import Row
from openrknn.ray.work import Plan, Worker, make_worker

__all__ = ["RESOURCE", "Actors", "Local", "Pool"]

RESOURCE = "npu"
_RETRIES = 1
"""Times that Ray gives a part to another worker after one has died over it; then the job looks closer."""
_BLOCKS = 4096
_STARTS = 3


class Pool(Protocol):
    """Where parts are computed."""

    def run(self, works: Sequence[Work]) -> Iterator[tuple[int, list[Row]]]:
        """Number and rows of each part, in any order. Parts whose worker died may be missing."""


class Local:
    """One worker in this process."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._worker: Worker | None = None

    def run(self, works: Sequence[Work]) -> Iterator[tuple[int, list[Row]]]:
        """One after the other."""
        self._worker = self._worker or make_worker(self._plan)
        for work in works:
            yield work.part, self._worker(work)

    def close(self) -> None:
        """Give the worker back."""
        if self._worker is not None:
            self._worker.close()


class Actor:
    """What Ray makes one of for each worker, and calls for each part."""

    def __init__(self, plan: Any) -> None:
        import ray

        self._work = make_worker(ray.get(plan[0]))

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        work: Work = pickle.loads(row["work"])
        return {"part": work.part, "rows": json.dumps(self._work(work))}


class Actors:
    """An actor pool of Ray Data."""

    def __init__(self, plan: Plan, workers: int | None, npus: float) -> None:
        try:
            import ray
            import ray.data
        except ImportError as error:
            raise ClusterError(missing(error, "ray")) from None
        self._ray, self._npus = ray, npus
        if not ray.is_initialized():
            _started(ray, workers, npus)
        self.workers = workers or _offered(ray, npus)
        self._plan = ray.put(plan)

    def run(self, works: Sequence[Work]) -> Iterator[tuple[int, list[Row]]]:
        """In order of completion."""
        data = self._ray.data
        context = data.DataContext.get_current()
        old = context.max_errored_blocks, context.enable_progress_bars
        # A part that kills its workers is not the end of the others; the ledger knows which parts are missing.
        context.max_errored_blocks, context.enable_progress_bars = -1, False
        try:
            dataset = data.from_items(
                [{"work": pickle.dumps(work)} for work in works], override_num_blocks=min(len(works), _BLOCKS)
            ).map(
                Actor,
                fn_constructor_args=([self._plan],),
                compute=data.ActorPoolStrategy(size=min(self.workers, len(works))),
                num_cpus=0 if self._npus else 1,
                resources={RESOURCE: self._npus} if self._npus else None,
                max_restarts=-1,
                max_task_retries=_RETRIES,
            )
            for row in dataset.iter_rows():
                yield int(row["part"]), json.loads(row["rows"])
        except (self._ray.exceptions.RayError, data.exceptions.RayDataUserCodeException) as error:
            raise ClusterError(f"the workers cannot start or go on: {_cause(error)}") from error
        finally:
            context.max_errored_blocks, context.enable_progress_bars = old


def _cause(error: BaseException) -> str:
    """Ray tells a story with tracebacks in it; its last line says what it was."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:500] if lines else type(error).__name__


def _started(ray: Any, workers: int | None, npus: float) -> None:
    """Ray gives its own processes 30 seconds to come up; on a machine that is busy, that may take a second try."""
    for tries in range(_STARTS, 0, -1):
        try:
            _start(ray, workers, npus)
            return
        except Exception as error:  # Ray has no class of its own for this
            ray.shutdown()
            if tries == 1:
                raise ClusterError(f"Ray does not start: {_cause(error)}") from error


def _start(ray: Any, workers: int | None, npus: float) -> None:
    """Join the cluster that RAY_ADDRESS names, or begin one on this machine."""
    if os.environ.get("RAY_ADDRESS"):
        ray.init(log_to_driver=False)
        return
    count = workers or 1
    ray.init(
        num_cpus=max(count, os.cpu_count() or 1),
        resources={RESOURCE: max(1.0, count * npus)},
        include_dashboard=False,
        log_to_driver=False,
    )


def _offered(ray: Any, npus: float) -> int:
    resources = ray.cluster_resources()
    if npus and resources.get(RESOURCE, 0) < npus:
        raise ClusterError(
            "no node of the Ray cluster offers an NPU; start each board with"
            f" `ray start --resources '{{\"{RESOURCE}\": 3}}'`, or say npus=0 to work on processors"
        )
    return max(1, int(resources[RESOURCE] / npus) if npus else int(resources.get("CPU", 1)))
