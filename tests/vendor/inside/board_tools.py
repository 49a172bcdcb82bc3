"""For checks inside the vendor's library: models, what the device saw, and expected exceptions."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

GOLDENS = Path(os.environ["OPENRKNN_GOLDENS"])


def golden(name: str) -> Path:
    """A model of `tests/goldens`."""
    return GOLDENS / f"{name}.rknn"


def events(kind: str = "") -> list[dict[str, Any]]:
    """What the library asked of the device since the start, or since `forget`."""
    text = Path(os.environ["OPENRKNN_WITNESS_LOG"]).read_text()
    found = [json.loads(line) for line in text.split("\n")[_seen[0] : -1]]
    return [event for event in found if not kind or event["event"] == kind]


_seen = [0]


def forget() -> None:
    """Let `events` start here."""
    path = Path(os.environ["OPENRKNN_WITNESS_LOG"])
    _seen[0] = path.read_text().count("\n") if path.exists() else 0


@contextmanager
def raises(kind: type[BaseException], text: str = "") -> Iterator[None]:
    """pytest.raises for a place without pytest."""
    seen = None
    try:
        yield
    except kind as error:
        seen = str(error)
    assert seen is not None, f"{kind.__name__} was not raised"
    assert text in seen, f"{text!r} is not in {seen!r}"
