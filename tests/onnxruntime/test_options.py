"""Providers and options as ONNX Runtime takes them."""

from typing import Any

import numpy as np
import pytest

from openrknn.compiler.errors import OptionError
from openrknn.onnxruntime.options import OPTIONS, partition_options, request

RKNN, CPU = "RknnExecutionProvider", "CPUExecutionProvider"


@pytest.mark.parametrize(
    ("providers", "options", "want"),
    [
        (None, None, {}),
        ([RKNN], None, {}),
        ([RKNN, CPU], [{"target": "rk3566"}, {}], {"target": "rk3566"}),
        ([(RKNN, {"target": "rk3566"}), CPU], None, {"target": "rk3566"}),
        ((CPU, RKNN), None, {}),
        ([CPU], None, None),
        ([], None, None),
    ],
)
def test_what_is_asked(providers: Any, options: Any, want: Any) -> None:
    asked = request(providers, options)
    assert (asked.options if asked else None) == want


@pytest.mark.parametrize(
    ("providers", "options", "text"),
    [
        ({RKNN: {}}, None, "should be a sequence"),
        ([RKNN], {}, "'provider_options' should be a sequence"),
        ([RKNN], [{}, {}], "same length"),
        ([(RKNN, {})], [{}], "Only string values"),
        ([RKNN], ["x"], "must be dicts"),
        ([RKNN, 3], None, "strings or"),
        ([(RKNN, "x")], None, "strings or"),
    ],
)
def test_what_is_wrong_is_said_as_onnx_runtime_says_it(providers: Any, options: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        request(providers, options)


def test_providers_that_are_not_here_are_left_out_with_a_warning() -> None:
    with pytest.warns(
        UserWarning, match="Specified provider 'CUDAExecutionProvider' is not in available provider names"
    ):
        asked = request(["CUDAExecutionProvider", RKNN, CPU], None)
    assert asked is not None
    assert list(asked.others) == [CPU]
    with pytest.warns(UserWarning, match=f"Duplicate provider '{RKNN}' encountered, ignoring"):
        assert request([(RKNN, {"prefer": "npu"}), RKNN], None) == ({"prefer": "npu"}, {})


def test_strings_are_as_good_as_values() -> None:
    texts = {
        "target": "rk3566", "precision": "int8", "prefer": "npu", "cache": "off", "learn_shapes": "0",
        "shapes": "x=1x3x8x8,y=1; x=2x3x8x8,y=2", "constants": '{"sr": 16000}', "outputs": "a,b",
        "compile": '{"verify": false}', "calibrate": "pictures",
    }  # fmt: skip
    made = partition_options(texts)
    assert (made.target, made.precision, made.prefer, made.cache, made.learn_shapes) == (
        "rk3566", "int8", "npu", False, False,
    )  # fmt: skip
    assert list(made.shapes) == [{"x": (1, 3, 8, 8), "y": (1,)}, {"x": (2, 3, 8, 8), "y": (2,)}]
    assert (made.constants, made.outputs, made.compile) == ({"sr": 16000}, ("a", "b"), {"verify": False})
    assert made.calibration == "pictures"
    values = partition_options(
        {"shapes": {"x": [1, 3, 8, 8]}, "cache": "folder", "constants": {"a": 1}, "learn_shapes": 1}
    )
    assert list(values.shapes) == [{"x": (1, 3, 8, 8)}]
    assert (values.cache, values.constants, values.learn_shapes) == ("folder", {"a": 1}, True)
    assert list(partition_options({"shapes": '[{"x": [1]}]'}).shapes) == [{"x": (1,)}]


def test_calibration_data_may_come_from_a_function_or_a_reader() -> None:
    samples = [{"x": np.ones(1)}, {"x": np.zeros(1)}]

    class Reader:
        def __init__(self) -> None:
            self.left = list(samples)

        def get_next(self) -> Any:
            return self.left.pop(0) if self.left else None

    assert partition_options({"calibrate": Reader()}).calibration == samples
    assert partition_options({"calibration": lambda: samples}).calibration is samples


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"devise": "auto"}, "has no option 'devise'; there are: target"),
        ({"precision": "int7"}, "precision 'int7' is unknown"),
        ({"prefer": "gpu"}, "prefer='gpu' is unknown"),
        ({"learn_shapes": "maybe"}, "neither on nor off"),
        ({"shapes": "1x3"}, "is not NAME=1x3x224x224"),
        ({"shapes": "[1]"}, "is no dict"),
        ({"constants": "{"}, "constants is not JSON"),
        ({"constants": "[1]"}, "constants is list"),
    ],
)
def test_options_that_are_wrong(given: Any, text: str) -> None:
    with pytest.raises(OptionError, match=text):
        partition_options(given)


def test_every_option_is_in_the_message() -> None:
    with pytest.raises(OptionError) as error:
        partition_options({"x": 1})
    assert all(f"{key} (" in str(error.value) for key in OPTIONS)
