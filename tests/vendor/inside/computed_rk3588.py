"""What the vendor's own library computes on the emulated NPU, through every door of openrknn.vendor."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.layout.features import FeatureLayout
from openrknn.vendor import (
    Context,
    CoreMask,
    InitFlag,
    Matmul,
    MatmulLayout,
    MatmulType,
    TensorFormat,
    TensorType,
)
from tests.vendor.inside.board_tools import golden

Array = npt.NDArray[Any]
RESIDUAL = golden("residual_rk3588_i8")


def stored(path: Path) -> tuple[Array, Array]:
    """The input and the output that the vendor's simulator gave when the model was built."""
    values = np.load(path.with_suffix(".npz"))
    return values["x0"], values["o0"]


def answer(context: Context, pixels: Array) -> Array:
    context.set_inputs([pixels])
    context.run()
    return context.get_outputs()[0]


def close(left: Array, right: Array) -> bool:
    return left.shape == right.shape and float(np.abs(left - right).max()) < 1e-5


def check_copied_inputs_and_outputs() -> None:
    pixels, expected = stored(RESIDUAL)
    with Context(RESIDUAL) as context:
        assert close(answer(context, pixels), expected)
        (raw,) = context.get_outputs(want_float=False)
        tensor = context.outputs[0]
        assert close((raw.astype(np.float32) - tensor.zero_point) * np.float32(tensor.scale), expected)


def check_zero_copy() -> None:
    pixels, expected = stored(RESIDUAL)
    with Context(RESIDUAL) as context:
        image = context.bind_input(0, type=TensorType.UINT8)
        output = context.bind_output(0)
        image.array[...] = pixels
        context.run()
        tensor = output.attributes
        features = FeatureLayout.from_native(tensor.shape, channels=expected.shape[1]).unpack(output.array.reshape(-1))
        assert close((features.astype(np.float32) - tensor.zero_point) * np.float32(tensor.scale), expected)
        for form, back in ((TensorFormat.NCHW, (0, 1, 2, 3)), (TensorFormat.NHWC, (0, 3, 1, 2))):
            floats = context.bind_output(0, format=form, type=TensorType.FLOAT32)
            context.run()
            assert close(floats.array.transpose(back), expected)


def check_raw_inputs() -> None:
    pixels, expected = stored(RESIDUAL)
    with Context(RESIDUAL) as context:
        tensor = context.inputs[0]
        numbers = (pixels.astype(np.int32) + tensor.zero_point).astype(np.int8)  # scale 1/255, mean 0: pixel - 128
        context.set_inputs([numbers], pass_through=True)
        context.run()
        assert close(context.get_outputs()[0], expected)
        image = context.bind_input(0, pass_through=True)
        image.array[...] = numbers
        context.run()
        assert close(context.get_outputs()[0], expected)


def check_a_dma_buf_from_another_context() -> None:
    pixels, expected = stored(RESIDUAL)
    with Context(RESIDUAL) as camera, Context(RESIDUAL) as context:
        frames = camera.create_memory(8192)
        imported = context.memory_from_fd(frames.fd, 4096, offset=4096)
        frames.array()[4096 : 4096 + pixels.size] = pixels.reshape(-1)
        context.bind_input(0, imported, type=TensorType.UINT8)
        output = context.bind_output(0, format=TensorFormat.NCHW, type=TensorType.FLOAT32)
        context.run()
        assert close(output.array, expected)


def check_cores() -> None:
    pixels, expected = stored(RESIDUAL)
    with Context(RESIDUAL) as context:
        for mask in (CoreMask.AUTO, CoreMask.CORE_1, CoreMask.CORE_2, CoreMask.CORE_0_1, CoreMask.CORE_0_1_2):
            context.set_core_mask(mask)
            assert close(answer(context, pixels), expected)


def check_duplicates_in_threads() -> None:
    pixels, expected = stored(RESIDUAL)
    with Context(RESIDUAL) as original:
        results: list[bool] = []

        def work(context: Context) -> None:
            results.extend(close(answer(context, pixels), expected) for _ in range(3))

        copies = [original.duplicate() for _ in range(3)]
        threads = [threading.Thread(target=work, args=[copy]) for copy in copies]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == [True] * 9
        for copy in copies:
            copy.close()


