"""`Voice`: one set that is served: its process, its channels, and who may wait for them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from openrknn.errors import RknnError, UnsupportedError
from openrknn.serve.datatypes import Array
from openrknn.serve.errors import DeadlineError, FullError, ModelFailedError, NotReadyError, ServeError
from openrknn.serve.settings import IN_PROCESS, Settings
from openrknn.serve.timeouts import timeout
from openrknn.serve.voice.channel import Channel, LocalChannel, RemoteChannel
from openrknn.serve.voice.channel_handler import Engine, OpenVoice
from openrknn.serve.voice.stats import VoiceStats
from openrknn.serve.worker import arena
from openrknn.serve.worker.host import reference
from openrknn.serve.worker.process import WorkerDiedError, WorkerProcess
from openrknn.serve.worker.remote import words_of
from openrknn.serve.worker.supervisor import Supervisor

__all__ = ["Conversation", "FoundVoice", "Voice"]

T = TypeVar("T")
_CHILD = "openrknn.serve.voice.child"
_MOST_SPEAKERS = 1000
_FEW = 12
"""Languages that are named one by one."""


@dataclass(frozen=True, slots=True)
class FoundVoice:
    """A set, before it is opened."""

    name: str
    kind: str
    where: str
    language: str
    size_bytes: int
    licence: str = ""
    source: str = ""


class Conversation:
    """A channel while somebody has it."""

    def __init__(self, voice: Voice, channel: Channel) -> None:
        self.voice, self._channel = voice, channel
        self.pending: asyncio.Future[Any] | None = None

    async def ask(
        self, do: str, array: Array | None = None, *, seconds: float | None = None, **words: Any
    ) -> tuple[dict[str, Any], Array | None]:
        """A question and its answer."""
        limit = seconds or self.voice.run_seconds
        self.pending = self.voice.in_thread(lambda: self._channel.ask({"do": do, **words}, array, limit))
        # Whoever stops waiting leaves the channel to what it is doing; see `Voice.conversation`.
        answer, sound = await asyncio.shield(self.pending)
        spent = answer.get("seconds", 0.0)
        self.voice.stats.busy_seconds += min(max(float(spent), 0.0), limit) if isinstance(spent, float) else 0.0
        return answer, sound


class Voice:
    """A set that can be asked by a bounded number of people at a time; a bounded number of others may wait."""

    def __init__(self, found: FoundVoice, settings: Settings, opener: OpenVoice) -> None:
        self.found, self.name, self.kind = found, found.name, found.kind
        limits = settings.limits
        self.run_seconds = limits.run_seconds
        self.request_seconds = limits.request_seconds
        self.stats = VoiceStats()
        self._load_seconds = limits.load_seconds
        self._streams, self._queue_size = settings.voice_streams, settings.queue_size
        self._threads = ThreadPoolExecutor(self._streams, thread_name_prefix=f"openrknn-{found.name}")
        self._free: list[Channel] = []
        self._room = asyncio.Semaphore(self._streams)
        self._leaving: set[asyncio.Task[None]] = set()
        self.waiting = 0
        self._supervisor: Supervisor[dict[str, Any]] | None = None
        self._engine: Engine | None = None
        if settings.workers == IN_PROCESS or not arena.is_available():
            self._engine = Engine(
                found.where, found.kind, settings.device, warm_up=settings.warm_up, opener=opener
            )  # fmt: skip
            card = self._engine.card()
        else:
            question = {
                "do": "load", "where": str(Path(found.where).absolute()), "kind": found.kind,
                "device": settings.device, "warm_up": settings.warm_up, "memory_bytes": limits.total_bytes,
                "set_bytes": found.size_bytes, "open_voice": reference(opener),
            }  # fmt: skip
            name = f"voice {found.name}"
            self._supervisor = Supervisor(
                lambda: WorkerProcess(name, lambda: None, _CHILD), lambda one: self._load(one, question)
            )
            card = self._supervisor.start()
        about = _read_card(card, found)
        self.rate, self.language, self.speakers = about.rate, about.language, about.speakers
        self.languages, self.tasks = about.languages, about.tasks
        self.has_words, self.has_logs = about.has_words, about.has_logs

    def _load(self, worker: WorkerProcess, question: dict[str, Any]) -> dict[str, Any]:
        answer = worker.ask(question, seconds=self._load_seconds)
        card = answer.get("card")
        if not isinstance(card, dict):
            raise UnsupportedError(words_of(answer))
        return card

    # -- state ---------------------------------------------------------------------------------------------------

    @property
    def problem(self) -> str:
        """Why it cannot answer now; empty: it can."""
        return self._supervisor.problem if self._supervisor is not None else ""

    @property
    def restarts(self) -> int:
        """Of its process."""
        return self._supervisor.restarts if self._supervisor is not None else 0

    def pids(self) -> Sequence[int]:
        """Its process."""
        return self._supervisor.pids() if self._supervisor is not None else ()

    def understands(self, language: str) -> bool:
        """Whether it knows a language: "de", "de-CH" and "de_AT" are German."""
        return _code(language) in {_code(one) for one in self.languages}

    def language_names(self) -> str:
        """For people."""
        some = ", ".join(map(repr, self.languages[:_FEW]))
        return some if len(self.languages) <= _FEW else f"{len(self.languages)} languages"

    # -- conversations -------------------------------------------------------------------------------------------

    def in_thread(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Never more at a time than there are channels, so nothing waits here."""
        return asyncio.get_running_loop().run_in_executor(self._threads, work)

    @contextlib.asynccontextmanager
    async def conversation(self) -> AsyncIterator[Conversation]:
        """A channel of one's own; counts how it went."""
        try:
            channel = await self._take()
            talk = Conversation(self, channel)
            try:
                yield talk
            finally:
                task = asyncio.ensure_future(self._give_back(talk, channel))
                self._leaving.add(task)
                task.add_done_callback(self._leaving.discard)
        except ServeError as error:
            self.stats.failures[error.code] += 1
            raise
        except (asyncio.CancelledError, GeneratorExit):
            self.stats.failures["CANCELLED"] += 1
            raise
        self.stats.successes += 1

    async def _take(self) -> Channel:
        if self._room.locked() and self.waiting >= self._queue_size:
            raise FullError(f"voice {self.name!r} has {self.waiting} requests waiting; try again later")
        self.waiting += 1
        try:
            async with timeout(self.request_seconds):
                await self._room.acquire()
        except TimeoutError:
            raise DeadlineError(f"voice {self.name!r} was busy for {self.request_seconds:g} s") from None
        finally:
            self.waiting -= 1
        try:
            while self._free:
                channel = self._free.pop()
                if channel.is_alive:
                    return channel
                channel.close()
            return await asyncio.shield(self.in_thread(self._new_channel))
        except BaseException:
            self._room.release()
            raise

    def _new_channel(self) -> Channel:
        if self._engine is not None:
            return LocalChannel(self._engine)
        assert self._supervisor is not None
        try:
            return RemoteChannel(self._supervisor.live(), self._load_seconds)
        except WorkerDiedError as error:
            raise NotReadyError(f"voice {self.name!r} is not ready: {error}") from None
        except ServeError:
            raise
        except (RknnError, OSError, ValueError) as error:
            raise ModelFailedError(f"voice {self.name!r} cannot be opened: {error}") from None

    async def _give_back(self, talk: Conversation, channel: Channel) -> None:
        """Reset it for the next client, after the current work ends."""
        try:
            if talk.pending is not None:
                with contextlib.suppress(Exception):
                    await talk.pending
            await self.in_thread(lambda: channel.ask({"do": "reset"}, None, self.run_seconds))
            self._free.append(channel)
        except (ServeError, RuntimeError):  # it is broken, or the server has closed
            channel.close()
        finally:
            self._room.release()

    def close(self) -> None:
        """End its process and everything in it."""
        if self._supervisor is not None:
            self._supervisor.close()
        for channel in self._free:
            channel.close()
        self._free = []
        self._threads.shutdown(wait=True)


@dataclass(frozen=True, slots=True)
class _Card:
    rate: int
    language: str
    languages: list[str]
    tasks: list[str]
    speakers: list[str]
    has_words: bool
    has_logs: bool


def _read_card(card: dict[str, Any], found: FoundVoice) -> _Card:
    """Checked: it comes from a process that reads other people's files."""
    rate, language = card.get("rate"), card.get("language")
    lists = [card.get(name) for name in ("languages", "tasks", "speakers")]
    if (
        type(rate) is not int
        or not 1000 <= rate <= 384_000
        or not isinstance(language, str)
        or not all(isinstance(one, list) and len(one) <= _MOST_SPEAKERS for one in lists)
    ):
        raise UnsupportedError(f"voice {found.name!r} describes itself in a way that cannot be")
    usual = (language or found.language)[:40]
    languages, tasks, speakers = ([str(one)[:200] for one in some or ()] for some in lists)
    return _Card(
        rate, usual, languages or [usual], tasks, speakers, card.get("has_words") is True, card.get("has_logs") is True
    )


def _code(language: str) -> str:
    return language.lower().replace("_", "-").partition("-")[0]
