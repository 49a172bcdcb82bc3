"""Contexts: loading, flags, queries, running, cores, threads, lifetimes."""

from __future__ import annotations

import gc
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from openrknn.errors import EmptyFileError, FormatError, UnsupportedError
from openrknn.vendor import (
    CallError,
    ClosedError,
    Context,
    CoreMask,
    InitFlag,
    IoCounts,
    MemorySize,
    QuantizationType,
    QueryCommand,
    RunInfo,
    TensorAttributes,
    TensorFormat,
    TensorType,
    Version,
    memory_without_context,
)
from openrknn.vendor.context.answers import QUERIES
from tests.vendor.recording import Recorder

GOLDENS = Path(__file__).resolve().parents[1] / "goldens"
MODEL = GOLDENS / "conv_rk3588_i8.rknn"


# -------------------------------------------------------------------------------------------------- loading


def test_a_path_is_passed_as_a_path(recorder: Recorder) -> None:
    Context(MODEL, library=recorder.library).close()
    assert recorder.log("rknn_init", "rknn_destroy") == [
        f"rknn_init size=0 flag=0 extend=0 path={MODEL}",
        "rknn_destroy ctx=" + str(0x1000 + _destroyed(recorder)),
    ]


def _destroyed(recorder: Recorder) -> int:
    """The number of the last context: they are counted."""
    with Context(b"x", library=recorder.library, check=False) as context:
        return context.number - 0x1000 - 1


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda data: np.frombuffer(data, np.uint8)])
def test_bytes_and_buffers_are_passed_by_address(recorder: Recorder, kind: type) -> None:
    data = MODEL.read_bytes()
    Context(kind(data), library=recorder.library).close()
    assert recorder.one("rknn_init") == {"size": str(len(data)), "flag": "0", "extend": "0"}


def test_a_model_inside_a_larger_file(recorder: Recorder, tmp_path: Path) -> None:
    data = MODEL.read_bytes()
    (tmp_path / "firmware.bin").write_bytes(bytes(100) + data + bytes(50))
    context = Context(
        tmp_path / "firmware.bin", library=recorder.library, model_offset=100, model_size=len(data)
    )
    context.close()
    seen = recorder.one("rknn_init")
    assert (seen["offset"], seen["length"], seen["size"]) == ("100", str(len(data)), "0")
    with pytest.raises(ValueError, match="there is no model of 20352 bytes at 200 in"):
        Context(tmp_path / "firmware.bin", library=recorder.library, model_offset=200, model_size=len(data))


def test_damaged_files_do_not_reach_the_library(recorder: Recorder, tmp_path: Path) -> None:
    data = MODEL.read_bytes()
    for damaged in (data[:1000], data[:-8], b"hello world", b"\x89PNG" + bytes(100)):
        with pytest.raises(FormatError):
            Context(damaged, library=recorder.library)
    for unknown in (b"RKNN" + bytes(100), data[:8] + b"\1" + data[9:]):
        with pytest.raises(UnsupportedError, match=r"container version|RKNN-Toolkit 1 "):
            Context(unknown, library=recorder.library)
    with pytest.raises(FormatError, match="the library crashes on it"):
        Context(data[:8] + b"\2" + data[9:], library=recorder.library)
    with pytest.raises(EmptyFileError):
        Context(b"", library=recorder.library)
    with pytest.raises(IsADirectoryError, match="is a folder"):
        Context(tmp_path, library=recorder.library)
    with pytest.raises(FileNotFoundError):
        Context(tmp_path / "nothing.rknn", library=recorder.library)
    (tmp_path / "empty.rknn").touch()
    with pytest.raises(EmptyFileError):
        Context(tmp_path / "empty.rknn", library=recorder.library)
    with pytest.raises(TypeError):
        Context(3, library=recorder.library)  # type: ignore[arg-type]
    assert recorder.log() == []


