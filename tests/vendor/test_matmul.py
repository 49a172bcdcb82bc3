"""Matrix multiplication: what is asked of the library, layouts, shapes, scales."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from openrknn.errors import UnsupportedError
from openrknn.vendor import (
    CallError,
    ClosedError,
    CoreMask,
    Matmul,
    MatmulLayout,
    MatmulQuantization,
    MatmulType,
    TensorType,
)
from openrknn.vendor.matmul.matrices import decoded, pack_a, pack_b, stored, unpack_c
from tests.vendor.recording import Recorder

INT8 = MatmulType.INT8_MM_INT8_TO_INT32
RANDOM = np.random.default_rng(5)


def int8(*shape: int) -> np.ndarray:
    return RANDOM.integers(-128, 128, shape, dtype=np.int8)


@pytest.mark.parametrize("b_layout", list(MatmulLayout))
@pytest.mark.parametrize("ac_layout", [MatmulLayout.NORM, MatmulLayout.NATIVE])
def test_products_in_every_layout(recorder: Recorder, b_layout: MatmulLayout, ac_layout: MatmulLayout) -> None:
    a, b = int8(5, 64), int8(64, 96)
    with Matmul(5, 64, 96, INT8, b_layout=b_layout, ac_layout=ac_layout, library=recorder.library) as matmul:
        expected = a.astype(np.int32) @ b.astype(np.int32)
        assert np.array_equal(matmul(a, b), expected)
        assert np.array_equal(matmul(a[::-1].copy()), expected[::-1])  # B stays


@pytest.mark.parametrize("version", ["1.5.2", "1.6.0", "2.0.0b0", "2.3.2"])
def test_the_struct_of_every_version(version: str) -> None:
    recorder = Recorder.build(version)
    a, b = int8(2, 32), int8(32, 32)
    with Matmul(2, 32, 32, INT8, b_layout=MatmulLayout.NATIVE, library=recorder.library) as matmul:
        assert np.array_equal(matmul(a, b), a.astype(np.int32) @ b.astype(np.int32))
    assert "M=2 K=32 N=32 type=2 B_layout=1 AC_layout=0" in recorder.log("rknn_matmul_create")[0]


def test_everything_reaches_the_library(recorder: Recorder) -> None:
    matmul = Matmul(
        1, 64, 64, MatmulType.FLOAT16_MM_INT4_TO_FLOAT16, b_layout=MatmulLayout.NATIVE,
        b_quantization=MatmulQuantization.PER_GROUP_SYM, ac_quantization=MatmulQuantization.PER_LAYER_ASYM,
        group_size=32, iommu_domain=3, library=recorder.library,
    )  # fmt: skip
    assert recorder.log("rknn_matmul_create") == [
        "rknn_matmul_create M=1 K=64 N=64 type=8 B_layout=1 AC_layout=0 B_quant=4 AC_quant=1 iommu=3 group=32"
    ]
    assert (matmul.a.type, matmul.b.type, matmul.c.type) == (
        TensorType.FLOAT16, TensorType.INT4, TensorType.FLOAT16,
    )  # fmt: skip
    assert matmul.b.shape == (1, 2, 64, 32)
    assert matmul.b.size_bytes == 64 * 64 // 2
    matmul.set_core_mask(CoreMask.CORE_0_1)
    matmul.close()
    matmul.close()
    assert [line.split(" ")[0] for line in recorder.log()] == ["rknn_matmul_set_core_mask", "rknn_matmul_destroy"]


@pytest.mark.parametrize("kind", list(MatmulType))
def test_every_type_can_be_made(recorder: Recorder, kind: MatmulType) -> None:
    with Matmul(4, 64, 64, kind, library=recorder.library) as matmul:
        assert (matmul.a.type, matmul.b.type, matmul.c.type) == kind.types
        a = np.zeros((4, 64), np.float16 if kind.types[0] is TensorType.FLOAT16 else np.int8)
        b = np.zeros((64, 64), np.float16 if kind.types[1] is TensorType.FLOAT16 else np.int8)
        assert matmul(a, b).shape == (4, 64)


def test_types_that_a_version_does_not_know() -> None:
    library = Recorder.build("1.5.2").library
    with pytest.raises(UnsupportedError, match=r"RKNN_INT4_MM_INT4_TO_INT16 needs librknnrt 1\.6\.0"):
        Matmul(4, 64, 64, MatmulType.INT4_MM_INT4_TO_INT16, library=library)
    with pytest.raises(UnsupportedError, match=r"RKNN_MM_LAYOUT_TP_NORM needs librknnrt 2\.1\.0"):
        Matmul(4, 64, 64, INT8, b_layout=MatmulLayout.TP_NORM, library=library)
    with pytest.raises(UnsupportedError, match="PER_CHANNEL_SYM needs"):
        Matmul(4, 64, 64, INT8, b_quantization=MatmulQuantization.PER_CHANNEL_SYM, library=library)
    with pytest.raises(UnsupportedError, match="iommu_domain needs"):
        Matmul(4, 64, 64, INT8, iommu_domain=1, library=library)
    with pytest.raises(UnsupportedError, match=r"create_dynamic_shape needs librknnrt 2\.0\.0-beta0"):
        Matmul(type=INT8, shapes=[(1, 32, 32)], library=library)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"m": 0}, "positive"),
        ({"k": 0}, "positive"),  # runtime 1.5.2 aborts
        ({"n": -32}, "positive"),
        ({"m": 2**31}, "positive"),
        ({"ac_layout": MatmulLayout.TP_NORM}, "only B can be TP_NORM"),
        ({"b_quantization": MatmulQuantization.PER_GROUP_SYM}, "group size that divides K, not 0"),
        ({"b_quantization": MatmulQuantization.PER_GROUP_SYM, "group_size": 48}, "not 48"),
        ({"shapes": []}, "needs a shape"),
        ({"chip": "rk3588", "k": 48}, "RK3588: K must be a multiple of 32 and N of 32, not 48 and 64; pad with zeros"),
        ({"chip": "rk3566", "n": 72}, "K must be a multiple of 32 and N of 16"),
        ({"type": 99}, "99"),
    ],
)
def test_impossible_multiplications(recorder: Recorder, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Matmul(**{"m": 4, "k": 64, "n": 64, "type": INT8, "library": recorder.library, **arguments})
    assert recorder.log() == []


def test_rows_that_1_5_2_writes_past_the_end() -> None:
    """Its registers step by a multiple of 4 rows, its buffers do not."""
    library = Recorder.build("1.5.2").library
    for m in (1, 4, 8):
        Matmul(m, 32, 32, INT8, ac_layout=MatmulLayout.NATIVE, library=library).close()
    for m in (2, 3, 5, 17):
        with pytest.raises(ValueError, match=f"M is 1 or a multiple of 4, not {m}"):
            Matmul(m, 32, 32, INT8, ac_layout=MatmulLayout.NATIVE, library=library)
        Matmul(m, 32, 32, INT8, library=library).close()


def test_b_is_bound_after_its_numbers_are_there(recorder: Recorder) -> None:
    """The library turns B when it is bound, unless it is in the NPU's own layout."""
    with Matmul(2, 32, 32, INT8, library=recorder.library) as matmul:
        for _ in range(2):
            matmul.set_b(int8(32, 32))
        assert len(recorder.log("rknn_matmul_set_io_mem")) == 2
    with Matmul(2, 32, 32, INT8, b_layout=MatmulLayout.NATIVE, library=recorder.library) as matmul:
        for _ in range(2):
            matmul.set_b(int8(32, 32))
        assert len(recorder.log("rknn_matmul_set_io_mem")) == 1


