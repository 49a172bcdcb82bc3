"""Whisper: windows of 30 s, an encoder, and a decoder that writes text with times.

model       Whisper: a set of the family, opened;   vocabulary: its tokens
search      a window's text: rules for tokens, greedy, sampled and beam search, second tries
words       times of words from cross attention;   windows: recordings, window by window
"""

from __future__ import annotations

from openrknn.voice.whisper.model import Whisper

__all__ = ["Whisper"]
