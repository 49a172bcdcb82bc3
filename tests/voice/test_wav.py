"""WAV files: every kind of number is read as it was written, and broken ones end in an error that says where."""

from __future__ import annotations

import io
import struct
import wave
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openrknn.voice import Audio, AudioError
from openrknn.voice.audio import blocks, read_audio, write_wav
from tests.voice.wavs import wav

STEP = {"u8": 2**-7, "s16": 2**-15, "s24": 2**-23, "s32": 2**-24, "f32": 2**-24, "f64": 2**-24}


@given(
    kind=st.sampled_from(sorted(STEP)),
    magic=st.sampled_from([b"RIFF", b"RIFX", b"RF64", b"BW64"]),
    channels=st.integers(1, 3),
    frames=st.integers(0, 50),
    extensible=st.booleans(),
    rate=st.sampled_from([8000, 16_000, 44_100, 192_000]),
    data=st.data(),
)
@settings(max_examples=60, deadline=None)
def test_every_kind_is_read_as_written(  # noqa: PLR0917 - hypothesis gives them by name
    kind: str, magic: bytes, channels: int, frames: int, extensible: bool, rate: int, data: st.DataObject
) -> None:
    if magic == b"RIFX" and extensible:
        extensible = False
    seed = data.draw(st.integers(0, 2**32 - 1))
    values = np.random.default_rng(seed).uniform(-1, 1, (frames, channels))
    found = read_audio(wav(values, kind, rate=rate, magic=magic, extensible=extensible))
    assert found.rate == rate
    assert found.samples.dtype == np.float32
    assert found.samples.shape == (frames,)
    # Half a step of rounding, the last positive step that integers do not have, and float32.
    assert np.allclose(found.samples, values.mean(axis=1), rtol=0, atol=1.5 * STEP[kind])


@given(cut=st.integers(0, 400), flips=st.lists(st.tuples(st.integers(0, 99), st.integers(0, 255)), max_size=6))
@settings(max_examples=100, deadline=None)
def test_a_broken_file_is_a_named_error_or_sound(cut: int, flips: list[tuple[int, int]]) -> None:
    body = bytearray(wav(np.linspace(-0.5, 0.5, 150), "s16", extra=b"LIST" + struct.pack("<I", 3) + b"abc\0"))
    for at, value in flips:
        body[at] = value
    with suppress(AudioError):  # and nothing else
        found = read_audio(bytes(body[:cut]))
        assert len(found.samples) <= 400
        assert np.isfinite(found.samples).all()


def test_python_reads_what_is_written(tmp_path: Path) -> None:
    numbers = np.array([-1.0, -0.5, 0.0, 0.25, 0.999969482421875, 3.0], np.float32)
    write_wav(tmp_path / "a.wav", Audio(numbers, 22_050))
    with wave.open(str(tmp_path / "a.wav")) as stream:
        assert stream.getparams()[:4] == (1, 2, 22_050, 6)
        assert np.frombuffer(stream.readframes(6), "<i2").tolist() == [-32768, -16384, 0, 8192, 32767, 32767]
    again = read_audio(tmp_path / "a.wav")
    assert again.rate == 22_050
    assert again.samples.tolist() == np.minimum(numbers, 32767 / 32768).tolist()


@pytest.mark.parametrize("size", [0, 0xFFFFFFFF, 0x7FFFF024, 0x80000000])
def test_streams_that_do_not_know_their_length_end_with_the_stream(size: int) -> None:
    values = np.linspace(-0.9, 0.9, 333)
    assert len(read_audio(wav(values, data_size=size)).samples) == 333


def test_an_empty_recording_with_chunks_behind_it_is_empty() -> None:
    tail = b"LIST" + struct.pack("<I", 200) + bytes(200)
    assert len(read_audio(wav(np.zeros(0), after=tail)).samples) == 0


def test_alaw_and_mulaw_are_the_numbers_of_g711() -> None:
    def companded(code: int, values: bytes) -> list[float]:
        head = struct.pack("<HHIIHH", code, 1, 8000, 8000, 1, 8)
        body = b"fmt " + struct.pack("<I", 16) + head + b"data" + struct.pack("<I", len(values)) + values
        return list(read_audio(b"RIFF" + struct.pack("<I", 4 + len(body)) + b"WAVE" + body).samples)

    # ITU-T G.711: the largest values are 8031 of 8192 and 4032 of 4096, the smallest 0 and 1.
    assert companded(7, b"\x00\x80\xff\x7f") == [-8031 / 8192, 8031 / 8192, 0.0, 0.0]
    assert companded(6, b"\xaa\x2a\xd5\x55") == [4032 / 4096, -4032 / 4096, 1 / 4096, -1 / 4096]


def test_a_file_that_is_cut_off_is_an_error_and_a_stream_that_is_is_over(tmp_path: Path) -> None:
    cut = wav(np.full(16_000, 0.5))[:-8000]
    (tmp_path / "cut.wav").write_bytes(cut)
    with pytest.raises(AudioError, match=r"cut\.wav: cut off: the header promises 1\.00 s and 0\.75 s are there"):
        read_audio(tmp_path / "cut.wav")
    assert sum(map(len, blocks(io.BytesIO(cut)))) == 12_000


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "is empty"),
        (b"RIFF\x10\0\0\0AVI LIST", "not of sound"),
        (b"RIFF\x10\0\0\0WAVEfmt \xff\xff\0\0", "`fmt ` chunk of 65535 bytes"),
        (b"RIFF\x10\0\0\0WAVEdata\x04\0\0\0abcd", "before any `fmt `"),
        (b"RIFF\x10\0\0\0WAVEjunk\xff\xff\xff\x7f", "claims 2147483647 bytes"),
        (b"RIFF\x10\0\0\0WAVE" + b"junk\0\0\0\0" * 1001, "no `data` chunk among"),
        (b"RIFF\x10\0\0\0WAVEfm", "broken WAV file: it ends at byte 14"),
        (wav(np.zeros((2, 1)), rate=17), "a rate of 17"),
        (wav(np.array([0.0, np.nan]), "f32"), "not finite"),
        (wav(np.array([0.0, 1e300]), "f64"), "not finite"),
    ],
)
def test_what_is_broken_is_named(body: bytes, words: str) -> None:
    with pytest.raises(AudioError, match=words):
        read_audio(body)


def test_adpcm_says_what_to_do() -> None:
    head = struct.pack("<HHIIHH", 0x11, 1, 8000, 4000, 256, 4)
    body = b"fmt " + struct.pack("<I", 16) + head + b"data\0\0\0\0"
    with pytest.raises(AudioError, match=r"IMA ADPCM.*ffmpeg"):
        read_audio(b"RIFF" + struct.pack("<I", 4 + len(body)) + b"WAVE" + body)


def test_too_many_hours_are_refused_before_they_are_read() -> None:
    body = wav(np.zeros(4), magic=b"RF64")
    at = body.index(b"ds64") + 16
    long = body[:at] + struct.pack("<Q", 1 << 40) + body[at + 8 :]
    with pytest.raises(AudioError, match="hours are too many"):
        read_audio(long)


def test_other_formats_need_a_helper(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(__import__("sys").modules, "soundfile", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "a.flac").write_bytes(b"fLaC" + bytes(100))
    with pytest.raises(AudioError, match=r"a\.flac: not a WAV file, .*pip install soundfile"):
        read_audio(tmp_path / "a.flac")
    with pytest.raises(AudioError, match="cannot be read: No such file"):
        read_audio(tmp_path / "none.wav")
