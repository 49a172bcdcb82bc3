"""Whisper with products in int8. Witness: its equations in NumPy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from openrknn.compiler import OptionError
from openrknn.compiler.float_model import FloatModel
from openrknn.compiler.quantise.ranges import Range
from openrknn.container.load import load
from openrknn.container.parts import DataType
from openrknn.container.sequence import read_decoder
from openrknn.voice import Audio, VoiceSetError
from openrknn.voice.audio import write_wav
from openrknn.voice.make.fetch import get
from openrknn.voice.make.whisper import mixed
from openrknn.voice.make.whisper.checkpoint import Checkpoint
from openrknn.voice.make.whisper.floats import text_feed, text_graph
from openrknn.voice.make.whisper.folds import folded, folds_of
from openrknn.voice.make.whisper.graphs import encoder_graph
from openrknn.voice.make.whisper.make import make
from openrknn.voice.whisper import Whisper
from tests.voice import fake_whisper as fake

pytest.importorskip("onnxruntime")
Array = npt.NDArray[np.float32]
TOKENS = [fake.PIECES.index(b"<|startoftranscript|>"), 300, 5, 70, 71]


def sound(seconds: float, seed: int) -> Array:
    return np.random.default_rng(seed).normal(0, 0.1, round(seconds * 16_000)).astype(np.float32)


def spectrum(seed: int) -> Array:
    return np.random.default_rng(seed).normal(0, 0.5, (fake.MELS, 2 * fake.STATES)).astype(np.float32)


def decibels(wanted: Array, found: Array) -> float:
    return float(20 * np.log10(np.linalg.norm(wanted) / np.linalg.norm(wanted - found)))


def float_logits(weights: Checkpoint, mel: Array, ranges: Mapping[str, Mapping[str, Range]] | None = None) -> Array:
    """Of the graphs in ONNX, with these products in int8."""
    graphs = {"encoder": encoder_graph(weights), "decoder": text_graph(weights, len(TOKENS))}
    if ranges is not None:
        graphs = {side: mixed.with_int8(graph, ranges[side]) for side, graph in graphs.items()}
    names = [entry.name for entry in graphs["encoder"].graph.output]
    states = dict(FloatModel(graphs["encoder"], names).run({"mel": mel[None]}))
    states.pop("mel")
    feed = text_feed(graphs["decoder"], weights, states, TOKENS)
    return np.asarray(dict(FloatModel(graphs["decoder"], ["logits"]).run(feed))["logits"][0, :, 0].T)


def test_what_is_folded_changes_nothing_in_float() -> None:
    weights = fake.checkpoint()
    random = np.random.default_rng(1)
    seen: dict[str, tuple[Array, Array]] = {}
    for fold in folds_of(weights):
        size, middle = (random.normal(0, 1, weights[f"{fold.maker}.bias"].shape).astype(np.float32) for _ in range(2))
        seen |= dict.fromkeys(fold.readers, (middle - np.exp(2 * size), middle + np.exp(2 * size)))
    made, ranges = folded(weights, seen)
    assert set(ranges) == set(seen)
    assert all(low == -high < 0 for low, high in ranges.values())
    assert np.abs(made["decoder.ln.bias"] - weights["decoder.ln.bias"]).max() > 1
    mel = spectrum(2)

    wanted = fake.Reference(weights.arrays).logits(mel, TOKENS)
    np.testing.assert_allclose(float_logits(weights, mel), wanted, atol=1e-3)
    np.testing.assert_allclose(float_logits(made, mel), wanted, atol=2e-3)


@pytest.fixture
def _one_language(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise is in one language, if any."""
    monkeypatch.setattr("openrknn.voice.make.whisper.mixed.LANGUAGES", 1)


