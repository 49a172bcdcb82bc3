#!/usr/bin/env python3
"""Trained networks that the compiler has not seen, case by case, beside the vendor's toolkit.

    python benchmarks/zoo.py NETWORKS --state zoo.jsonl [--toolkit PYTHON] [--markdown table.md]

NETWORKS has a folder for each network (see `trained.network`). PYTHON can import the vendor's rknn.api. Each build is a
process of its own, and its result is kept in the state file: a second run does only what is missing (`--again NAME`
does ours anew, `--again all` everything of ours; the vendor's builds stay).

Both sides get the same calibration data; both files are judged on other data, on the software NPU, against float.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from trained.network import networks
from trained.ours import build as build_ours
from trained.ours import judge
from trained.table import markdown, summary
from trained.toolkit import build as build_theirs

FORMS = ("fp", "i8")
_PATIENCE = 1500


def main() -> int:
    """Measure what is missing, then print the table."""
    arguments = _parser().parse_args()
    if arguments.one:
        print(json.dumps(_one(arguments, *arguments.one)))
        return 0
    done = _done(arguments.state, arguments.again)
    sides = (["vendor"] if arguments.toolkit else []) + ([] if arguments.only_vendor else ["ours"])
    found = networks(arguments.networks, arguments.only)
    for network in found:
        for side in sides:
            for form in arguments.forms:
                key = f"{network.name} {form} {side}"
                if key in done:
                    continue
                done[key] = {"key": key, **_isolated(network.name, form, side)}
                with arguments.state.open("a") as file:
                    file.write(json.dumps(done[key]) + "\n")
                print(key, done[key].get("error", done[key].get("snr")), flush=True)
    text = markdown(found, done)
    if arguments.markdown:
        arguments.markdown.write_text(text)
    print(summary(found, done) if arguments.markdown else text)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", type=Path)
    parser.add_argument("--state", type=Path, default=Path("zoo.jsonl"))
    parser.add_argument("--target", default="rk3588")
    parser.add_argument("--toolkit", help="a Python with the vendor's toolkit")
    parser.add_argument("--forms", nargs="*", default=FORMS, choices=FORMS)
    parser.add_argument("--only", nargs="*", metavar="NAME")
    parser.add_argument("--only-vendor", action="store_true")
    parser.add_argument("--again", nargs="*", default=[], metavar="NAME")
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    return parser


def _done(state: Path, again: list[str]) -> dict[str, dict[str, Any]]:
    """The last word about each build."""
    rows = [json.loads(line) for line in state.read_text().splitlines()] if state.exists() else []
    kept = {}
    for row in rows:
        name, _, side = row["key"].split()
        if side == "vendor" or not {"all", name} & set(again):
            kept[row["key"]] = row
    return kept


def _isolated(name: str, form: str, side: str) -> dict[str, Any]:
    """In a process of its own: one that crashes is one row."""
    words = [sys.executable, *sys.argv, "--one", name, form, side]
    try:
        run = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False, timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        return {"error": f"gave up after {_PATIENCE} s"}
    if run.returncode:
        last = (run.stderr.strip().splitlines() or ["nothing"])[-1]
        return {"error": f"TRACEBACK the process ended with {run.returncode}: {last}"}
    return dict(json.loads(run.stdout.splitlines()[-1]))


def _one(arguments: argparse.Namespace, name: str, form: str, side: str) -> dict[str, Any]:
    (network,) = networks(arguments.networks, [name])
    kept = arguments.state.resolve().parent / "builds"
    kept.mkdir(exist_ok=True)
    file = kept / f"{name}_{arguments.target}_{form}_{side}.rknn"
    if side == "ours":
        row = build_ours(network, form, arguments.target, file)
    else:
        row = build_theirs(network, form, arguments.toolkit, arguments.target, file)
    return row if "error" in row else row | judge(network, file)


if __name__ == "__main__":
    raise SystemExit(main())
