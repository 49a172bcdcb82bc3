"""The configuration of a Piper voice, `VOICE.onnx.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openrknn.voice.errors import VoiceSetError

PAD, BOS, EOS = "_", "^", "$"
_LARGEST = 4 << 20
_RATES = {"x_low": 16000, "x-low": 16000, "low": 16000, "medium": 22050, "high": 22050}
"""What the qualities of Piper's voices are trained with."""


@dataclass(frozen=True)
class PiperConfig:
    """A voice's numbers."""

    rate: int
    espeak_voice: str
    ids: Mapping[str, tuple[int, ...]]
    symbols: int
    """Rows of the model's table of phonemes; 0: not said."""
    speaker_count: int = 1
    speakers: Mapping[str, int] = field(default_factory=dict)
    default_speaker: int = 0
    phoneme_type: str = "espeak"
    noise_scale: float = 0.667
    length_scale: float = 1.0
    noise_w: float = 0.8
    hop: int = 0
    """Samples of a frame; 0: not said."""
    clusters: frozenset[tuple[str, ...]] = frozenset()
    language: str = ""


def read_config(path: Path) -> PiperConfig:
    """Read and check; every refusal says which key of which file."""
    try:
        if path.stat().st_size > _LARGEST:
            raise VoiceSetError(f"{path}: larger than {_LARGEST} bytes; this is no config of a voice")
        row = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise VoiceSetError(
            f"{path}: the config of the voice is missing; Piper's voices come as two files, VOICE.onnx and "
            "VOICE.onnx.json: put both in one folder, or name the second with --config"
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise VoiceSetError(f"{path}: cannot be read as JSON: {error}") from error
    return parse_config(row, str(path))


def parse_config(row: Any, where: str) -> PiperConfig:
    """From what the JSON says."""
    if not isinstance(row, dict):
        raise VoiceSetError(f"{where}: should be an object with the keys of a Piper voice, not {type(row).__name__}")
    get = _Getter(row, where)
    rate = get.whole("audio.sample_rate", 4000, 192_000)
    quality = get.text("audio.quality", "")
    if quality in _RATES and rate != _RATES[quality]:
        raise VoiceSetError(
            f"{where}: audio.sample_rate is {rate}, and voices of quality {quality!r} are trained with "
            f"{_RATES[quality]}; the config belongs to another voice, or was changed (if it is right, take "
            "audio.quality out of it)"
        )
    ids = _ids(row.get("phoneme_id_map"), where)
    highest = max(max(numbers) for numbers in ids.values())
    symbols = get.whole("num_symbols", 1, 1 << 20, 0)
    if symbols and highest >= symbols:
        raise VoiceSetError(f"{where}: phoneme_id_map has the number {highest}, and num_symbols is only {symbols}")
    count = get.whole("num_speakers", 1, 1 << 20, 1)
    speakers = _speakers(row.get("speaker_id_map") or {}, count, where)
    default = get.whole("default_speaker_id", 0, max(0, count - 1), 0)
    clusters = row.get("vowel_clusters") or []
    if not isinstance(clusters, list) or not all(
        isinstance(entry, list) and all(isinstance(part, str) for part in entry) for entry in clusters
    ):
        raise VoiceSetError(f"{where}: vowel_clusters should be a list of lists of phonemes")
    kind = get.text("phoneme_type", "espeak")
    return PiperConfig(
        rate=rate,
        espeak_voice=get.text("espeak.voice", None if kind == "espeak" else ""),
        ids=ids,
        symbols=symbols,
        speaker_count=count,
        speakers=speakers,
        default_speaker=default,
        phoneme_type=kind,
        noise_scale=get.number("inference.noise_scale", 0.667),
        length_scale=get.number("inference.length_scale", 1.0),
        noise_w=get.number("inference.noise_w", 0.8),
        hop=get.whole("hop_length", 0, 1 << 16, 0),
        clusters=frozenset(tuple(entry) for entry in clusters),
        language=get.text("language.code", ""),
    )


class _Getter:
    """Values by their path of keys, checked."""

    def __init__(self, row: dict[str, Any], where: str) -> None:
        self.row, self.where = row, where

    def _value(self, path: str) -> Any:
        value: Any = self.row
        for key in path.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        return value

    def _missing(self, path: str) -> VoiceSetError:
        return VoiceSetError(f"{self.where}: {path!r} is missing; this is no config of a Piper voice, or a cut one")

    def whole(self, path: str, low: int, high: int, default: int | None = None) -> int:
        value = self._value(path)
        if value is None:
            if default is None:
                raise self._missing(path)
            return default
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise VoiceSetError(f"{self.where}: {path} should be a whole number of {low} to {high}, not {value!r:.60}")
        return value

    def number(self, path: str, default: float) -> float:
        value = self._value(path)
        if value is None:
            return default
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 100:
            raise VoiceSetError(f"{self.where}: {path} should be a number of 0 to 100, not {value!r:.60}")
        return float(value)

    def text(self, path: str, default: str | None) -> str:
        value = self._value(path)
        if value is None:
            if default is None:
                raise self._missing(path)
            return default
        if not isinstance(value, str) or len(value) > 100:
            raise VoiceSetError(f"{self.where}: {path} should be a short text, not {value!r:.60}")
        return value


def _ids(row: Any, where: str) -> dict[str, tuple[int, ...]]:
    if not isinstance(row, dict) or not row:
        raise VoiceSetError(f"{where}: 'phoneme_id_map' is missing or empty; it maps phonemes to numbers")
    ids: dict[str, tuple[int, ...]] = {}
    for phoneme, numbers in row.items():
        listed = numbers if isinstance(numbers, list) else [numbers]
        if not listed or not all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n < 1 << 20 for n in listed):
            raise VoiceSetError(
                f"{where}: phoneme_id_map has {numbers!r:.60} for {phoneme!r:.20}; a list of whole numbers is needed"
            )
        ids[phoneme] = tuple(listed)
    absent = [mark for mark in (PAD, BOS, EOS) if mark not in ids]
    if absent:
        raise VoiceSetError(
            f"{where}: phoneme_id_map has no {', '.join(map(repr, absent))} (pad, beginning, end of a sentence)"
        )
    return ids


def _speakers(row: Any, count: int, where: str) -> dict[str, int]:
    if not isinstance(row, dict):
        raise VoiceSetError(f"{where}: speaker_id_map should be an object of names and numbers")
    for name, number in row.items():
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < count:
            raise VoiceSetError(
                f"{where}: speaker_id_map has {number!r:.60} for {name!r:.40}, and num_speakers is {count}"
            )
    return dict(row)
