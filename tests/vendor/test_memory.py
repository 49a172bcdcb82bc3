"""Memory: making it, looking into it, and what happens when it goes away."""

from __future__ import annotations

import gc
import mmap
import os
from collections.abc import Iterator

import numpy as np
import pytest

from openrknn.errors import UnsupportedError
from openrknn.vendor import (
    AllocFlag,
    CallMemoryError,
    ClosedError,
    Context,
    MemoryOrigin,
    SyncMode,
    TensorMemory,
)
from tests.vendor.recording import Recorder


@pytest.fixture
def memory(context: Context, recorder: Recorder) -> TensorMemory:
    made = context.create_memory(64)
    recorder.clear()
    return made


@pytest.fixture
def buffer() -> Iterator[int]:
    """A descriptor with 8192 bytes, as a dma-buf would be."""
    fd = os.memfd_create("buffer")
    os.ftruncate(fd, 8192)
    yield fd
    os.close(fd)


# -------------------------------------------------------------------------------------------------- making


def test_create(context: Context, recorder: Recorder) -> None:
    memory = context.create_memory(100)
    assert (memory.size_bytes, memory.offset, memory.origin) == (100, 0, MemoryOrigin.ALLOC_INSIDE)
    assert memory.physical_address == 0xFFF00000
    assert recorder.log() == ["rknn_create_mem size=100"]


def test_create_with_flags(context: Context, recorder: Recorder) -> None:
    context.create_memory(100, AllocFlag.NON_CACHEABLE | AllocFlag.TRY_ALLOC_SRAM)
    assert recorder.log() == ["rknn_create_mem2 ctx=1 size=100 flags=6"]


def test_flags_need_a_new_library() -> None:
    with Context(b"m", library=Recorder.build("1.5.2").library, check=False) as old:
        with pytest.raises(UnsupportedError, match=r"rknn_create_mem2 needs librknnrt 2\.0\.0-beta0"):
            old.create_memory(10, AllocFlag.DEFAULT)
        with pytest.raises(UnsupportedError, match="RKNN_FLAG_MEMORY_NON_CACHEABLE needs"):
            old.create_memory(10, AllocFlag.NON_CACHEABLE)
    with (
        Context(b"m", library=Recorder.build("2.1.0").library, check=False) as old,
        pytest.raises(UnsupportedError, match=r"TRY_ALLOC_SRAM needs librknnrt 2\.3\.2"),
    ):
        old.create_memory(10, AllocFlag.TRY_ALLOC_SRAM)


@pytest.mark.parametrize("size", [0, -1, 2**32])
def test_sizes_that_cannot_be(context: Context, recorder: Recorder, size: int) -> None:
    with pytest.raises(ValueError, match="between 1 byte and 4 GB"):
        context.create_memory(size)
    assert recorder.log() == []


def test_an_allocation_that_fails(context: Context, recorder: Recorder) -> None:
    recorder.fail("rknn_create_mem", -4)
    with pytest.raises(CallMemoryError, match="rknn_create_mem returned -4 RKNN_ERR_MALLOC_FAIL"):
        context.create_memory(10)
    with pytest.raises(TypeError):
        context.create_memory(10.5)  # type: ignore[arg-type]


def test_from_a_descriptor(context: Context, recorder: Recorder, buffer: int) -> None:
    memory = context.memory_from_fd(buffer, 4096, offset=4096)
    assert recorder.log() == [f"rknn_create_mem_from_fd fd={buffer} virt=1 size=4096 offset=4096"]
    memory.array()[:] = 7
    assert os.pread(buffer, 8192, 0) == bytes(4096) + b"\7" * 4096
    assert memory.origin is MemoryOrigin.FROM_FD


def test_from_a_descriptor_with_a_mapping_of_the_caller(context: Context, buffer: int) -> None:
    mapping = mmap.mmap(buffer, 8192)
    memory = context.memory_from_fd(buffer, 100, buffer=mapping)
    memory.array(np.int16)[:] = -2
    assert mapping[:100] == b"\xfe\xff" * 50
    with pytest.raises(BufferError):
        mapping.close()  # the memory holds it
    memory.close()
    gc.collect()
    mapping.close()


def test_wrong_descriptors(context: Context, recorder: Recorder, buffer: int) -> None:
    with pytest.raises(OSError, match="Bad file descriptor"):
        context.memory_from_fd(9999, 10)
    with pytest.raises(OSError, match="Bad file descriptor"):
        context.memory_from_fd(-1, 10)
    with pytest.raises(ValueError, match=r"has 8192 bytes, 4096 \+ 5000 are wanted"):
        context.memory_from_fd(buffer, 5000, offset=4096)
    with pytest.raises(ValueError, match="before the start of the buffer"):
        context.memory_from_fd(buffer, 10, offset=-1)
    with pytest.raises(ValueError, match="has 10 bytes, 100 are wanted"):
        context.memory_from_fd(buffer, 100, buffer=bytearray(10))
    with pytest.raises(ValueError, match="contiguous and writable"):
        context.memory_from_fd(buffer, 5, buffer=b"hello")
    with pytest.raises(TypeError):
        context.memory_from_fd(buffer, 5, buffer=3.5)
    assert recorder.log() == []


