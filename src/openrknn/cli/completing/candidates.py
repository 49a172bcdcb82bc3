"""Values that a shell asks for while somebody types: what is installed here, what is in the model on the line.

An answer is a list that may be empty. Nothing is ever complained about: an error in the middle of a line that is being
typed would spoil the line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from openrknn.errors import RknnError

__all__ = [
    "Ask", "all_models", "found_for", "nodes", "operators", "programs", "sets", "tensors",
    "voice_families", "voices", "wake_words",
]  # fmt: skip

Ask = Callable[[Sequence[str]], Iterable[str]]
"""Given the words of a line, of which the last one is being typed."""

_LARGEST = 256 << 20
"""Bytes of a model that is looked into: people are waiting."""
_MOST = 2000
_PLAIN = re.compile(r"[\w./:,@%+=~^-]+")
"""Bash does not quote what it puts into the line, and a stranger's model may have a node called $(rm -r ~)."""


def found_for(ask: Ask | None, words: Sequence[str]) -> list[str]:
    """What the last word can become; nothing where it cannot be found out."""
    if ask is None:
        return []
    try:
        found = [value for value in ask(words) if _PLAIN.fullmatch(value)]
    except (RknnError, OSError, ValueError, ImportError):
        return []
    # In a list with commas the last name is the one that is being typed.
    before = words[-1].rpartition(",")[0] + "," if ask in (nodes, tensors) and "," in words[-1] else ""
    return [f"{before}{value}" for value in dict.fromkeys(found) if f"{before}{value}".startswith(words[-1])][:_MOST]


def voices(_: Sequence[str]) -> Iterator[str]:
    """Voices that can be made."""
    from openrknn.voice.make.known import KNOWN

    yield from KNOWN


def voice_families(_: Sequence[str]) -> Iterator[str]:
    """Families of voices."""
    from openrknn.voice.make.known import FAMILIES

    yield from FAMILIES


def sets(kind: str | None) -> Callable[[Sequence[str]], Iterable[str]]:
    """Voices that are installed, of one kind or all."""
    def found(_: Sequence[str]) -> Iterable[str]:
        from openrknn.voice.sets import installed

        return [one.name for one in installed(kind)]

    return found


def wake_words(words: Sequence[str]) -> Iterator[str]:
    """Wake words: installed, and those that can be made."""
    from openrknn.voice.make.known import KNOWN

    yield from sets("wake")(words)
    yield from (name for name, known in KNOWN.items() if known.family == "openwakeword")


def all_models(_: Sequence[str]) -> Iterator[str]:
    """Models of the catalogue."""
    from openrknn.cli.common.catalogue import rows

    yield from (row.name for row in rows())


def operators(words: Sequence[str]) -> Iterator[str]:
    """Names in the .rknn on the line."""
    from openrknn.container.load import load

    for path in _files(words, (".rknn",)):
        yield from (operator.name for operator in load(path).operators if operator.name)


def _graph(words: Sequence[str]) -> Iterator[tuple[str, Sequence[str]]]:
    import onnx

    for path in _files(words, (".onnx",)):
        for node in onnx.load(path, load_external_data=False).graph.node:
            yield node.name, node.output


def nodes(words: Sequence[str]) -> Iterator[str]:
    """Nodes of the ONNX model on the line."""
    yield from (name for name, _ in _graph(words) if name)


def tensors(words: Sequence[str]) -> Iterator[str]:
    """Tensors of the ONNX model on the line."""
    yield from (output for _, outputs in _graph(words) for output in outputs)


def programs(_: Sequence[str]) -> Iterator[str]:
    """What the PATH has."""
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
