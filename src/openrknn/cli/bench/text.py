"""What `openrknn bench` draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from openrknn.cli.common.output import Output
from openrknn.cli.common.tables import bar, facts, indented, table, title
from openrknn.quantities import count_of, count_text, duration, size_text

__all__ = ["show"]

_BAR_CELLS = 30
_BINS = 8
_NARROW = 80


def show(output: Output, about: Mapping[str, Any], times: Sequence[float]) -> None:
    """The numbers, and how the runs spread."""
    latency, memory = about["latency_seconds"], about["memory"]
    items = about["items_per_run"]
    rate = about["runs_per_second"]
    speed = f"{rate:.4g} runs per second" + (f", {rate * items:.4g} items" if items > 1 else "")
    if about["macs"]:
        speed += f", {count_text(round(2 * about['macs'] * rate)).strip()}OP/s"
    peak, above = size_text(memory["peak_bytes"]), size_text(memory["above_start_bytes"])
    rows = [
        ("model", about["model"]),
        ("device", f"{about['device']}, {count_of(about['cores'], 'core')} of the NPU"),
        ("kernels", _kernels(about)),
        ("inputs", "as given" if about["inputs"] == "given" else "random numbers"),
        ("set-up", f"{duration(about['load_seconds'])}, first run {duration(about['first_run_seconds'])}"),
        ("speed", speed),
        ("latency", f"{duration(latency['p50'])} (median of {count_of(about['runs'], 'run')})"),
        ("memory", f"peak {peak}, {above} more than before loading the model"),
    ]
    output.show(facts(rows))
    output.show(title("Latency"), *indented(_percentiles(latency, output.console.width)))
    output.show(title("Runs by time"), *indented(_histogram(times, output)))


def _kernels(about: Mapping[str, Any]) -> str:
    features = " ".join(about["processor_features"])
    threads = count_of(about["threads"], "thread")
    return f"{about['kernels']}{f' ({features})' if features else ''}, {threads}"


def _percentiles(latency: Mapping[str, float], width: int) -> Table:
    """Side by side, or below each other on a narrow terminal: a time without its unit would be another time."""
    if width < _NARROW:
        return facts((name, duration(value)) for name, value in latency.items())
    rows = table(*latency, right=tuple(latency))
    rows.add_row(*(duration(value) for value in latency.values()))
    return rows


def _histogram(times: Sequence[float], output: Output) -> Table:
    """Runs in equal steps of time; outliers above the 99th percentile in the last step."""
    values = np.array(times)
    top = max(float(np.percentile(values, 99)), float(values.min()) * 1.0001)
    counts, edges = np.histogram(np.minimum(values, top), bins=min(_BINS, len(times)), range=(values.min(), top))
    rows = table("from", "runs", "", right=("from", "runs"))
    ascii_only = output.console.options.ascii_only
    for count, edge in zip(counts.tolist(), edges[:-1].tolist(), strict=True):
        share = count / max(counts.max(), 1)
        rows.add_row(duration(edge), str(count), Text(bar(share, _BAR_CELLS, ascii_only=ascii_only), "green"))
    return rows
