"""The frame of every page: one file, nothing from the network, no script but the page's own.

The policy in its head makes the browser hold the page to that: styles stand in the page, the one script is named by its
digest, pictures are `data:` addresses where a page has some, and everything else is refused.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from importlib import resources

from openrknn.pages.markup import Content, Markup, clean, coded, tag

__all__ = [
    "asset", "decibels", "document", "finding_card", "folded", "footer", "grade", "key_number", "more_numbers",
    "navigation", "section", "verdict",
]  # fmt: skip


def asset(name: str) -> Markup:
    """A style or a script next to the code of the pages: `style.css`, `model/script.js`."""
    return Markup(resources.files("openrknn.pages").joinpath(name).read_text(encoding="utf-8"))


def document(title: str, body: Markup, *, style: str, script: str = "", pictures: bool = False) -> str:
    """The whole page as one text."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="generator", content="openrknn"),  # by it a later command knows that it may replace the page
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(script, pictures=pictures)),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Markup(style)),
    )
    page = tag("html", head, tag("body", body, tag("script", Markup(script)) if script else None), lang="en")
    return f"<!doctype html>\n{page}\n"


def _policy(script: str, *, pictures: bool) -> str:
    rules = ["default-src 'none'", "style-src 'unsafe-inline'"]
    if pictures:
        rules.append("img-src data:")
    if script:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        rules.append(f"script-src 'sha256-{digest}'")
    return "; ".join([*rules, "base-uri 'none'"])


def navigation(places: Iterable[tuple[str, str]], body: str | None = None) -> Markup:
    """Links to the sections: (place, words); only to those that `body` has, where it is given."""
    places = [place for place in places if body is None or f'id="{place[0]}"' in body]
    return tag("nav", *(tag("a", words, href=f"#{place}") for place, words in places), aria_label="Sections")


def section(place: str, title: str, *content: Content, note: str = "") -> Markup | None:
    """A part of the page with a heading, and an introduction if there is one; nothing without content."""
    if not any(content):
        return None
    heading = tag("h2", title, id=f"{place}-title")
    intro = tag("p", coded(note), class_="intro") if note else None
    return tag("section", heading, intro, *content, id=place, aria_labelledby=f"{place}-title")


def folded(place: str, title: str, *content: Content, note: str = "") -> Markup | None:
    """A section that readers open: long tables. A link to anything inside opens it, too."""
    if not any(content):
        return None
    heading = tag("summary", tag("h2", title, id=f"{place}-title"))
    inside = tag("div", tag("p", coded(note), class_="intro") if note else None, *content, id=place)
    return tag("section", tag("details", heading, inside, class_="folded"), aria_labelledby=f"{place}-title")


def verdict(level: str, sentence: str, numbers: Iterable[tuple[str, str, str]], next_step: Content = None) -> Markup:
    """The top of a report: one sentence, up to three numbers, what to do next. `level`: good, fair or poor."""
    word = {"good": "OK", "fair": "Check", "poor": "Problem"}[level]
    if sentence.partition(" ")[0].isalpha():  # not the name of a file
        sentence = f"{sentence[:1].upper()}{sentence[1:]}"
    step = tag("p", tag("b", "Next: "), next_step, class_="next") if next_step else None
    return tag(
        "div",
        tag("p", tag("span", word, class_=f"badge {level}"), " ", clean(sentence, 400), class_="sentence"),
        tag("dl", *(key_number(*number) for number in list(numbers)[:3]), class_="numbers"),
        step,
        class_=f"verdict {level}",
    )


def more_numbers(numbers: Iterable[tuple[str, str, str]]) -> Markup:
    """The numbers that a verdict has no place for."""
    shown = tag("dl", *(key_number(*number) for number in numbers), class_="numbers")
    return tag("details", tag("summary", "All numbers"), shown, class_="about")


def footer(command: str) -> Markup:
    """Who wrote the page."""
    return tag("footer", tag("p", f"Written by {command}. This page is one file and loads nothing."))


def finding_card(severity: str, *content: Content) -> Markup:
    """One finding in a list of class `findings`: its severity, then what is said about it."""
    badge = tag("span", severity, class_="badge")
    return tag("li", badge, tag("div", *content), class_=f"finding {severity}")


def key_number(label: str, value: str, more: str = "") -> Markup:
    """One of the numbers below the title."""
    return tag("div", tag("dt", label), tag("dd", value), tag("dd", more, class_="muted") if more else None)


def decibels(value: float | None) -> str:
    """ "31.4"; nothing where nothing was measured."""
    return "" if value is None else f"{value:.1f}"


def grade(value: float | None) -> str:
    """One scale for verdicts, charts and tables: int8 networks that keep their accuracy have 30 dB and more."""
    return "" if value is None else "good" if value >= 30 else "fair" if value >= 20 else "poor"
