"""One case, measured: everything that the acceptance asks for, as a dictionary."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import openrknn
from acceptance.answers import Outputs, compare
from acceptance.cases import Case
from acceptance.data import Array
from acceptance.toolkit import build
from openrknn.compiler import compile_model
from openrknn.compiler.cost import Cost, cost_of
from openrknn.compiler.float_model import FloatModel
from openrknn.distance import measure as distance
from openrknn.errors import RknnError


@dataclass(frozen=True)
class Tools:
    """What is there to compare with."""

    library: str | None
    toolkit: str | None
    kept: Path
    method: str = "minmax"


def measure(case: Case, tools: Tools) -> dict[str, Any]:
    """Failures are part of the result: what an error says stands in its column."""
    row: dict[str, Any] = {"case": case.title, "name": case.name, "form": case.form}
    proto = onnx.load(case.source)
    is_quantised = any(node.op_type == "QuantizeLinear" for node in proto.graph.node)
    options = dict(case.options)
    if case.form == "i8" and not is_quantised:
        options |= {"calibration": case.calibration(), "method": tools.method}
    started = time.perf_counter()
    try:
        compiled = compile_model(proto, **options)
    except RknnError as error:
        return row | {"error": f"{type(error).__name__}: {error}"}
    row["seconds"] = time.perf_counter() - started
    row["cpu"] = [step.type for step in compiled.lowering.program.steps if step.is_cpu]
    feeds = case.evaluation()
    wanted = list(_float(proto, compiled.source, case, feeds))
    row["strict"] = "ok"
    try:
        ours = _run(compiled.model, feeds, wanted)
        row |= {"snr": _snr(wanted, ours)} | _cost("", cost_of(compiled.model))
    except RknnError as error:
        return row | {"strict": f"{type(error).__name__}: {error}"}
    if case.answer:
        answer = compare(case.answer, _frame(feeds), wanted, ours)
        row |= {"answer": answer.text, "answer_same": answer.is_same}
    row |= _other_runtime(compiled, feeds, tools)
    return row | _theirs(case, tools, feeds, wanted)


def _theirs(case: Case, tools: Tools, feeds: Sequence[Outputs], wanted: Sequence[Outputs]) -> dict[str, Any]:
    """The vendor's build: with our data if the toolkit is here, else the stored one."""
    path, origin = case.stored, "same data" if case.same_data or case.form == "fp" else "its own data"
    is_quantised = not case.calibration()
    if tools.toolkit and not is_quantised and (path is None or origin != "same data"):
        path, origin = build(case, tools.toolkit, tools.kept), "same data"
        if path is None:
            return {"vendor": "refused"}
    if path is None:
        return {"vendor": "none"}
    model = openrknn.load(path)
    row = {"vendor": origin, **_cost("vendor_", cost_of(model))}
    try:
        theirs = _run(model, feeds, wanted)
    except RknnError as error:
        return row | {"vendor": f"{origin}; our Session: {error}"}
    row["vendor_snr"] = _snr(wanted, theirs)
    if case.answer:
        row["vendor_answer"] = compare(case.answer, _frame(feeds), wanted, theirs).text
    return row


def _float(proto: Any, source: Any, case: Case, feeds: Sequence[Outputs]) -> Any:
    """ONNX Runtime on what the network itself takes."""
    names = [entry.name for entry in source.graph.input]
    outputs = [entry.name for entry in proto.graph.output]
    model = FloatModel(source, outputs)
    for arrays in feeds:
        values = dict(model.run(dict(zip(names, (_planes(array, case) for array in arrays), strict=True))))
        yield [values[name] for name in outputs]


def _planes(array: Array, case: Case) -> Array:
    if array.dtype != np.uint8:
        return array
    mean, std = (np.float32(case.options[name]).reshape(1, -1, 1, 1) for name in ("mean", "std"))
    result: Array = (array.astype(np.float32).transpose(0, 3, 1, 2) - mean) / std
    return result


def _frame(feeds: Sequence[Outputs]) -> tuple[int, int]:
    shape = feeds[0][0].shape
    return (shape[2], shape[1]) if len(shape) == 4 else (1, 1)


def _layout(names: Sequence[str], arrays: Outputs) -> Any:
    found = {name: "nhwc" if array.dtype == np.uint8 else "nchw" for name, array in zip(names, arrays, strict=True)
             if array.ndim == 4}  # fmt: skip
    return found or None


def _run(model: Any, feeds: Sequence[Outputs], wanted: Sequence[Outputs]) -> list[list[Array]]:
    """Real numbers, with the shapes of the ONNX file."""
    found = []
    with openrknn.Session(model, "software") as session:
        names, outputs = [spec.name for spec in session.inputs], [spec.name for spec in session.outputs]
        for arrays, shapes in zip(feeds, wanted, strict=True):
            values = session.run(list(arrays), layout=_layout(names, arrays))
            pairs = zip(outputs, shapes, strict=True)
            found.append([values[name].reshape(like.shape).astype(np.float32) for name, like in pairs])
    return found


def _snr(wanted: Sequence[Outputs], found: Sequence[Outputs]) -> float:
    pair = [np.concatenate([array.ravel() for run in side for array in run]) for side in (wanted, found)]
    return float(distance(pair[1], pair[0]).snr_db)


def _cost(prefix: str, cost: Cost) -> dict[str, Any]:
    return {f"{prefix}bytes": cost.moved_bytes, f"{prefix}cycles": cost.cycles, f"{prefix}tasks": cost.tasks,
            f"{prefix}submits": cost.submits}  # fmt: skip


def _other_runtime(compiled: Any, feeds: Sequence[Outputs], tools: Tools) -> dict[str, Any]:
    """The same bytes from the vendor's runtime? At most three inputs: qemu is slow."""
    from openrknn.compiler.witness import ask_vendor

    if tools.library is None:
        return {"runtime": "not asked"}
    with openrknn.Session(compiled.model, "software") as session:
        names = [spec.name for spec in session.inputs]
    raws = [dict(zip(names, (_channels_first(array) for array in arrays), strict=True)) for arrays in feeds[:3]]
    try:
        found = ask_vendor(compiled, 0, raws, library=tools.library)
    except RknnError as error:
        return {"runtime": f"{type(error).__name__}: {error}"}
    different = [entry for entry in found if not entry.is_same]
    if not different:
        return {"runtime": "same bytes"}
    texts = [f"{entry.output}: {entry.different}/{entry.numbers} by {entry.largest_steps:.0f}" for entry in different]
    return {"runtime": "; ".join(texts)}


def _channels_first(array: Array) -> Array:
    return array.transpose(0, 3, 1, 2) if array.dtype == np.uint8 else array
