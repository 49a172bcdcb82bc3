"""`Voices`: all sets that are served, by name and by what they can do."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from openrknn.errors import UnsupportedError
from openrknn.serve.errors import BadRequestError, NotFoundError, NotReadyError
from openrknn.serve.settings import Settings
from openrknn.serve.voice.channel_handler import OpenVoice, open_voice
from openrknn.serve.voice.names import is_usual_name
from openrknn.serve.voice.voice import FoundVoice, Voice
from openrknn.voice.sets import open_set

__all__ = ["SERVED_KINDS", "Voices", "find_voice"]

_LOG = logging.getLogger(__name__)
SERVED_KINDS = {"transcriber": "speech to text", "speaker": "text to speech", "wake": "wake words"}
_COMPILE_FACTOR = 8


def find_voice(where: str | os.PathLike[str]) -> FoundVoice:
    """A set by its folder or its name, or a Piper voice by its .onnx file."""
    path = Path(where)
    if path.suffix == ".onnx":
        if not path.is_file():
            raise UnsupportedError(f"{path}: there is no such voice")
        # It is compiled when it is opened for the first time, which needs more memory than speaking.
        size = _COMPILE_FACTOR * path.stat().st_size
        return FoundVoice(path.stem, "speaker", str(path), path.name.partition("_")[0], size)
    found = open_set(str(where))
    if found.kind not in SERVED_KINDS:
        kinds = ", ".join(SERVED_KINDS)
        raise UnsupportedError(f"{found.folder}: a set for {found.kind!r} is not served; those for {kinds} are")
    size = sum(one.stat().st_size for one in found.folder.rglob("*") if one.is_file())
    return FoundVoice(
        found.name, found.kind, str(found.folder), found.language, size, found.licence, found.source
    )  # fmt: skip


def split_name(text: str) -> tuple[str, str]:
    """`NAME=SET` to both; the name is empty where only a set is given."""
    name, sign, where = text.partition("=")
    return (name, where) if sign and "/" not in name and not Path(text).exists() else ("", text)


class Voices:
    """Opened when the server starts; each was named, so each has to open."""

    def __init__(self, settings: Settings, opener: OpenVoice = open_voice) -> None:
        self._settings, self._opener = settings, opener
        self._voices: dict[str, Voice] = {}
        self.is_loading = bool(settings.voices)

    def load_all(self) -> None:
        """Open what was named, all at the same time: each is a process that mostly waits for its own disk."""
        try:
            names, found = self._named()
            with ThreadPoolExecutor(max(1, len(found))) as threads:
                opening = {
                    where: threads.submit(Voice, one, self._settings, self._opener) for where, one in found.items()
                }
            # Those that opened are closed with the server, whatever happened to the others.
            self._voices = {
                name: opening[where].result() for name, where in names.items() if opening[where].exception() is None
            }
            for job in opening.values():
                job.result()
            for one in found.values():
                _LOG.info("voice %s is ready: %s", one.name, SERVED_KINDS[one.kind])
        finally:
            self.is_loading = False

    def _named(self) -> tuple[dict[str, str], dict[str, FoundVoice]]:
        """Name -> where its set is, and what is there. A set with several names is opened once."""
        names: dict[str, str] = {}
        found: dict[str, FoundVoice] = {}
        for text in map(str, self._settings.voices):
            name, given = split_name(text)
            one = find_voice(given)
            name = name or one.name
            if name in names:
                raise UnsupportedError(f"{text}: there is another voice {name!r} already")
            names[name] = one.where
            found.setdefault(one.where, replace(one, name=name))
        return names, found

    def all(self, kind: str | None = None) -> list[Voice]:
        """In the order in which they were named."""
        return [one for one in dict.fromkeys(self._voices.values()) if kind in (None, one.kind)]

    def names(self) -> dict[str, Voice]:
        """Every name with its voice; a voice may have several."""
        return dict(self._voices)

    def is_usual(self, name: str) -> bool:
        """Whether it is no name of a voice of this server."""
        return name not in self._voices

    def find(self, name: str, kind: str) -> Voice:
        """The voice of this name; usual names of other people's models mean the first."""
        some = self.all(kind)
        found = self._voices.get(name)
        if found is None and some and is_usual_name(name, kind):
            return some[0]
        if self.is_loading:
            raise NotReadyError("the voices are being loaded")
        if not some:
            raise NotFoundError(
                f"this server has no voice for {SERVED_KINDS[kind]}; start it with `openrknn serve --voice SET`"
            )
        if found is None:
            names = ", ".join(repr(one.name) for one in some[:20])
            raise NotFoundError(f"there is no voice {name[:80]!r} for {SERVED_KINDS[kind]}; there are {names}")
        if found.kind != kind:
            raise BadRequestError(f"{name!r} is for {SERVED_KINDS[found.kind]}, not for {SERVED_KINDS[kind]}")
        return found

    def problem(self) -> str:
        """Why the voices should not be asked now; empty: they should."""
        if self.is_loading:
            return "the voices are being loaded"
        problems = [f"voice {one.name!r}: {one.problem}" for one in self.all() if one.problem]
        strict = self._settings.strict_readiness
        return problems[0] if problems and (strict or len(problems) == len(self._voices)) else ""

    def pids(self) -> Sequence[int]:
        """Their processes."""
        return [pid for one in self.all() for pid in one.pids()]

    def close(self) -> None:
        """End all of them."""
        for one in self.all():
            one.close()
