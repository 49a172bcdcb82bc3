"""Models of embeddings: compiled, opened with the vocabulary of their folder, compared with float."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from openrknn.compiler.errors import OptionError
from openrknn.errors import FormatError, UnsupportedError
from openrknn.llm.compile import CompiledLanguage, compile_language
from openrknn.llm.compiled_assets import assets_of
from openrknn.llm.config import Rope
from openrknn.llm.embedder import NpuEmbedder
from openrknn.llm.errors import CacheFullError
from openrknn.llm.file import POSITIONS, read_language, write_language
from openrknn.llm.npu import NpuEngine
from openrknn.llm.opening import open_model
from openrknn.llm.reference import ReferenceEngine, embed
from tests.llm.quantise.sources import MemorySource
from tests.llm.test_npu_engine import CHANGES, CLOSE, TOKENS, decibels

BERT: dict[str, Any] = {
    "architecture": "bert", "norm": "layer", "rope": None, "causal": False, "norm_first": False, "gated": False,
    "activation": "gelu", "pooling": "mean", "kv_heads": 4,
}  # fmt: skip
FAMILIES: dict[str, dict[str, Any]] = {
    "nomic": BERT | {"rope": Rope(1000.0, 32), "gated": True, "activation": "silu", "pooling": "cls"},
    "qwen3": {"query_key_norm": True, "pooling": "last"},
    "windows": BERT | {"window": 5, "window_layers": (True, False)},
}


@pytest.fixture(scope="module")
def source() -> MemorySource:
    return MemorySource(biases=True, **CHANGES | BERT)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("folder")
    words = Tokenizer(models.WordLevel({"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "hello": 3, "world": 4}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    words.save(str(path / "tokenizer.json"))
    (path / "tokenizer_config.json").write_text('{"chat_template": "{{ messages[0].content }}"}')
    return path


@pytest.fixture(scope="module")
def compiled(source: MemorySource, folder: Path) -> CompiledLanguage:
    return compile_language(source, capacity=64, prefill=(32, 128), assets=assets_of(folder))


def test_rows_are_those_of_the_reference(compiled: CompiledLanguage, source: MemorySource) -> None:
    """Graphs of 32 and 64 tokens; what pads a text is not seen, also by a shorter one after a longer one."""
    reference = ReferenceEngine(source)
    with NpuEmbedder(compiled.data, "software") as engine:
        assert sorted(engine.graphs) == [32, 64]
        for count in (32, 5, 40, 1):
            text = TOKENS[:count]
            assert decibels(reference.hidden(text), engine.hidden(text)) > CLOSE
            assert float(embed(source, text) @ engine.embed(text)) > 0.9999
        with pytest.raises(CacheFullError, match="64 fit"):
            engine.hidden([1] * 65)
        with pytest.raises(ValueError, match="token 200"):
            engine.hidden([200])
        with pytest.raises(UnsupportedError, match="no text"):
            engine.new_cache()


@pytest.mark.parametrize("name", FAMILIES)
def test_families(name: str) -> None:
    source = MemorySource(**CHANGES | FAMILIES[name])
    with NpuEmbedder(compile_language(source, capacity=32, prefill=()).data, "software") as engine:
        text = TOKENS[:20]
        assert decibels(ReferenceEngine(source).hidden(text), engine.hidden(text)) > CLOSE
        assert float(embed(source, text) @ engine.embed(text)) > 0.9999


def test_a_compiled_folder_opens_with_its_vocabulary(
    compiled: CompiledLanguage, source: MemorySource, tmp_path: Path
) -> None:
    path = tmp_path / "tiny.rknnz"
    compiled.save(path)
    model = open_model(path, device="software")
    tokens = model.generator.vocabulary.encode("hello world")
    assert tokens == [1, 3, 4, 2]
    assert model.can_embed
    assert float(model.embed(tokens) @ embed(source, tokens)) > 0.9999
    assert model.template is not None
    assert model.template.render([{"role": "user", "content": "hello"}]) == "hello"
    assert model.details.context == 64
    model.close()


def test_files_are_checked(compiled: CompiledLanguage) -> None:
    file = read_language(compiled.data)
    with pytest.raises(UnsupportedError, match="NpuEmbedder"):
        NpuEngine(file, "software")
    for change, text in (
        ({"capacity": 96}, "says 96 tokens"), ({"files": {**file.files, POSITIONS: b"12"}}, "positions.bin"),
        ({"config": replace(file.config, window=5)}, "takes and gives"),
    ):  # fmt: skip
        with pytest.raises(FormatError, match=text):
            NpuEmbedder(write_language(replace(file, **change)), "software")


def test_whole_texts_are_bounded() -> None:
    with pytest.raises(OptionError, match="1024 tokens at most"):
        compile_language(MemorySource(**CHANGES | BERT | {"context": 4096}), capacity=2048)


def test_positions_of_a_text_are_its_own(compiled: CompiledLanguage) -> None:
    with NpuEmbedder(compiled.data, "software") as engine:
        one, other = engine.hidden([7, 8]), engine.hidden([8, 7])
        assert not np.allclose(one, other[::-1], atol=0.05)
