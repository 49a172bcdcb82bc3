#!/usr/bin/env python3
"""Compiles hostile model files of every import format, and fails on whatever must not happen.

    tools/fuzz_importers.py                                  200 files of each format, one process
    tools/fuzz_importers.py --count 3000 --workers 16        the acceptance: 20,000 and more
    tools/fuzz_importers.py --formats onnx,tflite --seed 7   other mutants of two formats
    tools/fuzz_importers.py --replay found/onnx-1-17         a file that failed, once more

Failures: CODE (a command of the file ran, or was tried), READ (a file outside the model's folder was opened), FOREIGN
(an exception that is not an RknnError), CRASH, HANG, MEMORY (over --memory MB). Formats whose package is not installed
are listed as not run. Failing files go to --keep, with the traceback in verdict.json.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools.fuzzing_importers.campaign import Campaign, _preload
from tools.fuzzing_importers.judge import BAD, Judge
from tools.fuzzing_importers.seeds import FORMATS, Seed, seeds


def main() -> int:
    """1 if anything failed."""
    options = _options()
    if options.replay:
        return max(_replay(path, options) for path in options.replay)
    campaign = Campaign(
        options.formats, options.count, options.seed, options.workers, options.keep, options.seconds,
        options.memory << 20, options.check, options.first,
    )  # fmt: skip
    failed = campaign.run()
    print(campaign.table())
    return int(failed > 0)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200, help="mutants of each format (200)")
    parser.add_argument("--first", type=int, default=0, help="number of the first mutant, to go on with a campaign (0)")
    parser.add_argument("--workers", type=int, default=1, help="processes (1)")
    parser.add_argument("--formats", type=lambda text: text.split(","), default=list(FORMATS), help="some of them")
    parser.add_argument("--seed", type=int, default=1, help="other numbers give other mutants (1)")
    parser.add_argument("--seconds", type=float, default=60.0, help="of one file (60)")
    parser.add_argument("--memory", type=int, default=2048, help="MB of one file (2048)")
    parser.add_argument("--check", action="store_true", help="run the compiler's own check too")
    parser.add_argument("--keep", type=Path, default=Path("found"), help="folder for files that failed (found)")
    parser.add_argument("--replay", type=Path, nargs="+", metavar="FOLDER", help="judge these as they are")
    return parser.parse_args()


def _replay(path: Path, options: argparse.Namespace) -> int:
    kind = path.name.partition("-")[0]
    record = json.loads((path / "verdict.json").read_text())
    files = {str(one.relative_to(path)): one.read_bytes() for one in path.rglob("*")
             if one.is_file() and one.name != "verdict.json"}  # fmt: skip
    first: Seed = next(one for one in seeds(kind) if one.name == record["seed"])
    _preload({kind: [first]})
    with tempfile.TemporaryDirectory(dir=options.keep.resolve().parent) as work:
        judge = Judge(Path(work), seconds=options.seconds, memory=options.memory << 20, is_checked=options.check)
        verdict = judge.judge(first, files)
    tempfile.tempdir = None  # the judge's own is gone
    print(f"{path.name}: {verdict.outcome} ({verdict.seconds:.1f} s, {verdict.rss >> 20} MB)\n{verdict.detail}")
    return int(verdict.outcome in BAD)


if __name__ == "__main__":
    sys.exit(main())
