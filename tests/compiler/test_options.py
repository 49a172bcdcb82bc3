"""The options of a compilation: one value, one place that checks them."""

from __future__ import annotations

from typing import Any

import pytest

from openrknn.compiler import CompileOptions
from openrknn.compiler.errors import CalibrationError, CompileError, OptionError
from openrknn.compiler.options import CompileKeywords


def test_the_keywords_are_the_fields_with_the_same_types() -> None:
    fields = dict(CompileOptions.__annotations__)
    assert fields.pop("target") == "str"
    keywords = {name: entry.__forward_arg__ for name, entry in CompileKeywords.__annotations__.items()}
    assert list(keywords.items()) == list(fields.items())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "rk9999"}, "is not a chip that openrknn knows"),
        ({"cores": 2}, "choose 1"),
        ({"method": "guess"}, "the choices are cost, .* and auto"),
        ({"order": "gbr"}, "the choices are rgb and bgr"),
        ({"outputs": "boxes"}, "outputs is a list of names"),
        ({"fp16_layers": "head"}, "fp16_layers is a list of names"),
    ],
)
def test_what_cannot_be_is_refused_before_any_model_is_read(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message) as caught:
        CompileOptions(**options)
    assert isinstance(caught.value, CompileError)
    assert isinstance(caught.value, ValueError)


def test_the_number_format_follows_from_the_data_and_the_model() -> None:
    assert CompileOptions().is_fp16(is_quantised=False)
    assert not CompileOptions().is_fp16(is_quantised=True)
    assert not CompileOptions(calibration="pictures").is_fp16(is_quantised=False)
    assert CompileOptions(calibration="pictures", fp16=True).is_fp16(is_quantised=True)
    with pytest.raises(CalibrationError, match="int8 needs calibration data"):
        CompileOptions(fp16=False).is_fp16(is_quantised=False)
    with pytest.raises(CalibrationError, match="do not ask for fp16"):
        CompileOptions(calibration="pictures", fp16=True, fp16_layers=["head"]).is_fp16(is_quantised=False)