def check_memory_outside() -> None:
    pixels, expected = stored(RESIDUAL)
    with Context(RESIDUAL, InitFlag.MEM_ALLOC_OUTSIDE) as context:
        context.set_weight_memory()
        context.set_internal_memory()
        image = context.bind_input(0, type=TensorType.UINT8)
        output = context.bind_output(0, format=TensorFormat.NCHW, type=TensorType.FLOAT32)
        image.array[...] = pixels
        context.run()
        assert close(output.array, expected)


def check_internals_shared_by_two_models() -> None:
    flags = InitFlag.INTERNAL_ALLOC_OUTSIDE
    second_model = golden("two_outputs_rk3588_i8")
    features = np.ascontiguousarray(stored(second_model)[0].transpose(0, 2, 3, 1))
    with Context(second_model) as alone:
        expected = answer(alone, features)
    with Context(RESIDUAL, flags) as first, Context(second_model, flags) as second:
        size = max(context.memory_size.internal_bytes for context in (first, second))
        memory = first.create_memory(size)
        first.set_internal_memory(memory)
        second.set_internal_memory(second.memory_from_fd(memory.fd, size))
        for _ in range(2):
            assert close(answer(first, stored(RESIDUAL)[0]), stored(RESIDUAL)[1])
            assert np.array_equal(answer(second, features), expected)


def check_shared_weights() -> None:
    pixels, expected = stored(RESIDUAL)
    with Context(RESIDUAL) as donor:
        sharing = Context(golden("residual_rk3588_i8_no_weights"), share_weights=donor)
    assert close(answer(sharing, pixels), expected)
    sharing.close()


def check_dynamic_shapes() -> None:
    with Context(golden("dynamic_rk3588_i8")) as other, Context(golden("dynamic_rk3588_i8")) as context:
        for shape in context.input_ranges[0].shapes:
            other.set_input_shapes([shape])
            context.set_input_shapes([shape])
            pixels = np.random.default_rng(3).integers(0, 256, shape, dtype=np.uint8)
            copied = answer(other, pixels)
            assert copied.any()
            image = context.bind_input(0, type=TensorType.UINT8)
            output = context.bind_output(0, format=TensorFormat.NHWC, type=TensorType.FLOAT32)
            image.array[...] = pixels
            context.run()
            assert close(output.array.transpose(0, 3, 1, 2), copied)


def check_perf_detail() -> None:
    pixels, expected = stored(RESIDUAL)
    with Context(RESIDUAL, InitFlag.COLLECT_PERF_MASK) as context:
        assert close(answer(context, pixels), expected)
        assert [operator.target for operator in context.perf_detail.operators].count("NPU") == 7


def check_products_of_int8() -> None:
    random = np.random.default_rng(4)
    for m, k, n in ((4, 64, 32), (1, 32, 32), (17, 256, 96)):
        native = (MatmulLayout.NATIVE,) if m in (1, 4) else ()
        a = random.integers(-128, 128, (m, k), dtype=np.int8)
        b = random.integers(-128, 128, (k, n), dtype=np.int8)
        for b_layout in (MatmulLayout.NORM, MatmulLayout.NATIVE):
            for ac_layout in (MatmulLayout.NORM, *native):
                kind = MatmulType.INT8_MM_INT8_TO_INT32
                with Matmul(m, k, n, kind, b_layout=b_layout, ac_layout=ac_layout) as matmul:
                    expected = a.astype(np.int32) @ b.astype(np.int32)
                    assert np.array_equal(matmul(a, b), expected), (m, k, n, b_layout, ac_layout)


def check_products_of_float16() -> None:
    random = np.random.default_rng(5)
    for m, k, n in ((4, 64, 32), (3, 128, 48)):
        native = (MatmulLayout.NATIVE,) if m == 4 else ()
        a = random.standard_normal((m, k)).astype(np.float16)
        b = random.standard_normal((k, n)).astype(np.float16)
        for b_layout in (MatmulLayout.NORM, MatmulLayout.NATIVE):
            for ac_layout in (MatmulLayout.NORM, *native):
                kind = MatmulType.FLOAT16_MM_FLOAT16_TO_FLOAT32
                with Matmul(m, k, n, kind, b_layout=b_layout, ac_layout=ac_layout) as matmul:
                    expected = a.astype(np.float64) @ b.astype(np.float64)
                    assert np.abs(matmul(a, b) - expected).max() < 1e-4, (m, k, n, b_layout, ac_layout)
