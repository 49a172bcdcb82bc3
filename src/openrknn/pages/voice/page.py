"""The page of `openrknn transcribe --report`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from openrknn.pages.frame import asset, document, folded, footer, more_numbers, section, verdict
from openrknn.pages.markup import Content, Markup, clean, coded, tag
from openrknn.pages.voice.score import rows
from openrknn.quantities import count_of, duration
from openrknn.voice.audio import Audio
from openrknn.voice.results import Detection, Transcript

__all__ = ["Heard", "render"]

_SURE = 0.6
_SUBTITLES = "`openrknn transcribe FILE --srt OUT.srt` writes subtitles"
"""Below this mean probability of the tokens, transcripts of noise and of unknown languages begin."""


@dataclass(frozen=True)
class Heard:
    """Everything that the page shows."""

    name: str
    audio: Audio
    transcript: Transcript
    chances: Sequence[tuple[float, float]] = ()
    """Time in seconds, probability of speech."""
    wakes: Sequence[Detection] = ()
    facts: Sequence[tuple[str, str]] = field(default=())
    """What else belongs into the head: the models, the device."""


def render(heard: Heard, command: str = "openrknn transcribe") -> str:
    """The page as one text."""
    transcript = heard.transcript
    header = tag(
        "header",
        tag("p", command, class_="brand"),
        tag("h1", clean(heard.name)),
        _verdict(heard),
        more_numbers([(key, clean(value, 60), "") for key, value in heard.facts]) if heard.facts else None,
    )
    text = tag("p", clean(transcript.text, 20_000) or "No speech was found.", class_="alltext")
    score = rows(heard.audio, heard.chances, transcript.segments, heard.wakes)
    note = "From top to bottom: the waveform, the probability of speech, and the text."
    body = tag(
        "main",
        header,
        section("text", "Transcript", text),
        section("score", "Over time", tag("div", *score, class_="card scores"), note=note),
        folded("segments", "Segments", _table(transcript) if transcript.segments else None),
    )
    style = asset("style.css") + asset("voice/page.css")
    return document(f"{clean(heard.name, 60)} · {command}", Markup(body + footer(command)), style=style)


def _verdict(heard: Heard) -> Markup:
    """How much was understood, and how sure the model is of it."""
    parts = heard.transcript.segments
    words, said = len(heard.transcript.text.split()), sum(max(part.end - part.start, 0.0) for part in parts)
    known = [(part.confidence, max(part.end - part.start, 0.01)) for part in parts if part.confidence]
    sure = sum(value * length for value, length in known) / sum(length for _, length in known) if known else None
    doubtful = min((part for part in parts if part.confidence), key=lambda part: part.confidence, default=None)
    if not words:
        level, sentence = "fair", "No speech was found"
        step: Content = "listen to the file: is it silent, or in a language that the model does not know?"
    elif sure is not None and sure < _SURE and doubtful is not None:
        level, sentence = "fair", f"{count_of(words, 'word')}; the model is not sure of all of them"
        step = f"check the segment at {doubtful.start:.1f} s, or use a larger model"
    else:
        level, sentence = "good", f"{count_of(words, 'word')} in {count_of(len(parts), 'segment')}"
        step = coded(_SUBTITLES)
    numbers = [
        ("Audio", duration(heard.audio.seconds), f"{duration(said)} of speech"),
        ("Words", f"{words:,}", count_of(len(parts), "segment")),
        ("Confidence", "unknown" if sure is None else f"{100 * sure:.0f} %", "mean over the speech" if known else ""),
    ]
    return verdict(level, sentence, numbers, step)


def _table(transcript: Transcript) -> Markup:
    head = tag("tr", *(tag("th", words, scope="col") for words in ("start", "end", "confidence", "text")))
    lines = [
        tag("tr", tag("td", f"{part.start:.2f} s", class_="number"), tag("td", f"{part.end:.2f} s", class_="number"),
            tag("td", f"{100 * part.confidence:.0f} %" if part.confidence else "", class_="number"),
            tag("td", clean(part.text.strip(), 2000)))
        for part in transcript.segments
    ]  # fmt: skip
    return tag("div", tag("table", tag("thead", head), tag("tbody", *lines)), class_="table heard")