def test_wrong_matrices(recorder: Recorder) -> None:
    with Matmul(4, 64, 32, INT8, library=recorder.library) as matmul:
        for wrong, error, message in (
            (np.zeros((4, 64)), TypeError, "matrix A is int8, so the array must be int8, not float64"),
            (np.zeros((64, 4), np.int8), ValueError, r"matrix A is \[4, 64\], the array is \[64, 4\]"),
            ([[1]], TypeError, "must be a NumPy array"),
        ):
            with pytest.raises(error, match=message):
                matmul.set_a(wrong)  # type: ignore[arg-type]


def test_nothing_runs_without_memory(recorder: Recorder) -> None:
    """Runtime 1.5.2 would run on address 0 and return success."""
    with Matmul(4, 64, 32, INT8, library=recorder.library) as matmul:
        with pytest.raises(ValueError, match="matrix A has no memory"):
            matmul.run()
        for name in "ABC":
            matmul.bind(name)
        matmul.run()
        matmul.bind("B").memory.close()
        recorder.clear()
        with pytest.raises(ValueError, match="matrix B has no memory"):
            matmul.run()
        assert recorder.log("rknn_matmul_run") == []
        with pytest.raises(KeyError, match="'A', 'B' and 'C', not 'D'"):
            matmul.bind("D")
        with pytest.raises(ValueError, match="B needs 2048 bytes of memory, this one has 16"):
            matmul.bind("B", matmul.create_memory(16))
        with (
            Matmul(4, 64, 32, INT8, library=recorder.library) as other,
            pytest.raises(ValueError, match="another context"),
        ):
            matmul.bind("B", other.create_memory(4096))


