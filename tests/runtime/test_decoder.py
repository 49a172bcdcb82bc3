"""`Decoder`: tokens one after the other with caches on the device. Stands on ONNX Runtime with the exported decoder."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openrknn import Decoder, Session
from openrknn.compiler.float_model import FloatModel
from openrknn.compiler.sequence import compile_decoder
from openrknn.errors import NotRknnError
from openrknn.runtime.errors import CacheFullError, ClosedError
from tests.decoders import FRAMES, HEADS, LAYERS, SIZE, TOKENS, WIDTH, grouped, merged, rotary

ROOT = Path(__file__).resolve().parents[2]
CAPACITY = 8
STATES = np.random.default_rng(3).normal(0, 1, (1, FRAMES, WIDTH)).astype(np.float32)
SENTENCE = [1, 17, 3, 3, 20, 9, 23, 0]


@cache
def file(style: str) -> bytes:
    made: dict[str, Callable[[], tuple[Any, Any]]] = {
        "rotary": lambda: (rotary(), rotary(first=True)),
        "merged": lambda: (merged(), merged()),
        "grouped": lambda: (grouped(), None),
    }
    step, first = made[style]()
    return compile_decoder(step, capacity=CAPACITY, first=first, frames=FRAMES, check=False)


@cache
def reference(style: str, frames: int, tokens: tuple[int, ...]) -> Any:
    """Logits of ONNX Runtime: the first step where there is one, then steps with a past that grows."""
    step = {"rotary": rotary, "merged": merged, "grouped": grouped}[style]()
    outputs = [entry.name for entry in step.graph.output]
    inputs = {entry.name for entry in step.graph.input}
    later = FloatModel(step, outputs)
    states, mask = STATES[:, :frames], np.ones((1, 4 * frames), np.int64)
    past: dict[str, Any] = {}
    if style == "grouped":
        past = {f"past_key_values.0.{what}": np.zeros((1, 1, 0, SIZE), np.float32) for what in ("key", "value")}
    else:
        first = FloatModel(rotary(first=True) if style == "rotary" else step, outputs)
        pasts = [f"past_key_values.{layer}.{side}.{what}" for layer in range(LAYERS)
                 for side in ("decoder", "encoder") for what in ("key", "value")]  # fmt: skip
        empty = dict.fromkeys(pasts, np.zeros((1, HEADS, 0, SIZE), np.float32))
        feed = {"input_ids": np.array([[tokens[0]]]), "encoder_hidden_states": states}
        feed |= {"encoder_attention_mask": mask} if style == "rotary" else {"use_cache_branch": np.array([False])}
        found = dict(first.run(feed if style == "rotary" else {**feed, **empty}))
        past = {name.replace("present", "past_key_values"): found[name] for name in outputs if name != "logits"}
    rows = [] if style == "grouped" else [found["logits"].reshape(-1)]
    for number, token in enumerate(tokens[len(rows) :], len(rows)):
        feed = {
            "input_ids": np.array([[token]]), "position_ids": np.array([[number]]), "encoder_hidden_states": states,
            "attention_mask": np.ones((1, number + 1), np.int64), "encoder_attention_mask": mask,
            "use_cache_branch": np.array([True]), **past,
        }  # fmt: skip
        found = dict(later.run({name: value for name, value in feed.items() if name in inputs}))
        rows.append(found["logits"].reshape(-1))
        past.update({name.replace("present", "past_key_values"): found[name] for name in outputs if name != "logits"})
    return np.stack(rows)


def off(found: Any, wanted: Any) -> float:
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())


def spoken(decoder: Decoder, tokens: list[int]) -> Any:
    return np.stack([decoder.step(token).copy() for token in tokens])


@pytest.mark.parametrize("style", ["rotary", "merged", "grouped"])
def test_every_step_gives_the_logits_of_the_exported_decoder(style: str) -> None:
    with Decoder(file(style), "software") as decoder:
        assert (decoder.capacity, decoder.vocabulary, decoder.beams) == (CAPACITY, TOKENS, 1)
        assert decoder.cross_capacity == (0 if style == "grouped" else 16), "whole groups of frames"
        decoder.start(None if style == "grouped" else STATES)
        found = spoken(decoder, SENTENCE)
        assert decoder.length == CAPACITY
        assert off(found, reference(style, FRAMES, tuple(SENTENCE))) < 0.01


def test_fewer_frames_are_exact_whatever_was_there_before() -> None:
    with Decoder(file("rotary"), "software") as decoder:
        decoder.start(STATES[:, :6])
        alone = spoken(decoder, SENTENCE[:4])
        decoder.start(STATES * 3)
        spoken(decoder, SENTENCE)
        decoder.start(STATES[:, :6])
        assert np.array_equal(spoken(decoder, SENTENCE[:4]), alone)
        assert off(alone, reference("rotary", 6, tuple(SENTENCE[:4]))) < 0.01


def test_keys_and_values_can_be_given_by_name() -> None:
    bare = compile_decoder(rotary(), capacity=CAPACITY, frames=FRAMES, check=False)
    first = rotary(first=True)
    names = [entry.name for entry in first.graph.output if ".encoder." in entry.name]
    feed = {"input_ids": np.array([[1]]), "encoder_hidden_states": STATES,
            "encoder_attention_mask": np.ones((1, 40), np.int64)}  # fmt: skip
    found = dict(FloatModel(first, names).run(feed))
    given = {name.replace("present", "past_key_values"): found[name] for name in names}
    with Decoder(bare, "software") as decoder:
        with pytest.raises(ValueError, match="start takes arrays by name: past_key_values"):
            decoder.start(STATES)
        with pytest.raises(ValueError, match=r"'past_key_values.0.encoder.key' is missing"):
            decoder.start({name: value for name, value in given.items() if name != "past_key_values.0.encoder.key"})
        decoder.start(given)
        assert off(spoken(decoder, SENTENCE[:3]), reference("rotary", FRAMES, tuple(SENTENCE))[:3]) < 0.01


def test_a_full_cache_and_wrong_arguments_are_errors_with_names() -> None:
    with Decoder(file("rotary"), "software") as decoder:
        with pytest.raises(ValueError, match="call start first"):
            decoder.step(1)
        with pytest.raises(
            ValueError, match=r"'encoder_hidden_states' is \[1, '1 to 16', 16\]; \[1, 17, 16\] was given"
        ):
            decoder.start(np.zeros((1, 17, 16)))
        with pytest.raises(ValueError, match="NaN"):
            decoder.start(STATES * np.nan)
        decoder.start(STATES)
        for wrong in (-1, TOKENS):
            with pytest.raises(ValueError, match=f"token {wrong} was given; there are {TOKENS}"):
                decoder.step(wrong)
        with pytest.raises(ValueError, match="2 tokens were given for 1 beams"):
            decoder.step([1, 2])
        spoken(decoder, SENTENCE)
        with pytest.raises(CacheFullError, match=r"8 tokens fill the cache; compile with a larger one \(--cache\)"):
            decoder.step(1)
        decoder.reset()
        assert decoder.length == 0
        decoder.step(1)
    with pytest.raises(ClosedError, match="the decoder is closed"):
        decoder.step(1)
    with pytest.raises(ValueError, match="start takes nothing"), Decoder(file("grouped"), "software") as decoder:
        decoder.start(STATES)
    with pytest.raises(ValueError, match="0 beams"):
        Decoder(file("grouped"), "software", beams=0)


def test_beams_go_on_from_each_other() -> None:
    """Each beam has the logits that a decoder alone has after the same tokens."""
    with Decoder(file("rotary"), "software", beams=3) as decoder, Decoder(file("rotary"), "software") as alone:
        decoder.start(STATES)
        alone.start(STATES)
        histories: list[list[int]] = [[], [], []]
        for tokens, order in (
            ([1, 1, 1], [0, 1, 2]),
            ([4, 5, 6], [2, 2, 0]),
            ([7, 8, 9], [1, 1, 1]),
            ([3, 2, 1], [0, 2, 1]),
        ):
            logits = decoder.step(tokens).copy()
            histories = [[*history, token] for history, token in zip(histories, tokens, strict=True)]
            for history, found in zip(histories, logits, strict=True):
                alone.reset()
                assert np.array_equal(spoken(alone, history)[-1], found)
            decoder.reorder(order)
            histories = [histories[number] for number in order]
        with pytest.raises(ValueError, match="an order of 3 beams is wanted"):
            decoder.reorder([0, 1, 3])
        with pytest.raises(ValueError, match="an order of 3 beams is wanted"):
            decoder.reorder([0])


def test_a_session_says_what_opens_it() -> None:
    with pytest.raises(NotRknnError, match=r"a decoder with a cache: openrknn\.Decoder runs it"):
        Session(file("grouped"), "software")


def test_a_step_copies_rows_and_logits_only() -> None:
    with Decoder(file("rotary"), "software") as decoder:
        rows = 2 * 2 * LAYERS * HEADS * SIZE
        assert decoder.step_bytes < 4 * (rows + 2 * (TOKENS + WIDTH + 2 * SIZE) * 8)
        assert decoder.step_bytes < 2 * 2 * LAYERS * HEADS * SIZE * CAPACITY


PROGRAM = """
import sys
import numpy as np
from openrknn import Decoder

