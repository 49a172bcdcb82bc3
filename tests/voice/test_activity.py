"""VoiceActivity: any chunks give the same numbers, odd sound is refused, spans are silero-vad's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openrknn.voice import Audio, AudioError, Span, VoiceActivity, VoiceSet, VoiceSetError
from openrknn.voice.spans import SpeechRules, find_spans
from tests.voice.nets import STATES, activity_set, recurrent

GOLDENS = Path(__file__).parents[1] / "goldens" / "voice"


@pytest.fixture(scope="module")
def voice(tmp_path_factory: pytest.TempPathFactory) -> VoiceSet:
    return activity_set(tmp_path_factory.mktemp("vad"))


@pytest.fixture(scope="module")
def activity(voice: VoiceSet) -> Iterator[VoiceActivity]:
    with VoiceActivity(voice, "software") as one:
        yield one


SOUND = np.random.default_rng(3).standard_normal(512 * 6 + 100).astype(np.float32) * 0.1


def test_spans_are_those_of_silero_vad() -> None:
    """Witness: get_speech_timestamps_from_probs of the package silero-vad 6.2.3 (tools/make_voice_goldens.py)."""
    rows = json.loads((GOLDENS / "spans.json").read_text())
    assert sum(len(row["spans"]) for row in rows) > 100
    for row in rows:
        found = find_spans(row["chances"], row["total"], SpeechRules(**row["rules"]))
        assert [list(span) for span in found] == row["spans"], row["rules"]


def test_frames_are_those_of_onnx_runtime(activity: VoiceActivity) -> None:
    """Context of 64 samples before each frame, the state carried, the last frame filled with silence."""
    import onnxruntime

    float_net = onnxruntime.InferenceSession(recurrent(576, 1, gain=4.0).SerializeToString())
    padded = np.concatenate([np.zeros(64, np.float32), SOUND, np.zeros(512 - 100, np.float32)])
    state, wanted = np.zeros((1, 2, 16, 1), np.float32), []
    for at in range(0, len(padded) - 64, 512):
        chance, state = float_net.run(None, {"x": padded[None, None, at : at + 576], "state": state})
        wanted.append(float(chance[0, 0, 0]))
    found = activity.probabilities(Audio(SOUND, 16_000))
    assert len(found) == 7
    assert np.ptp(wanted) > 0.02, "the net should answer to what it hears"
    np.testing.assert_allclose(found, wanted, atol=2e-3)


@settings(max_examples=8, deadline=None)
@given(cuts=st.lists(st.integers(0, len(SOUND)), max_size=8))
def test_chunks_of_any_size_give_the_same(activity: VoiceActivity, cuts: list[int]) -> None:
    whole = activity.probabilities(SOUND, 16_000)
    activity.reset()
    found = [one for part in np.split(SOUND, sorted(cuts)) for one in activity.feed(part)]
    assert len(found) == len(SOUND) // 512
    assert found + activity.finish() == whole
    assert activity.finish() == []


def test_other_rates_integers_and_stereo(activity: VoiceActivity) -> None:
    integers = (SOUND * 32767).astype(np.int16)
    stereo = np.stack([integers, integers], axis=1)
    assert activity.probabilities(stereo, 16_000) == pytest.approx(activity.probabilities(SOUND, 16_000), abs=2e-3)
    assert len(activity.probabilities(SOUND, 8_000)) == len(activity.probabilities(SOUND, 16_000)) * 2 - 1


def test_nothing_and_silence(activity: VoiceActivity) -> None:
    assert activity.spans(np.zeros(0, np.float32), 16_000) == []
    assert activity.feed([]) == []
    always = SpeechRules(threshold=1e-9, release=0.0)
    assert activity.spans(np.zeros(16_000, np.float32), 16_000, always) == [Span(0.0, 1.0)]


@pytest.mark.parametrize(
    "bad", [np.array([0.0, np.nan]), np.array([np.inf]), np.zeros((4, 2)), np.array(["a"]), np.zeros(3, complex)]
)
def test_sound_that_is_none_changes_nothing(activity: VoiceActivity, bad: np.ndarray) -> None:
    activity.reset()
    activity.feed(SOUND[:700])
    with pytest.raises(AudioError):
        activity.feed(bad)
    rest = activity.feed(SOUND[700:])
    assert rest == activity.probabilities(SOUND, 16_000)[1:6]


def test_rules_that_make_no_sense() -> None:
    for wrong in ({"threshold": 2.0}, {"threshold": 0.3, "release": 0.5}, {"pad": -1.0}, {"min_speech": float("nan")}):
        with pytest.raises(AudioError):
            SpeechRules(**wrong)


def test_sets_that_do_not_fit(voice: VoiceSet) -> None:
    with pytest.raises(VoiceSetError, match="is a set for 'denoiser'"):
        VoiceActivity(replace(voice, kind="denoiser"), "software")
    for states in ({}, {"nothing": "state"}, {"state_out": "x"}, {"answer": "state"}, [1], {"state_out": 3}):
        with pytest.raises(VoiceSetError, match="fake-vad"):
            VoiceActivity(replace(voice, options={"states": {"net": states}}), "software")
    assert STATES == {"state_out": "state"}
