#!/usr/bin/env python3
"""Runs mutated `.rknn` files and generated tasks, and fails on whatever should not happen.

    tools/fuzz.py                               10,000 mutants of the small models in tests/goldens
    tools/fuzz.py --mutants 100000 --workers 2  more of them; the same --seed gives the same mutants with one worker
    tools/fuzz.py --valid 20000 --kinds formats  valid tasks of one kind: 4-bit numbers, weights narrower than features
    tools/fuzz.py --valid 50000 --workers 16    valid tasks of every kind; the same --seed gives the same tasks
    tools/fuzz.py --minutes 5 --keep found      as many as five minutes allow
    tools/fuzz.py --replay found/0-17.rknn      a mutant (or found/task-0-17.json) once more, with everything it says
    tools/fuzz.py --no-sanitizers               on the installed library: faster, and blind to reads out of bounds
    tools/fuzz.py --load --mutants 100000         files damaged byte by byte are loaded and not run

A mutant is a real file with changed register fields, commands, tasks, relocations, shapes, scales or constants. It runs
twice, with native kernels built with the address and undefined behaviour sanitizers and with NumPy alone, and both must
agree: the same bytes in all outputs and all memory of the device, or an `RknnError` of the same kind. Mutants that
reach something new (blocks of native code, kinds of steps, causes of refusals) become parents of others. Failures are a
difference, an error that is not ours, a crash, more than 20 s, more than 2 GB. Each is kept with a record of its seed.

A valid task (--valid) is one step of the NPU, a network of one operator that the compiler translates for a chip, or
work of the kernels on the host. The generator covers all pairs of values of the parameters of each kind, then draws at
random. Native kernels run in memory that ends exactly where NumPy stopped reading, and all of it must be equal.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tools.fuzzing.build import build  # noqa: E402
from tools.fuzzing.campaign import Campaign, Limits, Worker, WorkerLostError  # noqa: E402
from tools.fuzzing.judge import Verdict, Way, ways  # noqa: E402
from tools.fuzzing.loading import load_damaged  # noqa: E402
from tools.fuzzing.tasks import TaskCampaign, replay_task  # noqa: E402
from tools.fuzzing.valid.spaces import KINDS, Tasks  # noqa: E402

_LARGEST_SOURCE = 90_000


def main() -> int:
    """Run the campaign or replay files; the exit code is 1 if anything failed."""
    arguments = _arguments()
    if arguments.load:
        failed = load_damaged(arguments.files, arguments.mutants, arguments.seed, arguments.seconds, arguments.keep)
        return min(failed, 1)
    folder = None if arguments.no_sanitizers else build(ROOT / "build" / "fuzz")
    if folder is None and not arguments.no_sanitizers:
        print("gcc's sanitizers are not installed; use --no-sanitizers", file=sys.stderr)
        return 2
    limits = Limits(arguments.seconds, arguments.memory << 20)
    if arguments.replay:
        return max([_replay(path, folder, limits) for path in arguments.replay])
    if arguments.valid:
        limits = Limits(3 * arguments.seconds, limits.memory)  # the first task of a worker also imports and makes noise
        kinds = arguments.kinds or tuple(KINDS)
        tasks = TaskCampaign(Tasks(arguments.seed, kinds), arguments.seed, arguments.keep, folder, limits)
        failed = tasks.run(arguments.valid, arguments.workers, arguments.minutes)
        print(tasks.table())
        if arguments.reasons:
            print(f"left to NumPy, or refused by it:\n{tasks.reasons()}")
        return 1 if failed else 0
    sources = [path for path in arguments.files if path.stat().st_size < _LARGEST_SOURCE]
    campaign = Campaign(sources, arguments.seed, arguments.keep, folder, limits, arguments.log)
    failed = campaign.run(arguments.mutants, arguments.workers, arguments.minutes)
    print(campaign.table())
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, default=sorted((ROOT / "tests" / "goldens").rglob("*.rknn")))
    parser.add_argument("--mutants", "--count", type=int, default=10_000, help="how many (default: %(default)s)")
    parser.add_argument("--valid", type=int, metavar="COUNT", help="run so many valid tasks instead of mutants")
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), help="valid tasks of these kinds alone")
    parser.add_argument("--reasons", action="store_true", help="say why native kernels did not take valid tasks")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", "--jobs", type=int, default=1, help="processes")
    parser.add_argument("--minutes", type=float, help="stop after this time")
    parser.add_argument("--seconds", type=float, default=20.0, help="longest time for one mutant")
    parser.add_argument("--memory", type=int, default=2048, help="most memory for one mutant, in MB")
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir(), "openrknn-fuzz"), metavar="FOLDER",
                        help="where failing mutants go (default: %(default)s)")  # fmt: skip
    parser.add_argument("--log", type=Path, help="write progress to this file")
    parser.add_argument("--load", action="store_true", help="only load files that are damaged byte by byte")
    parser.add_argument("--replay", type=Path, nargs="+", metavar="FILE", help="judge these files as they are")
    parser.add_argument("--no-sanitizers", action="store_true", help="use the installed library")
    return parser.parse_args()


def _replay(path: Path, folder: Path | None, limits: Limits) -> int:
    """1 if it fails in the way that its record says, or without one in any."""
    if path.suffix == ".json":
        return replay_task(path, folder, limits)
    record = path.with_suffix(".json")
    chosen = [Way(**json.loads(record.read_text())["way"])] if record.is_file() else ways(3)
    worker, failed = Worker(folder, limits), 0
    for way in chosen:
        try:
            verdict: Verdict = worker.ask((0, path.read_bytes(), "", way))["verdict"]
        except WorkerLostError as lost:
            verdict = lost.verdict
        failed |= verdict.failed
        print(f"{path.name} ({way.kernels}, {way.cores} cores): {verdict.outcome}\n{verdict.detail}")
    worker.close()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
