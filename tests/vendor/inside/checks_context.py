"""Contexts of the vendor's own library: loading, queries, running, cores, copies, threads."""

from __future__ import annotations

import threading
from contextlib import suppress
from tempfile import NamedTemporaryFile

import numpy as np

from openrknn.errors import FormatError, UnsupportedError
from openrknn.vendor import (
    CallError,
    ClosedError,
    Context,
    CoreMask,
    InitFlag,
    TensorFormat,
    TensorType,
    default_library,
)
from tests.vendor.inside.board_tools import events, forget, golden, raises

RESIDUAL = golden("residual_rk3588_i8")
PIXELS = np.arange(768, dtype=np.uint8).reshape(1, 16, 16, 3)


def check_the_library() -> None:
    library = default_library()
    assert str(library.version) == "1.5.2"
    assert len(library.exports) == 25
    assert library.kind == "librknnrt"


def check_a_model_from_everywhere() -> None:
    data = RESIDUAL.read_bytes()
    for model in (RESIDUAL, str(RESIDUAL), data, bytearray(data), memoryview(data), np.frombuffer(data, np.uint8)):
        with Context(model) as context:
            assert context.inputs[0].name == "image"
    with NamedTemporaryFile() as stream:
        stream.write(b"firmware" * 512 + data + b"more")  # 1.5.2 does not find a model behind zeros
        stream.flush()
        with Context(stream.name, model_offset=4096, model_size=len(data)) as context:
            context.set_inputs([PIXELS])
            context.run()


def check_queries() -> None:
    with Context(golden("image_rk3588_i8_custom_string")) as context:
        assert context.custom_string
    with Context(RESIDUAL) as context:
        assert (context.counts.inputs, context.counts.outputs) == (1, 1)
        assert str(context.sdk_version.version) == "1.5.2"
        assert context.sdk_version.driver == "0.9.8"
        (image,), (features,) = context.inputs, context.native_outputs
        assert (image.shape, image.format, image.type) == ((1, 16, 16, 3), TensorFormat.NHWC, TensorType.INT8)
        assert (features.shape, features.format) == ((1, 2, 4, 4, 16), TensorFormat.NC1HWC2)
        assert context.nhwc_outputs[0].shape == (1, 4, 4, 32)
        assert context.outputs[0].shape == (1, 32, 4, 4)
        assert context.nhwc_inputs[0].shape == context.native_inputs[0].shape == (1, 16, 16, 3)
        sizes = context.memory_size
        assert (sizes.weights_bytes, sizes.internal_bytes) == (9920, 8960)
        assert sizes.allocated_bytes > sizes.weights_bytes + sizes.internal_bytes
        assert context.chip is not None
        assert context.chip.name == "rk3588"
        with raises(UnsupportedError, "RKNN_QUERY_DEVICE_MEM_INFO does not work on RK3588"):
            _ = context.device_memory
        context.library.check_platform = False
        try:
            with raises(CallError, "rknn_query returned -1 RKNN_ERR_FAIL (DEVICE_MEM_INFO)"):
                _ = context.device_memory
        finally:
            context.library.check_platform = True


def live_buffers() -> list[dict[str, int]]:
    """What the current context allocated: earlier contexts destroyed theirs."""
    live: dict[int, dict[str, int]] = {}
    for event in events():
        if event["event"] == "create":
            live[event["handle"]] = event
        elif event["event"] in ("destroy", "close"):
            live.pop(event["handle"], None)
    return list(live.values())


def check_a_run_is_one_job() -> None:
    with Context(RESIDUAL) as context:
        context.set_inputs([PIXELS])
        forget()
        context.run()
        (submit,) = events("submit")
        assert submit["cores"][0] == [0, 9]
        (stored,) = context.get_outputs(want_float=False)
        (floats,) = context.get_outputs()
        assert stored.dtype == np.int8
        assert floats.shape == stored.shape == (1, 32, 4, 4)
        tensor = context.outputs[0]
        expected = (stored.astype(np.float32) - tensor.zero_point) * np.float32(tensor.scale)
        assert np.array_equal(floats, expected)
        assert 0 <= context.run_time_us < 60_000_000


def check_prepared_inputs_and_outputs() -> None:
    with Context(RESIDUAL) as context:
        pixels = PIXELS.copy()
        inputs, outputs = context.prepare_inputs([pixels]), context.prepare_outputs(want_float=False)
        for value in range(3):
            pixels[...] = value
            inputs.set()
            context.run()
            assert outputs.get()[0].shape == (1, 32, 4, 4)


def check_cores() -> None:
    with Context(RESIDUAL) as context:
        for mask, cores in ((CoreMask.CORE_1, [0, 9]), (CoreMask.CORE_0_1, None), (CoreMask.CORE_0_1_2, None)):
            context.set_core_mask(mask)
            forget()
            context.run()
            submits = events("submit")
            used = 0
            for submit in submits:
                used |= submit["core_mask"]
            assert used == int(mask)
            assert cores is None or submits[0]["cores"][1] == cores
        with raises(UnsupportedError, "RKNN_NPU_CORE_ALL needs librknnrt 2.0.0-beta0"):
            context.set_core_mask(CoreMask.ALL)
        with raises(ValueError):
            context.set_core_mask(5)  # type: ignore[arg-type]
    with Context(golden("image_rk3588_i8_batch2")) as context:
        context.set_batch_core_num(2)
        context.run()
        with raises(ValueError, "1 to 3 cores"):
            context.set_batch_core_num(4)


