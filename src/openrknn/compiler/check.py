"""Every build is run once before anybody gets it: what the file computes has to be what the ONNX model computes.

One input (of the calibration data, else random numbers) goes through ONNX in float and through the file on the
software NPU. Honest loss is told from a mistake in three steps, each only where the one before it did not suffice:

1. Close enough for its number format: right.
2. The float model with every value rounded as the file stores it (`rounded`) says what honest loss is here: a file that
   is about as far from float is right, however far that is. No constant decides, but the model's own sensitivity.
3. Every operator is run alone, on the float model's numbers: the first one whose result departs is named.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from openrknn.compiler.errors import CalibrationError, WrongResultError
from openrknn.compiler.float_model import FloatModel
from openrknn.compiler.ir import Array
from openrknn.compiler.quantise.statistics import derive, names_for
from openrknn.compiler.repeat import tensor_suffix
from openrknn.compiler.result import Compiled, Variant
from openrknn.compiler.rounded import round_feed, rounded_model
from openrknn.compiler.trials import choose_shapes, grouped, items_of, named, raw_inputs, run_items, shapes_text, trials
from openrknn.distance import EQUAL_DB, Distance, measure
from openrknn.errors import BudgetError, RknnError
from openrknn.runtime.inspector import Inspector
from openrknn.runtime.session import Session

__all__ = ["check"]


class _Limit(NamedTuple):
    decibels: float
    share: float
    """Largest error, of the largest number."""
    alone: float
    """Decibels of one operator on exact inputs below which something is wrong with it."""


_CLOSE = {"fp16": _Limit(30.0, 0.02, 20.0), "int8": _Limit(20.0, 0.25, 8.0), "mixed": _Limit(20.0, 0.25, 8.0)}
"""fp16 has 11 bits (66 dB), lookup tables 8 to 10: 2 % is far beyond both. int8 has 7 bits, weights as well."""
_SPARE_DB = 12.0
"""Two ways of rounding the same numbers differ by a few decibels."""
_SPARE_ERROR = 4.0
_TELLING_DB = 3.0
"""Rounding alone leaves so little of the signal that nothing can be told at the end."""
_FAR_DB = 10.0
"""Between operators that are right one by one int8 keeps more than that, where rounding alone leaves much more."""
_TINY = 1e-4
_SCORE = 1e-3
"""Of 1: a lookup table's step. Scores that are all near 0 are right, however few decibels that is."""
_LOUDER = 32
_LARGEST = 65504.0
_SECONDS = 2.0
"""What a check may take by estimate."""
_MACS_A_SECOND, _TASKS_A_SECOND = {True: 2e9, False: 2e7}, 500.0
"""Of the software NPU on one core; where ONNX Runtime is not installed the float model takes longer."""


def check(compiled: Compiled) -> str:
    """What was found, in words; raises `WrongResultError` where the file does not compute what the model does."""
    seconds = _estimate(compiled)
    if seconds > _SECONDS:
        return f"not checked against float: running it here would take about {seconds:.0f} s (--verify does)"
    texts: list[str] = []
    try:
        with Session(compiled.model, "software") as session:
            for number, variant, feeds in trials(compiled, None, 1):
                choose_shapes(session, number)
                texts += _check(compiled, variant, feeds[0], session)
                if compiled.format_name == "fp16" and not variant.samples:
                    texts += _overflow(variant, feeds[0])
    except (CalibrationError, BudgetError) as error:
        return f"not checked against float: {error}"
    return "; ".join(dict.fromkeys(texts))


def _estimate(compiled: Compiled) -> float:
    macs = sum(entry.macs for variant in compiled.variants for entry in variant.costs[1].operators)
    tasks = sum(variant.costs[1].tasks for variant in compiled.variants)
    is_fast = importlib.util.find_spec("onnxruntime") is not None
    return float(macs / _MACS_A_SECOND[is_fast] + tasks / _TASKS_A_SECOND)


