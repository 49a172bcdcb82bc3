"""The float engine against transformers, family by family, and what an engine has to do with its cache."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openrknn.errors import UnsupportedError
from openrknn.llm.errors import CacheFullError
from openrknn.llm.files import FileSource, open_weights
from openrknn.llm.files.families import FAMILIES
from openrknn.llm.reference import ReferenceCache, ReferenceEngine, Transformer, embed
from tests.llm.tiny import llama_weights, write_folder, write_gguf

GOLDENS = sorted((Path(__file__).parent / "goldens").glob("*.json"))


def load(path: Path) -> dict[str, Any]:
    golden: dict[str, Any] = json.loads(path.read_text())
    return golden


@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: path.stem)
def test_the_numbers_are_those_of_transformers(path: Path, tmp_path: Path) -> None:
    golden = load(path)
    tokens = golden["tokens"]
    source = open_weights(write_folder(tmp_path, golden), context=len(tokens))
    if source.config.causal:
        engine = ReferenceEngine(source)
        cache = engine.new_cache()
        # In three parts: the cache has a share in it.
        found = np.concatenate(
            [engine.forward(cache, part, all_logits=True) for part in (tokens[:5], tokens[5:6], tokens[6:])]
        )
    else:
        found = Transformer(source, keep=False).hidden_states(ReferenceCache(source.config), tokens)
    for row, wanted in golden["rows"].items():
        np.testing.assert_allclose(found[int(row)], wanted, atol=1e-4)


def test_every_family_has_a_golden() -> None:
    kinds = {load(path)["config"]["model_type"] for path in GOLDENS}
    assert all(set(family.folders) & kinds for family in FAMILIES)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> FileSource:
    return open_weights(write_gguf(tmp_path_factory.mktemp("llm") / "m.gguf", llama_weights()))


def test_a_cache_can_be_cut_and_copied(source: FileSource) -> None:
    engine = ReferenceEngine(source)
    cache = engine.new_cache()
    engine.forward(cache, [1, 2, 3])
    other = cache.copy()
    first = engine.forward(cache, [4, 5])
    engine.forward(other, [9])
    other.truncate(3)
    np.testing.assert_allclose(engine.forward(other, [4, 5]), first, atol=1e-5)
    assert cache.tokens == other.tokens == (1, 2, 3, 4, 5)
    with pytest.raises(ValueError, match="cannot be cut to 6"):
        cache.truncate(6)


def test_a_batch_is_each_alone(source: FileSource) -> None:
    engine = ReferenceEngine(source, keep=False)
    caches = [engine.new_cache() for _ in range(2)]
    engine.forward(caches[1], [7, 8])
    found = engine.forward_batch(caches, [3, 4])
    alone = engine.new_cache()
    np.testing.assert_allclose(found[1:], engine.forward(alone, [7, 8, 4]), atol=1e-5)
    assert found.shape == (2, 40)


def test_what_does_not_fit_is_refused_before_it_is_computed(source: FileSource) -> None:
    engine = ReferenceEngine(source, capacity=4)
    cache = engine.new_cache()
    engine.forward(cache, [1, 2, 3])
    with pytest.raises(CacheFullError, match="3 tokens and 2 new ones are more than the 4"):
        engine.forward(cache, [4, 5])
    assert cache.tokens == (1, 2, 3)
    with pytest.raises(ValueError, match="token 40"):
        engine.forward(cache, [40])


def test_embeddings_are_pooled_as_the_folder_says(tmp_path: Path) -> None:
    golden = load(Path(__file__).parent / "goldens/bert.json")
    folder = write_folder(tmp_path, golden)
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling/config.json").write_text('{"pooling_mode_cls_token": true}')
    source = open_weights(folder)
    found = embed(source, golden["tokens"], normalise=False)
    np.testing.assert_allclose(found, golden["rows"]["0"], atol=1e-4)
    assert np.linalg.norm(embed(source, golden["tokens"])) == pytest.approx(1)
    with pytest.raises(UnsupportedError, match="embeddings"):
        ReferenceEngine(source).forward(ReferenceEngine(source).new_cache(), [1])
