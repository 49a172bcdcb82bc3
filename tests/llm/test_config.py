"""The description of a language model refuses what cannot be."""

import pytest

from openrknn.llm.config import LanguageConfig

SHAPE = {"vocabulary": 32, "width": 16, "heads": 4, "kv_heads": 2, "head_size": 4, "hidden": 32, "context": 64}


def test_heads_share_keys_and_values_evenly() -> None:
    with pytest.raises(ValueError, match="4 heads cannot share 3"):
        LanguageConfig("llama", layers=2, **{**SHAPE, "kv_heads": 3})  # type: ignore[arg-type]


def test_each_layer_has_its_window() -> None:
    config = LanguageConfig("gemma2", layers=2, window=8, window_layers=(True, False), **SHAPE)  # type: ignore[arg-type]
    assert [config.window_of(layer) for layer in range(2)] == [8, None]
    assert LanguageConfig("mistral", layers=2, window=8, **SHAPE).window_of(1) == 8  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="1 layers of 2"):
        LanguageConfig("gemma2", layers=2, window=8, window_layers=(True,), **SHAPE)  # type: ignore[arg-type]