device, model = sys.argv[1:]
found = {}
for name in ("software", device):
    with Decoder(model, name, beams=2) as decoder:
        decoder.start()
        rows = []
        for token in (1, 4, 2):
            rows.append(decoder.step([token, token + 1]).copy())
            decoder.reorder([1, 1])
        found[name] = np.stack(rows)
print("same" if np.array_equal(found["software"], found[device]) else "different")
"""


def test_on_the_kernel_driver_as_on_the_software_npu(tmp_path: Path) -> None:
    path = tmp_path / "decoder.rknnz"
    path.write_bytes(file("grouped"))
    command = [sys.executable, "-m", "openrknn.cli", "exec", "--driver", "rknpu", "--", sys.executable, "-c", PROGRAM]
    done = subprocess.run([*command, "rknpu", str(path)], capture_output=True, text=True, timeout=300, check=False,
                          cwd=ROOT)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "same"


def test_a_step_with_caches_in_the_layout_of_the_npu_moves_nothing() -> None:
    """The CPU has at most the shape of the logits to do, and new rows are copied as they are."""
    with Decoder(file("rotary"), "software") as decoder:
        left = [one.name for one in decoder.session.model.operators if one.type in {"MatMul", "Transpose", "Reshape"}]
        assert left in ([], ["Reshape:logits"])
        assert decoder.is_direct


def test_beams_can_be_set() -> None:
    with Decoder(file("grouped"), "software") as decoder:
        decoder.start()
        one = decoder.step(4).copy()
        decoder.beams = 3
        assert decoder.length == 0
        assert np.array_equal(decoder.step([4, 1, 4])[[0, 2]], np.stack([one, one]))
        decoder.beams = 1
        assert np.array_equal(decoder.step(4), one)
        with pytest.raises(ValueError, match="0 beams"):
            decoder.beams = 0
