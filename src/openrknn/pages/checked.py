"""The page of `openrknn check --report`, from what `--json` prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from openrknn.pages.frame import asset, document, footer, verdict
from openrknn.pages.markup import Markup, clean, coded, join, tag
from openrknn.quantities import count_of, duration

__all__ = ["render"]

_LOOKS = {"passed": "io", "failed": "custom", "error": "custom"}
_BAD = ("failed", "error")


def render(outcomes: Sequence[Mapping[str, Any]], next_step: str = "") -> str:
    """The page as one text."""
    names = [clean(PurePath(entry["model"]).name, 60) for entry in outcomes]
    title = names[0] if len(names) == 1 else count_of(len(names), "model")
    body = tag(
        "main",
        tag("header", tag("p", "openrknn check", class_="brand"), tag("h1", title), _verdict(outcomes, next_step)),
        *(_model(name, entry) for name, entry in zip(names, outcomes, strict=True)),
    )
    return document(f"{title} · openrknn check", join((body, footer("openrknn check"))), style=asset("style.css"))


def _verdict(outcomes: Sequence[Mapping[str, Any]], next_step: str) -> Markup:
    checks = [(entry, check) for entry in outcomes for check in entry["checks"]]
    bad = [(entry, check) for entry, check in checks if check["status"] in _BAD]
    if bad:
        entry, check = bad[0]
        level, sentence = "poor", f"{PurePath(entry['model']).name}: {check['name']}: {check['text']}"
    else:
        level, sentence = "good", f"{count_of(len(outcomes), 'model')} as recorded"
    numbers = [
        ("Checks", str(len(checks)), f"of {count_of(len(outcomes), 'model')}"),
        ("Failed", str(len(bad)), ""),
        ("Time", duration(sum(entry["seconds"] for entry in outcomes)), ""),
    ]
    return verdict(level, sentence, numbers, coded(next_step) if next_step else None)


def _model(name: str, entry: Mapping[str, Any]) -> Markup:
    head = tag("tr", *(tag("th", words, scope="col") for words in ("check", "result", "measured")))
    rows = [row for check in entry["checks"] for row in _rows(check)]
    about = " · ".join(filter(None, (entry["chip"], entry["device"], f"golden: {entry['golden']}")))
    return tag(
        "section",
        tag("h2", name),
        tag("p", clean(about, 300), class_="intro"),
        *(tag("p", clean(note, 400)) for note in entry["notes"]),
        tag("div", tag("table", tag("thead", head), tag("tbody", *rows)), class_="table scroll"),
    )


def _rows(check: Mapping[str, Any]) -> list[Markup]:
    pill = tag("span", check["status"], class_=f"pill {_LOOKS.get(check['status'], 'cpu')}")
    measured = tag("td", clean(check["text"], 400), class_="wrap")
    rows = [tag("tr", tag("td", clean(check["name"], 80)), tag("td", pill), measured)]
    for finding in check["findings"]:
        text = f"{finding['severity']}: {finding['text']}" + (f" → {finding['do']}" if finding["do"] else "")
        rows.append(tag("tr", tag("td"), tag("td"), tag("td", clean(text, 600), class_="wrap muted")))
    return rows
