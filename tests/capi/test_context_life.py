"""Contexts beyond a plain run: shapes, batches, cores, copies, runs in the background, memory of the program.

The oracle is `Session` on the same model, but where something else is named.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openrknn.capi.async_runs import AsyncRuns
from openrknn.capi.call import Reply
from openrknn.capi.memory import Memory
from openrknn.capi.wire import Operation
from openrknn.runtime.session import Session
from openrknn.vendor.tables.enums import InitFlag, QueryCommand, TensorFormat, TensorType
from tests.capi.client import Client, RefusedError

GOLDENS = Path(__file__).parents[1] / "goldens"
RESIDUAL = GOLDENS / "residual_rk3588_i8.rknn"
CONV = GOLDENS / "conv_rk3588_i8.rknn"
DYNAMIC = GOLDENS / "dynamic_rk3588_i8.rknn"
BATCH = GOLDENS / "image_rk3588_i8_batch2.rknn"
RNG = np.random.default_rng(3)
PIXELS = RNG.integers(0, 256, (4, 1, 16, 16, 3), np.uint8)
"""Four frames for `RESIDUAL`."""


def reference(path: Path, values: Any, **options: Any) -> list[bytes]:
    with Session(str(path), "software") as session:
        if "shape" in options:
            session.set_shapes([options.pop("shape")])
        found = session.run([values], outputs="raw", **options).values()
        return [np.ascontiguousarray(one).tobytes() for one in found]


def outputs(client: Client, context: int, values: Any, **options: Any) -> list[bytes]:
    client.inputs_set(context, {0: values})
    client.run(context)
    return client.outputs_get(context, 1, **options)


def refused(code: int, part: str = "") -> Any:
    return pytest.raises(RefusedError, match=f"returned {code}: .*{part}")


# -- shapes and batches ------------------------------------------------------------------------------------------


def set_shapes(client: Client, context: int, *shapes: tuple[int, ...], **fields: Any) -> None:
    attrs = [
        {"index": index, "name": "image", "n_dims": len(shape), "dims": list(shape), "fmt": TensorFormat.NHWC, **fields}
        for index, shape in enumerate(shapes)
    ]
    payload = b"".join(client.codec.encode("rknn_tensor_attr", attr) for attr in attrs)
    client.call(Operation.SET_INPUT_SHAPES, context=context, a=len(shapes), payload=payload)


def test_dynamic_shapes(client: Client) -> None:
    context = client.init(DYNAMIC)
    with refused(-7, "rknn_set_input_shapes"):
        client.run(context)
    for shape in ((1, 8, 24, 3), (1, 16, 16, 3), (1, 8, 8, 3), (1, 16, 16, 3)):
        set_shapes(client, context, shape)
        values = RNG.integers(0, 256, shape, np.uint8)
        assert outputs(client, context, values) == reference(DYNAMIC, values, shape=shape)
    with refused(-1, "16, 16"):
        set_shapes(client, context, (1, 9, 9, 3))
    with refused(-5):
        set_shapes(client, context, (1, 8, 8, 3), (1, 8, 8, 3))
    with refused(-5, "NHWC"):
        set_shapes(client, context, (1, 3, 8, 8), fmt=TensorFormat.NCHW)
    with refused(-6):
        set_shapes(client, client.init(RESIDUAL), (1, 16, 16, 3))


@pytest.mark.parametrize("want_float", [True, False])
def test_batches(client: Client, want_float: bool) -> None:
    with Session(str(BATCH), "software") as session:
        values = RNG.integers(0, 256, session.inputs[0].shape, np.uint8)
        expected = [one.tobytes() for one in session.run([values], outputs="float" if want_float else "raw").values()]
    context = client.init(BATCH)
    assert outputs(client, context, values, want_float=want_float) == expected
    assert outputs(client, context, values.astype(np.float32), want_float=want_float) == expected
    client.call(Operation.SET_BATCH_CORE_NUM, context=context, a=2)
    assert outputs(client, context, values, want_float=want_float) == expected
    with refused(-1, "3 core"):
        client.call(Operation.SET_BATCH_CORE_NUM, context=context, a=4)


def test_a_batch_in_memory_of_the_program(client: Client) -> None:
    with Session(str(BATCH), "software") as session:
        values = RNG.integers(0, 256, session.inputs[0].shape, np.uint8)
        result = next(iter(session.run([values]).values()))
        names = session.inputs[0].name, session.outputs[0].name
    context = client.init(BATCH)
    number, image = client.create_mem(context, values.nbytes)
    image.array[: values.nbytes] = values.reshape(-1)
    client.set_io_mem(context, number, image, name=names[0], fmt=TensorFormat.NHWC, type=TensorType.UINT8)
    number, floats = client.create_mem(context, result.nbytes)
    client.set_io_mem(context, number, floats, name=names[1], fmt=TensorFormat.NCHW, type=TensorType.FLOAT32)
    client.run(context)
    np.testing.assert_allclose(floats.array[: result.nbytes].view(np.float32), result.reshape(-1), rtol=1e-5, atol=1e-6)


# -- runs that do not wait ---------------------------------------------------------------------------------------


def test_asynchronous_outputs_are_one_frame_behind(client: Client) -> None:
    expected = [reference(RESIDUAL, frame) for frame in PIXELS]
    context = client.init(RESIDUAL, InitFlag.ASYNC_MASK)
    found = []
    for frame in PIXELS:
        client.inputs_set(context, {0: frame})
        client.run(context)
        found.append(client.outputs_with_frame(context, 1))
    assert [number for _, number in found] == [1, 1, 2, 3]
    assert [data for data, _ in found] == [expected[0], expected[0], expected[1], expected[2]]


def test_an_asynchronous_run_writes_into_bound_memory_of_any_size(client: Client) -> None:
    context = client.init(RESIDUAL, InitFlag.ASYNC_MASK)
    size = client.codec.size("rknn_tensor_attr")
    asked = {"a": QueryCommand.NATIVE_OUTPUT_ATTR, "b": size, "payload": bytes(size)}
    answer = client.call(Operation.QUERY, context=context, **asked)
    attr = client.codec.decode("rknn_tensor_attr", answer.payload)
    number, memory = client.create_mem(context, attr["size_with_stride"])
    client.set_io_mem(context, number, memory, **attr)
    client.inputs_set(context, {0: PIXELS[0]})
    client.run(context)
    client.call(Operation.DESTROY_MEM, memory=number)
    client.run(context)
    assert client.outputs_with_frame(context, 1)[0] == reference(RESIDUAL, PIXELS[0])


def test_a_failed_run_is_told_to_who_waits_for_it() -> None:
    """And not to a call that has nothing to do with it."""
    runs = AsyncRuns()

    def fail() -> None:
        raise ValueError("the run failed")

    runs.start(fail)
    runs.rest()
    with pytest.raises(ValueError, match="the run failed"):
        runs.settle()
    runs.settle()  # it was told
    runs.close()


def test_a_run_that_does_not_block_is_waited_for(client: Client) -> None:
    context = client.init(RESIDUAL)
    client.inputs_set(context, {0: PIXELS[1]})
    assert client.run(context, non_block=1)["frame_id"] == 1
    assert client.wait(context, timeout_ms=60_000)["frame_id"] == 1
    assert client.outputs_get(context, 1) == reference(RESIDUAL, PIXELS[1])
    with refused(-1, "no run to wait for"):
        client.wait(context)
    client.run(context, non_block=1)  # nobody waits: the next call does
    assert client.outputs_with_frame(context, 1)[1] == 2
    assert client.run(context, timeout_ms=60_000)["frame_id"] == 3


def test_a_run_waits_for_the_fence_of_another_unit(client: Client) -> None:
    context = client.init(RESIDUAL, InitFlag.FENCE_IN_OUTSIDE)
    reading, writing = os.pipe()
    payload = client.codec.encode("rknn_run_extend", {"timeout_ms": 1})
    with refused(-2, "fence"):
        client.call(Operation.RUN, context=context, payload=payload, descriptors=[reading])
    os.write(writing, b"x")
    payload = client.codec.encode("rknn_run_extend", {"timeout_ms": 60_000})
    client.call(Operation.RUN, context=context, payload=payload, descriptors=[reading])
    os.close(reading)
    os.close(writing)
    context = client.init(RESIDUAL, InitFlag.FENCE_OUT_OUTSIDE)
    with refused(-1, "rknn_wait"):
        client.run(context, timeout_ms=1)


# -- cores, copies, weights --------------------------------------------------------------------------------------


def test_cores_change_nothing_but_who_works(client: Client) -> None:
    expected = reference(RESIDUAL, PIXELS[0])
    context = client.init(RESIDUAL)
    client.inputs_set(context, {0: PIXELS[0]})
    for mask in (0, 1, 2, 4, 3, 7, 0xFFFF):
        client.call(Operation.SET_CORE_MASK, context=context, a=mask)
        client.run(context)  # on the inputs of before
        assert client.outputs_get(context, 1) == expected
    for mask in (5, 8, -1):
        with refused(-1, "core mask"):
            client.call(Operation.SET_CORE_MASK, context=context, a=mask)
    with refused(-1, "1 core"):
        client.call(Operation.SET_CORE_MASK, context=client.init(GOLDENS / "image_rk3566_i8.rknn"), a=1)


def test_a_copy_lives_longer_than_its_original(client: Client) -> None:
    context = client.init(RESIDUAL)
    client.inputs_set(context, {0: PIXELS[0]})
    copy = client.call(Operation.DUP_CONTEXT, context=context).value
    assert outputs(client, copy, PIXELS[1]) == reference(RESIDUAL, PIXELS[1])
    client.run(context)
    assert client.outputs_get(context, 1) == reference(RESIDUAL, PIXELS[0])
    client.destroy(context)
    assert outputs(client, copy, PIXELS[2]) == reference(RESIDUAL, PIXELS[2])
    with refused(-7, "destroyed"):
        client.run(context)


def test_a_model_without_weights_takes_anothers(client: Client) -> None:
    bare = GOLDENS / "residual_rk3588_i8_no_weights.rknn"
    with refused(-6, "no weights"):
        client.init(bare)
    with refused(-5, "ctx"):
        client.init(bare, InitFlag.SHARE_WEIGHT_MEM)
    with refused(-6, "another network"):
        client.init(bare, InitFlag.SHARE_WEIGHT_MEM, ctx=client.init(CONV))
    donor = client.init(RESIDUAL)
    sharing = client.init(bare, InitFlag.SHARE_WEIGHT_MEM, ctx=donor)
    client.destroy(donor)
    assert outputs(client, sharing, PIXELS[3]) == reference(RESIDUAL, PIXELS[3])


def test_a_context_for_queries_only(client: Client) -> None:
    context = client.init(RESIDUAL, InitFlag.COLLECT_MODEL_INFO_ONLY)
    with refused(-1, "queries"):
        client.run(context)
    with refused(-1, "queries"):
        client.inputs_set(context, {0: PIXELS[0]})
    client.destroy(context)


# -- memory ------------------------------------------------------------------------------------------------------


def test_memory_as_large_as_mem_size_says_is_enough(client: Client) -> None:
    """Of a model with several shapes the query counts the weights of the first only (as runtime 1.5.2 does)."""
    context = client.init(DYNAMIC, InitFlag.MEM_ALLOC_OUTSIDE)
    given = bytes(client.codec.size("rknn_mem_size"))
    asked = client.call(Operation.QUERY, context=context, a=QueryCommand.MEM_SIZE, b=len(given), payload=given)
    sizes = client.codec.decode("rknn_mem_size", asked.payload)
    for name, operation in (("weight", Operation.SET_WEIGHT_MEM), ("internal", Operation.SET_INTERNAL_MEM)):
        size = sizes[f"total_{name}_size"]
        number, _ = client.create_mem(context, size)
        client.call(operation, context=context, memory=number, b=size)
    values = RNG.integers(0, 256, (1, 8, 24, 3), np.uint8)
    set_shapes(client, context, values.shape)
    assert outputs(client, context, values) == reference(DYNAMIC, values, shape=values.shape)


def test_weights_and_internals_in_memory_of_the_program(client: Client) -> None:
    context = client.init(RESIDUAL, InitFlag.MEM_ALLOC_OUTSIDE)
    with refused(-1, "rknn_set_internal_mem and rknn_set_weight_mem"):
        client.run(context)
    small, _ = client.create_mem(context, 100)
    with refused(-1, "9920 bytes are needed"):
        client.call(Operation.SET_WEIGHT_MEM, context=context, memory=small, b=100)
    number, weights = client.create_mem(context, 65536)
    client.call(Operation.SET_WEIGHT_MEM, context=context, memory=number, b=65536)
    assert weights.array.any()
    number, internal = client.create_mem(context, 8960)
    client.call(Operation.SET_INTERNAL_MEM, context=context, memory=number, b=8960)
    assert outputs(client, context, PIXELS[0]) == reference(RESIDUAL, PIXELS[0])
    assert internal.array.any()  # it was used
    kept = weights.array.copy()
    weights.array[...] = 0
    other = client.init(RESIDUAL)
    with refused(-5, "MEM_ALLOC_OUTSIDE"):
        client.call(Operation.SET_WEIGHT_MEM, context=other, memory=number, b=8960)
    weights.array[...] = kept
    assert outputs(client, context, PIXELS[1]) == reference(RESIDUAL, PIXELS[1])


def test_memory_by_descriptor_and_by_address(client: Client) -> None:
    context = client.init(RESIDUAL)
    reply = client.call(Operation.CREATE_MEM, context=context, a=8192)
    memory, address = Memory(reply.descriptors[0], reply.a), _described(client, reply)["phys_addr"]
    memory.array[4096 : 4096 + 768] = PIXELS[0].reshape(-1)
    by_fd = client.call(Operation.MEM_FROM_FD, context=context, a=4096, b=4096, descriptors=[memory.fd])
    by_address = client.call(Operation.MEM_FROM_PHYS, context=context, a=address + 4096, b=4096)
    for made, origin in ((by_fd, 2), (by_address, 3)):
        described = _described(client, made)
        assert (described["offset"], described["size"], described["flags"]) == (4096, 4096, origin)
        attr = {"name": "image", "fmt": TensorFormat.NHWC, "type": TensorType.UINT8}
        other = client.init(RESIDUAL)
        client.set_io_mem(other, made.value, memory, 4096, **attr)
        client.run(other)
        assert client.outputs_get(other, 1) == reference(RESIDUAL, PIXELS[0])
    with refused(-5, "in no memory"):
        client.call(Operation.MEM_FROM_PHYS, context=context, a=0x1234, b=100)
    with refused(-1, "rknn_create_mem_from_fd"):
        client.call(Operation.MEM_FROM_MB_BLK, context=context, a=0)
    with refused(-5, "descriptor has 8192 bytes"):
        client.call(Operation.MEM_FROM_FD, context=context, a=8192, b=4096, descriptors=[memory.fd])
    with refused(-1, "cannot be mapped"), Path("/proc/self/status").open("rb") as stream:
        client.call(Operation.MEM_FROM_FD, context=context, a=1, b=0, descriptors=[stream.fileno()])
    with refused(-4):
        client.create_mem(context, 0)


def _described(client: Client, reply: Reply) -> dict[str, Any]:
    return client.codec.decode("rknn_tensor_mem", reply.payload)


def test_memory_that_is_bound_outlives_its_end(client: Client) -> None:
    context = client.init(RESIDUAL)
    number, memory = client.create_mem(context, 4096)
    memory.array[:768] = PIXELS[0].reshape(-1)
    client.set_io_mem(context, number, memory, name="image", fmt=TensorFormat.NHWC, type=TensorType.UINT8)
    client.call(Operation.MEM_SYNC, context=context, memory=number, a=1)
    client.call(Operation.DESTROY_MEM, context=context, memory=number)
    client.run(context)
    assert client.outputs_get(context, 1) == reference(RESIDUAL, PIXELS[0])
    with refused(-5, "destroyed"):
        client.call(Operation.DESTROY_MEM, context=context, memory=number)
    assert outputs(client, context, PIXELS[1]) == reference(RESIDUAL, PIXELS[1])


@pytest.mark.parametrize("kind", [np.float32, np.float16, np.uint8, np.int8, np.int16, np.int64])
@pytest.mark.parametrize("form", [TensorFormat.NHWC, TensorFormat.NCHW])
def test_inputs_of_every_type_and_layout(client: Client, kind: type, form: TensorFormat) -> None:
    """Set and bound alike."""
    values: np.ndarray[Any, Any] = RNG.integers(0, 100, (1, 16, 16, 3)).astype(kind)
    layout = form.name.lower()
    given = values if layout == "nhwc" else np.ascontiguousarray(values.transpose(0, 3, 1, 2))
    expected = reference(RESIDUAL, given, layout=layout)
    context = client.init(RESIDUAL)
    client.inputs_set(context, {0: given}, form)
    client.run(context)
    assert client.outputs_get(context, 1) == expected
    context = client.init(RESIDUAL)
    number, memory = client.create_mem(context, given.nbytes)
    memory.array[: given.nbytes] = given.reshape(-1).view(np.uint8)
    attr: dict[str, Any] = {"name": "image", "fmt": form, "type": TensorType[given.dtype.name.upper()]}
    client.set_io_mem(context, number, memory, **attr)
    client.run(context)
    assert client.outputs_get(context, 1) == expected
    with refused(-1, "bytes are needed"):
        number, memory = client.create_mem(context, 4)
        payload = client.codec.encode("rknn_tensor_attr", attr)
        client.call(Operation.SET_IO_MEM, context=context, memory=number, b=4, payload=payload)


@pytest.mark.parametrize("form", [TensorFormat.NHWC, TensorFormat.NCHW])
@pytest.mark.parametrize("kind", [TensorType.FLOAT32, TensorType.INT8])
def test_outputs_of_every_type_and_layout(client: Client, kind: TensorType, form: TensorFormat) -> None:
    with Session(str(RESIDUAL), "software") as session:
        found = session.run([PIXELS[0]], outputs="float" if kind is TensorType.FLOAT32 else "raw")
    ((name, values),) = found.items()
    expected = values if form is TensorFormat.NCHW else values.transpose(0, 2, 3, 1)
    context = client.init(RESIDUAL)
    number, memory = client.create_mem(context, values.nbytes)
    client.set_io_mem(context, number, memory, name=name, fmt=form, type=kind)
    client.inputs_set(context, {0: PIXELS[0]})
    client.run(context)
    found_values = memory.array[: values.nbytes].view(expected.dtype)
    if expected.dtype == np.float32:  # to the last bit: tests/capi/test_differential.py
        np.testing.assert_allclose(found_values, expected.reshape(-1), rtol=1e-5, atol=1e-6)
    else:
        assert found_values.tobytes() == expected.tobytes()
    with refused(-9, "int8 or float32"):
        client.set_io_mem(context, number, memory, name=name, fmt=form, type=TensorType.UINT8)


def test_outputs_come_in_their_order(client: Client) -> None:
    """Whatever `index` says, as runtime 1.5.2 was seen to do it."""
    path = GOLDENS / "two_outputs_rk3588_i8.rknn"
    with Session(str(path), "software") as session:
        values = RNG.integers(0, 256, session.inputs[0].shape, np.uint8)
        expected = [one.tobytes() for one in session.run([values], outputs="raw").values()]
    context = client.init(path)
    client.inputs_set(context, {0: values})
    client.run(context)
    assert client.outputs_get(context, 2, want_float=False) == expected
    for numbers in ((1, 0), (0, 0), (7, 7), (1,)):
        payload = b"".join(client.codec.encode("rknn_output", {"index": number}) for number in numbers)
        reply = client.call(Operation.OUTPUTS_GET, context=context, a=len(numbers), payload=payload)
        found = client.codec.decode_array("rknn_output", reply.payload, len(numbers))
        assert [(one["index"], one["size"]) for one in found] == [(0, 512), (1, 384)][: len(numbers)]


def test_many_buffers_take_turns(client: Client) -> None:
    """Memory that was bound before is bound again without a new program; what was destroyed is let go."""
    context = client.init(RESIDUAL)
    made = [client.create_mem(context, 4096) for _ in range(3)]
    expected = [reference(RESIDUAL, frame) for frame in PIXELS[:3]]
    for (_, memory), frame in zip(made, PIXELS, strict=False):
        memory.array[:768] = frame.reshape(-1)
    for turn in range(9):
        number, memory = made[turn % 3]
        client.set_io_mem(context, number, memory, name="image", fmt=TensorFormat.NHWC, type=TensorType.UINT8)
        client.run(context)
        assert client.outputs_get(context, 1) == expected[turn % 3]
