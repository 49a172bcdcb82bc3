"""`openrknn compare` of a model in parts: every value between parts beside the ONNX model's."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from openrknn.analysis.parted.borders import (
    Border,
    Closeness,
    PartedComparison,
    compare_parts,
    comparison_json,
    decibels_text,
    verdict,
)
from openrknn.cli.common.files import os_problem, save_page
from openrknn.cli.common.output import CommandError, Output, printable
from openrknn.cli.common.parts import example_for, parted_arrays
from openrknn.cli.common.tables import facts, indented, table, title
from openrknn.quantities import shape_text

if TYPE_CHECKING:
    from openrknn.cli.common.inputs import Array
    from openrknn.container.bundle import Bundle

__all__ = ["compare_parted"]

SCHEMA_VERSION = 1
EXIT_DRIFT = 1
_COLOURS = {"npu": "green", "cpu": "yellow"}


def compare_parted(bundle: Bundle, arguments: argparse.Namespace, output: Output) -> int:
    """Compare one model in parts with its source."""
    if arguments.reference != "float":
        raise CommandError("--reference quantized is for one .rknn; a model in parts is compared with the model itself")
    known = {port.name for port in bundle.inputs}
    fixed = [word for word in arguments.input if _is_fixed(word, known)]
    words = [word for word in arguments.input if word not in fixed]
    fed = parted_arrays(bundle, words) if words else example_for(bundle)
    try:
        feed = {**{item.name: item.array for item in fed}, **dict(map(_constant, fixed))}
        found = compare_parts(bundle, arguments.onnx, feed, limit=arguments.limit, device=arguments.device)
    except (ValueError, TypeError) as error:
        raise CommandError(str(error)) from error
    output.data({"schema_version": SCHEMA_VERSION, **comparison_json(found)})
    if arguments.html:
        from openrknn.pages.parted.page import parted_page

        save_page(arguments.html, parted_page(bundle, comparison=found, command="openrknn compare"), output)
        output.line(verdict(found))
    elif output.is_human:
        sources = "; ".join(f"{item.name}: {item.source}" for item in fed)
        rows = [("model", found.model), ("reference", f"{found.onnx} ({found.engine})"), ("device", found.device)]
        output.show(facts([*rows, ("fed", sources)]))
        output.show(title("Values that cross a border"), *indented(_table(found)))
        output.show(title(printable(verdict(found))))
    else:
        output.value(verdict(found))
    return EXIT_DRIFT if found.is_bad else 0


def _is_fixed(word: str, known: set[str]) -> bool:
    """NAME=FILE for an input that only the ONNX model has: it was made a constant (`compile --constant`)."""
    name, separator, path = word.partition("=")
    return bool(separator) and name not in known and path.lower().endswith(".npy") and not os.path.exists(word)


def _constant(word: str) -> tuple[str, Array]:
    from openrknn.numpyfiles import read_npy

    name, _, path = word.partition("=")
    try:
        return name, read_npy(path)
    except OSError as error:
        raise CommandError(os_problem(error, path)) from error


def _table(found: PartedComparison) -> Table:
    columns = ("part", "on", "value", "shape", "all parts", "this part", "cosine", "max error", "")
    rows = table(*columns, right=columns[4:8], wrap=("value",))
    bad = set(found.bad_outputs)
    for entry in found.borders:
        free = entry.free
        style = "red" if entry in bad else ""
        rows.add_row(
            str(entry.part),
            Text(entry.kind.upper(), _COLOURS[entry.kind]),
            Text(printable(entry.value), "bold"),
            f"{entry.dtype} {shape_text(entry.shape)}",
            Text(_text(entry, free), style),
            _text(entry, entry.alone),
            "" if free is None or free.cosine is None or entry.is_exact_type else f"{free.cosine:.6f}",
            "" if free is None else f"{free.max_error:.3g}",
            "output" if entry.is_output else "",
        )
    return rows


def _text(entry: Border, found: Closeness | None) -> str:
    return decibels_text(entry, found)
