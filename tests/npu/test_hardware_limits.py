"""Programs that do not fit into the hardware or hang boards: refused by the software NPU, never emitted.

The minimal program of each section of docs/hardware/limits.md.
"""

from __future__ import annotations

import struct
from dataclasses import replace

import numpy as np
import pytest

import openrknn
from openrknn.analysis.lint import Severity
from openrknn.chip.limits import Banks, broken_limit, unproven
from openrknn.chips import CHIPS
from openrknn.compiler import compile_model
from openrknn.compiler.errors import UnsupportedOperatorError
from openrknn.compiler.targets import TARGETS
from openrknn.compiler.tile import Shape, tile
from openrknn.container.model import Model
from openrknn.errors import HardwareLimitError
from openrknn.isa import Precision
from openrknn.npu import Buffer, Machine, Memory, TaskRef
from openrknn.runtime.matmul.commands import KINDS, Addresses, Product, streams
from openrknn.task import cna
from openrknn.task.kinds import Convolution
from tests.cli.changed import with_graph
from tests.compiler.nets import Net
from tests.container.places import golden

RK3588 = CHIPS["rk3588"]
FP16, INT8 = KINDS["fp16"], KINDS["int8"]
CBUF_CON0 = 0x0201_0000_0000_1040
"""Target and register of a command word that shares out the buffer."""
WEIGHT_SIZE2 = 0x0201_0000_0000_1038
PLACE = 0xFFFF_0000_0000_FFFF


def banks_word(data: int, weights: int) -> int:
    return CBUF_CON0 | (weights << 4 | data) << 16


def changed(words: list[int], word: int) -> list[int]:
    """The stream with one register written differently."""
    assert any(other & PLACE == word & PLACE for other in words)
    return [word if other & PLACE == word & PLACE else other for other in words]


def decoded(product: Product, word: int | None = None) -> None:
    """Decode the product's first task on the software NPU."""
    words, tasks = streams(product, Addresses(0x10000, 0x20000, 0x30000), 0x1000)
    words = words if word is None else changed(words, word)
    memory = Memory([Buffer(0x1000, np.array(words, np.uint64).view(np.uint8), "commands")])
    Machine(RK3588, memory).prepare([[TaskRef(0, 0x1000, tasks[0][1])]])


def source_of(product: Product, *, rows: int = 1) -> cna.Config[int]:
    """One row of pixels of the product as a convolution; ork-driver has one pixel in each row."""
    size = product.kind.bits // 8
    precision = Precision.FP16 if product.kind is FP16 else Precision.INT8
    return cna.Config(
        feature_address=0, height=rows, width=product.m // rows, channels=product.k, packed_channels=0, line_bytes=16,
        surface_bytes=16, precision=precision, is_unsigned=False, converter=None, pad_top=0, pad_left=0, pad_bits=0,
        out_height=rows, out_width=product.m // rows, weight_address=0, weight_bytes=product.k * product.n * size,
        weight_channels=product.k, weight_precision=precision, kernels=product.n, kernel_height=1, kernel_width=1,
        stride_x=1, stride_y=1, dilation_x=1, dilation_y=1, spread_x=1, spread_y=1, depthwise=False, atom_bytes=16,
    )  # fmt: skip


@pytest.mark.parametrize("columns", [16, 32])
def test_a_group_of_kernels_that_fills_the_only_bank_hangs(columns: int) -> None:
    """ork-driver: 144 x 1024 x 16 in fp16 with 11 banks of data and one of weights; 128 rows have 8 and 4."""
    with pytest.raises(HardwareLimitError, match=f"{columns} kernels .* hangs the NPU .* leave two banks") as caught:
        decoded(Product(144, 1024, columns, FP16), banks_word(11, 1))
    assert (caught.value.task, caught.value.register) == (0, "CBUF_CON0")
    decoded(Product(128, 1024, columns, FP16), banks_word(8, 4))
    decoded(Product(144, 1024, columns, FP16), banks_word(9, 2))


def test_full_banks_that_boards_run() -> None:
    """The vendor's YOLOv8n: four groups fill the bank. ork-driver: 3584 columns stream through one bank."""
    decoded(Product(1400, 256, 128, INT8), banks_word(11, 1))
    assert unproven(RK3588, source_of(Product(1400, 256, 128, INT8)), Banks(11, 1)) is None
    decoded(Product(144, 1024, 3584, FP16), banks_word(11, 1))
    assert "stream through 32768 bytes" in str(unproven(RK3588, source_of(Product(144, 1024, 64, FP16)), Banks(11, 1)))


