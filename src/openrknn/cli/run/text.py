"""What `openrknn run` prints, as text and as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from openrknn.cli.common.inputs import Array
from openrknn.cli.common.output import Output, printable
from openrknn.cli.common.tables import bar, facts, indented, table, title
from openrknn.cli.run.results import Class, Outcome, Summary
from openrknn.quantities import duration, shape_text

__all__ = ["as_json", "show"]

_BAR_CELLS = 24
_NARROW = 80
"""Columns below which the name of a class needs the room of the bar."""


def show(output: Output, outcome: Outcome, about: Mapping[str, Any]) -> None:
    """Inputs, results, and how long it took."""
    rows = [(item.name, f"{item.source}{f'  ({item.how})' if item.how else ''}") for item in outcome.fed]
    if outcome.best is not None and outcome.labels is not None:
        rows.append(("labels", outcome.labels.path))
    run = f"{duration(about['run_seconds'])} on {about['device']}, {duration(about['load_seconds'])} to set up"
    output.show(facts([*rows, ("run", run), *(("note", note) for note in about["notes"])]))
    if outcome.best is not None:
        first = outcome.summaries[0]
        heading = f"{first.name}  {first.dtype} {shape_text(first.shape)}"
        output.show(title(printable(heading)), *indented(_best(outcome.best, output)))
    else:
        output.show(title("Outputs"), *indented(_summaries(outcome.summaries)))


def _best(best: Sequence[Class], output: Output) -> Table:
    """The best classes with bars."""
    is_narrow = output.console.width < _NARROW
    columns = ("probability", "", "class", "name", "score")
    shown = tuple(column for column in columns if not (is_narrow and column in {"", "score"}))
    rows = table(*shown, right=("probability", "class", "score"), wrap=("name",))
    ascii_only = output.console.options.ascii_only
    for place, entry in enumerate(best):
        cells: dict[str, Text] = {
            "probability": Text(f"{100 * entry.probability:.1f} %"),
            "": Text(bar(entry.probability, _BAR_CELLS, ascii_only=ascii_only).ljust(_BAR_CELLS), "green"),
            "class": Text(str(entry.number), "dim"),
            "name": Text(printable(entry.label), "bold" if place == 0 else ""),
            "score": Text(_number(entry.score), "dim"),
        }
        rows.add_row(*(cells[column] for column in shown))
    return rows


def _summaries(summaries: Sequence[Summary]) -> Table:
    with_trouble = any(item.not_finite for item in summaries)
    columns = ["name", "shape", "dtype", "min", "max", "mean", *(["not finite"] if with_trouble else [])]
    rows = table(*columns, right=columns[3:], wrap=("name", "shape"))
    for item in summaries:
        trouble = [Text(str(item.not_finite), "bold red" if item.not_finite else "dim")] if with_trouble else []
        rows.add_row(
            Text(printable(item.name), "bold green"),
            shape_text(item.shape),
            item.dtype,
            *(_number(number) for number in (item.minimum, item.maximum, item.mean)),
            *trouble,
        )
    return rows


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.5g}"


def as_json(outcome: Outcome, files: Mapping[str, str]) -> dict[str, Any]:
    """The outcome as JSON; numbers that JSON does not have become null."""
    inputs = [
        {"name": item.name, "source": item.source, "how": item.how, **_form(item.array)} for item in outcome.fed
    ]
    outputs = [
        {**_fields(item), "shape": list(item.shape), "file": files.get(item.name)} for item in outcome.summaries
    ]
    named = outcome.labels if outcome.best is not None else None
    return {
        "inputs": inputs,
        "outputs": outputs,
        "labels": named.path if named else None,
        "top": None if outcome.best is None else [_fields(entry) for entry in outcome.best],
    }


def _form(array: Array) -> dict[str, Any]:
    return {"shape": list(array.shape), "dtype": array.dtype.name}


def _fields(item: Summary | Class) -> dict[str, Any]:
    found = {name: getattr(item, name) for name in item.__slots__}
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in found.items()
    }
