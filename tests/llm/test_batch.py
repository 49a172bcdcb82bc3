"""One token of each of several sequences in one run: close to float, and never disturbed by the others."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openrknn.chips import CHIPS
from openrknn.compiler.errors import OptionError
from openrknn.device.software import SoftwareDevice
from openrknn.errors import FormatError
from openrknn.llm.batch import Batch, Turn
from openrknn.llm.compile import CompiledLanguage, compile_language
from openrknn.llm.errors import CacheFullError, NumberRangeError
from openrknn.llm.file import StepEntry, read_language, write_language
from openrknn.llm.generation.generator import Generator
from openrknn.llm.generation.request import Request
from openrknn.llm.measuring import board_costs, measure_batch
from openrknn.llm.npu import NpuCache, NpuEngine
from openrknn.llm.npu_limits import least_together
from openrknn.llm.quantise.model import quantise_language
from openrknn.llm.reference import ReferenceEngine
from openrknn.runtime.program.program import Program
from tests.llm.quantise.sources import MemorySource
from tests.llm.test_npu_engine import CHANGES, CLOSE, TOKENS, decibels
from tests.llm.test_npu_families import FAMILIES

VOCABULARY, CAPACITY, BATCH = int(CHANGES["vocabulary"]), 64, 3


@pytest.fixture(scope="module")
def compiled() -> CompiledLanguage:
    return compile_language(MemorySource(**CHANGES), capacity=CAPACITY, prefill=(), few=8, batch=BATCH)


@pytest.fixture(scope="module")
def quantised() -> CompiledLanguage:
    made = quantise_language(MemorySource(**CHANGES), [TOKENS], online=True, prefix=1)
    return compile_language(made, capacity=CAPACITY, prefill=(), batch=BATCH)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sequences of each run of the graph, as they come."""
    found: list[int] = []
    run = Batch.run

    def counted(self: Batch, turns: Mapping[int, Turn]) -> bool:
        found.append(len(turns))
        return run(self, turns)

    monkeypatch.setattr(Batch, "run", counted)
    return found


@pytest.mark.parametrize(
    ("family", "chip", "batch"),
    [
        ({}, "rk3588", 8), ({}, "rk3576", 9), ({}, "rk3566", 2),
        (FAMILIES["gemma3"], "rk3588", 3), (FAMILIES["phi3, part of a head rotated"], "rk3562", 4),
    ],
)  # fmt: skip
def test_logits_are_those_of_the_reference(family: dict[str, Any], chip: str, batch: int) -> None:
    """Each sequence at a position of its own, some of them beyond a window of the model."""
    source = MemorySource(**CHANGES | family)
    reference = ReferenceEngine(source)
    made = compile_language(source, chip, capacity=CAPACITY, prefill=(), batch=batch)
    assert (made.file.batch, made.file.graphs[-1].sequences) == (batch, batch)
    chance = random.Random(3)
    found, wanted = [], []
    with NpuEngine(made.data, "software", batch=2) as engine:
        caches, others = [], []
        for number in range(batch):
            caches.append(engine.new_cache())
            others.append(reference.new_cache())
            given = [chance.randrange(VOCABULARY) for _ in range(1 + 4 * number)]
            engine.forward(caches[-1], given)
            reference.forward(others[-1], given)
        for _ in range(3):
            tokens = [chance.randrange(VOCABULARY) for _ in range(batch)]
            found += list(engine.forward_batch(caches, tokens))
            wanted += [reference.forward(one, [token])[0] for one, token in zip(others, tokens, strict=True)]
        assert [cache.tokens for cache in caches] == [cache.tokens for cache in others]
    each = [decibels(one, two) for one, two in zip(wanted, found, strict=True)]
    assert np.mean(each) > 50
    assert np.median(each) > CLOSE


def test_sequences_come_and_go_and_do_not_mix(compiled: CompiledLanguage, runs: list[int]) -> None:
    """More of them than one run takes, in any order. Each computes the bits that it computes beside one other only."""
    chance = random.Random(1)
    caches: list[NpuCache] = []
    data = compiled.data
    with NpuEngine(data, "software", batch=2) as engine, NpuEngine(data, "software", batch=2) as quiet:
        for _ in range(40):
            action = chance.choice(["new", "new", "batch", "batch", "forward", "copy", "truncate", "close"])
            cache = chance.choice(caches) if caches else None
            if cache is None or (action == "new" and len(caches) < 5):
                caches.append(engine.new_cache())
                engine.forward(caches[-1], [chance.randrange(VOCABULARY) for _ in range(chance.randint(1, 3))])
            elif action == "batch":
                some = chance.sample(caches, chance.randint(1, len(caches)))
                tokens = [chance.randrange(VOCABULARY) for _ in some]
                twins = [quiet.restore(one.tokens, engine.rows_of(one)) for one in some]
                rows = engine.forward_batch(some, tokens)
                alone = len(some) % BATCH == 1  # the last one of them has no other one beside it
                for number, (twin, token) in enumerate(zip(twins, tokens, strict=True)):
                    other = quiet.new_cache()
                    is_alone = alone and number == len(some) - 1
                    beside = ([twin], [token]) if is_alone else ([other, twin], [chance.randrange(VOCABULARY), token])
                    assert np.array_equal(quiet.forward_batch(*beside)[-1], rows[number])
                    assert np.array_equal(quiet.rows_of(twin), engine.rows_of(some[number]))
                    other.close()
                    twin.close()
            elif action == "forward":
                engine.forward(cache, [chance.randrange(VOCABULARY)])
            elif action == "copy" and len(caches) < 5:
                caches.append(cache.copy())
            elif action == "truncate":
                cache.truncate(chance.randint(1, len(cache.tokens)))
            elif action == "close":
                caches.remove(cache)
                cache.close()
    assert {2, 3} <= set(runs)


