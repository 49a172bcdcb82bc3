"""Files with a Whisper: all kinds give the same weights, are told apart by content, and may be broken."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openrknn.voice import VoiceSetError
from openrknn.voice.make.fetch import family_of
from openrknn.voice.make.whisper import ctranslate, exported, ggml
from openrknn.voice.make.whisper.alignment import alignment_heads
from openrknn.voice.make.whisper.checkpoint import Checkpoint
from openrknn.voice.make.whisper.detect import open_checkpoint
from openrknn.voice.make.whisper.vocabulary import pieces_of
from openrknn.voice.make.writer import GraphWriter
from tests.voice import fake_whisper as fake


def write_ggml(folder: Path) -> Path:
    (folder / "ggml-tiny.bin").write_bytes(fake.ggml(fake.arrays()))
    return folder / "ggml-tiny.bin"


def write_openai(folder: Path) -> Path:
    return fake.openai(fake.arrays(), folder / "tiny.pt")


def write_folder(folder: Path) -> Path:
    return fake.safetensors(fake.arrays(), folder / "whisper-tiny")


def write_ctranslate(folder: Path) -> Path:
    (folder / "model.bin").write_bytes(fake.ctranslate(fake.arrays()))
    (folder / "vocabulary.txt").write_text("\n".join(fake._shown(piece) for piece in fake.TEXT))
    (folder / "config.json").write_text(json.dumps({"alignment_heads": [list(pair) for pair in fake.ALIGNMENT]}))
    return folder


def write_parts(folder: Path) -> Path:
    body = fake.ctranslate(fake.arrays())
    for number, part in enumerate((body[:5000], body[5000:]), 1):
        (folder / f"p{number}").mkdir()
        (folder / f"p{number}" / f"model.bin.part{number}").write_bytes(part)
    (folder / "vocabulary.txt").write_text("\n".join(fake._shown(piece) for piece in fake.TEXT))
    return folder


def write_exported(folder: Path) -> Path:
    names = fake.hugging_names(fake.arrays())
    for side, merged in (("encoder", ""), ("decoder", "_merged_0")):
        graph = GraphWriter(side)
        value = graph.input("input_features" if side == "encoder" else "input_ids", [1, "time"])
        constants = {}
        for name, array in names.items():
            own = name.removeprefix("model.") if side == "decoder" else name.removeprefix("model.encoder.")
            if not name.startswith(f"model.{side}."):
                continue
            if array.ndim == 2 and ".layers." in name:
                place = own.removesuffix(".weight").replace(f"layers.{own.split('layers.')[1][0]}.", "layers.#/", 1)
                place = place.replace(".", "/").replace("layers/#", f"layers.{own.split('layers.')[1][0]}")
                value = graph.op("MatMul", value, np.ascontiguousarray(array.T), name=f"/{place}/MatMul_output_0")
            else:
                constants[f"model.{own}{merged}" if side == "decoder" else own] = array
        for name, array in constants.items():
            graph.constant(array, name)
        graph.output("out", value, [1, "time"])
        path = folder / f"{side}_model{'_merged' if merged else ''}.onnx"
        path.write_bytes(graph.model().SerializeToString())
    sizes = {"encoder_attention_heads": fake.HEADS, "decoder_attention_heads": fake.HEADS}
    (folder / "config.json").write_text(json.dumps({"model_type": "whisper", **sizes}))
    row = {"model": {"vocab": {fake._shown(piece): at for at, piece in enumerate(fake.TEXT)}}, "added_tokens": []}
    (folder / "tokenizer.json").write_text(json.dumps(row))
    return folder


WRITERS = [write_ggml, write_openai, write_folder, write_ctranslate, write_parts, write_exported]


@pytest.mark.parametrize("write", WRITERS)
def test_every_kind_of_file_gives_the_same_weights_and_tokens(write: Callable[[Path], Path], tmp_path: Path) -> None:
    source = write(tmp_path)
    found, wanted = open_checkpoint(source), fake.arrays()
    assert set(found.arrays) >= set(wanted)
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)
    assert (found.head_count("encoder"), found.layers("decoder"), found.mels) == (fake.HEADS, fake.LAYERS, 80)
    assert tuple(pieces_of(found, source)) == fake.PIECES
    assert family_of(source) == "whisper"


def test_integers_of_ctranslate2_are_scaled_back(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(fake.ctranslate(fake.arrays(), integers=True))
    name = "encoder.blocks.0.mlp.0.weight"
    found = ctranslate.read([tmp_path / "model.bin"])[name]
    assert np.abs(found - fake.arrays()[name]).max() <= np.abs(fake.arrays()[name]).max() / 200


@pytest.mark.parametrize("write", [fake.ggml, fake.ctranslate])
def test_a_file_that_breaks_off_says_so(write: Callable[[Any], bytes], tmp_path: Path) -> None:
    body = write(fake.arrays())
    path = tmp_path / "model.bin"
    read = ggml.read if write is fake.ggml else lambda one: ctranslate.read([one])
    for size in (*range(0, 60, 7), 1000, 70_000, len(body) // 2, len(body) - 100):
        path.write_bytes(body[:size])
        with pytest.raises(VoiceSetError):
            read(path)
    for at in range(4, 400, 13):
        path.write_bytes(body[:at] + b"\xff\xff\xff\x7f" + body[at + 4 :])
        try:
            read(path)
        except VoiceSetError:
            continue


def test_weights_that_do_not_fit_are_named() -> None:
    weights = fake.arrays()
    weights["decoder.blocks.1.mlp.0.weight"] = weights["decoder.blocks.1.mlp.0.weight"][:5]
    with pytest.raises(VoiceSetError, match=r"decoder.blocks.1.mlp.0.weight is \(5, 32\), and should be \(128, 32\)"):
        Checkpoint(weights, "x", heads=(2, 2)).checked()
    del weights["encoder.conv1.bias"]
    with pytest.raises(VoiceSetError, match=r"'encoder.conv1.bias' is not there"):
        Checkpoint(weights, "x", heads=(2, 2)).checked()


def test_two_models_in_a_folder_are_not_guessed(tmp_path: Path) -> None:
    write_ggml(tmp_path)
    (tmp_path / "ggml-base.bin").write_bytes(fake.ggml(fake.arrays(6)))
    with pytest.raises(VoiceSetError, match=r"several models .ggml-base.bin, ggml-tiny.bin"):
        open_checkpoint(tmp_path)
    with pytest.raises(VoiceSetError, match=r"no encoder_model\.onnx or"):
        exported.read(tmp_path)


def test_tokens_that_are_missing_are_asked_for(tmp_path: Path) -> None:
    path = write_openai(tmp_path)
    (tmp_path / "vocab.json").unlink()
    with pytest.raises(VoiceSetError, match=r"put tokenizer\.json, vocab\.json, .* beside it"):
        pieces_of(open_checkpoint(path), path)


def test_heads_for_times_are_those_of_the_model() -> None:
    mine = fake.checkpoint()
    assert alignment_heads(mine) == ((1, 0), (1, 1))  # unknown: the upper half
    assert alignment_heads(replace(mine, alignment=((0, 1),))) == ((0, 1),)
    teacher = ((0, 1), (7, 0))  # of a decoder with more layers
    assert alignment_heads(replace(mine, alignment=teacher)) == ((1, 0), (1, 1))
