"""What `describe` says, on files whose answers are known and on models that are wrong."""

import dataclasses
import math
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import openrknn
from openrknn.analysis.explain import describe
from openrknn.analysis.reports import ModelReport, as_json
from openrknn.analysis.versions import oldest_runtime, parse_version
from openrknn.container.model import Model
from openrknn.container.parts import DataType, Kind, Tensor
from openrknn.errors import RknnError
from tests.cli.changed import with_graph, with_tensor
from tests.container.mutate import MUTATIONS
from tests.container.places import GOLDENS, golden
from tests.container.test_v1 import model_bytes


def report_of(name: str) -> ModelReport:
    return describe(openrknn.load(golden(name)))


# ---------------------------------------------------------------- facts


def test_origin_and_totals() -> None:
    report = report_of("residual_rk3588_i8")
    assert (report.origin.chip, report.origin.toolkit_version, report.origin.framework) == ("RK3588", "2.5.0", "ONNX")
    totals = report.graphs[0].totals
    assert dict(totals.placements) == {"npu": 7}
    assert dict(totals.tasks) == {"1": 9, "2.0": 12, "2.1": 11, "3.0": 12, "3.1": 11, "3.2": 11}
    assert (totals.weight_bytes, totals.internal_bytes, totals.constant_bytes) == (9920, 8960, 1664)


@pytest.mark.parametrize(
    ("name", "operator", "expected"),
    [
        ("image_rk3588_i8", 1, 16 * 16 * 16 * 3 * 9),
        ("residual_rk3588_i8", 2, 8 * 8 * 16 * 9),  # depth-wise
        ("group_conv_rk3588_i8", 1, None),
        ("deconv_rk3588_i8", 1, 4 * 4 * 16 * 8 * 4),
        ("matmul_rk3588_i8", 6, 16 * 16 * 32),
        ("residual_rk3588_i8", 4, 0),  # a pool
    ],
)
def test_multiply_accumulates(name: str, operator: int, expected: int | None) -> None:
    row = report_of(name).graphs[0].operators[operator]
    if expected is None:  # whatever the compiler made of the groups: the weights meet every pixel
        weights = next(use for use in row.constants if len(use.shape) == 4)
        pixels = math.prod(row.outputs[0].shape) // row.outputs[0].shape[1]
        expected = pixels * math.prod(weights.shape)
    assert row.macs == expected


def test_tasks_of_operators_add_up_to_the_lists() -> None:
    for path in GOLDENS:
        for graph in describe(openrknn.load(path)).graphs:
            sums: dict[str, int] = {}
            for row in graph.operators:
                for name, count in row.tasks.items():
                    sums[name] = sums.get(name, 0) + count
            assert sums == dict(graph.totals.tasks), path


def test_lifetimes() -> None:
    lives = {life.tensor: life for life in report_of("residual_rk3588_i8").graphs[0].memory}
    assert (lives["relu1"].first, lives["relu1"].last) == (1, 3)
    assert (lives["features"].first, lives["features"].last) == (7, 8)
    assert [life.offset for life in lives.values()] == sorted(life.offset for life in lives.values())


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("image_rk3588_i8", "raw uint8 pixels 0..255, [1,16,16,3] NHWC in the order of the training"),
        ("image_rk3588_i8_batch2", "2 inputs per run, each [1,16,16,3] NHWC"),
        ("gemm_rk3588_i8", "float32, [1,4,4,32] NHWC; the runtime quantizes it to int8"),
        ("layer_norm_rk3588_fp", "float32 or float16"),
    ],
)
def test_what_to_feed(name: str, words: str) -> None:
    assert words in report_of(name).inputs[0].feed


def test_what_to_read() -> None:
    outputs = report_of("cpu_argmax_rk3588_i8").outputs
    assert outputs[0].read == "ask the runtime for float32, or take int8 q and compute (q - 5) * 0.0224585"
    assert outputs[1].read == "int64, as it is"


