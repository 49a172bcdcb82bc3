"""`Plane`: what both protocols ask."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from openrknn.runtime.session import Session
from openrknn.serve.client_secrets import ClientSecrets
from openrknn.serve.errors import DeadlineError, ForbiddenError, NotReadyError, ServeError
from openrknn.serve.llm.language import OpenLanguage
from openrknn.serve.llm.languages import Languages, open_language
from openrknn.serve.logsettings import LogSettings
from openrknn.serve.plane.budget import Budget
from openrknn.serve.plane.classes import Labelled, top_classes
from openrknn.serve.plane.clients import Rates
from openrknn.serve.plane.job import Answer, Job, OutputKind, Stages
from openrknn.serve.plane.pacer import Pacer
from openrknn.serve.plane.repository import Repository
from openrknn.serve.plane.served import OpenSession, Served
from openrknn.serve.plane.throttled_pool import ThrottledPool
from openrknn.serve.settings import Settings
from openrknn.serve.shared.regions import Part, Regions
from openrknn.serve.shared.tensor import Output, Tensor, Written
from openrknn.serve.timeouts import timeout
from openrknn.serve.tokens import Tokens
from openrknn.serve.traces import Traces
from openrknn.serve.voice.channel_handler import OpenVoice, open_voice
from openrknn.serve.voice.voices import Voices

__all__ = ["Plane", "Request"]

_RESERVE = 8
"""A part of the budget that only small requests can take."""
_LEAST_TOTAL = 16 << 20
_BESIDE_BYTES, _NUMBER_BYTES = 8 << 20, 16
"""Of a message: names and parameters, and the longest way to write a number."""
_MOST_THROTTLED = 256
_LIGHT_SECONDS = 0.05

_NO_SHARED_MEMORY = "this server can be reached from other machines; --shared-memory on allows it all the same"
_SLOW_ELEMENTS = 65536
"""From here on sorting would hold other requests up; it goes into a thread."""


@dataclass(frozen=True, slots=True)
class Request:
    """A parsed request."""

    inputs: Mapping[str, Tensor]
    layouts: Mapping[str, str] = field(default_factory=dict)
    outputs: Sequence[str] | None = None
    """None: all."""
    kind: OutputKind = "float"
    timeout_seconds: float | None = None
    pre_seconds: float = 0.0
    """What parsing took."""
    places: Mapping[str, Part] = field(default_factory=dict)
    """Output -> where in shared memory it shall be."""
    classes: Mapping[str, int] = field(default_factory=dict)
    """Output -> how many of its highest values, as texts."""
    priority: int = 0
    """1: before all others; 0: as the model says."""


class Plane:
    """Models and the way to them."""

    def __init__(
        self,
        settings: Settings,
        *,
        open_session: OpenSession = Session,
        open_voice: OpenVoice = open_voice,
        open_language: OpenLanguage = open_language,
    ) -> None:
        self.settings = settings
        self.repository = Repository(settings, open_session=open_session)
        self.voices = Voices(settings, open_voice)
        self.languages = Languages(settings, open_language)
        total = settings.limits.total_bytes
        self.budget = Budget(total, total // _RESERVE if total >= _LEAST_TOTAL else 0)
        self.tokens = Tokens(settings.token, settings.token_file, grace_seconds=settings.token_grace_seconds)
        self.client_secrets = ClientSecrets()
        self.pacer = Pacer(self.is_busy)
        self.rates = Rates(settings.limits.client_rate)
        self.throttled = ThrottledPool("throttled", threads=1, most_waiting=_MOST_THROTTLED, is_busy=self.is_busy)
        """Long texts and what is compressed."""
        refusal = "" if settings.has_shared_memory else _NO_SHARED_MEMORY
        self.regions = Regions(refusal=refusal, most_bytes=settings.limits.total_bytes)
        self.traces = Traces(Path(settings.trace_file) if settings.trace_file else None)
        self.logs = LogSettings()
        self.closers: list[Callable[[], None]] = []
        """What else has to end with it."""
        self.closers.append(self.throttled.close)
        self.is_draining = False
        self.started = time.time()
        self.under_way = 0
        """Requests that were accepted and are not answered yet."""
        self.light = 0
        """Those of them that take no time beside the model's."""
        self._last_light = 0.0

    # -- state ---------------------------------------------------------------------------------------------------

    def ready_problem(self) -> str:
        """Why this server should get no requests; empty: it should."""
        if self.is_draining:
            return "the server is shutting down"
        settings = self.settings
        # A server of voices needs no models; one of several kinds is ready while all of them are.
        has_others = settings.voices or settings.llms
        problem = self.repository.ready_problem() if settings.sources or not has_others else ""
        problem = problem or (self.voices.problem() if settings.voices else "")
        return problem or (self.languages.problem() if settings.llms else "")

    def model_problem(self, name: str, version: str = "") -> str:
        """Why a model should get no requests; unknown ones raise NotFoundError."""
        try:
            problem = self.repository.find(name, version).problem
        except NotReadyError as error:
            return str(error)
        return "the server is shutting down" if self.is_draining and not problem else problem

    def check_may_change(self) -> None:
        """Refuse a client that wants other models or other settings than the server was started with."""
        if not self.settings.allow_repository:
            raise ForbiddenError("this server was started with --fixed: clients cannot change its models and settings")

    def is_busy(self) -> bool:
        """Whether requests are in flight, or were recently, that throttled work should make room for."""
        return self.light > 0 or time.monotonic() - self._last_light < _LIGHT_SECONDS

    @contextmanager
    def light_work(self) -> Iterator[None]:
        """A request that throttled ones make room for."""
        self.light += 1
        try:
            yield
        finally:
            self.light -= 1
            self._last_light = time.monotonic()

    def largest_message(self) -> int:
        """More bytes than a request to any model that is loaded can need."""
        most = max((one.signature.largest_bytes() for one in self.repository.served()), default=0)
        return _BESIDE_BYTES + most // 8 * _NUMBER_BYTES

    def worker_pids(self) -> list[int]:
        """The processes that models run in."""
        return [*(pid for one in self.repository.served() for pid in one.host.pids()), *self.voices.pids(),
                *self.languages.pids()]

    # -- requests ------------------------------------------------------------------------------------------------

    def job(self, served: Served, request: Request) -> Job:
        """Check a request against its model."""
        items = served.signature.check_inputs(request.inputs)
        served.signature.check_outputs(request.outputs or ())
        usual = served.config.timeout_ms
        asked = request.timeout_seconds or (usual / 1000 if usual else None)
        longest = self.settings.limits.request_seconds
        seconds = longest if asked is None else min(longest, asked)
        return Job(
            request.inputs, request.layouts, request.kind, items, deadline=time.monotonic() + seconds,
            outputs=request.outputs, places=request.places, level=served.config.level(request.priority),
        )  # fmt: skip

    async def infer(self, served: Served, request: Request) -> Answer:
        """Run a request and wait for it. Cancelling the caller takes it out of the queue.

        The caller calls `done` when the answer is bytes.
        """
        started = time.monotonic()
        self.under_way += 1
        try:
            job = self.job(served, request)
            with self.light_work():
                served.submit(job)
                outputs, stages = await self._wait(job)
        except ServeError as error:
            served.stats.failed(error.code, time.monotonic() - started)
            raise
        except asyncio.CancelledError:
            served.stats.failed("CANCELLED", time.monotonic() - started)
            raise
        finally:
            self.under_way -= 1
        stages.pre += request.pre_seconds
        chosen: dict[str, Output | Labelled] = {name: outputs[name] for name in request.outputs or outputs}
        for name, count in request.classes.items():
            chosen[name] = await self._top(served, name, outputs[name], count)
        return Answer(chosen, stages, served.name, served.version, job.items, job.arrived)

    @staticmethod
    async def _top(served: Served, name: str, output: Output, count: int) -> Labelled:
        assert not isinstance(output, Written)  # refused when the request was read
        work = partial(top_classes, output, count, served.labels, batch=served.signature.batch, name=name)
        return await asyncio.to_thread(work) if output.size > _SLOW_ELEMENTS else work()

    @staticmethod
    async def _wait(job: Job) -> tuple[dict[str, Output], Stages]:
        waiting = asyncio.wrap_future(job.future)
        assert job.deadline is not None
        try:
            async with timeout(max(0.0, job.deadline - time.monotonic())):
                return await waiting
        except TimeoutError:
            raise DeadlineError("the request was not done in time") from None

    @staticmethod
    def done(served: Served, answer: Answer, post_seconds: float) -> None:
        """The answer is bytes now: count it."""
        answer.stages.post += post_seconds
        served.stats.succeeded(answer.stages, answer.items)

    def close(self) -> None:
        """Unload everything."""
        self.repository.close()
        self.voices.close()
        self.languages.close()
        for close in self.closers:
            close()
        self.traces.close()
        self.logs.close()
