"""Zero copy in the vendor's own library: memory, dma-bufs, weights and internals outside, shapes."""

from __future__ import annotations

import gc

import numpy as np

from openrknn.errors import UnsupportedError
from openrknn.vendor import (
    AllocFlag,
    CallError,
    ClosedError,
    Context,
    InitFlag,
    MemoryOrigin,
    TensorFormat,
    TensorType,
)
from tests.vendor.inside.board_tools import events, forget, golden, raises

RESIDUAL = golden("residual_rk3588_i8")
TWO = golden("two_inputs_rk3588_i8")


def check_memory_of_the_device() -> None:
    with Context(RESIDUAL) as context:
        forget()
        memory = context.create_memory(5000)
        (made,) = events("create")
        assert (memory.size_bytes, made["requested"], made["size"]) == (5000, 5000, 8192)
        assert memory.physical_address == made["address"]
        assert memory.fd > 0
        assert memory.flags == MemoryOrigin.ALLOC_INSIDE
        memory.array(np.int32)[:] = 7
        memory.close()
        assert events("destroy")[0]["handle"] == made["handle"]
        with raises(CallError, "rknn_create_mem returned -4 RKNN_ERR_MALLOC_FAIL"):
            context.create_memory(2**32 - 1)
        with raises(UnsupportedError, "rknn_create_mem2 needs librknnrt 2.0.0-beta0"):
            context.create_memory(10, AllocFlag.DEFAULT)
        with raises(UnsupportedError, "rknn_mem_sync needs librknnrt 1.6.0"):
            context.create_memory(10).sync()


def check_native_tensors_are_what_the_npu_sees() -> None:
    with Context(TWO) as context:
        picture = context.bind_input("picture", type=TensorType.UINT8)
        features = context.bind_input("features", pass_through=True)
        output = context.bind_output(0)
        assert picture.array.shape == (1, 8, 8, 3)
        assert picture.memory.size_bytes == 8 * 16 * 3  # rows of 16 pixels
        assert (features.array.shape, output.array.shape) == ((1, 1, 8, 8, 16), (1, 1, 8, 8, 16))
        picture.array[...] = 3
        features.array[...] = -4
        forget()
        context.run()
        addresses = {event["address"] for event in events("create")}
        assert not addresses  # nothing is allocated for a run
        assert events("submit")
        synced = {event["handle"] for event in events("sync")}
        assert len(synced) >= 3


def check_outputs_in_every_layout() -> None:
    for name, kinds in (("conv_rk3588_i8", np.int8), ("conv_rk3588_fp", np.float16)):
        with Context(golden(name)) as context:
            elements = context.outputs[0].elements
            for form in (TensorFormat.NCHW, TensorFormat.NHWC):
                for kind in (None, TensorType.FLOAT32):
                    memory = context.create_memory(65536)
                    memory.array()[:] = 0x5A
                    binding = context.bind_output(0, memory, format=form, type=kind)
                    context.run()
                    dtype = np.dtype(kinds if kind is None else np.float32)
                    touched = len(memory.array().tobytes().rstrip(b"\x5a"))
                    assert touched <= elements * dtype.itemsize == binding.attributes.size_bytes
                    assert binding.array.dtype == dtype
            with raises(TypeError, "or float32, not uint8"):
                context.bind_output(0, type=TensorType.UINT8)
    with Context(golden("gemm_rk3588_i8")) as context:
        with raises(ValueError, "can be UNDEFINED, not NCHW"):
            context.bind_output(0, format=TensorFormat.NCHW)
        context.bind_output(0, type=TensorType.FLOAT32)
        context.run()


def check_a_dma_buf_of_the_device() -> None:
    with Context(RESIDUAL) as context:
        owner = context.create_memory(8192)
        owner.array()[:] = 1
        # With a mapping of its own the library asks the driver to import the dma-buf, which the witness's device does
        # not know; with the owner's it finds the memory by itself.
        shared = context.memory_from_fd(owner.fd, 4096, offset=4096, buffer=owner.virtual_address)
        assert (shared.origin, shared.offset) == (MemoryOrigin.FROM_FD, 4096)
        shared.array()[:768] = 9
        assert owner.array()[4096:4100].tolist() == [9] * 4
        context.bind_input(0, shared, type=TensorType.UINT8)
        context.run()
        shared.close()
        with raises(ValueError, "the memory of input 0 was closed"):
            context.run()
        with raises(ValueError, "as it was first bound"):
            context.bind_input(0, owner)
        with raises(ValueError, "as it was first bound"):
            context.bind_input(0, owner, pass_through=True)
        context.bind_input(0, owner, type=TensorType.UINT8)
        context.run()


def check_a_physical_address() -> None:
    with Context(RESIDUAL) as context:
        owner = context.create_memory(4096)
        same = context.memory_from_physical(owner.physical_address, 4096, buffer=owner.virtual_address)
        assert same.physical_address == owner.physical_address
        same.array()[:4] = 5
        assert owner.array()[:4].tolist() == [5] * 4
        context.bind_input(0, same)
        context.run()
        with raises(UnsupportedError, "rknn_create_mem_from_mb_blk does not work on RK3588"):
            context.library.require("rknn_create_mem_from_mb_blk", chip=context.chip)


