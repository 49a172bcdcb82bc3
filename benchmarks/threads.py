"""What more threads gain: openrknn beside ONNX Runtime int8, with the same number of threads, in one run.

    python benchmarks/threads.py [--threads 1,2,4,8,16] [--rounds 10] [--realtime] [--page docs/benchmarks.md]

Every engine is a process of its own, and they take turns; the best inference of each counts, in time that passes. The
bar: a number of threads is not slower than half of it, within 5 %. With more threads than cores, openrknn uses as many
as there are cores, and ONNX Runtime as many as it was told.
"""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from datetime import date
from pathlib import Path
from typing import Any

import sections
from inference import MODELS, NETS, PEERS, Engine, processor
from rich.console import Console
from rich.table import Table

from openrknn.compute import processors

SHOWN = ("MobileNetV2 224", "ResNet18 224", "YOLOv8n-shaped 640")
TOLERANCE = 1.05
OURS, THEIRS = "openrknn", "ONNX Runtime int8"
MEASURED = """Written by `benchmarks/threads.py`. One inference in time that passes, in milliseconds, the best of
{rounds} rounds; both engines have the number of threads of the column. {processor}, {cores} cores for this process,
kernels `{kernels}`, {day}. Beyond the cores openrknn does not start more threads; a star marks a number of threads
that was slower than half of it."""


def measure(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Milliseconds by engine and number of threads."""
    ours, quantised = (str(arguments.models / file) for file in NETS[name])
    python = arguments.onnxruntime or sys.executable
    working = [
        Engine(f"{engine} {threads}", [interpreter, str(PEERS / script), model, str(threads)])
        for engine, interpreter, script, model in (
            (OURS, sys.executable, "session.py", ours), (THEIRS, python, "onnxruntime_int8.py", quantised),
        )
        for threads in arguments.threads
    ]  # fmt: skip
    for engine in working:
        engine.environment = {"REALTIME": "1"} if arguments.realtime else {}
        engine.start()
    try:
        for _ in range(arguments.rounds):
            for engine in working:
                engine.turn()
    finally:
        for engine in working:
            engine.stop()
    about = working[0].about
    times = {engine.name: min(engine.passed) * 1e3 if engine.passed else None for engine in working}
    return {"net": name, "kernels": about.get("kernels", "?"), "milliseconds": times}


def rows(result: dict[str, Any], threads: list[int]) -> list[list[str]]:
    """A row for each engine; a star where more threads were slower."""
    table = []
    for engine in (OURS, THEIRS):
        times = [result["milliseconds"][f"{engine} {count}"] for count in threads]
        cells = []
        for count, time in zip(threads, times, strict=True):
            half = result["milliseconds"].get(f"{engine} {count // 2}")
            is_slower = time is not None and half is not None and time > half * TOLERANCE
            cells.append("missing" if time is None else f"{time:.2f}" + (" *" if is_slower else ""))
        table.append([result["net"], engine, *cells])
    return table


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", default="1,2,4,8,16", help="numbers of threads (default: %(default)s)")
    parser.add_argument("--onnxruntime", metavar="PYTHON", help="a Python with onnxruntime (default: this one)")
    parser.add_argument("--models", type=Path, default=MODELS, help="folder of the models (default: %(default)s)")
    parser.add_argument("--net", choices=NETS, action="append", help="only this one (may be repeated)")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--realtime", action="store_true", help="turns with real-time priority; needs root")
    parser.add_argument("--note", default="", help="what else to say about this run on the page")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--page", type=Path, metavar="FILE", help="also write the section of the documentation page")
    arguments = parser.parse_args()
    arguments.threads = [int(count) for count in arguments.threads.split(",")]
    results = [measure(name, arguments) for name in arguments.net or SHOWN]
    columns = ["net", "engine", *(f"{count} threads" if count > 1 else "1 thread" for count in arguments.threads)]
    cells = [row for result in results for row in rows(result, arguments.threads)]
    table = Table(*columns, title="milliseconds of one inference")
    for row in cells:
        table.add_row(*row)
    Console(stderr=arguments.json, width=None if sys.stdout.isatty() else 130).print(table)
    if arguments.json:
        print(json.dumps(results, indent=2))
    if arguments.page:
        about = MEASURED.format(
            rounds=arguments.rounds, processor=processor(), cores=processors.cores(), kernels=results[0]["kernels"],
            day=date.today(),
        )  # fmt: skip
        about = f"{about} {arguments.note}"
        marks = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
        body = ["| " + " | ".join(row) + " |" for row in cells]
        sections.put(arguments.page, "threads", ["## Threads", "", *textwrap.wrap(about, 118), "", *marks, *body])


if __name__ == "__main__":
    main()
