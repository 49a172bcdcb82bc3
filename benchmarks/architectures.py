#!/usr/bin/env python3
"""Whole networks as exporters write them: which of them the compiler builds, beside the vendor's builds of them.

    python benchmarks/architectures.py FOLDER --vendor BUILDS --targets rk3588 rk3566 --forms fp16 int8 \\
        --state architectures.jsonl --markdown table.md

FOLDER has NAME.onnx, BUILDS the vendor's NAME_TARGET_fp.rknn and NAME_TARGET_i8.rknn. int8 is calibrated with random
pictures, and both forms are judged by other random ones: the signal-to-noise ratio against float, on the software NPU.
Each case is a process of its own. Results are kept in the state file: a second run does only what is missing (--again
NAME does a network anew). "NPU" is the share of multiplications that the NPU does.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

SHORT = {"fp16": "fp", "int8": "i8"}
COLUMNS = ("network", "target", "form", "built", "NPU", "ms", "vendor ms", "ratio", "on the CPU", "dB", "s", "MB")


def main() -> int:
    """Measure what is missing, then print and write the table; 1 if something was not built."""
    arguments = _parser().parse_args()
    if arguments.one:
        name, target, form = arguments.one
        print(json.dumps(_measure(arguments, name, target, form)))
        return 0
    names = arguments.only or sorted(path.stem for path in arguments.folder.glob("*.onnx"))
    wanted = [(n, t, f) for t in arguments.targets for f in arguments.forms for n in names]
    done = _done(arguments.state, arguments.again)
    for case in wanted:
        if case not in done:
            print(*case, file=sys.stderr, flush=True)
            done[case] = _isolated(case, arguments.seconds)
            with arguments.state.open("a") as file:
                file.write(json.dumps(done[case]) + "\n")
    rows = [done[case] for case in wanted]
    if arguments.markdown:
        arguments.markdown.write_text(markdown(rows))
    print(json.dumps(rows) if arguments.json else markdown(rows))
    return int(any("refused" in row for row in rows))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--vendor", type=Path, help="folder with the vendor's builds")
    parser.add_argument("--targets", nargs="+", default=["rk3588"])
    parser.add_argument("--forms", nargs="+", default=["fp16", "int8"], choices=list(SHORT))
    parser.add_argument("--state", type=Path, default=Path("architectures.jsonl"))
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--only", nargs="*", metavar="NAME")
    parser.add_argument("--again", nargs="*", default=[], metavar="NAME")
    parser.add_argument("--seconds", type=float, default=900, help="of one case")
    parser.add_argument("--no-run", action="store_true", help="build only: no signal-to-noise ratio")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    return parser


def _done(state: Path, again: list[str]) -> dict[tuple[str, str, str], dict[str, Any]]:
    rows = [json.loads(line) for line in state.read_text().splitlines()] if state.exists() else []
    return {(row["network"], row["target"], row["form"]): row for row in rows if row["network"] not in again}


def _isolated(case: tuple[str, str, str], seconds: float) -> dict[str, Any]:
    row = dict(zip(COLUMNS, case, strict=False))
    words = [sys.executable, *sys.argv, "--one", *case]
    try:
        run = subprocess.run(words, capture_output=True, text=True, errors="replace", timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return {**row, "refused": f"not done after {seconds:g} s"}
    if run.returncode:
        last = (run.stderr.strip().splitlines() or ["nothing"])[-1]
        return {**row, "refused": f"the process ended with {run.returncode}: {last}"}
    return {**row, **json.loads(run.stdout.splitlines()[-1])}


def _measure(arguments: argparse.Namespace, name: str, target: str, form: str) -> dict[str, Any]:
    from openrknn.compiler import compile_model
    from openrknn.compiler.options import CompileOptions
    from openrknn.compiler.verify import verify
    from openrknn.errors import RknnError

    path = arguments.folder / f"{name}.onnx"
    row = _vendor(arguments.vendor, name, target, form)
    begun = time.monotonic()
    data = _inputs(path, 3)
    try:
        options: dict[str, Any] = {"calibration": data[:2]} if form == "int8" else {}
        if "check" in CompileOptions.__dataclass_fields__:  # it is checked below, by other data
            options["check"] = False
        made = compile_model(str(path), target=target, cores=1, **options)
    except RknnError as error:
        return {**row, "refused": f"{type(error).__name__}: {error}"}
    row["seconds"] = round(time.monotonic() - begun, 1)
    row["megabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    steps = made.lowering.program.steps
    row["cpu"] = dict(Counter(step.type for step in steps if step.is_cpu))
    row["ms"] = made.variants[0].costs[1].time_ms
    row["cycles"] = made.variants[0].costs[1].cycles
    on_npu = sum(step.macs for step in steps if not step.is_cpu)
    row["share"] = on_npu / max(1, on_npu + sum(_cpu_macs(made, step) for step in steps if step.is_cpu))
    if not arguments.no_run:
        row["decibels"] = [round(verdict.decibels, 1) for verdict in verify(made, data[2:])]
    return row


def _cpu_macs(made: Any, step: Any) -> int:
    """Of a product on the CPU: its output times its depth; what else the CPU does multiplies nothing."""
    if step.type != "MatMul":
        return 0
    tensors = made.lowering.program.tensors
    return int(np.prod(tensors[step.outputs[0]].shape)) * int(tensors[step.inputs[0]].shape[-1])


def _vendor(folder: Path | None, name: str, target: str, form: str) -> dict[str, Any]:
    from openrknn import load
    from openrknn.compiler.cost import cost_of
    from openrknn.errors import RknnError

    path = folder / f"{name}_{target}_{SHORT[form]}.rknn" if folder else None
    if path is None or not path.exists():
        return {}
    try:
        cost = cost_of(load(path))
    except RknnError as error:
        return {"vendor_error": str(error)}
    return {"vendor_ms": cost.time_ms, "vendor_cycles": cost.cycles, "vendor_cpu": cost.cpu_operators}


def _inputs(path: Path, count: int) -> list[dict[str, Any]]:
    """Random pictures between 0 and 1, smooth enough to look like some."""
    import onnx

    random = np.random.default_rng(0)
    graph = onnx.load(path, load_external_data=False).graph
    known = {tensor.name for tensor in graph.initializer}
    entries = [entry for entry in graph.input if entry.name not in known]
    shapes = {
        entry.name: [max(1, dimension.dim_value) for dimension in entry.type.tensor_type.shape.dim] for entry in entries
    }
    return [{name: _picture(random, shape) for name, shape in shapes.items()} for _ in range(count)]


def _picture(random: np.random.Generator, shape: list[int]) -> Any:
    values: Any = random.random(shape)
    for axis in range(2, len(shape)):
        values = (values + np.roll(values, 1, axis) + np.roll(values, 2, axis)) / 3
    return values.astype(np.float32)


def markdown(rows: list[dict[str, Any]]) -> str:
    """A line for each case, and how many were built."""
    lines = [f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}"]
    for row in rows:
        ours, theirs = row.get("ms") or row.get("cycles"), row.get("vendor_ms") or row.get("vendor_cycles")
        cells = [
            row["network"], row["target"], row["form"], row.get("refused", "yes")[:160].replace("|", "/"),
            _text(row.get("share"), "{:.1%}"), _text(ours, "{:.2f}"), _text(theirs, "{:.2f}"),
            _text(ours / theirs if ours and theirs else None, "{:.2f}"),
            ", ".join(f"{count} {kind}" for kind, count in row.get("cpu", {}).items()),
            _text(min(row.get("decibels") or [None]), "{:.1f}"), _text(row.get("seconds"), "{:.0f}"),
            _text(row.get("megabytes"), "{:d}"),
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    built = sum("refused" not in row for row in rows)
    return "\n".join([*lines, "", f"{built} of {len(rows)} built.", ""])


def _text(value: Any, form: str) -> str:
    return "" if value is None else form.format(value)


if __name__ == "__main__":
    raise SystemExit(main())
