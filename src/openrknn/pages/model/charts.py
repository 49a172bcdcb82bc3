"""Where the work and the bytes go: bars by operator type, the heaviest operators, memory, and the cores' shares."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from openrknn.chips import TaskList
from openrknn.pages.markup import Content, Markup, clean, join, tag
from openrknn.pages.model.texts import macs, percent
from openrknn.pages.model.view import View, op_name
from openrknn.quantities import size_text

__all__ = ["cost", "memory_totals", "task_lists"]

_MAX_BARS = 10
_TAIL_COMMANDS = 4


class Bar(NamedTuple):
    """One line of a chart."""

    label: Content
    value: int
    text: str
    look: str = ""


def cost(view: View) -> Markup:
    """Three charts: MACs by type, weights by type, the operators with most MACs."""
    totals = view.report.totals
    weights = sum(row.weight_bytes for row in view.operators)
    return tag(
        "div",
        _by_type(view, "MACs by operator type", "macs", totals.macs),
        _by_type(view, "Weights by operator type", "weight_bytes", weights),
        _heaviest(view),
        class_="grid charts",
    )


def _by_type(view: View, title: str, field: str, whole: int) -> Markup:
    sums: dict[str, tuple[int, int]] = {}
    for row in view.operators:
        value, number = sums.get(row.type, (0, 0))
        sums[row.type] = value + (getattr(row, field) or 0), number + 1
    ranked = sorted(((value, name, number) for name, (value, number) in sums.items() if value), reverse=True)
    bars = [Bar(f"{clean(name, 28)} ×{number}", value, percent(value, whole)) for value, name, number in ranked]
    if len(bars) > _MAX_BARS:
        rest = sum(bar.value for bar in bars[_MAX_BARS - 1 :])
        bars[_MAX_BARS - 1 :] = [Bar(f"{len(bars) - _MAX_BARS + 1} other types", rest, percent(rest, whole))]
    said = macs(whole) if field == "macs" else size_text(whole)
    return _card(title, said, bars, "nothing to show")


def _heaviest(view: View) -> Markup:
    whole = view.report.totals.macs
    ranked = sorted((row for row in view.operators if row.macs), key=lambda row: -(row.macs or 0))[:_MAX_BARS]
    bars = [
        Bar(
            tag("a", f"#{row.index} {clean(row.type, 24)}", href=f"#{view.prefix}n{row.index}", data_op=row.index,
                title=op_name(row)),
            row.macs or 0,
            f"{macs(row.macs)} · {percent(row.macs or 0, whole)}",
        )
        for row in ranked
    ]  # fmt: skip
    share = percent(sum(bar.value for bar in bars), whole)
    return _card("Heaviest operators", f"{share} of all MACs" if bars else "", bars, "no MACs")


def memory_totals(view: View) -> Markup:
    """What has to be in memory before the first run."""
    totals = view.report.totals
    parts = [
        Bar("Weights", totals.weight_bytes, size_text(totals.weight_bytes), "c-weights"),
        Bar("Compiler constants and tables", totals.constant_bytes, size_text(totals.constant_bytes), "c-constants"),
        Bar(
            "Internal: inputs, outputs, between", totals.internal_bytes, size_text(totals.internal_bytes), "c-internal"
        ),
        Bar("Register commands", totals.command_bytes, size_text(totals.command_bytes), "c-commands"),
    ]
    whole = sum(bar.value for bar in parts)
    stack = tag(
        "div",
        *(
            tag("span", class_=bar.look, style=f"--p:{100 * bar.value / whole:.4g}%", title=f"{bar.label}: {bar.text}")
            for bar in parts
            if bar.value
        ),
        class_="stack",
        role="img",
        aria_label="; ".join(f"{bar.label}: {bar.text}" for bar in parts),
    )
    keys = (
        tag("li", tag("span", class_=f"dot {bar.look}"), bar.label, tag("b", bar.text),
            tag("span", percent(bar.value, whole), class_="muted"))
        for bar in parts
        if bar.value
    )  # fmt: skip
    return tag(
        "div",
        tag("h3", "In memory at run time ", tag("span", size_text(whole), class_="muted")),
        stack if whole else None,
        tag("ul", *keys, class_="keys"),
        class_="card",
    )


def task_lists(view: View) -> Markup:
    """One block per number of cores, one bar per core."""
    lists = view.graph.task_lists
    most = max((len(numbers) for numbers in lists.values()), default=0)
    blocks = [
        tag(
            "div",
            tag("h3", f"{cores} core{'s' * (cores > 1)}"),
            _bars([_core_bar(view, entry) for entry in lists if entry.core_count == cores], most),
            tag("p", _split_text(view, cores), class_="muted"),
            class_="card",
        )
        for cores in sorted({entry.core_count for entry in lists})
    ]
    return tag("div", *blocks, class_="grid charts cores") if blocks else tag("p", "This graph has no NPU task.")


def _core_bar(view: View, entry: TaskList) -> Bar:
    numbers = view.graph.task_lists[entry]
    words = sum(task.amount + _TAIL_COMMANDS for task in view.graph.tasks[numbers.start : numbers.stop])
    return Bar(f"core {entry.core}", len(numbers), f"{len(numbers):,} tasks · {words:,} commands")


def _split_text(view: View, cores: int) -> str:
    lists = [numbers for entry, numbers in view.graph.task_lists.items() if entry.core_count == cores]
    sets = [{task.op_index for task in view.graph.tasks[numbers.start : numbers.stop]} for numbers in lists]
    every = set().union(*sets)
    if cores == 1:
        return f"{len(every):,} operators have tasks."
    shared = sum(sum(index in one for one in sets) > 1 for index in every)
    return f"{shared:,} of {len(every):,} operators are split over several cores."


def _card(title: str, said: str, bars: list[Bar], empty: str) -> Markup:
    top = max((bar.value for bar in bars), default=0)
    content = _bars(bars, top) if bars else tag("p", empty, class_="muted")
    return tag("div", tag("h3", title, " ", tag("span", said, class_="muted")), content, class_="card")


def _bars(bars: Iterable[Bar], top: int) -> Markup:
    lines = (
        tag(
            "div",
            tag("span", bar.label, class_="label"),
            tag("span", tag("span", style=f"--p:{100 * bar.value / top:.4g}%" if top else None), class_="track"),
            tag("span", bar.text, class_="value"),
            class_="line",
        )
        for bar in bars
    )
    return tag("div", join(lines), class_="bars")
