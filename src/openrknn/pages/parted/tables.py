"""The tables of the page: decisions, inputs and outputs, shapes, the operators of CPU parts, accuracy at borders."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from openrknn.analysis.parted.borders import PartedComparison, decibels_text, verdict
from openrknn.analysis.parted.report import PartedReport, PartReport, port_text
from openrknn.container.bundle import Port
from openrknn.pages.frame import grade
from openrknn.pages.markup import Content, Markup, breakable, clean, join, tag
from openrknn.pages.parted.strips import types_text
from openrknn.quantities import count_text, duration, shape_text, size_text

__all__ = ["accuracy", "decisions", "ends", "notes", "operators", "shapes"]

_MOST_NOTES = 400
_LONGEST_NAME = 32


def _table(heads: Sequence[str], rows: Iterable[Markup], numbers: Iterable[str] = ()) -> Markup:
    right = set(numbers)
    head = tag("thead", tag("tr", *(tag("th", name, class_="num" if name in right else None) for name in heads)))
    return tag("div", tag("table", head, tag("tbody", *rows)), class_="table scroll")


def decisions(report: PartedReport) -> Markup:
    """A row for each part: what is in it, what it costs on either side, and why it is where it is."""
    heads = ("#", "Where", "Operators", "Products", "on the NPU", "NPU", "CPU", "Reads", "Makes", "Why")
    right = ("#", "Products", "on the NPU", "NPU", "CPU")
    return _table(heads, map(_decision, report.ordered()), right)


def _decision(part: PartReport) -> Markup:
    taken = part.kind == "npu"
    npu = "–" if part.npu_us is None else duration(part.npu_us / 1e6)
    return tag(
        "tr",
        tag("td", part.number, class_="num"),
        tag("td", tag("span", part.kind.upper(), class_=f"pill {part.kind}")),
        tag("td", tag("b", f"{part.operators:,}"), " ", clean(types_text(part, 5), 120), class_="name"),
        tag("td", count_text(part.macs) if part.macs else "", class_="num"),
        tag("td", f"{part.share:.0%}" if part.macs else "", class_="num"),
        tag("td", npu, class_="num taken" if taken else "num muted"),
        tag("td", duration(part.cpu_us / 1e6), class_="num muted" if taken else "num taken"),
        tag("td", _values(part.inputs), class_="values"),
        tag("td", _values(part.outputs), class_="values"),
        tag("td", clean(part.problem or part.reason, 400), class_="wrap bad" if part.problem else "wrap"),
        id=f"part{part.number}",
    )


def _values(names: Sequence[str]) -> Markup:
    shown = [tag("span", breakable(_end_of(name)), title=clean(name)) for name in names[:3]]
    more = tag("span", f"and {len(names) - 3} more", class_="muted") if len(names) > 3 else None
    return join((*(tag("div", name) for name in shown), more))


def _end_of(name: str) -> str:
    """Exporters write whole paths; their ends tell values apart."""
    return clean(name if len(name) <= _LONGEST_NAME else f"…{name[-_LONGEST_NAME:]}")


def ends(report: PartedReport) -> Markup:
    """A card for each input and output."""
    cards = [_end("input", port) for port in report.inputs] + [_end("output", port) for port in report.outputs]
    return tag("div", *cards, class_="grid ends")


def _end(word: str, port: Port) -> Markup:
    kind, _, sizes = port_text(port).partition(" ")
    return tag(
        "article",
        tag("p", tag("span", word, class_="pill io"), " ", tag("b", clean(port.name, 80))),
        tag("p", clean(sizes.replace("x", "×") if sizes[:1].isdigit() else sizes, 80), " ",
            tag("span", clean(kind, 40), class_="muted"), class_="shape"),
        class_=f"card {word}",
    )  # fmt: skip


def shapes(report: PartedReport) -> Markup | None:
    """One row for each choice of input shapes; nothing where there is one."""
    if len(report.plans) < 2:
        return None
    rows = [
        tag(
            "tr",
            tag("td", clean(", ".join(f"{name} {shape_text(shape)}" for name, shape in plan.shapes.items()) or "any"),
                class_="name"),
            tag("td", clean(" ".join(map(str, plan.parts)), 120), class_="name"),
            tag("td", count_text(plan.macs), class_="num"),
            tag("td", f"{plan.npu_macs / plan.macs:.1%}" if plan.macs else "", class_="num"),
            tag("td", duration(plan.board_us / 1e6), class_="num"),
        )
        for plan in report.plans
    ]  # fmt: skip
    right = ("Products", "on the NPU", "Board")
    return _table(("Input shapes", "Parts", "Products", "on the NPU", "Board"), rows, right)


def operators(parts: Iterable[PartReport]) -> Markup | None:
    """What CPU parts are made of, one card for each."""
    cards = [_card(part) for part in parts if part.kind == "cpu"]
    return tag("div", *cards, class_="grid") if cards else None


def _card(part: PartReport) -> Markup:
    top = max(part.types.values(), default=1)
    lines = [
        tag("div", tag("span", clean(kind, 40), class_="label"),
            tag("span", tag("span", style=f"--p:{count / top:.1%}"), class_="track"),
            tag("span", count, class_="value"), class_="line cpu")
        for kind, count in list(part.types.items())[:12]
    ]  # fmt: skip
    more = len(part.types) - 12
    return tag(
        "article",
        tag("h3", tag("span", "CPU", class_="pill cpu"), f" part {part.number}, {size_text(part.size_bytes)}"),
        tag("div", *lines, class_="bars"),
        tag("p", f"and {more} more types", class_="muted") if more > 0 else None,
        class_="card",
    )


def notes(report: PartedReport) -> Markup | None:
    """Why operators stay on the CPU, one by one."""
    if not report.notes:
        return None
    rows = []
    for note in report.notes[:_MOST_NOTES]:
        who, _, why = note.partition(": ")
        rows.append(tag("tr", tag("td", breakable(clean(who, 120)), class_="name"), tag("td", clean(why, 300),
                                                                                         class_="wrap")))  # fmt: skip
    left_out = len(report.notes) - len(rows)
    table = _table(("Operator", "Why it stays on the CPU"), rows)
    return join((tag("div", table, class_="tall scroll"), tag("p", f"and {left_out} more") if left_out else None))


def accuracy(found: PartedComparison | None) -> Markup | None:
    """Every value between parts beside the ONNX model's."""
    if found is None:
        return None
    heads = ("Part", "Where", "Value", "Type and shape", "After all parts", "Its own part", "Cosine", "Max error", "")
    right = ("Part", "After all parts", "Its own part", "Cosine", "Max error")
    rows = []
    for entry in found.borders:
        free = entry.free
        rows.append(tag(
            "tr",
            tag("td", entry.part, class_="num"),
            tag("td", tag("span", entry.kind.upper(), class_=f"pill {entry.kind}")),
            tag("td", breakable(clean(entry.value, 80)), class_="name"),
            tag("td", f"{entry.dtype} {shape_text(entry.shape)}"),
            tag("td", decibels_text(entry, free), class_=f"num level {grade(free.snr_db if free else None)}"),
            tag("td", decibels_text(entry, entry.alone),
                class_=f"num level {grade(entry.alone.snr_db if entry.alone else None)}"),
            tag("td", "" if free is None or free.cosine is None else f"{free.cosine:.6f}", class_="num"),
            tag("td", "" if free is None else f"{free.max_error:.3g}", class_="num"),
            tag("td", tag("span", "output", class_="pill io") if entry.is_output else None),
        ))  # fmt: skip
    said: Content = clean(verdict(found), 400)
    mark = tag("span", "look" if found.is_bad else "good", class_=f"mark {'poor' if found.is_bad else 'good'}")
    return join((tag("p", mark, said), _table(heads, rows, right)))
