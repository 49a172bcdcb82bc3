"""Sound as numbers: files, streams and microphones in, files out, other rates."""

from __future__ import annotations

from openrknn.voice.audio.sound import Audio, Samples

__all__ = ["Audio", "Samples"]
