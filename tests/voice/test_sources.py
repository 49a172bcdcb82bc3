"""Sound as it comes: files, pipes, microphones that are there, go away, or hang."""

from __future__ import annotations

import io
import sys
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from openrknn.voice import AudioError, MicrophoneError
from openrknn.voice.audio import Samples, blocks, resample
from openrknn.voice.audio.sources import microphone
from tests.voice.wavs import wav

TONE = np.sin(np.arange(30_000) / 9) / 2


def joined(parts: object) -> Samples:
    return np.concatenate(list(parts))  # type: ignore[call-overload]


def test_blocks_of_a_file_are_even_and_at_the_wanted_rate(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(wav(np.stack([TONE, TONE], 1), "s24", rate=44_100))
    found = list(blocks(str(tmp_path / "a.wav"), size=500))
    assert {len(part) for part in found[:-1]} == {500}
    assert np.allclose(joined(found), resample(TONE.astype(np.float32), 44_100, 16_000), atol=1e-5)


RAW = (TONE * 32767).astype("<i2").tobytes()


def test_a_pipe_holds_wav_or_raw_samples_if_their_rate_is_given() -> None:
    assert np.allclose(joined(blocks(io.BytesIO(RAW + b"\x01"), raw_rate=16_000)), TONE, atol=1e-4)
    assert np.allclose(joined(blocks(io.BytesIO(wav(TONE, data_size=0xFFFFFFFF)))), TONE, atol=1e-4)
    assert len(joined(blocks(io.BytesIO(RAW), raw_rate=48_000))) == 10_000
    assert len(joined(blocks(io.BytesIO(wav(TONE)), raw_rate=48_000))) == len(TONE)  # it says what it is
    with pytest.raises(AudioError, match="the stream: is empty; a recording was expected"):
        list(blocks(io.BytesIO(b"")))
    with pytest.raises(AudioError, match=r"no format of recordings that is known.*--rate 16000"):
        list(blocks(io.BytesIO(RAW)))


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(wav(TONE))))
    assert len(joined(blocks("-"))) == len(TONE)


def test_a_pipe_in_pieces_is_put_together() -> None:
    class Slow(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            return super().read(min(size or 1, 7))

    assert len(joined(blocks(Slow(wav(TONE[:1000]))))) == 1000


def script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str) -> None:
    (tmp_path / "record.py").write_text("import sys, time\nout = sys.stdout.buffer\n" + text)
    monkeypatch.setenv("OPENRKNN_MICROPHONE", f"'{sys.executable}' '{tmp_path / 'record.py'}'")


def test_a_microphone_is_read_until_nobody_wants_more(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script(monkeypatch, tmp_path, "while True: out.write(b'\\x00\\x40' * 160)")
    found = blocks("mic", size=400)
    assert all((part == 0.5).all() and len(part) == 400 for part in islice(found, 5))
    found.close()  # type: ignore[attr-defined]  # ends the program


def test_a_microphone_that_goes_away_says_when_and_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script(monkeypatch, tmp_path, "out.write(bytes(32000)); out.flush(); sys.exit('No such device')")
    heard: list[Samples] = []
    with pytest.raises(MicrophoneError, match=r"went away after 1\.0 s of sound: .* ended with 1: No such device"):
        heard.extend(blocks("mic"))
    assert sum(map(len, heard)) == 16_000


def test_a_microphone_that_cannot_be_opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script(monkeypatch, tmp_path, "sys.exit('audio open error: Device or resource busy')")
    with pytest.raises(MicrophoneError, match=r"cannot be opened: .*busy"):
        next(iter(blocks("mic:hw:1")))
    monkeypatch.setenv("OPENRKNN_MICROPHONE", str(tmp_path / "none"))
    with pytest.raises(MicrophoneError, match="cannot be started: No such file"):
        next(iter(blocks("mic")))


def test_a_microphone_that_hangs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script(monkeypatch, tmp_path, "out.write(bytes(3200)); out.flush(); time.sleep(60)")
    found = microphone(size=1600, patience=0.2)
    with pytest.raises(MicrophoneError, match=r"gives nothing for 0\.2 s"):
        # Starting the program may take longer than the patience, on a slow machine.
        list(found)


def test_no_microphone_at_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("OPENRKNN_MICROPHONE", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    with pytest.raises(MicrophoneError, match="install alsa-utils"):
        next(iter(blocks("mic")))