def test_zero_copy(recorder: Recorder) -> None:
    with Matmul(2, 32, 32, INT8, library=recorder.library) as matmul:
        a, b, c = (matmul.bind(name) for name in "ABC")
        a.array[:] = 1
        b.array.view(np.int8)[:] = -1
        matmul.run()
        assert c.array.view(np.int32).tolist() == [-32] * 64


def test_after_closing(recorder: Recorder) -> None:
    matmul = Matmul(2, 32, 32, INT8, library=recorder.library)
    matmul.close()
    attempts: list[Callable[[], object]] = [
        matmul.run, lambda: matmul.a, lambda: matmul.bind("A"), lambda: matmul.set_core_mask(CoreMask.AUTO),
        lambda: matmul(int8(2, 32)), lambda: matmul.create_memory(4),
    ]  # fmt: skip
    for attempt in attempts:
        with pytest.raises(ClosedError, match="this matrix multiplication was closed"):
            attempt()


def test_errors_of_the_library(recorder: Recorder) -> None:
    recorder.fail("rknn_matmul_create", -5)
    with pytest.raises(CallError, match="rknn_matmul_create returned -5"):
        Matmul(2, 32, 32, INT8, library=recorder.library)
    with Matmul(2, 32, 32, INT8, library=recorder.library) as matmul:
        matmul(int8(2, 32), int8(32, 32))
        recorder.fail("rknn_matmul_run", -1)
        with pytest.raises(CallError, match="rknn_matmul_run returned -1"):
            matmul.run()


# -------------------------------------------------------------------------------------------------- shapes


@pytest.mark.parametrize(
    ("version", "name"), [("2.0.0b0", "rknn_matmul_create_dyn_shape"), ("2.3.2", "rknn_matmul_create_dynamic_shape")]
)
def test_several_shapes(version: str, name: str) -> None:
    recorder = Recorder.build(version)
    shapes = [(1, 64, 32), (4, 64, 32)]
    with Matmul(type=INT8, shapes=shapes, library=recorder.library) as matmul:
        assert recorder.log(name)[0].startswith(f"{name} n=2 [1 64 32] [4 64 32]")
        with pytest.raises(ValueError, match="choose a shape first"):
            matmul.set_a(int8(1, 64))
        b = int8(64, 32)
        for m, k, n in shapes:
            matmul.set_shape((m, k, n))
            a = int8(m, k)
            assert np.array_equal(matmul(a, b), a.astype(np.int32) @ b.astype(np.int32))
        with pytest.raises(ValueError, match=r"\(9, 64, 32\) is not one of"):
            matmul.set_shape((9, 64, 32))
    with (
        Matmul(2, 32, 32, INT8, library=recorder.library) as matmul,
        pytest.raises(ValueError, match="one shape"),
    ):
        matmul.set_shape((2, 32, 32))


# -------------------------------------------------------------------------------------------------- scales


