"""The form of a request for a transcript, as OpenAI's clients fill it in."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from typing import Any

from openrknn.serve.errors import BadRequestError, NotFoundError
from openrknn.serve.rest.multipart import Part
from openrknn.serve.voice.names import code_of_language
from openrknn.serve.voice.operations import Asked
from openrknn.serve.voice.turns import rules_of
from openrknn.serve.voice.voice import Voice
from openrknn.serve.voice.voices import Voices
from openrknn.voice.listener import AUTO, TEMPERATURES, ListenOptions
from openrknn.voice.segments import Rules
from openrknn.voice.sets import installed
from openrknn.voice.speakers import EMBEDDING

__all__ = ["FORMATS", "TranscriptionWish", "read_wish"]

FORMATS = ("json", "text", "srt", "verbose_json", "vtt", "diarized_json")
_MOST_PROMPT = 20_000
_MOST_NAME = 100
_DIARIZED = "diarized_json"
_STREAMED = frozenset({"json", "text", "diarized_json"})
"""Formats whose request may be streamed; the events are the same."""
_MOST_KNOWN = 4
"""Speakers whose voice a client may bring, as at OpenAI."""


@dataclass(frozen=True, slots=True)
class TranscriptionWish:
    """What a client wants of a recording."""

    voice: Voice
    recording: memoryview
    asked: Asked
    form: str
    is_streamed: bool
    granularities: frozenset[str]


def read_wish(parts: list[Part], voices: Voices, task: str) -> TranscriptionWish:
    """What is asked for, the voice can do. Unknown fields are ignored, as by OpenAI's server."""
    form = _Form(parts)
    recording = form.file()
    voice = _voice(form.text("model"), voices, task)
    wanted = form.text("response_format") or "json"
    if wanted not in FORMATS:
        raise BadRequestError(f"response_format is one of {', '.join(FORMATS)}, not {wanted[:40]!r}").about(
            "response_format"
        )
    is_streamed = form.flag("stream")
    if is_streamed and wanted not in _STREAMED:
        raise BadRequestError(
            f"stream=true sends events with text, and no {wanted}; response_format is json, text or diarized_json"
        ).about("response_format")
    granularities = _granularities(form, voice, wanted)
    options = ListenOptions(
        language=_language(form, voice) if task == "transcribe" else AUTO if len(voice.languages) > 1 else "",
        task=task, prompt=_prompt(form), hotwords=", ".join(form.list("keywords"))[:_MOST_PROMPT],
        words="word" in granularities, temperatures=_temperatures(form),
    )  # fmt: skip
    logs = _logs(form, voice, wanted)
    is_diarized = wanted == _DIARIZED
    if is_diarized and not any(one.name == EMBEDDING for one in installed("embedding")):
        raise BadRequestError(
            f"response_format=diarized_json needs a set that distinguishes speakers: `openrknn voice get {EMBEDDING}`"
        ).about("response_format")
    asked = Asked(options, logs, _rules(form), is_diarized, _known(form, is_diarized=is_diarized))
    return TranscriptionWish(voice, recording, asked, wanted, is_streamed, granularities)


def _rules(form: _Form) -> Rules | None:
    """`auto`, or the numbers of `server_vad`."""
    place = "chunking_strategy"
    words: dict[str, Any] = form.fields(place)
    text = form.text(place)
    if text.startswith("{"):
        try:
            words = json.loads(text)
        except (ValueError, RecursionError):
            raise BadRequestError(f"{place!r} is 'auto' or an object").about(place) from None
    elif text not in {"", "auto"}:
        raise BadRequestError(f"{place!r} is 'auto' or an object of type 'server_vad'").about(place)
    if not words:
        return None
    return rules_of({name: _plain(value) for name, value in words.items()}, place)


def _plain(value: object) -> object:
    """Numbers of a form are text."""
    try:
        return float(value) if isinstance(value, str) and value[:1].isdigit() else value
    except ValueError:
        return value


def _known(form: _Form, *, is_diarized: bool) -> tuple[tuple[str, bytes], ...]:
    names, sounds = form.list("known_speaker_names"), form.list("known_speaker_references")
    if not names and not sounds:
        return ()
    if not is_diarized:
        raise BadRequestError("known speakers are named with response_format=diarized_json").about(
            "known_speaker_names"
        )
    if len(names) != len(sounds) or len(names) > _MOST_KNOWN:
        raise BadRequestError(
            f"'known_speaker_names' and 'known_speaker_references' are lists of the same length, {_MOST_KNOWN} at most"
        ).about("known_speaker_references")
    return tuple((name[:_MOST_NAME], _data(sound)) for name, sound in zip(names, sounds, strict=True))


