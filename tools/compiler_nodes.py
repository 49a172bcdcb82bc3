#!/usr/bin/env python3
"""Compiles ONNX's own node tests and runs them on the software NPU: right or refused by name, nothing else.

    .venv/bin/python tools/compiler_nodes.py [--form constants] [--int8] [--target rk3588] [--only NAME] [--all]

Four forms of each test: as it is (every input is fed), with constants (only the first input is fed, the others are
stored in the model), with one item of the first dimension, and in parts (as it is, also with inputs of integers: what
the NPU does not do is the CPU's, as with `compile --partition`; all that can be is on the NPU). What comes out is
compared with what ONNX expects, or with onnx's reference evaluator where the inputs were cut; int8 is judged as
`compile` judges its own results. Exit code 1 if anything is wrong or ends in a traceback.
"""

from __future__ import annotations

import argparse
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import onnx
import onnx.reference

from openrknn.cachefiles import FileCache
from openrknn.compiler import compile_model
from openrknn.compiler.check import check
from openrknn.errors import RknnError
from openrknn.partition import PartitionOptions, make_bundle
from openrknn.runtime.parted.session import PartedSession
from openrknn.runtime.session import Session

__all__ = ["FORMS", "Case", "Outcome", "cases", "judge"]

FORMS = ("plain", "constants", "item", "partition")
KINDS = ("right", "refused", "cpu", "fp16", "wrong", "traceback")
_CLOSE = 0.02
"""Of the largest number of an output: fp16 and lookup tables stay below, mistakes do not."""
_MOST_ELEMENTS = 1 << 16
_LARGEST_FP16 = 65504.0


class Case(NamedTuple):
    """One ONNX model with an input and what it should give."""

    name: str
    model: Any
    feed: dict[str, npt.NDArray[Any]]
    wanted: dict[str, npt.NDArray[Any]]
    in_parts: bool = False
    """What the NPU does not do is the CPU's."""


class Outcome(NamedTuple):
    """One of `KINDS`, and what there is to say. cpu: no part is on the NPU; fp16: it has no such numbers."""

    kind: str
    text: str = ""


def cases(form: str) -> Iterator[Case]:
    """The node tests with float inputs, in one of the forms."""
    for test in _tests():
        if test.data_sets:
            case = _case(test, form)
            if case is not None:
                yield case


@cache
def _tests() -> list[Any]:
    with warnings.catch_warnings(), _without_large_pools():
        warnings.simplefilter("ignore")
        from onnx.backend.test.loader import load_model_tests

        return list(load_model_tests(kind="node"))


@contextmanager
def _without_large_pools() -> Iterator[None]:
    """onnx computes what its tests expect in plain Python: most of the time goes into three that are too large here."""
    from onnx.reference.ops import op_pool_common

    compute = getattr(op_pool_common, "pool", None)  # where it is another name, it takes its time

    def pool(padded: Any, x_shape: Any, kernel: Any, strides: Any, out_shape: Any, *rest: Any, **more: Any) -> Any:
        if np.prod(x_shape) > _MOST_ELEMENTS:
            return np.zeros((*x_shape[:2], *out_shape), padded.dtype)
        return compute(padded, x_shape, kernel, strides, out_shape, *rest, **more)  # type: ignore[misc]

    if compute is None:
        yield
        return
    op_pool_common.pool = pool
    try:
        yield
    finally:
        op_pool_common.pool = compute


def _case(test: Any, form: str) -> Case | None:
    arrays, results = ([_array(entry) for entry in entries] for entries in test.data_sets[0])
    names = [entry.name for entry in test.model.graph.input]
    if len(names) != len(arrays) or not all(_is_small(array) for array in (*arrays, *results)):
        return None
    feed = dict(zip(names, arrays, strict=True))
    wanted = dict(zip((entry.name for entry in test.model.graph.output), results, strict=False))
    fed = [name for name, array in feed.items() if array.dtype == np.float32 and array.size]
    if not fed or not all(np.isfinite(feed[name]).all() for name in fed):
        return None
    if form == "partition":
        return Case(test.name, test.model, feed, wanted, in_parts=True)
    if form == "plain":
        return Case(test.name, test.model, feed, wanted) if len(fed) == len(feed) else None
    model = onnx.ModelProto()
    model.CopyFrom(test.model)
    first = fed[0]
    for name in names:
        if name != first:
            model.graph.initializer.append(_stored(np.asarray(feed.pop(name)), name, test.model))
    kept = [entry for entry in model.graph.input if entry.name == first]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    if form == "constants":
        return Case(test.name, model, feed, wanted) if len(names) > 1 else None
    return _one_item(test.name, model, first, feed[first])


def _stored(array: npt.NDArray[Any], name: str, model: Any) -> Any:
    entry = next(entry for entry in model.graph.input if entry.name == name)
    tensor = onnx.numpy_helper.from_array(array, name)
    tensor.data_type = entry.type.tensor_type.elem_type or tensor.data_type
    return tensor


def _one_item(name: str, model: Any, source: str, array: npt.NDArray[Any]) -> Case | None:
    if array.ndim < 2 or array.shape[0] == 1:
        return None
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
    for entry in model.graph.output:
        entry.type.tensor_type.ClearField("shape")
    feed = {source: np.ascontiguousarray(array[:1])}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results: list[Any] = list(onnx.reference.ReferenceEvaluator(model).run(None, feed))
    except Exception:  # noqa: BLE001  (the test makes no sense for one item)
        return None
    if not all(_is_small(result) for result in results):
        return None
    return Case(name, model, feed, dict(zip((entry.name for entry in model.graph.output), results, strict=True)))


