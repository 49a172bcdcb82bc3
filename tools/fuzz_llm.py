#!/usr/bin/env python3
"""Opens hostile files of language models, computes with them, and fails on whatever must not happen.

    tools/fuzz_llm.py                          300 mutants of each kind
    tools/fuzz_llm.py --count 2500             the acceptance: 5,000 and more
    tools/fuzz_llm.py --kinds folder --seed 7  other mutants of folders with safetensors

A mutant may work or be refused with an `RknnError`. Failures: FOREIGN (another exception), CRASH (a signal), HANG,
MEMORY (more than --memory MB above what the process had). Mutants that failed go to --keep.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools.fuzzing_llm.campaign import campaign
from tools.fuzzing_llm.seeds import KINDS


def main() -> int:
    """1 if anything failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300, help="mutants of each kind (300)")
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=list(KINDS), help="some of them")
    parser.add_argument("--seed", type=int, default=1, help="other numbers give other mutants (1)")
    parser.add_argument("--memory", type=int, default=256, help="MB of one process beyond what it starts with (256)")
    parser.add_argument("--seconds", type=int, default=20, help="of one mutant (20)")
    parser.add_argument("--keep", type=Path, default=Path("found"), help="folder for mutants that failed (found)")
    options = parser.parse_args()
    failed = 0
    for kind in options.kinds:
        tally, failures = campaign(
            kind, options.count, options.seed, memory=options.memory << 20, seconds=options.seconds
        )
        print(kind, " ".join(f"{name}: {count}" for name, count in sorted(tally.items())))
        for number, text, files in failures:
            failed += 1
            print(f"  {kind} {number}: {text}")
            for name, data in files.items():
                path = options.keep / f"{kind}-{options.seed}-{number}" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
