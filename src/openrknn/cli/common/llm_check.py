"""The last step of `llm compile` and `llm quantise -o`: the file computes a text as the model in float does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from openrknn.cli.common.output import Output
from openrknn.cli.common.progress import stages

if TYPE_CHECKING:
    from openrknn.llm.tokens import Tokenizer
    from openrknn.llm.weights import WeightSource


def check_compiled(
    path: str, source: WeightSource, tokenizer: Tokenizer, precision: str, output: Output, *, skip: bool
) -> dict[str, Any] | None:
    """Say how near the file is, as JSON has it; None: it was not compared. `is_failed` has the exit code."""
    if skip:
        output.line("check       left out (--no-check)")
        return None
    from openrknn.llm.agreement import TEXT, measure_agreement
    from openrknn.llm.errors import NumberRangeError

    wrong = f"{path} was written but is not right: do not use it, and please report the model"
    try:
        with stages(output) as tell:
            found = measure_agreement(path, source, tokenizer.encode(TEXT), precision, tell)
    except NumberRangeError as error:
        Output.complain(f"{error}. {wrong}")
        return {"error": str(error), "is_good": False}
    said = f"{found.measure} {found.value:.5f} to float over {found.tokens} tokens on the software NPU"
    bound = f"at {'most' if found.measure == 'KL' else 'least'} {found.bound} is expected in {precision}"
    if found.is_good:
        output.line(f"check       {said}")
    elif precision == "fp16":
        Output.complain(f"{said}; {bound}. {wrong}")
    else:
        Output.complain(f"{said}; {bound}: this model loses too much in {precision}. Take fp16, or measure it on your "
                        "texts with `openrknn llm quantise`")  # fmt: skip
    return {"measure": found.measure, "value": found.value, "bound": found.bound, "tokens": found.tokens,
            "is_good": found.is_good}  # fmt: skip


def is_failed(checked: dict[str, Any] | None) -> bool:
    """Whether the file was compared and is too far from the model."""
    return checked is not None and not checked["is_good"]
