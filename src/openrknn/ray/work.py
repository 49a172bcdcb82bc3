"""What a worker does with a part: items in, rows out. An item that fails is a row with a reason, never the end."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from openrknn.closing import Closing
from openrknn.container.load import load
from openrknn.ray.answers import of_outputs, of_result, of_transcript
from openrknn.ray.items import Work
from openrknn.ray.ledger import Row

__all__ = ["Plan", "Worker", "check", "make_worker", "reason"]

_REASON_LENGTH = 500
Answer = Callable[[object], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Plan:
    """What every worker has to do; it travels to them."""

    kind: str
    """picture, audio or array."""
    model: bytes | str | Callable[..., Any] = field(repr=False)
    """The bytes of a model; the name or folder of a voice set; or what makes a function of an item."""
    options: Mapping[str, Any] = field(default_factory=dict)
    top: int = 1
    raw: bool = False
    """Pictures: the outputs as they are, no decoder."""


class Worker(Protocol):
    """Answers parts."""

    def __call__(self, work: Work) -> list[Row]:
        """A row for each item, in order."""

    def close(self) -> None:
        """Give everything back."""


def make_worker(plan: Plan) -> Worker:
    """The one for this kind of items."""
    if callable(plan.model):
        return _Own(plan)
    return {"picture": _Pictures, "audio": _Sounds, "array": _Arrays}[plan.kind](plan)


def check(plan: Plan) -> None:
    """Complain about a model or an option here, before workers are started that would complain again and again."""
    if callable(plan.model) or plan.kind == "audio":
        return
    from openrknn.vision import Pipeline

    model = load(_file(plan))
    if plan.kind == "picture" and not plan.raw:
        Pipeline(model, pool=_Nowhere(), **plan.options)


def _file(plan: Plan) -> bytes:
    assert isinstance(plan.model, bytes)
    return plan.model


class _Nowhere:
    def run(self, inputs: object, **options: Any) -> dict[str, Any]:
        raise NotImplementedError


class _Each(Closing):
    """One item after the other."""

    def __call__(self, work: Work) -> list[Row]:
        rows = []
        for key, read in self._read(work):
            try:
                rows.append({"item": key, "error": None, **self._answer(read())})
            except Exception as error:  # noqa: BLE001 - whatever is wrong with one item, the others go on
                rows.append({"item": key, "error": reason(error)})
        return rows

    def _read(self, work: Work) -> Iterator[tuple[str, Callable[[], Any]]]:
        for at, key in enumerate(work.keys):
            yield key, _reader(work, at)

    def _answer(self, item: Any) -> Mapping[str, Any]:
        raise NotImplementedError

    def close(self) -> None:
        """Give everything back."""


class _Pictures(_Each):
    """Reads ahead: the next picture is decoded while the NPU works."""

    def __init__(self, plan: Plan) -> None:
        from openrknn.vision import Pipeline

        self._top = plan.top
        self._session: Any = None
        self._pipeline: Any = None
        if plan.raw:
            from openrknn.runtime.session import Session

            self._model = load(_file(plan))
            self._session = Session(self._model, **plan.options)
        else:
            self._pipeline = Pipeline(_file(plan), **plan.options)

    def _read(self, work: Work) -> Iterator[tuple[str, Callable[[], Any]]]:
        from openrknn.vision.prefetch import prefetch

        return prefetch(((key, _settled(_pixels(work, at))) for at, key in enumerate(work.keys)), 4)

    def _answer(self, item: Any) -> Mapping[str, Any]:
        if self._pipeline is not None:
            return of_result(self._pipeline(item), self._top)
        from openrknn.vision.inputs import pixels_for

        spec = self._session.inputs[0]
        pixels, _ = pixels_for(self._model, spec, lambda: item, "picture")
        return of_outputs(self._session.run({spec.name: pixels}, layout="nhwc"), 0)

    def close(self) -> None:
        (self._pipeline or self._session).close()


class _Sounds(_Each):
    def __init__(self, plan: Plan) -> None:
        from openrknn.voice import Transcriber

        assert isinstance(plan.model, str)
        self._listen = Transcriber(plan.model, **plan.options)

    def _answer(self, item: Any) -> Mapping[str, Any]:
        return of_transcript(self._listen(item))

    def close(self) -> None:
        self._listen.close()


class _Arrays(_Each):
    def __init__(self, plan: Plan) -> None:
        from openrknn.runtime.session import Session

        self._session = Session(_file(plan), **plan.options)

    def _answer(self, item: Any) -> Mapping[str, Any]:
        first = self._session.inputs[0].name
        outputs = self._session.run({name or first: row[None] for name, row in item.items()})
        return of_outputs(outputs, 0)

    def close(self) -> None:
        self._session.close()


class _Own(_Each):
    """Somebody's own function: made once in each worker, called with a path, bytes, or a dict of arrays."""

    def __init__(self, plan: Plan) -> None:
        assert callable(plan.model)
        self._function = plan.model(**plan.options)

    def _answer(self, item: Any) -> Mapping[str, Any]:
        found = self._function(item)
        return found if isinstance(found, Mapping) else {"answer": found}

    def close(self) -> None:
        close = getattr(self._function, "close", None)
        if close is not None:
            close()


def _reader(work: Work, at: int) -> Callable[[], Any]:
    if work.arrays is not None:
        arrays = work.arrays
        return lambda: {name: rows[at] for name, rows in arrays.items()}
    if work.content is not None:
        content = work.content[at]
        return lambda: content
    return lambda: Path(work.path(at))


def _pixels(work: Work, at: int) -> Callable[[], Any]:
    from openrknn.pictures import read_picture

    if work.arrays is not None:
        rows = work.arrays["image"]
        return lambda: rows[at]
    if work.content is None:
        return lambda: read_picture(work.path(at))
    content = work.content[at]
    return lambda: read_picture(io.BytesIO(content))


def _settled(action: Callable[[], Any]) -> Callable[[], Any]:
    """Run now; the result is reported later, in its place."""
    try:
        value = action()
    except Exception as error:  # noqa: BLE001 - raised again for the item that it is about
        problem = error

        def fail() -> Any:
            raise problem

        return fail
    return lambda: value


def reason(error: BaseException) -> str:
    """In one line."""
    text = " ".join(str(error).split()) or "no reason was given"
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.strerror}{f': {os.fsdecode(error.filename)}' if error.filename else ''}"
    return f"{type(error).__name__}: {text}"[:_REASON_LENGTH]
