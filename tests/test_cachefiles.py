"""Damage to files of the cache is noticed, wherever it is; digests of constants do not depend on who makes them."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from openrknn import cachefiles
from openrknn.cachefiles import FileCache
from openrknn.compute import processors
from openrknn.runtime.program import weights

KEY = "5e" * 32


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FileCache:
    monkeypatch.setenv("OPENRKNN_CACHE", str(tmp_path))
    monkeypatch.setattr(FileCache, "is_on", True)
    monkeypatch.setattr(cachefiles, "_has_room", lambda folder, size: True)
    return FileCache("trial", most_bytes=1 << 30)


def write(cache: FileCache) -> dict[str, bytes]:
    numbers = np.random.default_rng(3)
    sections = {name: numbers.bytes(size) for name, size in
                (("none", 0), ("small", 1001), ("large", cachefiles._LARGE + 5), ("last", 3))}  # fmt: skip
    half = len(sections["large"]) // 2
    parts = {**sections, "large": [sections["large"][:half], sections["large"][half:]]}
    assert cache.write(KEY, {"meaning": 7}, parts)
    return sections


def test_what_was_written_is_read(cache: FileCache) -> None:
    sections = write(cache)
    entry = cache.read(KEY)
    assert entry is not None
    assert entry.meta == {"meaning": 7}
    assert {name: bytes(section) for name, section in entry.sections.items()} == sections


def test_damage_anywhere_is_noticed(cache: FileCache) -> None:
    write(cache)
    (one,) = cache.stored()
    whole = one.path.read_bytes()
    places = {*range(0, 600, 7), *range(600, len(whole), 50_021), len(whole) - 1}
    for place in sorted(places):
        one.path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        assert cache.read(KEY) is None, place
        assert not one.path.exists()
    one.path.write_bytes(whole[:-64])
    assert cache.read(KEY) is None
    one.path.write_bytes(whole)
    assert cache.read(KEY) is not None


def constants(changed: int | None = None) -> list[tuple[int, memoryview]]:
    data = bytearray(np.random.default_rng(4).bytes(3 * weights._HASHED_AT_ONCE + 77))
    if changed is not None:
        data[changed] ^= 1
    return [(0, memoryview(bytes(data))), (1 << 24, memoryview(b"")), (1 << 25, memoryview(b"few"))]


def test_a_digest_is_the_same_with_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    found = set()
    for count in (1, 2, 3, 64):
        monkeypatch.setattr(processors, "cores", lambda count=count: count)
        found.add(weights._digest_of(constants()))

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    found.add(weights._digest_of(constants()))
    assert len(found) == 1


def test_a_digest_changes_with_every_byte_and_place() -> None:
    assert weights._digest_of([]) == weights._digest_of([])
    same = constants()
    found = {weights._digest_of(constants(changed)) for changed in (None, 0, weights._HASHED_AT_ONCE, -1)}
    found.add(weights._digest_of(same[:2]))
    found.add(weights._digest_of([same[0], same[2]]))
    found.add(weights._digest_of([(64, same[0][1]), *same[1:]]))
    assert len(found) == 7


def test_a_thread_that_fails_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processors, "cores", lambda: 2)
    monkeypatch.setattr(threading.Thread, "run", lambda _: None)
    with pytest.raises(MemoryError):
        weights._digest_of(constants())
