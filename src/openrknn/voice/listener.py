"""What a family of speech-to-text models offers, and what it is asked.

FAMILIES names the class of each family, made with (set, device). A class is a `Listener`; one that has a state of its
own from window to window (sliding context, a streaming model) offers `stream` as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, Protocol, cast

import numpy.typing as npt

from openrknn.voice.audio.sound import Samples
from openrknn.voice.errors import VoiceSetError
from openrknn.voice.partials import SHARE
from openrknn.voice.results import Segment, Word
from openrknn.voice.segments import Activity, Rules
from openrknn.voice.sets import VoiceSet

FAMILIES = {
    "moonshine": "openrknn.voice.moonshine:Moonshine",
    "whisper": "openrknn.voice.whisper:Whisper",
    "transducer": "openrknn.voice.transducer:Transducer",
    "sensevoice": "openrknn.voice.sanm.sensevoice:SenseVoice",
    "paraformer": "openrknn.voice.sanm.paraformer:Paraformer",
}
"""Family of a set -> the class that listens, made with (set, device)."""
TASKS = ("transcribe", "translate")
AUTO = "auto"
"""The language that is to be detected."""
TEMPERATURES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""Tried in turn until a text is neither repetitive nor improbable."""


@dataclass(frozen=True, slots=True)
class ListenOptions:
    """Options of a transcription; a model reports unsupported ones (`check`) and applies the others."""

    language: str = ""
    """A code such as "de"; "auto" or "" to detect it, where a model knows several."""
    task: str = "transcribe"
    """Or "translate": into English."""
    prompt: str = ""
    """Text that could have come before: names and terms, spelled as they should be."""
    hotwords: str = ""
    """Words to expect; unlike the prompt, said again to every window."""
    words: bool = False
    """Times of every word."""
    beam: int = 1
    temperatures: tuple[float, ...] = TEMPERATURES
    context: bool = True
    """Whether a window sees the text of the one before."""
    filters: bool = True
    """Drop a window that is probably silence, and try again one that repeats itself."""
    partial: bool = False
    """A partial result: it will be replaced, so one quick try is enough. Set by streams."""
    previous: tuple[int, ...] = ()
    """Tokens of the text before. Set by streams."""

    def __post_init__(self) -> None:
        if not 1 <= self.beam <= 16:
            raise VoiceSetError(f"a beam of {self.beam} texts makes no sense; 1 (greedy) to 16 are allowed")
        if self.task not in TASKS:
            raise VoiceSetError(f"no task is called {self.task!r:.40}; there are {', '.join(TASKS)}")
        usable = all(0 <= one <= 2 for one in self.temperatures)
        if not self.temperatures or not usable:
            raise VoiceSetError(f"temperatures are numbers from 0 to 2, not {self.temperatures!r:.60}")
        if len(self.prompt) > _MOST_TEXT or len(self.hotwords) > _MOST_TEXT:
            raise VoiceSetError(f"a prompt has {_MOST_TEXT} characters at most")


_MOST_TEXT = 20_000


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of what was heard, with times in seconds from the beginning of the sound that was given."""

    start: float
    end: float
    text: str
    tokens: tuple[int, ...] = ()
    words: tuple[Word, ...] = ()
    logs: tuple[float, ...] = ()
    """Logarithm of the probability of each token."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What a model makes of a piece of sound. Values that a family does not have are None."""

    text: str
    tokens: tuple[int, ...] = ()
    confidence: float = 0.0
    """The geometric mean of the tokens' probabilities."""
    pieces: tuple[Piece, ...] = ()
    """Parts with times of their own; none: the text belongs to all of the sound."""
    words: tuple[Word, ...] = ()
    """Where there are no pieces."""
    language: str = ""
    """What was detected, or asked for."""
    no_speech_prob: float | None = None
    temperature: float = 0.0
    seconds: float | None = None
    """How much of the sound this is about; None: all of it."""
    logs: tuple[float, ...] = ()
    """Logarithm of the probability of each token, where there are no pieces."""
    tags: tuple[str, ...] = ()
    """What a model says of the sound besides its words: "en", "HAPPY", "Speech", "BGM"."""

    @property
    def avg_logprob(self) -> float | None:
        """Mean logarithm of the tokens' probabilities."""
        return math.log(self.confidence) if self.confidence > 0 else None