def test_from_a_physical_address(context: Context, recorder: Recorder) -> None:
    seen = bytearray(16)
    memory = context.memory_from_physical(0x1000, 16, buffer=seen)
    memory.array()[3] = 9
    assert seen[3] == 9
    assert recorder.log() == ["rknn_create_mem_from_phys phys=4096 virt=1 size=16"]
    blind = context.memory_from_physical(0x1000, 16)
    with pytest.raises(ValueError, match="no address for the CPU"):
        blind.array()
    with pytest.raises(ValueError, match="not an address"):
        context.memory_from_physical(-4, 16)


def test_from_a_media_block(context: Context, recorder: Recorder) -> None:
    memory = context.memory_from_mb_blk(0x1234, offset=8)
    assert recorder.log() == ["rknn_create_mem_from_mb_blk block=4660 offset=8"]
    assert memory.size_bytes == 4096
    with pytest.raises(ValueError, match="not 0"):
        context.memory_from_mb_blk(0)


# -------------------------------------------------------------------------------------------------- views


def test_views_share_the_memory(memory: TensorMemory) -> None:
    whole = memory.array()
    words = memory.array(np.int32, (2, 4), offset=32)
    words[1, 3] = 0x01020304
    assert whole[-4:].tolist() == [4, 3, 2, 1]
    assert memory.array(np.float16).shape == (32,)
    assert words.flags.writeable


@pytest.mark.parametrize(
    ("dtype", "shape", "offset"),
    [
        (np.uint8, 65, 0),
        (np.int32, (4, 5), 0),
        (np.uint8, 1, 64),
        (np.uint8, 1, 65),
        (np.uint8, -1, 0),
        (np.uint8, 1, -1),
        (np.uint8, (2**40, 2**40), 0),
    ],
)
def test_views_stay_inside(memory: TensorMemory, dtype: type, shape: int | tuple[int, ...], offset: int) -> None:
    with pytest.raises(ValueError, match=r"does not fit|outside"):
        memory.array(dtype, shape, offset=offset)


def test_views_of_objects_are_refused(memory: TensorMemory) -> None:
    with pytest.raises(TypeError, match="plain numbers"):
        memory.array(object)


def test_sync(memory: TensorMemory, recorder: Recorder) -> None:
    for mode in SyncMode:
        memory.sync(mode)
    assert recorder.log() == [f"rknn_mem_sync size=64 mode={int(mode)}" for mode in SyncMode]
    with pytest.raises(ValueError, match="4"):
        memory.sync(4)  # type: ignore[arg-type]


def test_sync_needs_1_6() -> None:
    with (
        Context(b"m", library=Recorder.build("1.5.2").library, check=False) as old,
        pytest.raises(UnsupportedError, match=r"rknn_mem_sync needs librknnrt 1\.6\.0 or newer"),
    ):
        old.create_memory(4).sync()


# -------------------------------------------------------------------------------------------------- lives


def test_closed_memory_cannot_be_used(memory: TensorMemory, recorder: Recorder) -> None:
    memory.close()
    memory.close()
    assert recorder.log() == ["rknn_destroy_mem size=64"]
    for attempt in (memory.array, memory.sync, lambda: memory.pointer, memory.__enter__):
        with pytest.raises(ClosedError, match="this memory was closed"):
            attempt()


def test_a_with_block_closes(context: Context, recorder: Recorder) -> None:
    with context.create_memory(8) as memory:
        memory.array()[:] = 1
    assert recorder.log() == ["rknn_create_mem size=8", "rknn_destroy_mem size=8"]


def test_an_array_outlives_its_memory(memory: TensorMemory, recorder: Recorder) -> None:
    view = memory.array()[10:20]
    view[:] = 5
    memory.close()
    gc.collect()
    assert recorder.log() == []
    assert view.sum() == 50
    view[0] = 6
    del view
    gc.collect()
    assert recorder.log() == ["rknn_destroy_mem size=64"]


def test_an_array_outlives_its_context(recorder: Recorder) -> None:
    with Context(b"m", library=recorder.library, check=False) as context:
        first, second = context.create_memory(64), context.create_memory(32)
        view = first.array(np.int32)
        _ = second
    assert context.closed
    assert first.closed
    assert recorder.log("rknn_destroy", "rknn_destroy_mem") == ["rknn_destroy_mem size=32"]
    view[:] = 3
    assert view.sum() == 48
    del view
    gc.collect()
    names = [line.split(" ")[0] for line in recorder.log()]
    assert names == ["rknn_destroy_mem", "rknn_destroy"]


def test_memory_is_closed_with_its_context(recorder: Recorder) -> None:
    with Context(b"m", library=recorder.library, check=False) as context:
        context.create_memory(1)
        context.create_memory(2).close()
        recorder.clear()
    names = [line.split(" ctx")[0] for line in recorder.log()]
    assert names == ["rknn_destroy_mem size=1", "rknn_destroy"]


def test_no_memory_is_left_in_the_library(recorder: Recorder) -> None:
    with Context(b"m", library=recorder.library, check=False) as context:
        for _ in range(50):
            with context.create_memory(16) as memory:
                memory.array()[0] = 1
        assert context._closers == []
    assert len(recorder.log("rknn_destroy_mem")) == 50
