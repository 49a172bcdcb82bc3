"""The page: summary, pictures, tables. One file that loads nothing and needs no script."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from openrknn.compiler.priorities import Change, changes
from openrknn.compiler.rows import Row, rows_of
from openrknn.pages.compiled.charts import cores_chart, noise_chart, time_chart
from openrknn.pages.compiled.ranges import RANGES, ranges_table
from openrknn.pages.frame import (
    asset,
    decibels,
    document,
    folded,
    footer,
    grade,
    more_numbers,
    navigation,
    section,
    verdict,
)
from openrknn.pages.markup import Content, Markup, breakable, clean, join, tag
from openrknn.quantities import count_of, count_text, duration, size_text

if TYPE_CHECKING:
    from openrknn.compiler import Compiled

__all__ = ["render"]

_COLUMNS = (
    "#", "Operator", "Where", "From ONNX", "Output", "Tiles", "Cores", "Read kB", "Written kB", "kCycles",
    "Waits for", "Weights dB", "Output dB",
)  # fmt: skip
_TEXT = {"Operator", "Where", "From ONNX", "Output", "Tiles", "Waits for"}
_MOST_NAMES = 4
_PLACES = (("time", "Time"), ("noise", "Signal"), ("operators", "Operators"), ("tasks", "Tasks"))
_MOST_TASKS = 64


def render(compiled: Compiled, facts: dict[str, Any]) -> str:
    """The page as one text."""
    rows = rows_of(compiled)
    first = changes(rows, can_mix=compiled.lowering.program.target.can_mix)
    title = clean(PurePath(facts["model"]).name, 120)
    body = tag(
        "main",
        tag("header", tag("p", "openrknn compile", class_="brand"), tag("h1", title),
            tag("p", _lead(facts, rows), class_="lead"), _verdict(facts, first), more_numbers(_numbers(facts, rows))),
        _checked(facts["check_result"]),
        _verdicts(facts, rows),
        _first(first),
        section("time", "Where the time goes", time_chart(rows), note=_TIME),
        section("noise", "What is left of the signal", noise_chart(rows), note=_NOISE[facts["format"]]),
        section("cores", "Several cores", cores_chart(facts["estimated_cycles_by_cores"], rows), note=_CORES),
        _precision(facts),
        folded("ranges", "Ranges", ranges_table(compiled.ranges), note=RANGES),
        folded("operators", "Operators", _table(rows), note=_OPERATORS),
        folded("tasks", "Tasks", join(_tasks(row) for row in rows if row.tasks), note=_TASKS),
    )  # fmt: skip
    style = asset("style.css") + asset("compiled/page.css")
    whole = join((navigation(_PLACES, body), body, footer("openrknn compile")))
    return document(f"{title} · openrknn compile", whole, style=style)


_TIME = (
    "Every operator in execution order; the width shows its time. Each is a link into the table. Time is estimated "
    "from the registers of the tasks: the slowest of array, table, DPU and memory, and the start of tasks and jobs, at "
    "the rates of published board figures."
)
_CORES = (
    "An estimate: cores share the memory, so what waits for it gains less than the number of cores (on a board three "
    "cores made additions and copies 1.6 times as fast)."
)
_SIGNAL = (
    "The software NPU beside ONNX in float on the first input, after each operator: 6 dB are one bit. A cliff is where "
    "accuracy gets lost"
)
_NOISE = {
    "int8": f"{_SIGNAL}; --auto-mixed gives fp16 to what needs it.",
    "mixed": f"{_SIGNAL}.",
    "fp16": f"{_SIGNAL}; fp16 has 60 dB and more as a rule.",
}
_OPERATORS = (
    "Bytes and cycles are counted in the registers; concatenations, splits and reshapes that are only addresses have "
    "no row. From ONNX: what was fused into it. Weights dB: what rounding them leaves. Tasks, bytes and cycles are "
    "those of one core; a number under # leads to the tasks."
)
_TASKS = "What each operator asks of the NPU, task by task: `openrknn disasm` shows their registers."


def _lead(facts: dict[str, Any], rows: list[Row]) -> str:
    count = sum(1 for row in rows if row.is_cpu)
    where = "everything on the NPU" if not count else f"{count} of {len(rows)} operators on the CPU"
    return f"{facts['format']} for {facts['target']}, {where}, compiled in {facts['seconds']:.1f} s"


def _verdict(facts: dict[str, Any], first: Sequence[Change]) -> Markup:
    """Whether the file can be used, in one sentence; time, accuracy and size; what to do next."""
    found = facts["check_result"]
    if not found["checked"]:
        level, sentence = "fair", found["text"]
    elif found["warnings"]:
        level, sentence = "poor", found["warnings"][0]
    else:
        level, sentence = grade(found["snr_db"]) or "good", found["verdict"]
    accuracy = (("Accuracy", f"{found['snr_db']:.1f} dB", "worst output against float"),) if found.get("snr_db") else ()
    size = ("File", size_text(facts["size_bytes"]), f"{facts['format']} for {facts['target']}")
    if level == "good" and not first:
        step: Markup | str = tag("code", f"openrknn run {clean(PurePath(facts['model']).name, 60)} --input FILE")
    elif first:
        step = join((tag("a", clean(first[0].name, 60), href=f"#op{first[0].number}"), f": {first[0].text}"))
    else:
        step = "the check below names what was run and what it found"
    return verdict(level, sentence, (*_times(facts), *accuracy, size), step)


def _numbers(facts: dict[str, Any], rows: list[Row]) -> tuple[tuple[str, str, str], ...]:
    (_, cycles), *more = facts["estimated_cycles_by_cores"].items()
    worst = min((entry["snr_db"] for entry in facts.get("verify", ())), default=None)
    macs = sum(row.macs for row in rows)
    return (
        ("Tasks", f"{facts['tasks']}", f"in {count_of(facts['submits'], 'job')}"),
        *_times(facts),
        ("Cycles, estimated", count_text(cycles), facts["bound_text"]),
        *((f"On {cores} cores", count_text(shorter), "cycles") for cores, shorter in more),
        ("Moved per run", size_text(facts["moved_bytes"]), "by DMA"),
        ("Products", count_text(macs), "multiply-accumulate"),
        *((("Worst output", f"{worst:.1f} dB", "against float"),) if worst is not None else ()),
        ("Weights", size_text(facts["weight_bytes"]), ""),
        ("Internal memory", size_text(facts["internal_bytes"]), ""),
        ("File", size_text(facts["size_bytes"]), ""),
    )  # fmt: skip


def _times(facts: dict[str, Any]) -> tuple[tuple[str, str, str], ...]:
    """Nothing where no board figure exists."""
    time, low, high = facts["time_ms"], facts["low_ms"], facts["high_ms"]
    if time is None:
        return ()
    span = f"{duration(low / 1e3)} to {duration(high / 1e3)}" if low else ""
    return (("Time on a board", duration(time / 1e3), span),)


def _checked(found: dict[str, Any]) -> Markup:
    """What was run before the file was written, on what, and what came of it."""
    said: list[tuple[str, str]] = [("poor", text) for text in found["warnings"]]
    if not found["checked"]:
        said = [("poor", found["text"])]
    else:
        if not said:
            said.append((grade(found["snr_db"]), found["verdict"]))
        said += [("fair", text) for text in found["notes"]]
        said.append(("run", found["extent"]))
    lines = join(tag("li", tag("span", mark, class_=f"mark {mark}"), clean(text, 600)) for mark, text in said)
    return tag("section", tag("h2", "Verification"), tag("ul", lines, class_="verdicts"), id="check")


def _verdicts(facts: dict[str, Any], rows: Sequence[Row]) -> Markup:
    """One line per output, in the colours of the chart below; and whether layers are worse than the outputs."""
    entries = facts.get("verify") or ()
    if not entries:
        return join(())
    said = [(_mark(entry), entry["text"]) for entry in entries]
    said += [("vendor", entry["text"]) for entry in facts.get("vendor", ())]
    levels = [grade(row.output_db) for row in rows if row.output_db is not None]
    if "poor" in levels and all(mark != "poor" for mark, _ in said):
        said.append(("fair", f"{levels.count('poor')} of {len(levels)} operators are below 20 dB on the way there"))
    lines = join(tag("li", tag("span", mark, class_=f"mark {mark}"), clean(text, 400)) for mark, text in said)
    return tag("section", tag("h2", "Compared with ONNX in float and the vendor's runtime"),
               tag("ul", lines, class_="verdicts"))  # fmt: skip


def _first(found: Sequence[Change]) -> Markup:
    """What to change first; each is a link into the table."""
    if not found:
        return join(())
    lines = join(
        tag("li", tag("span", change.kind, class_=f"mark {change.kind}"),
            tag("a", clean(change.name, 60), href=f"#op{change.number}"), f": {change.size}; {change.text}")
        for change in found
    )  # fmt: skip
    return tag("section", tag("h2", "What to change first"), tag("ul", lines, class_="verdicts"), id="first")


def _mark(entry: dict[str, Any]) -> str:
    return (grade(entry["snr_db"]) if entry["is_good"] else "") or "poor"


def _precision(facts: dict[str, Any]) -> Markup:
    """Mixed models: which format each operator has, and why."""
    choices = facts.get("precision") or ()
    if not choices:
        return join(())
    intro = "Operators that are fp16 were named by hand, or move numbers of such."
    if "mixed_snr_db" in facts:
        intro = (
            "Each operator alone in int8, the rest in fp16: what is left of the signal at the worst output. The model "
            f"reaches {facts['mixed_snr_db']:.1f} dB; wanted were {facts['min_snr_db']:.1f} dB."
        )
    head = tag("tr", join(tag("th", name) for name in ("Operator", "Format", "Why")))
    rows = join(
        tag("tr", join((tag("td", breakable(clean(choice["operator"], 60))), tag("td", choice["precision"]),
                        tag("td", choice["reason"]))))
        for choice in choices
    )  # fmt: skip
    table = tag("div", tag("table", tag("thead", head), tag("tbody", rows)), class_="table")
    return tag("section", tag("h2", "int8 and fp16"), tag("p", intro, class_="intro"), table)


def _table(rows: list[Row]) -> Markup:
    top = max((row.cycles for row in rows), default=1) or 1
    head = tag("tr", join(tag("th", name, class_=None if name in _TEXT else "number") for name in _COLUMNS))
    lines = []
    for row in rows:
        cells: tuple[Content, ...] = (
            tag("a", str(row.number), href=f"#tasks{row.number}") if row.tasks else str(row.number),
            clean(row.type, 40),
            tag("span", f"{'CPU' if row.is_cpu else 'NPU'} {row.format}", class_=f"where {row.kind}"),
            _sources(row), row.shape, row.tiles, str(row.cores) if row.tasks else "",
            f"{row.read_bytes / 1e3:.1f}" if row.tasks else "", f"{row.written_bytes / 1e3:.1f}" if row.tasks else "",
            f"{row.cycles / 1e3:.1f}" if row.tasks else "", row.bound,
            decibels(row.weights_db), decibels(row.output_db),
        )  # fmt: skip
        lines.append(tag("tr", join(_cell(name, cell, row, top) for name, cell in zip(_COLUMNS, cells, strict=True)),
                         id=f"op{row.number}"))  # fmt: skip
    return tag("div", tag("table", tag("thead", head), tag("tbody", join(lines))), class_="table")


def _cell(name: str, cell: Content, row: Row, top: int) -> Markup:
    if name == "kCycles" and row.cycles:
        return tag("td", cell, class_="number bar", style=f"--p:{row.cycles / top:.1%}")
    if name == "Output dB" and row.output_db is not None:
        return tag("td", cell, class_=f"number level {grade(row.output_db)}")
    return tag("td", cell, class_=("name" if name == "From ONNX" else None) if name in _TEXT else "number")



def _sources(row: Row) -> Markup:
    """The first by its whole name, operators fused into it by the last part of their names."""
    names = [clean(name, 60) for name in row.sources]
    others = [name.rpartition("/")[2] or name for name in names[1:_MOST_NAMES]]
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return tag("span", breakable(names[0]), "".join(f" + {name}" for name in others), more, title=", ".join(names))


def _tasks(row: Row) -> Markup:
    """The tasks of one operator, folded away."""
    columns = ("Task", "Blocks", "Writes C×H×W", "Weights", "Read kB", "Written kB", "Cycles", "Bound", "Registers")
    head = tag("tr", join(tag("th", name, class_="number" if at > 3 else None) for at, name in enumerate(columns)))
    lines = [
        tag("tr", join((tag("td", str(number)), tag("td", task.blocks), tag("td", task.made),
                        tag("td", "kept in the buffer" if task.keeps_weights else ""),
                        tag("td", f"{task.read_bytes / 1e3:.1f}", class_="number"),
                        tag("td", f"{task.written_bytes / 1e3:.1f}", class_="number"),
                        tag("td", f"{task.cycles}", class_="number"), tag("td", task.bound, class_="number"),
                        tag("td", str(task.registers), class_="number"))))
        for number, task in enumerate(row.tasks[:_MOST_TASKS])
    ]  # fmt: skip
    summary = tag(
        "summary", tag("a", str(row.number), href=f"#op{row.number}"),
        f" {clean(row.type, 40)} {clean(row.name, 60)}: ",
        f"{count_of(len(row.tasks), 'task')}, {row.cycles / 1e3:.1f} k cycles",
    )  # fmt: skip
    table = tag("div", tag("table", tag("thead", head), tag("tbody", join(lines))), class_="table")
    return tag("details", summary, table, id=f"tasks{row.number}", class_="tasks")
