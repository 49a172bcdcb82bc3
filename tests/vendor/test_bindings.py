"""Zero copy: memory for inputs, outputs, weights and internals; dynamic shapes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from openrknn.vendor import CallError, ClosedError, Context, InitFlag, TensorFormat, TensorType
from tests.vendor.recording import Recorder


@pytest.fixture
def dynamic(recorder: Recorder) -> Iterator[Context]:
    with Context(b"dyn", library=recorder.library, check=False) as made:
        recorder.clear()
        yield made


# -------------------------------------------------------------------------------------------------- tensors


def test_an_input_in_memory(recorder: Recorder, context: Context) -> None:
    binding = context.bind_input("image", type=TensorType.UINT8)
    assert recorder.log("rknn_create_mem", "rknn_set_io_mem") == [
        "rknn_create_mem size=192",
        "rknn_set_io_mem size=192 index=0 name=image dims=1,4,6,3 n_dims=4 fmt=1 type=3 pass_through=0 h_stride=0",
    ]
    binding.array[...] = np.arange(72, dtype=np.uint8).reshape(1, 4, 6, 3)
    rows = binding.memory.array(np.uint8, (4, 16, 3))
    assert rows[1, 0].tolist() == [18, 19, 20]
    assert rows[:, 6:].sum() == 0


def test_a_raw_input_in_memory(recorder: Recorder, context: Context) -> None:
    binding = context.bind_input(1, pass_through=True)
    assert "dims=1,1,2,2 n_dims=5 fmt=2 type=2 pass_through=1" in recorder.log("rknn_set_io_mem")[0]
    assert binding.array.shape == (1, 1, 2, 2, 8)


def test_outputs_in_memory(recorder: Recorder, context: Context) -> None:
    native = context.bind_output(0)
    floats = context.bind_output("scores", type=TensorType.FLOAT32)
    assert [line.split(" name")[0] for line in recorder.log("rknn_set_io_mem")] == [
        "rknn_set_io_mem size=64 index=0",
        "rknn_set_io_mem size=40 index=1",
    ]
    context.run()
    assert native.array.shape == (1, 1, 2, 2, 16)
    assert set(native.array.reshape(-1)) == {2}
    assert floats.array.dtype == np.float32
    other = context.bind_output(0, format=TensorFormat.NHWC, type=TensorType.FLOAT32)
    assert (other.array.shape, other.memory.size_bytes) == ((1, 2, 2, 8), 128)


def test_rebinding_replaces(recorder: Recorder, context: Context) -> None:
    first, second = context.bind_output(0), context.bind_output(0)
    first.memory.close()
    context.run()
    assert set(second.array.reshape(-1)) == {2}


def test_the_plain_function(recorder: Recorder, context: Context) -> None:
    memory = context.create_memory(500)
    context.set_io_memory(memory, context.inputs[0].replaced(type=TensorType.UINT8))
    context.set_io_memory(memory, context.native_inputs[1].replaced(pass_through=True))
    context.set_io_memory(memory, context.native_outputs[0])
    context.set_io_memory(memory, context.outputs[1])
    lines = recorder.log("rknn_set_io_mem")
    assert [line.split("name=")[1].split(" ")[0] for line in lines] == ["image", "features", "map", "scores"]
    with pytest.raises(ValueError, match="no input or output 'nobody'"):
        context.set_io_memory(memory, context.inputs[0].replaced(name="nobody"))
    with pytest.raises(ValueError, match="is NHWC, or native with pass_through=True"):
        context.set_io_memory(memory, context.inputs[1].replaced(format=TensorFormat.NCHW))
    with pytest.raises(ValueError, match="can be UNDEFINED, not NCHW"):
        context.set_io_memory(memory, context.outputs[1].replaced(format=TensorFormat.NCHW))


def test_memory_that_does_not_fit(recorder: Recorder, context: Context) -> None:
    small = context.create_memory(10)
    with pytest.raises(ValueError, match="input 0 needs 192 bytes of memory, this one has 10"):
        context.bind_input(0, small)
    with pytest.raises(ValueError, match="output 0 needs 64 bytes"):
        context.bind_output(0, small)
    with pytest.raises(TypeError, match="needs a TensorMemory, not bytearray"):
        context.bind_input(0, bytearray(500))  # type: ignore[arg-type]
    with Context(b"m", library=recorder.library, check=False) as other:
        foreign = other.create_memory(500)
        with pytest.raises(ValueError, match="belongs to another context; use this one's memory_from_fd"):
            context.bind_input(0, foreign)
        shared = context.memory_from_fd(foreign.fd, 500)
        context.bind_input(0, shared)
        shared.close()
    closed = context.create_memory(500)
    closed.close()
    with pytest.raises(ClosedError):
        context.bind_input(0, closed)


def test_a_closed_memory_stops_the_run(recorder: Recorder, context: Context) -> None:
    binding = context.bind_output(0)
    context.run()
    binding.memory.close()
    recorder.clear()
    with pytest.raises(ValueError, match="the memory of output 0 was closed; bind another"):
        context.run()
    assert recorder.log("rknn_run") == []
    context.bind_output(0)
    context.run()


def test_an_error_of_the_library_names_the_tensor(recorder: Recorder, context: Context) -> None:
    recorder.fail("rknn_set_io_mem", -1)
    with pytest.raises(CallError, match=r"rknn_set_io_mem returned -1 RKNN_ERR_FAIL \(input 0 'image'\)"):
        context.bind_input(0)


# -------------------------------------------------------------------------------------------------- all outside


def test_all_memory_outside(recorder: Recorder) -> None:
    with Context(b"m", InitFlag.MEM_ALLOC_OUTSIDE, library=recorder.library, check=False) as context:
        steps = [
            ("no memory for weights", context.set_weight_memory),
            ("no memory for internals", context.set_internal_memory),
            ("input 0 has no memory", lambda: context.bind_input(0)),
            ("input 1 has no memory", lambda: context.bind_input(1)),
            ("output 0 has no memory", lambda: context.bind_output(0)),
            ("output 1 has no memory", lambda: context.bind_output(1)),
        ]
        for message, step in steps:
            with pytest.raises(ValueError, match=message):
                context.run()
            step()  # type: ignore[operator]
        context.run()
        assert recorder.log("rknn_set_weight_mem", "rknn_set_internal_mem") == [
            "rknn_set_weight_mem size=1000",
            "rknn_set_internal_mem size=2000",
        ]


def test_internals_outside(recorder: Recorder) -> None:
    with Context(b"m", InitFlag.INTERNAL_ALLOC_OUTSIDE, library=recorder.library, check=False) as context:
        with pytest.raises(ValueError, match="no memory for internals"):
            context.run()
        with pytest.raises(ValueError, match="internal needs 2000 bytes of memory, this one has 1999"):
            context.set_internal_memory(context.create_memory(1999))
        shared = context.create_memory(4000)
        assert context.set_internal_memory(shared) is shared
        context.run()
        with pytest.raises(ValueError, match=r"InitFlag\.MEM_ALLOC_OUTSIDE"):
            context.set_weight_memory()


def test_memory_outside_needs_its_flag(context: Context) -> None:
    with pytest.raises(ValueError, match="INTERNAL_ALLOC_OUTSIDE"):
        context.set_internal_memory()


# -------------------------------------------------------------------------------------------------- shapes


def test_a_dynamic_model_wants_a_shape_first(recorder: Recorder, dynamic: Context) -> None:
    """Runtime 1.5.2 aborts in each of these."""
    assert dynamic.dynamic
    for attempt in (
        dynamic.run,
        lambda: dynamic.set_inputs([]),
        dynamic.prepare_outputs,
        lambda: dynamic.bind_input(0),
        lambda: dynamic.bind_output(0),
    ):
        with pytest.raises(ValueError, match="choose with set_input_shapes first"):
            attempt()
    assert recorder.log("rknn_run", "rknn_inputs_set", "rknn_set_io_mem") == []


def test_choosing_shapes(recorder: Recorder, dynamic: Context) -> None:
    assert dynamic.input_ranges[0].shapes == ((1, 4, 6, 3), (1, 8, 6, 3))
    inputs = dynamic.set_input_shapes({"image": (1, 8, 6, 3), 1: (1, 2, 2, 8)})
    assert inputs[0].shape == (1, 8, 6, 3)
    assert recorder.log("rknn_set_input_shapes") == [
        "rknn_set_input_shapes n=2 [index=0 name=image dims=1,8,6,3 fmt=1] [index=1 name=features dims=1,2,2,8 fmt=1]"
    ]
    dynamic.set_inputs([np.zeros((1, 8, 6, 3), np.uint8), np.zeros((1, 2, 2, 8), np.uint8)])
    dynamic.run()


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ([(1, 9, 9, 3), (1, 2, 2, 8)], r"'image' takes NHWC \[1, 4, 6, 3\], \[1, 8, 6, 3\], not \[1, 9, 9, 3\]"),
        ([(1, 4, 6, 3)], "2 inputs, 1 shapes"),
        ({"image": (1, 4, 6, 3)}, "every input"),
        ([(1, 4, 6, 3), (1, 2, 2)], "'features' takes"),
    ],
)
def test_wrong_shapes(recorder: Recorder, dynamic: Context, shapes: list[tuple[int, ...]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dynamic.set_input_shapes(shapes)
    assert recorder.log("rknn_set_input_shapes") == []


def test_new_shapes_make_old_preparations_useless(dynamic: Context) -> None:
    dynamic.set_input_shapes([(1, 4, 6, 3), (1, 2, 2, 8)])
    inputs = dynamic.prepare_inputs([np.zeros((1, 4, 6, 3), np.uint8), np.zeros((1, 2, 2, 8), np.uint8)])
    outputs, bound = dynamic.prepare_outputs(), dynamic.bind_input(0)
    dynamic.run()
    dynamic.set_input_shapes([(1, 8, 6, 3), (1, 2, 2, 8)])
    for attempt in (inputs.set, outputs.get):
        with pytest.raises(ValueError, match="the shapes changed; prepare"):
            attempt()
    with pytest.raises(ValueError, match="the shapes changed; bind input 0 again"):
        dynamic.run()
    with pytest.raises(ValueError, match="needs 384 bytes"):
        dynamic.bind_input(0, bound.memory)
    dynamic.bind_input(0)
    dynamic.run()


def test_the_old_function_for_shapes(recorder: Recorder, dynamic: Context) -> None:
    dynamic.set_input_shape("image", (1, 8, 6, 3))
    assert recorder.log("rknn_set_input_shape") == ["rknn_set_input_shape [index=0 name=image dims=1,8,6,3 fmt=1]"]
    dynamic.run()


def test_a_static_model_has_no_choice(context: Context) -> None:
    assert context.input_ranges == ()
    with pytest.raises(ValueError, match="the model has one shape"):
        context.set_input_shapes([(1, 4, 6, 3)])


def test_a_duplicate_of_a_dynamic_model_chooses_for_itself(dynamic: Context) -> None:
    dynamic.set_input_shapes([(1, 4, 6, 3), (1, 2, 2, 8)])
    with dynamic.duplicate() as copy:
        with pytest.raises(ValueError, match="choose"):
            copy.run()
        copy.set_input_shapes([(1, 8, 6, 3), (1, 2, 2, 8)])
        copy.run()
