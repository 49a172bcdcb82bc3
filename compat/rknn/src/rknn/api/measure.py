"""What a model costs and how near it is to its source, as text."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from openrknn import Model, load
from openrknn.analysis import Comparison, compare, comparison_as_json
from openrknn.container import write_atomically
from openrknn.vision import picture_for
from rknnlite.api.rknn_runtime import RKNNRuntime

__all__ = ["accuracy_report", "accuracy_table", "memory_table", "performance_table"]

_RULE = "=" * 100


def performance_table(runtime: RKNNRuntime) -> str:
    """One row per operator. Times are of this machine; cycles are openrknn's estimate for a board."""
    profile = runtime.session.profile()
    head = f"{'ID':<5}{'OpType':<24}{'Target':<8}{'Time(us)':>10}  {'Cycles(estimated)':>18}  Name"
    rows = [
        f"{row.index:<5}{row.type:<24.23}{row.placement.value.upper():<8}{row.seconds * 1e6:>10.0f}  "
        f"{'' if row.estimated_cycles is None else row.estimated_cycles:>18}  {row.name}"
        for row in profile.operators
    ]
    total = f"Total: {profile.seconds * 1e6:.0f} us on {profile.device}, {profile.cores} core(s); "
    total += f"about {profile.estimated_cycles} cycles on a board"
    if profile.time_ms is not None and profile.low_ms is not None and profile.high_ms is not None:
        total += f", {profile.time_ms:.2f} ms ({profile.low_ms:.2f} to {profile.high_ms:.2f})"
    return "\n".join((_RULE, "Performance", _RULE, head, *rows, total, _RULE))


def memory_table(runtime: RKNNRuntime) -> tuple[dict[str, int], str]:
    """Bytes on the device, by use."""
    report = runtime.session.memory()
    found = {
        "weight_memory": report.weights,
        "internal_memory": report.internal,
        "other_memory": report.commands + report.inputs + report.outputs,
        "total_memory": report.total,
    }
    rows = [f"{name:<24}{size / 1024:>12.2f} KiB" for name, size in found.items()]
    return found, "\n".join((_RULE, "Memory", _RULE, *rows, _RULE))


def accuracy_report(
    model: str | os.PathLike[str] | bytes, onnx: str | os.PathLike[str], inputs: Sequence[str],
    folder: str | os.PathLike[str],
) -> None:  # fmt: skip
    """The comparison as numbers and as text in a folder; a model that is not a file yet goes there too."""
    loaded = load(model)
    comparison = compare(loaded, onnx, _arrays(loaded, inputs), fed=inputs)
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    if isinstance(model, bytes):
        write_atomically(target / "model.rknn", model)
    numbers = json.dumps({"schema_version": 1, **comparison_as_json(comparison)}, indent=1)
    write_atomically(target / "error_analysis.json", numbers.encode())
    write_atomically(target / "error_analysis.txt", accuracy_table(comparison).encode())


def accuracy_table(comparison: Comparison) -> str:
    """One row per tensor that both models have, in the order of execution."""
    head = f"{'Cosine':>10}{'SNR(dB)':>10}  Tensor"
    rows = [f"{_number(row.metrics.cosine, 6)}{_number(row.metrics.snr_db, 2)}  {row.tensor}"
            for row in comparison.layers]  # fmt: skip
    verdict = f"below {comparison.limit}" if comparison.is_bad else "ok"
    notes = [f"own error is large: {row.tensor}" for row in comparison.culprits] + comparison.lint
    return "\n".join((_RULE, "Accuracy", _RULE, head, *rows, f"outputs: {verdict}", *notes, _RULE, ""))


def _number(value: float | None, digits: int) -> str:
    return f"{'-' if value is None else format(value, f'.{digits}f'):>10}"


def _arrays(model: Model, paths: Sequence[str]) -> dict[str, Any]:
    """An array (.npy) or a picture for each input, in the model's order."""
    if len(paths) != len(model.inputs):
        raise ValueError(f"{len(paths)} files were given; the model has {len(model.inputs)} inputs")
    return {spec.name: np.load(path, allow_pickle=False) if path.lower().endswith(".npy") else
            picture_for(model, spec, path)[0] for spec, path in zip(model.inputs, paths, strict=True)}  # fmt: skip
