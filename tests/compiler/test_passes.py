"""Each pass of `normalise` on a graph that people can read: the cases are in `passes/*.txt`.

`python -m tests.compiler.test_passes` writes what comes out into the files; read it before it is committed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from openrknn.compiler.errors import UnsupportedOperatorError
from openrknn.compiler.normalise import PASSES, Situation
from openrknn.compiler.normalise.verifier import verify_graph
from openrknn.compiler.targets import TARGETS
from tests.compiler.passes.text import Case, cases_of, parse_graph, show_graph

FOLDER = Path(__file__).parent / "passes"
CASES = [case for path in sorted(FOLDER.glob("*.txt")) for case in cases_of(path)]
BY_NAME = {entry.name: entry for entry in PASSES}


def outcome(case: Case) -> str:
    """The graph behind the pass, or the error."""
    given = dict(option.split("=") for option in case.options if "=" in option)
    chip = next((option for option in case.options if option in TARGETS), "rk3588")
    is_int8 = "int8" in case.options
    now = Situation(int(given.get("atom", 16 if is_int8 else 8)), is_int8, int(given.get("volume", 0)), TARGETS[chip])
    entry = BY_NAME[case.name]
    assert entry.when(now), f"{case.name} does not run with {case.options}"
    graph = parse_graph(case.before)
    verify_graph(graph, f"{case.path.name}: {case.title}", entry.needs)
    try:
        entry.run(graph, now)
    except UnsupportedOperatorError as error:
        return f"refused: {error}"
    verify_graph(graph, f"{case.path.name}: {case.title}, behind {case.name}", entry.gives)
    return show_graph(graph)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.path.stem}-{case.name}-{case.title[:40]}")
def test_pass(case: Case) -> None:
    assert outcome(case).splitlines() == case.after.splitlines()


def test_every_pass_has_a_case() -> None:
    assert sorted(BY_NAME.keys() - {case.name for case in CASES}) == []


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
