"""The page of `openrknn lint --report`: the findings of one or more files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from openrknn.analysis.lint import Finding, Severity, next_step
from openrknn.pages.frame import asset, document, finding_card, footer, verdict
from openrknn.pages.markup import Markup, clean, coded, join, tag
from openrknn.quantities import count_of

__all__ = ["render"]

_LEVELS = {Severity.ERROR: "poor", Severity.WARNING: "fair"}
_MOST = 200


def render(results: Sequence[tuple[str, Sequence[Finding] | str]], *, ran: bool) -> str:
    """The page as one text. `results`: each file with its findings, or with why it could not be read."""
    names = [clean(PurePath(path).name, 60) for path, _ in results]
    title = names[0] if len(names) == 1 else count_of(len(names), "model")
    body = tag(
        "main",
        tag("header", tag("p", "openrknn lint", class_="brand"), tag("h1", title), _verdict(results, ran=ran)),
        *(_file(name, result) for name, (_, result) in zip(names, results, strict=True)),
    )
    return document(f"{title} · openrknn lint", join((body, footer("openrknn lint"))), style=asset("style.css"))


def _verdict(results: Sequence[tuple[str, Sequence[Finding] | str]], *, ran: bool) -> Markup:
    found = [finding for _, result in results if not isinstance(result, str) for finding in result]
    unread = sum(isinstance(result, str) for _, result in results)
    counts = {severity: sum(finding.severity is severity for finding in found) for severity in Severity}
    worst = max((finding.severity for finding in found), key=list(Severity).index, default=None)
    level = "poor" if unread else _LEVELS.get(worst, "good") if worst else "good"
    if unread:
        sentence = f"{count_of(unread, 'file')} could not be read"
    elif level == "good":
        sentence = "No conversion mistakes were found"
    else:
        sentence = next(finding.what for finding in found if finding.severity is worst)
    numbers = [(f"{severity}s".capitalize(), str(counts[severity]), "") for severity in reversed(Severity)]
    step = "give a file that can be read" if unread else coded(next_step(found, ran=ran))
    return verdict(level, sentence, numbers, step)


def _file(name: str, result: Sequence[Finding] | str) -> Markup:
    if isinstance(result, str):
        return tag("section", tag("h2", name), tag("p", clean(result, 600)))
    ranked = sorted(result, key=lambda finding: -list(Severity).index(finding.severity))
    left_out = len(ranked) - _MOST
    return tag(
        "section",
        tag("h2", name),
        tag("ul", *map(_finding, ranked[:_MOST]), class_="findings") if ranked else tag("p", "Nothing found."),
        tag("p", f"and {left_out} more: see --json", class_="muted") if left_out > 0 else None,
    )


def _finding(finding: Finding) -> Markup:
    return finding_card(
        str(finding.severity),
        tag("b", finding.code),
        tag("p", clean(str(finding.where), 300), class_="muted"),
        tag("p", clean(finding.what, 600)),
        tag("p", clean(finding.why, 600)) if finding.why else None,
        tag("p", "→ ", clean(finding.change, 600), class_="do") if finding.change else None,
    )
