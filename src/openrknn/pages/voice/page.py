"""The page of `openrknn transcribe --report`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from openrknn.pages.frame import asset, document, footer, section
from openrknn.pages.markup import Markup, clean, tag
from openrknn.pages.voice.score import rows
from openrknn.quantities import duration
from openrknn.voice.audio import Audio
from openrknn.voice.results import Detection, Transcript

__all__ = ["Heard", "render"]


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
    numbers = [
        ("sound", duration(heard.audio.seconds)),
        ("words", str(len(transcript.text.split()))),
        ("segments", str(len(transcript.segments))),
        *heard.facts,
    ]
    tiles = tag(
        "dl", *(tag("div", tag("dt", key), tag("dd", clean(value, 60))) for key, value in numbers), class_="numbers"
    )
    header = tag("header", tag("p", "openrknn · what was heard", class_="brand"), tag("h1", clean(heard.name)), tiles)
    text = tag("p", clean(transcript.text, 20_000) or "Nothing was said.", class_="alltext")
    score = rows(heard.audio, heard.chances, transcript.segments, heard.wakes)
    note = "Above the sound as it is, in the middle how sure the voice detector is of speech, below what was said."
    body = tag(
        "main",
        header,
        section("text", "What was said", text),
        section("score", "When", tag("div", *score, class_="card scores"), note=note),
        section("segments", "Segments", _table(transcript) if transcript.segments else None),
    )
    style = asset("style.css") + asset("voice/page.css")
    return document(f"{clean(heard.name, 60)}: what was heard", Markup(body + footer(command)), style=style)


def _table(transcript: Transcript) -> Markup:
    head = tag("tr", *(tag("th", words, scope="col") for words in ("from", "to", "sure", "text")))
    lines = [
        tag("tr", tag("td", f"{part.start:.2f} s", class_="number"), tag("td", f"{part.end:.2f} s", class_="number"),
            tag("td", f"{100 * part.confidence:.0f} %" if part.confidence else "", class_="number"),
            tag("td", clean(part.text.strip(), 2000)))
        for part in transcript.segments
    ]  # fmt: skip
    return tag("div", tag("table", tag("thead", head), tag("tbody", *lines)), class_="table heard")
