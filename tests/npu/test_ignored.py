"""What boards are recorded to ignore: noted by default, refused when strict; what may change a result stops always.

The streams are ours; what they leave out or write in addition is what the programs of allbilly/rk3588 leave out and
write, which pass on an Orange Pi 5 (`openrknn.isa.ignored`).
"""

from __future__ import annotations

import numpy as np
import pytest

from openrknn import isa
from openrknn.board.streams import PRODUCT_MASK, product_body, tail
from openrknn.chips import chip_named
from openrknn.errors import ExecutionError, UndeclaredBitsError, UnknownModeError, UnreadRegisterError
from openrknn.isa import Target
from openrknn.isa.ignored import IGNORED, Kind, ignored_rule
from openrknn.npu import Buffer, Machine, Memory, TaskRef
from tests.container.places import golden
from tests.npu.loaded import load

CODE, A, B, OUT = 0x1000_0000, 0x2000_0000, 0x3000_0000, 0x4000_0000
FLYING_MASK = 0x18


class Bench:
    """A machine with four buffers."""

    def __init__(self, *, strict: bool = False) -> None:
        self.code, self.a, self.b, self.out = (
            Buffer(address, np.zeros(4096, np.uint8), name)
            for address, name in ((CODE, "code"), (A, "a"), (B, "b"), (OUT, "out"))
        )
        self.machine = Machine(chip_named("rk3588"), Memory([self.code, self.a, self.b, self.out]), strict=strict)

    def run(self, words: list[int]) -> None:
        self.code.data[:] = 0
        self.code.data[: 8 * len(words)] = np.array(words, np.uint64).view(np.uint8)
        self.machine.prepare([[TaskRef(0, CODE, len(words))]]).run()


def word(target: int, offset: int, value: int) -> int:
    return target << 48 | value << 16 | offset


def sum_words(*extra: int, pixels: int = 1, algorithm: int = 2) -> list[int]:
    """a + b in fp16: no word for BS, BN, the write counters or the output converter."""
    dpu, rdma = Target.DPU, Target.DPU_RDMA
    return [
        word(dpu, 0x400C, 0x1E5),
        word(dpu, 0x4010, 0x4800_0002),
        word(dpu, 0x4030, pixels - 1),
        word(dpu, 0x403C, 0x0007_0007),
        word(dpu, 0x4070, 0x1080_02C0 | algorithm << 16),
        word(rdma, 0x500C, pixels - 1),
        word(rdma, 0x5010, 0),
        word(rdma, 0x5014, 7),
        word(rdma, 0x5034, 0x4000_0008),
        word(dpu, 0x4020, OUT),
        word(rdma, 0x5018, A),
        word(rdma, 0x5038, B),
        word(rdma, 0x5044, 0x0001_7849),
        *extra,
        word(Target.ENABLE, 0x0008, FLYING_MASK),
    ]


def test_stages_that_nobody_set_up_let_everything_pass() -> None:
    """simple_add and elementwise pass on the board after a reset, with negative numbers too."""
    bench = Bench()
    a = np.linspace(-3, 3, 24).astype(np.float16)
    b = np.linspace(5, -7, 24).astype(np.float16)
    bench.a.data[:48], bench.b.data[:48] = a.view(np.uint8), b.view(np.uint8)
    bench.run(sum_words(pixels=3))
    assert np.array_equal(bench.out.data[:48].view(np.float16), a + b)
    assert {finding.text.partition(":")[0] for finding in bench.machine.findings} == {"BS_CFG", "BN_CFG", "WDMA_SIZE_1"}
    assert all("elementwise on an Orange Pi 5" in finding.run for finding in bench.machine.findings)


def test_small_numbers_are_not_lost() -> None:
    """simple_add adds the fp16 patterns 3 and 5, denormal numbers, and the board answers 8."""
    bench = Bench()
    bench.a.data[:16].view(np.uint16)[:], bench.b.data[:16].view(np.uint16)[:] = 3, 5
    bench.run(sum_words())
    assert bench.out.data[:16].view(np.uint16).tolist() == [8] * 8


