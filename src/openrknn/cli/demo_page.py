"""The page of the demo: one file, nothing from the network."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from openrknn.cli.report.markup import Markup, join, tag
from openrknn.cli.run_text import duration

if TYPE_CHECKING:
    from openrknn.cli.demo_run import Part

__all__ = ["render"]

_STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1c1e21; --soft: #5c6370; --line: #d9dce1; --bar: #2f9e63; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #16181c; --ink: #e6e8eb; --soft: #9aa1ad; --line: #33373e; --bar: #43b97f; }
}
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 2rem 1rem 4rem; }
h1 { font-size: 1.8rem; margin: 0 0 .3rem; } h2 { font-size: 1.25rem; margin: 2.5rem 0 .2rem; }
p { margin: .3rem 0 .8rem; } .soft { color: var(--soft); }
.pictures { display: flex; flex-wrap: wrap; gap: .8rem; margin: .8rem 0; }
.pictures img { max-width: 100%; height: auto; max-height: 17rem; border-radius: 4px; border: 1px solid var(--line); }
table { border-collapse: collapse; } td { padding: .1rem .8rem .1rem 0; vertical-align: middle; }
td.share { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; } td.bar { width: 12rem; }
td.bar div { background: var(--bar); height: .8rem; border-radius: 2px; }
pre { background: color-mix(in srgb, var(--ink) 6%, transparent); padding: .8rem; border-radius: 4px; }
pre { overflow-x: auto; }
"""
_NEXT = """openrknn classify MODEL.rknn PICTURE             what is on your photo
openrknn detect YOLO.rknn PHOTOS/ --save out     boxes, with a detector of yours
openrknn ocr DET.rknn PAGE.jpg --reader REC.rknn text, found and read
openrknn inspect MODEL.rknn                      what is in a model
openrknn run MODEL.rknn --input PICTURE          any model, all of its outputs"""


def render(parts: Sequence[Part], seconds: float) -> str:
    """The page as one text."""
    intro = (
        "These results were computed without a board, without the vendor's library and without a network connection: "
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
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", "openrknn demo"),
        tag("style", Markup(_STYLE)),
    )
    return f"<!doctype html>\n{tag('html', head, tag('body', body), lang='en')}\n"


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
