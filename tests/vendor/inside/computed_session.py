"""`Session(device="vendor")` computes on the emulated NPU what `Session(device="software")` computed outside."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn import DmaBuf, Matmul, Session, SessionPool, UnsupportedError, load
from openrknn.layout import nc1hwc2_to_nchw
from openrknn.runtime.errors import ClosedError
from tests.vendor.inside.board_tools import golden, raises

Array = npt.NDArray[Any]
ANSWERS = Path(os.environ["BOARD_ANSWERS"])
RESIDUAL = golden("residual_rk3588_i8")


def answer(name: str) -> tuple[list[Array], list[Array]]:
    stored = np.load(ANSWERS / f"{name}.npz")
    count = sum(key.startswith("x") for key in stored)
    return [stored[f"x{i}"] for i in range(count)], [stored[f"o{i}"] for i in range(len(stored) - count)]


def equal(results: dict[str, Array], expected: Sequence[Array]) -> bool:
    return all(
        ours.dtype == theirs.dtype and np.array_equal(ours, theirs, equal_nan=ours.dtype.kind == "f")
        for ours, theirs in zip(results.values(), expected, strict=True)
    )


def check_all_models_give_the_same() -> None:
    wrong = []
    for path in sorted(ANSWERS.glob("*.npz")):
        inputs, expected = answer(path.stem)
        with Session(golden(path.stem), device="vendor") as session:
            results = session.run(inputs)
            if path.stem == "cpu_sin_rk3588_i8":  # the library's sine on the CPU is another one
                step = session.outputs[0].quantization
                assert step is not None
                assert np.abs(results["y"] - expected[0]).max() < 1.01 * step.scale[0]
            elif not equal(results, expected):
                wrong.append(path.stem)
    assert not wrong, wrong


def check_kinds_of_inputs_and_outputs() -> None:
    inputs, (expected,) = answer("residual_rk3588_i8")
    pixels = inputs[0]
    with Session(RESIDUAL, device="vendor") as session:
        name = session.outputs[0].name
        assert session.device.name.startswith("vendor:")
        for fed in (pixels, pixels[0], [pixels], {"image": pixels}, pixels.transpose(0, 3, 1, 2), pixels.astype(float)):
            assert np.array_equal(session.run(fed)[name], expected)
        raw = session.run(pixels, outputs="raw")[name]
        about = session.outputs[0].quantization
        assert about is not None
        assert np.array_equal((raw.astype(np.float32) - about.zero_point[0]) * np.float32(about.scale[0]), expected)
        native = session.run(pixels, outputs="native")[name]
        assert np.array_equal(nc1hwc2_to_nchw(native, raw.shape[1]), raw)
        stored = (pixels.astype(np.int32) - 128).astype(np.int8)  # scale 1/255, mean 0
        assert np.array_equal(session.run(stored, pass_through=True)[name], expected)
        with raises(ValueError, "it has to be (1, 16, 16, 3)"):
            session.run(np.zeros((1, 8, 8, 3), np.uint8))
        with raises(TypeError, "an array is needed"):
            session.run("picture")


def check_the_file_from_bytes_and_models() -> None:
    inputs, expected = answer("residual_rk3588_i8")
    for model in (RESIDUAL.read_bytes(), load(RESIDUAL), load(RESIDUAL.read_bytes())):
        with Session(model, device="vendor") as session:
            assert equal(session.run(inputs), expected)


def check_bound_memory() -> None:
    inputs, (expected,) = answer("residual_rk3588_i8")
    with Session(RESIDUAL, device="vendor") as session:
        bound = session.bind()
        (name,) = bound.outputs
        bound.inputs["image"][...] = inputs[0]
        bound.run()
        about = session.outputs[0].quantization
        assert about is not None
        scale, zero = about.scale[0], about.zero_point[0]
        floats = nc1hwc2_to_nchw(bound.outputs[name], expected.shape[1], scale=scale, zero_point=zero)
        assert np.array_equal(floats, expected)
        camera = session.context.create_memory(8192)
        camera.array()[4096 : 4096 + 768] = inputs[0].reshape(-1)
        theirs = session.bind(
            inputs={"image": DmaBuf(camera.fd, 4096, offset=4096)},
            outputs={name: session.context.create_memory(4096)},
        )
        assert np.array_equal(theirs.inputs["image"], inputs[0])
        bound.inputs["image"][...] = 0
        theirs.run()
        floats = nc1hwc2_to_nchw(theirs.outputs[name], expected.shape[1], scale=scale, zero_point=zero)
        assert np.array_equal(floats, expected)
        bound.run()
        assert not np.array_equal(bound.outputs[name], theirs.outputs[name])
        assert np.array_equal(session.run(inputs)[name], expected)
        with raises(TypeError, "the NPU cannot see ordinary memory"):
            session.bind(inputs={"image": np.zeros(4096, np.uint8)})
        with raises(ValueError, "needs 768 bytes of memory"):
            session.bind(inputs={"image": DmaBuf(camera.fd, 100)})
        with raises(ValueError, "no input is called 'camera'"):
            session.bind(inputs={"camera": DmaBuf(camera.fd)})
    with raises(ClosedError, "closed"):
        theirs.run()
    with raises(ClosedError, "closed"):
        session.run(inputs)
    assert np.array_equal(bound.inputs["image"], inputs[0])  # the pages stay while somebody looks at them


def check_pictures_with_padded_rows() -> None:
    inputs, expected = answer("two_inputs_rk3588_i8")
    with Session(golden("two_inputs_rk3588_i8"), device="vendor") as session:
        for _ in range(2):
            assert equal(session.run(inputs), expected)
            assert equal(session.run([inputs[0].astype(np.float32), inputs[1]]), expected)


def check_shapes() -> None:
    random = np.random.default_rng(3)
    with Session(golden("dynamic_rk3588_i8"), device="vendor") as session:
        name = session.outputs[0].name
        for _ in range(2):
            for shapes in session.allowed_shapes:
                session.set_shapes(shapes)
                pixels = random.integers(0, 256, shapes["image"], dtype=np.uint8)
                result = session.run(pixels)[name]
                assert result.any()
                assert result.shape == session.outputs[0].shape
                assert np.array_equal(result, session.run(pixels.astype(np.float32))[name])
        with raises(ValueError, "was not built for the shapes"):
            session.set_shapes((1, 5, 5, 3))


def check_cores_and_masks() -> None:
    inputs, expected = answer("residual_rk3588_i8")
    for options in ({"cores": 1}, {"cores": 2}, {"cores": 3}, {"core_mask": 0}, {"core_mask": 4}, {"core_mask": 7}):
        with Session(RESIDUAL, device="vendor", **options) as session:  # type: ignore[arg-type]
            assert equal(session.run(inputs), expected), options
    with raises(ValueError, "no core mask 5"):
        Session(RESIDUAL, device="vendor", core_mask=5)


def check_pools_threads_and_async() -> None:
    inputs, expected = answer("residual_rk3588_i8")
    with SessionPool(RESIDUAL, size=3, device="vendor") as pool:
        assert all(equal(result, expected) for result in pool.map([inputs] * 8))
        with pool.session() as session:
            assert session.memory().weight_users == 3
    with Session(RESIDUAL, device="vendor") as session:
        futures = [session.run_async(inputs) for _ in range(4)]
        assert all(equal(future.result(), expected) for future in futures)
        with ThreadPoolExecutor(3) as threads:
            assert all(equal(result, expected) for result in threads.map(session.run, [inputs] * 6))
    assert threading.active_count() == 1


def check_shared_weights_after_memory_was_asked_for() -> None:
    inputs, expected = answer("residual_rk3588_i8")
    with Session(load(RESIDUAL), device="vendor") as first:
        report = first.memory()
        assert report.weights > 0
        assert report.inputs >= 768
        with Session(first.model, share_weights_with=first) as second:
            assert equal(second.run(inputs), expected)
        assert equal(first.run(inputs), expected)


def check_profile() -> None:
    inputs, _ = answer("cpu_sin_rk3588_i8")
    with Session(golden("cpu_sin_rk3588_i8"), device="vendor") as session:
        expected = session.run(inputs)
        profile = session.profile(inputs, runs=2)
        assert [row.type for row in profile.operators] == ["Conv", "Sin", "Conv"]
        assert all(row.seconds > 0 for row in profile.operators)
        assert equal(session.run(inputs), list(expected.values()))


def check_operators_of_the_library_cannot_be_replaced() -> None:
    with raises(UnsupportedError, "has its own Sin"):
        Session(golden("cpu_sin_rk3588_i8"), device="vendor", custom_ops={"Sin": lambda arrays, _: arrays[0]})


def check_many_runs_leave_nothing_behind() -> None:
    inputs, expected = answer("residual_rk3588_i8")
    gc.collect()
    gc.disable()
    try:
        with Session(RESIDUAL, device="vendor") as session:
            session.run(inputs)
            before = len(gc.get_objects())
            for _ in range(20):
                assert equal(session.run(inputs), expected)
            assert len(gc.get_objects()) - before < 5
    finally:
        gc.enable()


def check_our_products_equal_the_library_s() -> None:
    """Our register commands on the kernel driver, the same on the software NPU, and the vendor's own commands."""
    random = np.random.default_rng(8)
    for m, k, n in ((4, 64, 32), (1, 256, 64), (17, 96, 96)):
        a, b = random.integers(-128, 128, (m, k), dtype=np.int8), random.integers(-128, 128, (k, n), dtype=np.int8)
        half = random.standard_normal((m, k)).astype(np.float16), random.standard_normal((k, n)).astype(np.float16)
        for kind, left, right in (("int8", a, b), ("fp16", *half)):
            results = []
            for device in ("vendor", "rknpu", "software"):
                with Matmul(m, k, n, kind, device=device) as matmul:
                    results.append(matmul(left, right))
            assert np.array_equal(results[0], results[1]), (m, k, n, kind)
            assert np.array_equal(results[0], results[2]), (m, k, n, kind)