def test_strict_machines_refuse_what_boards_ignore() -> None:
    with pytest.raises(UnknownModeError, match="never written"):
        Bench(strict=True).run(sum_words())


@pytest.mark.parametrize(
    "stray",
    [
        word(0x0001, 0, 0),
        word(Target.DPU_RDMA, 0x5014, 0x0007_0007),
        word(Target.PPU_RDMA, 0x7038, 1),
    ],
    ids=["a word for nobody", "bits above the channels", "a register that is not there"],
)
def test_stray_words_are_noted_once(stray: int) -> None:
    bench = Bench()
    bench.run(sum_words(stray))
    known = len(bench.machine.findings)
    assert known == 3  # BS, BN, and this one: one pixel needs no counters
    bench.run(sum_words(stray))
    assert len(bench.machine.findings) == known


@pytest.mark.parametrize(
    ("stray", "error"),
    [
        (word(0x0003, 0, 0), UnknownModeError),
        (word(Target.DPU_RDMA, 0x5014, 0x0008_0007), UndeclaredBitsError),
        (word(Target.DPU, 0x4040, 0), UnknownModeError),
    ],
    ids=["another target", "another bit", "BS written with 0"],
)
def test_what_no_board_is_known_to_ignore_stops(stray: int, error: type[ExecutionError]) -> None:
    with pytest.raises(error):
        Bench().run(sum_words(stray))


def test_registers_of_a_block_that_rests_are_noted() -> None:
    """conv_tiles sets ERDMA up in convolutions that do not start the DPU's readers."""
    bench = Bench()
    rests = word(Target.DPU_RDMA, isa.dpu_rdma.ErdmaCfg.offset, 1)
    bench.run([*product_body(A, B, OUT), rests, *tail(PRODUCT_MASK)])
    assert [finding.text.partition(":")[0] for finding in bench.machine.findings] == ["DPU_RDMA.RDMA_ERDMA_CFG"]
    with pytest.raises(UnreadRegisterError, match="MISC_CTRL"):  # nobody has shown this of the PPU
        bench.run([*product_body(A, B, OUT), word(Target.PPU, isa.ppu.MiscCtrl.offset, 3), *tail(PRODUCT_MASK)])


def test_the_scale_of_floats_is_not_applied() -> None:
    """gemm writes fp32 with OUT_CVT_SCALE = 0, and the board's numbers are right."""
    right, zero = load(golden("conv_rk3588_fp")), load(golden("conv_rk3588_fp"))
    _, words = zero.command(0, isa.dpu_stages.OutCvtScale.offset)
    assert any(int(each) & 0xFFFF == isa.dpu_stages.OutCvtScale.offset for each in words)
    zero.set_register(0, isa.dpu_stages.OutCvtScale.offset, 0x1_0000)
    right.program().run()
    zero.program().run()
    assert np.array_equal(right.internal.data, zero.internal.data)


def test_a_scale_of_floats_that_nobody_saw_stops() -> None:
    loaded = load(golden("conv_rk3588_fp"), strict=False)
    loaded.set_register(0, isa.dpu_stages.OutCvtScale.offset, 0x1_0002)
    with pytest.raises(UnknownModeError, match="OUT_CVT_SCALE"):
        loaded.program()


def test_every_row_names_a_place_of_its_chip_and_a_run() -> None:
    for row in IGNORED:
        assert " on " in row.run
        blocks = {block.name: block for block in isa.map_for(row.family).blocks}
        if row.kind in {Kind.BITS, Kind.UNWRITTEN}:
            block, _, name = row.place.partition(".")
            register = blocks[block].by_name[name]
            assert row.kind is Kind.UNWRITTEN or not row.bits & register.declared, row.place
        elif row.kind is Kind.IDLE:
            assert row.place in blocks
        assert ignored_rule(row.family, row.kind, row.place) is row, "two rows for one place"
