"""What travels between the server and a model's process: requests there, events back. All of it is JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from openrknn.llm.generation.constraint import Constraint
from openrknn.llm.generation.events import Event, Statistics
from openrknn.llm.generation.request import Request
from openrknn.llm.generation.sampling import Sampling
from openrknn.llm.generation.thinking import CLOSING_TAGS
from openrknn.llm.generation.vocabulary import Vocabulary
from openrknn.serve.errors import ModelFailedError

__all__ = ["Piece", "Row", "TokenLogprob", "event_row", "read_request", "read_row", "request_words"]


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A token as clients see it."""

    text: str
    data: bytes
    logprob: float


@dataclass(frozen=True, slots=True)
class Piece(TokenLogprob):
    """The token that came, and what could have come instead."""

    top: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """One event on the server's side."""

    text: str
    piece: Piece | None = None
    """Where log-probabilities were asked for."""
    finish: str | None = None
    stop: str | None = None
    statistics: Statistics | None = None
    """With the last event."""
    opened: str = ""
    """With the first event, where the prompt ends inside a thought: the tag that closes it."""


def request_words(request: Request) -> dict[str, Any]:
    """A request on its way to the process."""
    words = asdict(request)
    words["sampling"]["bias"] = [[token, value] for token, value in request.sampling.bias.items()]
    words["stop_tokens"] = sorted(request.stop_tokens)
    return words


def read_request(words: Mapping[str, Any]) -> Request:
    """And there."""
    sampling = dict(words["sampling"])
    sampling["bias"] = {int(token): float(value) for token, value in sampling["bias"]}
    constraint = words["constraint"]
    return Request(
        **{
            **words,
            "sampling": Sampling(**sampling),
            "stop": tuple(words["stop"]),
            "stop_tokens": frozenset(words["stop_tokens"]),
            "constraint": Constraint(**constraint) if constraint is not None else None,
        }
    )


def event_row(event: Event, vocabulary: Vocabulary) -> dict[str, Any]:
    """An event on its way back. Bytes of tokens travel as characters U+0000 to U+00FF."""
    row: dict[str, Any] = {"text": event.text}
    if event.token is not None and event.logprob is not None:
        row["piece"] = _told(vocabulary, event.token, event.logprob)
        row["top"] = [_told(vocabulary, token, value) for token, value in event.top]
    if event.finish is not None:
        row |= {"finish": event.finish, "stop": event.stop, "statistics": asdict(event.statistics)}
    return row


def read_row(words: Mapping[str, Any]) -> Row:
    """Checked: it comes from a process that reads other people's files."""
    try:
        piece = None
        if "piece" in words:
            chosen = _read(words["piece"])
            piece = Piece(chosen.text, chosen.data, chosen.logprob, tuple(map(_read, words["top"])))
        finish, numbers = words.get("finish"), None
        if finish is not None:
            numbers = Statistics(**{name: float(value) for name, value in words["statistics"].items()})  # type: ignore[arg-type]
            for name in ("prompt_tokens", "reused_tokens", "generated_tokens", "drafted_tokens", "accepted_tokens"):
                setattr(numbers, name, int(getattr(numbers, name)))
        stop, opened = words.get("stop"), words.get("opened", "")
        if opened and opened not in CLOSING_TAGS:
            raise ValueError("there is no such tag")
        return Row(str(words["text"]), piece, finish, str(stop) if stop is not None else None, numbers, opened)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ModelFailedError("the model's process sent an event in a form that cannot be") from None


def _told(vocabulary: Vocabulary, token: int, logprob: float) -> list[Any]:
    return [vocabulary.piece(token).decode("latin-1"), max(logprob, -1e4)]  # JSON has no infinity


def _read(row: list[Any]) -> TokenLogprob:
    data = str(row[0]).encode("latin-1")
    return TokenLogprob(data.decode("utf-8", "replace"), data, float(row[1]))
