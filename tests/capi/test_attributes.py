"""rknn_tensor_attr of inputs and outputs, against what runtime 1.5.2 says (oracle: the vendor's runtime)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from openrknn.capi import attributes
from openrknn.container.load import load
from openrknn.vendor.tables.enums import QuantizationType, TensorFormat, TensorType
from tests.capi.asking import Vendor
from tests.capi.scenarios import NOT_ANSWERED, attributes_script

GOLDENS = Path(__file__).resolve().parents[1] / "goldens"
READERS = {
    "INPUT_ATTR": attributes.input_attr,
    "NATIVE_INPUT_ATTR": attributes.native_input_attr,
    "NATIVE_NHWC_INPUT_ATTR": attributes.native_input_attr,
    "OUTPUT_ATTR": attributes.output_attr,
    "NATIVE_OUTPUT_ATTR": attributes.native_output_attr,
    "NATIVE_NHWC_OUTPUT_ATTR": attributes.nhwc_output_attr,
    "CURRENT_INPUT_ATTR": attributes.input_attr,
    "CURRENT_NATIVE_INPUT_ATTR": attributes.native_input_attr,
    "CURRENT_OUTPUT_ATTR": attributes.output_attr,
    "CURRENT_NATIVE_OUTPUT_ATTR": attributes.native_output_attr,
}


def shown(values: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(values["dims"]), values["fmt"], values["size"], values["w_stride"], values["size_with_stride"]


def test_a_map_in_and_out() -> None:
    """7 * 5 pixels are no multiple of four; the numbers are those of 1.5.2."""
    model = load(GOLDENS / "conv_rk3588_i8.rknn")
    form = TensorFormat
    assert shown(attributes.input_attr(model, 0, 0)) == ((1, 7, 5, 8), form.NHWC, 280, 5, 576)
    assert shown(attributes.native_input_attr(model, 0, 0)) == ((1, 1, 7, 5, 16), form.NC1HWC2, 560, 5, 560)
    assert shown(attributes.output_attr(model, 0, 0)) == ((1, 12, 7, 5), form.NCHW, 420, 0, 1792)
    assert shown(attributes.native_output_attr(model, 0, 0)) == ((1, 2, 1, 36, 16), form.NC1HWC2, 1152, 0, 1152)
    assert shown(attributes.nhwc_output_attr(model, 0, 0)) == ((1, 7, 5, 12), form.NHWC, 420, 0, 432)


def test_names_types_and_scales() -> None:
    model = load(GOLDENS / "conv_rk3588_i8.rknn")
    found = attributes.input_attr(model, 0, 0)
    assert (found["index"], found["name"], found["type"], found["zp"]) == (0, "x", TensorType.INT8, 14)
    assert found["scale"] == pytest.approx(0.02298378385603428)
    floats = attributes.output_attr(load(GOLDENS / "conv_rk3588_fp.rknn"), 0, 0)
    assert (floats["type"], floats["scale"], floats["zp"]) == (TensorType.FLOAT16, 1.0, 0)
    assert floats["qnt_type"] is QuantizationType.AFFINE_ASYMMETRIC  # 1.5.2 says so of everything


def test_a_batch_is_in_the_first_dimension() -> None:
    model = load(GOLDENS / "image_rk3588_i8_batch2.rknn")
    assert attributes.input_attr(model, 0, 0)["dims"] == [2, 16, 16, 3]
    assert attributes.native_output_attr(model, 0, 0)["dims"] == [2, 2, 16, 16, 16]


def test_an_index_that_is_not_there() -> None:
    model = load(GOLDENS / "conv_rk3588_i8.rknn")
    with pytest.raises(IndexError):
        attributes.input_attr(model, 0, 1)
    with pytest.raises(IndexError):
        attributes.output_attr(model, 0, -1)


def loadable() -> list[str]:
    names = [path.stem for path in sorted(GOLDENS.glob("*_rk35[68][68]_*.rknn"))]
    return [name for name in names if not name.endswith(("_mini", "_w16a16i_dfp"))]


@pytest.mark.sample(3)
@pytest.mark.witness
@pytest.mark.parametrize("name", loadable())
def test_every_field_is_what_the_runtime_says(vendor: Vendor, name: str) -> None:
    path = GOLDENS / f"{name}.rknn"
    model = load(path)
    said = vendor.ask(attributes_script(path, model), chip=model.chip.name).said
    compared = 0
    for graph in model.graphs:
        when = f"graph_{graph.index}_" if model.is_dynamic else ""
        for command, reader in READERS.items():
            counted = graph.inputs if "INPUT" in command else graph.outputs
            for index in range(len(counted)):
                if said[f"{when}{command}_{index}"] != 0:
                    assert command in NOT_ANSWERED[model.is_dynamic]
                    continue
                theirs = said[f"{when}{command}_{index}_answer"]
                ours = reader(model, 0 if command.startswith("NATIVE") else graph.index, index)
                assert theirs["dims"][: theirs["n_dims"]] == ours.pop("dims")
                assert theirs["scale"] == pytest.approx(ours.pop("scale"), rel=1e-7)
                ours.pop("pass_through")  # the runtime leaves it as it is
                assert {field: theirs[field] for field in ours} == ours
                compared += 1
    assert compared >= 6
