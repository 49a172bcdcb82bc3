"""Text to the numbers of a voice. Numbers and phonemes are those of the package piper-tts 1.8.0 (espeak-ng inside)."""

from __future__ import annotations

import copy
import json
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from openrknn.voice.errors import PhonemeError, VoiceSetError
from openrknn.voice.piper import phonemes as module
from openrknn.voice.piper.config import parse_config, read_config
from openrknn.voice.piper.phonemes import clauses_of, ids_of, phonemes_of, pieces
from tools.vits import SIZES, config_of

CONFIG = parse_config(config_of(SIZES["low"]), "voice.onnx.json")


def test_ids_are_pipers() -> None:
    assert ids_of(list("həlˈoʊ!"), CONFIG) == [1, 0, 20, 0, 59, 0, 24, 0, 120, 0, 27, 0, 100, 0, 4, 0, 2]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello, world. How are you?", [("Hello,", ",", False), ("world.", ".", True), ("How are you?", "?", True)]),
        ("It is 3.14, at 10:30 e.g. here", [("It is 3.14,", ",", False), ("at 10:30 e.g. here", "", True)]),
        ('"Quoted!" he said', [('"Quoted!"', "!", True), ("he said", "", True)]),
        ("Wait... what", [("Wait...", "", False), ("what", "", True)]),
        ("one\n\ntwo", [("one", "", True), ("two", "", True)]),
        ("你好。再见！", [("你好。", ".", True), ("再见！", "!", True)]),
        ("... -- !", []),
    ],
)
def test_clauses(text: str, expected: list[tuple[str, str, bool]]) -> None:
    assert [(clause.text, clause.mark, clause.is_last) for clause in clauses_of(text)] == expected


def _spelled(text: str, voice: str) -> list[str]:
    """A stand-in for espeak-ng: each clause in small letters."""
    assert voice == "en-us"
    return ["".join(mark for mark in one.text.lower() if mark.isalpha() or mark == " ") for one in clauses_of(text)]


def test_sentences_keep_their_marks() -> None:
    found = phonemes_of("Hi, you. Go!", CONFIG, _spelled)
    assert ["".join(sentence) for sentence in found] == ["hi, you.", "go!"]


def test_clauses_are_asked_one_by_one_when_the_program_sees_others() -> None:
    def two(text: str, voice: str) -> list[str]:
        return ["a", "b", "c"] if "," in text and "." in text else _spelled(text, voice)

    assert ["".join(sentence) for sentence in phonemes_of("Hi, you.", CONFIG, two)] == ["hi, you."]


def test_phonemes_in_brackets_are_taken_as_they_are() -> None:
    found = phonemes_of("Say [[ təmˈɑːtoʊ ]] now.", CONFIG, _spelled)
    assert ["".join(sentence) for sentence in found] == ["say təmˈɑːtoʊ now."]


def test_flags_of_other_languages_are_no_phonemes() -> None:
    assert phonemes_of("Hi", CONFIG, lambda text, voice: ["(de)haɪ(en)"]) == [list("haɪ")]


def test_neighbours_that_the_voice_knows_as_one() -> None:
    row = {**config_of(SIZES["low"]), "vowel_clusters": [["a", "ɪ"]]}
    row["phoneme_id_map"] = {**row["phoneme_id_map"], "aɪ": [161]}
    config = parse_config(row, "x")
    found = phonemes_of("Hi", config, lambda text, voice: ["haɪ"])
    assert found == [["h", "aɪ"]]
    assert ids_of(found[0], config) == [1, 0, 20, 0, 161, 0, 2]


def test_voices_of_letters_need_no_espeak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    config = parse_config(config_of(SIZES["low"], phoneme_type="text"), "x")
    assert phonemes_of("ab, cé. D", config) == [list("ab, ce\u0301."), ["D"]]


def test_no_espeak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setitem(sys.modules, "piper_phonemize", None)
    with pytest.raises(PhonemeError, match=r"espeak-ng.*apt install espeak-ng"):
        phonemes_of("Hello", CONFIG)


def test_a_type_of_phonemes_that_nobody_makes() -> None:
    config = parse_config(config_of(SIZES["low"], phoneme_type="pinyin"), "x")
    with pytest.raises(PhonemeError, match="'pinyin'"):
        phonemes_of("nihao", config)