@pytest.mark.usefixtures("_one_language")
def test_what_costs_least_for_its_weights_is_int8_within_the_bound() -> None:
    weights, sounds = fake.checkpoint(), [sound(1.5, 1), sound(0.4, 2)]
    assert len(mixed.windows(sounds, weights)) == 3

    def chosen(bound: float) -> mixed.Mixed:
        return mixed.choose(weights, fake.PIECES, sounds, multilingual=True, bound=bound)

    all_of_it = chosen(1.0)
    assert sum(len(one) for one in all_of_it.ranges.values()) == 8 * fake.LAYERS + 8 * fake.LAYERS + 1
    assert len(all_of_it.losses) == 4 * fake.LAYERS + 1 + 6 * fake.LAYERS + 1
    some = chosen(all_of_it.loss / 4)
    names = {name for one in some.ranges.values() for name in one}
    assert 0 < len(names) < 33
    assert some.loss <= all_of_it.loss / 4
    assert some.losses == all_of_it.losses
    left = [cost for name, cost in some.losses.items() if name not in names]
    assert max(left) > np.median(list(some.losses.values()))
    nothing = chosen(0.0)
    assert (nothing.ranges, nothing.loss) == ({"encoder": {}, "decoder": {}}, 0.0)


@pytest.mark.usefixtures("_one_language")
def test_a_mixed_set_has_int8_products_and_says_nearly_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[mixed.Mixed] = []

    def choose(*given: Any, **options: Any) -> mixed.Mixed:
        kept.append(mixed.choose(*given, **options, bound=1.0))
        return kept[0]

    monkeypatch.setattr("openrknn.voice.make.whisper.make.choose", choose)
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "ggml-tiny.bin").write_bytes(fake.ggml(fake.arrays()))
    write_wav(tmp_path / "source" / "speech.wav", Audio(sound(1.8, 3), 16_000))
    made = get(tmp_path / "source", tmp_path / "set", precision="mixed")
    assert made.options["precision"] == "mixed"
    assert len(made.options["int8"]) == 33
    encoder, step = load(made.file("encoder")), load(read_decoder(made.file("decoder")).step)
    for file, count in ((encoder, 16), (step, 17)):
        stored = {tensor.name: tensor.dtype for tensor in file.graphs[0].tensors}
        int8 = [name for name, dtype in stored.items() if name.endswith(".product_w") and dtype == DataType.INT8]
        assert len(int8) == count
    mel = np.zeros((fake.MELS, 2 * fake.STATES), np.float32)
    with Whisper(made, "software") as model:
        given = model.mel(sound(0.9, 4))
        mel[:, : given.shape[1]] = given
        model._decoder.start(model.encode(given))
        found = np.stack([model._decoder.step(token).copy() for token in TOKENS])
        heard = model.hear(sound(0.9, 4))
    assert heard.language in model.languages
    of_float = decibels(fake.Reference(fake.arrays()).logits(mel, TOKENS), found)
    # The same integers in ONNX: where fp16 between the products moves a number, it may be rounded to the next step.
    of_integers = decibels(float_logits(kept[0].weights, mel, kept[0].ranges), found)
    assert of_float < 40, "fp16 has 45 and more"
    assert of_integers > 28
    assert of_integers > of_float + 6


def test_recordings_and_chips_that_are_needed_are_named(tmp_path: Path) -> None:
    file = tmp_path / "ggml-tiny.bin"
    file.write_bytes(fake.ggml(fake.arrays()))
    with pytest.raises(VoiceSetError, match=r"no recording .* `--calibrate FOLDER` names a folder"):
        get(file, tmp_path / "set", precision="mixed")
    with pytest.raises(VoiceSetError, match=r"no precision 'int8'\. All of it in int8 .* mixed, which has"):
        get(file, tmp_path / "set", precision="int8")
    with pytest.raises(OptionError, match=r"RK3566.* has no int8 products"):
        make(file, tmp_path / "set", "rk3566", precision="mixed", calibrate=tmp_path)


@pytest.mark.usefixtures("_one_language")
def test_heads_that_are_filled_up_are_seen_without_their_filling() -> None:
    weights = replace(fake.checkpoint(), heads=(2, 4))  # heads of 8 channels, in rooms of 16
    found = mixed.choose(weights, fake.PIECES, [sound(0.9, 5)], multilingual=True, bound=1.0)
    assert len(found.ranges["decoder"]) == 17


def test_recordings_in_one_language_are_not_enough_for_many() -> None:
    with pytest.raises(VoiceSetError, match=r"are in \w\w: .* `--calibrate FOLDER` with recordings in 3 or more"):
        mixed.choose(fake.checkpoint(), fake.PIECES, [sound(0.9, 5)], multilingual=True)