def test_scales(recorder: Recorder) -> None:
    with Matmul(
        2, 64, 32, INT8, b_quantization=MatmulQuantization.PER_CHANNEL_SYM, library=recorder.library
    ) as matmul:
        matmul.set_quantization("A", 0.25, 3)
        matmul.set_quantization("B", np.linspace(0.5, 2, 32))
        assert recorder.log("rknn_matmul_set_quant_params") == [
            "rknn_matmul_set_quant_params name=A scale=1:0.25..0.25 zp=1:3..3",
            "rknn_matmul_set_quant_params name=B scale=32:0.5..2 zp=32:0..0",
        ]
        answer = matmul.get_quantization("B")
        assert answer.scale == 2
        assert answer.channels.shape == (32,)
        for scale, zero in ((np.ones(31), 0), (1.0, 0), (np.ones(32), [1, 2])):
            with pytest.raises(ValueError, match="matrix B has 32 scales"):
                matmul.set_quantization("B", scale, zero)
        with pytest.raises(ValueError, match="must be positive"):
            matmul.set_quantization("B", np.zeros(32))
        with pytest.raises(ValueError, match="matrix C has no scales yet"):
            matmul.get_quantization("C")
        with pytest.raises(KeyError):
            matmul.set_quantization("D", 1)


def test_scales_per_group(recorder: Recorder) -> None:
    kind, groups = MatmulType.FLOAT16_MM_INT4_TO_FLOAT32, MatmulQuantization.PER_GROUP_SYM
    with Matmul(2, 64, 64, kind, b_quantization=groups, group_size=32, library=recorder.library) as matmul:
        matmul.set_quantization("B", np.ones((2, 64)))
        assert "scale=128:1..1" in recorder.log("rknn_matmul_set_quant_params")[0]


def test_scales_need_2_0() -> None:
    with (
        Matmul(2, 32, 32, INT8, library=Recorder.build("1.5.2").library) as matmul,
        pytest.raises(UnsupportedError, match=r"rknn_matmul_set_quant_params needs librknnrt 2\.0\.0-beta0"),
    ):
        matmul.set_quantization("A", 1)


# -------------------------------------------------------------------------------------------------- layouts


@pytest.mark.parametrize(
    ("version", "arguments"),
    [("2.0.0b0", "K=64 N=96 subN=32 subK=32 type=2"), ("2.3.2", "K=64 N=96 info=2")],
)
def test_the_librarys_own_conversion_of_b(version: str, arguments: str) -> None:
    recorder = Recorder.build(version)
    b = int8(64, 96)
    with Matmul(2, 64, 96, INT8, b_layout=MatmulLayout.NATIVE, library=recorder.library) as matmul:
        native = matmul.b_to_native(b)
        assert recorder.log("rknn_B_normal_layout_to_native_layout")[0].endswith(arguments)
        assert np.array_equal(native.view(np.int8), pack_b(b, 32, 32))
    with (
        Matmul(2, 64, 96, INT8, library=recorder.library) as matmul,
        pytest.raises(ValueError, match="b_layout"),
    ):
        matmul.b_to_native(b)


def test_layouts_element_by_element() -> None:
    a, b, c = np.arange(6 * 32).reshape(6, 32), np.arange(64 * 32).reshape(64, 32), np.arange(6 * 8).reshape(6, 8)
    packed = pack_a(a, 8)
    assert all(packed[k // 8, m, k % 8] == a[m, k] for m in range(6) for k in range(32))
    flat = pack_b(b, 16, 32).reshape(2, 2, 16, 32)
    assert all(flat[n // 16, k // 32, n % 16, k % 32] == b[k, n] for k in range(64) for n in range(32))
    native = np.stack([c[:, 4 * block : 4 * block + 4] for block in range(2)])
    assert np.array_equal(unpack_c(native), c)


def test_large_k_is_cut_into_segments() -> None:
    b = np.arange(96 * 32, dtype=np.int32).reshape(96, 32)
    cut = pack_b(b, 32, 32, segment=64)
    assert np.array_equal(cut, np.concatenate([pack_b(b[:64], 32, 32), pack_b(b[64:], 32, 32)]))


def test_small_numbers_are_packed() -> None:
    values = np.array([-8, 7, 1, -1], np.int8)
    assert stored(values, TensorType.INT4).tolist() == [0x78, 0xF1]
    assert decoded(stored(values, TensorType.INT4), TensorType.INT4).tolist() == [-8, 7, 1, -1]
    assert decoded(np.array([0x80, 0x3F], np.uint8), TensorType.BFLOAT16).tolist() == [1.0]
