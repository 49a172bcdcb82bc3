"""`Generator`: text in, text out."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType

from openrknn.errors import RknnError
from openrknn.llm.engine import Engine
from openrknn.llm.generation.events import Event, FinishReason, Statistics
from openrknn.llm.generation.request import Request
from openrknn.llm.generation.scheduler import Outcome, Scheduler
from openrknn.llm.generation.speculation import Speculation
from openrknn.llm.generation.vocabulary import Vocabulary

__all__ = ["Completion", "Generator", "Stream"]


@dataclass(frozen=True, slots=True)
class Completion:
    """A whole text."""

    text: str
    tokens: tuple[int, ...]
    finish: FinishReason
    statistics: Statistics
    events: tuple[Event, ...] = ()


class Stream:
    """The events of one request, as they are computed. Closing it cancels what is not computed yet."""

    def __init__(self, generator: Generator, number: int) -> None:
        self._generator, self.number = generator, number
        self._found: deque[Outcome] = deque()
        self._is_done = False

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        while not self._found:
            if self._is_done:
                raise StopIteration
            self._generator.work()
        outcome = self._found.popleft()
        if isinstance(outcome, RknnError):
            self._is_done = True
            raise outcome
        self._is_done = outcome.finish is not None
        return outcome

    def put(self, outcome: Outcome) -> None:
        """For the generator: this was computed."""
        self._found.append(outcome)

    def close(self) -> None:
        """Compute nothing more of it."""
        self._generator.cancel(self.number)
        self._is_done = True

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Generator:
    """Generates with one engine. Streams may be read in turns: a waiting reader computes for all of them.

    One thread at a time. `most_sequences` requests are computed together, `kept_prefixes` caches stay for later prompts
    that begin the same way, and `chunk` tokens of a prompt are computed at a time.
    """

    def __init__(
        self,
        engine: Engine,
        vocabulary: Vocabulary,
        *,
        most_sequences: int = 8,
        kept_prefixes: int = 4,
        chunk: int = 128,
        speculation: Speculation | None = None,
    ) -> None:
        self.engine, self.vocabulary = engine, vocabulary
        self.scheduler = Scheduler(
            engine, vocabulary, most_sequences=most_sequences, kept_prefixes=kept_prefixes, chunk=chunk,
            speculation=speculation,
        )  # fmt: skip
        self._streams: dict[int, Stream] = {}

    def stream(self, prompt: str | Sequence[int], request: Request | None = None) -> Stream:
        """Continue a prompt: text or tokens. The last event has `finish` and the statistics."""
        tokens = self.vocabulary.encode(prompt) if isinstance(prompt, str) else list(prompt)
        number = self.scheduler.add(tokens, request or Request())
        made = self._streams[number] = Stream(self, number)
        return made

    def complete(self, prompt: str | Sequence[int], request: Request | None = None) -> Completion:
        """The whole continuation."""
        with self.stream(prompt, request) as stream:
            return completion(tuple(stream))

    def work(self) -> None:
        """One step of the scheduler; events go to their streams."""
        self._deliver(self.scheduler.step())

    def cancel(self, number: int) -> None:
        """End a request; its stream gets its last event."""
        self._deliver(self.scheduler.cancel(number))

    def _deliver(self, found: list[tuple[int, Outcome]]) -> None:
        for number, outcome in found:
            stream = self._streams[number]
            stream.put(outcome)
            if isinstance(outcome, RknnError) or outcome.finish is not None:
                del self._streams[number]

    def close(self) -> None:
        """Cancel everything and close the engine."""
        self.scheduler.close()
        self.engine.close()

    def __enter__(self) -> Generator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def completion(events: Sequence[Event]) -> Completion:
    """What a whole stream adds up to."""
    last = events[-1]
    assert last.finish is not None
    return Completion(
        "".join(event.text for event in events),
        tuple(event.token for event in events if event.token is not None),
        last.finish,
        last.statistics,
        tuple(events),
    )
