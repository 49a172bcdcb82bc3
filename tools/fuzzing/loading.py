"""Files damaged at random, byte by byte, and loaded: `tools/fuzz.py --load`.

Fails on anything that is not an `RknnError`, on a file that takes longer than the limit, and on more memory than
4 x file size + 64 MB above the start.
"""

from __future__ import annotations

import random
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from pathlib import Path
from types import FrameType

from tests.container.mutate import exercise, mutated

__all__ = ["load_damaged"]


def load_damaged(files: list[Path], count: int, seed: int, seconds: float, keep: Path) -> int:
    """The number of files that failed; each is kept under its seed."""
    sources = [path.read_bytes() for path in files]
    limit = _virtual_bytes() + 4 * max(map(len, sources)) + 64 * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    signal.signal(signal.SIGALRM, _too_slow)
    outcomes: Counter[str] = Counter()
    slowest = 0.0
    for number in range(count):
        rng = random.Random(f"{seed}:{number}")
        data = mutated(rng.choice(sources), rng)
        begun = time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            outcomes[exercise(data)] += 1
        except Exception:  # noqa: BLE001 - whatever it is, it is the find
            outcomes["FAILED"] += 1
            keep.mkdir(parents=True, exist_ok=True)
            (keep / f"{seed}-{number}.rknn").write_bytes(data)
            traceback.print_exc()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        slowest = max(slowest, time.monotonic() - begun)
        if number % 1000 == 999:
            print(f"{number + 1} files, {dict(outcomes)}, slowest {slowest:.2f} s", file=sys.stderr)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{count} files: {dict(outcomes)}; slowest {slowest:.2f} s, peak {peak} MB")
    return outcomes["FAILED"]


def _virtual_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def _too_slow(_signal: int, _frame: FrameType | None) -> None:
    raise TimeoutError("this file takes too long")