@pytest.mark.skipif(shutil.which("espeak-ng") is None, reason="no espeak-ng here")
def test_espeak() -> None:
    found = ["".join(sentence) for sentence in phonemes_of("Hello, world. How are you?", CONFIG)]
    assert found == ["həlˈoʊ, wˈɜːld.", "hˈaʊ ɑːɹ juː?"]
    with pytest.raises(PhonemeError, match="'xx-none'"):
        module.espeak_lines("Hello", "xx-none")


def test_rare_phonemes_are_left_out_and_other_alphabets_refused(caplog: pytest.LogCaptureFixture) -> None:
    assert ids_of(list("hallo€"), CONFIG) == ids_of(list("hallo"), CONFIG)
    assert "U+20AC" in caplog.text
    with pytest.raises(PhonemeError, match=r"phoneme_id_map does not know 3 of 4.*U\+0434"):
        ids_of(list("дaдд"), CONFIG)


def test_long_sentences_are_cut_between_words() -> None:
    words = list("aaaa bbbb cccc, dddd eeee ffff hhhh")
    parts = list(pieces(words, CONFIG, 43))
    assert ["".join(part) for part in parts] == ["aaaa bbbb cccc,", "dddd eeee ffff ", "hhhh"]
    assert all(len(ids_of(part, CONFIG)) <= 43 for part in parts)
    assert list(pieces(words, CONFIG, 400)) == [words]


def _changed(path: str, value: Any) -> dict[str, Any]:
    row = copy.deepcopy(config_of(SIZES["medium"]))
    place: Any = row
    *keys, last = path.split(".")
    for key in keys:
        place = place[key]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return row


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("audio.sample_rate", None, "'audio.sample_rate' is missing"),
        ("audio.sample_rate", "22050", "should be a whole number"),
        ("audio.sample_rate", 16000, "'medium' are trained with 22050"),
        ("phoneme_id_map", None, "'phoneme_id_map' is missing"),
        ("phoneme_id_map._", None, "no '_'"),
        ("phoneme_id_map.a", [-1], r"\[-1\] for 'a'"),
        ("num_symbols", 20, "num_symbols is only 20"),
        ("num_speakers", 0, "num_speakers"),
        ("speaker_id_map", {"x": 7}, "num_speakers is 1"),
        ("inference.noise_w", -1, "inference.noise_w"),
        ("espeak.voice", None, "'espeak.voice' is missing"),
        ("vowel_clusters", {"a": 1}, "vowel_clusters"),
    ],
)
def test_wrong_configs(path: str, value: Any, message: str) -> None:
    with pytest.raises(VoiceSetError, match=message):
        parse_config(_changed(path, value), "voice.onnx.json")


def test_what_old_configs_do_not_say() -> None:
    config = parse_config(_changed("num_symbols", None), "x")
    assert config.symbols == 0
    assert parse_config(_changed("hop_length", None), "x").hop == 0
    assert parse_config(_changed("phoneme_type", None), "x").phoneme_type == "espeak"
    assert parse_config(_changed("inference.noise_w", None), "x").noise_w == 0.8


def test_configs_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(VoiceSetError, match="config of the voice is missing"):
        read_config(tmp_path / "v.onnx.json")
    (tmp_path / "v.onnx.json").write_text("[" * 100_000)
    with pytest.raises(VoiceSetError, match="cannot be read as JSON"):
        read_config(tmp_path / "v.onnx.json")
    (tmp_path / "v.onnx.json").write_text(json.dumps([1]))
    with pytest.raises(VoiceSetError, match="not list"):
        read_config(tmp_path / "v.onnx.json")


def test_the_package_speaks_where_the_program_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def phonemize_espeak(text: str, voice: str) -> list[list[str]]:
        assert (text, voice) == ("Hello, world. Yes?", "en-us")
        return [list("həlˈoʊ, wˈɜːld."), list("jˈɛs?")]

    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setitem(sys.modules, "piper_phonemize", SimpleNamespace(phonemize_espeak=phonemize_espeak))
    found = ["".join(sentence) for sentence in phonemes_of("Hello, world. Yes?", CONFIG)]
    assert found == ["həlˈoʊ, wˈɜːld.", "jˈɛs?"]