class Listener(Protocol):
    """A speech model: what a family has to offer."""

    rate: int
    longest: float
    """Seconds that it takes at once."""

    def hear(self, samples: Samples, options: ListenOptions, /) -> Heard:
        """Sound of at most `longest` seconds to text."""

    def close(self) -> None:
        """Give everything back."""


# A listener may have besides (looked up by name, so that a small one needs none of them):
#   languages  codes of the languages that it knows; else the one of its set
#   tasks      TASKS that it can do; else "transcribe"
#   has_words  True: it has times of words
#   has_prompts  True: it reads `prompt` and `hotwords`;   has_beams  True: it follows several texts
#   least_confidence  of a text that is kept: below it, the sound was noise or another language; else 0
#   token_bytes  (token) -> bytes of text that a token stands for; with `logs`, clients can ask how sure it is of each
#   stream     (StreamParts) -> TextStream | None: a stream of its own; None: take the usual one


class TextStream(Protocol):
    """Audio blocks in, segments out. `TranscriptStream` is the usual one."""

    on_chance: Callable[[float, float], None] | None
    hearing_seconds: float

    @property
    def seconds(self) -> float:
        """Sound that came, in all."""

    @property
    def language(self) -> str:
        """Detected by now, or asked for; "" if nothing is known."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What somebody should know who reads the text."""

    def feed(self, samples: npt.NDArray[Any]) -> list[Segment]:
        """More sound (floats at the model's rate): what is new because of it."""

    def finish(self) -> list[Segment]:
        """The sound is over: the rest of the text."""

    def close(self) -> None:
        """Discard the rest."""


@dataclass(frozen=True)
class StreamParts:
    """What a stream is made of."""

    hear: Callable[[Samples, ListenOptions], Heard]
    """The listener's own, one caller at a time."""
    activity: Activity | None
    rules: Rules
    options: ListenOptions
    partial: float
    """Seconds of sound between partial results; 0: final ones only, as for a recording."""
    on_close: Callable[[], None] | None = None
    warnings: tuple[str, ...] = ()
    partial_share: float = SHARE
    """What partial results may cost, as a part of the cost of final ones; infinite: a result whenever it is time."""
    least_confidence: float = 0.0
    """A text that the model is less sure of is none: noise, or a language that it does not know."""
    languages: tuple[str, ...] = ()


def open_listener(voice: VoiceSet, device: str) -> Listener:
    """The model of a set, by its family."""
    place = FAMILIES.get(voice.family)
    if place is None:
        raise VoiceSetError(
            f"{voice.folder}: the family {voice.family!r} is unknown; the choices are {', '.join(FAMILIES)}"
        )
    module, _, name = place.partition(":")
    return cast(Listener, getattr(import_module(module), name)(voice, device))


def check(listener: Listener, language: str, options: ListenOptions) -> tuple[ListenOptions, tuple[str, ...]]:
    """The options that the model can follow, and a warning for each that it cannot. `language` is the set's."""
    known: Sequence[str] = getattr(listener, "languages", None) or (language[:2],)
    told, wanted = [], options.language.lower().replace("_", "-").split("-")[0]
    names = ", ".join(known) if len(known) <= _FEW else f"{len(known)} languages"
    if wanted in ("", AUTO):
        wanted = known[0] if len(known) == 1 else AUTO
    if wanted and wanted != AUTO and wanted not in known:
        told.append(f"this model does not know the language {options.language!r} (it knows {names}): the text of "
                    "another language is nonsense")  # fmt: skip
        wanted = known[0] if len(known) == 1 else AUTO
    if options.task not in getattr(listener, "tasks", ("transcribe",)):
        told.append(f"this model cannot {options.task}: the text is in the language that was spoken")
        options = replace(options, task="transcribe")
    if options.words and not getattr(listener, "has_words", False):
        told.append("this model has no times of words: words share the time of their segment")
    if (options.prompt.strip() or options.hotwords.strip()) and not getattr(listener, "has_prompts", False):
        told.append("this model takes no prompt and no hotwords: they change nothing")
    if options.beam > 1 and not getattr(listener, "has_beams", False):
        told.append(f"this model follows one text: a beam of {options.beam} changes nothing")
    return replace(options, language=wanted), tuple(told)


_FEW = 12
