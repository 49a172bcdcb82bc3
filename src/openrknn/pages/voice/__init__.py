"""What was heard, as a page: the sound, how sure the model was of speech, and the words below."""

from __future__ import annotations

from openrknn.pages.voice.page import Heard, render

__all__ = ["Heard", "render"]
