"""Models in parts, against ONNX Runtime: right, split where they have to be, and never refused."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import openrknn
from openrknn.compiler.api import compile_with
from openrknn.compiler.errors import UnsupportedOperatorError
from openrknn.container.bundle import write_bundle
from openrknn.partition import Parted, PartitionOptions, compiled, make_bundle
from openrknn.runtime.parted.session import PartedSession
from openrknn.runtime.parted.steps import UnfitError
from tests.partition.models import RNG, decibels, interrupted, kernels, model_of, reference, rows, switched

NPU = PartitionOptions(prefer="npu", cache=False, device="software")


def picture(channels: int = 8, size: int = 8) -> np.ndarray[Any, Any]:
    return RNG.normal(size=(1, channels, size, size)).astype(np.float32)


def kinds(parted: Parted) -> list[str]:
    return [part.kind for part in parted.plans[0].parts]


def test_what_the_npu_lacks_runs_beside_it() -> None:
    model, feed = interrupted(), {"x": picture()}
    with Parted(model, NPU) as parted:
        assert kinds(parted) == ["npu", "cpu", "npu"]
        assert parted._kept._model is None  # its weights are in the parts
        assert "the NPU has no Det" in parted.plans[0].parts[1].reason
        assert parted.plans[0].npu_share == 1.0
        assert decibels(parted.run(feed)["y"], reference(model, feed)["y"]) > 50


def test_a_part_that_is_not_worth_its_way_stays_on_the_cpu() -> None:
    with Parted(interrupted(), replace(NPU, prefer="cost")) as small:
        assert kinds(small) == ["cpu"]
        assert "by estimate" in small.plans[0].parts[0].reason
    large = model_of(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 64, 32, 32] x) => (float[1, 64, 32, 32] y) {
            a = Conv <pads = [1, 1, 1, 1]> (x, w)
            y = Conv <pads = [1, 1, 1, 1]> (a, w)
        }""",
        w=(RNG.normal(size=(64, 64, 3, 3)) / 24).astype(np.float32),
    )
    with Parted(large, replace(NPU, prefer="cost")) as parted:
        assert kinds(parted) == ["npu"]
        part = parted.plans[0].parts[0]
        assert part.npu_us is not None
        assert part.npu_us < part.cpu_us


def test_the_file_opens_as_a_session(tmp_path: Path) -> None:
    model, feed = interrupted(), {"x": picture()}
    path = tmp_path / "net.rknnz"
    path.write_bytes(write_bundle(make_bundle(model, NPU)))
    assert path.read_bytes() == write_bundle(make_bundle(model, NPU))  # nothing of today is in it
    with zipfile.ZipFile(path) as archive:
        assert sorted(archive.namelist()) == ["manifest.json", "parts/00.rknn", "parts/01.onnx", "parts/02.rknn"]
    with openrknn.Session(path, "software") as session:
        assert isinstance(session, PartedSession)
        assert [(spec.name, spec.shape, spec.dtype) for spec in session.inputs] == [("x", (1, 8, 8, 8), "float32")]
        found = session.run(feed)
        assert decibels(found["y"], reference(model, feed)["y"]) > 50
        assert [number for number, _ in session.part_times] == [0, 1, 2]
        again = session.run(["y"], feed)
        assert np.array_equal(again[0], found["y"])
        with pytest.raises(ValueError, match="no input is called 'z'"):
            session.run({"z": feed["x"]})


