"""What listening finds: spans, pieces of text with their times, and whole transcripts in the formats of the field."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import Any

from openrknn.voice.captions import Cue, cues, srt_text, vtt_text


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of time, in seconds from the beginning of the recording."""

    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Detection:
    """A wake word that was heard."""

    word: str
    time: float
    score: float


@dataclass(frozen=True, slots=True)
class Word:
    """A word with its time, in seconds; the text has the space that is before it."""

    start: float
    end: float
    text: str
    probability: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """For `--json` and the server."""
        times = {"start": round(self.start, 3), "end": round(self.end, 3)}
        return {"word": self.text, **times, "probability": round(self.probability, 4)}


@dataclass(frozen=True, slots=True)
class Segment:
    """What was said in a piece of time. A partial one (not `final`) is replaced by the next with the same index."""

    index: int
    start: float
    end: float
    text: str
    final: bool = True
    confidence: float = 0.0
    """The geometric mean of the tokens' probabilities."""
    tokens: tuple[int, ...] = ()
    words: tuple[Word, ...] = ()
    language: str = ""
    avg_logprob: float | None = None
    no_speech_prob: float | None = None
    """None where the model has no such number."""
    temperature: float = 0.0
    """At which its tokens were chosen; 0: the likeliest ones."""
    logs: tuple[float, ...] = ()
    """Logarithm of the probability of each token; none where the model does not tell."""
    speaker: str = ""
    """Who says it, if somebody asked."""
    tags: tuple[str, ...] = ()
    """What the model says of the sound besides: "HAPPY", "BGM" (SenseVoice)."""

    @property
    def compression_ratio(self) -> float:
        """How much shorter zlib makes the text: from 2.4 on it probably repeats itself."""
        return compression_ratio(self.text)

    def as_json(self) -> dict[str, Any]:
        """For `--json` and the server."""
        row: dict[str, Any] = {
            "index": self.index,
            "start": round(self.start, 3),
            "end": round(self.end, 3),
            "text": self.text,
            "final": self.final,
            "confidence": round(self.confidence, 4),
        }
        if self.final:
            row["compression_ratio"] = round(self.compression_ratio, 4)
            row["temperature"] = self.temperature
            for name in ("avg_logprob", "no_speech_prob"):
                if (value := getattr(self, name)) is not None:
                    row[name] = round(value, 4)
            row["tokens"] = list(self.tokens)
        if self.speaker:
            row["speaker"] = self.speaker
        if self.tags:
            row["tags"] = list(self.tags)
        if self.words:
            row["words"] = [word.as_json() for word in self.words]
        return row


def compression_ratio(text: str) -> float:
    """Bytes of a text by bytes that zlib makes of it, as Whisper's authors count it."""
    body = text.encode()
    return len(body) / len(zlib.compress(body)) if body else 0.0


@dataclass(frozen=True)
class Transcript:
    """Everything that was said."""

    segments: tuple[Segment, ...]
    seconds: float
    language: str = "en"
    timing: dict[str, float] = field(default_factory=dict)
    task: str = "transcribe"
    warnings: tuple[str, ...] = ()
    """What somebody should know who reads it, such as a language that the model does not know."""

    @property
    def text(self) -> str:
        """All of it, as one line."""
        return " ".join(part.text.strip() for part in self.segments if part.text.strip())

    def srt(self) -> str:
        """As SubRip subtitles: at most two lines of 42 columns at a time."""
        return srt_text(self._cues())

    def vtt(self) -> str:
        """As WebVTT subtitles: at most two lines of 42 columns at a time."""
        return vtt_text(self._cues())

    def _cues(self) -> list[Cue]:
        return [
            cue for part in self.segments for cue in cues(part.text, part.start, part.end, part.words, part.speaker)
        ]

    def as_json(self) -> dict[str, Any]:
        """For `--json` and the server."""
        return {
            "text": self.text,
            "language": self.language,
            "seconds": round(self.seconds, 3),
            "segments": [part.as_json() for part in self.segments],
            "timing": self.timing,
            "task": self.task,
            "warnings": list(self.warnings),
        }
