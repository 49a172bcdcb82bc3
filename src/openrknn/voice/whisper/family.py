"""Whisper as a family of speech-to-text models: the model, with streams of its own for recordings."""

from __future__ import annotations

from openrknn.voice.listener import StreamParts, TextStream
from openrknn.voice.whisper.model import WhisperModel
from openrknn.voice.whisper.windows import PackedStream, SlidingStream

__all__ = ["Whisper"]


class Whisper(WhisperModel):
    """A set of the family, opened."""

    def stream(self, parts: StreamParts) -> TextStream | None:
        """Recordings have their own windows; live speech is cut at pauses, as for other families."""
        if parts.partial > 0:
            return None
        return SlidingStream(self, parts) if parts.activity is None else PackedStream(self, parts)
