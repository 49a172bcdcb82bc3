"""`openrknn diff`: what differs between two models."""

from __future__ import annotations

import argparse
import math
import os
from itertools import groupby
from typing import TYPE_CHECKING, Any

from openrknn.cli.common.files import load_model, os_problem
from openrknn.cli.common.output import CommandError, Output
from openrknn.quantities import count_of

if TYPE_CHECKING:
    from openrknn.analysis.differences.difference import Difference

NAME = "diff"
HELP = "show what differs between two models"
WAITS = "comparing"
DESCRIPTION = """Show what differs between two models: versions, chip, inputs and outputs, operators and where they run,
tensors and their quantisation, weights (how many and by how much), register commands (task by task, field by field)
and memory. Weights of models for different chips or with different types are compared as real numbers.
Exit code 0: the same, 1: different, 2: they could not be compared."""
EXAMPLES = (
    "openrknn diff old.rknn new.rknn",
    "openrknn diff old.rknn new.rknn --all          every difference",
    "openrknn diff old.rknn new.rknn --json | jq '.differences[] | select(.section == \"weights\")'",
    "openrknn diff old.rknn new.rknn --quiet && echo same",
)

SCHEMA_VERSION = 1
EXIT_SAME, EXIT_DIFFERENT = 0, 1
_SHOWN = 12
_CHUNK_BYTES = 1 << 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    parser.add_argument("first", metavar="A", help="a .rknn model")
    parser.add_argument("second", metavar="B", help="the one to compare it with")
    parser.add_argument("--all", action="store_true", help=f"every difference (default: {_SHOWN} of each kind)")
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing; only set the exit code")


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Compare two models."""
    first, second = load_model(arguments.first), load_model(arguments.second)
    if _same_bytes(arguments.first, arguments.second):
        return _finish(arguments, output, [], "the files are the same, byte for byte")
    from openrknn.analysis.differences.models import compare

    found = list(compare(first, second))
    words = "" if found else "the models are the same; the files differ only in what no runtime reads"
    return _finish(arguments, output, found, words)


def _same_bytes(first: str, second: str) -> bool:
    try:
        if os.path.getsize(first) != os.path.getsize(second):
            return False
        with open(first, "rb") as one, open(second, "rb") as other:
            while chunk := one.read(_CHUNK_BYTES):
                if chunk != other.read(_CHUNK_BYTES):
                    return False
    except OSError as error:
        raise CommandError(os_problem(error)) from error
    return True


def _finish(arguments: argparse.Namespace, output: Output, found: list[Difference], words: str) -> int:
    if output.is_json:
        output.data(_as_json(arguments, found, words))
    elif output.is_human:
        for section, members in groupby(sorted(found, key=_order), key=lambda difference: difference.section):
            _show(str(section), [str(difference) for difference in members], output, show_all=arguments.all)
        output.line(words or count_of(len(found), "difference"))
    return EXIT_DIFFERENT if found else EXIT_SAME


def _order(difference: Difference) -> int:
    return list(type(difference.section)).index(difference.section)


def _show(section: str, lines: list[str], output: Output, *, show_all: bool) -> None:
    output.styled((section, "bold"))
    shown = lines if show_all else lines[:_SHOWN]
    for line in shown:
        output.line(f"  {line}")
    if len(shown) < len(lines):
        output.line(f"  and {len(lines) - len(shown)} more (--all shows them)")


def _as_json(arguments: argparse.Namespace, found: list[Difference], words: str) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "first": arguments.first,
        "second": arguments.second,
        "same": not found,
        "summary": words,
        "differences": [
            {
                "section": str(difference.section),
                "subject": difference.subject,
                "what": difference.what,
                "before": _finite(difference.before),
                "after": _finite(difference.after),
                "text": str(difference),
            }
            for difference in sorted(found, key=_order)
        ],
    }


def _finite(value: Any) -> Any:
    """JSON has neither NaN nor infinity; as text they can still be distinguished."""
    match value:
        case float() if not math.isfinite(value):
            return str(value)
        case list():
            return [_finite(entry) for entry in value]
        case dict():
            return {name: _finite(entry) for name, entry in value.items()}
        case _:
            return value
