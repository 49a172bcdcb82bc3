"""`openrknn llm quantise` and `llm compile` on tiny models."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openrknn.llm.compiled_assets
import openrknn.llm.files
import openrknn.llm.tokens
from openrknn.llm.config import Rope
from openrknn.llm.file import read_language
from openrknn.llm.opening import open_model
from openrknn.llm.reference import ReferenceEngine
from tests.cli.run import run
from tests.llm.chat_file import write_chat_model
from tests.llm.quantise.sources import MemorySource


class Letters:
    """A token for each letter."""

    start = ord("^")

    def encode(self, text: str, **_: Any) -> list[int]:
        return [ord(letter) % 200 for letter in text]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    source = MemorySource(
        vocabulary=200, width=64, head_size=32, hidden=96, layers=1, context=64, rope=Rope(1e4, 32), logit_scale=0.02
    )
    monkeypatch.setattr(openrknn.llm.files, "open_weights", lambda path, context=None: source)
    monkeypatch.setattr(openrknn.llm.tokens, "open_tokenizer", lambda path: Letters())
    monkeypatch.setattr(openrknn.llm.compiled_assets, "assets_of", lambda path: {})
    for name, text in {"tiny.gguf": "", "book.txt": "It was a dark night. " * 6, "other.txt": "The rain fell. " * 9,
                       "short.txt": "a"}.items():  # fmt: skip
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_model_is_quantised_measured_and_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made, page = folder / "tiny.rknnz", folder / "page.html"
    words = ("llm", "quantise", folder / "tiny.gguf", folder / "book.txt", "--calibrate", folder / "other.txt")
    result = run(capsys, *words, "--window", 64, "--context", 32, "-o", made, "--report", page, "--layers", "--json")
    assert result.code == 0, result.err
    found = json.loads(result.out)
    assert found["precision"] == "w8a8"
    assert 0 < found["whole"]["kl"] < 0.01
    assert found["layers"][0]["kl"] > 0
    assert {entry["name"] for entry in found["products"]} >= {"layers.0.down", "head"}
    worst = max(found["kinds"], key=lambda kind: found["kinds"][kind]["kl"])
    assert f"Largest KL: {worst} with" in page.read_text()
    assert "Largest KL: layer 0 with" in page.read_text()
    least = min(found["products"], key=lambda entry: entry["snr_db"])
    assert f"Least accurate: {least['name']} with" in page.read_text()
    assert read_language(made).prefix == ord("^")


def test_int4_is_measured(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("llm", "quantise", folder / "tiny.gguf", folder / "book.txt", "--calibrate", folder / "other.txt")
    result = run(capsys, *words, "--precision", "w4a16", "--adapt", 10, "--limit", 30, "--group", 32)
    assert result.code == 0, result.err
    assert float(result.out.split()[1]) > 0


def test_compiled_directly_it_is_the_same_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made, again = folder / "tiny.rknnz", folder / "again.rknnz"
    words = ("--calibrate", folder / "other.txt", "--window", 64, "--context", 32, "--precision", "w8a8")
    result = run(capsys, "llm", "quantise", folder / "tiny.gguf", folder / "book.txt", *words, "-o", made)
    assert result.code == 0, result.err
    result = run(capsys, "llm", "compile", folder / "tiny.gguf", *words, "-o", again, "--json")
    assert result.code == 0, result.err
    assert json.loads(result.out)["precision"] == "w8a8"
    assert again.read_bytes() == made.read_bytes()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("compile", "--precision", "w8a8"), "in w8a8 needs --calibrate"),
        (("compile", "--calibrate", "other.txt"), "in fp16 takes no --calibrate"),
        (("compile", "--precision", "w4a16", "--calibrate", "other.txt"), "int4"),
        (("quantise", "book.txt", "--precision", "fp16", "--calibrate", "other.txt"), "makes integers"),
    ],
)
def test_precisions_that_do_not_fit(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...],
    message: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(folder)
    result = run(capsys, "llm", words[0], "tiny.gguf", *words[1:], "-o", "made.rknnz")
    assert result.code == 2
    assert message in result.err


@pytest.mark.parametrize(
    ("words", "message"),
    [((), "needs --calibrate"), (("--calibrate", "short.txt"), "too few"), (("--calibrate", "none.txt"), "cannot be")],
)
def test_what_is_missing_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...],
    message: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(folder)
    result = run(capsys, "llm", "quantise", "tiny.gguf", "book.txt", *words)
    assert result.code == 2
    assert message in result.err


def test_a_graph_for_drafts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`compile --drafts 8`: the logits of eight tokens in one run, here with a vocabulary that is no whole atoms."""
    model, made = write_chat_model(tmp_path / "model.gguf"), tmp_path / "model.rknnz"
    result = run(capsys, "llm", "compile", model, "-o", made, "--context", 32, "--drafts", 8, "--json")
    assert result.code == 0, result.err
    assert [row["tokens"] for row in json.loads(result.out)["estimates"]][:2] == [1, 8]
    with closing(open_model(made, device="software", sequences=1)) as opened:
        engine = opened.generator.engine
        tokens = [5, 6, 7, 8, 9, 10, 11, 12]
        together = engine.forward(engine.new_cache(), tokens, all_logits=True)
        cache = engine.new_cache()
        single = np.concatenate([engine.forward(cache, [token]) for token in tokens])
        assert together.shape == single.shape == (8, engine.config.vocabulary)
        np.testing.assert_allclose(together, single, atol=0.05 * float(np.abs(single).max()))
    wrong = run(capsys, "llm", "compile", model, "-o", tmp_path / "other.rknnz", "--context", 32, "--drafts", 5)
    assert (wrong.code, "few=5: 8 can be" in wrong.err) == (2, True)


