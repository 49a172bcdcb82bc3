"""`rknn.api.RKNN` converts as programs ask it to: every argument of toolkit 2.5.0 works or is refused by name."""

from __future__ import annotations

import json
import logging
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openrknn
from openrknn.errors import UnsupportedError
from rknn.api import RKNN
from tests.compat.lab import listening
from tests.compat.programs import converter

onnx = pytest.importorskip("onnx", reason="the extra `compile` is not installed")

from tests.compiler.nets import Net  # noqa: E402
from tests.compiler.test_shapes import flexible  # noqa: E402

TOOLKIT = "OPENRKNN_TOOLKIT_PYTHON"
PIXELS = {"mean_values": [[0, 0, 0]], "std_values": [[255, 255, 255]]}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model with open sizes and a data set beside it; the program runs there."""
    monkeypatch.chdir(tmp_path)
    onnx.save(flexible(), str(tmp_path / "net.onnx"))
    picture = np.random.default_rng(0).integers(0, 256, (1, 24, 16, 3)).astype(np.uint8)
    np.save(tmp_path / "list.npy", picture.transpose(0, 3, 1, 2))
    (tmp_path / "list.txt").write_text("list.npy\n")
    return tmp_path


def loaded(folder: Path, **options: Any) -> RKNN:
    rknn = RKNN()
    assert rknn.config(target_platform="rk3588", **PIXELS, **options) == 0
    sizes = {} if "dynamic_input" in options else {"inputs": ["x"], "input_size_list": [[1, 3, 24, 16]]}
    assert rknn.load_onnx(str(folder / "net.onnx"), **sizes) == 0  # type: ignore[arg-type]
    return rknn


def check_converted(folder: Path, facts: dict[str, Any]) -> None:
    assert facts == {
        "init": 0, "shapes": [[1, 32, 6, 4], [1, 10]], "types": ["float32", "float32"], "is_close": [True, True],
        "is_same_turned": True, "is_same_alone": True, "analysis": 0,
    }  # fmt: skip
    dynamic, batch = (openrknn.load(folder / name) for name in ("dynamic.rknn", "batch.rknn"))
    assert [shapes["x"] for shapes in openrknn.Session(dynamic, "software").allowed_shapes] == [
        (1, 32, 40, 3), (1, 24, 16, 3),
    ]  # fmt: skip
    assert (batch.batch_size, batch.custom_string) == (2, "mine")


def test_a_converter_runs_unmodified(folder: Path) -> None:
    check_converted(folder, converter.main(str(folder)))


def test_the_same_program_with_the_vendors_toolkit(folder: Path) -> None:
    python = os.environ.get(TOOLKIT)
    if not python:
        pytest.skip(f"{TOOLKIT} names no Python that has rknn-toolkit2")
    done = subprocess.run(
        [python, converter.__file__, str(folder)], capture_output=True, text=True, timeout=600, check=False,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    check_converted(folder, json.loads(done.stdout.splitlines()[-1]))


def test_several_shapes_run_at_once(folder: Path) -> None:
    rknn = loaded(folder, dynamic_input=[[[1, 3, 8, 8]], [[1, 3, 24, 16]]])
    assert rknn.build(do_quantization=True, dataset=str(folder / "list.txt")) == 0
    assert rknn.init_runtime() == 0
    for size in ((8, 8), (24, 16)):
        outputs = rknn.inference(inputs=[np.zeros((1, *size, 3), np.uint8)])
        assert outputs is not None
        assert outputs[0].shape == (1, 32, size[0] // 4, size[1] // 4)
    rknn.release()


def test_a_batch_and_one_core(folder: Path) -> None:
    rknn = loaded(folder, single_core_mode=True)
    assert rknn.build(do_quantization=False, rknn_batch_size=3) == 0
    assert rknn.init_runtime() == 0
    outputs = rknn.inference(inputs=[np.zeros((3, 24, 16, 3), np.uint8)])
    assert outputs is not None
    assert outputs[1].shape == (3, 10)
    rknn.release()
    assert rknn.export_rknn("made.rknn") == 0
    assert {entry.core_count for entry in openrknn.load("made.rknn").graphs[0].task_lists} == {1}


def test_operators_for_fp16_are_listed_between_two_steps(folder: Path) -> None:
    rknn = loaded(folder)
    assert rknn.hybrid_quantization_step1(dataset="list.txt") == 0
    settings = folder / "net.quantization.cfg"
    text = settings.read_text()
    assert text.startswith("custom_quantize_layers: {}\nquantize_parameters:\n")
    settings.write_text(text.replace(": {}", ":\n    t2: float16  # the first one\n    t5: int8", 1))
    again = RKNN()
    assert again.config(target_platform="rk3588", dynamic_input=[[[1, 3, 24, 16]]], **PIXELS) == 0
    assert again.hybrid_quantization_step2("net.model", "net.data", "net.quantization.cfg") == 0
    assert again.export_rknn("mixed.rknn") == 0
    kinds = {tensor.name: tensor.dtype.name for tensor in openrknn.load("mixed.rknn").graphs[0].tensors}
    assert kinds["t2"] == "FLOAT16"
    assert "INT8" in kinds.values()
    settings.write_text("custom_quantize_layers:\n    t2: bfloat16\n")
    with listening(again.rknn_base) as heard:
        assert again.hybrid_quantization_step2("net.model", "net.data", "net.quantization.cfg") == -1
        assert again.hybrid_quantization_step2("list.txt", "net.data", "net.quantization.cfg") == -1
    assert "line 2: wanted is NAME: float16" in heard.text()
    assert "list.txt was not written by hybrid_quantization_step1" in heard.text()


def test_a_proposal_lists_what_int8_is_not_enough_for(folder: Path) -> None:
    rknn = loaded(folder, auto_hybrid_cos_thresh=0.9999999)
    assert rknn.hybrid_quantization_step1(dataset="list.txt", proposal=True) == 0
    assert ": float16" in (folder / "net.quantization.cfg").read_text()
    assert rknn.build(do_quantization=True, dataset="list.txt", auto_hybrid=True) == 0


def test_a_quantised_model_stays_so_without_quantization(folder: Path) -> None:
    net = Net()
    scale, zero = net.constant(0.05), net.constant(0, np.int8)
    a = net.add("DequantizeLinear", net.add("QuantizeLinear", "x", scale, zero), scale, zero)
    out = net.add("DequantizeLinear", net.add("QuantizeLinear", net.conv(a, 16, 16), scale, zero), scale, zero)
    onnx.save(net.model({"x": (1, 16, 4, 4)}, [out]), str(folder / "qdq.onnx"))
    rknn = RKNN()
    assert rknn.config(target_platform="rk3588") == 0
    assert rknn.load_onnx("qdq.onnx") == 0
    assert rknn.build(do_quantization=False) == 0
    assert rknn.export_rknn("qdq.rknn") == 0
    assert openrknn.load("qdq.rknn").inputs[0].dtype == "int8"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target_platform": "rk9999"}, "is not a chip"),
        ({"nonsense": 1}, "there is no option 'nonsense'"),
        ({"quantized_algorithm": "gdq"}, "there are normal, mmse, kl_divergence"),
        ({"quantized_dtype": "w4a16"}, "quantized_dtype 'w4a16' cannot be compiled"),
        ({"quantized_method": "group32"}, "there are channel, layer"),
        ({"float_dtype": "bfloat16"}, "there are float16"),
        ({"remove_weight": True}, "does not have remove_weight (dynamic_input puts several shapes"),
        ({"inputs_yuv_fmt": ["nv12"]}, "does not have inputs_yuv_fmt (give the model RGB"),
        ({"mini_rknn": True}, "does not have mini_rknn for rk3588"),
        ({"quantized_hybrid_level": 2}, "build(auto_hybrid=True)"),
        ({"quantize_weight": True}, "build(do_quantization=True, dataset=...)"),
        ({"compiler_control_file": "a.txt"}, "does not have compiler_control_file"),
        ({"op_target": {"a": "gpu"}}, "op_target is like {'Softmax_1': 'cpu'} with cpu, npu, auto"),
        ({"quantized_dtype": "w8a16"}, "Instead: build(do_quantization=False)"),
        ({"quantized_dtype": "w16a16i_dfp"}, "Instead: build(do_quantization=False)"),
        ({"quantized_algorithm": "gdq"}, "Instead: quantized_algorithm='mmse'"),
        ({"dynamic_input": [1, 3, 8, 8]}, "dynamic_input is like"),
        ({"dynamic_input": [[[1, 3, 8, 8]], [[1, 3, 8, 8], [1, 2]]]}, "a shape for each input"),
        ({"auto_hybrid_cos_thresh": 1.5}, "between 0 and 1"),
    ],
)
def test_options_that_are_refused(options: dict[str, Any], message: str) -> None:
    rknn = RKNN()
    with listening(rknn.rknn_base) as heard:
        assert rknn.config(**{"target_platform": "rk3588", **options}) == -1
    assert message in heard.text()


def test_after_a_refused_config_load_says_why(folder: Path) -> None:
    rknn = RKNN()
    assert rknn.config(target_platform="rk3588") == 0
    with listening(rknn.rknn_base) as heard:
        assert rknn.config(target_platform="rk3588", remove_weight=True) == -1
        assert rknn.load_onnx("net.onnx") == -1
    assert "load_onnx: config was refused" in heard.text()
    assert heard.text().count("does not have remove_weight") == 2
    assert "call config(" not in heard.text()


def test_options_that_change_nothing(folder: Path) -> None:
    harmless = {
        "optimization_level": 2, "model_pruning": True, "quantized_method": "layer", "enable_flash_attention": True,
        "memory_plan_strategy": "FirstFit", "compute_order": "HeightFirst", "compress_weight": True, "op_target": None,
        "sparse_infer": True, "disable_rules": ["fuse_two_gather"],
    }  # fmt: skip
    files = []
    for options in ({}, harmless):
        with listening(RKNN().rknn_base) as heard:
            rknn = loaded(folder, **options)
        assert all(
            f"{name} " in heard.text(logging.WARNING) for name in options if name != "op_target"
        )  # never silently
        assert rknn.build(do_quantization=True, dataset="list.txt") == 0
        assert rknn.export_rknn("same.rknn") == 0
        files.append((folder / "same.rknn").read_bytes())
    assert files[0] == files[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": "nothing.onnx"}, "cannot be read"),
        ({"model": "list.txt"}, "is not an ONNX model"),
        ({}, "'x' has the open shape"),
        ({"inputs": ["zz"], "input_size_list": [[1, 3, 8, 8]]}, "'zz' is not an input of the model; there are x"),
        ({"input_size_list": [[1, 3, 8, 8], [1, 2]]}, "2 shapes in input_size_list"),
        ({"input_size_list": [[1, 4, 8, 8]]}, "is fixed to"),
        ({"input_size_list": [[1, 3, 8, 8]], "outputs": ["nope"]}, "'nope' is not computed"),
        ({"input_size_list": [[1, 3, 8, 8]], "input_initial_val": [1]}, "input_initial_val of 'x' has the shape []"),
        ({"input_size_list": [[1, 3, 8, 8]], "input_initial_val": [1, 2]}, "2 values in input_initial_val"),
        ({"inputs": ["t2"]}, "inputs inside the model need their shapes"),
    ],
)
def test_models_that_cannot_be_loaded(folder: Path, arguments: dict[str, Any], message: str) -> None:
    rknn = RKNN()
    with listening(rknn.rknn_base) as heard:
        assert rknn.load_onnx("net.onnx") == -1
        assert rknn.config(target_platform="rk3588") == 0
        assert rknn.load_onnx(**{"model": "net.onnx", **arguments}) == -1
    assert "load_onnx: call config" in heard.text()
    assert message in heard.text()


@pytest.mark.parametrize("method", ["codegen", "reg_custom_op"])
def test_what_is_not_there_says_what_to_do(method: str) -> None:
    with pytest.raises(UnsupportedError, match=f"RKNN.{method}: openrknn "):
        getattr(RKNN(), method)("anything")
