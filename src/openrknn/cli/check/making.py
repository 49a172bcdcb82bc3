"""`openrknn check --record` and `--update`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openrknn.check.errors import CannotCheckError, GoldenError
from openrknn.check.golden_lookup import golden_for
from openrknn.check.record import record, update
from openrknn.check.result import EXIT_CANNOT, Outcome
from openrknn.check.subject import open_subject
from openrknn.cli.common.files import os_problem
from openrknn.cli.common.output import CommandError, Output
from openrknn.cli.common.progress import stages
from openrknn.errors import RknnError
from openrknn.quantities import count_of, size_text

if TYPE_CHECKING:
    from openrknn.check.record import Source

__all__ = ["record_one", "update_all"]

_HIDDEN = "."


def record_one(arguments: argparse.Namespace, output: Output) -> int:
    """A new golden folder."""
    if len(arguments.models) != 1:
        raise CommandError("--record takes one model; record each into a folder of its own")
    model = arguments.models[0]
    options = {
        "fit": arguments.fit, "order": arguments.order, "layout": arguments.layout, "task": arguments.task,
        "family": arguments.family, "labels": arguments.labels, "reader": arguments.reader,
    }  # fmt: skip
    with stages(output) as tell:
        try:
            cases = _cases(model, arguments.input)
            golden = record(
                model,
                arguments.record,
                cases,
                reference=arguments.reference,
                expect=arguments.expect,
                options=options,
                device=arguments.device,
                cores=arguments.cores,
                force=arguments.force,
                progress=tell,
            )
        except (GoldenError, CannotCheckError, ValueError) as error:
            raise CommandError(str(error)) from error
        except OSError as error:
            raise CommandError(os_problem(error)) from error
    files = [path for path in Path(golden.folder).rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    output.data(
        {
            "schema_version": 1,
            "golden": str(golden.folder),
            "cases": [case.name for case in golden.cases],
            "files": len(files),
            "size_bytes": size,
        }
    )
    output.value(f"wrote {golden.path}: {count_of(len(golden.cases), 'case')}, {len(files)} files, {size_text(size)}")
    output.line(f"check it with: openrknn check {model} --golden {golden.folder}")
    return 0


def update_all(arguments: argparse.Namespace, outcomes: Sequence[Outcome], output: Output) -> int:
    """Record again what differs, now that it was shown; what cannot be checked stays as it is."""
    code = 0
    for outcome in outcomes:
        pair = golden_for(outcome.model, outcome.golden or None)
        if pair.golden is None or any(check.name == "model" for check in outcome.checks):
            code = EXIT_CANNOT
            continue
        try:
            written = update(
                outcome.model, pair.golden, only=arguments.only, device=arguments.device, cores=arguments.cores
            )
        except (RknnError, ValueError, OSError) as error:
            Output.complain(f"{outcome.model}: {error}")
            code = EXIT_CANNOT
            continue
        for path in written:
            output.value(f"wrote {path}")
        if not written:
            output.value(f"{outcome.golden}: nothing to write, all is as recorded")
        kept = [check for check in outcome.checks if check.name.startswith(("budget", "lint"))]
        if any(check.status == "failed" for check in kept):
            output.value(f"{pair.golden.path}: budgets and lint rules are yours to change")
    return code


def _cases(model: str, words: Sequence[str]) -> dict[str, Source]:
    """Each file a case by its name; NAME=FILE together one; without any, random numbers."""
    if not words:
        return {"random": _random(model)}
    found: dict[str, Source] = {}
    named: dict[str, str] = {}
    for word in words:
        name, separator, path = word.partition("=")
        if separator and not os.path.exists(word):
            named[name] = path
            continue
        for file in _files(word):
            found[_free(Path(file).stem, found)] = file
    if named:
        found[_free("inputs", found)] = _together(named)
    return found


def _together(named: Mapping[str, str]) -> Source:
    return dict(named)


def _files(word: str) -> list[str]:
    if not os.path.isdir(word):
        return [word]
    inside = sorted(str(path) for path in Path(word).iterdir() if path.is_file() and not path.name.startswith(_HIDDEN))
    if not inside:
        raise CommandError(f"{word}: an empty folder; give files to record")
    return inside


def _free(name: str, taken: Mapping[str, Any]) -> str:
    """cat, cat-2, cat-3."""
    number, free = 2, name
    while free in taken:
        number, free = number + 1, f"{name}-{number}"
    return free


def _random(model: str) -> Source:
    from openrknn.cli.common.inputs import random_inputs

    single = open_subject(model).model
    if single is None:
        raise CommandError(f"{model}: give --input FILE; random numbers are for a single .rknn")
    return {item.name: item.array for item in random_inputs(single)}
