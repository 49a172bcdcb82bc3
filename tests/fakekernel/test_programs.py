"""Decoded programs are kept, and are decoded again whenever they must be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from openrknn.board import streams
from openrknn.chips import chip_named
from openrknn.fakekernel.programs import Entry, Programs
from openrknn.fakekernel.shared_memory import SharedMemory
from openrknn.fakekernel.tasks import Chain, read_chain
from openrknn.npu import Buffer, TaskRef
from openrknn.uapi import rknpu
from tests.container.places import golden
from tests.npu.loaded import load

CHIP = chip_named("rk3588")
PLACES = {"a": 0x10000, "b": 0x20000, "c": 0x30000, "commands": 0x40000}


class Bench:
    """Memory with one product, and its programs."""

    def __init__(self) -> None:
        self.memory = SharedMemory()
        self.buffers = {
            name: self.memory.add(Buffer(address, np.zeros(4096, np.uint8), name)) for name, address in PLACES.items()
        }
        self.programs = Programs(CHIP, self.memory)
        self.decoded = 0
        self.body = streams.product_body(PLACES["a"], PLACES["b"], PLACES["c"])
        self.store("commands", streams.to_bytes(self.body + streams.tail(streams.PRODUCT_MASK)))
        self.fill(0)

    def store(self, name: str, data: bytes) -> None:
        self.buffers[name].data[: len(data)] = np.frombuffer(data, np.uint8)

    def fill(self, seed: int) -> None:
        a, b, self.wanted = streams.operands(seed)
        self.store("a", a)
        self.store("b", b)

    def prepare(self, core: int = 0) -> Entry:
        key = ("product", core)
        found = self.programs.find(key, (core,))
        if found is not None:
            return found
        self.decoded += 1
        task = TaskRef(0, PLACES["commands"], len(self.body))
        return self.programs.decode(key, {core: Chain((task,), 0x100)})

    def run(self, core: int = 0) -> bytes:
        self.prepare(core).plan.run()
        return bytes(self.buffers["c"].data[: len(self.wanted)])


def test_a_program_is_decoded_once_and_sees_new_data() -> None:
    bench = Bench()
    for seed in range(9):
        bench.fill(seed)
        assert bench.run() == bench.wanted
    # Until both register groups are full, and then once for each of them: a single task takes them in turn.
    assert bench.decoded == 4


def test_changed_constants_are_seen() -> None:
    """Native kernels pack the weights once; a program may change them all the same."""
    bench = Bench()
    for _ in range(8):
        bench.run()
    before, plan = bench.decoded, bench.prepare().plan
    for seed in (1, 1, 2):
        bench.fill(seed)  # other weights, the same commands
        assert bench.run() == bench.wanted
    assert bench.decoded == before
    assert bench.prepare().plan is plan


def test_what_is_decoded_in_another_state_shares_its_plan() -> None:
    bench = Bench()
    plans = {id(bench.prepare().plan) for _ in range(8)}
    assert bench.decoded == 4
    assert len(plans) == 1


def test_changed_commands_are_decoded_again() -> None:
    bench = Bench()
    for _ in range(3):
        bench.run()
    before = bench.decoded
    other = bench.memory.add(Buffer(0x50000, np.zeros(4096, np.uint8), "other"))
    stream = streams.product_body(PLACES["a"], PLACES["b"], 0x50000) + streams.tail(streams.PRODUCT_MASK)
    bench.store("commands", streams.to_bytes(stream))
    bench.prepare().plan.run()
    assert bench.decoded == before + 1
    assert bytes(other.data[: len(bench.wanted)]) == bench.wanted


def test_cores_have_registers_of_their_own() -> None:
    bench = Bench()
    for core in (0, 1) * 8:
        assert bench.run(core) == bench.wanted
    assert bench.decoded == 8  # as often for each core: what runs on one does not change the other


def test_a_buffer_that_goes_takes_its_programs_along() -> None:
    bench = Bench()
    for _ in range(8):
        bench.run()
    before = bench.decoded
    unused = bench.memory.add(Buffer(0x60000, np.zeros(4096, np.uint8), "unused"))
    bench.memory.remove(unused)
    bench.programs.forget(unused)
    bench.run()
    assert bench.decoded == before  # it had nothing to do with it
    old = bench.buffers["c"]
    bench.memory.remove(old)
    bench.programs.forget(old)
    bench.buffers["c"] = bench.memory.add(Buffer(PLACES["c"], np.zeros(4096, np.uint8), "c again"))
    assert bench.run() == bench.wanted
    assert bench.decoded == before + 1


def test_a_reset_empties_the_registers() -> None:
    bench = Bench()
    for _ in range(3):
        bench.run()
    before = bench.decoded
    bench.programs.reset()
    assert bench.run() == bench.wanted  # the program of the very first run fits: it was decoded after a reset
    assert bench.decoded == before


def test_tables_outlive_jobs() -> None:
    """A lookup table that one job loads is there for the next one, whether or not the first was decoded again."""
    loaded = load(golden("sigmoid_rk3588_i8"))
    memory = SharedMemory()
    for buffer in loaded.memory:
        memory.add(buffer)
    programs = Programs(CHIP, memory)
    tasks = loaded.tasks(1)[0]
    loads = next(number for number, task in enumerate(tasks) if task.amount > 1000)
    first, second = tuple(tasks[: loads + 1]), tuple(tasks[loads + 1 :])

    def run(key: str, part: tuple[TaskRef, ...]) -> None:
        (programs.find(key, (0,)) or programs.decode(key, {0: Chain(part, 0)})).plan.run()

    loaded.program().run()
    wanted = loaded.internal.data.copy()
    for _ in range(4):
        run("load", first)
        run("use", second)
        assert np.array_equal(loaded.internal.data, wanted)


def test_task_descriptors_are_read_as_the_hardware_does() -> None:
    bench = Bench()
    raw = rknpu.TASK.pack({"op_idx": 7, "regcfg_amount": len(bench.body), "regcmd_addr": PLACES["commands"]})
    chain = read_chain(bench.memory, CHIP, "rknpu", 3, raw)
    assert chain == Chain((TaskRef(3, PLACES["commands"], len(bench.body), 7),), 0x100)
    broken = read_chain(bench.memory, CHIP, "rknpu", 0, raw * 2)
    assert "do not lead to a next task" in broken.stuck


@pytest.mark.parametrize("name", ["residual_rk3588_i8", "silu_rk3588_i8", "layer_norm_rk3588_fp"])
def test_real_streams_are_the_same_from_the_cache(name: str) -> None:
    loaded = load(Path(golden(name)))
    memory = SharedMemory()
    for buffer in loaded.memory:
        memory.add(buffer)
    programs = Programs(CHIP, memory)
    tasks = tuple(loaded.tasks(1)[0])
    results = []
    before = loaded.internal.data.copy()
    for _ in range(4):
        loaded.internal.data[...] = before
        (programs.find("all", (0,)) or programs.decode("all", {0: Chain(tasks, 0)})).plan.run()
        results.append(loaded.internal.data.copy())
    assert all(np.array_equal(result, results[0]) for result in results)
