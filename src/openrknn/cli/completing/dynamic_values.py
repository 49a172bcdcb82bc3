"""Values that a shell asks for while somebody types: what is installed here, what is in the model on the line.

An answer is a list that may be empty. Nothing is ever complained about: an error in the middle of a line that is being
typed would spoil the line.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence

from openrknn.errors import RknnError

__all__ = ["KINDS", "values"]

_LARGEST = 256 << 20
"""Bytes of a model that is looked into: people are waiting."""
_MOST = 2000


def values(kind: str, words: Sequence[str]) -> list[str]:
    """Values of a kind for a line whose last word is being typed, "" if it is not begun."""
    asked = KINDS.get(kind)
    current = words[-1] if words else ""
    if asked is None:
        return []
    try:
        found = [value for value in asked(words) if value.isprintable() and " " not in value]
    except (RknnError, OSError, ValueError, ImportError):
        return []
    # In a list with commas the last name is the one that is being typed.
    before = current.rpartition(",")[0] + "," if kind in _LISTS and "," in current else ""
    return [f"{before}{value}" for value in dict.fromkeys(found)][:_MOST]


def _voices(_: Sequence[str]) -> Iterator[str]:
    from openrknn.voice.make.known import KNOWN

    yield from KNOWN


def _voice_families(_: Sequence[str]) -> Iterator[str]:
    from openrknn.voice.make.known import FAMILIES

    yield from FAMILIES


def _sets(kind: str | None) -> Callable[[Sequence[str]], Iterable[str]]:
    def found(_: Sequence[str]) -> Iterable[str]:
        from openrknn.voice.sets import installed

        return [one.name for one in installed(kind)]

    return found


def _wake(words: Sequence[str]) -> Iterator[str]:
    from openrknn.voice.make.known import KNOWN

    yield from _sets("wake")(words)
    yield from (name for name, known in KNOWN.items() if known.family == "openwakeword")


def _vision(_: Sequence[str]) -> Iterator[str]:
    from openrknn.models.known import KNOWN

    yield from KNOWN


def _operators(words: Sequence[str]) -> Iterator[str]:
    from openrknn.container.load import load

    for path in _files(words, (".rknn",)):
        yield from (operator.name for operator in load(path).operators if operator.name)


def _graph(words: Sequence[str]) -> Iterator[tuple[str, Sequence[str]]]:
    import onnx

    for path in _files(words, (".onnx",)):
        for node in onnx.load(path, load_external_data=False).graph.node:
            yield node.name, node.output


def _nodes(words: Sequence[str]) -> Iterator[str]:
    yield from (name for name, _ in _graph(words) if name)


def _tensors(words: Sequence[str]) -> Iterator[str]:
    yield from (output for _, outputs in _graph(words) for output in outputs)


def _programs(_: Sequence[str]) -> Iterator[str]:
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        try:
            yield from (entry.name for entry in os.scandir(folder or ".") if os.access(entry.path, os.X_OK))
        except OSError:
            continue


def _files(words: Sequence[str], endings: tuple[str, ...]) -> Iterator[str]:
    """The first file on the line with such an ending."""
    for word in words[:-1]:
        path = os.path.expanduser(word)
        if path.lower().endswith(endings) and os.path.isfile(path) and os.path.getsize(path) <= _LARGEST:
            yield path
            return


KINDS: dict[str, Callable[[Sequence[str]], Iterable[str]]] = {
    "voices": _voices,
    "voice-families": _voice_families,
    "sets": _sets(None),
    "transcribers": _sets("transcriber"),
    "speakers": _sets("speaker"),
    "denoisers": _sets("denoiser"),
    "activity": _sets("activity"),
    "wake": _wake,
    "vision": _vision,
    "operators": _operators,
    "nodes": _nodes,
    "tensors": _tensors,
    "programs": _programs,
}
_LISTS = ("nodes", "tensors")
