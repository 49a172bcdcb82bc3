"""openrknn's build of a network, and how near a file is to float on data that it was not calibrated with."""

from __future__ import annotations

import resource
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import openrknn
from openrknn.compiler import compile_model
from openrknn.compiler.cost import cost_of
from openrknn.compiler.float_model import FloatModel
from openrknn.distance import measure as distance
from openrknn.errors import RknnError
from trained.answers import compare
from trained.network import Array, Feed, Network

_MOST_DB = 120.0


def build(network: Network, form: str, target: str, file: Path) -> dict[str, Any]:
    """Seconds and peak memory, or why not."""
    options: dict[str, Any] = {"target": target, "shapes": network.shapes}
    if form == "i8":
        options["calibration"] = network.feeds("calibration")
    else:
        options["fp16"] = True
    started = time.perf_counter()
    try:
        compiled = compile_model(str(network.model), **options)
    except RknnError as error:
        return {"error": f"{type(error).__name__}: {error}"}
    seconds = time.perf_counter() - started
    file.write_bytes(compiled.data)
    cpu = [step.type for step in compiled.lowering.program.steps if step.is_cpu]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "peak_mb": peak, "cpu": cpu}


def judge(network: Network, file: Path) -> dict[str, Any]:
    """Decibels of each output, the answers, the estimated time."""
    model = openrknn.load(file)
    row: dict[str, Any] = {}
    try:
        cost = cost_of(model)
    except RknnError as error:
        return {"session": f"{type(error).__name__}: {error}"}
    row |= {"cycles": cost.cycles, "time_ms": cost.time_ms, "bytes": cost.moved_bytes}
    feeds = network.feeds("evaluation")
    wanted = list(_float(network, feeds))
    try:
        found = _run(model, feeds, wanted)
    except RknnError as error:
        return row | {"session": f"{type(error).__name__}: {error}"}
    row["snrs"] = [_snr([run[n] for run in wanted], [run[n] for run in found]) for n in range(len(wanted[0]))]
    row["snr"] = float(np.mean(row["snrs"]))
    if network.facts["answer"]:
        score, text = compare(network.facts["answer"], wanted, found)
        row |= {"score": score, "answer": text}
    return row


def _float(network: Network, feeds: Sequence[Feed]) -> Any:
    proto = onnx.load(network.model)
    outputs = [entry.name for entry in proto.graph.output]
    model = FloatModel(proto, outputs)
    for feed in feeds:
        values = dict(model.run(feed))
        yield [np.asarray(values[name], np.float32) for name in outputs]


def _run(model: Any, feeds: Sequence[Feed], wanted: Sequence[Sequence[Array]]) -> list[list[Array]]:
    """Real numbers, with the shapes of the ONNX file."""
    found = []
    with openrknn.Session(model, "software") as session:
        known = {spec.name for spec in session.inputs}
        outputs = [spec.name for spec in session.outputs]
        for feed, shapes in zip(feeds, wanted, strict=True):
            given = {name: array for name, array in feed.items() if name in known}
            layout: Any = {name: "nchw" for name, array in given.items() if array.ndim == 4} or None
            values = session.run(given, layout=layout)
            pairs = zip(outputs, shapes, strict=True)
            found.append([np.asarray(values[name], np.float32).reshape(like.shape) for name, like in pairs])
    return found


def _snr(wanted: Sequence[Array], found: Sequence[Array]) -> float:
    pair = [np.concatenate([array.ravel() for array in side]) for side in (wanted, found)]
    if not np.isfinite(pair[1]).all():
        return -_MOST_DB
    return min(_MOST_DB, max(-_MOST_DB, float(distance(pair[1], pair[0]).snr_db)))
