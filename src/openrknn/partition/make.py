"""`make_bundle`: a parted model from a file, with one plan for each choice of input shapes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import openrknn
from openrknn.compiler.float_model import onnx_package
from openrknn.compiler.importer.constants import fix_inputs
from openrknn.compiler.importer.read import read_model
from openrknn.compiler.importer.shapes import cut_outputs
from openrknn.container.bundle import Bundle, Part, Plan, Port, read_bundle, write_bundle
from openrknn.errors import FormatError
from openrknn.partition.build import Built, build
from openrknn.partition.cache import Cache, calibration_digest
from openrknn.partition.options import PartitionOptions
from openrknn.partition.padding import rows_are_apart
from openrknn.partition.ports import ports_of
from openrknn.partition.prepare import prepare
from openrknn.partition.samples import Samples
from openrknn.partition.source_model import digest_of
from openrknn.runtime.parted.steps import CpuStep

Shapes = Mapping[str, Sequence[int]]
Tell = Callable[[str, int, int], None]


def open_model(source: str | os.PathLike[str] | bytes | Any, options: PartitionOptions) -> Any:
    """The ONNX model, with inputs that are constants fixed, and cut where that was asked for."""
    model = read_model(source, shapes=options.shapes[0] if options.shapes else None)
    if options.constants:
        fix_inputs(model, options.constants)
    if options.outputs:
        cut_outputs(model, options.outputs)
    return model


def make_bundle(
    source: str | os.PathLike[str] | bytes | Any, options: PartitionOptions | None = None, tell: Tell | None = None
) -> Bundle:
    """A parted model for the announced shapes, or for the model's own where they are fixed."""
    options = options or PartitionOptions()
    model = open_model(source, options)
    bundles = [make_plan(model, options, shapes, tell) for shapes in options.shapes or ({},)]
    return join(bundles)


def make_plan(
    model: Any, options: PartitionOptions, shapes: Shapes, tell: Tell | None = None, digest: bytes = b""
) -> Bundle:
    """One plan; taken from the cache where it is there. `model` stays as it is, `digest` is what `digest_of` says."""
    cache = Cache(options.cache)
    bound = repr(sorted((name, tuple(shape)) for name, shape in shapes.items()))
    content = digest or digest_of(model)
    key = cache.key(content, replace(options, shapes=()), bound, calibration_digest(options.calibration))
    stored = cache.get(key, ".rknnz")
    if stored is not None:
        try:
            return read_bundle(stored)
        except FormatError:  # cut short, or of somebody else
            pass
    bundle = _made(model, options, shapes, tell)
    cache.put(key, ".rknnz", write_bundle(bundle, packed=False))
    return bundle


def whole_bundle(model: Any, options: PartitionOptions) -> Bundle:
    """Everything on the CPU, for any shapes."""
    inputs, outputs = ports_of(model)
    data = model.SerializeToString(deterministic=True)
    whole = _whole(data, inputs, outputs, len(model.graph.node), ("for any shapes", options.session_options))
    return Bundle(options.target, inputs, outputs, (whole,), (Plan((0,)),), {whole.file: data})


def _made(model: Any, options: PartitionOptions, shapes: Shapes, tell: Tell | None) -> Bundle:
    cache = Cache(options.cache)
    onnx = onnx_package()
    inputs, outputs = ports_of(model)
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    view = prepare(copy, shapes)
    samples = Samples(view, options) if options.calibration is not None and options.precision != "fp16" else None
    built = build(view, options, cache, samples, tell)
    built = _proven(built, model, inputs, outputs, options.session_options)
    bound = {port.name: _bound(port, view.values[port.name].shape) for port in inputs}
    is_dynamic = any(not isinstance(size, int) for port in inputs for size in port.shape)
    has_npu = any(part.kind == "npu" for part in built.parts)
    # Parts of the CPU were cut at these shapes as well: shape arithmetic is folded.
    planned = {name: shape for name, shape in bound.items() if shape is not None} if has_npu or is_dynamic else {}
    return Bundle(
        target=options.target,
        inputs=inputs,
        outputs=outputs,
        parts=tuple(built.parts),
        plans=(Plan(tuple(range(len(built.parts))), planned),),
        files=built.files,
        made_by=f"openrknn {openrknn.__version__}",
        precision=options.precision or ("int8" if samples is not None else "fp16"),
        padded=dict.fromkeys(bound, 0) if is_dynamic and has_npu and rows_are_apart(view) else {},
        notes=tuple(built.notes),
    )


