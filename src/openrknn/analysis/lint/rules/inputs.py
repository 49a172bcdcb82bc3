"""Inputs, and the way to the NPU: rearranged, normalised twice, without effect; and waits for operators of the CPU."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

from openrknn.analysis.dependence import constant_outputs, fixed_inputs, random_arrays
from openrknn.analysis.io_reports import calibrated_range
from openrknn.analysis.lint.context import Found, LintContext, Rule, place
from openrknn.analysis.lint.finding import Severity, Where
from openrknn.analysis.lint.program import Work
from openrknn.analysis.lint.rules.memory import is_picture
from openrknn.container.model import Model
from openrknn.container.parts import Layout
from openrknn.errors import InputWarning, RknnError
from openrknn.runtime.options import budget_for

_LARGE_BYTES = 256 * 1024


def _input_rearranged(context: LintContext) -> Iterator[Found]:
    for index in context.graph.inputs:
        tensor = context.graph.tensors[index]
        if tensor.layout is not Layout.NC1HWC2 or is_picture(tensor, context.model.chip.atom_bytes):
            continue
        if tensor.size_bytes >= _LARGE_BYTES:
            yield Found(
                Where(tensor=tensor.name),
                f"the {tensor.size_bytes / 1e6:.2g} MB of {tensor.name!r} {list(tensor.shape)} are rearranged each run",
                "the NPU wants NC1HWC2; the runtime converts NCHW or NHWC on the CPU before it starts",
            )


INPUT_REARRANGED = Rule(
    "input-rearranged",
    Severity.NOTE,
    "a large input is rearranged by the CPU before each run",
    "Pictures of 1, 3 or 4 channels are read as they are. Other inputs are brought into blocks of channels first.",
    "feed the native layout (pass_through, or rknn_set_io_mem with the native attributes) if the data come from "
    "your own program; otherwise nothing",
    f"any network whose first input has 5 channels or more and {_LARGE_BYTES // 1024} KiB",
    _input_rearranged,
)


_PIXEL = 255.0
_SMALL_SHARE = 0.05


def _expected(std: tuple[float, ...]) -> float:
    """The widest range that pixels of 0..255 can have behind mean and std."""
    return max(_PIXEL / abs(value) for value in std if value)


def _normalised_twice(context: LintContext) -> Iterator[Found]:
    graph = context.graph
    for index, norm in zip(graph.inputs, graph.normalizations, strict=False):
        tensor = graph.tensors[index]
        seen = calibrated_range(tensor)
        if seen is None or not any(norm.std) or tensor.quantization is None:
            continue
        channels = max(tensor.shape[1] if len(tensor.shape) > 1 else 1, 1)
        is_identity = all(std == 1 for std in norm.std[:channels]) and not any(norm.mean[:channels])
        share = (seen[1] - seen[0]) / _expected(norm.std[:channels])
        if is_identity or not 0 < share < _SMALL_SHARE:
            continue
        yield Found(
            Where(tensor=tensor.name),
            f"{tensor.name!r} was calibrated on {seen[0]:.3g}..{seen[1]:.3g}, {100 * share:.2g} % of what pixels of "
            "0..255 become behind the mean and std in the file",
            "the calibration data had been normalised already: real pixels saturate, and every answer is wrong",
        )


NORMALISED_TWICE = Rule(
    "normalised-twice",
    Severity.WARNING,
    "the calibration data were normalised before the model normalised them again",
    "The file holds mean and std, and the range that its input had in calibration. Pixels of 0..255 fill that range; "
    "data of 0..1 fill a 255th of it.",
    "give the converter pictures as they are (0..255), or say mean 0 and std 1 and normalise outside, in calibration "
    "and at run time alike",
    "toolkit 2.5.0: mean 0 and std 255 in the configuration, and calibration arrays of 0..1",
    _normalised_twice,
)


_MOST_WORK = 10**11
"""Operations of one run: more than a YOLOv8s of 640 x 640 needs; some seconds on a desktop."""
_INPUTS = "noise, a black picture, a white one and a gradient"


def _input_ignored(context: LintContext) -> Iterator[Found]:
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
            yield Found(
                Where(tensor=spec.name),
                f"the output {spec.name!r} does not depend on the input: it is the same for {_INPUTS}",
                "a board computes the same constant" if is_whole else "can be right for scores, which are all lowest "
                "where nothing is detected; wrong for boxes and features",
                Severity.ERROR if is_whole and not is_index else Severity.WARNING,
            )  # fmt: skip


def _limit(model: Model) -> int:
    allowed = budget_for(model, None, None).work
    return _MOST_WORK if allowed is None else min(allowed, _MOST_WORK)


def _not_checked(reason: str) -> Found:
    return Found(
        Where(),
        f"not checked whether the outputs depend on the inputs: {reason}",
        "an output that is the same for every input is not noticed",
        Severity.NOTE,
        "run the model on two inputs that fit it",
    )  # fmt: skip


INPUT_IGNORED = Rule(
    "input-ignored",
    Severity.ERROR,
    "an output does not depend on the input",
    f"Checked by openrknn lint --run only: the software NPU runs the model on {_INPUTS}. Where all outputs are equal "
    "for all four, it is an error; where only some are, or where the output holds indices, a warning, because scores "
    "and classes of pictures without objects can be equal. Models of more than "
    f"{_MOST_WORK:,} operations, and inputs of integers whose range the file does not say, are not checked; a note "
    "reports it.",
    "find the operator that loses the data with openrknn compare and the ONNX model; convert the network again, with a "
    "newer toolkit or with calibration data that are as varied as those of the application",
    "networks with multiplier-overflow, never-written or not-finite, such as openWakeWord's embedding network in int8",
    _input_ignored,
)


def _cpu_island(context: LintContext) -> Iterator[Found]:
    works = context.works
    busy = [number for number, work in enumerate(works) if work.on_npu]
    if not busy:
        return
    between = [work for work in works[busy[0] : busy[-1]] if not work.on_npu]
    if not between:
        return
    stops = sum(works[n].on_npu and not works[n + 1].on_npu for n in range(busy[0], busy[-1]))
    size = sum(map(_bytes, between))
    yield Found(
        place(between[0].operator),
        f"the NPU stops {stops} times for {len(between)} operators of the CPU in its midst, which convert "
        f"{size / 1e6:.2g} MB a run",
        "each stop costs a job of its own and the conversion of layouts and types; several cores cannot share the run",
    )


def _bytes(work: Work) -> int:
    tensors = {tensor.name: tensor for tensor in (*work.operator.inputs, *work.operator.outputs)}
    return sum(tensor.size_bytes for tensor in tensors.values() if tensor.kind.is_activation)


CPU_ISLAND = Rule(
    "cpu-island",
    Severity.NOTE,
    "the NPU waits for operators of the CPU in the middle of the network",
    "Operators that the NPU cannot do run on the CPU. Between two parts of the NPU that costs twice: the data are "
    "converted to the plain layout and back, and the NPU gets a second job.",
    "write these operators with others that the NPU has (docs/operators.md lists them), or move them to the end of the "
    "network and cut it there",
    "toolkit 2.5.0: Sin or Min between two convolutions",
    _cpu_island,
)