def test_infinite_numbers_of_one_sequence_do_not_reach_the_others(compiled: CompiledLanguage) -> None:
    with NpuEngine(compiled.data, "software", batch=2) as engine:
        good, bad, again = engine.new_cache(), engine.new_cache(), engine.new_cache()
        for cache in (good, bad, again):
            engine.forward(cache, [4, 5])
        rows = engine.rows_of(bad)
        rows[...] = np.inf
        broken = engine.restore(bad.tokens, rows)
        found = engine.forward_batch([broken, good], [6, 7])
        assert not np.isfinite(found[0]).all()
        assert np.array_equal(found[1], engine.forward(again, [7])[0])
        assert np.isfinite(engine.rows_of(good)).all()


def test_places_do_not_remember_infinite_numbers(compiled: CompiledLanguage, runs: list[int]) -> None:
    """Hidden rows are multiplied by 0: of a sequence that is gone, of one that was cut, of a place without one."""
    with NpuEngine(compiled.data, "software", batch=2) as engine, NpuEngine(compiled.data, "software") as fresh:
        bad = [engine.new_cache() for _ in range(3)]
        for cache in bad:
            engine.forward(cache, [4, 5, 6])
        rows = engine.rows_of(bad[0])
        rows[:, :, :, 2] = np.inf
        broken = [engine.restore(cache.tokens, rows) for cache in bad]
        cut, *others = broken
        engine.forward_batch(broken, [7, 8, 9])
        with pytest.raises(NumberRangeError, match="not finite"):
            engine.forward(cut, [7])
        cut.truncate(2)
        for cache in (*bad, *others):
            cache.close()
        wanted = fresh.new_cache()
        fresh.forward(wanted, [4, 5])
        assert np.array_equal(engine.forward(cut, [1]), fresh.forward(wanted, [1]))
        again = engine.new_cache()
        assert np.array_equal(engine.forward(again, [3]), fresh.forward(fresh.new_cache(), [3]))
        runs.clear()
        assert np.isfinite(engine.forward_batch([cut, again], [2, 2])).all()
        assert runs == [2]
        assert np.isfinite(engine.rows_of(cut)).all()
        assert engine._batch is not None
        assert np.isfinite(engine._batch.bound.outputs["fresh"]).all()  # not one after the other


def test_a_quantised_model_with_a_constant_first_position(quantised: CompiledLanguage) -> None:
    """One of the sequences has no token yet, and its first one is not computed."""
    with NpuEngine(quantised.data, "software", batch=2) as engine:
        caches = [engine.new_cache() for _ in range(3)]
        engine.forward(caches[0], [1, 5, 6])
        engine.forward(caches[1], [1, 9])
        mixed = engine.forward_batch(caches, [7, 8, 1])
        alone = engine.new_cache()
        assert np.array_equal(mixed[2], engine.forward(alone, [1])[0])
        others = [engine.new_cache() for _ in range(3)]
        single = []
        for cache, given in zip(others, ([1, 5, 6], [1, 9], [1]), strict=True):
            engine.forward(cache, given)
        for cache, token in zip(others, [7, 8, 3], strict=True):
            single.append(engine.forward(cache, [token])[0])
        mixed[2] = engine.forward_batch([caches[2], caches[0]], [3, 3])[0]
    assert np.mean([decibels(one, two) for one, two in zip(single, mixed, strict=True)]) > 35  # steps of int8


PROGRAM = """
import sys
from openrknn.llm.npu import NpuEngine
device, model = sys.argv[1:]
def run(engine):
    caches = [engine.new_cache() for _ in range(4)]
    found = [engine.forward(cache, [1, 3 * at + 2, 5]) for at, cache in enumerate(caches)]
    found += [engine.forward_batch(caches, [token, token + 1, token + 2, token + 3]) for token in (7, 8)]
    found.append(engine.forward_batch(caches[1:3], [4, 5]))
    return [one.tobytes() for one in found], [engine.rows_of(cache).tobytes() for cache in caches]
with NpuEngine(model, "software", batch=2) as engine:
    wanted = run(engine)
with NpuEngine(model, device, batch=2) as engine:
    assert engine.session.device.name.startswith(device), engine.session.device.name
    assert run(engine) == wanted
print("same")
"""


