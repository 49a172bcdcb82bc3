"""Whisper: windows of 30 s, an encoder, and a decoder that writes text with times.

family      Whisper: a set of the family, opened;   model: its nets;   vocabulary: its tokens
search      a window's text: rules for tokens, greedy, sampled and beam search, second tries
words       times of words from cross attention;   windows: recordings, window by window
"""

from __future__ import annotations

from openrknn.voice.whisper.family import Whisper

__all__ = ["Whisper"]
