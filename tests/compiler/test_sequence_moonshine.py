"""Moonshine's decoder as it was exported, with a cache. Second tier: ONNX Runtime's tokens, if the models are here."""

from __future__ import annotations

import wave

import numpy as np
import pytest

from openrknn import Decoder
from openrknn.compiler.float_model import FloatModel
from openrknn.compiler.importer.read import read_model
from openrknn.compiler.sequence import compile_decoder
from tests.container.places import IS_WHOLE
from tests.runtime.cases import MODELS

VOICE = MODELS / "voice"
TOKENS = [18274, 1898, 29892, 3926, 5229, 29892, 694, 4383, 29892, 1018, 1449, 29892, 4418, 1449, 29892, 4418, 2253,
          29889, 2]  # fmt: skip
"""Greedy decoding in ONNX Runtime: "Ever tried, ever failed, no matter, try again, fail again, fail better."."""


@pytest.mark.skipif(not IS_WHOLE, reason="half a minute; with ./test --all")
@pytest.mark.skipif(not (VOICE / "moonshine_tiny_decoder_step.onnx").exists(), reason="the shared models are not here")
def test_the_tokens_are_those_of_onnx_runtime() -> None:
    with wave.open(str(VOICE / "beckett.wav")) as file:
        sound = np.frombuffer(file.readframes(file.getnframes()), np.int16).astype(np.float32)[None] / 32768
    encoder = FloatModel(read_model(VOICE / "moonshine_tiny_encoder.onnx"), ["last_hidden_state"], fuses=True)
    feed = {"input_values": sound, "attention_mask": np.ones(sound.shape, np.int64)}
    states = dict(encoder.run(feed))["last_hidden_state"]
    data = compile_decoder(
        VOICE / "moonshine_tiny_decoder_step.onnx", capacity=32, first=VOICE / "moonshine_tiny_decoder_first.onnx",
        frames=states.shape[1], check=False,
    )  # fmt: skip
    with Decoder(data, "software") as decoder:
        decoder.start(states)
        assert decoder.is_direct
        token, found = 1, []
        while token != 2 and decoder.length < decoder.capacity:
            token = int(decoder.step(token).argmax())
            found.append(token)
    assert found == TOKENS