def test_integers_and_truths_keep_their_types() -> None:
    model = model_of(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (int64[1, 8] ids) => (float[1, 8, 16] y, int64[1, 8] best, bool[1, 8] is) {
            a = Gather (table, ids)
            b = MatMul (a, w)
            y = Relu (b)
            best = ArgMax <axis = -1, keepdims = 0> (y)
            zero = Constant <value = int64 {0}> ()
            is = Greater (best, zero)
        }""",
        table=RNG.normal(size=(50, 32)).astype(np.float32), w=(RNG.normal(size=(32, 16)) / 6).astype(np.float32),
    )  # fmt: skip
    feed = {"ids": RNG.integers(-50, 50, (1, 8))}
    wanted = reference(model, feed)
    with Parted(model, NPU) as parted:
        assert "npu" in kinds(parted)
        found = parted.run(feed)
        assert decibels(found["y"], wanted["y"]) > 50
        assert found["best"].dtype == np.int64
        assert np.array_equal(found["best"], wanted["best"])
        assert np.array_equal(found["is"], wanted["is"])


def test_what_the_compiler_refuses_is_learnt(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the error's word where it names an operator, by halving where it does not."""
    honest = compile_with
    model, feed = interrupted(), {"x": picture()}

    def refuse(part: Any, options: Any, *, names: bool) -> Any:
        culprit = next((node for node in part.graph.node if node.op_type == "Relu"), None)
        if culprit is not None:
            raise UnsupportedOperatorError(f"not {culprit.output[0]!r}" if names else "no")
        return honest(part, options)

    for names in (True, False):
        monkeypatch.setattr(compiled, "compile_with", partial(refuse, names=names))
        with Parted(model, NPU) as parted:
            assert kinds(parted) == ["npu", "cpu", "npu"]
            assert any(note.startswith("Relu") for note in parted.plans[0].notes)
            assert decibels(parted.run(feed)["y"], reference(model, feed)["y"]) > 50


def test_a_mistake_of_the_compiler_is_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(part: Any, options: Any) -> Any:
        raise IndexError("list index out of range")

    monkeypatch.setattr(compiled, "compile_with", fail)
    model, feed = interrupted(), {"x": picture()}
    with Parted(model, NPU) as parted:
        assert kinds(parted) == ["cpu"]
        assert "the compiler failed: list index out of range" in parted.plans[0].parts[0].reason
        assert np.array_equal(parted.run(feed)["y"], reference(model, feed)["y"])


def test_the_cache_makes_the_second_start_compile_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = replace(NPU, cache=tmp_path)
    model, feed = interrupted(), {"x": picture()}
    with Parted(model, options) as parted:
        first = parted.run(feed)["y"]
    monkeypatch.setattr(compiled, "compile_with", lambda part, options: pytest.fail("compiled again"))
    with Parted(model, options) as parted:
        assert np.array_equal(parted.run(feed)["y"], first)
    for path in tmp_path.iterdir():  # damaged files are made anew
        path.write_bytes(path.read_bytes()[:100])
    monkeypatch.undo()
    with Parted(model, options) as parted:
        assert np.array_equal(parted.run(feed)["y"], first)


def test_rows_are_filled_up_where_that_is_exact() -> None:
    options = replace(NPU, shapes=({"x": (8, 32)},), learn_shapes=False, probe=False)
    apart, mixed = rows("apart"), rows("mixed")
    feed = {"x": RNG.normal(size=(3, 32)).astype(np.float32)}
    full = {"x": np.concatenate([feed["x"], np.ones((5, 32), np.float32)])}
    with Parted(apart, options) as parted:
        found = parted.run(feed)["y"]
        assert found.shape == (3, 16)
        assert decibels(found, reference(apart, feed)["y"]) > 45
        assert np.array_equal(found, parted.run(full)["y"][:3])
        assert not parted._whole
    with Parted(mixed, options) as parted:
        assert decibels(parted.run(feed)["y"], reference(mixed, feed)["y"]) > 100  # the CPU's
        assert parted._whole


def test_one_row_and_several_in_one_file() -> None:
    model = rows("apart")
    data = write_bundle(make_bundle(model, replace(NPU, shapes=({"x": (1, 32)}, {"x": (4, 32)}))))
    with openrknn.Session(data, "software") as session:
        for count in (1, 3, 4):
            feed = {"x": RNG.normal(size=(count, 32)).astype(np.float32)}
            assert decibels(session.run(feed)["y"], reference(model, feed)["y"]) > 45
        with pytest.raises(ValueError, match="the file has parts for"):
            session.run({"x": np.zeros((5, 32), np.float32)})


def test_shapes_are_learnt_as_they_come() -> None:
    model = rows("mixed")
    with Parted(model, NPU) as parted:
        for count in (2, 3, 4, 5, 6, 6, 6):
            feed = {"x": RNG.normal(size=(count, 32)).astype(np.float32)}
            assert decibels(parted.run(feed)["y"], reference(model, feed)["y"]) > 45
        assert len(parted.plans) == 5  # four at once, the fifth when it came for the third time


def test_several_shapes_in_one_file() -> None:
    model = rows("mixed")
    data = write_bundle(make_bundle(model, replace(NPU, shapes=({"x": (2, 32)}, {"x": (5, 32)}))))
    with openrknn.Session(data, "software") as session:
        assert session.allowed_shapes == ({"x": (2, 32)}, {"x": (5, 32)})
        for count in (2, 5):
            feed = {"x": RNG.normal(size=(count, 32)).astype(np.float32)}
            assert decibels(session.run(feed)["y"], reference(model, feed)["y"]) > 45
        with pytest.raises(ValueError, match="the file has parts for"):
            session.run({"x": np.zeros((3, 32), np.float32)})


def test_a_branch_that_an_input_chooses_is_compiled_for_its_value() -> None:
    model = switched()
    with Parted(model, NPU) as parted:
        for rate in (16000, 8000, 16000):
            feed = {"x": picture(), "rate": np.array(rate)}
            assert decibels(parted.run(feed)["y"], reference(model, feed)["y"]) > 50
        assert [[part.kind for part in bundle.parts] for bundle in parted.plans] == [["npu"], ["npu"]]


def test_int8_parts_are_calibrated_on_what_reaches_them() -> None:
    model = interrupted(16, 8)
    data = [{"x": picture(16, 8)} for _ in range(4)]
    with Parted(model, replace(NPU, calibration=data, precision="int8")) as parted:
        assert kinds(parted) == ["npu", "cpu", "npu"]
        assert parted.plans[0].precision == "int8"
        assert 20 < decibels(parted.run(data[0])["y"], reference(model, data[0])["y"]) < 50


def test_half_floats_are_taken() -> None:
    model = model_of(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float16[1, 8, 8, 8] x) => (float16[1, 8, 8, 8] y) { a = Conv <pads = [1, 1, 1, 1]> (x, w) y = Relu (a) }""",
        w=kernels(8, 8).astype(np.float16),
    )
    feed = {"x": picture().astype(np.float16)}
    with Parted(model, NPU) as parted:
        assert "npu" in kinds(parted)
        assert decibels(parted.run(feed)["y"], reference(model, feed)["y"]) > 45


def test_texts_and_sequences_are_the_cpus() -> None:
    model = model_of(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[4] x) => (seq(float[2]) y) { y = SplitToSequence (x, two) }""",
        two=np.array(2),
    )
    with Parted(model, NPU) as parted:
        found = parted.run({"x": np.arange(4, dtype=np.float32)})["y"]
        assert [list(part) for part in found] == [[0, 1], [2, 3]]


