"""Each pass of `normalise` and `legalise`, and steps of `quantise`, on graphs as text (`passes/*.txt`).

`python -m tests.compiler.test_passes` writes what comes out into the files; read it before it is committed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pytest

from openrknn.compiler import legalise, normalise
from openrknn.compiler.errors import UnsupportedOperatorError
from openrknn.compiler.ir import Graph
from openrknn.compiler.passes import Pass, verify_graph
from openrknn.compiler.quantise import groups
from openrknn.compiler.quantise.choose import Costs
from openrknn.compiler.quantise.equalise import equalise_by
from openrknn.compiler.quantise.mixed_outputs import free_mixed_outputs
from openrknn.compiler.quantise.precision import set_precision
from openrknn.compiler.quantise.ranges import Range
from openrknn.compiler.quantise.statistics import Statistics
from openrknn.compiler.quantise.unstated import leave_float
from openrknn.compiler.quantise.untie import untie
from openrknn.compiler.targets import TARGETS
from tests.compiler.passes.text import Case, cases_of, notes_of, parse_graph, show_graph

S = TypeVar("S")
FOLDER = Path(__file__).parent / "passes"
CASES = [case for path in sorted(FOLDER.glob("*.txt")) for case in cases_of(path)]
NORMALISE = {entry.name: entry for entry in normalise.PASSES}
LEGALISE = {entry.name: entry for entry in legalise.PASSES}


def _rewritten(case: Case) -> str:
    """The graph behind the pass, or the error."""
    given = dict(option.split("=") for option in case.options if "=" in option)
    chip = next((option for option in case.options if option in TARGETS), "rk3588")
    is_int8 = "int8" in case.options
    target = TARGETS[chip]
    atom, volume = int(given.get("atom", 16 if is_int8 else 8)), int(given.get("volume", 0))
    if case.name in LEGALISE:
        return _after(case, LEGALISE[case.name], legalise.Situation(target.int8 if is_int8 else target.fp16, target))
    return _after(case, NORMALISE[case.name], normalise.Situation(atom, is_int8, volume, target))


def _after(case: Case, entry: Pass[S], now: S) -> str:
    assert entry.when(now), f"{case.name} does not run with {case.options}"
    graph = parse_graph(case.before)
    verify_graph(graph, f"{case.path.name}: {case.title}", entry.needs)
    try:
        entry.run(graph, now)
    except UnsupportedOperatorError as error:
        return f"refused: {error}"
    verify_graph(graph, f"{case.path.name}: {case.title}, behind {case.name}", entry.gives)
    return show_graph(graph)


def _quantised(case: Case) -> str:
    """What a step of `quantise` makes of graph and ranges."""
    graph = parse_graph(case.before)
    verify_graph(graph, case.title)
    ranges = {name: (low, high) for name, (low, high) in notes_of(case.before, "range").items()}
    before, lines = dict(ranges), list[str]()
    if case.name == "groups":
        return "\n".join(" ".join(group) for group in groups.groups_of(graph))
    if case.name in {"unite", "limit_ranges"}:
        getattr(groups, case.name)(graph, ranges)
    elif case.name == "untie":
        untie(graph, Costs(_seen(ranges, graph), _errors(case, graph)), ranges)
    elif case.name == "free_mixed_outputs":
        free = free_mixed_outputs(graph, _seen(ranges, graph), can_mix=True)
        lines = [f"{name}: {why}" for name, why in free.items()]
    elif case.name == "set_precision":
        made = set_precision(graph, set(notes_of(case.before, "chosen")))
        lines = [f"{name}: {why}" for name, why in made.items()]
    elif case.name == "leave_float":
        leave_float(graph, set(notes_of(case.before, "chosen")), ranges)
    else:
        assert case.name == "equalise_by"
        equalise_by(graph, {name: np.array(numbers) for name, numbers in notes_of(case.before, "reach").items()})
    verify_graph(graph, f"{case.title}, behind {case.name}")
    changed = {name: entry for name, entry in ranges.items() if before.get(name) != entry}
    lines += [f"range {name} {low:g} {high:g}" for name, (low, high) in changed.items()]
    return "\n".join([show_graph(graph), *lines])


def _seen(ranges: dict[str, Range], graph: Graph) -> dict[str, Statistics]:
    """Numbers that lie evenly in the ranges."""
    found = {name: Statistics() for name in ranges}
    for name, (low, high) in ranges.items():
        shape = graph.shape(name)
        found[name].add(np.linspace(low, high, int(np.prod(shape))).reshape(shape))
    return found


def _errors(case: Case, graph: Graph) -> dict[str, npt.NDArray[np.float64]]:
    return {name: np.full(graph.shape(name)[1], cost) for name, (cost,) in notes_of(case.before, "error").items()}


def outcome(case: Case) -> str:
    """What comes out, as text."""
    return _rewritten(case) if case.name in NORMALISE.keys() | LEGALISE.keys() else _quantised(case)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.path.stem}-{case.name}-{case.title[:40]}")
def test_pass(case: Case) -> None:
    assert outcome(case).splitlines() == case.after.splitlines()


def test_every_pass_has_a_case() -> None:
    assert sorted((NORMALISE.keys() | LEGALISE.keys()) - {case.name for case in CASES}) == []


def _update() -> None:
    for path in sorted(FOLDER.glob("*.txt")):
        head = path.read_text().split("\n\n")[0]
        texts = [
            f"=== {' '.join((case.name, *case.options))}: {case.title}\n{case.before}---\n{outcome(case)}"
            for case in CASES
            if case.path == path
        ]
        path.write_text("\n\n".join([head, *texts]) + "\n")


if __name__ == "__main__":
    _update()
