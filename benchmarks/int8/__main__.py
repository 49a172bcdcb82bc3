"""int8 on trained networks: what each way loses, and its time on a board by estimate.

    python -m benchmarks.int8 --files FOLDER --pictures COCO128 --out results.jsonl [--only NAME ...] [--table]

Calibrated with 16 inputs, measured on 12 others. The loss is the one of `--accuracy-drop` (docs/accuracy.md): against
the float model, by what each output means; the largest of all outputs counts. `--table` prints what is in the file.
"""

from __future__ import annotations

import argparse
import json
import logging
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.int8.networks import NETWORKS, Array, Network, data_of, file_of
from openrknn.compiler import compile_model
from openrknn.compiler.accuracy.judge import LossJudge
from openrknn.compiler.importer.read import read_model
from openrknn.compiler.result import Compiled
from openrknn.errors import RknnError

SEEN, UNSEEN = 16, 12
WAYS: dict[str, dict[str, Any]] = {
    "minmax": {"method": "minmax", "adaptive_rounding": False, "bias_correction": False, "check": False},
    "default": {},
    "1%": {"accuracy_drop": "1%"},
    "fp16": {"fp16": True, "check": False},
}


def measured(network: Network, way: str, files: Path, pictures: Path) -> dict[str, Any]:
    """One network, one way."""
    data = data_of(network, pictures, files, SEEN + UNSEEN)
    model = read_model(file_of(network, files))
    entry = model.graph.input[0]
    shape = [dim.dim_value for dim in entry.type.tensor_type.shape.dim]
    if len(shape) == 4 and shape[-1] in {1, 3} and shape[1] not in {1, 3}:
        data = [np.ascontiguousarray(values.transpose(0, 2, 3, 1)) for values in data]
    row: dict[str, Any] = {"network": network.name, "kind": network.kind, "way": way}
    started, begun = time.perf_counter(), time.process_time()
    try:
        made = compile_model(model, shapes={entry.name: data[0].shape}, calibration=data[:SEEN], **WAYS[way])
    except RknnError as error:
        return row | {"error": f"{type(error).__name__}: {error}"[:300]}
    row |= {"cpu_s": round(time.process_time() - begun, 1), "wall_s": round(time.perf_counter() - started, 1)}
    return row | _losses(made, entry.name, data[SEEN:])


def _losses(made: Compiled, name: str, data: list[Array]) -> dict[str, Any]:
    variant = made.variants[0]
    judge = LossJudge(variant.source, variant.graph, [{name: values} for values in data], made.preprocess)
    loss, each = judge.loss(made.model)
    floats = sum(choice.precision == "fp16" for choice in made.precision)
    return {
        "loss": loss, "snr_db": min(entry.snr_db for entry in each), "ms": made.costs[1].time_ms,
        "format": made.format_name, "fp16_operators": floats, "operators": len(made.precision),
        "outputs": [entry.as_json() for entry in each], "inputs": len(data), "warnings": made.check.warnings,
        "chosen": made.accuracy.chosen if made.accuracy else "", "seen_loss": made.accuracy.loss if made.accuracy else
        made.check.loss,
    }  # fmt: skip


def table(rows: list[dict[str, Any]]) -> str:
    """The table of docs/accuracy.md."""
    found = {(row["network"], row["way"]): row for row in rows}
    lines = ["| network | min-max | default | `--accuracy-drop 1%` | seen | chosen |", "|---|---:|---:|---:|---:|---|"]
    for network in NETWORKS:
        cells = [_cell(found.get((network.name, way)), way) for way in ("minmax", "default", "1%")]
        last = found.get((network.name, "1%"), {})
        if all(cells):
            floats = f" ({last['fp16_operators']} of {last['operators']})" if last.get("format") == "mixed" else ""
            cells += [f"{last['seen_loss']:.2%}", last["chosen"] + floats] if "loss" in last else ["", ""]
            lines.append(f"| {network.name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(row: dict[str, Any] | None, way: str) -> str:
    if row is None or "error" in row:
        return "" if row is None else "refused"
    warned = ", warned" if way == "default" and row["warnings"] else ""
    return f"{row['loss']:.2%}, {row['snr_db']:.0f} dB, {row['ms']:.2f} ms{warned}"


def main() -> int:
    """Measure what is missing in the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=Path, help="where the packages were unpacked")
    parser.add_argument("--pictures", type=Path, help="images/ and labels/ in YOLO's form")
    parser.add_argument("--out", type=Path, required=True, help="what was measured, one JSON object a line")
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--ways", nargs="+", default=["minmax", "default", "1%", "fp16"], choices=list(WAYS))
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    rows = [json.loads(line) for line in arguments.out.read_text().splitlines()] if arguments.out.exists() else []
    if arguments.table:
        print(table(rows))
        return 0
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    done = {(row["network"], row["way"]) for row in rows}
    for network in NETWORKS:
        for way in arguments.ways:
            if (arguments.only and network.name not in arguments.only) or (network.name, way) in done:
                continue
            row = measured(network, way, arguments.files, arguments.pictures)
            with arguments.out.open("a") as out:
                out.write(json.dumps(row) + "\n")
            print({key: value for key, value in row.items() if key not in {"outputs", "warnings"}}, flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
