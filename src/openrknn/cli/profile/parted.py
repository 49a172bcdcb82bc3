"""`openrknn profile` of a model in parts: a row for each part, and the operators of those of the NPU."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from openrknn.cli.common.options import open_session
from openrknn.cli.common.output import CommandError, Output, printable
from openrknn.cli.common.parts import example_for, parted_arrays
from openrknn.cli.common.tables import bar, indented, table, title
from openrknn.quantities import count_of, count_text, duration

if TYPE_CHECKING:
    from openrknn.analysis.profile_summary import Summary
    from openrknn.analysis.profiles import Row
    from openrknn.container.bundle import Bundle
    from openrknn.container.model import Model
    from openrknn.runtime.parted.measure import PartedProfile, PartProfile

__all__ = ["profile_parts"]

SCHEMA_VERSION = 1
_BAR_CELLS = 14
_LONGEST, _MOST_NAMES = 24, 2
_COLOURS = {"npu": "green", "cpu": "yellow"}


def profile_parts(bundle: Bundle, arguments: argparse.Namespace, output: Output) -> int:
    """Profile one model in parts."""
    from openrknn.analysis.profiles import rows_of
    from openrknn.container.load import load
    from openrknn.runtime.parted.session import PartedSession

    fed = parted_arrays(bundle, arguments.input) if arguments.input else example_for(bundle)
    with open_session(bundle, arguments) as (session, _):
        assert isinstance(session, PartedSession)
        try:
            session.profile({item.name: item.array for item in fed})  # opens and decodes, which does not count
            profile = session.profile(runs=arguments.runs)
        except (ValueError, TypeError) as error:
            raise CommandError(str(error)) from error
    inside: dict[int, tuple[Model, list[Row]]] = {}
    for entry in profile.parts:
        if entry.profile is not None:
            model = load(bundle.files[entry.part.file])
            inside[entry.number] = model, rows_of(model, model.graphs[0], entry.profile)
    parts = list(profile.parts)
    if arguments.sort != "order":
        parts.sort(key=lambda one: one.board_us if arguments.sort == "board" else one.seconds, reverse=True)
    summary = _summary(profile, inside)
    if arguments.report:
        _save_report(arguments, profile, inside, summary, output)
    output.data({"schema_version": SCHEMA_VERSION, "kind": "parts", "model": arguments.model, **_json(profile, inside)})
    if output.is_human:
        _show(output, profile, parts, inside)
        output.next_step(summary.next_step)
    else:
        output.value(f"{(profile.time_ms or 0) * 1e3:.0f} us")
    return 0


def _summary(profile: PartedProfile, inside: dict[int, tuple[Model, list[Row]]]) -> Summary:
    """Of all parts; the next step is that of the slowest part of the NPU, where the CPU takes less than half."""
    from openrknn.analysis.profile_summary import summary_of, summary_of_parts

    slowest = max((entry for entry in profile.parts if entry.number in inside), key=_board_us, default=None)
    best = None
    if slowest is not None:
        model, rows = inside[slowest.number]
        best = summary_of(rows, None, chip=model.chip.title, device=profile.device)
    parts = [(one.part.kind, one.part.operators, one.board_us, one.seconds * 1e6) for one in profile.parts]
    return summary_of_parts(parts, device=profile.device, slowest=best)


def _board_us(entry: PartProfile) -> float:
    return entry.board_us


def _save_report(
    arguments: argparse.Namespace,
    profile: PartedProfile,
    inside: dict[int, tuple[Model, list[Row]]],
    summary: Summary,
    output: Output,
) -> None:
    from openrknn.analysis.board_time import estimate_of
    from openrknn.cli.common.files import save_page
    from openrknn.pages.profile import Part, render

    parts = []
    for entry in profile.parts:
        cost = None if entry.profile is None else entry.profile.cost
        parts.append(
            Part(
                inside[entry.number][1] if entry.number in inside else (),
                None if cost is None else estimate_of(cost),
                jobs=0 if cost is None else cost.submits,
                tasks=0 if cost is None else cost.tasks,
                name=f"part {entry.number}",
                kind=entry.part.kind,
                board_us=entry.board_us,
                here_us=entry.seconds * 1e6,
                reason=entry.part.reason,
            )
        )
    chips = {model.chip.title for model, _ in inside.values()}
    about = f"{', '.join(sorted(chips)) or 'CPU'}, {count_of(profile.cores, 'core')}, {count_of(len(parts), 'part')}"
    save_page(arguments.report, render(arguments.model, about, summary, parts), output)


def _json(profile: PartedProfile, inside: dict[int, tuple[Model, list[Row]]]) -> dict[str, Any]:
    from openrknn.analysis.profiles import as_json

    parts = []
    for entry in profile.parts:
        known = inside.get(entry.number)
        parts.append({
            "number": entry.number,
            "kind": entry.part.kind,
            "file": entry.part.file,
            "operators": entry.part.operators,
            "macs": entry.part.macs,
            "here_us": entry.seconds * 1e6,
            "board_us": entry.board_us,
            "reason": entry.part.reason,
            "profile": as_json(known[1], entry.profile) if known is not None and entry.profile is not None else None,
        })  # fmt: skip
    return {
        "device": profile.device,
        "cores": profile.cores,
        "runs": profile.runs,
        "parts": parts,
        "total": {
            "here_us": profile.seconds * 1e6,
            "board_us": (profile.time_ms or 0) * 1e3,
            "npu_board_us": sum(entry.board_us for entry in profile.parts if entry.part.kind == "npu"),
            "macs": sum(entry.part.macs for entry in profile.parts),
            "npu_macs": sum(entry.part.npu_macs for entry in profile.parts),
        },
    }


def _show(
    output: Output, profile: PartedProfile, parts: list[PartProfile], inside: dict[int, tuple[Model, list[Row]]]
) -> None:
    from openrknn.cli.profile.text import show

    for entry in profile.parts:
        if entry.number in inside and entry.profile is not None:
            output.show(title(f"Part {entry.number} on the NPU ({printable(entry.part.file)})"))
            show(output, *inside[entry.number], entry.profile)
    output.show(title("Parts"), *indented(_table(output, profile, parts)))
    board = duration((profile.time_ms or 0) / 1e3)
    output.show(
        Text(f"about {board} on a board, parts of its processor included; {duration(profile.seconds)} here, on "
             f"{profile.device} and in ONNX Runtime")
    )  # fmt: skip


def _names(names: tuple[str, ...]) -> str:
    """The ends of the first ones: exporters write whole paths."""
    shown = [name if len(name) <= _LONGEST else f"..{name[-_LONGEST + 2 :]}" for name in names[:_MOST_NAMES]]
    more = f" +{len(names) - _MOST_NAMES}" if len(names) > _MOST_NAMES else ""
    return printable(", ".join(shown) + more)


def _table(output: Output, profile: PartedProfile, parts: list[PartProfile]) -> Table:
    columns = ("#", "on", "operators", "MAC", "Board(us)", "", "share", "Here(us)", "reads", "makes")
    right = ("#", "operators", "MAC", "Board(us)", "share", "Here(us)")
    rows = table(*columns, right=right, wrap=("reads", "makes"))
    total = (profile.time_ms or 0) * 1e3 or 1.0
    for entry in parts:
        part, share = entry.part, entry.board_us / total
        rows.add_row(
            str(entry.number),
            Text(part.kind.upper(), _COLOURS[part.kind]),
            str(part.operators),
            count_text(part.macs) if part.macs else "",
            f"{entry.board_us:.0f}",
            Text(bar(share, _BAR_CELLS, ascii_only=output.console.options.ascii_only), _COLOURS[part.kind]),
            f"{100 * share:.1f} %",
            f"{entry.seconds * 1e6:.0f}",
            _names(part.inputs),
            _names(part.outputs),
        )
    return rows
