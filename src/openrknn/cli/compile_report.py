"""The page about a compilation: what runs where, in how many tasks, with how many bytes, cycles and how much error."""

from __future__ import annotations

from importlib import resources
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from openrknn.cli.report.markup import Content, Markup, breakable, clean, join, tag

if TYPE_CHECKING:
    from openrknn.compiler import Compiled
    from openrknn.compiler.program import Step

__all__ = ["render"]

_COLUMNS = (
    "#", "Operator", "Where", "Format", "From ONNX", "Output", "Tasks", "Cores", "Read kB", "Written kB", "kCycles",
    "Weights dB",
)  # fmt: skip
_TEXT = {"Operator", "Where", "Format", "From ONNX", "Output"}
_MOST_NAMES = 4


def render(compiled: Compiled, facts: dict[str, Any]) -> str:
    """The page as one text; it loads nothing."""
    title = clean(PurePath(facts["model"]).name, 120)
    body = tag(
        "main",
        tag("header", tag("p", "openrknn compile", class_="brand"), tag("h1", title),
            tag("p", _lead(facts), class_="lead"), _numbers(facts)),
        _verdicts(facts),
        _precision(facts),
        tag("section", tag("h2", "Operators"), tag("p", _intro(), class_="intro"), _table(compiled)),
    )  # fmt: skip
    footer = tag("footer", tag("p", "Written by openrknn compile. This page is one file and loads nothing."))
    return _document(f"{title} · openrknn compile", join((body, footer)))


def _lead(facts: dict[str, Any]) -> str:
    return f"{facts['format']} for {facts['target']}, compiled in {facts['seconds']:.1f} s"


def _intro() -> str:
    return (
        "In execution order. Bytes and cycles are counted in the registers of the tasks; concatenations, splits and "
        "reshapes that are only addresses have no row. Weights dB: what rounding them to int8 leaves of the signal. "
        "Cores: how many can share the operator; tasks, bytes and cycles are those of one."
    )


def _numbers(facts: dict[str, Any]) -> Markup:
    _, *more = facts["estimated_cycles_by_cores"].items()
    shown = (
        ("Tasks", f"{facts['tasks']}"),
        ("Jobs", f"{facts['submits']}"),
        ("Moved per run", f"{facts['moved_bytes'] / 1e6:.2f} MB"),
        ("Cycles, estimated", f"{facts['estimated_cycles'] / 1e6:.2f} M"),
        *((f"On {cores} cores", f"{cycles / 1e6:.2f} M") for cores, cycles in more),
        ("Internal memory", f"{facts['internal_bytes'] / 1e6:.2f} MB"),
        ("File", f"{facts['size_bytes'] / 1e6:.2f} MB"),
    )
    return tag("dl", join(tag("div", tag("dt", name), tag("dd", value)) for name, value in shown), class_="numbers")


def _verdicts(facts: dict[str, Any]) -> Markup:
    entries = facts.get("verify") or ()
    if not entries:
        return join(())
    lines = join(tag("li", clean(entry["text"], 400)) for entry in (*entries, *facts.get("vendor", ())))
    return tag("section", tag("h2", "Against ONNX in float and the vendor's runtime"), tag("ul", lines))


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


def _format(compiled: Compiled, step: Step) -> str:
    tensors = compiled.lowering.program.tensors
    source, target = (tensors[names[0]].dtype.label for names in (step.inputs, step.outputs))
    return f"{source} to {target}" if step.type == "exDataConvert" else target


def _table(compiled: Compiled) -> Markup:
    program = compiled.lowering.program
    costs = {entry.index: entry for entry in compiled.costs[1].operators}
    first = len(program.inputs)
    head = tag("tr", join(tag("th", name, class_=None if name in _TEXT else "number") for name in _COLUMNS))
    rows = []
    for number, step in enumerate(program.steps):
        cost = costs.get(number + first)
        error = compiled.lowering.errors.get(step.name.partition(":")[2])
        cells: tuple[Content, ...] = (
            str(number), clean(step.type, 40), "CPU" if step.is_cpu else "NPU", _format(compiled, step),
            _sources(step), _output(compiled, step),
            str(cost.tasks) if cost else "", str(max(step.shares, default=1)) if cost else "",
            f"{cost.read_bytes / 1e3:.1f}" if cost else "", f"{cost.written_bytes / 1e3:.1f}" if cost else "",
            f"{cost.cycles / 1e3:.1f}" if cost else "", f"{error:.1f}" if error is not None else "",
        )  # fmt: skip
        rows.append(
            tag("tr", join(tag("td", cell, class_=None if name in _TEXT else "number")
                           for name, cell in zip(_COLUMNS, cells, strict=True)))
        )  # fmt: skip
    return tag("div", tag("table", tag("thead", head), tag("tbody", join(rows))), class_="table")


def _sources(step: Step) -> Markup:
    names = [clean(name, 60) for name in dict.fromkeys(step.fused)]
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return join([breakable(", ".join(names[:_MOST_NAMES])), more])


def _output(compiled: Compiled, step: Step) -> str:
    tensor = compiled.lowering.program.tensors[step.outputs[0]]
    return "×".join(map(str, tensor.shape))


def _document(title: str, body: Markup) -> str:
    style = resources.files("openrknn.cli.report").joinpath("style.css").read_text("utf-8")
    extra = "table{width:100%;border-collapse:collapse;font-size:.88rem}td,th{padding:4px 10px;text-align:left;" \
            "border-bottom:1px solid var(--line);vertical-align:top}.number{text-align:right;" \
            "font-variant-numeric:tabular-nums;white-space:nowrap}.table{overflow-x:auto}"  # fmt: skip
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy",
            content="default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        Markup(f"<style>{style}{extra}</style>"),
    )  # fmt: skip
    return f"<!DOCTYPE html>\n{tag('html', head, tag('body', body), lang='en')}\n"
