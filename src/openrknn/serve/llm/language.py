"""`Language`: one language model that is served: its process, its line, and who may wait for it."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

from openrknn.errors import RknnError, UnsupportedError
from openrknn.llm.generation.model import LanguageModel
from openrknn.serve.errors import DeadlineError, FullError, ModelFailedError, NotReadyError, ServeError
from openrknn.serve.llm.handler import Handler, card_of
from openrknn.serve.llm.idle import Idle
from openrknn.serve.llm.line import Line
from openrknn.serve.llm.stats import LanguageStats
from openrknn.serve.llm.words import Row, read_row
from openrknn.serve.settings import IN_PROCESS, Settings
from openrknn.serve.timeouts import timeout
from openrknn.serve.worker.host import reference
from openrknn.serve.worker.message_socket import MessageSocket
from openrknn.serve.worker.process import WorkerDiedError, WorkerProcess
from openrknn.serve.worker.remote import words_of
from openrknn.serve.worker.supervisor import Supervisor

__all__ = ["Card", "FoundLanguage", "Language", "OpenLanguage"]

OpenLanguage = Callable[[str, str, int, int, str | None], LanguageModel]
"""(where, device, sequences at a time, drafts at a time, model that drafts) -> an open model."""
_LOG = logging.getLogger(__name__)
_CHILD = "openrknn.serve.llm.child"
_MOST_TEXT = 65536
_LAST_STEP_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class FoundLanguage:
    """A model, before it is opened."""

    name: str
    where: str
    size_bytes: int
    modified: float
    draft: str | None = None
    """A smaller model that drafts for it."""
    draft_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Card:
    """What a model says of itself."""

    architecture: str
    parameters: int
    context: int
    capacity: int
    format: str
    quantisation: str
    licence: str
    notice: str
    template: str
    can_chat: bool
    can_embed: bool

    @classmethod
    def read(cls, words: Any, name: str) -> Card:
        """Checked: it comes from a process that reads other people's files."""
        try:
            kinds: dict[str, Any] = {"str": lambda value: str(value)[:_MOST_TEXT], "int": int, "bool": bool}
            return cls(**{one.name: kinds[str(one.type)](words[one.name]) for one in fields(cls)})
        except (KeyError, TypeError, ValueError):
            raise UnsupportedError(f"model {name!r} describes itself in a way that cannot be") from None