def check_all_memory_outside() -> None:
    forget()
    with Context(RESIDUAL, InitFlag.MEM_ALLOC_OUTSIDE) as context:
        with raises(ValueError, "no memory for weights"):
            context.run()
        sizes = context.memory_size
        with raises(ValueError, "weights needs 9920 bytes of memory, this one has 100"):
            context.set_weight_memory(context.create_memory(100))
        weights, internal = context.set_weight_memory(), context.set_internal_memory()
        assert (weights.size_bytes, internal.size_bytes) == (sizes.weights_bytes, sizes.internal_bytes)
        assert weights.array().any()  # the library copied the weights into it
        context.bind_input(0)
        context.bind_output(0)
        context.run()
        assert len(events("submit")) == 1


def check_internals_shared_by_two_contexts() -> None:
    flags = InitFlag.INTERNAL_ALLOC_OUTSIDE
    with Context(RESIDUAL, flags) as first, Context(golden("conv_rk3588_i8"), flags) as second:
        needed = max(context.memory_size.internal_bytes for context in (first, second))
        memory = first.create_memory(max(needed, 4096))
        first.set_internal_memory(memory)
        second.set_internal_memory(second.memory_from_fd(memory.fd, memory.size_bytes, buffer=memory.virtual_address))
        first.run()
        second.run()


def check_shared_weights() -> None:
    full = golden("residual_rk3588_i8")
    with Context(full) as donor:
        sharing = Context(golden("residual_rk3588_i8_no_weights"), share_weights=donor)
        sharing.run()
    assert donor.closed
    sharing.run()  # the weights of the donor are still there
    sharing.close()
    with Context(golden("conv_rk3588_i8")) as other, raises(ValueError, "another network"):
        Context(golden("residual_rk3588_i8_no_weights"), share_weights=other)


def check_arrays_outlive_everything() -> None:
    with Context(RESIDUAL) as context:
        view = context.bind_output(0).array
        context.run()
    forget()
    view[...] = 3
    assert int(view.sum()) == 3 * 512
    del view
    gc.collect()
    assert len(events("destroy")) >= 3  # the memory, and with it the context's own buffers


def check_freed_memory() -> None:
    with Context(RESIDUAL) as context:
        memory = context.create_memory(4096)
        context.bind_input(0, memory)
        memory.close()
        memory.close()
        with raises(ClosedError, "this memory was closed"):
            memory.array()
        with raises(ClosedError):
            context.bind_input(0, memory)
        with raises(ValueError, "was closed; bind another"):
            context.run()


def check_dynamic_shapes() -> None:
    with Context(golden("dynamic_rk3588_i8")) as context:
        assert context.input_ranges[0].shapes == ((1, 16, 16, 3), (1, 8, 24, 3), (1, 8, 8, 3))
        for attempt in (context.run, lambda: context.bind_input(0), lambda: context.set_inputs([])):
            with raises(ValueError, "choose with set_input_shapes first"):
                attempt()
        for shape in context.input_ranges[0].shapes:
            (image,) = context.set_input_shapes([shape])
            assert image.shape == shape
            context.set_inputs([np.zeros(shape, np.uint8)])
            context.run()
            height, width = shape[1:3]
            assert context.get_outputs()[0].shape == (1, 8, height, width)
            assert context.native_outputs[0].shape == (1, 2, height, width, 16)
            assert context.nhwc_outputs[0].shape == (1, height, width, 8)
        with raises(ValueError, "'image' takes NHWC"):
            context.set_input_shapes([(1, 9, 9, 3)])
        context.set_input_shape("image", (1, 8, 8, 3))
        context.bind_input(0)
        context.bind_output(0, format=TensorFormat.NHWC, type=TensorType.FLOAT32)
        context.run()
        with raises(ValueError, "the model has one shape"), Context(RESIDUAL) as static:
            static.set_input_shapes([(1, 16, 16, 3)])


def check_wrong_arrays() -> None:
    """Runtime 1.5.2 takes most of these, returns 0 and computes something else, or crashes."""
    with Context(RESIDUAL) as context:
        good = np.zeros((1, 16, 16, 3), np.uint8)
        for wrong, kind in (
            (good.astype(np.int64), TypeError), (good.astype(np.int32), TypeError), (good.astype(bool), TypeError),
            (good.astype(float), TypeError), (good[:, :8], ValueError), (good.transpose(0, 3, 1, 2), ValueError),
            (np.zeros((1, 3, 16, 16), np.uint8), ValueError), (np.zeros(768, np.uint8), ValueError), (b"x", TypeError),
        ):  # fmt: skip
            with raises(kind):
                context.set_inputs([wrong])  # type: ignore[list-item]
        with raises(ValueError, "goes to the NPU as it is"):
            context.set_inputs([good[..., :1].copy()], pass_through=True)
        context.set_inputs([good], pass_through=True)
        with raises(ValueError, "no outputs before the first run"):
            context.get_outputs()
        context.run()
        with raises(ValueError, "output 0 is float32"):
            context.get_outputs(out=[np.zeros((1, 32, 4, 4), np.int8)])
