#!/usr/bin/env python3
"""Everything that the open compiler promises, case by case, beside the vendor's.

    python benchmarks/acceptance/fetch.py SOURCES
    python benchmarks/compiler_acceptance.py --corpus CORPUS --models MODELS --sources SOURCES \\
        --library librknnrt.so --toolkit PYTHON --state results.jsonl --markdown table.md --html table.html

CORPUS has NAME.onnx with NAME_rk3588_{i8,fp}.rknn and .npz as the vendor's toolkit made them; MODELS has builds of
trained networks; SOURCES the unpacked packages with their ONNX files and the photos. Each case is a process of its own.
Results are kept in the state file: a second run does only what is missing (--again NAME does a case anew).

The data to calibrate with and the data to judge by are never the same. Where the vendor's build was made with other
data than ours, --toolkit (a Python that can import rknn.api) makes another one with the same data; without it the
stored build is used, and the table says so.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from acceptance.cases import Case, cases
from acceptance.measure import Tools, measure
from acceptance.table import complaints, markdown, page, summary
from rich.progress import Progress


def main() -> int:
    """Measure what is missing, then print and write the table."""
    arguments = _parser().parse_args()
    found = cases(arguments.corpus, arguments.models, arguments.sources)
    if arguments.only:
        found = [case for case in found if {case.name, case.title} & set(arguments.only)]
    if arguments.one is not None:
        tools = Tools(arguments.library, arguments.toolkit, arguments.state.parent / "toolkit", arguments.method)
        case = next(case for case in found if case.title == arguments.one)
        print(json.dumps(measure(case, tools)))
        return 0
    done = _done(arguments.state, arguments.again)
    with Progress() as bar:
        task = bar.add_task("cases", total=len(found))
        for case in found:
            bar.update(task, description=case.title)
            if case.title not in done:
                done[case.title] = _isolated(case)
                with arguments.state.open("a") as file:
                    file.write(json.dumps(done[case.title]) + "\n")
            bar.advance(task)
    rows = [done[case.title] for case in found]
    if arguments.markdown:
        arguments.markdown.write_text(markdown(rows))
    if arguments.html:
        arguments.html.write_text(page(rows))
    print(json.dumps(rows) if arguments.json else markdown(rows) if not arguments.markdown else summary(rows))
    return 1 if complaints(rows) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("corpus", "models", "sources", "markdown", "html"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--library", help="the vendor's librknnrt.so")
    parser.add_argument("--toolkit", help="a Python with the vendor's toolkit")
    parser.add_argument("--state", type=Path, default=Path("acceptance.jsonl"))
    parser.add_argument("--method", default="minmax")
    parser.add_argument("--only", nargs="*", metavar="CASE")
    parser.add_argument("--again", nargs="*", default=[], metavar="CASE")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    return parser


def _done(state: Path, again: list[str]) -> dict[str, dict[str, Any]]:
    """The last word about each case."""
    if not state.exists():
        return {}
    rows = [json.loads(line) for line in state.read_text().splitlines()]
    return {row["case"]: row for row in rows if not {row["case"], row["name"]} & set(again)}


def _isolated(case: Case) -> dict[str, Any]:
    """In a process of its own: one that crashes is one row."""
    words = [sys.executable, *sys.argv, "--one", case.title]
    run = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False)
    if run.returncode:
        last = (run.stderr.strip().splitlines() or ["nothing"])[-1]
        return {"case": case.title, "name": case.name, "form": case.form,
                "error": f"the process ended with {run.returncode}: {last}"}  # fmt: skip
    return dict(json.loads(run.stdout.splitlines()[-1]))


if __name__ == "__main__":
    raise SystemExit(main())