def test_a_graph_of_several_sequences(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`compile --batch 3`, then `bench`: measured, and estimated for a board."""
    model, made = write_chat_model(tmp_path / "model.gguf"), tmp_path / "model.rknnz"
    result = run(capsys, "llm", "compile", model, "-o", made, "--context", 32, "--batch", 3, "--json")
    assert result.code == 0, result.err
    rows = json.loads(result.out)["estimates"]
    assert [(row["tokens"], row["sequences"]) for row in rows if row["sequences"] > 1] == [(3, 3)]
    told = run(capsys, "llm", "bench", made, "--device", "software", "--prompt", 4, "--tokens", 4, "--repeat", 1)
    assert told.code == 0, told.err
    assert "3 sequences" in told.out
    assert "3 at a time, of as many sequences" in told.out
    wrong = run(capsys, "llm", "compile", model, "-o", tmp_path / "other.rknnz", "--context", 32, "--batch", 1)
    assert (wrong.code, "batch=1: 2 to 16" in wrong.err) == (2, True)


def test_the_file_is_compared_with_the_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another model behind the same name: what is written is not right, which is an error in fp16."""
    model, made = write_chat_model(tmp_path / "model.gguf"), tmp_path / "model.rknnz"
    words = ("llm", "compile", model, "--context", 32)
    good = run(capsys, *words, "-o", made)
    assert (good.code, "check       KL 0.0" in good.out) == (0, True)
    skipped = run(capsys, *words, "-o", tmp_path / "second.rknnz", "--no-check", "--json")
    assert (skipped.code, json.loads(skipped.out)["check"]) == (0, None)
    class Other:
        """The signs of every second row of the embedding are others."""

        def __init__(self, source: Any) -> None:
            self.source, self.config, self.names = source, source.config, source.names

        def get(self, name: str) -> Any:
            return self.source.get(name)

        def rows(self, name: str, first: int, count: int) -> Any:
            return self.source.rows(name, first, count) * (np.arange(count) % 2 * 2 - 1)[:, None]

    monkeypatch.setattr("openrknn.llm.agreement.ReferenceEngine", lambda source, **_: ReferenceEngine(Other(source)))
    wrong = run(capsys, *words, "-o", tmp_path / "third.rknnz")
    assert wrong.code == 1
    assert "at most 0.01 is expected in fp16" in wrong.err
    assert "third.rknnz was written but is not right" in wrong.err
