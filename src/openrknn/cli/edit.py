"""`openrknn edit`: other names and another custom string, without converting the model again."""

from __future__ import annotations

import argparse
import difflib
from typing import TYPE_CHECKING

from openrknn.cli.common.files import load_model
from openrknn.cli.common.output import CommandError, Output
from openrknn.cli.common.outputs import OutputFile

if TYPE_CHECKING:
    from openrknn.container.model import Model

NAME = "edit"
HELP = "change names or the custom string of a model"
DESCRIPTION = """Change what does not change the computation: the names of tensors (inputs and outputs above all) and
the custom string that a program can ask for. The result is checked by reading it back before it is put in place."""
EXAMPLES = (
    "openrknn edit yolo.rknn -o new.rknn --custom-string 'release 7'",
    "openrknn edit yolo.rknn -o new.rknn --rename images=input --rename output0=boxes",
    "openrknn edit yolo.rknn --in-place --custom-string ''       no custom string",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    parser.add_argument("file", metavar="FILE", help="a .rknn model")
    parser.add_argument("-o", "--output", metavar="OUT", action=OutputFile, help="the file to write")
    parser.add_argument("--in-place", action="store_true", help="change FILE itself")
    parser.add_argument("--force", action="store_true", help="overwrite OUT if it exists")
    parser.add_argument("--custom-string", metavar="TEXT", help="what RKNN_QUERY_CUSTOM_STRING answers")
    parser.add_argument(
        "--rename", metavar="OLD=NEW", action="append", default=[], help="rename a tensor (repeatable)"
    )


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Write the changed model."""
    from openrknn.cli.common.files import save_atomically
    from openrknn.container.edit import rename_tensors, with_custom_string
    from openrknn.container.writer import encode

    if arguments.custom_string is None and not arguments.rename:
        raise CommandError("nothing to change; give --custom-string or --rename")
    target = _target(arguments)
    model = load_model(arguments.file)
    names = _names(model, arguments.rename)
    try:
        edited = rename_tensors(model, names)
        if arguments.custom_string is not None:
            edited = with_custom_string(edited, arguments.custom_string)
    except (ValueError, UnicodeError) as error:
        raise CommandError(f"{arguments.file}: {error}") from error
    data = encode(edited)
    _check(data, edited)
    save_atomically(target, data, replaces_input=arguments.in_place)
    output.value(f"wrote {target}")
    output.data({"written": target, "size_bytes": len(data), "renamed": names, "custom_string": edited.custom_string})
    return 0


def _target(arguments: argparse.Namespace) -> str:
    source: str = arguments.file
    wanted: str | None = arguments.output
    if arguments.in_place:
        if wanted is not None:
            raise CommandError("--in-place and -o cannot be combined")
        return source
    if wanted is None:
        raise CommandError("give -o OUT, or --in-place to change the file itself")
    return wanted


def _names(model: Model, pairs: list[str]) -> dict[str, str]:
    """Old name -> new name; a name may hold "=" itself, so the split is where a tensor's name ends."""
    known = {tensor.name for graph in model.graphs for tensor in graph.tensors if tensor.name}
    names: dict[str, str] = {}
    for pair in pairs:
        splits = [number for number, letter in enumerate(pair) if letter == "="]
        if not splits:
            raise CommandError(f"--rename takes OLD=NEW, not {pair!r}")
        split = next((number for number in splits if pair[:number] in known), None)
        if split is None:
            old = pair[: splits[0]]
            close = difflib.get_close_matches(old, known, n=3)
            guess = f"did you mean {', '.join(close)}?" if close else "`openrknn inspect --all` lists them"
            raise CommandError(f"no tensor is called {old!r}; {guess}")
        if pair[:split] in names:
            raise CommandError(f"{pair[:split]!r} is renamed twice")
        names[pair[:split]] = pair[split + 1 :]
    return names


def _check(data: bytes, edited: Model) -> None:
    """The written file must read back as intended."""
    from dataclasses import replace

    from openrknn.container.load import load

    if replace(load(data), path=edited.path, size_bytes=edited.size_bytes) != edited:
        raise CommandError("the changed model does not read back correctly; nothing was written")
