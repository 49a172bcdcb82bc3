"""Sessions: functions of one's own, memory of one's own, sharing, threads, and how they end."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import openrknn
from openrknn.chips import CHIPS
from openrknn.container.load import load
from openrknn.device import SoftwareDevice
from openrknn.errors import UnsupportedError
from openrknn.runtime.errors import ClosedError
from openrknn.runtime.session import Session
from tests.runtime.cases import Array, answers, golden, program_of, renamed, same

# ---------------------------------------------------------------- operators of the CPU


def test_custom_operators_replace_and_add() -> None:
    inputs, _ = answers(golden("cpu_sin_rk3588_i8"))
    seen: list[tuple[tuple[int, ...], Any]] = []

    def sine(arrays: Sequence[Array], attributes: Mapping[str, Any]) -> Array:
        seen.append((arrays[0].shape, arrays[0].dtype))
        return np.sin(arrays[0])

    with Session(golden("cpu_sin_rk3588_i8")) as session:
        want = session.run(inputs)
    with Session(golden("cpu_sin_rk3588_i8"), custom_ops={"Sin": sine}) as session:
        assert same(session.run(inputs), want)
    assert seen == [((1, 16, 8, 8), np.float32)]
    model = renamed(load(golden("cpu_sin_rk3588_i8")), "Sin", "cstWave")
    with Session(model, custom_ops={"cstWave": lambda arrays, attributes: [np.sin(arrays[0])]}) as session:
        assert same(session.run(inputs), want)


def test_an_unknown_operator_is_named_with_a_way_out() -> None:
    model = renamed(load(golden("cpu_sin_rk3588_i8")), "Sin", "cstWave")
    with pytest.raises(UnsupportedError, match=r"cstWave \(first: operator 2 .*custom_ops=\{'cstWave'"):
        Session(model)


def test_a_custom_operator_that_gives_the_wrong_thing_is_named() -> None:
    inputs, _ = answers(golden("cpu_sin_rk3588_i8"))
    results: list[Any] = [np.zeros(3), [np.zeros(3)] * 2]
    with Session(golden("cpu_sin_rk3588_i8"), custom_ops={"Sin": lambda *_: results.pop(0)}) as session:
        with pytest.raises(ValueError, match=r"gave \[3\], but its output 'sin1' is \[1, 16, 8, 8\]"):
            session.run(inputs)
        with pytest.raises(ValueError, match="has 1 outputs, not 2"):
            session.run(inputs)


def test_ctrl_c_leaves_the_session_usable() -> None:
    inputs, _ = answers(golden("cpu_sin_rk3588_i8"))
    interrupts = [KeyboardInterrupt()]

    def sine(arrays: Sequence[Array], attributes: Mapping[str, Any]) -> Array:
        if interrupts:
            raise interrupts.pop()
        return np.sin(arrays[0])

    with Session(golden("cpu_sin_rk3588_i8")) as session:
        want = session.run(inputs)
    with Session(golden("cpu_sin_rk3588_i8"), custom_ops={"Sin": sine}) as session:
        with pytest.raises(KeyboardInterrupt):
            session.run(inputs)
        assert same(session.run(inputs), want)


# ---------------------------------------------------------------- without copies


def test_bound_memory_is_run_without_copies() -> None:
    picture = np.random.default_rng(4).integers(0, 256, (1, 16, 16, 3), dtype=np.uint8)
    with Session(golden("image_rk3588_i8")) as session:
        want = session.run(picture, outputs="raw")["features"]
        bound = session.bind()
        view = bound.inputs["image"]
        assert (view.shape, view.dtype.name) == ((1, 16, 16, 3), "uint8")
        session.run(np.zeros_like(picture))
        view[...] = picture
        bound.run()
        output = bound.outputs["features"]
        assert output.shape == (1, 2, 16, 16, 16)
        assert np.array_equal(output[:, 0].transpose(0, 3, 1, 2), want)
        assert np.shares_memory(output, session.run(picture, outputs="native")["features"])
        with pytest.raises(TypeError):
            bound.inputs["image"] = view  # type: ignore[index]


def test_bound_memory_in_the_models_own_type() -> None:
    pixels = np.random.default_rng(5).integers(-128, 128, (1, 16, 16, 3), dtype=np.int8)
    with Session(golden("image_rk3588_i8")) as session:
        want = session.run(pixels, outputs="raw")["features"]
        bound = session.bind(pixels=False)
        assert bound.inputs["image"].dtype == np.int8
        session.run(np.zeros((16, 16, 3), np.uint8))
        bound.inputs["image"][...] = pixels
        bound.run()
        assert np.array_equal(bound.outputs["features"][:, 0].transpose(0, 3, 1, 2), want)


def test_bound_rows_keep_their_ends() -> None:
    picture = np.random.default_rng(6).integers(0, 256, (8, 24, 3), dtype=np.uint8)
    with Session(golden("dynamic_rk3588_i8")) as session:
        session.set_shapes((1, 8, 24, 3))
        want = session.run(picture, outputs="raw")["features"]
        session.run(np.zeros((8, 24, 3), np.float32))
        bound = session.bind()
        bound.inputs["image"][...] = picture
        bound.run()
        assert np.array_equal(program_of(session).outputs[0].read("raw"), want)
        session.set_shapes((1, 8, 8, 3))
        with pytest.raises(ClosedError, match="bind again"):
            bound.run()


# ---------------------------------------------------------------- sharing, threads, the end


def test_sessions_share_weights() -> None:
    inputs, _ = answers(golden("residual_rk3588_i8"))
    model = load(golden("residual_rk3588_i8"))
    first = Session(model)
    want = first.run(inputs)
    with (
        Session(model, share_weights_with=first) as second,
        Session(golden("residual_rk3588_i8"), share_weights_with=second) as third,
    ):
        assert second.device is first.device is third.device
        assert second.memory().weight_users == 3
        first.close()
        assert same(second.run(inputs), want)
        assert same(third.run(inputs), want)
        with pytest.raises(ClosedError):
            Session(model, share_weights_with=first)
        with pytest.raises(ValueError, match="same constants"):
            Session(golden("conv_rk3588_i8"), share_weights_with=second)
        with SoftwareDevice(CHIPS["rk3588"]) as other, pytest.raises(ValueError, match="share the device"):
            Session(model, other, share_weights_with=second)


def test_a_given_device_stays_open_and_clean() -> None:
    with SoftwareDevice(CHIPS["rk3588"]) as device:
        for _ in range(2):
            with Session(golden("conv_rk3588_i8"), device) as session:
                session.run(np.zeros((1, 8, 7, 5), np.float32))
                assert session.device is device
            assert list(device._memory) == []
        with pytest.raises(UnsupportedError, match="the model is for RK3566"):
            Session(golden("conv_rk3566_i8"), device)


def test_a_session_that_cannot_start_leaves_nothing_behind() -> None:
    with SoftwareDevice(CHIPS["rk3588"]) as device:
        with pytest.raises(UnsupportedError):
            Session(renamed(load(golden("cpu_sin_rk3588_i8")), "Sin", "cstWave"), device)
        assert list(device._memory) == []


def test_two_threads_in_one_session() -> None:
    inputs, _ = answers(golden("residual_rk3588_i8"))
    others = [np.roll(inputs[0], step, 1) for step in range(8)]
    with Session(golden("residual_rk3588_i8")) as session, ThreadPoolExecutor(4) as threads:
        want = [session.run(value)["features"] for value in others]
        results = list(threads.map(lambda value: session.run(value)["features"], others * 3))
    assert all(np.array_equal(ours, theirs) for ours, theirs in zip(results, want * 3, strict=True))


def test_two_sessions_in_two_threads_equal_one() -> None:
    inputs, _ = answers(golden("silu_rk3588_i8"))
    others = [np.roll(inputs[0], step, 2) for step in range(6)]
    model = load(golden("silu_rk3588_i8"))
    with Session(model) as first, Session(model, share_weights_with=first) as second, ThreadPoolExecutor(2) as threads:
        want = [first.run(value)["y"] for value in others]
        lanes = [threads.submit(lambda s=s: [s.run(value)["y"] for value in others]) for s in (first, second)]  # type: ignore[misc]
        for lane in lanes:
            assert all(np.array_equal(a, b) for a, b in zip(lane.result(), want, strict=True))


def test_runs_in_the_background() -> None:
    inputs, _ = answers(golden("residual_rk3588_i8"))
    with Session(golden("residual_rk3588_i8")) as session:
        want = session.run(inputs, outputs="raw")
        futures = [session.run_async(inputs, outputs="raw") for _ in range(3)]
        assert all(same(future.result(), want) for future in futures)
        with pytest.raises(ValueError, match="is missing"):
            session.run_async({}).result()


def test_a_closed_session_says_so() -> None:
    session = Session(golden("conv_rk3588_i8"))
    bound = session.bind()
    session.run_async(np.zeros((1, 8, 7, 5), np.float32)).result()
    session.close()
    session.close()
    for use in (
        lambda: session.run(np.zeros((1, 8, 7, 5))),
        lambda: session.run_async(np.zeros((1, 8, 7, 5))),
        lambda: session.set_shapes((1, 8, 7, 5)),
        session.bind,
        session.profile,
        session.memory,
        bound.run,
    ):
        with pytest.raises(ClosedError, match="closed"):
            use()
    assert issubclass(ClosedError, openrknn.RknnError)


def test_sessions_give_their_memory_back() -> None:
    with SoftwareDevice(CHIPS["rk3588"]) as device:
        for _ in range(3):
            session = Session(golden("residual_rk3588_i8"), device, cores=3)
            session.run(np.zeros((16, 16, 3), np.uint8))
            session.close()
        gc.collect()
        assert sum(buffer.data.nbytes for buffer in device._memory) == 0
