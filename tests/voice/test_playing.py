"""Where speech goes. The player is a program of the test."""

from __future__ import annotations

import os
import wave
from pathlib import Path

import numpy as np
import pytest

from openrknn.voice.audio import Audio
from openrknn.voice.audio_output import player, wav_writer
from openrknn.voice.errors import AudioError

SOUND = Audio(np.array([0.0, 0.5, -1.0, 2.0], np.float32), 16000)
BYTES = np.array([0, 16384, -32767, 32767], "<i2").tobytes()


def _program(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder of the PATH besides the system's."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/nowhere")
    return folder


def test_the_speakers_get_samples(programs: Path, tmp_path: Path) -> None:
    _program(programs, "aplay", f'echo "$@" > {tmp_path}/words; exec /bin/cat > {tmp_path}/samples')
    with player(16000) as play:
        play(SOUND)
        play(SOUND)
    assert (tmp_path / "samples").read_bytes() == BYTES * 2
    assert "-f S16_LE -c 1 -r 16000" in (tmp_path / "words").read_text()


def test_a_player_that_fails(programs: Path) -> None:
    _program(programs, "aplay", "echo 'audio open error: no such device' >&2; exit 1")
    with pytest.raises(AudioError, match="audio open error"), player(16000) as play:
        play(Audio(np.zeros(300_000, np.float32), 16000))


def test_no_player(programs: Path) -> None:
    assert not list(programs.iterdir())
    with pytest.raises(AudioError, match="aplay"), player(16000):
        pass


def test_a_file_grows_and_is_put_in_place_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    with wav_writer(path, 16000) as write:
        write(SOUND)
        assert not path.exists()
        write(SOUND)
    with wave.open(str(path)) as file:
        assert file.readframes(99) == BYTES * 2
    with pytest.raises(ValueError, match="stopped"), wav_writer(tmp_path / "b.wav", 16000):
        raise ValueError("stopped")
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.wav"]