def _check(compiled: Compiled, variant: Variant, feed: dict[str, Array], session: Session) -> Iterator[str]:
    wanted = dict(FloatModel(variant.source, variant.graph.outputs).run(feed))
    try:
        (found,) = run_items(session, [raw_inputs(compiled, feed)], items_of(compiled.model, variant))
    except BudgetError:  # too large to be run here, which says nothing about it
        raise
    except (RknnError, ValueError) as error:  # shapes of the file that are not the model's
        raise WrongResultError(
            f"the file that was made does not run on the software NPU: {error}. {_ADVICE}"
        ) from error
    bad = {}
    worst = EQUAL_DB
    for name in variant.lowering.program.outputs:
        if name not in wanted:
            continue
        if found[name].size != wanted[name].size:
            raise WrongResultError(
                f"the file that was made gives {name!r} {found[name].size} numbers instead of {wanted[name].size}. "
                f"{_ADVICE}"
            )
        distance = measure(found[name], wanted[name])
        worst = min(worst, distance.snr_db)
        is_score = name in variant.graph.scores and distance.largest_error <= _SCORE
        if not is_score and not _is_close(distance, _CLOSE[compiled.format_name]):
            bad[name] = distance
    shapes = shapes_text(compiled, variant)
    if bad:
        yield _explain(compiled, variant, feed, wanted, bad, shapes)
    else:
        yield named(_praise(variant, worst), shapes)


def _praise(variant: Variant, decibels: float) -> str:
    data = "the first calibration input" if variant.samples else "random numbers"
    return f"right against ONNX in float on {data}: at least {decibels:.1f} dB"


def _overflow(variant: Variant, feed: dict[str, Array]) -> Iterator[str]:
    """Random numbers have a spread of 1, features and signals often more: what fp16 cannot hold then is said."""
    louder = {name: values * values.dtype.type(_LOUDER) if values.dtype.kind == "f" else values
              for name, values in feed.items()}  # fmt: skip
    model = FloatModel(variant.source, names_for(variant.graph))
    for name, values in model.run(louder):
        if name not in feed and _is_beyond(values) and not _is_beyond(dict(model.run(feed))[name]):
            yield (
                f"inputs {_LOUDER} times as large as these make numbers beyond {_LARGEST:.0f}, which fp16 does not "
                f"have (in {name!r}): if yours are so large, divide them before the model, or compile int8"
            )
            return


def _is_beyond(values: Array) -> bool:
    return values.dtype.kind == "f" and not bool((np.abs(values) <= _LARGEST).all())


def _is_close(distance: Distance, limit: _Limit) -> bool:
    if distance.overflowed:
        return False
    if distance.largest_error <= _TINY:
        return True
    return distance.snr_db >= limit.decibels and distance.largest_error <= limit.share * distance.reference_max


_ADVICE = (
    "This is a mistake of the compiler: please report it with the model. Cutting the model before that operator "
    "(--outputs) avoids it; --no-check writes the file all the same"
)


def _explain(
    compiled: Compiled, variant: Variant, feed: dict[str, Array], wanted: dict[str, Array], bad: dict[str, Distance],
    shapes: str,
) -> str:  # fmt: skip
    """Honest loss is said, a mistake raised."""
    name = min(bad, key=lambda entry: bad[entry].snr_db)
    is_int8 = compiled.format_name != "fp16"
    model = rounded_model(variant, is_int8=is_int8)
    honest: dict[str, Distance] = {}
    if model is not None:
        given = dict(FloatModel(model, list(bad)).run(round_feed(feed, variant.graph)))
        honest = {entry: measure(given[entry], wanted[entry]) for entry in bad if entry in given}
    mistaken = [entry for entry in bad if entry not in honest or not _is_honest(bad[entry], honest[entry])]
    if not mistaken:
        return _loss(compiled, variant, named(name, shapes), bad[name])
    name = min(mistaken, key=lambda entry: bad[entry].snr_db)
    first = _first_departing(compiled, variant, feed)
    # int8 has values that ONNX does not: they cost something where no operator is wrong.
    is_far = not is_int8 or bad[name].snr_db < _FAR_DB
    is_telling = name in honest and is_far and (honest[name].snr_db > _TELLING_DB or not is_int8)
    if not first and not is_telling:
        return _loss(compiled, variant, named(name, shapes), bad[name])
    where = f"the first operator that departs is {first}" if first else "no operator alone departs from it"
    usual = f" (rounding costs as much as leaves {honest[name].snr_db:.1f} dB)" if name in honest else ""
    raise WrongResultError(
        f"the file that was made does not compute what the model does: output {named(name, shapes)!r} has "
        f"{_decibels(bad[name])} against ONNX in float{usual}; {where}. {_ADVICE}"
    )


