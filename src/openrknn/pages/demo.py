"""The page of the demo: one file, nothing from the network."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

from openrknn.pages.frame import asset, document
from openrknn.pages.markup import Markup, join, tag
from openrknn.quantities import duration

__all__ = ["Part", "render"]

_NEXT = """openrknn classify MODEL.rknn PICTURE             what is on your photo
openrknn detect YOLO.rknn PHOTOS/ --save out     boxes, with your own detector
openrknn ocr DET.rknn PAGE.jpg --reader REC.rknn text, found and read
openrknn inspect MODEL.rknn                      what is in a model
openrknn run MODEL.rknn --input PICTURE          any model, all of its outputs"""


@dataclass
class Part:
    """One thing that the demo did, for the page."""

    heading: str
    about: str
    model: str
    seconds: float
    pictures: list[tuple[str, bytes]] = field(default_factory=list)
    """File name and JPEG."""
    lines: list[tuple[float, str]] = field(default_factory=list)
    """How sure, and what."""


def render(parts: Sequence[Part], seconds: float) -> str:
    """The page as one text."""
    intro = (
        "These results were computed without a board and without the vendor's library: "
        "the software NPU executed the register commands inside the .rknn files, the same ones that an RK3588 executes."
    )
    body = tag(
        "main",
        tag("h1", "openrknn at work"),
        tag("p", f"{intro} All of it took {duration(seconds)}.", class_="soft"),
        *(_part(part) for part in parts),
        tag("h2", "What to try next"),
        tag("pre", _NEXT),
    )
    return document("openrknn demo", body, style=asset("demo.css"), pictures=True)


def _part(part: Part) -> Markup:
    pictures = join(_picture(name, data) for name, data in part.pictures)
    rows = join(_row(share, text) for share, text in part.lines)
    return tag(
        "section",
        tag("h2", part.heading),
        tag("p", f"{part.about}. {part.model}, {duration(part.seconds)} per run.", class_="soft"),
        tag("div", pictures, class_="pictures") if part.pictures else None,
        tag("table", rows),
    )


def _picture(name: str, data: bytes) -> Markup:
    encoded = base64.b64encode(data).decode("ascii")
    return Markup(f'<img src="data:image/jpeg;base64,{encoded}" alt="{escape(name)}">')


def _row(share: float, text: str) -> Markup:
    strength = Markup(f'<div style="width:{100 * share:.1f}%"></div>')
    return tag(
        "tr", tag("td", f"{100 * share:.0f} %", class_="share"), tag("td", strength, class_="bar"), tag("td", text)
    )
