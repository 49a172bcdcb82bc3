"""`openrknn capabilities`: which chip supports which function, query and flag of the RKNN C API."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from openrknn.cli.common.output import Output

if TYPE_CHECKING:
    from openrknn.chips import Chip
    from openrknn.vendor.library.library import Library
    from openrknn.vendor.tables.platforms import Support

NAME = "capabilities"
HELP = "show which chip supports which function, query and flag of the RKNN C API"
DESCRIPTION = """Show which chip supports which function, query and flag of the vendor's C API, since which version of
the library it exists, and, with --library, whether a library has it. The facts are from the vendor's reference; "?"
means that it does not say."""
EXAMPLES = (
    "openrknn capabilities                        all chips side by side",
    "openrknn capabilities --chip rk3566          one chip, with the reasons",
    "openrknn capabilities --library              and what the library on this machine exports",
    "openrknn capabilities --json | jq '.functions[] | select(.support.rv1106)'",
)

SCHEMA_VERSION = 1
_MARKS = {True: "yes", False: "no", None: "?"}
_STYLES = {True: "green", False: "red", None: "dim"}
_TITLES = {
    "rk356x": "RK3562/66/68", "rk3588": "RK3576/88", "rv1106": "RV1103/06", "rv1106b": "RV1103B/06B",
    "rv1126b": "RV1126B",
}  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    parser.add_argument("--chip", metavar="CHIP", help="one chip, such as rk3588, with the reasons")
    parser.add_argument(
        "--library",
        metavar="PATH",
        nargs="?",
        const="",
        help="compare with a librknnrt.so or librknnmrt.so (default: the one on this machine)",
    )


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Print the tables."""
    from openrknn.chips import chip_named

    chip = chip_named(arguments.chip) if arguments.chip else None
    library = None
    if arguments.library is not None:
        from openrknn.vendor.library.library import Library

        library = Library(arguments.library or None, chip=None)
    if output.is_human:
        _show(chip, library, output)
    elif output.is_json:
        output.data(_as_json(chip, library))
    else:
        for name in _working(chip):
            output.value(name)
    return 0


def _sections() -> dict[str, Mapping[str, Mapping[str, Support]]]:
    from openrknn.vendor.tables.platforms import FLAG_SUPPORT, FUNCTION_SUPPORT, QUERY_SUPPORT

    return {"functions": FUNCTION_SUPPORT, "queries": QUERY_SUPPORT, "flags": FLAG_SUPPORT}


def _since(name: str) -> str:
    from openrknn.vendor.tables.functions import FUNCTIONS
    from openrknn.vendor.tables.names import SINCE
    from openrknn.vendor.tables.versions import KNOWN_VERSIONS

    return str(FUNCTIONS[name].since if name in FUNCTIONS else SINCE.get(name, KNOWN_VERSIONS[0]))


def _in_library(name: str, library: Library) -> bool:
    from openrknn.vendor.tables.functions import FUNCTIONS
    from openrknn.vendor.tables.versions import Version

    return name in library.exports if name in FUNCTIONS else Version.parse(_since(name)) <= library.version


def _groups(chip: Chip | None) -> dict[str, str]:
    """The columns to show: group -> title."""
    from openrknn.vendor.tables.platforms import group_of

    return dict(_TITLES) if chip is None else {group_of(chip): chip.title}


def _show(chip: Chip | None, library: Library | None, output: Output) -> None:
    from rich.text import Text

    from openrknn.cli.common.tables import facts, table, title
    from openrknn.vendor.tables.platforms import reason_of

    if library is not None:
        exported = f"{len(library.exports)} of 35 functions"
        output.show(facts([("library", f"{library.path}"), ("version", str(library.version)), ("exports", exported)]))
    groups = _groups(chip)
    columns = ["name", *groups.values(), "since", *(["library"] if library else []), *(["reason"] if chip else [])]
    for section, rows in _sections().items():
        drawn = table(*columns, wrap=["reason"])
        for name, support in rows.items():
            cells = [Text(name)]
            cells += [Text(_MARKS[support[group]], _STYLES[support[group]]) for group in groups]
            cells.append(Text(_since(name)))
            if library:
                has = _in_library(name, library)
                cells.append(Text(_MARKS[has], _STYLES[has]))
            if chip:
                refused = support[next(iter(groups))] is False
                cells.append(Text(reason_of(name) if refused else ""))
            drawn.add_row(*cells)
        output.show(title(section), drawn)


def _as_json(chip: Chip | None, library: Library | None) -> dict[str, Any]:
    from openrknn.chips import CHIPS
    from openrknn.vendor.tables.platforms import group_of, reason_of

    chips = [chip] if chip else list(CHIPS.values())
    result: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "chips": [one.name for one in chips]}
    if library:
        result["library"] = {"path": str(library.path), "version": str(library.version), "kind": library.kind}
    for section, rows in _sections().items():
        result[section] = [
            {
                "name": name,
                "since": _since(name),
                "support": {one.name: support[group_of(one)] for one in chips},
                "reason": reason_of(name) or None,
                **({"in_library": _in_library(name, library)} if library else {}),
            }
            for name, support in rows.items()
        ]
    return result


def _working(chip: Chip | None) -> list[str]:
    """What surely works: on the chip, or on all chips."""
    groups = _groups(chip)
    known = [group for group in groups if group != "rv1126b"] or list(groups)
    return [name for rows in _sections().values() for name, support in rows.items() if all(support[g] for g in known)]