def _is_honest(found: Distance, rounded: Distance) -> bool:
    if found.overflowed:
        return bool(rounded.overflowed)
    if rounded.overflowed:
        return True
    error = _SPARE_ERROR * rounded.largest_error + _TINY
    return found.snr_db >= rounded.snr_db - _SPARE_DB and found.largest_error <= error


def _decibels(distance: Distance) -> str:
    if distance.overflowed:
        return f"{distance.overflowed} numbers that are infinite or NaN"
    return f"{distance.snr_db:.1f} dB"


def _loss(compiled: Compiled, variant: Variant, name: str, distance: Distance) -> str:
    if distance.snr_db >= _CLOSE[compiled.format_name].decibels:
        return _praise(variant, distance.snr_db)
    kind = "fp16" if compiled.format_name == "fp16" else "int8"
    way = "numbers beyond 65504 or lost digits" if kind == "fp16" else "--auto-mixed or more calibration data"
    return f"output {name!r} keeps {_decibels(distance)} of float in {kind}, as rounding alone costs ({way})"


def _first_departing(compiled: Compiled, variant: Variant, feed: dict[str, Array]) -> str:
    """The first operator whose result is off although its inputs are the float model's; "" if there is none."""
    graph, limit = variant.graph, _CLOSE[compiled.format_name].alone
    if compiled.variants[0] is not variant or compiled.model.batch_size > 1:
        return ""
    wanted = dict(FloatModel(variant.source, names_for(graph)).run(feed))
    derive(graph, wanted)
    suffix = tensor_suffix(0) if variant.batch > 1 else ""
    teacher = {f"{name}{suffix}": values for name, values in wanted.items()}
    steps = {step.outputs[0]: step for step in variant.lowering.program.steps if step.outputs}
    with Inspector(compiled.model, "software") as inspector:
        inspector.feed(next(grouped([raw_inputs(compiled, feed)], variant.batch)), "nchw")
        for item in inspector.isolated(_fitting(teacher, inspector)):
            name = item.tensor.name.removesuffix(suffix) if suffix else item.tensor.name
            reference = wanted.get(name)
            if reference is None or reference.size != item.stored.size or not np.isfinite(reference).any():
                continue
            distance = measure(item.real, reference)
            scales = item.tensor.quantization.scale if item.tensor.quantization else ()
            tiny = max(_TINY, 2 * max(scales, default=0.0))
            if distance.snr_db < limit and (distance.overflowed or distance.largest_error > tiny):
                step = steps.get(name)
                fused = ", ".join(dict.fromkeys(step.fused)) if step is not None else ""
                kind = step.type if step is not None else "operator"
                return f"{kind} {fused or name!r} ({_decibels(distance)} alone)"
    return ""


def _fitting(teacher: dict[str, Array], inspector: Inspector) -> dict[str, Array]:
    """Those that have as many numbers as the tensor of the file."""
    tensors = {tensor.name: tensor for operator in inspector.operators for tensor in operator.inputs}
    return {
        name: values
        for name, values in teacher.items()
        if name in tensors and np.prod(tensors[name].shape) == values.size
    }