def test_rows_that_do_not_fit_overwrite_each_other() -> None:
    """ork-driver: with K = 512 in fp16, 320 rows are right (10 banks), and 384 are wrong in the 11 that are left."""
    right, wrong = Product(320, 512, 64, FP16), Product(384, 512, 64, FP16)
    assert broken_limit(RK3588, source_of(right, rows=320), Banks(10, 2)) is None
    limit = broken_limit(RK3588, source_of(wrong, rows=384), Banks(11, 1))
    assert limit is not None
    assert (limit.kind, limit.register) == ("wrong", "CBUF_CON0")
    assert limit.text == (
        "384 rows of 1 pixels and 512 channels need 12 banks of CBUF and get 11: they overwrite each other"
    )
    with pytest.raises(HardwareLimitError, match="1 rows of 128 pixels and 512 channels need 4 banks of CBUF and get"):
        decoded(Product(128, 512, 64, FP16), banks_word(3, 9))


def test_banks_that_are_not_there() -> None:
    with pytest.raises(HardwareLimitError, match="8 banks of data and 5 of weights are more than the 12 of CBUF"):
        decoded(Product(128, 512, 64, FP16), banks_word(8, 5))


def test_more_columns_than_the_hardware_counts() -> None:
    decoded(Product(4, 32, 8192, INT8))
    with pytest.raises(HardwareLimitError, match="8224 output channels in one task; the hardware counts to 8192"):
        decoded(Product(4, 32, 8192, INT8), WEIGHT_SIZE2 | (1 << 24 | 1 << 16 | 8224) << 16)


def test_weights_that_can_neither_stay_nor_stream() -> None:
    limit = broken_limit(RK3588, source_of(Product(1, 16384, 64, FP16)), Banks(5, 7))
    assert limit is not None
    assert "a group of kernels takes 524288 bytes" in limit.text
    assert broken_limit(RK3588, source_of(Product(1, 16384, 64, FP16)), Banks(4, 8)) is None


def test_int4_rows_are_a_warning() -> None:
    """Whether they start depends on the clock of the memory, so no number is safe on every board."""
    rows = replace(source_of(Product(16, 2048, 64, INT8), rows=16), precision=Precision.INT4)
    assert unproven(RK3588, rows, Banks(1, 11)) is None
    more = replace(rows, height=18)
    assert "18 rows of 2048 int4 numbers in 1 banks" in str(unproven(RK3588, more, Banks(1, 11)))
    assert broken_limit(RK3588, more, Banks(1, 11)) is None


def banks_of(made: object) -> set[tuple[int, int]]:
    works = [task.work for step in made.lowering.program.steps for task in step.tasks]  # type: ignore[attr-defined]
    return {(work.buffer.data_banks, work.buffer.weight_banks) for work in works if isinstance(work, Convolution)}


def wide() -> object:
    net = Net()
    return net.model({"x": (1, 1024, 20, 20)}, [net.conv("x", 1024, 16, 1)])


def test_the_compiler_leaves_two_banks_to_such_weights() -> None:
    made = compile_model(wide(), "rk3588", cores=1)
    assert banks_of(made) == {(10, 2)}


def test_the_compiler_emits_no_task_that_breaks_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without that rule of the tiles, the check behind them refuses the model."""
    cbuf = RK3588.known_cbuf._replace(full_group_hangs=False)
    buffer = TARGETS["rk3588"].buffer
    monkeypatch.setattr(type(buffer), "chip", replace(RK3588, cbuf=cbuf), raising=False)
    with pytest.raises(UnsupportedOperatorError, match=r"would break a limit of the hardware: 16 kernels .* hangs"):
        compile_model(wide(), "rk3588", cores=1)


def test_pictures_of_fp16_have_the_room_that_the_vendor_gives_them() -> None:
    """yolo_rk3588_fp.rknn: 88 rows of 128 pixels in 11 banks; int8 stores twice as many in a bank."""
    buffer = TARGETS["rk3588"].buffer
    seen = {}
    for form in (TARGETS["rk3588"].fp16, TARGETS["rk3588"].int8):
        shape = Shape(3, 96, 128, 48, (3, 3), 2, 1, 1, False, 16, form.atom, 128, pixels=48 * 64, buffer=buffer)
        seen[form.name] = [(band.rows, band.data_banks) for band in tile(shape, form, "conv")]
    assert seen == {"fp16": [(88, 11), (9, 11)], "int8": [(96, 6)]}


def with_banks(model: Model, data: int, weights: int) -> Model:
    words = changed(list(model.graphs[0].commands), banks_word(data, weights))
    return with_graph(model, commands=memoryview(struct.pack(f"<{len(words)}Q", *words)).cast("Q"))


def test_lint_says_both() -> None:
    model = openrknn.load(golden("conv_rk3588_i8"))
    assert not {"hardware-limit", "unproven-limit"} & {finding.code for finding in openrknn.lint(model)}
    first = openrknn.lint(with_banks(model, 0, 12))[0]
    assert (first.code, first.severity, first.where.task) == ("hardware-limit", Severity.ERROR, 0)
    assert "need 1 banks of CBUF and get 0" in first.what
    assert "refuses" in first.why