def test_constants_are_fixed(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(switched(), path)
    with Parted(path, replace(NPU, constants={"rate": 8000})) as parted:
        assert [port.name for port in parted.inputs] == ["x"]
        feed = {"x": picture()}
        wanted = reference(switched(), {**feed, "rate": np.array(8000)})
        assert parted.run(feed)["y"].shape == wanted["y"].shape


def test_what_fp16_cannot_hold_is_left_to_the_cpu(tmp_path: Path) -> None:
    """Only real inputs tell: random numbers around 0 pass."""
    model = model_of(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 8, 8, 8] x) => (float[1, 8, 8, 8] y) {
            a = Conv <pads = [1, 1, 1, 1]> (x, w)
            b = Mul (a, a)
            c = Sqrt (b)
            y = Conv <pads = [1, 1, 1, 1]> (c, w)
        }""",
        w=kernels(8, 8),
    )
    feed = {"x": 1000 * picture()}
    wanted = reference(model, feed)["y"]
    options = replace(NPU, cache=tmp_path)
    with Parted(model, options) as parted:
        assert kinds(parted) == ["npu"]
        assert np.isnan(parted.run({"x": np.full_like(feed["x"], np.nan)})["y"]).all()  # which teaches nothing
        assert kinds(parted) == ["npu"]
        assert decibels(parted.run(feed)["y"], wanted) > 45
        assert kinds(parted) == ["npu", "cpu", "npu"]
        assert "beyond what fp16 holds" in parted.plans[0].parts[1].reason
    with Parted(model, options) as parted:  # it is remembered
        assert kinds(parted) == ["npu", "cpu", "npu"]
    with Parted(model, replace(NPU, probe=False)) as parted:
        assert decibels(parted.run(feed)["y"], wanted) > 100  # every time on the CPU
        assert kinds(parted) == ["npu"]


def test_the_lowest_float_is_a_mask_before_a_softmax() -> None:
    model = model_of(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 16, 32] x, float[1, 1, 16] mask) => (float[1, 16, 32] y) {
            q = MatMul (x, w)
            t = Transpose <perm = [0, 2, 1]> (x)
            s = MatMul (q, t)
            m = Add (s, mask)
            p = Softmax <axis = -1> (m)
            a = MatMul (p, x)
            y = MatMul (a, w)
        }""",
        w=(RNG.normal(size=(32, 32)) / 16).astype(np.float32),
    )
    mask = np.where(np.arange(16) < 10, 0, np.finfo(np.float32).min).astype(np.float32).reshape(1, 1, 16)
    feed = {"x": RNG.normal(size=(1, 16, 32)).astype(np.float32), "mask": mask}
    with Parted(model, NPU) as parted:
        assert decibels(parted.run(feed)["y"], reference(model, feed)["y"]) > 40
        assert kinds(parted) == ["npu"]
        assert parted.plans[0].parts[0].masks == ("mask",)


