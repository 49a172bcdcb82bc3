"""Formats by content: heads of real files, samples that look like one, and decoders that work, fail and hang."""

from __future__ import annotations

import io
import sys
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

from openrknn.errors import InputWarning
from openrknn.voice import AudioError
from openrknn.voice.audio import Samples, blocks, read_audio
from openrknn.voice.audio.formats import HEAD, format_of
from tests.voice.wavs import wav

TONE = np.sin(np.arange(8000) / 9) / 2
MP3 = bytes.fromhex("fffb9064") + bytes(413)
"""MPEG 1 layer 3, 128 kbit/s, 44.1 kHz: frames of 417 bytes."""
AAC = bytes.fromhex("fff15080") + bytes([200 >> 3, (200 & 7) << 5 | 0x1F, 0xFC]) + bytes(193)


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (b"RIFF\x00\x00\x00\x00WAVE", "WAV"),
        (b"fLaC\x00\x00\x00\x22", "FLAC"),
        (b"OggS\x00\x02", "OGG"),
        (b"ID3\x04\x00\x00\x00\x00\x01\x00" + bytes(500), "MP3"),
        (MP3 * 3, "MP3"),
        (MP3, "MP3"),
        (bytes.fromhex("fff384c4") + bytes(188) + bytes.fromhex("fff384c4") + bytes(188), "MP3"),
        (AAC * 3, "AAC"),
        (b"\x00\x00\x00\x20ftypM4A \x00\x00\x02\x00", "MP4"),
        (b"\x00\x00\x00\x08wide\x00\x00\x00\x00mdat", "MP4"),
        (b"\x1aE\xdf\xa3\x01\x00", "Matroska or WebM"),
        (b"#!AMR\n", "AMR"),
        ((b"G" + bytes(187)) * 4, "MPEG-TS"),
        (b"ID3 is how this text begins", None),
        (MP3[:4] + bytes(600), None),
        (bytes(HEAD), None),
        (b"\xff" * HEAD, None),
        (b"", None),
        (b"\x00", None),
    ],
)
def test_a_format_is_seen_in_its_first_bytes(head: bytes, name: str | None) -> None:
    assert format_of(head[:HEAD]) == name


def test_noise_is_no_format() -> None:
    random = np.random.default_rng(5)
    for loudness in (1, 30, 3000, 30_000):
        heads = np.clip(random.standard_normal((2000, 128)) * loudness, -32768, 32767).astype("<i2")
        assert sum(format_of(row.tobytes()) is not None for row in heads) <= 2