class Language:
    """Requests run together, as many as there are sequences; a bounded number of others may wait."""

    def __init__(self, found: FoundLanguage, settings: Settings, opener: OpenLanguage) -> None:
        self.found, self.name = found, found.name
        limits = settings.limits
        self._run_seconds, self._request_seconds = limits.run_seconds, limits.request_seconds
        self._load_seconds = limits.load_seconds
        self._most = settings.llm_sequences + settings.queue_size
        self.sequences, self._most_of_one = settings.llm_sequences, settings.llm_client_requests
        self._of_clients: Counter[str] = Counter()
        self.stats = LanguageStats()
        self.active = 0
        self.loaded = time.time()
        self._line: Line | None = None
        self._opening = asyncio.Lock()
        self._worker: WorkerProcess | None = None
        self._supervisor: Supervisor[Any] | None = None
        self._model: LanguageModel | None = None
        self._thread: threading.Thread | None = None
        """Of the model, where it has no process."""
        self.idle = Idle(self._unload, settings.llm_keep_alive)
        where = str(Path(found.where).absolute())
        drafts = settings.llm_drafts, found.draft
        self._open_here = partial(opener, where, settings.device, settings.llm_sequences, *drafts)
        if settings.workers == IN_PROCESS:
            self._model = self._open_here()
            words: Any = card_of(self._model)
        else:
            question = {
                "do": "load", "where": where, "device": settings.device, "memory_bytes": limits.total_bytes,
                "model_bytes": found.size_bytes + found.draft_bytes, "sequences": settings.llm_sequences,
                "drafts": drafts,
                "open_language": reference(opener),
            }  # fmt: skip
            self._supervisor = Supervisor(
                lambda: WorkerProcess(f"model {found.name}", lambda: None, _CHILD),
                lambda one: self._load(one, question),
            )
            words = self._supervisor.start()
        self.card = Card.read(words, found.name)

    def _load(self, worker: WorkerProcess, question: dict[str, Any]) -> Any:
        answer = worker.ask(question, seconds=self._load_seconds)
        if "card" not in answer:
            raise UnsupportedError(words_of(answer))
        return answer["card"]

    # -- state ---------------------------------------------------------------------------------------------------

    @property
    def problem(self) -> str:
        """Why it cannot answer now; empty: it can."""
        return self._supervisor.problem if self._supervisor is not None else ""

    @property
    def is_loaded(self) -> bool:
        """Whether it takes memory; else the next request loads it."""
        return self._model is not None or (self._supervisor is not None and bool(self._supervisor.pids()))

    @property
    def restarts(self) -> int:
        """Of its process."""
        return self._supervisor.restarts if self._supervisor is not None else 0

    @property
    def waiting(self) -> int:
        """Requests that wait for a place."""
        return max(0, self.active - self.sequences)

    def pids(self) -> Sequence[int]:
        """Its process."""
        return self._supervisor.pids() if self._supervisor is not None else ()

    # -- loading -------------------------------------------------------------------------------------------------

    async def load(self) -> float:
        """Load it where it is not; how many seconds that took."""
        if self.is_loaded:
            return 0.0
        started = time.monotonic()
        with self._used():
            await self._open()
        return time.monotonic() - started

    async def settle(self) -> None:
        """Unload it now, if that is what was asked for and it is not in use."""
        if not self.active:
            self.idle.begins()
        await self.idle.wait()

    async def _unload(self) -> None:
        async with self._opening:
            if self.active:
                return
            if self._line is not None:
                await asyncio.to_thread(self._line.close)
            self._line = self._worker = None
            await asyncio.to_thread(self._close_here)
            if self._supervisor is not None:
                await asyncio.to_thread(self._supervisor.unload)
        _LOG.info("language model %s is unloaded; the next request loads it", self.name)

    def _close_here(self) -> None:
        """The model of this process, once its thread has done its last step."""
        model, self._model = self._model, None
        if model is not None:
            if self._thread is not None:
                self._thread.join(_LAST_STEP_SECONDS)
            model.close()

    @contextmanager
    def _used(self) -> Iterator[None]:
        self.active += 1
        self.idle.ends()
        try:
            yield
        finally:
            self.active -= 1
            if not self.active:
                self.idle.begins()

    # -- requests ------------------------------------------------------------------------------------------------

    async def generate(self, words: dict[str, Any], client: str) -> AsyncGenerator[Row]:
        """The events of one request. Closing the generator cancels what is not computed yet."""
        async with aclosing(self._answers({"do": "start", **words}, client)) as answers:
            async for answer in answers:
                row = read_row(answer)
                if row.statistics is not None:
                    self.stats.finished(row.statistics)
                else:
                    self.stats.token()
                yield row
                if row.finish is not None:
                    return

    async def ask(self, do: str, client: str, **words: Any) -> dict[str, Any]:
        """A question with one answer."""
        async with aclosing(self._answers({"do": do, **words}, client)) as answers:
            return await anext(answers)

    def check_room(self, client: str, count: int = 1) -> None:
        """Before anything is begun: a full queue, or a client over its share, is rejected at once."""
        mine = self._of_clients.get(client, 0)
        if self._most_of_one and mine + count > self._most_of_one:
            raise FullError(
                f"this client has {mine} requests to model {self.name!r} and may have {self._most_of_one} "
                "(--llm-client-requests); try again later"
            )
        if self.active + count > self._most:
            raise FullError(f"model {self.name!r} has {self.waiting} requests waiting; try again later")

    async def _answers(self, words: dict[str, Any], client: str) -> AsyncGenerator[dict[str, Any]]:
        self._of_clients[client] += 1
        line: Line | None = None
        number, is_complete = 0, False
        try:
            with self._used():
                self.check_room(client, 0)
                line = await self._open()
                number, answers = line.begin(words)
                deadline: float | None = time.monotonic() + self._request_seconds
                while True:
                    answer = await self._next(line, answers, deadline)
                    deadline = None  # it has begun: now only its process may not fall silent
                    is_complete = words["do"] != "start" or answer.get("finish") is not None
                    yield answer
        except ServeError as error:
            self.stats.failures[error.code] += 1
            raise
        except (asyncio.CancelledError, GeneratorExit):
            if not is_complete:
                self.stats.failures["CANCELLED"] += 1
            raise
        finally:
            self._of_clients[client] -= 1
            if not self._of_clients[client]:
                del self._of_clients[client]
            if line is not None and number:
                line.end(number, is_complete=is_complete)

    async def _next(
        self, line: Line, answers: asyncio.Queue[dict[str, Any] | ServeError], deadline: float | None
    ) -> dict[str, Any]:
        while True:
            now = time.monotonic()
            silent = self._run_seconds - (now - line.heard)
            try:
                async with timeout(max(0.0, silent if deadline is None else min(silent, deadline - now))):
                    answer = await answers.get()
            except TimeoutError:
                now = time.monotonic()
                if now - line.heard >= self._run_seconds and self._worker is not None:
                    self._worker.kill(f"no token within {self._run_seconds:g} s")
                    raise ModelFailedError(
                        f"model {self.name!r} said nothing for {self._run_seconds:g} s and is started again"
                    ) from None
                if deadline is not None and now >= deadline:
                    raise DeadlineError(f"model {self.name!r} was busy for {self._request_seconds:g} s") from None
                if self._worker is None:  # of this process: nobody can end it
                    line.heard = now
                continue
            if isinstance(answer, ServeError):
                raise answer
            return answer

    async def _open(self) -> Line:
        async with self._opening:
            is_gone = self._worker is not None and not self._worker.is_alive
            if self._line is None or not self._line.is_alive or is_gone:
                if self._line is not None:
                    await asyncio.to_thread(self._line.close)
                try:
                    connection, why = await asyncio.to_thread(self._connect)
                except WorkerDiedError as error:
                    raise NotReadyError(f"model {self.name!r} is not ready: {error}") from None
                except (RknnError, OSError) as error:
                    raise ModelFailedError(f"model {self.name!r} cannot be opened: {error}") from None
                self._line = Line(connection, why)
            return self._line

    def _connect(self) -> tuple[socket.socket, Callable[[], str]]:
        ours, theirs = socket.socketpair()
        if self._supervisor is None:
            if self._model is None:
                self._model = self._open_here()
            handler = Handler(self._model, MessageSocket(theirs))
            self._thread = threading.Thread(target=handler.run, name=f"openrknn-{self.name}", daemon=True)
            self._thread.start()
            return ours, lambda: "the model's thread ended"
        with theirs:
            try:
                worker = self._worker = self._supervisor.live()
                answer = worker.ask({"do": "open"}, seconds=self._load_seconds, descriptors=[theirs.fileno()])
                if "opened" not in answer:
                    raise ModelFailedError(words_of(answer))
            except BaseException:
                ours.close()
                raise
        return ours, lambda: str(worker.died())

    def close(self) -> None:
        """End its process and everything in it."""
        if self._line is not None:
            self._line.close()
        if self._supervisor is not None:
            self._supervisor.close()
        self._close_here()