def test_layers_that_quantise_as_they_run_are_floats_on_the_npu() -> None:
    """As `onnxruntime.quantization.quantize_dynamic` writes them. ONNX Runtime rounds to 8 bits, the NPU to 11."""
    model = model_of(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 16, 32] x) => (float[1, 16, 32] y) {
            q, s, z = DynamicQuantizeLinear (x)
            i = MatMulInteger (q, w, z, wz)
            f = Cast <to = 1> (i)
            k = Mul (s, ws)
            m = Mul (f, k)
            y = Add (m, b)
        }""",
        w=RNG.integers(0, 256, (32, 32)).astype(np.uint8), wz=np.array(128, np.uint8),
        ws=np.array(0.002, np.float32), b=RNG.normal(size=32).astype(np.float32),
    )  # fmt: skip
    feed = {"x": RNG.normal(size=(1, 16, 32)).astype(np.float32)}
    with Parted(model, NPU) as parted:
        assert kinds(parted) == ["npu"]
        assert decibels(parted.run(feed)["y"], reference(model, feed)["y"]) > 35


def test_parts_that_stay_far_from_float_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """One odd input does not decide; three do. Every answer is right meanwhile."""
    model = interrupted()
    monkeypatch.setattr("openrknn.partition.parted.is_far", lambda *_: True)
    with Parted(model, NPU) as parted:
        for _ in range(3):
            assert kinds(parted) == ["npu", "cpu", "npu"]
            feed = {"x": picture()}
            assert np.array_equal(parted.run(feed)["y"], reference(model, feed)["y"])
        assert kinds(parted) == ["cpu"]


def test_tables_that_are_looked_up_by_place_fold_away() -> None:
    """Token types of BERT's exporters: a row of 512 zeros, of which as many are taken as there are tokens."""
    model = model_of(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 64, 16] x) => (float[1, 64, 16] y) {
            kinds = GatherElements <axis = 1> (row, places)
            table = Gather (weights, kinds)
            a = Add (x, table)
            y = MatMul (a, w)
        }""",
        row=np.zeros((1, 512), np.int64), places=np.arange(64).reshape(1, 64) - 64,
        weights=RNG.normal(size=(2, 16)).astype(np.float32), w=(RNG.normal(size=(16, 16)) / 4).astype(np.float32),
    )  # fmt: skip
    feed = {"x": RNG.normal(size=(1, 64, 16)).astype(np.float32)}
    with Parted(model, NPU) as parted:
        assert kinds(parted) == ["npu"]
        assert decibels(parted.run(feed)["y"], reference(model, feed)["y"]) > 50


def test_one_constant_that_cannot_be_computed_does_not_keep_the_rest_from_it() -> None:
    spoilt = model_of(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 8, 8, 8] x) => (float[1, 8, 8, 8] y) {
            huge = Expand (one, sizes)
            least = ReduceMin <keepdims = 0> (huge)
            shape = Shape (x)
            flat = Reshape (x, shape)
            a = Conv <pads = [1, 1, 1, 1]> (flat, w)
            y = Mul (a, least)
        }""",
        w=kernels(8, 8), one=np.ones((1,), np.float32), sizes=np.array([3, 30_000_000]),
    )  # fmt: skip
    with Parted(spoilt, replace(NPU, probe=False)) as parted:
        assert "npu" in kinds(parted)


def test_chance_is_no_mistake() -> None:
    """Two runs of a model that draws numbers differ; that moves nothing to the CPU."""
    model = model_of(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 8, 8, 8] x) => (float[1, 8, 8, 8] y) {
            a = Conv <pads = [1, 1, 1, 1]> (x, w)
            n = RandomNormalLike <scale = 100.0> (a)
            s = Add (a, n)
            y = Conv <pads = [1, 1, 1, 1]> (s, w)
        }""",
        w=kernels(8, 8),
    )
    with Parted(model, NPU) as parted:
        first, second = (parted.run({"x": np.ones((1, 8, 8, 8), np.float32)})["y"] for _ in range(2))
        assert not np.array_equal(first, second)
        assert kinds(parted) == ["npu", "cpu", "npu"]
        assert parted.plans[0].parts[1].operators == 1


def test_one_choice_of_shapes_need_not_be_in_a_list() -> None:
    model, feed = interrupted(), {"x": picture()}
    one: Any = {"x": (1, 8, 8, 8)}
    options = replace(NPU, shapes=one)
    assert options.shapes == (one,)
    with Parted(model, options) as parted:
        assert decibels(parted.run(feed)["y"], reference(model, feed)["y"]) > 50


def test_what_does_not_fit_is_an_error_of_ours() -> None:
    assert issubclass(UnfitError, openrknn.RknnError)
