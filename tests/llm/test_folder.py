"""Hugging Face folders: shards, prefixes, and files that contradict themselves."""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openrknn.errors import (
    BadTableError,
    BadTensorError,
    BadTextError,
    OutOfBoundsError,
    TruncatedError,
    UnsupportedError,
)
from openrknn.llm.errors import MissingTensorError, NotWeightsError, UnsupportedArchitectureError
from openrknn.llm.files import open_weights
from openrknn.llm.files.safetensors import read_safetensors
from tests.llm.tiny import stored_weight, write_folder, write_safetensors


def golden(name: str = "llama") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((Path(__file__).parent / f"goldens/{name}.json").read_text())
    return found


def test_parts_are_one_model(tmp_path: Path) -> None:
    whole = open_weights(write_folder(tmp_path / "whole", golden()))
    folder = write_folder(tmp_path / "parts", golden())
    (folder / "model.safetensors").unlink()
    weights = {name: stored_weight(name, tuple(shape)) for name, shape in golden()["shapes"].items()}
    names = list(weights)
    places = {name: f"model-0000{1 + number % 2}-of-00002.safetensors" for number, name in enumerate(names)}
    for file in set(places.values()):
        write_safetensors(folder / file, {name: weights[name] for name in names if places[name] == file})
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    parts = open_weights(folder)
    for name in whole.names():
        np.testing.assert_array_equal(parts.get(name), whole.get(name))


@pytest.mark.parametrize(
    ("places", "kind"),
    [
        ({"a": "../model.safetensors"}, OutOfBoundsError),
        ({"a": "/etc/passwd"}, OutOfBoundsError),
        ({"a": "model.safetensors"}, BadTableError),
        ({"a": 7}, BadTableError),
    ],
)
def test_an_index_names_files_of_its_folder(tmp_path: Path, places: dict[str, Any], kind: type[Exception]) -> None:
    folder = write_folder(tmp_path, golden())
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    with pytest.raises(kind):
        open_weights(folder)


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({"model_type": "qwen3_moe"}, UnsupportedArchitectureError, "mixture of experts"),
        ({"model_type": "mamba"}, UnsupportedArchitectureError, "'mamba' is not supported; these are: llama"),
        ({"num_local_experts": 4}, UnsupportedArchitectureError, "4 experts"),
        ({"quantization_config": {"bits": 4}}, UnsupportedArchitectureError, "quantised for another runtime"),
        ({"num_hidden_layers": 3}, MissingTensorError, r"model\.layers\.2\."),
        ({"num_hidden_layers": 1}, UnsupportedArchitectureError, "does not have"),
        ({"intermediate_size": 47}, BadTensorError, r"\[47, 32\]"),
        ({"hidden_act": "relu"}, UnsupportedArchitectureError, "relu"),
        ({"rope_parameters": {"rope_type": "new"}}, UnsupportedArchitectureError, "'new'"),
        ({"rope_parameters": 3}, BadTextError, "rope_parameters"),
        ({"num_attention_heads": "4"}, BadTextError, "whole number"),
        ({"tie_word_embeddings": 1}, BadTextError, "true or false"),
    ],
)
def test_configurations_that_cannot_be(
    tmp_path: Path, changes: dict[str, Any], kind: type[Exception], message: str
) -> None:
    folder = write_folder(tmp_path, golden() | {"config": golden()["config"] | changes})
    with pytest.raises(kind, match=message):
        open_weights(folder)


def test_folders_without_weights_say_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(NotWeightsError, match=r"config\.json is not there"):
        open_weights(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(NotWeightsError, match="neither"):
        open_weights(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(UnsupportedError, match="pickles"):
        open_weights(tmp_path)
    (tmp_path / "config.json").write_text("[" * 100_000)
    with pytest.raises(BadTextError, match="no JSON"):
        open_weights(tmp_path)


ENTRY = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"dtype": "F8_E4M3"}, UnsupportedError),
        ({"dtype": None}, UnsupportedError),
        ({"shape": [2, 3]}, BadTensorError),
        ({"shape": [2, 2**62]}, BadTensorError),
        ({"shape": [-1, -4]}, BadTensorError),
        ({"shape": []}, BadTensorError),
        ({"shape": [0]}, BadTensorError),
        ({"data_offsets": [8, 24]}, OutOfBoundsError),
        ({"data_offsets": [16, 0]}, OutOfBoundsError),
        ({"data_offsets": [0]}, OutOfBoundsError),
    ],
)
def test_tables_that_lie(tmp_path: Path, change: dict[str, Any], kind: type[Exception]) -> None:
    header = json.dumps({"a": ENTRY | change}).encode()
    (tmp_path / "m").write_bytes(struct.pack("<Q", len(header)) + header + bytes(16))
    with pytest.raises(kind):
        read_safetensors(tmp_path / "m")


@pytest.mark.parametrize(("length", "kind"), [(2**60, BadTableError), (1000, TruncatedError)])
def test_headers_longer_than_the_file(tmp_path: Path, length: int, kind: type[Exception]) -> None:
    (tmp_path / "m").write_bytes(struct.pack("<Q", length) + b"{}")
    with pytest.raises(kind):
        read_safetensors(tmp_path / "m")


def test_the_text_part_of_a_model_with_pictures(tmp_path: Path) -> None:
    plain = golden("gemma3")
    source = open_weights(write_folder(tmp_path / "plain", plain))
    folder = tmp_path / "pictures"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "gemma3", "text_config": plain["config"]}))
    weights = {name: stored_weight(name, tuple(shape)) for name, shape in plain["shapes"].items()}
    renamed = {f"language_model.{name}": value for name, value in weights.items()}
    write_safetensors(folder / "model.safetensors", renamed | {"vision_tower.x": np.ones((2, 2), np.float32)})
    found = open_weights(folder)
    assert found.config == source.config
    np.testing.assert_array_equal(found.get("layers.1.q_norm"), weights["model.layers.1.self_attn.q_norm.weight"] + 1)
