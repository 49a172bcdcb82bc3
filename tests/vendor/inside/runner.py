"""Runs the checks of one script inside the process that holds the vendor's library.

    python runner.py SCRIPT REPORT [argument ...]

Each function `check_*` of the script is called; the report gets one JSON line when it starts and one when it ended, so
that a crash names its check. The exit code is 0 if all went well. This runs where pytest is not installed.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import traceback
from pathlib import Path

# Below `openrknn exec` PYTHONPATH would reach that program too.
sys.path[1:1] = filter(None, os.environ.get("OPENRKNN_BOARD_PATH", "").split(os.pathsep))


def main(script: str, report: str, *only: str) -> int:
    """Run all checks of a script, or those that are named."""
    spec = importlib.util.spec_from_file_location(Path(script).stem, script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    failures = 0
    with open(report, "a", encoding="utf-8") as stream:
        for name in [name for name in vars(module) if name.startswith("check_") and (not only or name in only)]:
            print(json.dumps({"check": name, "state": "started"}), file=stream, flush=True)
            try:
                vars(module)[name]()
                line = {"check": name, "state": "passed"}
            except Exception:  # noqa: BLE001 - whatever a check raises is its result
                failures += 1
                line = {"check": name, "state": "failed", "trace": traceback.format_exc()}
            print(json.dumps(line), file=stream, flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
