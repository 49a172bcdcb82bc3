"""What a client wants of its session. What cannot be had is not in the answer: it has the settings that hold."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from openrknn.serve.errors import BadRequestError
from openrknn.serve.voice.names import code_of_language
from openrknn.serve.voice.operations import Asked
from openrknn.serve.voice.turns import rules_of, words_of
from openrknn.serve.voice.voice import Voice
from openrknn.serve.voice.voices import Voices
from openrknn.voice.listener import AUTO, ListenOptions
from openrknn.voice.segments import Rules

__all__ = ["SessionConfig", "updated"]

_LOGS = "item.input_audio_transcription.logprobs"
_RATE, _PHONE_RATE = 24_000, 8_000
_FORMATS = {"audio/pcm": _RATE, "audio/pcmu": _PHONE_RATE, "audio/pcma": _PHONE_RATE}
_OLD_FORMATS = {"pcm16": "audio/pcm", "g711_ulaw": "audio/pcmu", "g711_alaw": "audio/pcma"}
_MOST_TEXT = 20_000


@dataclass(frozen=True, slots=True)
class SessionConfig:
    """The settings that hold."""

    voice: Voice
    model: str = ""
    """As the client calls it."""
    kind: str = "audio/pcm"
    rate: int = _RATE
    language: str = ""
    prompt: str = ""
    keywords: tuple[str, ...] = ()
    has_turns: bool = True
    """Whether the server finds out who speaks when; else the client says when it is over."""
    has_logs: bool = False
    rules: Rules = field(default_factory=Rules)
    """How the server splits speech."""

    def asked(self) -> Asked:
        """For the voice."""
        language = (self.language or AUTO) if len(self.voice.languages) > 1 else ""
        options = ListenOptions(language=language, prompt=self.prompt, hotwords=", ".join(self.keywords))
        return Asked(options, self.has_logs, self.rules if self.rules != Rules() else None)

    def words(self, *, is_old: bool) -> dict[str, Any]:
        """As the client hears it."""
        transcription: dict[str, Any] = {"model": self.model or self.voice.name, "language": self.language or None}
        transcription["prompt"] = self.prompt
        turns = words_of(self.rules) if self.has_turns else None
        include = [_LOGS] if self.has_logs else None
        if is_old:
            names = {new: old for old, new in _OLD_FORMATS.items()}
            return {
                "input_audio_format": names[self.kind], "input_audio_transcription": transcription,
                "turn_detection": turns, "input_audio_noise_reduction": None, "include": include,
            }  # fmt: skip
        form = {"type": self.kind, **({"rate": self.rate} if self.kind == "audio/pcm" else {})}
        heard = {"format": form, "transcription": transcription, "turn_detection": turns, "noise_reduction": None}
        return {"type": "transcription", "audio": {"input": heard}, "include": include}


def updated(config: SessionConfig, session: object, voices: Voices) -> SessionConfig:
    """With what `session.update` says; fields that are not there stay as they are."""
    words = _object(session, "session")
    kind = words.get("type", "transcription")
    if kind != "transcription":
        raise BadRequestError(
            f"sessions of type {str(kind)[:40]!r} are not known here: this server writes down what is said; "
            "the type is 'transcription'"
        ).about("session.type")
    config = _with_include(config, words)
    if "audio" in words or not any(name.startswith("input_audio") or name == "turn_detection" for name in words):
        heard = _object(_object(words.get("audio"), "session.audio").get("input"), "session.audio.input")
        return _with_input(config, heard, voices, "session.audio.input.")
    old: dict[str, Any] = {}
    if "input_audio_format" in words:
        name = words["input_audio_format"]
        old["format"] = {"type": _OLD_FORMATS.get(name, name) if isinstance(name, str) else name}
    if "input_audio_transcription" in words:
        old["transcription"] = words["input_audio_transcription"]
    if "turn_detection" in words:
        old["turn_detection"] = words["turn_detection"]
    return _with_input(config, old, voices, "session.")


def _with_input(config: SessionConfig, heard: dict[str, Any], voices: Voices, where: str) -> SessionConfig:
    if heard.get("format") is not None:
        form = _object(heard["format"], f"{where}format")
        kind = form.get("type", "audio/pcm")
        if not isinstance(kind, str) or kind not in _FORMATS:
            raise BadRequestError(f"the format is one of {', '.join(_FORMATS)}, not {str(kind)[:40]!r}").about(
                f"{where}format.type"
            )
        rate = _FORMATS[kind] if form.get("rate") is None else form["rate"]
        if type(rate) is not int or not 8000 <= rate <= 48_000:
            raise BadRequestError("the rate is a number from 8000 to 48000").about(f"{where}format.rate")
        config = replace(config, kind=kind, rate=rate)
    if "turn_detection" in heard:
        turns = heard["turn_detection"]
        place = f"{where}turn_detection"
        rules = Rules() if turns is None else rules_of(_object(turns, place), place)
        config = replace(config, has_turns=turns is not None, rules=rules)
    if heard.get("transcription") is not None:
        config = _with_transcription(config, _object(heard["transcription"], f"{where}transcription"), voices, where)
    return config


def _with_transcription(config: SessionConfig, words: dict[str, Any], voices: Voices, where: str) -> SessionConfig:
    where = f"{where}transcription."
    if words.get("model"):
        model = _text(words, "model", where)
        config = replace(config, voice=voices.find(model, "transcriber"), model=model)
    if "prompt" in words:
        config = replace(config, prompt=_text(words, "prompt", where))
    if "keywords" in words:
        some = words["keywords"] or []
        is_list = isinstance(some, list) and all(isinstance(one, str) for one in some)
        if not is_list or sum(map(len, some)) > _MOST_TEXT:
            raise BadRequestError("'keywords' is a list of words").about(f"{where}keywords")
        config = replace(config, keywords=tuple(some))
    if "language" in words:
        given = _text(words, "language", where)
        code = code_of_language(given)
        if code and code != AUTO and not config.voice.understands(code):
            raise BadRequestError(
                f"{config.voice.name!r} understands {config.voice.language_names()}, not {given[:40]!r}"
            ).about(f"{where}language")
        config = replace(config, language="" if code == AUTO else code)
    return config


def _with_include(config: SessionConfig, words: dict[str, Any]) -> SessionConfig:
    if "include" not in words:
        return config
    given = words["include"] or []
    if not isinstance(given, list) or not set(map(str, given)) <= {_LOGS}:
        raise BadRequestError(f"'include' is [{_LOGS!r}]").about("session.include")
    if given and not config.voice.has_logs:
        raise BadRequestError(f"{config.voice.name!r} does not tell log probabilities of tokens").about(
            "session.include"
        )
    return replace(config, has_logs=bool(given))


def _object(value: object, where: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadRequestError(f"{where!r} is an object").about(where)
    return value


def _text(words: dict[str, Any], name: str, where: str) -> str:
    value = words[name]
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > _MOST_TEXT:
        raise BadRequestError(f"{name!r} is a text of at most {_MOST_TEXT} characters").about(f"{where}{name}")
    return value
