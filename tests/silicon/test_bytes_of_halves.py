"""CNA set to fp16 x int4 and CORE to int8, as an RK3576 computes it: sums of products of bytes.

Facts from the board logs of gahingwoo/linux-rk3576-npu (e1c3ae9) and from what its program charsiu (d2efb83) makes its
inputs of: eight sums of each product (r329, r334, r335, r338), and what one weight alone gives, wherever in the buffer
it is (r267, r268, r272, r329). The latter are kept as the SHA-256 of lines "byte low|high word value words-written".
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest

from openrknn import isa
from openrknn.chip.rk3576.registers import RK3576
from openrknn.chips import CHIPS
from openrknn.compute import native
from openrknn.errors import ExecutionError, UnknownModeError
from openrknn.npu import Buffer, Machine, Memory, TaskRef
from openrknn.npu.native import accelerate
from openrknn.npu.task import Program
from openrknn.runtime.matmul import commands_rk3576
from openrknn.runtime.matmul.commands import Addresses, Product, streams

A, B, C, CODE = 0x1000, 0x4000, 0x204000, 0x210000
UNWRITTEN = 0xA5A5A5A5
CHANGES = """
CORE.MISC_CFG proc_precision=int8 qd_en=1 always=1
CORE.DATAOUT_SIZE_1 dataout_channel={channels}
DPU.WDMA_SIZE_0 group=0x310 orig_channel={written}
DPU.SURFACE_ADD surf_add={skipped}
"""


class Job:
    """One row of K numbers by int4 weights for N kernels; the stream is ours with the settings of the board's."""

    def __init__(self, k: int, n: int, channels: int, skipped: int = 3, *, written: int = 0, more: str = "") -> None:
        self.bytes = np.zeros(0x212000, np.uint8)
        product = Product(1, k, n, commands_rk3576.KINDS["fp16 x int4"])
        text = CHANGES.format(channels=channels, written=written or channels, skipped=skipped) + more
        changed = isa.assemble(isa.parse_text(text, RK3576))
        words, ((_, count),) = streams(product, Addresses(A, B, C), CODE, commands_rk3576.body)
        words = [*words[:count], *changed, *words[count:]]
        self.bytes[CODE : CODE + 8 * len(words)] = np.array(words, np.uint64).view(np.uint8)
        self.a = self.bytes[A : A + 2 * k].view(np.uint16)
        self.b = self.bytes[B : B + n * k // 2]
        self.c = self.bytes[C : C + 8 * n].view(np.uint32)
        self.memory = Memory([Buffer(0, self.bytes, "all")])
        self.task = TaskRef(0, CODE, count + len(changed))

    def prepare(self) -> Program:
        self.c[:] = UNWRITTEN
        return Machine(CHIPS["rk3576"], self.memory).prepare([[self.task]])


def inputs(k: int, *, halves: bool) -> npt.NDArray[np.uint16]:
    """fp16, or 8 bits in the upper half of 16."""
    numbers = np.arange(k) * 7 % 61 - 30
    return numbers.astype(np.float16).view(np.uint16) if halves else (numbers.astype(np.int16) << 8).view(np.uint16)


def weights(k: int, n: int) -> npt.NDArray[np.uint8]:
    """[N, K] of nibbles, packed in the order of the chip: groups of 16 kernels, of 32 inputs, kernel, input."""
    mixed = (np.arange(n, dtype=np.uint32) * np.uint32(2654435761))[:, None] ^ (
        np.arange(k, dtype=np.uint32) * np.uint32(40503)
    )
    nibbles = (mixed % 15 - np.uint32(7)).astype(np.uint8) & 15
    order = nibbles.reshape(n // 16, 16, k // 32, 32).transpose(0, 2, 1, 3).reshape(-1, 2)
    return (order[:, 0] | order[:, 1] << 4).astype(np.uint8)


SUMS = {
    (64, 64, False): (-1513, 14575, 11763, 30454, 13557, 10267, 2986, -8487),
    (64, 64, True): (-15034, 61030, 37592, 103264, 41052, 36342, 7792, -18048),
    (2048, 256, True): (-179119, 538189, 199192, 171969, 292143, -64839, -39146, -77351),
    (1024, 512, False): (4334, 106880, -5725, 42953, 57571, -13564, 38218, -22685),
    (2048, 256, False): (10859, 124998, 38811, 46861, 71167, -46129, 18763, -33739),
}
"""K, N, whether the inputs are fp16: sums of the words 2 n and 2 n + 1 (r334, r335, r338)."""


@pytest.mark.parametrize(("k", "n", "halves"), SUMS)
def test_sums_of_pairs(k: int, n: int, halves: bool) -> None:
    job = Job(k, n, 2 * n)
    job.a[:], job.b[:] = inputs(k, halves=halves), weights(k, n)
    job.prepare().run()
    found = job.c.view(np.int32).reshape(-1, 2).sum(1)
    assert tuple(found[:8]) == SUMS[k, n, halves]


def lines(job: Job, step: int) -> Iterator[str]:
    """One weight of 7 at a time; input k is k + 1 in the upper byte."""
    job.a[:] = (np.arange(len(job.a)) + 1) << 8
    program = job.prepare()
    for place in range(0, len(job.b), step):
        for name, nibble in (("low", 0x07), ("high", 0x70)):
            job.b[:] = 0
            job.b[place] = nibble
            job.c[:] = UNWRITTEN
            program.run()
            written = np.flatnonzero(job.c != UNWRITTEN)
            lit = written[job.c[written] != 0]
            word, value = (str(lit[0]), job.c.view(np.int32)[lit[0]]) if len(lit) else ("-", 0)
            yield f"{place} {name} {word} {value} {len(written)}"


MAPS = {
    (16, 1, 8): "7fcefe48078582a91979de470317663096d1d7a10560258a71acf1ed6029c1bd",
    (32, 1, 8): "d041d7ba23fdfd8517ad25d04b01501edfbae3639f63cb62cf6caabde4651d1b",
    (64, 1, 8): "5c1ddd978973d3d1794f4629e6c9c2dceffebea9942a1f4485b6b4d4c82185ba",
    (48, 1, 8): "5abe6827d089c7839d88900a082997d8327b0a3b145aeb7540f03e9fea87670d",
    (128, 1, 8): "d5abc0c9279051afcbf048cfd148dc264aee27fe48c9a95d51b97769e0987606",
    (64, 3, 16): "97feea9bee4a466d244180b04b4c6d78f8d57c971836024cd958a3cd6f1a7b03",
    (64, 1, 16): "138af13102a9f1a7ae3e28709dbf72b8bfc1fd6fdfaf696336f30fce98ff7e31",
}
"""N, atoms that are skipped after each group of channels (1: groups overlap), bytes from place to place; K = 64.

r267 three times, r268 twice, r329 twice.
"""


@pytest.mark.parametrize(("n", "skipped", "step"), MAPS)
def test_one_weight_alone(n: int, skipped: int, step: int) -> None:
    text = "\n".join(lines(Job(64, n, n, skipped), step))
    assert hashlib.sha256(text.encode()).hexdigest() == MAPS[n, skipped, step]


@pytest.mark.parametrize(("nibble", "value"), {1: 60, 2: 64, 3: 66, 4: 68, 5: 69, 7: 71, 15: -68}.items())
def test_a_weight_is_the_upper_byte_of_its_half(nibble: int, value: int) -> None:
    """The input is 1 in the upper byte (r272)."""
    job = Job(64, 64, 64, 1)
    job.a[0], job.b[0] = 0x100, nibble
    job.prepare().run()
    assert job.c.view(np.int32)[0] == value


def test_what_is_not_known_is_refused() -> None:
    with pytest.raises(ExecutionError, match="matter of time"):
        Job(64, 64, 112, 1, written=64).prepare()
    with pytest.raises(UnknownModeError, match="at most two channels"):
        Job(64, 64, 144).prepare()
    with pytest.raises(UnknownModeError, match="stages of the DPU off"):
        Job(64, 64, 64, more="DPU.DATA_FORMAT proc_precision=fp16 out_precision=fp16").prepare()


@pytest.mark.skipif(not native.find(), reason="no native library")
def test_native_code_leaves_it_to_numpy() -> None:
    job = Job(64, 64, 128)
    assert "another kind of arithmetic" in accelerate(job.prepare(), job.memory).reasons[0]
