"""A compilation that was interrupted goes on with what it has finished, and makes the same file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openrknn.cachefiles import FileCache
from openrknn.compiler.lower import constants
from openrknn.llm import compile as compiling
from openrknn.llm.compile import CompiledLanguage, compile_language
from openrknn.llm.quantise.model import Quantised, quantise_language
from openrknn.llm.quantise.products import Int4Product, Int8Product
from openrknn.llm.resume import CACHE, KeptProducts, source_digest
from tests.llm.quantise.sources import MemorySource
from tests.llm.test_npu_engine import CHANGES, TOKENS

ONE: dict[str, Any] = CHANGES | {"layers": 1}
PRODUCTS = 7
"""Values, queries with keys, the output; up, gate and down; one block of the head."""


class InterruptedHereError(BaseException):
    """As a signal would end it."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(FileCache, "is_on", True)
    monkeypatch.setenv("OPENRKNN_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def packings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of products whose weights are packed, not taken from the cache."""
    made: list[str] = []
    pack = constants._pack

    def counted(low: Any, op: Any, *rest: Any, **named: Any) -> Any:
        made.append(op.name)
        return pack(low, op, *rest, **named)

    monkeypatch.setattr(constants, "_pack", counted)
    return made


def compiled(source: MemorySource | Quantised, digest: str | None = "1234") -> CompiledLanguage:
    return compile_language(source, capacity=32, prefill=(), resume=digest)


def stored() -> int:
    return len(CACHE.stored())


@pytest.fixture(scope="module")
def wanted() -> bytes:
    return compiled(MemorySource(**ONE), None).data


def test_it_goes_on_from_each_part(
    folder: Path, packings: list[str], wanted: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupted behind what is measured, then behind each product: every run has one product more."""
    write = FileCache.write

    def interrupted(self: FileCache, *rest: Any) -> bool:
        write(self, *rest)
        raise InterruptedHereError

    source = MemorySource(**ONE)
    with monkeypatch.context() as patch:
        patch.setattr(FileCache, "write", interrupted)
        for number in range(PRODUCTS + 1):
            with pytest.raises(InterruptedHereError):
                compiled(source)
            assert stored() == number + 1
            assert len(packings) == number
    monkeypatch.setattr(compiling, "measure_squares", lambda _: pytest.fail("it was measured before"))
    made = compiled(source)
    assert len(set(packings)) == len(packings) == PRODUCTS
    assert made.data == wanted
    made.save(folder / "tiny.rknnz")
    assert (folder / "tiny.rknnz").read_bytes() == wanted
    assert stored() == 0


def test_what_cannot_be_written_is_not_forgotten(folder: Path, packings: list[str]) -> None:
    made = compiled(MemorySource(**ONE))
    with pytest.raises(OSError, match="no-such-folder"):
        made.save(folder / "no-such-folder" / "tiny.rknnz")
    assert stored() == PRODUCTS + 1
    compiled(MemorySource(**ONE)).save(folder / "tiny.rknnz")
    assert len(packings) == PRODUCTS


def test_damaged_parts_are_made_again(packings: list[str], wanted: bytes) -> None:
    compiled(MemorySource(**ONE))
    for one in CACHE.stored():
        data = bytearray(one.path.read_bytes())
        data[len(data) // 2] ^= 1
        one.path.write_bytes(data)
    assert compiled(MemorySource(**ONE)).data == wanted
    assert len(packings) == 2 * PRODUCTS


def test_another_model_chip_or_rounding_takes_nothing(packings: list[str]) -> None:
    source = MemorySource(**ONE)
    compiled(source)
    compiled(source, "5678")
    assert len(packings) == 2 * PRODUCTS
    compile_language(source, "rk3562", capacity=32, prefill=(), resume="1234")
    assert set(packings[: 2 * PRODUCTS]) <= set(packings[2 * PRODUCTS :])
    packings.clear()
    for text in (TOKENS, TOKENS[::2]):  # other ranges
        compiled(quantise_language(source, [text], online=True))
    assert len(packings) == 2 * PRODUCTS
    compiled(quantise_language(source, [TOKENS], online=True))
    assert len(packings) == 2 * PRODUCTS


@pytest.mark.parametrize("options", [{"precision": "fp16"}, {"skip": ["down"]}, {"skip": ["down"], "online": True}])
def test_float_products_of_a_rotated_model_are_not_those_of_another(options: dict[str, Any]) -> None:
    """Integers do not tell them apart: there are none, or they are the same."""
    source = MemorySource(**ONE)
    compiled(source)
    for online in (False, True):
        compiled(quantise_language(source, [TOKENS], skip=["down"], online=online))
    made = quantise_language(source, [TOKENS], **options)
    assert compiled(made).data == compiled(made, None).data


def test_without_a_cache_it_compiles(monkeypatch: pytest.MonkeyPatch, wanted: bytes) -> None:
    monkeypatch.setenv("OPENRKNN_CACHE", "off")
    assert compiled(MemorySource(**ONE)).data == wanted


PROGRAM = """
import os, signal, sys
from openrknn.llm.compile import compile_language
from tests.llm.quantise.sources import MemorySource
from tests.llm.test_resume import ONE

replace, done = os.replace, []

def killed(*paths):
    done.append(paths)
    if len(done) == int(sys.argv[1]):
        os.kill(os.getpid(), signal.SIGKILL)
    replace(*paths)

os.replace = killed
compile_language(MemorySource(**ONE), capacity=32, prefill=(), resume="1234").save(sys.argv[2])
"""


def test_a_process_that_is_killed_leaves_whole_parts(folder: Path, packings: list[str], wanted: bytes) -> None:
    """While a part has another name still: that one is lost, those before it are there."""
    number = 5
    command = [sys.executable, "-c", PROGRAM, str(number), str(folder / "tiny.rknnz")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=_root())
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert not (folder / "tiny.rknnz").exists()
    assert stored() == number - 1
    assert compiled(MemorySource(**ONE)).data == wanted
    assert len(packings) == PRODUCTS - (number - 2)


def _root() -> str:
    return str(Path(__file__).parent.parent.parent)


def test_a_digest_is_of_all_files(tmp_path: Path) -> None:
    def digests() -> Iterator[str]:
        (tmp_path / "model").mkdir()
        yield source_digest(tmp_path / "model")
        (tmp_path / "model" / "a").write_bytes(b"1")
        yield source_digest(tmp_path / "model")
        yield source_digest(tmp_path / "model" / "a")
        os.rename(tmp_path / "model" / "a", tmp_path / "model" / "b")
        yield source_digest(tmp_path / "model")
        (tmp_path / "model" / "b").write_bytes(b"2")
        yield source_digest(tmp_path / "model")

    found = list(digests())
    assert len(set(found)) == len(found)


def test_a_digest_is_of_all_parts_of_a_split_file(tmp_path: Path) -> None:
    first, second, other = (tmp_path / f"{name}-of-00002.gguf" for name in ("a-00001", "a-00002", "b-00002"))
    for path in (first, second, other):
        path.write_bytes(b"1")
    before = source_digest(first)
    other.write_bytes(b"2")
    assert source_digest(first) == before
    second.write_bytes(b"2")
    assert source_digest(first) != before


TEXTS = [TOKENS[:12], TOKENS[5:20]]


@pytest.mark.parametrize("options", [{"precision": "w8a8"}, {"precision": "w4a16", "group": 32, "adapt_seconds": 60.0}])
def test_quantisation_goes_on_from_each_product(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted behind each product, until calibration is not needed any more; the integers are the same."""
    source = MemorySource(**ONE)
    whole = quantise_language(source, TEXTS, **options)
    write = FileCache.write

    def interrupted(self: FileCache, *rest: Any) -> bool:
        write(self, *rest)
        raise InterruptedHereError

    def kept() -> KeptProducts:
        return KeptProducts.of("1234", TEXTS, **options)

    with monkeypatch.context() as patch:
        patch.setattr(FileCache, "write", interrupted)
        for number in range(len(whole.products)):
            with pytest.raises(InterruptedHereError):
                quantise_language(source, TEXTS, **options, kept=kept())
            assert stored() == number + 1
    stages: list[str] = []
    last = kept()
    found = quantise_language(source, TEXTS, **options, kept=last, progress=lambda stage, *_: stages.append(stage))
    assert "calibrate" not in stages
    assert last.taken == len(whole.products)
    assert found.choices == whole.choices
    for name, product in whole.products.items():
        again = found.products[name]
        assert isinstance(product, Int8Product | Int4Product)
        assert type(again) is type(product)
        assert isinstance(again, Int8Product | Int4Product)
        assert np.array_equal(again.weights, product.weights)
        assert np.array_equal(again.scales, product.scales)
        assert getattr(again, "input_scale", None) == getattr(product, "input_scale", None)
    last.clear()
    assert stored() == 0


@pytest.mark.parametrize(
    ("digest", "texts", "options"),
    [("1235", TEXTS, {"group": 32}), ("1234", TEXTS[:1], {"group": 32}), ("1234", TEXTS, {"group": 64})],
)
def test_products_of_another_quantisation_are_not_taken(digest: str, texts: Any, options: dict[str, Any]) -> None:
    quantise_language(MemorySource(**ONE), TEXTS, kept=KeptProducts.of("1234", TEXTS, group=32))
    assert KeptProducts.of("1234", TEXTS, group=32).take("head") is not None
    assert KeptProducts.of(digest, texts, **options).take("head") is None
