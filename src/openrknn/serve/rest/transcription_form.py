"""The form of a request for a transcript, as OpenAI's clients fill it in."""

from __future__ import annotations

from dataclasses import dataclass

from openrknn.serve.errors import BadRequestError, NotFoundError
from openrknn.serve.rest.multipart import Part
from openrknn.serve.voice.names import code_of_language
from openrknn.serve.voice.operations import Asked
from openrknn.serve.voice.voice import Voice
from openrknn.serve.voice.voices import Voices
from openrknn.voice.listener import AUTO, TEMPERATURES, ListenOptions

__all__ = ["FORMATS", "TranscriptionWish", "read_wish"]

FORMATS = ("json", "text", "srt", "verbose_json", "vtt")
_MOST_PROMPT = 20_000
_FIXED = "'chunking_strategy' is 'auto': this server splits at silence, with its own voice settings"


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
    if wanted == "diarized_json":
        raise BadRequestError(f"{voice.name!r} does not tell speakers apart").about("response_format")
    if wanted not in FORMATS:
        raise BadRequestError(f"response_format is one of {', '.join(FORMATS)}, not {wanted[:40]!r}").about(
            "response_format"
        )
    granularities = _granularities(form, voice, wanted)
    options = ListenOptions(
        language=_language(form, voice) if task == "transcribe" else AUTO if len(voice.languages) > 1 else "",
        task=task, prompt=_prompt(form), hotwords=", ".join(form.list("keywords"))[:_MOST_PROMPT],
        words="word" in granularities, temperatures=_temperatures(form),
    )  # fmt: skip
    logs = _logs(form, voice, wanted)
    for name in ("known_speaker_names", "known_speaker_references"):
        if form.list(name):
            raise BadRequestError(f"{voice.name!r} does not tell speakers apart: {name!r} has no use").about(name)
    if form.text("chunking_strategy") not in {"", "auto"} or form.has("chunking_strategy["):
        raise BadRequestError(_FIXED).about("chunking_strategy")
    return TranscriptionWish(voice, recording, Asked(options, logs), wanted, form.flag("stream"), granularities)


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

    def has(self, prefix: str) -> bool:
        return any(part.name.startswith(prefix) for part in self._parts)

    def flag(self, name: str) -> bool:
        value = self.text(name).lower()
        if value not in {"", "true", "false", "1", "0"}:
            raise BadRequestError(f"{name!r} is true or false").about(name)
        return value in {"true", "1"}
