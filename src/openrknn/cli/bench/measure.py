"""Measuring: repeated runs with a progress bar, percentiles, memory of the process, kernels in use."""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from openrknn import compute
from openrknn.cli.common.output import Output
from openrknn.cli.common.progress import bar_for
from openrknn.compute import native
from openrknn.runtime.memory import MemoryReport

__all__ = ["Series", "kernels", "memory", "percentiles", "repeat", "resident_bytes"]

_PERCENTILES = (50, 90, 95, 99)
_KIBIBYTE = 1024


@dataclass
class Series:
    """The seconds of each run that counts, and of the very first one, which prepares."""

    first: float = 0.0
    times: list[float] = field(default_factory=list)


def repeat(run: Callable[[], object], arguments: argparse.Namespace, output: Output) -> Series:
    """Warm up, then run until both the number of runs and the time are reached."""
    series = Series()
    with bar_for(output, "{task.description}", "{task.percentage:>3.0f}%") as bar:
        task = bar.add_task("warm-up", total=1.0) if bar else None

        def advance(what: str, share: float) -> None:
            if bar is not None and task is not None:
                bar.update(task, description=what, completed=share)

        for number in range(max(arguments.warmup, 0)):
            elapsed = _timed(run)
            series.first = series.first or elapsed
            advance("warm-up", (number + 1) / arguments.warmup)
        end = time.perf_counter() + arguments.seconds
        while len(series.times) < arguments.runs or time.perf_counter() < end:
            series.times.append(_timed(run))
            left = (end - time.perf_counter()) / arguments.seconds
            advance("measuring", min(len(series.times) / arguments.runs, 1 - left))
    series.first = series.first or series.times[0]
    return series


def _timed(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def percentiles(times: Sequence[float]) -> dict[str, float]:
    """Smallest, percentiles, largest, mean and standard deviation."""
    values = np.array(times)
    named = {f"p{share}": float(np.percentile(values, share)) for share in _PERCENTILES}
    ends = {"min": float(values.min()), **named, "max": float(values.max())}
    return {**ends, "mean": float(values.mean()), "std": float(values.std())}


def resident_bytes() -> int:
    """What the process has needed at most so far. Linux counts KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else _KIBIBYTE)


def memory(report: MemoryReport, before_bytes: int) -> dict[str, Any]:
    """Bytes of the process, and of the model on the device."""
    peak = resident_bytes()
    names = ("weights", "commands", "internal", "inputs", "outputs")
    parts = {f"{name}_bytes": getattr(report, name) for name in names}
    return {"peak_bytes": peak, "above_start_bytes": max(peak - before_bytes, 0), "device": parts}


def kernels() -> dict[str, Any]:
    """Which kernels compute, and on how many threads."""
    features = native.cpu_features()
    names = [feature.name.lower() for feature in native.CpuFeature if feature in features and feature.name]
    return {"kernels": compute.active(), "processor_features": names, "threads": compute.threads()}
