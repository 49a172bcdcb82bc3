#!/usr/bin/env python3
"""Mutate `.rknn` files and load them, for as long as you like: `tools/fuzz.py --count 100000 [FILE...]`.

Fails on anything that is not an `RknnError`, on a file that takes longer than --seconds, and on more memory than
4 x file size + 64 MB above the start. A failing file is kept in --keep, with the seed that makes it again.
"""

from __future__ import annotations

import argparse
import random
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.container.mutate import exercise, mutated  # noqa: E402


def main() -> int:
    """Run the campaign; the exit code is the number of failures, at most 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, default=sorted((ROOT / "tests" / "goldens").glob("*.rknn")))
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=5.0, help="longest time for one file")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-failures"))
    arguments = parser.parse_args()
    sources = [path.read_bytes() for path in arguments.files]
    limit = _virtual_bytes() + 4 * max(map(len, sources)) + 64 * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    signal.signal(signal.SIGALRM, _too_slow)
    outcomes: Counter[str] = Counter()
    started = time.monotonic()
    slowest = 0.0
    for number in range(arguments.count):
        rng = random.Random(f"{arguments.seed}:{number}")
        data = mutated(rng.choice(sources), rng)
        begun = time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, arguments.seconds)
        try:
            outcomes[exercise(data)] += 1
        except Exception:  # noqa: BLE001 - whatever it is, it is the find
            outcomes["FAILED"] += 1
            arguments.keep.mkdir(exist_ok=True)
            (arguments.keep / f"{arguments.seed}-{number}.rknn").write_bytes(data)
            traceback.print_exc()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        slowest = max(slowest, time.monotonic() - begun)
        if number % 1000 == 999:
            print(f"{number + 1} files, {dict(outcomes)}, {time.monotonic() - started:.0f} s, slowest {slowest:.2f} s")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{arguments.count} files: {dict(outcomes)}; slowest {slowest:.2f} s, peak {peak} MB")
    return min(outcomes["FAILED"], 1)


def _virtual_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def _too_slow(_signal: int, _frame: FrameType | None) -> None:
    raise TimeoutError("this file takes too long")


if __name__ == "__main__":
    sys.exit(main())
