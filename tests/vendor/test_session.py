"""`Session` on a library in this process that computes nothing: what reaches it, what comes back, what is refused."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from openrknn import DmaBuf, Session, SessionPool, UnsupportedError, load
from openrknn.runtime.errors import ClosedError
from openrknn.runtime.vendor.engine import vendor_library
from openrknn.vendor import CallError, Context, Library
from tests.runtime.cases import golden
from tests.vendor.idling import idle_library, runs

RESIDUAL = golden("residual_rk3588_i8")


@pytest.fixture
def library() -> Library:
    return idle_library(load(RESIDUAL), answers=True)


@pytest.fixture
def session(library: Library) -> Iterator[Session]:
    with Session(RESIDUAL, device=f"vendor:{library.path}") as made:
        yield made


def picture(first: int = 5) -> npt.NDArray[np.uint8]:
    pixels = np.random.default_rng(1).integers(0, 256, (1, 16, 16, 3), dtype=np.uint8)
    pixels[0, 0, 0, 0] = first
    return pixels


def expected(first: int) -> npt.NDArray[np.int8]:
    """The bytes that the idle library writes, as [1, 32, 4, 4]."""
    native = (first + 7 * np.arange(512)).astype(np.uint8).view(np.int8).reshape(1, 2, 4, 4, 16)
    return native.transpose(0, 1, 4, 2, 3).reshape(1, 32, 4, 4)


def test_pixels_go_in_and_the_npu_s_memory_comes_out(session: Session, library: Library) -> None:
    assert session.device.name == f"vendor:{library.path}"
    assert session.device.chip.name == "rk3588"
    before = runs(library)
    raw = session.run(picture(9), outputs="raw")["features"]
    assert np.array_equal(raw, expected(9))
    about = session.outputs[0].quantization
    assert about is not None
    floats = session.run({"image": picture(9)})["features"]
    assert np.array_equal(floats, (expected(9).astype(np.float32) - about.zero_point[0]) * np.float32(about.scale[0]))
    assert runs(library) == before + 2


def test_floats_are_stored_as_on_the_software_npu(session: Session) -> None:
    numbers = picture(9).astype(np.float32)
    assert np.array_equal(session.run(numbers, outputs="raw")["features"], expected(9 - 128))  # scale 1/255: x - 128
    assert np.array_equal(session.run(picture(9), outputs="raw")["features"], expected(9))


def test_bound_memory_is_what_the_library_got(session: Session) -> None:
    bound = session.bind()
    bound.inputs["image"][...] = picture(3)
    bound.run()
    native = bound.outputs["features"]
    assert np.array_equal(native.transpose(0, 1, 4, 2, 3).reshape(1, 32, 4, 4), expected(3))
    session.close()
    with pytest.raises(ClosedError, match="closed"):
        bound.run()
    assert bound.inputs["image"][0, 0, 0, 0] == 3  # the pages stay while somebody looks at them


@pytest.mark.parametrize("device", ["vendor", "software"])
def test_dma_bufs_of_the_user_are_used_as_they_are(library: Library, device: str) -> None:
    """The same program on a board and without one. A memfd stands in for the dma-buf of a camera."""
    where = f"vendor:{library.path}" if device == "vendor" else device
    frames = os.memfd_create("camera")
    try:
        os.truncate(frames, 3 * 4096)
        with Session(RESIDUAL, device=where) as session:
            want = session.run(picture(7), outputs="raw")["features"]
            os.pwrite(frames, picture(7).tobytes(), 4096)
            bound = session.bind(
                inputs={"image": DmaBuf(frames, 4096, offset=4096)}, outputs={"features": DmaBuf(frames, offset=8192)}
            )
            bound.run()
            written = np.frombuffer(os.pread(frames, 512, 8192), np.int8).reshape(1, 2, 4, 4, 16)
            assert np.array_equal(written.transpose(0, 1, 4, 2, 3).reshape(1, 32, 4, 4), want)
            assert np.array_equal(session.run(picture(7), outputs="raw")["features"], want)
            bound.run()
            with pytest.raises(ValueError, match="needs 768 bytes of memory, this has 512"):
                session.bind(inputs={"image": DmaBuf(frames, 512)})
            with pytest.raises(ValueError, match="has 12288 bytes; 1 from 12288 on"):
                session.bind(inputs={"image": DmaBuf(frames, 1, offset=12288)})
            with pytest.raises(ValueError, match="no output is called 'image'"):
                session.bind(outputs={"image": DmaBuf(frames)})
            with pytest.raises(TypeError, match="not str"):
                session.bind(inputs={"image": "camera"})
            with pytest.raises(OSError, match="Bad file descriptor"):
                session.bind(inputs={"image": DmaBuf(9999)})
        with pytest.raises(ClosedError):
            bound.run()
    finally:
        os.close(frames)


def test_arrays_of_the_user_work_on_the_software_npu_only(session: Session) -> None:
    with pytest.raises(TypeError, match="the NPU cannot see ordinary memory"):
        session.bind(inputs={"image": np.zeros(768, np.uint8)})
    mine = np.zeros(1000, np.uint8)
    with Session(RESIDUAL, device="software") as software:
        want = software.run(picture(2), outputs="raw")["features"]
        bound = software.bind(inputs={"image": mine})
        mine[:768] = picture(2).reshape(-1)
        bound.run()
        native = bound.outputs["features"]
        assert np.array_equal(native.transpose(0, 1, 4, 2, 3).reshape(1, 32, 4, 4), want)
        with pytest.raises(ValueError, match="contiguous and writable"):
            software.bind(inputs={"image": mine[::2]})
        with pytest.raises(ValueError, match="needs 768 bytes"):
            software.bind(inputs={"image": mine[:100]})


def test_pools_and_threads_share_one_library(library: Library) -> None:
    before = threading.active_count()
    with SessionPool(RESIDUAL, size=3, device=f"vendor:{library.path}") as pool:
        results = list(pool.map([picture(n) for n in range(20)], outputs="raw"))
    assert all(np.array_equal(result["features"], expected(n)) for n, result in enumerate(results))
    assert threading.active_count() <= before


def test_a_context_is_below(session: Session) -> None:
    assert isinstance(session.context, Context)
    assert session.context.counts.inputs == 1
    with Session(RESIDUAL, device="software") as software, pytest.raises(AttributeError, match="has no context"):
        _ = software.context


def test_what_the_library_refuses_is_an_error_of_openrknn(session: Session) -> None:
    with pytest.raises(CallError, match="RKNN_ERR_MODEL_INVALID"):
        session.profile(picture())  # the idle library has no clock
    with pytest.raises(UnsupportedError, match="/nowhere"):
        Session(RESIDUAL, device="vendor:/nowhere")
    with pytest.raises(ValueError, match=r"no core mask 5; it has 0 \(AUTO\), 1"):
        Session(RESIDUAL, device=f"vendor:{session.context.library.path}", core_mask=5)
    assert vendor_library(f"vendor:{session.context.library.path}").version == session.context.library.version


def test_many_runs_leave_nothing_behind(session: Session) -> None:
    """The short form of the soak in benchmarks/vendor_overhead.py."""
    pixels, floats = picture(), picture().astype(np.float32)
    bound = session.bind()

    def work() -> None:
        session.run(pixels)
        session.run([floats])
        bound.run()

    work()
    gc.collect()
    gc.disable()
    try:
        gc.collect()
        before = len(gc.get_objects())
        for _ in range(1000):
            work()
        assert len(gc.get_objects()) - before < 10
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        ours = [thing for thing in gc.garbage if type(thing).__module__.startswith(("openrknn", "numpy", "ctypes"))]
        assert len(ours) < 10
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


@pytest.mark.parametrize(
    ("inputs", "error", "text"),
    [
        (np.zeros((1, 8, 8, 3), np.uint8), ValueError, r"it has to be \(1, 16, 16, 3\)"),
        ([], ValueError, "0 inputs were given"),
        ({"other": picture()}, ValueError, "no input is called 'other'"),
        (np.full((1, 16, 16, 3), np.nan, np.float32), ValueError, "are NaN"),
        (np.zeros((1, 16, 16, 3), complex), TypeError, "complex128"),
        (None, TypeError, "an array is needed"),
    ],
)
def test_wrong_inputs_raise_and_the_session_goes_on(
    session: Session, inputs: Any, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        session.run(inputs)
    assert np.array_equal(session.run(picture(1), outputs="raw")["features"], expected(1))