def _bound(port: Port, shape: tuple[int, ...] | None) -> tuple[int, ...] | None:
    return shape if port.type.startswith("tensor") else None


def _proven(
    built: Built, model: Any, inputs: tuple[Port, ...], outputs: tuple[Port, ...], cpu_options: Any
) -> Built:  # fmt: skip
    """ONNX Runtime has to take every part of the CPU; a border of unknown type makes it one part."""
    reason = _uncut(built, inputs, outputs)
    try:
        for part in built.parts if not reason else ():
            if part.kind == "cpu":
                CpuStep(part, built.files[part.file], cpu_options).close()
    except FormatError as error:
        reason = f"it cannot be cut: {error}"
    if not reason:
        return built
    data = model.SerializeToString(deterministic=True)
    whole = _whole(data, inputs, outputs, sum(part.operators for part in built.parts), (reason, cpu_options))
    whole = replace(
        whole, macs=sum(part.macs for part in built.parts), cpu_us=sum(part.cpu_us or 0.0 for part in built.parts)
    )  # fmt: skip
    return Built([whole], {whole.file: data}, list(dict.fromkeys([*built.notes, whole.reason])))


def _uncut(built: Built, inputs: tuple[Port, ...], outputs: tuple[Port, ...]) -> str:
    """Why the model as it was given does better in one piece."""
    if any(size == 0 for port in inputs for size in port.shape):
        return "an input is empty"  # or of any size, in old files: ONNX Runtime knows
    made = {name for part in built.parts for name in part.outputs} | {port.name for port in inputs}
    constant = [port.name for port in outputs if port.name not in made]
    if constant:
        return f"output {constant[0]!r} is a constant"
    if any(part.kind == "npu" for part in built.parts):
        return ""
    return built.parts[0].reason if built.parts else "nothing to compute"


def _whole(
    data: bytes, inputs: tuple[Port, ...], outputs: tuple[Port, ...], count: int, why: tuple[str, Any]
) -> Part:  # fmt: skip
    reason, cpu_options = why
    part = Part(
        "cpu", "parts/00.onnx", tuple(port.name for port in inputs), tuple(port.name for port in outputs),
        operators=count, reason=reason,
    )  # fmt: skip
    CpuStep(part, data, cpu_options).close()
    return part


def join(bundles: Sequence[Bundle]) -> Bundle:
    """One file with all plans; parts that are equal are in it once."""
    if len(bundles) == 1:
        return bundles[0]
    parts: list[Part] = []
    files: dict[str, bytes] = {}
    plans: list[Plan] = []
    places: dict[tuple[str, str], int] = {}
    for bundle in bundles:
        numbers = {}
        for number, part in enumerate(bundle.parts):
            data = bundle.files[part.file]
            key = (hashlib.sha256(data).hexdigest(), repr((part.inputs, part.outputs)))
            if key not in places:
                places[key] = len(parts)
                file = f"parts/{len(parts):02}{Path(part.file).suffix}"
                files[file] = data
                parts.append(replace(part, file=file))
            numbers[number] = places[key]
        plans += [replace(plan, parts=tuple(numbers[number] for number in plan.parts)) for plan in bundle.plans]
    several = [bundle for bundle in bundles if _rows(bundle) > 1]  # one row alone says nothing of mixing
    padded = several[0].padded if several and all(bundle.padded for bundle in several) else {}
    notes = tuple(dict.fromkeys(note for bundle in bundles for note in bundle.notes))
    return replace(bundles[0], parts=tuple(parts), files=files, plans=tuple(plans), padded=padded, notes=notes)


def _rows(bundle: Bundle) -> int:
    return max((shape[0] for shape in bundle.plans[0].shapes.values() if shape), default=0)
