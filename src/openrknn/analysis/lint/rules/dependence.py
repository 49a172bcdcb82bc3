"""Outputs that are the same for different inputs. The one rule that runs the model."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

from openrknn.analysis.dependence import constant_outputs, fixed_inputs, random_arrays
from openrknn.analysis.lint.context import Context, Rule
from openrknn.analysis.lint.finding import Finding, Severity, Where
from openrknn.container.model import Model
from openrknn.errors import InputWarning, RknnError
from openrknn.runtime.options import budget_for

__all__ = ["RULE"]

_MOST_WORK = 10**11
"""Operations of one run: more than a YOLOv8s of 640 x 640 needs; some seconds on a desktop."""
_INPUTS = "noise, a black picture, a white one and a gradient"
_CHANGE = (
    "find the operator that loses the data with openrknn compare and the ONNX model; convert the network again, with a "
    "newer toolkit or with calibration data that are as varied as those of the application"
)


def _check(context: Context) -> Iterator[Finding]:
    if not context.runs:
        return
    from openrknn.runtime.session import Session  # here: the other rules need no session

    model = context.model
    noise = random_arrays(model)
    fixed = fixed_inputs(noise)
    if not noise:
        yield _not_checked("the model has no inputs")
        return
    if fixed:
        yield _not_checked(f"the file does not say which numbers the input {fixed[0]!r} may hold")
        return
    try:
        with Session(model, "software", max_work=_limit(model)) as session, warnings.catch_warnings():
            warnings.simplefilter("ignore", InputWarning)  # black and white leave the range of calibration
            constant = constant_outputs(session.run, noise)
    except RknnError as error:
        yield _not_checked(f"the model did not run: {error}")
        return
    is_whole = len(constant) == len(model.outputs)
    for spec in model.outputs:
        if spec.name in constant:
            is_index = spec.quantization is None and not spec.dtype.startswith(("float", "bfloat"))
            yield Finding(
                RULE.code,
                Severity.ERROR if is_whole and not is_index else Severity.WARNING,
                Where(tensor=spec.name),
                f"the output {spec.name!r} does not depend on the input: it is the same for {_INPUTS}",
                "a board computes the same constant" if is_whole else "can be right for scores, which are all lowest "
                "where nothing is detected; wrong for boxes and features",
                _CHANGE,
            )  # fmt: skip


def _limit(model: Model) -> int:
    allowed = budget_for(model, None, None).work
    return _MOST_WORK if allowed is None else min(allowed, _MOST_WORK)


def _not_checked(reason: str) -> Finding:
    return Finding(
        RULE.code, Severity.NOTE, Where(), f"not checked whether the outputs depend on the inputs: {reason}",
        "an output that is the same for every input is not noticed", "run the model on two inputs that fit it",
    )  # fmt: skip


RULE = Rule(
    "input-ignored",
    Severity.ERROR,
    "an output does not depend on the input",
    f"Checked by openrknn lint --run only: the software NPU runs the model on {_INPUTS}. Where all outputs are equal "
    "for all four, it is an error; where only some are, or where the output holds indices, a warning, because scores "
    "and classes of pictures without objects can be equal. Models of more than "
    f"{_MOST_WORK:,} operations, and inputs of integers whose range the file does not say, are not checked; a note "
    "says so.",
    _CHANGE,
    "networks with multiplier-overflow, never-written or not-finite, such as openWakeWord's embedding network in int8",
    _check,
)
