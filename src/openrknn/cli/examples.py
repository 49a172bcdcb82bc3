"""`openrknn examples`: copies the files of the guides into a folder."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from openrknn.cli.common.examples import example_files, find_examples
from openrknn.cli.common.files import os_problem
from openrknn.cli.common.output import CommandError, Output
from openrknn.cli.common.outputs import OutputFolder
from openrknn.quantities import size_text
from openrknn.wholefiles import write_atomically

NAME = "examples"
HELP = "copy the files that the guides use into a folder"
DESCRIPTION = """README and the guides name models, pictures, sounds and programs in a folder `examples`. In a clone of
the repository it is there. Everywhere else this command makes it, out of the installed package and without a network.
Files that are there already, and are the same, stay; if one is different, nothing is written."""
EXAMPLES = (
    "openrknn examples                 into ./examples, where the guides look for them",
    "openrknn examples elsewhere",
    "openrknn examples --list          what there is",
)


def _copies(arguments: argparse.Namespace) -> bool:
    return not arguments.list


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    parser.add_argument(
        "directory", metavar="DIR", nargs="?", default="examples", action=OutputFolder, is_used=_copies,
        help="where to (default: examples)",
    )  # fmt: skip
    parser.add_argument("--list", action="store_true", help="say what there is, and write nothing")
    parser.add_argument("--force", action="store_true", help="overwrite files of these names")


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Copy them, or name them."""
    source = find_examples()
    names = example_files(source)
    if arguments.list:
        _show(output, source, names)
        return 0
    target = Path(arguments.directory)
    try:
        is_same = target.resolve() == source.resolve()
        written = [] if is_same else _copy(source, target, names, force=arguments.force)
    except OSError as error:
        raise CommandError(os_problem(error)) from error
    output.data({"directory": str(target), "files": _fields(source, names), "written": [str(name) for name in written]})
    if output.is_human:
        total = size_text(sum((source / name).stat().st_size for name in written))
        said = f"{len(written)} files, {total}" if written else f"all {len(names)} files were there already"
        output.line(f"{target}: {said}")
    else:
        output.value(str(target))
    return 0


def _copy(source: Path, target: Path, names: list[Path], *, force: bool) -> list[Path]:
    """Those that had to be written. Nothing is, if something else has one of the names."""
    missing = []
    for name in names:
        place = target / name
        if not place.exists() and not place.is_symlink():
            missing.append(name)
        elif not place.is_file() or place.read_bytes() != (source / name).read_bytes():
            if not force:
                raise CommandError(f"{place} is there, and is not the example; choose another folder, or use --force")
            missing.append(name)
    for name in missing:
        place = target / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.is_symlink():
            place.unlink()  # never through a link of that name
        write_atomically(place, (source / name).read_bytes())
    return missing


def _fields(source: Path, names: list[Path]) -> list[dict[str, Any]]:
    return [{"path": str(name), "size_bytes": (source / name).stat().st_size} for name in names]


def _show(output: Output, source: Path, names: list[Path]) -> None:
    files = _fields(source, names)
    output.data({"source": str(source), "files": files})
    if output.is_human:
        from openrknn.cli.common.tables import table

        rows = table("file", "size", right=("size",))
        for entry in files:
            rows.add_row(entry["path"], size_text(entry["size_bytes"]))
        output.show(rows)
        return
    for entry in files:
        output.value(entry["path"])
