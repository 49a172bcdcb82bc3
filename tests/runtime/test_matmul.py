"""Matrix products by our own register commands, on the software NPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import openrknn
from openrknn import numerics
from openrknn.chips import CHIPS
from openrknn.device import SoftwareDevice
from openrknn.errors import UnsupportedError
from openrknn.isa import RK3588, disassemble, format_instruction
from openrknn.runtime.errors import ClosedError
from openrknn.runtime.matmul import commands_rk3576
from openrknn.runtime.matmul.commands import KINDS, Addresses, Product, streams
from openrknn.runtime.matmul.matmul import Matmul
from openrknn.runtime.matmul.own import kind_of
from openrknn.vendor.tables.enums import MatmulType, TensorType

SHAPES = [(4, 64, 32), (1, 32, 32), (17, 256, 96), (3, 33, 5), (600, 512, 64), (2, 5000, 40)]


def matrices(m: int, k: int, n: int, low: int = -128, high: int = 128) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    random = np.random.default_rng(m * k + n)
    return random.integers(low, high, (m, k), dtype=np.int8), random.integers(low, high, (k, n), dtype=np.int8)


@pytest.mark.parametrize("shape", SHAPES)
def test_products_of_int8_are_exact(shape: tuple[int, int, int]) -> None:
    a, b = matrices(*shape)
    with Matmul(*shape, "int8") as matmul:
        assert np.array_equal(matmul(a, b), a.astype(np.int32) @ b.astype(np.int32))
        assert np.array_equal(matmul(a[::-1]), a[::-1].astype(np.int32) @ b.astype(np.int32))
        assert np.array_equal(matmul(a, b[::-1]), a.astype(np.int32) @ b[::-1].astype(np.int32))


@pytest.mark.parametrize("kind", ["INT8_MM_INT8_TO_FLOAT32", "INT8_MM_INT8_TO_INT32"])
@pytest.mark.parametrize(("factor", "exact"), [(-128, 1 << 31), (127, -(127 * 128) * (1 << 17))])
def test_sums_that_32_bits_cannot_hold_do_not_wrap(kind: str, factor: int, exact: int) -> None:
    """K = 131072: 2^17 products of 2^14 are one more than int32 holds."""
    m, k, n = 1, 1 << 17, 32
    with Matmul(m, k, n, kind) as matmul:
        result = matmul(np.full((m, k), factor, np.int8), np.full((k, n), -128, np.int8))
    if kind.endswith("INT32"):
        exact = max(min(exact, (1 << 31) - 1), -(1 << 31))
    assert result.dtype == (np.int32 if kind.endswith("INT32") else np.float32)
    assert np.all(result == np.float32(exact) if kind.endswith("FLOAT32") else result == exact)


def test_sums_of_float16_are_those_of_the_array() -> None:
    random = np.random.default_rng(5)
    m, k, n = 5, 200, 20
    a, b = (random.standard_normal(size).astype(np.float16) for size in ((m, k), (k, n)))
    with Matmul(m, k, n) as matmul:
        result = matmul(a, b)
    assert result.dtype == np.float32
    assert np.array_equal(result, numerics.multiply_floats(a, b))


@pytest.mark.parametrize("kind", list(MatmulType))
def test_every_type_of_the_reference(kind: MatmulType) -> None:
    m, k, n = 4, 64, 32
    random = np.random.default_rng(int(kind))
    made: list[npt.NDArray[Any]] = []
    for part, size in zip(kind.types[:2], ((m, k), (k, n)), strict=True):
        limit = {TensorType.INT8: 128, TensorType.INT4: 8}.get(part)
        made.append(
            random.standard_normal(size).astype(np.float16)
            if limit is None
            else random.integers(-limit, limit, size, dtype=np.int8)
        )
    scale = np.float32(0.03125)
    with Matmul(m, k, n, kind, b_scale=scale) as matmul:
        result = matmul(*made)
    a, b = (one.astype(np.float64) for one in made)
    whole = kind.types[0] is not TensorType.FLOAT16
    scaled = a @ b * (1 if kind.types[1] is TensorType.FLOAT16 else float(scale))
    match kind.types[2]:
        case TensorType.INT32:
            assert np.array_equal(result, (a @ b).astype(np.int32))
        case TensorType.INT16:
            assert np.array_equal(result, np.clip(a @ b, -32768, 32767).astype(np.int16))
        case TensorType.INT8:
            assert np.array_equal(result, np.clip(np.rint(scaled), -128, 127).astype(np.int8))
        case TensorType.FLOAT32:
            assert result.dtype == np.float32
            assert np.allclose(result, scaled, atol=1e-4)
            assert not whole or np.array_equal(result, scaled.astype(np.float32))
        case TensorType.FLOAT16:
            assert result.dtype == np.float16
            assert np.allclose(result, scaled, rtol=1e-3, atol=1e-2)
        case _:
            assert not (result.view(np.uint32) & 0xFFFF).any()  # the values of bfloat16
            assert np.allclose(result, scaled, rtol=1e-2, atol=1e-2)


def test_one_scale_for_each_column() -> None:
    a, b = matrices(4, 64, 32)
    scales = np.linspace(0.01, 0.1, 32).astype(np.float32)
    with Matmul(4, 64, 32, MatmulType.INT8_MM_INT8_TO_FLOAT32, b_scale=scales) as matmul:
        exact = a.astype(np.float64) @ b.astype(np.float64) * scales
        assert np.array_equal(matmul(a, b), exact.astype(np.float32))


def test_an_open_device_stays_open() -> None:
    a, b = matrices(4, 64, 32)
    with SoftwareDevice(CHIPS["rk3588"]) as device:
        for _ in range(2):
            with openrknn.Matmul(4, 64, 32, "int8", device=device) as matmul:
                assert np.array_equal(matmul(a, b), a.astype(np.int32) @ b.astype(np.int32))
    with SoftwareDevice(CHIPS["rk3566"]) as other, pytest.raises(UnsupportedError, match="RK3576, not of RK3566"):
        Matmul(4, 64, 32, "int8", device=other)


def test_the_commands_are_those_of_the_vendor_s_runtime() -> None:
    """The stream that runtime 1.5.2 submits for int8 1000 x 512 x 64, as `openrknn trace regs` shows it (excerpt)."""
    product, places = Product(1000, 512, 64, KINDS["int8"]), Addresses(0xFFF70000, 0xFFFF0000, 0xFFF30000)
    words, tasks = streams(product, places, 0xFFFFC000)
    assert [first for first, _ in tasks] == [0, 112, 224, 336]
    second = [format_instruction(one) for one in disassemble(words[112 : 112 + tasks[1][1] + 4], RK3588)]
    for line in (
        "CNA.CONV_CON1 conv_mode=direct in_precision=int8 proc_precision=int8 argb_in=off group_line_off=1",
        "CNA.DATA_SIZE0 datain_height=1 datain_width=250",
        "CNA.WEIGHT_SIZE0 weight_bytes=32768",
        "CNA.CBUF_CON0 data_bank=4 weight_bank=8",
        "CNA.CBUF_CON1 data_entries=2000",
        "CNA.FEATURE_DATA_ADDR feature_base_addr=0xfff70fa0",
        "CNA.DMA_CON1 line_stride=1000",
        "CNA.DMA_CON2 surf_stride=750",
        "DPU.DATA_FORMAT proc_precision=int8 in_precision=int8 out_precision=int32",
        "DPU.DST_BASE_ADDR dst_base_addr=0xfff30fa0",
        "DPU.DST_SURF_STRIDE dst_surf_stride=1000",
        "DPU.DATA_CUBE_NOTCH_ADDR notch_addr_0=750 notch_addr_1=750",
        "DPU.BS_OW_CFG size_e_0=8 size_e_1=8 size_e_2=8 rgp_cnter=all",
        "DPU.SURFACE_ADD surf_add=8000",
        "PC.BASE_ADDRESS pc_source_addr=0xffffc700",
        "PC.REGISTER_AMOUNTS pc_data_amount=53",
        "ENABLE cna=1 core=1 dpu=1",
    ):
        assert line in second


def test_one_row_of_4_bit_numbers_has_commands_of_its_own() -> None:
    """Those of runtime 2.3.2 for one row of 4 x 64 x 64 (ork-driver, src/regcmd_i4.h), which RK3588 ran (excerpt)."""
    kind = kind_of(CHIPS["rk3588"], 1, 64, bits=4, b_bits=4)
    words, _ = streams(Product(1, 64, 64, kind), Addresses(0xFFFFD000, 0xFFFFC000, 0xFFFFB000), 0)
    values = {word & 0xFFFF: word >> 16 & 0xFFFFFFFF for word in words}
    assert {offset: values[offset] for offset in _INT4_REGISTERS} == _INT4_REGISTERS
    random = np.random.default_rng(3)
    for k, n in ((64, 64), (40, 70), (8192, 64), (2048, 5)):
        a, b = random.integers(-8, 8, (1, k), np.int8), random.integers(-8, 8, (k, n), np.int8)
        b[:, 0] = a[0]  # squares: with K = 2048 their sum leaves 16 bits
        with Matmul(1, k, n, "int4") as matmul:
            found = matmul(a, b)
        assert found.dtype == np.int16
        assert np.array_equal(found, np.clip(a.astype(np.int32) @ b.astype(np.int32), -32768, 32767))
    for m, k in ((2, 64), (1, 8224)):
        assert kind_of(CHIPS["rk3588"], m, k, bits=4, b_bits=4).name == "int8"


def test_rk3576_multiplies_by_narrower_matrices() -> None:
    """Commands of runtime 2.0.0b8 for fp16 x int4, 4 x 64 x 64, native layouts (excerpt); results are RK3588's."""
    kind = kind_of(CHIPS["rk3576"], 4, 64, bits=16, b_bits=4)
    places = Addresses(0xFFFFD000, 0xFFFFC000, 0xFFFFB000)
    words, _ = streams(Product(4, 64, 64, kind), places, 0, commands_rk3576.body)
    values = {word & 0xFFFF: word >> 16 & 0xFFFFFFFF for word in words}
    assert {offset: values[offset] for offset in _RK3576_REGISTERS} == _RK3576_REGISTERS
    random = np.random.default_rng(6)
    with SoftwareDevice(CHIPS["rk3576"]) as device:
        for kind_name, formats in _NARROW.items():
            for m, k, n in ((1, 64, 64), (5, 96, 70), (130, 1500, 20)):
                a = random.standard_normal((m, k)).astype(np.float16) if formats[0] == "fp16" else _small(random, m, k)
                b = _small(random, k, n)
                with Matmul(m, k, n, kind_name, device=device) as matmul, Matmul(m, k, n, kind_name) as other:
                    assert np.array_equal(matmul(a, b), other(a, b))
        with Matmul(4, 64, 32, "FLOAT16_MM_INT8_TO_FLOAT32", device="software:rk3576", b_scale=0.3) as matmul:
            assert matmul.device_name == "software:rk3576"
            a, b = random.standard_normal((4, 64)).astype(np.float16), _small(random, 64, 32)
            wide = (b.astype(np.float32) * np.float32(0.3)).astype(np.float16).astype(np.float64)
            assert np.allclose(matmul(a, b), a.astype(np.float64) @ wide, rtol=1e-6, atol=1e-5)


