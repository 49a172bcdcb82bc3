"""`PartedSession` beside `Session`: each of its methods does its work or says what to use. Witness: ONNX Runtime."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import openrknn
from openrknn import Session, SessionPool
from openrknn.errors import ModelInPartsError
from openrknn.runtime.errors import ClosedError, PartsError
from openrknn.runtime.parted.session import PartedSession
from tests.parted_file import feed, parted_bytes, parted_onnx

pytest.importorskip("onnxruntime", reason="parts of the CPU run in ONNX Runtime")


def expected(given: dict[str, Any]) -> dict[str, Any]:
    import onnxruntime

    session = onnxruntime.InferenceSession(parted_onnx().SerializeToString(), providers=["CPUExecutionProvider"])
    return dict(zip(("scores", "mask"), session.run(["scores", "mask"], given), strict=True))


@pytest.fixture(scope="module")
def session() -> Any:
    with Session(parted_bytes()) as opened:
        yield opened


def test_profile_has_each_part_and_the_operators_of_the_npu(session: PartedSession) -> None:
    profile = session.profile(feed(), runs=2)
    assert [entry.part.kind for entry in profile.parts] == ["npu", "cpu", "npu", "cpu"]
    assert all(entry.seconds > 0 for entry in profile.parts)
    assert [entry.profile is not None for entry in profile.parts] == [True, False, True, False]
    inside = sum(len(entry.profile.operators) for entry in profile.parts if entry.profile is not None)
    assert len(profile.operators) == inside >= 2
    assert profile.time_ms == pytest.approx(sum(entry.board_us for entry in profile.parts) / 1e3)
    assert profile.macs == 2 * 16 * 16 * 9 * 64 + 16  # the NPU spreads the number over 16 channels
    with pytest.raises(ValueError, match="0 runs"):
        session.profile(runs=0)


def test_profile_needs_inputs_once() -> None:
    with Session(parted_bytes()) as fresh, pytest.raises(ValueError, match="give inputs"):
        fresh.profile()


def test_memory_is_that_of_the_npu_parts(session: PartedSession) -> None:
    report = session.memory()
    weights = 2 * 16 * 16 * 9 * 2  # two kernels in fp16
    assert report.weights >= weights
    assert report.total == report.weights + report.commands + report.internal + report.inputs + report.outputs


def test_what_it_does_not_have_is_named(session: PartedSession) -> None:
    for ask, words in (
        (lambda: session.model, r"session\.bundle"),
        (lambda: session.context, "no context"),
        (session.bind, r"use run\(\)"),
    ):
        with pytest.raises(PartsError, match=words):
            ask()
    assert not hasattr(session, "model")
    with pytest.raises(ModelInPartsError, match=r"openrknn\.Session"):
        openrknn.load(parted_bytes())


def test_runs_in_other_threads_and_pools_give_the_same(session: PartedSession) -> None:
    once = session.run(feed())
    wanted = expected(feed())
    assert np.abs(once["scores"] - wanted["scores"]).max() < 2e-3
    assert once["mask"].dtype == np.bool_

    async def waited() -> Any:
        return await session.run_async(feed())

    assert np.array_equal(asyncio.run(waited())["scores"], once["scores"])
    with SessionPool(parted_bytes(), size=2) as pool:
        for found in pool.map([feed()] * 3):
            assert np.array_equal(found["scores"], once["scores"])
        with pool.session() as first, pool.session() as second:
            assert max(first.memory().weight_users, second.memory().weight_users) == 2  # one copy of the weights


def test_only_sessions_of_the_same_model_share(session: PartedSession) -> None:
    with pytest.raises(ValueError, match="same model in parts"):
        PartedSession(parted_bytes(is_open=True), share_weights_with=object())
    closed = PartedSession(parted_bytes())
    closed.close()
    with pytest.raises(ClosedError):
        PartedSession(parted_bytes(), share_weights_with=closed)


def test_values_and_single_parts(session: PartedSession) -> None:
    values = session.values(feed())
    assert list(values) == ["r0", "row", "s0", "scores", "mask"]
    alone = session.run_part(1, {"number": feed()["number"], "r0": values["r0"]})
    assert np.array_equal(alone["s0"], values["s0"])
    with pytest.raises(ValueError, match="reads 'number'"):
        session.run_part(1, {"r0": values["r0"]})


def test_rows_are_filled_up_for_comparisons() -> None:
    from onnx import TensorProto, helper, numpy_helper

    from openrknn.partition import PartitionOptions, make_bundle

    weights = numpy_helper.from_array(np.full((16, 16, 1, 1), 0.1, np.float32), "w")
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", 16, 4, 4]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Conv", ["x", "w"], ["y"])], "rows", ends[:1], ends[1:], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = PartitionOptions(prefer="npu", cache=False, shapes=({"x": (4, 16, 4, 4)},))
    with PartedSession(make_bundle(model, options)) as opened:
        given = np.ones((3, 16, 4, 4), np.float32)
        assert opened.filled({"x": given})["x"].shape == (4, 16, 4, 4)
        assert opened.run({"x": given})["y"].shape == (3, 16, 4, 4)
        with pytest.raises(ValueError, match="parts for"):
            opened.filled({"x": np.ones((5, 16, 4, 4), np.float32)})
