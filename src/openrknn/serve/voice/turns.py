"""How speech is split, as OpenAI's clients set it: `server_vad` with its three numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from openrknn.serve.errors import BadRequestError
from openrknn.voice.segments import Rules

__all__ = ["SERVER_VAD", "rules_of", "words_of"]

SERVER_VAD = "server_vad"
_SEMANTIC = "semantic_vad"
_LIMITS = {"threshold": (0.0, 1.0), "prefix_padding_ms": (0, 2000), "silence_duration_ms": (100, 10_000)}


def rules_of(words: Mapping[str, Any], where: str) -> Rules:
    """The rules of a session or of a recording; numbers that are not given stay as they are without a client."""
    kind = words.get("type", SERVER_VAD)
    if kind == _SEMANTIC:
        raise BadRequestError(
            "semantic_vad is not available: no model here knows when a sentence is complete. Use 'server_vad' with a "
            "larger 'silence_duration_ms', or null and commit the audio yourself"
        ).about(f"{where}.type")
    if kind != SERVER_VAD:
        raise BadRequestError(f"the type is 'server_vad', not {str(kind)[:40]!r}").about(f"{where}.type")
    usual = Rules()
    threshold = _number(words, "threshold", where, usual.threshold)
    pad = _number(words, "prefix_padding_ms", where, 1000 * usual.pad) / 1000
    silence = _number(words, "silence_duration_ms", where, 1000 * usual.silence) / 1000
    return Rules(threshold, silence, pad)


def words_of(rules: Rules) -> dict[str, Any]:
    """As clients read it."""
    return {
        "type": SERVER_VAD, "threshold": rules.threshold, "prefix_padding_ms": round(1000 * rules.pad),
        "silence_duration_ms": round(1000 * rules.silence),
    }  # fmt: skip


def _number(words: Mapping[str, Any], name: str, where: str, usual: float) -> float:
    value = words.get(name)
    if value is None:
        return usual
    least, most = _LIMITS[name]
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not is_number or not least <= value <= most:
        raise BadRequestError(f"{name!r} is a number from {least:g} to {most:g}").about(f"{where}.{name}")
    return float(value)