def _array(entry: Any) -> Any:
    return onnx.numpy_helper.to_array(entry) if isinstance(entry, onnx.TensorProto) else entry


def _is_small(array: object) -> bool:
    return isinstance(array, np.ndarray | np.generic) and np.asarray(array).size <= _MOST_ELEMENTS


def judge(case: Case, target: str = "rk3588", *, is_int8: bool = False) -> Outcome:
    """Compile, run, compare."""
    is_compiled = False
    try:
        if case.in_parts:
            bundle = make_bundle(case.model, _in_parts(target, case.feed if is_int8 else None))
            is_compiled = True
            if not any(part.kind == "npu" for part in bundle.parts):
                return Outcome("cpu")
            with PartedSession(bundle, "software", in_process=True) as parted:
                found = dict(parted.run(case.feed))
        else:
            made = compile_model(case.model, target, calibration=[case.feed] if is_int8 else None, check=False)
            is_compiled = True
            if is_int8:
                return Outcome("right", check(made).text)
            with Session(made.model, "software") as session:
                layouts = {spec.name: "nchw" for spec in session.inputs if len(spec.shape) == 4}
                feed = {spec.name: case.feed[spec.name] for spec in session.inputs}
                found = dict(session.run(feed, layout=layouts or None, outputs="float"))
    except RknnError as error:
        if case.in_parts and is_compiled:  # the guard of the numbers between two parts
            return Outcome("refused", f"when it ran: {error}")
        return Outcome("wrong" if is_compiled else "refused", str(error))
    except Exception as error:  # noqa: BLE001  (that is what is looked for)
        place = traceback.extract_tb(error.__traceback__)[-1]
        return Outcome("traceback", f"{type(error).__name__}: {error} ({place.filename}:{place.lineno})")
    for name, wanted in case.wanted.items():
        if name not in found:
            return Outcome("wrong", f"{name} is missing")
        text = _difference(np.asarray(found[name]), np.asarray(wanted))
        if text:
            why = "" if is_int8 else _beyond_fp16(case)
            return Outcome("fp16", why) if why else Outcome("wrong", f"{name}: {text}")
    return Outcome("right")


def _beyond_fp16(case: Case) -> str:
    """Why fp16 cannot have the result: it ends before, or its numbers for the inputs have another one; else empty."""
    for name, wanted in case.wanted.items():
        if wanted.dtype.kind == "f" and np.abs(wanted[np.isfinite(wanted)]).max(initial=0) > _LARGEST_FP16:
            return f"{name} is beyond 65504"
    with np.errstate(over="ignore"):
        feed = {name: array.astype(np.float16).astype(array.dtype) if array.dtype == np.float32 else array
                for name, array in case.feed.items()}  # fmt: skip
    try:
        results = onnx.reference.ReferenceEvaluator(case.model).run(None, feed)
    except Exception:  # noqa: BLE001  (then there is nothing to say)
        return ""
    for (name, wanted), rounded in zip(case.wanted.items(), results, strict=False):
        text = _difference(np.asarray(rounded), np.asarray(wanted))
        if text:
            return f"{name} in float, of inputs rounded to fp16: {text}"
    return ""


def _in_parts(target: str, feed: dict[str, npt.NDArray[Any]] | None) -> PartitionOptions:
    return PartitionOptions(target=target, prefer="npu", cache=False, calibration=None if feed is None else [feed])


def _difference(found: npt.NDArray[Any], wanted: npt.NDArray[Any]) -> str:
    if found.size != wanted.size:
        return f"shape {found.shape} instead of {wanted.shape}"
    left, right = found.reshape(-1).astype(np.float64), wanted.reshape(-1).astype(np.float64)
    finite = np.isfinite(right)
    if not np.array_equal(np.isnan(left), np.isnan(right)) or not np.isfinite(left[finite]).all():
        return "NaN or infinite"
    if not finite.any():
        return ""
    scale = max(float(np.abs(right[finite]).max()), 1e-2)
    worst = float(np.abs(left - right)[finite].max()) / scale
    return f"off by {worst:.3g} of the largest number" if worst > _CLOSE else ""


def main() -> int:
    """All forms that are asked for, a line for each thing that should not be, and counts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--form", choices=FORMS, action="append", help="only this form; may be repeated")
    parser.add_argument("--int8", action="store_true", help="calibrated with the input of the test, instead of fp16")
    parser.add_argument("--target", default="rk3588")
    parser.add_argument("--only", default="", help="only tests whose name has this in it")
    parser.add_argument("--all", action="store_true", help="a line for every test")
    options = parser.parse_args()
    is_bad = False
    FileCache.is_on = False  # no model comes twice
    for form in options.form or FORMS:
        counts: Counter[str] = Counter()
        for case in cases(form):
            if options.only in case.name:
                outcome = judge(case, options.target, is_int8=options.int8)
                counts[outcome.kind] += 1
                if options.all or outcome.kind in {"fp16", "wrong", "traceback"}:
                    print(f"{form} {case.name}: {outcome.kind} {outcome.text}", flush=True)
        print(form, ", ".join(f"{counts[kind]} {kind}" for kind in KINDS))
        is_bad = is_bad or bool(counts["wrong"] + counts["traceback"])
    return int(is_bad)


if __name__ == "__main__":
    sys.exit(main())
