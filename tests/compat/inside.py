"""Runs all behaviour checks on whichever `rknnlite` is installed, without pytest.

    python tests/compat/inside.py REPOSITORY REPORT OUTPUTS.npz [folder of packages ...]

The report gets one JSON line when a check starts and one when it ended, so that a crash names its check.
"""

from __future__ import annotations

import json
import sys
import tempfile
import traceback
from pathlib import Path


def main(root: str, report: str, outputs: str, *packages: str) -> int:
    """Run every check; the exit code says whether all went well."""
    # Not PYTHONPATH: the emulated device runs in another Python, which would see these packages too.
    sys.path[:0] = [*packages, root]
    import numpy as np

    from tests.compat.checks import CHECKS
    from tests.compat.lab import Lab

    failures = 0
    with tempfile.TemporaryDirectory() as folder, open(report, "a", encoding="utf-8") as stream:
        lab = Lab(Path(root) / "tests" / "goldens", Path(folder))
        for name, check in CHECKS.items():
            print(json.dumps({"check": name, "state": "started"}), file=stream, flush=True)
            try:
                check(lab)
                line = {"check": name, "state": "passed"}
            except Exception:  # noqa: BLE001 - whatever a check raises is its result
                failures += 1
                line = {"check": name, "state": "failed", "trace": traceback.format_exc()}
            print(json.dumps(line), file=stream, flush=True)
        np.savez(outputs, **lab.saved)  # type: ignore[arg-type]
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
