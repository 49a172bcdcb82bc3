"""What the commands for pictures print, as text and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.text import Text

from openrknn.cli.common.output import Output, printable
from openrknn.cli.common.tables import bar, facts, indented, table
from openrknn.quantities import count_of, duration
from openrknn.vision.result import Result
from openrknn.vision.results import Objects, Reading

__all__ = ["as_json", "show_picture", "show_summary"]

_MOST_ROWS = 30
_BAR_CELLS = 20
_NARROW = 80
"""Columns below which names need the room of the bar."""


def show_picture(output: Output, result: Result, *, top: int) -> None:
    """One picture: a headline and what was found."""
    if output.is_human:
        output.show(_headline(result))
        rows = list(result.rows(top))[:_MOST_ROWS]
        if rows:
            output.show(*indented(_table(output, result, rows)))
        if isinstance(result.found, Objects) and len(result.found) > _MOST_ROWS:
            output.line(f"  ... and {len(result.found) - _MOST_ROWS} more; --json lists all")
    elif not output.is_json:
        for row in result.rows(top):
            output.value(f"{result.name}  {_quiet(row)}")


def _headline(result: Result) -> Text:
    size = f"{result.size[0]}x{result.size[1]}" if result.size is not None else ""
    text = Text.assemble((printable(result.name), "bold"), (f"  {size}  {duration(result.run_seconds)}", "dim"))
    return text.append(f"  {result.in_words()}")


def _table(output: Output, result: Result, rows: list[dict[str, Any]]) -> Any:
    """The columns depend on what it is."""
    ascii_only = output.console.options.ascii_only
    has_bar = output.console.width >= _NARROW
    columns = [name for name in _columns(result) if name or has_bar]
    drawn = table(*columns, right=("score",), wrap=("name", "text"))
    for row in rows:
        value = float(row.get("score", row.get("probability", row.get("share", 0.0))))
        strength = bar(value, _BAR_CELLS, ascii_only=ascii_only).ljust(_BAR_CELLS)
        cells = [Text(f"{100 * value:.1f} %"), *([Text(strength, "green")] if has_bar else [])]
        if "label" in row:
            cells.append(Text(printable(row["label"]), "bold"))
        if "text" in row:
            cells.append(Text(printable(row["text"]), "bold"))
        if "box" in row:
            cells.append(Text(_box(row["box"]), "dim"))
        drawn.add_row(*cells)
    return drawn


def _columns(result: Result) -> list[str]:
    match result.found:
        case Objects():
            text = ["text"] if result.found.texts is not None else [] if result.task == "text" else ["name"]
            return ["score", "", *text, "left top right bottom"]
        case Reading():
            return ["score", "", "text"]
        case _:
            return ["score", "", "name"]


def _box(box: list[float]) -> str:
    return " ".join(f"{round(value):4d}" for value in box)


def _quiet(row: Mapping[str, Any]) -> str:
    parts = [f"{row[key]:.4f}" for key in ("score", "probability", "share") if key in row]
    parts += [str(row[key]) for key in ("label", "text") if key in row]
    return "  ".join([*parts, *([_box(row["box"])] if "box" in row else [])])


def show_summary(output: Output, about: Mapping[str, Any], *, count: int, problems: int, saved: str | None) -> None:
    """How many, how fast, where the pictures are."""
    if not output.is_human:
        return
    speed = about["pictures_per_second"]
    pictures = f"{count_of(count, 'picture')}, {speed:.3g} per second on {about['device']}"
    rows = [("done", f"{pictures}{' (interrupted)' if about['interrupted'] else ''}")]
    if problems:
        rows.append(("skipped", f"{count_of(problems, 'picture')} that could not be read"))
    rows.append(("saved", f"{saved}/" if saved else "nothing; --save DIR writes annotated pictures"))
    output.line()
    output.show(facts(rows))


def as_json(result: Result, file: str | None, *, top: int) -> dict[str, Any]:
    """One picture for programs."""
    return {
        "name": result.name,
        "width": result.size[0] if result.size is not None else None,
        "height": result.size[1] if result.size is not None else None,
        "problem": result.problem or None,
        "found": list(result.rows(top)),
        "notes": list(result.notes),
        "file": file,
        "seconds": {
            "prepare": result.prepare_seconds,
            "run": result.run_seconds,
            "decode": result.decode_seconds,
        },
        **({"copies": result.copies} if result.copies is not None else {}),
    }
