"""Runs what others published from boards through the software NPU, from your own clones of their repositories.

    python -m tools.silicon_ledgers FOLDER [--suite NAME ...] [--json]

FOLDER holds clones, under whatever names:

    dnhkng/open-rknpu     containers, inputs and outputs of an RV1103 board (research/*_suite): every inference of every
                          model that passed on the board
    gahingwoo/linux-rk3576-npu   models (vendor-capture/*.tflite) and what an RK3576 board gave for them: how many bytes
                          and channels are TensorFlow Lite's

Prints one line per suite: models, inferences, how many are equal byte for byte (or count for count), and the reason
where one was not run.
Exit code 1 if an answer differs, 3 if FOLDER has no clone that is known. docs/fidelity.md says what came out.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from openrknn.errors import RknnError
from tests.silicon.open_rknpu.container import Loaded, read
from tests.silicon.rk3576_counts import COUNTS, counted, file_of

DIFFERS, NOTHING = 1, 3


@dataclass
class Result:
    """How one suite came out."""

    suite: str
    models: int = 0
    inferences: int = 0
    equal: int = 0
    bytes: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    """Reason -> models."""

    @property
    def line(self) -> str:
        reasons = "".join(f"; {count} models not run: {why}" for why, count in self.skipped.items())
        return f"{self.suite}: {self.models} models, {self.equal} of {self.inferences} inferences equal{reasons}"


def places(folder: Path) -> list[Path]:
    """Where a clone may be: FOLDER itself, or one in it."""
    return [folder, *sorted(entry for entry in folder.iterdir() if entry.is_dir())]


def suites(folder: Path) -> Iterator[Path]:
    """The suites of a clone of open-rknpu, wherever in FOLDER it is."""
    for place in places(folder):
        yield from sorted(place.glob("research/*_suite"))


def passed(suite: Path) -> set[str]:
    """Numbers of the models that passed on the board."""
    found = set()
    for path in suite.glob("board_results*.json"):
        entries = json.loads(path.read_text(encoding="utf-8"))
        rows = [row for row in entries if isinstance(row, dict)] if isinstance(entries, list) else []
        found |= {f"{int(row['model']):03}" for row in rows if row.get("passed") and str(row.get("model")).isdigit()}
    return found


def run(suite: Path) -> Result:
    """Every inference of every model that passed."""
    result = Result(suite.name)
    for number in sorted(passed(suite)):
        paths = [suite / f"model{number}.bin", suite / f"input{number}.u8", suite / f"expected{number}.i8"]
        missing = [path.suffix for path in paths if not path.is_file()]
        if missing:
            result.skipped[f"no {' '.join(missing)} file"] += 1
            continue
        container, inputs, expected = (path.read_bytes() for path in paths)
        try:
            answers = list(Loaded(read(container)).answers(inputs))
        except (RknnError, ValueError) as error:
            result.skipped[str(error).splitlines()[0]] += 1
            continue
        size = len(answers[0]) if answers else 0
        parts = [expected[place : place + size] for place in range(0, len(expected), size)] if size else []
        result.models += 1
        result.inferences += len(answers)
        result.bytes += len(expected)
        result.equal += sum(found == said for found, said in zip(answers, parts, strict=False))
    return result


def convolutions(folder: Path) -> Result:
    """The counts of linux-rk3576-npu: each is a number of the board log."""
    result = Result("linux-rk3576-npu")
    for place in places(folder):
        for name, said in COUNTS.items():
            path = place / file_of(name)
            if path.is_file():
                found = counted(path, said)
                result.models += 1
                result.inferences += 1
                result.bytes += said.bytes
                result.equal += found == (said.bytes, said.channels)
    return result


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--suite", action="append", metavar="NAME", help="only this one; may be given several times")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if not arguments.folder.is_dir():
        print(f"{arguments.folder} is not a folder: give the one that holds your clones", file=sys.stderr)
        return NOTHING
    found = [suite for suite in suites(arguments.folder) if not arguments.suite or suite.name in arguments.suite]
    results = [run(suite) for suite in found]
    counts = convolutions(arguments.folder) if not arguments.suite else Result("")
    results += [counts] if counts.models else []
    if not results:
        print(f"no clone of dnhkng/open-rknpu or gahingwoo/linux-rk3576-npu in {arguments.folder}", file=sys.stderr)
        return NOTHING
    if arguments.json:
        print(json.dumps([asdict(result) for result in results], indent=1))
    else:
        print("\n".join(result.line for result in results if result.models or result.skipped))
        total, equal = sum(result.inferences for result in results), sum(result.equal for result in results)
        print(f"in all {equal} of {total} inferences equal")
    return DIFFERS if any(result.equal < result.inferences for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
