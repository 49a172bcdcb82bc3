"""`openrknn transcribe` and `openrknn voice`, with a listener that says how much sound it was given."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from openrknn.cli.transcribe import listening
from openrknn.voice import Transcriber
from openrknn.voice.sets import VoiceSet, write_set
from openrknn.voice.stream import Heard
from tests.cli.run import run
from tests.voice.wavs import wav

Capture = pytest.CaptureFixture[str]
RATE = 16_000


class Listener:
    """Says the length of what it hears."""

    rate = RATE
    longest = 15.0

    def hear(self, samples: npt.NDArray[np.float32], options: object = None) -> Heard:
        return Heard(f"{len(samples) / RATE:.1f} seconds", (5,), 0.5)

    def close(self) -> None:
        """Nothing to give back."""


@pytest.fixture(autouse=True)
def voices(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No set is installed, and no real model is opened."""
    home = tmp_path / "voices"
    monkeypatch.setenv("OPENRKNN_VOICES", str(home))

    def opened(model: str, device: str, **options: Any) -> Transcriber:
        if options["activity"] == "silero-vad":
            options["activity"] = "loudness"
        return Transcriber(Listener() if model == "fake" else model, device, **options)

    monkeypatch.setattr(listening, "Transcriber", opened)
    return home


def talk() -> npt.NDArray[np.float64]:
    """A second of silence, 1.5 of noise, 2 of silence, 1 of noise, 1.5 of silence."""
    random = np.random.default_rng(1)
    parts = [np.zeros(RATE), random.uniform(-0.3, 0.3, RATE * 3 // 2), np.zeros(2 * RATE)]
    return np.concatenate([*parts, random.uniform(-0.3, 0.3, RATE), np.zeros(RATE * 3 // 2)])


@pytest.mark.parametrize(("kind", "rate", "channels"), [("s16", 16_000, 1), ("s24", 48_000, 2), ("f32", 8000, 1)])
def test_a_file_of_any_kind(tmp_path: Path, capsys: Capture, kind: str, rate: int, channels: int) -> None:
    sound = np.repeat(talk(), rate // RATE) if rate > RATE else talk()[:: RATE // rate]
    path = tmp_path / "talk.wav"
    path.write_bytes(wav(np.stack([sound] * channels, axis=1), kind, rate=rate))
    done = run(capsys, "transcribe", path, "--model", "fake", "--json")
    assert done.code == 0
    told = json.loads(done.out)
    assert [round(part["start"], 1) for part in told["segments"]] == pytest.approx([0.8, 4.3], abs=0.11)
    assert told["seconds"] == pytest.approx(7.0, abs=0.01)
    assert told["text"].count("seconds") == 2


def test_subtitles_and_the_page_are_written(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "talk.wav"
    path.write_bytes(wav(talk()))
    outs = [tmp_path / name for name in ("a.srt", "a.vtt", "a.html")]
    done = run(capsys, "transcribe", path, "--model", "fake", "--srt", outs[0], "--vtt", outs[1], "--report", outs[2])
    assert done.code == 0
    assert "[00:00.79 - " in done.out
    assert "real-time factor" in done.out
    assert outs[0].read_text().startswith("1\n00:00:00,")
    assert outs[1].read_text().startswith("WEBVTT\n")
    assert "seconds" in outs[2].read_text()
    assert run(capsys, "transcribe", path, "--model", "fake", "--quiet").out.count("seconds") == 2


def test_live_json_is_one_object_a_line(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(wav(talk(), data_size=0xFFFFFFFF))))
    done = run(capsys, "transcribe", "-", "--model", "fake", "--live", "--json")
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert not rows[0]["final"]
    assert [row["index"] for row in rows if row["final"]] == [0, 1]


def test_silence_says_so(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "silence.wav"
    path.write_bytes(wav(np.zeros(RATE)))
    done = run(capsys, "transcribe", path, "--model", "fake", "--srt", tmp_path / "s.srt")
    assert done.code == 0
    assert "nothing was said in 1.0 s of sound" in done.out
    assert (tmp_path / "s.srt").read_text() == ""


def test_what_cannot_be_read_writes_nothing(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "old.srt").write_text("from yesterday")
    done = run(capsys, "transcribe", tmp_path / "nothing.wav", "--model", "fake", "--srt", tmp_path / "old.srt",
               "--force")  # fmt: skip
    assert (done.code, done.out) == (2, "")
    assert "nothing.wav: cannot be read" in done.err
    assert (tmp_path / "old.srt").read_text() == "from yesterday"


def test_without_vad_the_clock_cuts(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "long.wav"
    path.write_bytes(wav(np.zeros(20 * RATE)))
    told = json.loads(run(capsys, "transcribe", path, "--model", "fake", "--no-vad", "--json").out)
    assert [part["text"] for part in told["segments"]] == ["15.0 seconds", "5.0 seconds"]


def microphone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, end: str) -> None:
    raw = tmp_path / "raw"
    raw.write_bytes((talk()[: 3 * RATE] * 32767).astype("<i2").tobytes())
    script = tmp_path / "record.py"
    script.write_text(f"import sys\nsys.stdout.buffer.write(open({str(raw)!r}, 'rb').read())\n{end}\n")
    monkeypatch.setenv("OPENRKNN_MICROPHONE", f"'{sys.executable}' '{script}'")


def test_a_microphone_that_goes_away_keeps_what_was_heard(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    microphone(monkeypatch, tmp_path, "sys.exit('No such device')")
    done = run(capsys, "transcribe", "mic", "--model", "fake", "--srt", tmp_path / "heard.srt")
    assert done.code != 0
    assert "the microphone went away after 3.0 s of sound" in done.err
    assert "No such device" in done.err
    assert "seconds" in (tmp_path / "heard.srt").read_text()


def test_ctrl_c_ends_with_what_was_heard(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    from openrknn.voice.audio import blocks

    def interrupted(*words: Any, **options: Any) -> Any:
        for number, block in enumerate(blocks(*words, **options)):
            if number == 20:
                raise KeyboardInterrupt
            yield block

    path = tmp_path / "talk.wav"
    path.write_bytes(wav(talk()))
    monkeypatch.setattr(listening, "blocks", interrupted)
    done = run(capsys, "transcribe", path, "--model", "fake", "--json")
    assert done.code == 130
    told = json.loads(done.out)
    assert told["seconds"] == pytest.approx(2.0)
    assert len(told["segments"]) == 1


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["none.wav", "--model", "fake"], "none.wav: cannot be read: No such file"),
        (["broken.wav", "--model", "fake"], "broken WAV file: it ends at byte 20"),
        (["text.txt", "--model", "fake"], "not a WAV file"),
        (["broken.wav"], "openrknn voice get moonshine-tiny"),
        (["broken.wav", "--model", "fake", "--vad", "other"], "openrknn voice get other"),
        (["-", "--model", "fake", "--rate", "3"], "'3' is not a rate"),
        (["broken.wav", "--model", "fake", "--rate", "16000"], "--rate is for raw samples on standard input"),
        (["", "--model", "fake"], "the name of the recording is empty"),
        (["broken.wav", "--model", "."], "make one with `openrknn voice get .`"),
        (["broken.wav", "--beam", "99"], "not a number of beams"),
    ],
)
def test_what_is_wrong_is_one_line(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, words: list[str], told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "soundfile", None)
    (tmp_path / "broken.wav").write_bytes(wav(talk())[:20])
    (tmp_path / "text.txt").write_text("hello")
    done = run(capsys, "transcribe", *words)
    assert done.code != 0
    assert told in done.err
    assert "Traceback" not in done.err


def test_a_device_that_does_not_exist_is_one_line(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(*_: Any, **__: Any) -> Transcriber:
        raise ValueError("no device is called 'other'")

    monkeypatch.setattr(listening, "Transcriber", opened)
    done = run(capsys, "transcribe", "talk.wav", "--device", "other")
    assert (done.code, done.err) == (2, "openrknn: no device is called 'other'\n")


def test_a_file_that_cannot_be_written_leaves_the_text_and_the_others(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def save(path: str, data: bytes) -> None:
        if path.endswith(".srt"):
            raise PermissionError(13, "Permission denied", path)
        Path(path).write_bytes(data)

    monkeypatch.setattr(listening, "save_atomically", save)
    path = tmp_path / "talk.wav"
    path.write_bytes(wav(talk()))
    outs = ["--srt", tmp_path / "a.srt", "--vtt", tmp_path / "a.vtt"]
    done = run(capsys, "transcribe", path, "--model", "fake", "--json", *outs)
    assert done.code == 2
    assert "seconds" in json.loads(done.out)["text"]
    assert "a.srt" in done.err
    assert (tmp_path / "a.vtt").read_text().startswith("WEBVTT")


def test_voice_list_shows_what_is_here_and_what_can_be_got(voices: Path, capsys: Capture) -> None:
    assert "no sets in" in run(capsys, "voice", "list").out
    (voices / "mine").mkdir(parents=True)
    write_set(VoiceSet(voices / "mine", "mine", "moonshine", "transcriber", RATE, licence="MIT", source="here"))
    told = json.loads(run(capsys, "voice", "list", "--json").out)
    assert [one["name"] for one in told["installed"]] == ["mine"]
    assert {"moonshine-tiny", "silero-vad"} <= {one["name"] for one in told["known"]}
    assert run(capsys, "voice", "list", "-q").out == "mine\n"
    assert "MIT" in run(capsys, "voice", "list").out


def test_voice_get_says_what_it_cannot(tmp_path: Path, capsys: Capture) -> None:
    assert "what to get?" in run(capsys, "voice", "get").err
    assert "neither a file or folder nor a name" in run(capsys, "voice", "get", "nobody").err
    assert "holds no models that are known" in run(capsys, "voice", "get", tmp_path).err
    assert "voice list takes no" in run(capsys, "voice", "list", "x").err