def _data(url: str) -> bytes:
    head, _, body = url.partition(",")
    try:
        if not head.startswith("data:") or not head.endswith(";base64"):
            raise ValueError
        return base64.b64decode(body, validate=True)
    except (ValueError, binascii.Error):
        raise BadRequestError("a reference is a data URL: data:audio/wav;base64,...").about(
            "known_speaker_references"
        ) from None


def _voice(name: str, voices: Voices, task: str) -> Voice:
    try:
        voice = voices.find(name, "transcriber")
    except NotFoundError as error:
        raise error.about("model", "model_not_found") from None
    if task == "translate" and "translate" not in voice.tasks:
        others = [one for one in voices.all("transcriber") if "translate" in one.tasks]
        if not others or not voices.is_usual(name):
            raise BadRequestError(
                f"{voice.name!r} writes down what is said and does not translate; use /v1/audio/transcriptions"
            ).about("model")
        return others[0]
    return voice


def _language(form: _Form, voice: Voice) -> str:
    wanted = [form.text("language"), *form.list("languages")]
    codes = [code_of_language(one) for one in wanted if one]
    for text, code in zip(filter(None, wanted), codes, strict=True):
        if code != AUTO and not voice.understands(code):
            raise BadRequestError(f"{voice.name!r} understands {voice.language_names()}, not {text[:40]!r}").about(
                "language"
            )
    if len(voice.languages) == 1:
        return ""
    return codes[0] if len(set(codes)) == 1 else AUTO


def _granularities(form: _Form, voice: Voice, wanted: str) -> frozenset[str]:
    given = frozenset(form.list("timestamp_granularities"))
    if given - {"segment", "word"}:
        raise BadRequestError("timestamp_granularities are 'segment' and 'word'").about("timestamp_granularities")
    if "word" in given and wanted != "verbose_json":
        raise BadRequestError("times of words come with response_format=verbose_json").about("timestamp_granularities")
    if "word" in given and not voice.has_words:
        raise BadRequestError(
            f"{voice.name!r} knows the times of segments; timestamp_granularities is 'segment'"
        ).about("timestamp_granularities")
    return given or frozenset({"segment"})


def _prompt(form: _Form) -> str:
    text = form.text("prompt")
    if len(text) > _MOST_PROMPT:
        raise BadRequestError(f"'prompt' has {_MOST_PROMPT} characters at most").about("prompt")
    return text


def _temperatures(form: _Form) -> tuple[float, ...]:
    """0 means what it means to OpenAI: as sure as possible, less so where that leads nowhere."""
    text = form.text("temperature")
    try:
        value = float(text or 0.0)
    except ValueError:
        value = -1.0
    if not 0.0 <= value <= 1.0:
        raise BadRequestError("'temperature' is a number from 0 to 1").about("temperature")
    return (value, *(one for one in TEMPERATURES if one > value)) if value else TEMPERATURES


def _logs(form: _Form, voice: Voice, wanted: str) -> bool:
    given = set(form.list("include"))
    if not given:
        return False
    if given != {"logprobs"}:
        raise BadRequestError("'include' is 'logprobs'").about("include")
    if wanted != "json":
        raise BadRequestError("log probabilities come with response_format=json").about("include")
    if not voice.has_logs:
        raise BadRequestError(f"{voice.name!r} does not tell log probabilities of tokens").about("include")
    return True


class _Form:
    def __init__(self, parts: list[Part]) -> None:
        self._parts = parts

    def file(self) -> memoryview:
        found = [part for part in self._parts if part.name == "file"]
        if not found:
            raise BadRequestError("the form has no 'file'").about("file")
        if not found[0].content:
            raise BadRequestError("the 'file' of the form is empty; a recording was expected").about("file")
        return found[0].content

    def text(self, name: str) -> str:
        found = [part for part in self._parts if part.name == name]
        return found[-1].text.strip() if found else ""

    def list(self, name: str) -> list[str]:
        return [part.text.strip() for part in self._parts if part.name.removesuffix("[]") == name]

    def fields(self, name: str) -> dict[str, str]:
        """`name[key]` of a nested object."""
        before = f"{name}["
        return {part.name.removeprefix(before).removesuffix("]"): part.text.strip()
                for part in self._parts if part.name.startswith(before)}  # fmt: skip

    def flag(self, name: str) -> bool:
        value = self.text(name).lower()
        if value not in {"", "true", "false", "1", "0"}:
            raise BadRequestError(f"{name!r} is true or false").about(name)
        return value in {"true", "1"}
