"""What this server can do, in the words of `info`."""

from __future__ import annotations

from typing import Any

from openrknn.serve.plane.describe import version
from openrknn.serve.voice.voice import Voice
from openrknn.serve.voice.voices import Voices

__all__ = ["PROGRAM", "info"]

PROGRAM = "openrknn"
_HOME = {"name": "openrknn", "url": ""}


def info(voices: Voices) -> dict[str, Any]:
    """Programs with their models. A kind without models is not listed: Home Assistant would offer it."""
    return {
        "asr": _program(
            "speech to text on the NPU",
            "models",
            [_model(one) for one in voices.all("transcriber")],
            supports_transcript_streaming=True,
        ),
        "tts": _program(
            "text to speech on the NPU",
            "voices",
            [_model(one, speakers=[{"name": name} for name in one.speakers] or None) for one in voices.all("speaker")],
            supports_synthesize_streaming=True,
        ),
        "wake": _program(
            "wake words on the NPU",
            "models",
            [_model(one, phrase=one.name.replace("_", " ")) for one in voices.all("wake")],
        ),
        "handle": [],
        "intent": [],
        "mic": [],
        "snd": [],
    }


def _program(text: str, key: str, models: list[dict[str, Any]], **more: Any) -> list[dict[str, Any]]:
    if not models:
        return []
    head = {"name": PROGRAM, "attribution": _HOME, "installed": True, "description": text, "version": version()}
    return [{**head, key: models, **more}]


def _model(voice: Voice, **more: Any) -> dict[str, Any]:
    return {
        "name": voice.name,
        "attribution": {"name": voice.found.source, "url": ""},
        "installed": True,
        "description": f"{voice.name} ({voice.language})",
        "version": None,
        "languages": voice.languages,
        **more,
    }
