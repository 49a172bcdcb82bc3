"""`Voices`: all sets that are served, by name and by what they can do."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from openrknn.errors import UnsupportedError
from openrknn.serve.errors import BadRequestError, NotFoundError, NotReadyError
from openrknn.serve.settings import Settings
from openrknn.serve.voice.channel_handler import OpenVoice, open_voice
from openrknn.serve.voice.voice import FoundVoice, Voice
from openrknn.voice.sets import open_set

__all__ = ["SERVED_KINDS", "Voices", "find_voice"]

_LOG = logging.getLogger(__name__)
SERVED_KINDS = {"transcriber": "speech to text", "speaker": "text to speech", "wake": "wake words"}
_COMPILE_FACTOR = 8
_USUAL_NAMES = {
    "transcriber": frozenset({"whisper-1", "gpt-4o-transcribe", "gpt-4o-mini-transcribe", "default", ""}),
    "speaker": frozenset({"tts-1", "tts-1-hd", "gpt-4o-mini-tts", "default", ""}),
    "wake": frozenset({"default", ""}),
}
"""Programs with these names in their settings, or in their code, get the first voice of the kind."""


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


class Voices:
    """Opened when the server starts; each was named, so each has to open."""

    def __init__(self, settings: Settings, opener: OpenVoice = open_voice) -> None:
        self._settings, self._opener = settings, opener
        self._voices: dict[str, Voice] = {}
        self.is_loading = bool(settings.voices)

    def load_all(self) -> None:
        """Open what was named, all at the same time: each is a process that mostly waits for its own disk."""
        try:
            found = [find_voice(where) for where in self._settings.voices]
            names = [one.name for one in found]
            for where, name in zip(self._settings.voices, names, strict=True):
                if names.count(name) > 1:
                    raise UnsupportedError(f"{where}: there is another voice {name!r} already")
            with ThreadPoolExecutor(max(1, len(found))) as threads:
                opening = [threads.submit(Voice, one, self._settings, self._opener) for one in found]
            # Those that opened are closed with the server, whatever happened to the others.
            pairs = zip(names, opening, strict=True)
            self._voices = {name: job.result() for name, job in pairs if job.exception() is None}
            for job in opening:
                job.result()
            for one in found:
                _LOG.info("voice %s is ready: %s", one.name, SERVED_KINDS[one.kind])
        finally:
            self.is_loading = False

    def all(self, kind: str | None = None) -> list[Voice]:
        """In the order in which they were named."""
        return [one for one in self._voices.values() if kind in (None, one.kind)]

    def find(self, name: str, kind: str) -> Voice:
        """The voice of this name; usual names of other people's models mean the first."""
        some = self.all(kind)
        found = self._voices.get(name)
        if found is None and some and name in _USUAL_NAMES[kind]:
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
