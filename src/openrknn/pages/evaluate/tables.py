"""Tables of an evaluation: the metrics, the classes, and which classes are taken for which."""

from __future__ import annotations

from collections.abc import Sequence

from openrknn.evaluate.metrics.names import METRICS
from openrknn.evaluate.metrics.scores import ClassScore
from openrknn.evaluate.report import Report
from openrknn.pages.markup import Markup, clean, join, tag

__all__ = ["classes", "confusion", "metrics"]

_LARGEST_MATRIX = 30
_MOST_PAIRS = 40
_WORSE = 0.01


def _table(heads: Sequence[str], rows: Sequence[Markup], look: str = "") -> Markup:
    cells = (tag("th", words, scope="col", class_="num" if at and not look else None) for at, words in enumerate(heads))
    grid = tag("table", tag("thead", tag("tr", *cells)), tag("tbody", *rows))
    return tag("div", grid, class_=f"table scroll tall {look}".strip())


def metrics(report: Report) -> Markup:
    """Both models beside each other."""
    has_float = report.reference is not None
    heads = ["metric", "NPU" if has_float else "value", *(["float", "loss"] if has_float else [])]
    rows = []
    for name, value in report.model.scores.values.items():
        metric = METRICS[name]
        about = tag("span", f" {metric.about}", class_="muted")
        cells = [tag("td", metric.title, about, class_="name"), _cell(name, value)]
        if report.reference is not None:
            cells += [_cell(name, report.reference.scores.values.get(name)), _loss(name, report.drop_of(name))]
        rows.append(tag("tr", *cells))
    return _table(heads, rows)


def _cell(name: str, value: float | None, bar: bool = False) -> Markup:
    style = f"--p:{100 * value:.1f}%" if bar and value is not None and METRICS[name].is_share else None
    return tag("td", METRICS[name].text(value), class_="num bar" if style else "num", style=style)


def _loss(name: str, drop: float | None) -> Markup:
    if drop is None:
        return tag("td", "-", class_="num")
    text = f"{100 * drop:+.1f}" if METRICS[name].is_share else f"{drop:+.3g}"
    return tag("td", text, class_="num worse" if METRICS[name].is_share and drop > _WORSE else "num")


def classes(report: Report) -> Markup | None:
    """All classes that the samples have, by name."""
    rows = [row for row in report.model.scores.classes if row.count]
    if not rows:
        return None
    others = {row.name: row for row in report.reference.scores.classes} if report.reference else {}
    name, more = report.primary, list(rows[0].more)
    title = METRICS[name].title
    heads = ["class", "count", f"{title} NPU" if others else title, *(["float", "loss"] if others else []),
             *(_title(key) for key in more)]  # fmt: skip
    return _table(heads, [_row(row, others.get(row.name), name, more, has_float=bool(others)) for row in rows])


def _title(key: str) -> str:
    return METRICS[key].title if key in METRICS else key


def _row(row: ClassScore, other: ClassScore | None, name: str, more: Sequence[str], *, has_float: bool) -> Markup:
    cells = [tag("td", clean(row.name, 60)), tag("td", row.count, class_="num"), _cell(name, row.value, bar=True)]
    if has_float:
        value = other.value if other is not None else None
        known = row.value is not None and value is not None
        cells.append(_cell(name, value))
        cells.append(_loss(name, METRICS[name].loss(row.value, value) if known else None))
    cells += [tag("td", METRICS["map"].text(row.more.get(key)), class_="num") for key in more]
    return tag("tr", *cells)


def confusion(report: Report) -> Markup | None:
    """A matrix of few classes; of many the pairs that are confused most often."""
    matrix = report.model.scores.confusion
    if matrix is None:
        return None
    names = [clean(row.name, 40) for row in report.model.scores.classes]
    if len(names) > _LARGEST_MATRIX:
        return _pairs(names, matrix.tolist())
    counts = matrix.tolist()
    has_others = any(row[-1] for row in counts)
    shown = [*names, "another"] if has_others else names
    rows = []
    for actual, row in enumerate(counts):
        total = max(sum(row), 1)
        cells = [tag("th", names[actual], scope="row")]
        for guess in range(len(shown)):
            look = "hit" if guess == actual else "miss"
            share = 100 * row[guess] / total
            cells.append(
                tag("td", row[guess] or "", class_=look if row[guess] else None,
                    style=f"--p:{min(12 + 0.6 * share, 70):.0f}%" if row[guess] else None)
            )  # fmt: skip
        rows.append(tag("tr", *cells))
    return _table(["is \\ was taken for", *shown], rows, "confusion")


def _pairs(names: Sequence[str], counts: Sequence[Sequence[int]]) -> Markup | None:
    found = [
        (count, actual, guess) for actual, row in enumerate(counts) for guess, count in enumerate(row)
        if count and guess != actual and guess < len(names)
    ]  # fmt: skip
    found.sort(key=lambda entry: (-entry[0], entry[1], entry[2]))
    rows = [tag("tr", tag("td", names[actual]), tag("td", names[guess], class_="num"), tag("td", count, class_="num"))
            for count, actual, guess in found[:_MOST_PAIRS]]  # fmt: skip
    if not rows:
        return None
    left = len(found) - _MOST_PAIRS
    note = tag("p", f"and {left} more pairs: see --json", class_="muted") if left > 0 else None
    return join((_table(["is", "was taken for", "times"], rows), note))