@pytest.mark.parametrize("driver", ["rknpu", "rocket"])
def test_kernel_drivers_give_the_bytes_of_the_software_npu(
    driver: str, compiled: CompiledLanguage, quantised: CompiledLanguage, tmp_path: Path
) -> None:
    path = tmp_path / "model.rknnz"
    (quantised if driver == "rocket" else compiled).save(path)
    command = [sys.executable, "-m", "openrknn.cli", "exec", "--driver", driver, "--", sys.executable, "-c", PROGRAM]
    done = subprocess.run([*command, driver, str(path)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["same"]


def test_one_job_without_the_cpu(compiled: CompiledLanguage) -> None:
    assert compiled.batch_cost is not None
    assert (compiled.batch_cost.submits, compiled.batch_cost.cpu_operators) == (1, 0)
    with NpuEngine(compiled.data, "software", batch=2) as engine:
        assert engine._batch is not None
        program = engine._batch.bound.program
        assert isinstance(program, Program)
        assert len(program._steps(frozenset(), singly=False)) == 1
    found = board_costs(read_language(compiled.data))
    assert (found.batch, set(found.costs)) == (BATCH, {1, 8})
    assert found.batch_cost is not None
    assert (found.batch_cost.time_ms or 0) > (found.costs[1].time_ms or 0) > 0


def test_few_sequences_run_one_after_the_other_where_that_is_faster(
    compiled: CompiledLanguage, runs: list[int]
) -> None:
    file = read_language(compiled.data)
    *singles, batch = file.graphs
    with SoftwareDevice(CHIPS["rk3588"]) as device:
        assert least_together(batch, device) == BATCH
        assert least_together(replace(batch, sequences=8), device) == 5
    slow = replace(file, graphs=(*singles, replace(batch, least=3)))
    with NpuEngine(slow, "software") as engine:
        caches = [engine.new_cache() for _ in range(3)]
        engine.forward_batch(caches[:2], [1, 2])
        assert runs == []
        engine.forward_batch(caches, [1, 2, 3])
        assert runs == [3]
        measure_batch(engine, BATCH, tokens=2, repeats=1)
        assert runs == [3] * 4
    with NpuEngine(slow, "software", batch=0) as engine:
        engine.forward_batch([engine.new_cache() for _ in range(3)], [1, 2, 3])
    assert len(runs) == 4


class Words:
    size, end_tokens = VOCABULARY, frozenset({0})

    def encode(self, text: str) -> list[int]:
        return [1 + one % (VOCABULARY - 1) for one in text.encode()]

    def piece(self, token: int) -> bytes:
        return b"%d " % token


def test_streams_of_a_generator_share_runs(compiled: CompiledLanguage, runs: list[int]) -> None:
    """They start and end at different tokens; the last one goes on alone."""
    with Generator(NpuEngine(compiled.data, "software", batch=2), Words()) as generator:
        requests = [generator.stream([3 * one + 1, 5], Request(max_tokens=4 + 3 * one)) for one in range(3)]
        found = [list(stream) for stream in requests]
    assert [sum(event.token is not None for event in events) for events in found] == [4, 7, 10]
    assert {2, 3} <= set(runs)


def test_what_cannot_be_given(compiled: CompiledLanguage) -> None:
    with NpuEngine(compiled.data, "software", batch=2) as engine:
        full, other = engine.new_cache(), engine.new_cache()
        engine.forward(full, [1] * CAPACITY)
        with pytest.raises(CacheFullError):
            engine.forward_batch([other, full], [1, 2])
        assert other.tokens == ()
        with pytest.raises(ValueError, match="twice"):
            engine.forward_batch([other, other], [1, 2])
        with pytest.raises(ValueError, match="token 200"):
            engine.forward_batch([other, engine.new_cache()], [1, 200])


@pytest.mark.parametrize(
    ("changes", "batch", "message"),
    [
        ({}, 1, "batch=1"), ({}, 17, "batch=17"), (FAMILIES["gemma2"], 4, "soft caps"),
        ({"pooling": "mean"}, 4, "batch=4"),
    ],
)  # fmt: skip
def test_what_cannot_be_compiled(changes: dict[str, Any], batch: int, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        compile_language(MemorySource(**CHANGES | changes), capacity=32, prefill=(), batch=batch)


@pytest.mark.parametrize(
    "entry",
    [
        StepEntry(8, logits=True, sequences=9), StepEntry(8, logits=False, sequences=3),
        StepEntry(8, logits=True, sequences=0), StepEntry(8, logits=True, sequences=3, least=0),
        StepEntry(16, logits=True, sequences=3), StepEntry(8, logits=True, sequences=4),
        StepEntry(1 << 30, logits=True, sequences=1 << 30),
    ],
)  # fmt: skip
def test_a_file_that_is_wrong_about_its_batch_is_refused(compiled: CompiledLanguage, entry: StepEntry) -> None:
    file = read_language(compiled.data)
    with pytest.raises(FormatError):
        NpuEngine(write_language(replace(file, graphs=(*file.graphs[:-1], entry))), "software")
