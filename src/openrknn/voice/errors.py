"""What can go wrong between a sound and its text, and the other way."""

from __future__ import annotations

from openrknn.errors import RknnError


class AudioError(RknnError):
    """A recording cannot be read, or is not what a model takes; the message says which, where and why."""


class MicrophoneError(AudioError):
    """No microphone can be opened, or it went away while it was read."""


class VoiceSetError(RknnError):
    """A folder with the models of a voice is not there, is broken, or holds another kind of models."""


class UnknownSpeakerError(VoiceSetError):
    """A text or a program names a speaker that a voice does not have."""


class PhonemeError(RknnError):
    """Text cannot be said: no phonemes, or phonemes that the voice does not know."""
