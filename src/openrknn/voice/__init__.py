"""Sound in, text out; text in, sound out.

from openrknn.voice import Transcriber

with Transcriber("moonshine-tiny") as listen:
    print(listen("beckett.wav").text)

audio       Audio: numbers and their rate;   files, streams, microphones, other rates
activity    VoiceActivity: where somebody speaks;   spans: by which rules
speaker     Speaker: text in, a voice out;   piper, kokoro, matcha: families;   products: graphs of any length;
            text: numbers in words, SSML
transcriber Transcriber: sound to text;   stream: while it is spoken;   segments: its pauses
listener    ListenOptions: what is asked of a model;   the families of models and what they offer;   moonshine: one
denoiser    Denoiser: speech without its noise
wake        Wake: wake words
pitch       Pitch: how high a voice is;   notes: Notes: which notes are played
features    spectra, mel bands, cepstra, as librosa, Whisper and Kaldi have them
sets        a folder with the models of a voice, made by `openrknn voice get`
results     segments with times, transcripts, subtitles
errors      what can go wrong
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openrknn.lazy import lazy_names
from openrknn.voice.audio import Audio
from openrknn.voice.errors import AudioError, MicrophoneError, PhonemeError, VoiceSetError
from openrknn.voice.results import Detection, Segment, Span, Transcript, Word
from openrknn.voice.sets import VoiceSet, open_set

if TYPE_CHECKING:
    from openrknn.voice.activity import VoiceActivity
    from openrknn.voice.denoiser import Denoiser
    from openrknn.voice.listener import ListenOptions
    from openrknn.voice.notes import Note, Notes
    from openrknn.voice.pitch import Pitch, PitchTrack
    from openrknn.voice.spans import SpeechRules
    from openrknn.voice.speaker import Speaker
    from openrknn.voice.stream import TranscriptStream
    from openrknn.voice.transcriber import Transcriber
    from openrknn.voice.wake import Wake

__all__ = [
    "Audio", "AudioError", "Denoiser", "Detection", "ListenOptions", "MicrophoneError", "Note", "Notes", "PhonemeError",
    "Pitch", "PitchTrack", "Segment", "Span", "Speaker", "SpeechRules", "Transcriber", "Transcript", "TranscriptStream",
    "VoiceActivity", "VoiceSet", "VoiceSetError", "Wake", "Word", "open_set",
]  # fmt: skip

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "activity": "VoiceActivity",
        "denoiser": "Denoiser",
        "listener": "ListenOptions",
        "notes": "Note Notes",
        "pitch": "Pitch PitchTrack",
        "spans": "SpeechRules",
        "speaker": "Speaker",
        "stream": "TranscriptStream",
        "transcriber": "Transcriber",
        "wake": "Wake",
    },
)
