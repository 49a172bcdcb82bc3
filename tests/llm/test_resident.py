"""Sequences that take turns on one engine: whatever happens to the others, each computes what it computes alone."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openrknn.chips import CHIPS
from openrknn.device.software import SoftwareDevice
from openrknn.llm.compile import CompiledLanguage, compile_language
from openrknn.llm.config import Rope
from openrknn.llm.npu import NpuCache, NpuEngine
from openrknn.llm.quantise.model import quantise_language
from openrknn.llm.weights import Floats
from tests.llm.quantise.sources import MemorySource

VOCABULARY, CAPACITY, STEPS = 40, 64, 100
ACTIONS = ("new", "forward", "forward", "forward", "batch", "copy", "truncate", "close", "restore")
SHAPE: dict[str, Any] = {
    "vocabulary": VOCABULARY, "width": 32, "head_size": 32, "hidden": 64, "heads": 2, "kv_heads": 1, "layers": 2,
    "context": CAPACITY, "rope": Rope(10000.0, 32),
}  # fmt: skip


@pytest.fixture(scope="module")
def compiled() -> CompiledLanguage:
    """Without graphs of several tokens, so that all ways to the same tokens have the same bits."""
    return compile_language(MemorySource(**SHAPE), capacity=CAPACITY, prefill=())


@pytest.fixture(scope="module")
def quantised() -> CompiledLanguage:
    made = quantise_language(MemorySource(**SHAPE), [list(range(30))], online=True, prefix=1)
    return compile_language(made, capacity=CAPACITY, prefill=())


class Alone:
    """The logits of a sequence that runs alone."""

    def __init__(self, compiled: CompiledLanguage) -> None:
        self._engine = NpuEngine(compiled.data, "software")
        self._known: dict[tuple[int, ...], Floats] = {}

    def after(self, tokens: tuple[int, ...]) -> Floats:
        if tokens not in self._known:
            cache = self._engine.new_cache()
            for at, logits in enumerate(self._engine.forward(cache, tokens, all_logits=True), start=1):
                self._known[tokens[:at]] = logits
            cache.close()
        return self._known[tokens]


@pytest.fixture(scope="module")
def alone(compiled: CompiledLanguage) -> Alone:
    return Alone(compiled)


def disturb(engine: NpuEngine, alone: Alone, seed: int) -> None:
    """New, longer, shorter, copied, closed and restored sequences in any order; every logit is compared."""
    chance = random.Random(seed)
    caches: list[NpuCache] = []
    for _ in range(STEPS):
        action = chance.choice(
            ["new", "forward", "forward", "forward", "batch", "copy", "truncate", "close", "restore"]
        )
        cache = chance.choice(caches) if caches else None
        if cache is None or (action == "new" and len(caches) < 6):
            caches.append(engine.new_cache())
        elif action == "forward" and len(cache.tokens) < CAPACITY - 4:
            given = [chance.randrange(VOCABULARY) for _ in range(chance.randint(1, 4))]
            assert np.array_equal(engine.forward(cache, given)[0], alone.after(cache.tokens))
        elif action == "batch":
            those = [one for one in caches if len(one.tokens) < CAPACITY]
            chance.shuffle(those)
            if those:
                rows = engine.forward_batch(those, [chance.randrange(VOCABULARY) for _ in those])
                assert all(np.array_equal(row, alone.after(one.tokens)) for row, one in zip(rows, those, strict=True))
        elif action == "copy" and len(caches) < 6:
            caches.append(cache.copy())
        elif action == "truncate":
            cache.truncate(chance.randint(0, len(cache.tokens)))
        elif action == "restore" and len(caches) < 6:
            caches.append(engine.restore(cache.tokens, engine.rows_of(cache)))
        elif action == "close":
            caches.remove(cache)
            cache.close()


@pytest.mark.parametrize("resident", [1, 2, 3, 8])
def test_sequences_do_not_mix(resident: int, compiled: CompiledLanguage, alone: Alone) -> None:
    with NpuEngine(compiled.data, "software", resident=resident) as engine:
        for seed in range(2):
            disturb(engine, alone, 100 * resident + seed)


PROGRAM = """
import sys
from openrknn.llm.npu import NpuEngine
device, *models = sys.argv[1:]
def run(engine):
    caches = [engine.new_cache() for _ in range(3)]
    found = [engine.forward(cache, [1, 3 * at + 2, 5]) for at, cache in enumerate(caches)]
    for token in (7, 8, 9):
        found.append(engine.forward_batch(caches, [token, token + 1, token + 2]))
    caches.append(caches[1].copy())
    found.append(engine.forward_batch(caches, [4, 5, 6, 7]))
    return [one.tobytes() for one in found], [engine.rows_of(cache).tobytes() for cache in caches]
for model in models:
    with NpuEngine(model, "software") as engine:
        wanted = run(engine)
    with NpuEngine(model, device) as engine:
        assert engine.session.device.name.startswith(device), engine.session.device.name
        assert run(engine) == wanted, model
        assert len(engine._held) == 4, engine._held
    print("same")
"""


@pytest.mark.parametrize("driver", ["rknpu", "rocket"])
def test_kernel_drivers_hold_several_sequences(
    driver: str, compiled: CompiledLanguage, quantised: CompiledLanguage, tmp_path: Path
) -> None:
    """fp16 and W8A8: the bytes of the software NPU, which copies sequences when it is their turn."""
    paths = [tmp_path / "fp16.rknnz", tmp_path / "w8a8.rknnz"]
    for path, made in zip(paths, (compiled, quantised), strict=True):
        made.save(path)
    command = [sys.executable, "-m", "openrknn.cli", "exec", "--driver", driver, "--", sys.executable, "-c", PROGRAM]
    done = subprocess.run(
        [*command, driver, *map(str, paths)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["same", "same"]


def test_memory_of_sequences_is_given_back(compiled: CompiledLanguage) -> None:
    device = SoftwareDevice(CHIPS["rk3588"])
    with NpuEngine(compiled.data, device, resident=3) as engine:
        for token in range(4):
            engine.forward(engine.new_cache(), [token])
        caches = [buffer for buffer in device._owned if buffer.name == "cache"]
        assert len(caches) == 3
    assert not any(map(device.owns, caches))
    device.close()


def test_at_least_one_sequence_is_on_the_device(compiled: CompiledLanguage) -> None:
    with pytest.raises(ValueError, match="resident=0"):
        NpuEngine(compiled.data, "software", resident=0)


def test_copies_share_what_waits(compiled: CompiledLanguage) -> None:
    """A prefix that many requests start with is in memory once."""
    with NpuEngine(compiled.data, "software") as engine:
        first, other = engine.new_cache(), engine.new_cache()
        engine.forward(first, [1, 2, 3])
        engine.forward(other, [4])
        copies = [first.copy() for _ in range(3)]
        kept = engine.parked_of(first)
        assert kept is not None
        assert all(engine.parked_of(one) is kept for one in copies)