def test_a_model_in_device_memory_is_not_copied(recorder: Recorder) -> None:
    data = MODEL.read_bytes()
    memory = memory_without_context(recorder.library, len(data))
    assert recorder.one("rknn_create_mem2") == {"ctx": "0", "size": str(len(data)), "flags": str(0x20000)}
    memory.array()[:] = np.frombuffer(data, np.uint8)
    context = Context(memory, library=recorder.library)
    seen = recorder.one("rknn_init")
    assert seen["flag"] == str(int(InitFlag.MODEL_BUFFER_ZERO_COPY))
    assert (seen["fd"], seen["length"]) == (str(memory.fd), str(len(data)))
    memory.close()
    gc.collect()
    assert recorder.log("rknn_destroy_mem") == []  # the context still lives in it
    context.close()
    gc.collect()
    assert recorder.log("rknn_destroy_mem") == [f"rknn_destroy_mem size={len(data)}"]


def test_keys_are_for_2_5(recorder: Recorder) -> None:
    newest = Recorder.build("2.5.0")
    Context(b"model", library=newest.library, key=b"secret", check=False).close()
    assert newest.one("rknn_init")["key"] == "secret"
    with pytest.raises(UnsupportedError, match=r"a key needs a library of 2\.5\.0"):
        Context(b"model", library=recorder.library, key=b"secret", check=False)
    with pytest.raises(ValueError, match="empty"):
        Context(b"model", library=newest.library, key=b"", check=False)


@pytest.mark.parametrize("version", ["1.5.2", "1.6.0", "2.0.0b0", "2.1.0", "2.3.2", "2.5.0"])
def test_every_version_loads_and_runs(version: str) -> None:
    recorder = Recorder.build(version)
    with Context(MODEL, library=recorder.library) as context:
        context.run()
        assert context.sdk_version.version == Version.parse(version)
        assert context.memory_size.weights_bytes == 1000


def test_memory_size_of_1_3_has_two_fields() -> None:
    recorder = Recorder.build("1.3.0")
    with Context(MODEL, library=recorder.library) as context:
        assert context.memory_size == MemorySize(1000, 2000)


# -------------------------------------------------------------------------------------------------- flags


