"""What is asked of a speech model and what it answers: options that it cannot follow, parts with times, families."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from openrknn.voice import Audio, ListenOptions, Transcriber, VoiceSetError
from openrknn.voice.listener import Heard, Piece, StreamParts
from openrknn.voice.make.fetch import family_of
from openrknn.voice.make.known import FAMILIES
from openrknn.voice.results import Segment, Word, compression_ratio

RATE = 16_000
SILENT = Audio(np.zeros(2 * RATE, np.float32), RATE)


class Telling:
    """Tells its options; two parts, with words."""

    rate = RATE
    longest = 10.0
    languages = ("en", "de")
    tasks = ("transcribe", "translate")
    has_words = True

    def __init__(self) -> None:
        self.asked: list[ListenOptions] = []

    def hear(self, samples: npt.NDArray[np.float32], options: ListenOptions) -> Heard:
        self.asked.append(options)
        words = (Word(0.5, 0.75, " b", 0.5),)
        pieces = (Piece(0.0, 0.5, "a", (7,)), Piece(0.5, 1.0, "b", (8,), words))
        return Heard("a b", (7, 8), 0.25, pieces, language="de", no_speech_prob=0.125, temperature=0.2)

    def close(self) -> None:
        """Nothing to give back."""


class Plain(Telling):
    """English, and nothing but text."""

    languages = ()  # type: ignore[assignment]
    tasks = ("transcribe",)  # type: ignore[assignment]
    has_words = False


def test_parts_of_a_text_become_segments_with_their_own_times() -> None:
    with Transcriber(Telling(), activity=None) as listen:
        found = listen(np.zeros(15 * RATE, np.float32), RATE, options=ListenOptions(language="auto"))
    assert [(one.index, one.start, one.end, one.text) for one in found.segments] == [
        (0, 0.0, 0.5, "a"), (1, 0.5, 1.0, "b"), (2, 10.0, 10.5, "a"), (3, 10.5, 11.0, "b"),
    ]  # fmt: skip
    assert found.segments[3].words == (Word(10.5, 10.75, " b", 0.5),)
    assert (found.language, found.warnings, found.task) == ("de", (), "transcribe")
    row = found.segments[1].as_json()
    assert row["avg_logprob"] == pytest.approx(np.log(0.25), abs=1e-3)
    assert (row["no_speech_prob"], row["temperature"], row["tokens"]) == (0.125, 0.2, [8])
    assert row["words"] == [{"word": " b", "start": 0.5, "end": 0.75, "probability": 0.5}]


def test_the_language_that_is_detected_stays_for_the_recording() -> None:
    model = Telling()
    with Transcriber(model, activity=None) as listen:
        listen(np.zeros(15 * RATE, np.float32), RATE, options=ListenOptions(language="auto"))
        listen(SILENT, options=ListenOptions(language="auto"))
    assert [one.language for one in model.asked] == ["auto", "de", "auto"]


def test_what_a_model_cannot_do_is_a_warning() -> None:
    model = Plain()
    with Transcriber(model, activity=None) as listen:
        found = listen(SILENT, options=ListenOptions(language="de-AT", task="translate", words=True))
        assert listen(SILENT, options=ListenOptions(language="en_GB")).warnings == ()
        asked = ListenOptions(prompt="names", beam=2)
        assert [told[:24] for told in listen(SILENT, options=asked).warnings] == [
            "this model takes no prom", "this model follows one t",
        ]  # fmt: skip
    assert len(found.warnings) == 3
    assert "does not know the language 'de-AT' (it knows en)" in found.warnings[0]
    assert (model.asked[0].language, model.asked[0].task, found.task) == ("en", "transcribe", "transcribe")
    assert found.as_json()["warnings"] == list(found.warnings)


@pytest.mark.parametrize(
    ("options", "words"),
    [({"beam": 0}, "beam of 0"), ({"task": "sing"}, "no task"), ({"temperatures": ()}, "temperatures"),
     ({"temperatures": (3.0,)}, "temperatures"), ({"prompt": "a" * 30_000}, "a prompt has")],
)  # fmt: skip
def test_options_that_make_no_sense(options: dict[str, object], words: str) -> None:
    with pytest.raises(VoiceSetError, match=words):
        ListenOptions(**options)  # type: ignore[arg-type]


def test_a_family_may_have_a_stream_of_its_own() -> None:
    class Own(Telling):
        def stream(self, parts: StreamParts) -> object:
            return parts if parts.partial else None

    with Transcriber(Own(), activity=None) as listen:
        parts = listen.stream(partial=0.5, options=ListenOptions(language="xx"))
        assert isinstance(parts, StreamParts)
        assert parts.options.language == "auto"
        assert "'xx'" in parts.warnings[0]
        assert len(listen(SILENT).segments) == 2


def test_compression_ratio_is_that_of_zlib() -> None:
    assert compression_ratio("") == 0
    assert compression_ratio("so it goes " * 40) > 10
    assert Segment(0, 0, 1, "abc").compression_ratio < 1


def model_folder(folder: Path, kind: str, name: bytes) -> Path:
    folder.mkdir()
    if kind:
        (folder / "config.json").write_text(json.dumps({"model_type": kind}))
    (folder / "encoder_model.onnx").write_bytes(b"\x08\x07" + name)
    (folder / "decoder_model_merged.onnx").write_bytes(b"")
    (folder / "tokenizer.json").write_text("{}")
    return folder


def test_another_model_with_an_encoder_is_not_taken_for_moonshine(tmp_path: Path) -> None:
    assert family_of(model_folder(tmp_path / "a", "", b"input_values")) == "moonshine"
    assert family_of(model_folder(tmp_path / "b", "moonshine", b"")) == "moonshine"
    with pytest.raises(VoiceSetError, match=r"no models that are known \(its config.json says speecht5"):
        family_of(model_folder(tmp_path / "c", "speecht5", b"input_values"))
    assert family_of(model_folder(tmp_path / "d", "", b"x input_features")) == "whisper"
    assert family_of(model_folder(tmp_path / "e", "whisper", b"")) == "whisper"


def test_two_families_in_a_folder_are_an_error_that_names_both(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "a", "", b"input_values")
    (folder / "nmp.onnx").write_bytes(b"")
    with pytest.raises(VoiceSetError, match=r"several families \(moonshine, basic-pitch\); `--family NAME`"):
        family_of(folder)
    assert "basic-pitch" in FAMILIES
