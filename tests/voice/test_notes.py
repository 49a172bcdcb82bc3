"""Notes from posteriors, by the rules of Basic Pitch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from openrknn.voice import AudioError, Note, Notes, VoiceSet, VoiceSetError
from openrknn.voice.notes import notes_of

FRAME = 256 / 22_050


def _posteriors(*notes: tuple[int, int, int]) -> tuple[np.ndarray, np.ndarray]:
    sounding, beginning = np.full((2, 200, 88), 0.01, np.float32)
    for key, start, end in notes:
        sounding[start:end, key] = 0.8
        beginning[start, key] = 0.9
    return sounding, beginning


def test_two_notes_at_once_and_one_later() -> None:
    found = notes_of(*_posteriors((39, 20, 60), (43, 20, 50), (39, 100, 150)))
    assert [(note.key, round(note.start / FRAME), round(note.end / FRAME)) for note in found] == [
        (60, 20, 60), (64, 20, 50), (60, 100, 150),
    ]  # fmt: skip
    assert found[0].loudness == pytest.approx(0.8)
    assert Note(0, 1, 69, 1).frequency == 440


def test_short_ones_and_gaps() -> None:
    """A note shorter than 128 ms is none; a gap shorter than 128 ms is no end, unless it ends all at once."""
    sounding, beginning = _posteriors((50, 20, 30), (60, 20, 80))
    sounding[20:80, 60] = 0.5
    sounding[40:48, 60] = 0.28
    found = notes_of(sounding, beginning)
    assert [(note.key, round(note.end / FRAME)) for note in found] == [(81, 80)]


def test_nothing() -> None:
    assert notes_of(np.zeros((0, 88), np.float32), np.zeros((0, 88), np.float32)) == []
    assert notes_of(*_posteriors()) == []
    with pytest.raises(AudioError):
        notes_of(np.zeros((4, 88), np.float32), np.zeros((5, 88), np.float32))


def test_sets_that_do_not_fit(tmp_path: Path) -> None:
    with pytest.raises(VoiceSetError, match="should name its outputs"):
        Notes(VoiceSet(tmp_path, "x", "basic-pitch", "notes", 22_050, options={"outputs": {"note": "a"}}), "software")