def test_flags_reach_the_library(recorder: Recorder) -> None:
    flags = InitFlag.PRIOR_LOW | InitFlag.COLLECT_PERF_MASK | InitFlag.DISABLE_PROC_HIGH_PRIORITY
    Context(b"m", flags, library=recorder.library, check=False).close()
    assert recorder.one("rknn_init")["flag"] == str(2 + 8 + 0x2000)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (InitFlag.PRIOR_LOW | InitFlag.PRIOR_MEDIUM, "one priority"),
        (InitFlag.SHARE_WEIGHT_MEM, "share_weights="),
        (InitFlag.SHARE_SRAM, "share_sram="),
        (InitFlag.MODEL_BUFFER_ZERO_COPY, "TensorMemory"),
        (InitFlag.MEM_ALLOC_NO_CONTEXT, "memory_without_context"),
        (1 << 25, "not flags of rknn_init"),
    ],
)
def test_flags_that_do_not_fit(recorder: Recorder, flags: InitFlag, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Context(b"m", flags, library=recorder.library, check=False)
    assert recorder.log() == []


def test_a_flag_that_is_too_new_names_its_version() -> None:
    recorder = Recorder.build("1.5.2")
    with pytest.raises(UnsupportedError, match=r"RKNN_FLAG_ENABLE_SRAM needs librknnrt 1\.6\.0 or newer"):
        Context(b"m", InitFlag.ENABLE_SRAM, library=recorder.library, check=False)


def test_weights_and_sram_are_shared_with_a_live_context(recorder: Recorder) -> None:
    with Context(b"m", library=recorder.library, check=False) as donor:
        recorder.clear()
        sharing = Context(b"m", library=recorder.library, share_weights=donor, share_sram=donor, check=False)
        seen = recorder.one("rknn_init")
        flags = InitFlag.SHARE_WEIGHT_MEM | InitFlag.SHARE_SRAM | InitFlag.ENABLE_SRAM
        assert (seen["flag"], seen["ctx"]) == (str(int(flags)), str(donor.number))
        donor.close()
        assert recorder.log("rknn_destroy") == []  # its weights are still in use
        sharing.close()
        assert len(recorder.log("rknn_destroy")) == 2
    with pytest.raises(ClosedError):
        Context(b"m", library=recorder.library, share_weights=donor, check=False)


def test_weights_of_another_network_are_refused(recorder: Recorder) -> None:
    lacking = GOLDENS / "residual_rk3588_i8_no_weights.rknn"
    with Context(GOLDENS / "residual_rk3588_i8.rknn", library=recorder.library) as donor:
        Context(lacking, library=recorder.library, share_weights=donor).close()
    with (
        Context(MODEL, library=recorder.library) as other,
        pytest.raises(ValueError, match=r"another network: .* no weights like const0"),
    ):
        Context(lacking, library=recorder.library, share_weights=other)


# -------------------------------------------------------------------------------------------------- queries


def test_all_queries(recorder: Recorder) -> None:
    flags = InitFlag.COLLECT_PERF_MASK
    with Context(b"dynamic"[:3], flags, library=recorder.library, check=False) as context:
        assert context.dynamic
        context.set_input_shapes([(1, 8, 6, 3), (1, 2, 2, 8)])
        context.run()
        seen = {command: context.query(command) for command in QueryCommand}
        assert len(QUERIES) == len(seen) == 18
        assert seen[QueryCommand.IN_OUT_NUM] == IoCounts(2, 2)
        assert seen[QueryCommand.PERF_RUN] == 1234
        assert seen[QueryCommand.CUSTOM_STRING] == "RGB"
        assert seen[QueryCommand.SDK_VERSION].driver == "0.9.8"
        assert seen[QueryCommand.MEM_SIZE] == MemorySize(1000, 2000, 5_000_000_000, 64, 32)
        assert seen[QueryCommand.DEVICE_MEM_INFO].physical_address == 0x8000
        assert seen[QueryCommand.INPUT_DYNAMIC_RANGE].shapes == ((1, 4, 6, 3), (1, 8, 6, 3))
        assert seen[QueryCommand.CURRENT_INPUT_ATTR].shape == (1, 8, 6, 3)
        assert seen[QueryCommand.NATIVE_OUTPUT_ATTR].shape == (1, 1, 2, 2, 16)
        assert seen[QueryCommand.NATIVE_NHWC_OUTPUT_ATTR].format is TensorFormat.NHWC
        (operator,) = seen[QueryCommand.PERF_DETAIL].operators
        assert (operator.name, operator.time_us, operator.target) == ("Conv:conv one", 42, "NPU")


def test_attributes_are_read_field_by_field(context: Context) -> None:
    image, features = context.inputs
    assert image == TensorAttributes(
        index=0, name="image", shape=(1, 4, 6, 3), format=TensorFormat.NHWC, type=TensorType.INT8,
        quantization=QuantizationType.AFFINE_ASYMMETRIC, zero_point=-3, scale=0.5, elements=72, size_bytes=72,
        width_stride=16, size_with_stride_bytes=192,
    )  # fmt: skip
    assert features.index == 1
    assert [tensor.shape for tensor in context.native_inputs] == [(1, 4, 6, 3), (1, 1, 2, 2, 8)]
    assert [tensor.format.name for tensor in context.outputs] == ["NCHW", "UNDEFINED"]
    assert image.dtype == np.int8


def test_answers_that_cannot_change_are_asked_once(recorder: Recorder, context: Context) -> None:
    for _ in range(3):
        _ = context.inputs, context.sdk_version, context.counts
    assert len(recorder.log("rknn_query")) == 3  # two inputs, one version; the counts came before


def test_questions_that_come_too_early(recorder: Recorder, context: Context) -> None:
    with pytest.raises(ValueError, match="PERF_RUN can be asked after a run"):
        _ = context.run_time_us
    context.run()
    assert context.run_time_us == 1234
    with pytest.raises(ValueError, match="COLLECT_PERF_MASK"):
        _ = context.perf_detail
    with pytest.raises(ValueError, match="after set_input_shapes"):
        context.query(QueryCommand.CURRENT_INPUT_ATTR)
    with pytest.raises(IndexError, match="there is no input 2; the model has 2"):
        context.query(QueryCommand.INPUT_ATTR, 2)
    with pytest.raises(IndexError):
        context.query(QueryCommand.OUTPUT_ATTR, -1)
    with pytest.raises(ValueError, match="99"):
        context.query(99)  # type: ignore[arg-type]


def test_queries_that_a_version_does_not_know() -> None:
    recorder = Recorder.build("1.3.0")
    with (
        Context(b"m", library=recorder.library, check=False) as context,
        pytest.raises(UnsupportedError, match=r"RKNN_QUERY_INPUT_DYNAMIC_RANGE needs librknnrt 1\.5\.0"),
    ):
        context.query(QueryCommand.INPUT_DYNAMIC_RANGE)


def test_a_context_for_information_only(recorder: Recorder) -> None:
    with Context(b"m", InitFlag.COLLECT_MODEL_INFO_ONLY, library=recorder.library, check=False) as context:
        assert context.memory_size.weights_bytes == 1000
        with pytest.raises(ValueError, match="only answers queries"):
            context.run()


# -------------------------------------------------------------------------------------------------- running


def test_runs(recorder: Recorder, context: Context) -> None:
    assert context.run() is None
    assert recorder.log() == ["rknn_run"]


def test_run_options_reach_the_library(recorder: Recorder, context: Context) -> None:
    assert context.run(timeout_ms=250) == RunInfo(frame_id=1, fence_fd=77)
    assert recorder.log() == ["rknn_run non_block=0 timeout=250 fence=-1"]
    assert context.run(non_blocking=True, fence_fd=5).frame_id == 2  # type: ignore[union-attr]
    assert context.wait(10).frame_id == 2
    assert recorder.log() == ["rknn_run non_block=1 timeout=0 fence=5", "rknn_wait frame=2 timeout=10"]
    with pytest.raises(ValueError, match="there is no run to wait for"):
        context.wait()
    with pytest.raises(ValueError, match="timeout"):
        context.run(timeout_ms=-1)


def test_core_masks(recorder: Recorder, context: Context) -> None:
    for mask in (CoreMask.AUTO, CoreMask.CORE_2, CoreMask.CORE_0_1_2, CoreMask.ALL):
        context.set_core_mask(mask)
        assert recorder.one("rknn_set_core_mask")["mask"] == str(int(mask))
    for wrong in (5, 6, 9, -1):
        with pytest.raises(ValueError, match=str(wrong)):
            context.set_core_mask(wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="UNDEFINED"):
        context.set_core_mask(CoreMask.UNDEFINED)
    assert recorder.log() == []


def test_a_mask_for_cores_that_the_chip_does_not_have(recorder: Recorder) -> None:
    with (
        Context(GOLDENS / "conv_rk3576_i8.rknn", library=recorder.library) as context,
        pytest.raises(ValueError, match="CORE_2 names more cores than the 2 of RK3576"),
    ):
        context.set_core_mask(CoreMask.CORE_2)


def test_the_mask_for_all_cores_is_new() -> None:
    recorder = Recorder.build("1.5.2")
    with (
        Context(b"m", library=recorder.library, check=False) as context,
        pytest.raises(UnsupportedError, match=r"RKNN_NPU_CORE_ALL needs librknnrt 2\.0\.0-beta0"),
    ):
        context.set_core_mask(CoreMask.ALL)


def test_batch_cores(recorder: Recorder, context: Context) -> None:
    context.set_batch_core_num(3)
    assert recorder.log() == ["rknn_set_batch_core_num n=3"]
    for wrong in (0, 4, -1):
        with pytest.raises(ValueError, match="1 to 3 cores"):
            context.set_batch_core_num(wrong)


# -------------------------------------------------------------------------------------------------- lives


def test_closing_twice_and_using_after_that(recorder: Recorder) -> None:
    context = Context(b"m", library=recorder.library, check=False)
    context.close()
    context.close()
    assert context.closed
    assert len(recorder.log("rknn_destroy")) == 1
    attempts = [
        context.run, context.duplicate, context.wait, lambda: context.inputs, lambda: context.number,
        lambda: context.query(QueryCommand.SDK_VERSION), lambda: context.set_core_mask(CoreMask.AUTO),
        lambda: context.create_memory(10), lambda: context.set_inputs([]), context.get_outputs,
        lambda: context.bind_input(0), lambda: context.bind_output(0), lambda: context.set_input_shapes([]),
        lambda: context.register_custom_ops([]), context.__enter__, context.prepare_outputs,
    ]  # fmt: skip
    for attempt in attempts:
        with pytest.raises(ClosedError, match="closed"):
            attempt()  # type: ignore[operator]
    assert recorder.log() == []


def test_destroying_goes_from_user_to_used(recorder: Recorder) -> None:
    original = Context(b"m", library=recorder.library, check=False)
    copy = original.duplicate()
    assert recorder.log("rknn_dup_context") == [f"rknn_dup_context in={original.number}"]
    numbers = [f"rknn_destroy ctx={copy.number}", f"rknn_destroy ctx={original.number}"]
    original.close()
    copy.run()
    assert recorder.log("rknn_destroy") == []
    copy.close()
    assert recorder.log("rknn_destroy") == numbers


def test_1_5_2_crashes_in_duplicates_after_a_question() -> None:
    """Seen with a model of several operators; the question may also have gone to a duplicate."""
    recorder = Recorder.build("1.5.2")
    with Context(b"m", library=recorder.library, check=False) as original, original.duplicate() as copy:
        assert copy.memory_size.weights_bytes == 1000
        with pytest.raises(ValueError, match=r"library 1\.5\.2 crashes .* duplicate first, then ask"):
            original.duplicate()
    newer = Recorder.build("1.6.0")
    with Context(b"m", library=newer.library, check=False) as original:
        assert original.memory_size.weights_bytes == 1000
        original.duplicate().close()


def test_errors_at_the_end_are_raised_but_the_end_counts(recorder: Recorder) -> None:
    context = Context(b"m", library=recorder.library, check=False)
    recorder.fail("rknn_destroy", -7)
    with pytest.raises(CallError, match="RKNN_ERR_CTX_INVALID"):
        context.close()
    assert context.closed
    context.close()


def test_an_error_during_set_up_leaves_nothing_behind(recorder: Recorder) -> None:
    recorder.fail("rknn_query", -3)
    with pytest.raises(CallError, match="RKNN_ERR_DEVICE_UNAVAILABLE"):
        Context(b"m", library=recorder.library, check=False)
    with pytest.raises(CallError, match="RKNN_ERR_MODEL_INVALID"):
        Context(b"bad", library=recorder.library, check=False)
    assert len(recorder.log("rknn_destroy")) == 1


# -------------------------------------------------------------------------------------------------- threads


def test_contexts_run_side_by_side_in_threads(recorder: Recorder) -> None:
    with Context(b"m", library=recorder.library, check=False) as original:
        copies = [original.duplicate() for _ in range(4)]
        barrier = threading.Barrier(4)

        def work(context: Context) -> None:
            barrier.wait()
            for _ in range(200):
                context.run()
                context.get_outputs()
            context.close()

        threads = [threading.Thread(target=work, args=[copy]) for copy in copies]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert recorder.text().count("rknn_run") == 800


def test_closing_waits_for_a_run_in_another_thread(recorder: Recorder) -> None:
    """The custom operator makes the run slow; the close in between must not destroy the context under it."""
    from openrknn.vendor import CustomOp

    context = Context(b"m", library=recorder.library, check=False)
    started = threading.Event()

    def slow(_: object) -> None:
        started.set()
        time.sleep(0.1)

    context.register_custom_ops([CustomOp("cstSlow", slow)])
    thread = threading.Thread(target=context.run)
    thread.start()
    started.wait()
    context.close()
    thread.join()
    names = [line.split(" ")[0] for line in recorder.log("rknn_run", "compute_callback", "rknn_destroy")]
    assert names == ["rknn_run", "compute_callback", "rknn_destroy"]
