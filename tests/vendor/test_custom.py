"""Custom operators: Python functions that the library calls."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openrknn.errors import UnsupportedError
from openrknn.vendor import CallError, Context, CustomOp, Operation, Skip, TargetType
from tests.vendor.recording import Recorder


def nothing(_: Operation) -> None:
    """An operator that does nothing."""


def test_functions_are_called_in_their_turn(recorder: Recorder) -> None:
    calls: list[str] = []

    def compute(op: Operation) -> None:
        calls.append("compute")
        axis = int(op.attribute("axis")[0])
        op.outputs[0].array[...] = np.flip(op.inputs[0].array, axis) * op.attribute("factors")

    with Context(b"m", library=recorder.library, check=False) as context:
        flip = CustomOp(
            "cstFlip",
            compute,
            init=lambda op: calls.append(f"init {op.target.name}"),
            prepare=lambda op: calls.append(f"prepare {op.inputs[0].attributes.name}"),
            destroy=lambda: calls.append("destroy"),
            version=4,
        )
        context.register_custom_ops([flip])
        context.run()
        assert calls == ["init CPU", "prepare in", "compute"]
    assert calls[-1] == "destroy"
    log = recorder.log()
    described = "[type=cstFlip version=4 target=1 kernel= source=0 options= "
    assert any(f"{described}init=1 prepare=1 compute=1 native=0 destroy=1]" in line for line in log)
    expected = (np.array([[3, 2, 1], [6, 5, 4]]) * [0.5, 1.5, 2.5]).sum()
    assert f"compute_callback code=0 sum={expected:g}" in log


def test_an_attribute_that_is_not_there(recorder: Recorder, context: Context) -> None:
    context.register_custom_ops([CustomOp("cstX", lambda op: op.attribute("nothing"))])
    with pytest.raises(KeyError, match="no attribute 'nothing'"):
        context.run()


def test_an_exception_comes_out_of_the_run(recorder: Recorder, context: Context) -> None:
    def broken(_: Operation) -> None:
        raise ZeroDivisionError("in the operator")

    context.register_custom_ops([CustomOp("cstBroken", broken)])
    for _ in range(2):
        with pytest.raises(ZeroDivisionError, match="in the operator"):
            context.run()
    assert "compute_callback code=-1 sum=0" in recorder.log()


def test_an_exception_in_init_comes_out_of_the_registration(context: Context) -> None:
    def broken(_: Operation) -> None:
        raise LookupError("in init")

    with pytest.raises(LookupError, match="in init"):
        context.register_custom_ops([CustomOp("cstBroken", nothing, init=broken)])


def test_an_exception_in_destroy_comes_out_of_close(recorder: Recorder) -> None:
    def broken() -> None:
        raise LookupError("in destroy")

    context = Context(b"m", library=recorder.library, check=False)
    context.register_custom_ops([CustomOp("cstBroken", nothing, destroy=broken)])
    with pytest.raises(LookupError, match="in destroy"):
        context.close()
    assert context.closed
    context.close()


def test_keyboard_interrupts_come_through(context: Context) -> None:
    def stop(_: Operation) -> None:
        raise KeyboardInterrupt

    context.register_custom_ops([CustomOp("cstStop", stop)])
    with pytest.raises(KeyboardInterrupt):
        context.run()


def test_an_operator_can_ask_to_be_skipped(recorder: Recorder, context: Context) -> None:
    def skip(_: Operation) -> None:
        raise Skip

    context.register_custom_ops([CustomOp("cstSkip", skip)])
    context.run()
    assert "compute_callback code=-14 sum=0" in recorder.log()


def test_arrays_that_are_kept_are_noticed(context: Context) -> None:
    kept: list[Any] = []
    context.register_custom_ops([CustomOp("cstKeep", lambda op: kept.append(op.inputs[0].array[1:]))])
    with pytest.raises(BufferError, match="kept an array over in; keep a copy"):
        context.run()
    copies: list[Any] = []
    context.register_custom_ops([CustomOp("cstCopy", lambda op: copies.append(op.inputs[0].array.copy()))])
    kept.clear()
    with pytest.raises(BufferError):
        context.run()  # the first operator again
    assert copies == []


def test_operations_end_with_their_function(context: Context) -> None:
    kept: list[Operation] = []
    context.register_custom_ops([CustomOp("cstKeep", kept.append)])
    context.run()
    with pytest.raises(ValueError, match="inside the function"):
        kept[0].attribute("axis")
    with pytest.raises(ValueError, match="no address"):
        _ = kept[0].inputs[0].array


def test_callbacks_stay_alive(recorder: Recorder) -> None:
    calls: list[int] = []
    context = Context(b"m", library=recorder.library, check=False)
    context.register_custom_ops([CustomOp("cstX", lambda op: calls.append(1), destroy=lambda: calls.append(2))])
    for _ in range(3):
        gc.collect()
        context.run()
    context.close()
    assert calls == [1, 1, 1, 2]


def test_operators_for_the_gpu(recorder: Recorder, context: Context) -> None:
    seen: list[tuple[int, int, int]] = []
    operator = CustomOp(
        "cstGpu", lambda op: seen.append(op.gpu), target=TargetType.GPU, kernel_name="flip",
        kernel_source="__kernel void flip() {}", build_options="-DX=1",
    )  # fmt: skip
    context.register_custom_ops([operator])
    assert "target=2 kernel=flip source=23 options=-DX=1" in recorder.log("rknn_register_custom_ops")[0]
    context.run()
    assert seen == [(1, 2, 3)]
    with pytest.raises(ValueError, match="needs kernel_name and kernel_source"):
        CustomOp("cstGpu", nothing, target=TargetType.GPU)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [({"name": ""}, ValueError), ({"name": "x" * 256}, ValueError), ({"name": "a\0b"}, ValueError),
     ({"compute": None}, TypeError), ({"compute": 3}, TypeError), ({"init": "text"}, TypeError)],
)  # fmt: skip
def test_wrong_operators(arguments: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        CustomOp(**{"name": "cstX", "compute": nothing, **arguments})


def test_wrong_lists_of_operators(recorder: Recorder, context: Context) -> None:
    with pytest.raises(ValueError, match="no operators"):
        context.register_custom_ops([])
    with pytest.raises(TypeError, match="a CustomOp is needed, not function"):
        context.register_custom_ops([nothing])  # type: ignore[list-item]
    assert recorder.log("rknn_register_custom_ops") == []
    recorder.fail("rknn_register_custom_ops", -1)
    with pytest.raises(CallError, match="rknn_register_custom_ops returned -1"):
        context.register_custom_ops([CustomOp("cstX", nothing)])


def test_registration_needs_1_6() -> None:
    with (
        Context(b"m", library=Recorder.build("1.5.2").library, check=False) as context,
        pytest.raises(UnsupportedError, match=r"rknn_register_custom_ops needs librknnrt 1\.6\.0"),
    ):
        context.register_custom_ops([CustomOp("cstX", nothing)])


def test_a_model_with_operators_of_its_own_wants_them_first(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runtime 1.5.2 aborts when such a model runs without its operator."""
    from openrknn.vendor.context import source

    model = Path(__file__).resolve().parents[1] / "goldens" / "conv_rk3588_i8.rknn"
    monkeypatch.setattr(source, "_custom_operators", lambda _: frozenset({"cstSoftmax"}))
    with Context(model, library=recorder.library) as context:
        with pytest.raises(ValueError, match="operators of its own, cstSoftmax; use register_custom_ops"):
            context.run()
        context.register_custom_ops([CustomOp("cstSoftmax", nothing)])
        context.run()
