"""What is found to be worth a look, in goldens and in models with something wrong."""

import dataclasses
import math
from collections.abc import Callable

import pytest

import openrknn
from openrknn.analysis.explain import describe
from openrknn.analysis.reports import Severity
from openrknn.container.model import Model
from openrknn.container.parts import MemoryPlan, Quantization
from tests.cli.changed import codes, with_graph, with_tensor
from tests.container.places import golden


@pytest.mark.parametrize(
    ("name", "code", "severity"),
    [
        ("cpu_sin_rk3588_i8", "cpu-fallback", Severity.WARNING),
        ("gemm_rk3588_i8", "cpu-fallback", Severity.NOTE),
        ("residual_rk3588_i8_no_weights", "weights-missing", Severity.WARNING),
        ("residual_rk3588_i8_compressed", "weights-compressed", Severity.NOTE),
        ("residual_rk3588_i8_single_core", "single-core", Severity.NOTE),
        ("cpu_argmax_rk3588_i8", "mixed-outputs", Severity.NOTE),
    ],
)
def test_findings_in_goldens(name: str, code: str, severity: Severity) -> None:
    assert codes(openrknn.load(golden(name)))[code] is severity


def test_sound_models_have_nothing_to_complain_about() -> None:
    for name in ("conv_rk3588_i8", "image_rk3566_i8", "residual_rk3576_i8", "two_inputs_rk3588_i8"):
        assert codes(openrknn.load(golden(name))) == {}


def _boxes(model: Model) -> Model:
    """conv7 (one part of the Concat) holds scores, the whole holds boxes."""
    model = with_tensor(model, "conv7", minimum=(0.0,), maximum=(1.0,))
    return with_tensor(model, "features", quantization=Quantization((2.5,), (0,)), minimum=(0.0,), maximum=(640.0,))


def _detector(model: Model) -> Model:
    model = with_tensor(model, "conv7", minimum=(), maximum=())
    model = with_tensor(model, "conv8", minimum=(), maximum=())
    return with_tensor(model, "features", shape=(1, 84, 8400), quantization=Quantization((2.5,), (0,)))


CHANGES: dict[str, Callable[[Model], Model]] = {
    "shared-scale": _boxes,
    "coarse-detections": _detector,
    "few-levels": lambda model: with_tensor(model, "features", minimum=(0.0,), maximum=(0.1,)),
    "constant-range": lambda model: with_tensor(model, "relu1", minimum=(1.5,), maximum=(1.5,)),
    "broken-scale": lambda model: with_tensor(model, "relu1", quantization=Quantization((math.nan,), (0,))),
    "far-zero-point": lambda model: with_tensor(model, "relu1", quantization=Quantization((0.1,), (-129,))),
    "newer-toolkit": lambda model: dataclasses.replace(model, toolkit_text="3.0.0(compiler)"),
    "unknown-part": lambda model: dataclasses.replace(model, unknown=("graph 0 has slot 17",)),
    "stale-memory-plan": lambda model: dataclasses.replace(model, memory=MemoryPlan(1, 2, 3)),
    "two-platforms": lambda model: dataclasses.replace(model, platform="rk3576"),
    "damaged": lambda model: with_graph(model, inputs=(2,)),
    "custom-operator": lambda model: dataclasses.replace(model, custom_operators="OutputOperator"),
}


@pytest.mark.parametrize("code", CHANGES)
def test_findings_in_changed_models(code: str) -> None:
    model = CHANGES[code](openrknn.load(golden("residual_rk3588_i8")))
    found = [finding for finding in describe(model).findings if finding.code == code]
    assert found
    assert all(finding.what and finding.why and finding.action for finding in found)


def test_trailing_bytes() -> None:
    data = golden("conv_rk3588_i8").read_bytes()
    assert "trailing-bytes" in codes(openrknn.load(data + b"appended"))
    assert "trailing-bytes" not in codes(openrknn.load(data))


def test_pictures_that_were_turned_for_calibration() -> None:
    model = openrknn.load(golden("image_rk3588_i8"))
    turned = dataclasses.replace(model, notes_text=model.notes_text.replace("'rgb2bgr': False", "'rgb2bgr': True"))
    report = describe(turned)
    assert report.inputs[0].calibrated_as_bgr
    assert "BGR" in report.inputs[0].feed
    assert "calibrated-as-bgr" in codes(turned)


def test_many_equal_findings_are_cut_short() -> None:
    model = dataclasses.replace(
        openrknn.load(golden("conv_rk3588_i8")), unknown=tuple(f"slot {number}" for number in range(100))
    )
    found = [finding for finding in describe(model).findings if finding.code == "unknown-part"]
    assert len(found) == 9
    assert found[-1].what == "... and 92 more of these"
