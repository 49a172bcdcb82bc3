"""What the software NPU keeps of a language model: one copy of packed weights for all graphs, and the same answers."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from openrknn.cachefiles import FileCache
from openrknn.compute import native
from openrknn.device import programs
from openrknn.errors import FormatError
from openrknn.llm.compile import compile_language
from openrknn.llm.file import read_language
from openrknn.llm.npu import NpuEngine
from openrknn.npu.machine import Machine
from openrknn.runtime.program import weights
from openrknn.runtime.program.program import Program
from tests.llm.quantise.sources import MemorySource
from tests.llm.test_npu_engine import CHANGES, TOKENS

pytestmark = pytest.mark.skipif(native.choose() is None, reason="NumPy alone: nothing is kept")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    wide: dict[str, Any] = {**CHANGES, "hidden": 512, "vocabulary": 8192}  # so that a file is worth a mapping
    made = tmp_path_factory.mktemp("language") / "tiny.rknnz"
    compile_language(MemorySource(**wide), capacity=64, prefill=(32,)).save(made)
    return made


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A cache of its own, and a list that grows with each job that is decoded."""
    monkeypatch.setattr(FileCache, "is_on", True)
    monkeypatch.setenv("OPENRKNN_CACHE", str(tmp_path))
    decoded: list[int] = []
    prepare = Machine.prepare

    def counted(self: Machine, lists: Any) -> Any:
        decoded.append(len(lists))
        return prepare(self, lists)

    monkeypatch.setattr(Machine, "prepare", counted)
    return decoded


def answer(path: Path, tokens: list[int]) -> bytes:
    with NpuEngine(path, "software") as engine:
        return engine.forward(engine.new_cache(), tokens).tobytes()


def test_graphs_share_packed_weights_in_the_cache(path: Path, kept: list[int]) -> None:
    """The graph of many comes first in a prompt; the weights are in the file of the graph of one token all the same."""
    wanted = answer(path, TOKENS)
    assert len(kept) == 2
    small, large = sorted(one.size for one in programs.CACHE.stored())
    assert small < large / 2, "the second graph has a copy of the weights"
    assert answer(path, TOKENS) == wanted
    assert len(kept) == 2, "the second process decodes"
    answer(path, TOKENS[:1])
    assert len(kept) == 2, "a shorter prompt finds other keys"


def test_a_graph_that_is_new_finds_the_weights_of_the_others(path: Path, kept: list[int]) -> None:
    answer(path, TOKENS[:1])
    (alone,) = (one.size for one in programs.CACHE.stored())
    wanted = answer(path, TOKENS)
    assert sum(one.size for one in programs.CACHE.stored()) < 1.5 * alone
    assert answer(path, TOKENS) == wanted
    assert len(kept) == 2


def test_a_file_that_is_gone_is_made_again(path: Path, kept: list[int]) -> None:
    wanted = answer(path, TOKENS)
    largest = max(programs.CACHE.stored(), key=lambda one: one.size)
    largest.path.unlink()
    assert answer(path, TOKENS) == wanted
    assert answer(path, TOKENS) == wanted
    data = bytearray(largest.path.read_bytes())
    data[len(data) // 2] ^= 1
    largest.path.write_bytes(data)
    assert answer(path, TOKENS) == wanted


def test_large_parts_of_a_file_are_mapped_and_checked(path: Path, tmp_path: Path) -> None:
    file = read_language(path)
    assert isinstance(file.files["embedding.bin"], memoryview)
    whole = read_language(path.read_bytes())
    assert all(file.files[name] == whole.files[name] for name in whole.files)
    assert np.array_equal(file.embedding, whole.embedding)
    damaged = bytearray(path.read_bytes())
    place = damaged.find(bytes(file.files["embedding.bin"][1000:1064]))
    damaged[place] ^= 1
    (tmp_path / "damaged.rknnz").write_bytes(damaged)
    with pytest.raises(FormatError, match=r"embedding.bin of .* is damaged: its checksum is another one"):
        read_language(tmp_path / "damaged.rknnz")


def test_constants_that_were_packed_are_dropped(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the cache: no more than what a step needs, and what tasks read as it is, is in memory."""
    monkeypatch.setenv("OPENRKNN_CACHE", "off")
    wanted = answer(path, TOKENS)
    monkeypatch.setattr(weights, "_MANY_BYTES", 0)
    monkeypatch.setattr(weights, "_LARGE", 4 * mmap.PAGESIZE)
    monkeypatch.setattr(programs, "_FETCHED_BYTES", 0)
    with NpuEngine(path, "software") as engine:
        store = cast("Program", engine.graphs[1].program)._store
        assert engine.forward(engine.new_cache(), TOKENS).tobytes() == wanted
        assert store.ranges
        assert store.buffer is not None
        inside = [store.buffer.array[start + mmap.PAGESIZE : end - mmap.PAGESIZE] for start, end in store.ranges]
        dropped = sum(not part.any() for part in inside)
        assert store.is_intact()
        assert sum(not part.any() for part in inside) < dropped, "nothing was dropped"
        store.trim()
        assert store.is_intact(), "what was asked for stays"
        assert engine.forward(engine.new_cache(), TOKENS).tobytes() == wanted


def test_constants_of_programs_from_the_cache_are_not_copied(
    path: Path, kept: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packed weights are in the file of the program; what tasks read as it is comes to its place."""
    monkeypatch.setattr(weights, "_MANY_BYTES", 0)
    monkeypatch.setattr(weights, "_LARGE", 1024)
    wanted = answer(path, TOKENS)
    with NpuEngine(path, "software") as engine:
        store = cast("Program", engine.graphs[1].program)._store
        assert store.ranges
        assert engine.forward(engine.new_cache(), TOKENS).tobytes() == wanted
        assert store.buffer is not None
        before = sum(bool(store.buffer.array[start:end].any()) for start, end in store.ranges)
        assert store.is_intact()
        after = sum(bool(store.buffer.array[start:end].any()) for start, end in store.ranges)
        assert before < after, "everything was copied before somebody asked"
    assert len(kept) == 2
    monkeypatch.setenv("OPENRKNN_CACHE", "off")
    assert answer(path, TOKENS) == wanted


def test_a_program_that_names_no_constants_is_not_found_where_they_are_copied_later(
    path: Path, kept: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What tasks read as it is would be zeros."""
    wanted = answer(path, TOKENS)
    monkeypatch.setattr(weights, "_MANY_BYTES", 0)
    monkeypatch.setattr(weights, "_LARGE", 64)
    assert answer(path, TOKENS) == wanted
    assert len(kept) == 4
