"""Sessions: what they say, how they run, and special models."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openrknn
from openrknn.container.load import load
from openrknn.errors import ExecutionError, UnsupportedError
from openrknn.runtime.session import Session
from tests.runtime.cases import answers, golden, same

MULTICORE = ["residual_rk3588_i8", "silu_rk3588_i8", "softmax_rk3588_fp", "two_outputs_rk3588_i8", "matmul_rk3588_i8"]

# ---------------------------------------------------------------- what it is


def test_a_session_describes_itself(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO), openrknn.Session(golden("two_inputs_rk3588_i8")) as session:
        assert [spec.name for spec in session.inputs] == ["picture", "features"]
        assert session.inputs[0].shape == (1, 8, 8, 3)
        assert session.outputs[0].shape == (1, 16, 8, 8)
        assert session.device.name == "software:rk3588"
        assert session.allowed_shapes == ({"picture": (1, 8, 8, 3), "features": (1, 8, 8, 16)},)
        assert "software:rk3588" in repr(session)
    assert "device auto: took software:rk3588" in caplog.text
    assert "closed" in repr(session)


def test_models_come_as_path_text_bytes_or_parsed() -> None:
    path = golden("conv_rk3588_i8")
    array = np.ones((1, 8, 7, 5), np.float32)
    with Session(load(path)) as session:
        want = session.run(array)
    for source in (path, str(path), path.read_bytes()):
        with Session(source) as session:
            assert same(session.run(array), want)


def test_inputs_by_position_by_name_and_alone() -> None:
    inputs, _ = answers(golden("two_inputs_rk3588_i8"))
    with Session(golden("two_inputs_rk3588_i8")) as session:
        want = session.run(inputs)
        assert same(session.run(tuple(inputs)), want)
        assert same(session.run({"features": inputs[1], "picture": inputs[0]}), want)
        with pytest.raises(ValueError, match="one array was given; the model has 2: picture, features"):
            session.run(inputs[0])


def test_run_as_in_onnx_runtime() -> None:
    """`run(names or None, {name: array})` returns a list."""
    inputs, _ = answers(golden("two_outputs_rk3588_i8"))
    with Session(golden("two_outputs_rk3588_i8")) as session:
        feed = dict(zip((spec.name for spec in session.inputs), inputs, strict=True))
        first, second = (spec.name for spec in session.outputs)
        want = session.run(feed)
        found = session.run(None, feed)
        assert isinstance(found, list)
        assert same(dict(zip((first, second), found, strict=True)), want)
        (only,) = session.run([second], feed, outputs="raw")
        assert np.array_equal(only, session.run(feed, outputs="raw")[second])
        with pytest.raises(ValueError, match="no output is called 'nonsense'; the model has"):
            session.run(["nonsense"], feed)
        with pytest.raises(TypeError, match="a list of output names"):
            session.run(inputs[0], feed)  # type: ignore[call-overload]


def test_run_async_can_be_awaited() -> None:
    inputs, _ = answers(golden("conv_rk3588_i8"))

    async def program() -> list[dict[str, Any]]:
        with Session(golden("conv_rk3588_i8")) as session, openrknn.SessionPool(golden("conv_rk3588_i8")) as pool:
            both = session.run_async(inputs), pool.run_async(inputs)
            return [await both[0], await both[1], both[0].result()]

    with Session(golden("conv_rk3588_i8")) as session:
        want = session.run(inputs)
        assert all(same(found, want) for found in asyncio.run(program()))
        with pytest.raises(ValueError, match="no input is called"):
            asyncio.run(_awaited(session, {"nonsense": inputs[0]}))


async def _awaited(session: Session, inputs: object) -> object:
    return await session.run_async(inputs)


def test_the_three_kinds_of_output() -> None:
    inputs, _ = answers(golden("conv_rk3588_i8"))
    with Session(golden("conv_rk3588_i8")) as session:
        quantization = session.outputs[0].quantization
        assert quantization is not None
        floats = session.run(inputs)["y"]
        raw = session.run(inputs, outputs="raw")["y"]
        native = session.run(inputs, outputs="native")["y"]
        assert [array.dtype.name for array in (floats, raw, native)] == ["float32", "int8", "int8"]
        assert floats.shape == raw.shape == (1, 12, 7, 5)
        steps = raw - np.float32(quantization.zero_point[0])
        assert np.array_equal(floats, steps * np.float32(quantization.scale[0]))
        assert native.shape == (1, 2, 7, 5, 16)  # one surface more than 12 channels need
        assert np.array_equal(native[0, 0, :, :, :12].transpose(2, 0, 1), raw[0])
        session.run(np.zeros_like(inputs[0]))
        assert not np.array_equal(native[0, 0, :, :, :12].transpose(2, 0, 1), raw[0])  # it is the memory itself


def test_indices_stay_integers() -> None:
    with Session(golden("cpu_argmax_rk3588_i8")) as session:
        outputs = session.run(np.random.default_rng(0).standard_normal(session.inputs[0].shape).astype(np.float32))
        assert outputs["classes"].dtype == np.int64
        assert np.array_equal(outputs["classes"][:, 0], outputs["scores"].argmax(1))


# ---------------------------------------------------------------- cores


@pytest.mark.parametrize("name", MULTICORE)
def test_one_two_and_three_cores_give_the_same_bytes(name: str) -> None:
    inputs, _ = answers(golden(name))
    results = []
    for cores in (1, 2, 3):
        with Session(golden(name), cores=cores) as session:
            assert session.cores == cores
            results.append(session.run(inputs, outputs="raw"))
    assert same(results[0], results[1])
    assert same(results[0], results[2])


@pytest.mark.parametrize(("mask", "cores"), [(0, 1), (1, 1), (4, 1), (3, 2), (6, 2), (7, 3)])
def test_core_masks(mask: int, cores: int) -> None:
    with Session(golden("residual_rk3588_i8"), core_mask=mask) as session:
        assert session.cores == cores


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"cores": 0}, ValueError, "RK3588 has 3 cores; cores=0"),
        ({"cores": 4}, ValueError, "RK3588 has 3 cores; cores=4"),
        ({"cores": "2"}, TypeError, "cores= is a number"),
        ({"cores": True}, TypeError, "cores= is a number"),
        ({"core_mask": 8}, ValueError, "core_mask=0x8 names cores"),
        ({"core_mask": 3, "cores": 2}, ValueError, "give one of them"),
        ({"device": 3}, TypeError, "device= is a text"),
        ({"device": "vendor:/nowhere"}, UnsupportedError, "/nowhere"),
        ({"device": "software:rk3566"}, UnsupportedError, "cannot run there"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Session(golden("residual_rk3588_i8"), **options)


def test_a_model_for_one_core_says_so() -> None:
    with pytest.raises(UnsupportedError, match="no task list for 2 cores, only for 1"):
        Session(golden("residual_rk3588_i8_single_core"), cores=2)


# ---------------------------------------------------------------- special models


def test_dynamic_shapes() -> None:
    rng = np.random.default_rng(0)
    with Session(golden("dynamic_rk3588_i8")) as session:
        assert [entry["image"] for entry in session.allowed_shapes] == [(1, 16, 16, 3), (1, 8, 24, 3), (1, 8, 8, 3)]
        pictures = [rng.integers(0, 256, shape["image"], dtype=np.uint8) for shape in session.allowed_shapes]
        first = session.run(pictures[0])
        with pytest.raises(ValueError, match=r"has to be \(1, 16, 16, 3\).*call set_shapes first; there are"):
            session.run(pictures[1])
        for wanted in ({"image": (1, 8, 24, 3)}, [(1, 8, 24, 3)], (1, 3, 8, 24)):
            session.set_shapes((1, 8, 8, 3))
            session.set_shapes(wanted)  # type: ignore[arg-type]
            assert session.inputs[0].shape == (1, 8, 24, 3)
            assert session.outputs[0].shape == (1, 8, 8, 24)
            assert session.run(pictures[1])["features"].shape == (1, 8, 8, 24)
        session.set_shapes((1, 16, 16, 3))
        assert same(session.run(pictures[0]), first)


def test_shapes_share_what_does_not_depend_on_them() -> None:
    """A network of 1 x 1 and 3 x 3 convolutions: inside, a crop of the picture gives a crop of the result."""
    picture = np.random.default_rng(1).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    with Session(golden("dynamic_rk3588_i8")) as session:
        whole = session.run(picture, outputs="raw")["features"]
        session.set_shapes((1, 8, 8, 3))
        part = session.run(picture[:8, :8], outputs="raw")["features"]
    assert np.array_equal(whole[:, :, :6, :6], part[:, :, :6, :6])


@pytest.mark.parametrize(
    ("wanted", "error", "message"),
    [
        ((1, 9, 9, 3), ValueError, r"not built for the shapes \(1, 9, 9, 3\); it has image \(1, 16, 16, 3\); image"),
        ({"x": (1, 8, 8, 3)}, ValueError, "shapes are needed for image; x were given"),
        ([(1, 8, 8, 3), (1, 8, 8, 3)], ValueError, "2 shapes were given; the model has 1 inputs"),
        (5, TypeError, "not 5"),
    ],
)
def test_wrong_shapes_are_named(wanted: Any, error: type[Exception], message: str) -> None:
    with Session(golden("dynamic_rk3588_i8")) as session:
        with pytest.raises(error, match=message):
            session.set_shapes(wanted)
        session.run(np.zeros((16, 16, 3), np.uint8))


def test_batches_run_item_by_item() -> None:
    pictures = np.random.default_rng(2).integers(0, 256, (2, 16, 16, 3), dtype=np.uint8)
    with Session(golden("image_rk3588_i8_batch2")) as session:
        assert session.inputs[0].shape == (2, 16, 16, 3)
        assert session.outputs[0].shape == (2, 16, 16, 16)
        both = session.run(pictures)["features"]
        assert both.shape == (2, 16, 16, 16)
        swapped = session.run(pictures[::-1].transpose(0, 3, 1, 2))["features"]
        assert np.array_equal(both, swapped[::-1])
        native = session.run(pictures, outputs="native")["features"]
        assert native.shape == (2, 2, 16, 16, 16)
        assert not np.array_equal(native[0], native[1])
        with pytest.raises(ValueError, match="the model takes 2 items per run"):
            session.run(pictures[0])
        with pytest.raises(ValueError, match="use run"):
            session.bind()


def test_a_batch_equals_the_single_model() -> None:
    pictures = np.random.default_rng(3).integers(0, 256, (2, 16, 16, 3), dtype=np.uint8)
    with Session(golden("image_rk3588_i8_batch2")) as session:
        both = session.run(pictures)["features"]
    # The same file without the batch: what counts is only this one text.
    single = dataclasses.replace(load(golden("image_rk3588_i8_batch2")), batch_text="0")
    with Session(single) as session:
        assert np.array_equal(both[1:], session.run(pictures[1])["features"])
        assert np.array_equal(both[:1], session.run(pictures[0])["features"])


def test_a_mini_file_runs_as_the_normal_one() -> None:
    inputs, _ = answers(golden("residual_rk3588_i8"))
    with Session(golden("residual_rk3588_i8_mini")) as session:
        ours = session.run(inputs)
    with Session(golden("residual_rk3588_i8_single_core")) as session:
        assert same(session.run(inputs), ours)


def test_sixteen_bit_models_run_with_their_cpu_operator() -> None:
    inputs, outputs = answers(golden("residual_rk3588_i8"))
    with Session(golden("residual_rk3588_w16a16i_dfp")) as session:
        ours = session.run(inputs)["features"]
        cosine = float((ours.ravel() @ outputs[0].ravel()) / (np.linalg.norm(ours) * np.linalg.norm(outputs[0])))
        assert cosine > 0.999


def test_other_chips_run_or_are_named() -> None:
    with Session(golden("residual_rk3566_i8")) as session:
        assert session.device.name == "software:rk3566"
    model = load(golden("residual_rk3588_i8"))
    future = dataclasses.replace(model, chip=dataclasses.replace(model.chip, family="rk9999", title="RK9999"))
    with pytest.raises(UnsupportedError, match="does not implement RK9999 yet"):
        Session(future)


def test_removed_weights_are_named() -> None:
    with pytest.raises(UnsupportedError, match="the file has no weights"):
        Session(golden("residual_rk3588_i8_no_weights"))


def test_commands_that_the_npu_refuses_name_the_operator(tmp_path: Path) -> None:
    path = tmp_path / "changed.rknn"
    data, fc_con0 = golden("residual_rk3588_i8").read_bytes(), (0x0201 << 48 | 0x1060).to_bytes(8, "little")
    path.write_bytes(data.replace(fc_con0, fc_con0[:2] + b"\x01" + fc_con0[3:]))
    with (
        Session(path) as session,
        pytest.raises(ExecutionError, match="operator 1 'Conv:conv0', FC_CON0"),
    ):
        session.run(np.zeros((16, 16, 3), np.uint8))
