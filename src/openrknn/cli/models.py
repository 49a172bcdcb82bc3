"""`openrknn models`: the catalogue of public models."""

from __future__ import annotations

import argparse
import difflib
from pathlib import Path
from typing import TYPE_CHECKING

from openrknn.cli.common.catalogue import add_package_options
from openrknn.cli.common.output import CommandError, Output
from openrknn.cli.common.outputs import OutputFile
from openrknn.cli.common.progress import stages
from openrknn.quantities import size_text

if TYPE_CHECKING:
    from openrknn.cli.common.catalogue import Row

NAME = "models"
HELP = "list public models with licence, accuracy and estimated time, and get them by name"
DESCRIPTION = """`models list` shows every model that can be fetched by name: what it is for, its licence, the bytes to
download, the estimated time on a chip, and whether it is already on this machine. `models show` prints everything about
one model. `models get` downloads the public package that has it (once; an interrupted download continues), verifies
its checksum, compiles it for an NPU and stores it with its licence and source; language models are stored as they
are. A licence that restricts use (AGPL, non-commercial) has to be accepted with --accept-licence. Compiling needs the
packages onnx and onnxruntime; the compiled file does not, and can be copied to a board. See docs/models.md."""
EXAMPLES = (
    "openrknn models list                         all of them",
    "openrknn models list detector --target rk3576",
    "openrknn models show coco-ssd",
    "openrknn models get coco-ssd                 for this board, or rk3588",
    "openrknn models get yolov8n --accept-licence --target rk3576",
    "openrknn models get whisper-tiny",
)
_ACTIONS = ("list", "get", "show")
_WRAPPED = ("licence", "accuracy")
"""Columns of the list that may take several lines."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    parser.add_argument("action", choices=_ACTIONS, metavar="list|get|show", help="list models, get or show one")
    parser.add_argument("name", nargs="?", metavar="NAME", help="get, show: which; list: a kind or command")
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, action=OutputFile, makes_folder=True,
        help="get: where to write it (default: in openrknn's data folder)",
    )  # fmt: skip
    parser.add_argument("--target", metavar="CHIP", help="chip to compile for and to estimate (default: this board's, "
                        "else rk3588)")  # fmt: skip
    parser.add_argument("--precision", metavar="int8|fp16", help="get: numbers on the NPU (default: what `models show` "
                        "says)")  # fmt: skip
    add_package_options(parser)


def run(arguments: argparse.Namespace, output: Output) -> int:
    """One of the actions."""
    from openrknn.chips import chip_named
    from openrknn.cli.common.catalogue import board_target, rows

    try:
        target = chip_named(board_target(arguments.target)).name
    except ValueError as error:
        raise CommandError(str(error)) from error
    found = rows()
    if arguments.action == "list":
        return _list(_filtered(found, arguments.name), target, output)
    if not arguments.name:
        raise CommandError(f"models {arguments.action} needs a name; `openrknn models list` shows them")
    row = next((one for one in found if one.name == arguments.name), None)
    if row is None:
        near = difflib.get_close_matches(arguments.name, [one.name for one in found], 1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise CommandError(f"no model is called {arguments.name!r:.60}; {hint}`openrknn models list` shows the names")
    return _show(row, target, output) if arguments.action == "show" else _get(row, arguments, output)


def _filtered(found: list[Row], word: str | None) -> list[Row]:
    """Those of a kind, or for a command."""
    if word is None:
        return found
    kept = [row for row in found if word in (row.kind, row.command)]
    if not kept:
        words = dict.fromkeys([row.kind for row in found] + [row.command for row in found])
        raise CommandError(f"no model is of the kind {word!r:.60}; there are {', '.join(words)}")
    return kept


def _list(found: list[Row], target: str, output: Output) -> int:
    from rich.table import Table

    from openrknn.models.estimates import estimate
    from openrknn.models.licences import needs_consent

    if output.is_human:
        columns = ("kind", "name", "command", "fetch", "licence", "accuracy", f"ms on {target}", "here")
        table = Table(box=None, pad_edge=False)
        for column in columns:
            table.add_column(column, no_wrap=column not in _WRAPPED)
        last = ""
        for row in found:
            licence = row.licence + ("*" if needs_consent(row.licence) else "")
            table.add_row(
                row.kind if row.kind != last else "", row.name, row.command, size_text(row.size) if row.size else "",
                licence, row.accuracy.partition(",")[0], _ms(estimate(row.name, target)), "yes" if row.here else "",
            )  # fmt: skip
            last = row.kind
        output.show(table)
        output.line()
        output.line("ms: estimated by the cost model, one NPU core. * restricts use: get needs --accept-licence")
        output.line("`openrknn models show NAME` prints what it is, its accuracy and where it is from")
    elif not output.is_json:
        for row in found:
            output.value(row.name)
    output.data({"target": target, "models": [row.as_json(target) for row in found]})
    return 0


def _ms(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def _show(row: Row, target: str, output: Output) -> int:
    facts = row.as_json(target)
    accept = "; `get` needs --accept-licence" if facts["needs_consent"] else ""
    made = "" if facts["model_bytes"] is None else f", {size_text(facts['model_bytes'])} compiled in {row.precision}"
    times = ", ".join(f"{chip} {_ms(ms)}" for chip, ms in facts["estimates_ms"].items() if ms is not None)
    lines = {
        "what": row.about, "kind": f"{row.kind} (openrknn {row.command})", "licence": row.licence + accept,
        "by": row.credit, "from": row.source, "SHA-256": row.sha256,
        "size": f"{size_text(row.size)} to fetch{made}" if row.size else "",
        "accuracy": row.accuracy, "ms": f"{times} ({facts['estimated_for']}, estimated, one NPU core)" if times else "",
        "here": ", ".join(map(str, row.here)) or f"no; `openrknn models get {row.name}`",
    }  # fmt: skip
    output.value(row.name)
    for name, text in lines.items():
        if text:
            output.line(f"{name:9} {text}")
    output.data(facts)
    return 0


def _get(row: Row, arguments: argparse.Namespace, output: Output) -> int:
    from openrknn.cli.common.catalogue import Request, make
    from openrknn.extras import missing

    try:
        with stages(output) as tell:
            made = make(row, Request.of(arguments), tell)
    except ImportError as error:
        raise CommandError(missing(error, "compile")) from error
    except ValueError as error:  # a chip that is not known, a folder without images
        raise CommandError(str(error)) from error
    size = made.size
    if not output.is_human and not output.is_json:
        output.value(str(made.path))
    output.line(f"{made.name}: {made.what}, {size_text(size)}, {made.licence or 'licence unknown'}")
    if made.credit:
        output.line(f"by       {made.credit}")
    output.line(f"from     {made.source}")
    output.line(f"in       {made.path}")
    if row.maker == "vision" and arguments.output is None:
        output.line(f"now      openrknn {row.command} {row.name} IMAGE --save out")
    output.data({**made.facts, "path": str(made.path), "size_bytes": size})
    return 0