def check_flags() -> None:
    for flags in (
        InitFlag.PRIOR_LOW, InitFlag.PRIOR_MEDIUM, InitFlag.ASYNC_MASK, InitFlag.EXECUTE_FALLBACK_PRIOR_DEVICE_GPU
    ):
        with Context(RESIDUAL, flags) as context:
            forget()
            context.run()
            assert len(events("submit")) == 1
    with Context(RESIDUAL, InitFlag.COLLECT_MODEL_INFO_ONLY) as context:
        assert context.memory_size.weights_bytes == 9920
        with raises(ValueError, "only answers queries"):
            context.run()
    with raises(UnsupportedError, "RKNN_FLAG_ENABLE_SRAM needs librknnrt 1.6.0"):
        Context(RESIDUAL, InitFlag.ENABLE_SRAM)


def check_perf_detail() -> None:
    with Context(RESIDUAL, InitFlag.COLLECT_PERF_MASK) as context:
        context.set_inputs([PIXELS])
        context.run()
        detail = context.perf_detail
        names = [(operator.type, operator.target) for operator in detail.operators]
        assert names == [
            ("InputOperator", "CPU"), ("ConvRelu", "NPU"), ("ConvRelu", "NPU"), ("ConvAdd", "NPU"), ("MaxPool", "NPU"),
            ("Conv", "NPU"), ("Conv", "NPU"), ("Concat", "NPU"), ("OutputOperator", "CPU"),
        ]  # fmt: skip
        times = [operator.time_us for operator in detail.operators]
        assert detail.total_us == sum(time for time in times if time is not None)
        assert detail.operators[3].name == "Conv:conv4_ConvAdd"
        assert detail.operators[1].traffic_kib == 4.25


def check_run_options_are_taken() -> None:
    with Context(RESIDUAL) as context:
        assert context.run(timeout_ms=1000) is not None
        with raises(UnsupportedError, "rknn_wait does not work on RK3588"):
            context.run(non_blocking=True)
        context.library.check_platform = False
        try:
            context.run(non_blocking=True)
            with raises(CallError, "rknn_wait returned -1"):
                context.wait()
        finally:
            context.library.check_platform = True


def original_file_bytes() -> int:
    """The library copies the whole file into one buffer of the device."""
    return len(RESIDUAL.read_bytes())


def check_duplicates_in_threads() -> None:
    with Context(RESIDUAL) as original:
        forget()
        copies = [original.duplicate() for _ in range(3)]
        weights = copies[0].memory_size.weights_bytes
        assert all(event["requested"] != original_file_bytes() for event in events("create"))  # weights are shared
        assert weights == 9920
        with raises(ValueError, "crashes when a context is duplicated after its memory size was asked for"):
            original.duplicate()
        failures: list[BaseException] = []

        def work(context: Context, core: CoreMask) -> None:
            try:
                context.set_core_mask(core)
                for _ in range(20):
                    context.set_inputs([PIXELS])
                    context.run()
                    context.get_outputs()
            except BaseException as error:  # noqa: BLE001 - the thread's result
                failures.append(error)

        forget()
        cores = (CoreMask.CORE_0, CoreMask.CORE_1, CoreMask.CORE_2)
        threads = [threading.Thread(target=work, args=pair) for pair in zip(copies, cores, strict=True)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        submits = events("submit")
        assert sorted(submit["core_mask"] for submit in submits) == [1] * 20 + [2] * 20 + [4] * 20
    for copy in copies:
        copy.run()
        copy.close()
    assert original.closed


def check_another_chips_model() -> None:
    with raises(CallError, "rknn_init returned -6 RKNN_ERR_MODEL_INVALID"):
        Context(golden("residual_rk3566_i8"))


def check_damaged_models_do_not_crash() -> None:
    data = RESIDUAL.read_bytes()
    cut = (data[:100], data[: len(data) // 2], data[:-1], b"", data[:-200] + bytes(200))
    for damaged in (*cut, data[:8] + b"\2" + data[9:]):
        with raises(FormatError):
            Context(damaged)
    with raises(UnsupportedError, "is not known"):
        Context(b"RKNN" + bytes(5000))
    with raises(UnsupportedError, "made by RKNN-Toolkit 1"):
        Context(data[:8] + b"\1" + data[9:])
    for place in range(0x40, 0x400, 7):
        changed = bytearray(data)
        changed[place] ^= 0xFF
        with suppress(FormatError, CallError, UnsupportedError):
            Context(changed).close()


def check_closed_contexts() -> None:
    context = Context(RESIDUAL)
    context.close()
    context.close()
    for attempt in (context.run, context.duplicate, lambda: context.sdk_version, context.get_outputs):
        with raises(ClosedError, "closed"):
            attempt()


def check_many_contexts_leave_nothing_behind() -> None:
    before = len(live_buffers())
    for _ in range(20):
        with Context(RESIDUAL) as context:
            context.bind_input(0)
            context.bind_output(0)
            context.run()
    assert len(live_buffers()) == before