def decoder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, body: str) -> None:
    """An ffmpeg that is a script, and no soundfile."""
    program = tmp_path / "bin" / "ffmpeg"
    program.parent.mkdir()
    sound = tmp_path / "decoded.wav"
    sound.write_bytes(wav(np.stack([TONE, TONE], 1), "f32", data_size=0xFFFFFFFF))
    program.write_text(
        f"#!{sys.executable}\nimport sys\nsound = open({str(sound)!r}, 'rb').read()\nout = sys.stdout.buffer\n"
        f"where = sys.argv[sys.argv.index('-i') + 1]\n{body}\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    monkeypatch.setitem(sys.modules, "soundfile", None)


def joined(parts: object) -> Samples:
    return np.concatenate(list(parts))  # type: ignore[call-overload]


READ = "data = sys.stdin.buffer.read() if where == 'pipe:0' else open(where.removeprefix('file:'), 'rb').read()\n"


def test_a_compressed_pipe_is_decoded_as_it_comes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    decoder(monkeypatch, tmp_path, f"assert where == 'pipe:0'\n{READ}assert data == {MP3!r} * 30\nout.write(sound)")
    assert np.allclose(joined(blocks(io.BytesIO(MP3 * 30))), TONE, atol=1e-6)
    assert np.allclose(read_audio(MP3 * 30).samples, TONE, atol=1e-6)


def test_what_a_decoder_has_to_seek_in_is_given_as_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    body = b"\x00\x00\x00\x20ftypM4A " + bytes(9000)
    decoder(
        monkeypatch, tmp_path, f"assert where.startswith('file:/')\n{READ}assert data == {body!r}\nout.write(sound)"
    )
    assert np.allclose(joined(blocks(io.BytesIO(body))), TONE, atol=1e-6)
    assert np.allclose(read_audio(body).samples, TONE, atol=1e-6)
    (tmp_path / "named.wav").write_bytes(body)  # names lie
    assert np.allclose(joined(blocks(tmp_path / "named.wav")), TONE, atol=1e-6)


def test_a_decoder_that_fails_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    decoder(monkeypatch, tmp_path, "sys.exit('[mp3 @ 0x5] [fatal] Invalid data found\\n[info] bye')")
    with pytest.raises(AudioError, match="no recording that ffmpeg can read: Invalid data found"):
        list(blocks(io.BytesIO(MP3 * 300)))


def test_a_decoder_that_stops_on_the_way_gives_what_it_had(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    decoder(monkeypatch, tmp_path, "out.write(sound)\nout.flush()\nsys.exit('corrupt frame')")
    heard: list[Samples] = []
    with pytest.raises(AudioError, match=r"stopped after 0\.50 s of sound: corrupt frame"):
        heard.extend(blocks(io.BytesIO(b"fLaC" + bytes(100_000)), size=800))
    assert sum(map(len, heard)) >= 6400


_TOLD = "[info]   Duration: 00:00:{:05.2f}, start: 0.000000, bitrate: 70 kb/s"
_BROKEN = "[flac @ 0x55] [error] invalid residual"


def test_a_recording_that_ends_early_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    words = "\n".join([_TOLD.format(3), _BROKEN, "[info] video:0kB"])
    decoder(monkeypatch, tmp_path, f"out.write(sound)\nsys.stderr.write({words!r})")
    (tmp_path / "a.flac").write_bytes(b"fLaC" + bytes(1000))
    heard: list[Samples] = []
    with pytest.raises(AudioError, match=r"promise 3\.00 s and 0\.50 s .*'invalid residual'.*as a stream"):
        heard.extend(blocks(tmp_path / "a.flac", size=800))
    assert sum(map(len, heard)) == 8000


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (_TOLD.format(3), r"promise 3\.00 s and 0\.50 s"),
        ("\n".join([_TOLD.format(0.5), _BROKEN]), "errors while decoding, such as 'invalid residual'"),
        (_TOLD.format(0.9), ""),
        ("[mp3 @ 0x5] [warning] Estimating duration from bitrate, this may be inaccurate\n" + _TOLD.format(3), ""),
        ("[info]   Duration: N/A, bitrate: N/A", ""),
    ],
)
def test_what_looks_damaged_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: str, message: str
) -> None:  # fmt: skip
    decoder(monkeypatch, tmp_path, f"out.write(sound)\nsys.stderr.write({words!r})")
    (tmp_path / "a.mp3").write_bytes(MP3 * 30)
    with pytest.warns(InputWarning, match=message) if message else nullcontext():
        assert len(joined(blocks(tmp_path / "a.mp3"))) == 8000


def test_nobody_who_stops_listening_leaves_a_decoder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    decoder(monkeypatch, tmp_path, "out.write(sound)\nout.flush()\nwhile True: out.write(sound[200:])")
    found = blocks(io.BytesIO(b"OggS" + bytes(1000)), size=800)
    assert len(next(found)) == 800
    found.close()  # type: ignore[attr-defined]  # waits for the end of the program


def test_without_a_decoder_the_way_out_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(AudioError, match="pip install soundfile"):
        list(blocks(io.BytesIO(b"fLaC" + bytes(100))))
    with pytest.raises(AudioError, match="no format of recordings"):
        read_audio(b"hello, this is text")