@pytest.mark.parametrize(
    ("name", "library", "version", "certainty"),
    [
        ("conv_rk3588_i8", "librknnrt", "1.5.2", "tested"),
        ("conv_rk3566_i8", "librknnrt", "1.5.2", "tested"),
        ("conv_rk3562_i8", "librknnrt", "1.5.2", "announced"),
        ("conv_rk3576_i8", "librknnrt", "2.0.0", "announced"),
        ("conv_rv1126b_i8", "librknnrt", "2.3.2", "announced"),
        ("dense_rk3576_w4a16", "librknnrt", "2.3.0", "announced"),
        ("residual_rv1106_i8", "librknnmrt", "", "unknown"),
        ("residual_rv1103b_i8", "librknnmrt", "", "unknown"),
    ],
)
def test_oldest_runtime(name: str, library: str, version: str, certainty: str) -> None:
    need = oldest_runtime(openrknn.load(golden(name)))
    assert (need.library, need.version, need.certainty) == (library, version, certainty)
    assert need.evidence
    assert need.advised == "2.5.0"


def test_a_model_of_format_1() -> None:
    report = describe(openrknn.load(model_bytes()))
    assert (report.runtime.version, report.runtime.certainty, report.runtime.refused_by) == ("1.4.0", "reported", "")
    assert as_json(report)


def test_versions_in_text() -> None:
    assert parse_version("1.6.2b3-dirty(compiler 1)") == (1, 6, 2)
    assert parse_version("v2.0") == (2, 0, 0)
    assert parse_version("") is None


# ---------------------------------------------------------------- models that are wrong


def test_wrong_graph_number() -> None:
    with pytest.raises(ValueError, match="there is no graph 1; the model has 1"):
        describe(openrknn.load(golden("conv_rk3588_i8")), graph=1)


def _bare(tensor: Tensor) -> Tensor:
    return dataclasses.replace(tensor, shape=(), native_shape=(), quantization=None, minimum=(), maximum=(1.0,))


@pytest.mark.parametrize(
    "change",
    [
        lambda model: with_graph(model, tensors=tuple(_bare(tensor) for tensor in model.graphs[0].tensors)),
        lambda model: with_graph(model, normalizations=()),
        lambda model: with_graph(model, nodes=()),
        lambda model: with_graph(model, inputs=(), outputs=(), tensors=model.graphs[0].tensors[:1], nodes=()),
        lambda model: with_graph(model, tasks=(), task_lists={}),
        lambda model: dataclasses.replace(model, notes_text="{'attrs': ["),
        lambda model: dataclasses.replace(model, notes_text="{'attrs': {'image': 3}}"),
        lambda model: dataclasses.replace(model, toolkit_text="", toolkit_number=0, framework="", platform=""),
        lambda model: dataclasses.replace(model, format_version=5),
        lambda model: with_tensor(model, "image", shape=(0, 0, 0, 0)),
        lambda model: with_tensor(model, "features", dtype=DataType.STRING, kind=Kind.NONE),
    ],
)
@pytest.mark.parametrize("name", ["residual_rk3588_i8", "image_rk3588_i8", "residual_rv1106_i8"])
def test_odd_models_are_described(name: str, change: Callable[[Model], Model]) -> None:
    report = describe(change(openrknn.load(golden(name))))
    assert as_json(report)


@pytest.mark.parametrize("path", GOLDENS[::6], ids=lambda path: path.stem)
def test_mutated_files_are_refused_or_described(path: Path) -> None:
    rng = random.Random(path.stem)
    whole = path.read_bytes()
    for _ in range(60):
        data = bytearray(whole)
        rng.choice(MUTATIONS)(data, rng, len(data))
        try:
            model = openrknn.load(bytes(data), strict=False)
        except RknnError:
            continue
        assert as_json(describe(model))


def test_thousands_of_operators_are_fast() -> None:
    model = openrknn.load(golden("residual_rk3588_i8"))

    def seconds(count: int) -> tuple[float, ModelReport]:
        nodes = tuple(dataclasses.replace(model.graphs[0].nodes[1], index=index) for index in range(count))
        start = time.process_time()
        report = describe(with_graph(model, nodes=nodes))
        return time.process_time() - start, report

    few, _ = seconds(2_000)
    many, report = seconds(20_000)
    assert many < 40 * few, "ten times the operators take about ten times as long, not a hundred times"
    assert len(report.graphs[0].operators) == 20_000