def _small(random: np.random.Generator, *shape: int) -> npt.NDArray[np.int8]:
    return random.integers(-8, 8, shape, np.int8)


_NARROW = {
    "FLOAT16_MM_INT8_TO_FLOAT32": ("fp16", "int8"), "FLOAT16_MM_INT4_TO_FLOAT32": ("fp16", "int4"),
    "FLOAT16_MM_INT4_TO_FLOAT16": ("fp16", "int4"), "INT8_MM_INT4_TO_INT32": ("int8", "int4"),
    "INT4_MM_INT4_TO_INT16": ("int8", "int4"), "INT8_MM_INT8_TO_INT32": ("int8", "int8"),
}  # fmt: skip
_RK3576_REGISTERS = {
    0x1038: 0xE07, 0x100C: 0x600120, 0x1010: 0xFFF, 0x1014: 9, 0x1018: 0x40000404, 0x101C: 0x800, 0x1020: 0x20,
    0x1024: 0x3F, 0x1028: 0x8003F, 0x102C: 0x30000, 0x1030: 0x200003, 0x1034: 3, 0x103C: 0x80000, 0x1040: 0x10000000,
    0x1044: 0x40008, 0x1048: 0xB, 0x1078: 0x30000, 0x1088: 0xFFFFD000, 0x1090: 0x10, 0x1094: 4, 0x1098: 4,
    0x1110: 0xFFFFC000, 0x118C: 0x30003, 0x3018: 0x10000200, 0x301C: 3, 0x3020: 0x3F, 0x400C: 0x40000004,
    0x4010: 0xA0000002, 0x4018: 0xFFFFB000, 0x401C: 4, 0x402C: 0x3F, 0x4030: 0x3F0310, 0x4050: 0x23333, 0x40B8: 0xC,
    0x40C0: 0x4440100,
}  # fmt: skip
_INT4_REGISTERS = {
    0x100C: 0x360, 0x1020: 0x10001, 0x1024: 0x3F0040, 0x1028: 1, 0x102C: 1, 0x1030: 0x800, 0x1034: 0x20,
    0x1038: 0x1010040, 0x1040: 0xB1, 0x1044: 1, 0x1070: 0xFFFFD000, 0x107C: 4, 0x1080: 0xFFFFFFD, 0x1088: 0x40,
    0x1110: 0xFFFFC000, 0x3010: 0x601, 0x3018: 0x3F, 0x400C: 0x1E4, 0x4010: 0x38000006, 0x4020: 0xFFFFB000,
    0x4024: 0x10, 0x403C: 0x3F003F, 0x4050: 0x7FE, 0x4058: 0x3F, 0x4070: 0x383, 0x4084: 1, 0x40C0: 0x80,
}  # fmt: skip


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: Matmul(0, 64, 32), ValueError, "M is a number from 1"),
        (lambda: Matmul(4, True, 32), ValueError, "K is a number from 1"),
        (lambda: Matmul(4, 64, 32, "int5"), ValueError, "no matrix product is called 'int5'; there are fp16"),
        (lambda: Matmul(4, 64, 32, b_scale=[1, 2]), ValueError, "one for each of 32 columns, not 2"),
        (lambda: Matmul(4, 64, 32, b_scale=-1), ValueError, "must be positive"),
        (lambda: Matmul(4, 64, 32, device="abacus"), ValueError, "no device is called 'abacus'"),
        (lambda: Matmul(4, 64, 32)(np.zeros((4, 64))), TypeError, "must be float16, not float64"),
        (lambda: Matmul(4, 64, 32)(np.zeros((4, 63), np.float16)), ValueError, r"A is \[4, 64\]"),
        (lambda: Matmul(4, 64, 32)(np.zeros((4, 64), np.float16)), ValueError, "B is missing"),
        (lambda: Matmul(4, 64, 32, "int4")(np.full((4, 64), 8, np.int8)), ValueError, "between -8 and 7"),
    ],
)
def test_wrong_arguments_say_what_is_wrong(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


def test_a_closed_product_is_an_error() -> None:
    matmul = Matmul(4, 64, 32)
    matmul.close()
    matmul.close()
    with pytest.raises(ClosedError, match="closed"):
        matmul(np.zeros((4, 64), np.float16))
