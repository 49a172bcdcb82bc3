"""Folders with the models of a voice. They come from elsewhere: everything in them is checked."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openrknn.voice import VoiceSet, VoiceSetError, open_set
from openrknn.voice.sets import installed, write_set

GOOD = {"format": 1, "name": "one", "family": "moonshine", "kind": "transcriber", "rate": 16000}


def folder_with(where: Path, row: object, name: str = "one") -> Path:
    """A folder with a voice.json."""
    folder = where / name
    folder.mkdir()
    (folder / "voice.json").write_text(row if isinstance(row, str) else json.dumps(row))
    return folder


def test_what_is_written_is_read(tmp_path: Path) -> None:
    (tmp_path / "encoder.rknn").write_bytes(b"RKNN")
    made = VoiceSet(tmp_path, "tiny", "moonshine", "transcriber", 16000, "de", "rk3576", "MIT", "made here",
                    {"encoder": "encoder.rknn", "decoder": "decoder.rknnz"}, {"buckets": [1, 2]})  # fmt: skip
    write_set(made)
    assert open_set(tmp_path) == made
    assert made.file("encoder") == tmp_path / "encoder.rknn"
    with pytest.raises(VoiceSetError, match=r"decoder.rknnz: this file of the set 'tiny' is missing"):
        made.file("decoder")
    with pytest.raises(VoiceSetError, match=r"has no file for 'tokens', only encoder, decoder"):
        made.file("tokens")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_sets_at_home_have_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENRKNN_VOICES", str(tmp_path))
    with pytest.raises(VoiceSetError, match=r"there: none\).*openrknn voice get two"):
        open_set("two")
    folder_with(tmp_path, GOOD)
    folder_with(tmp_path, "no json", "broken")
    assert [one.name for one in installed()] == ["one"]
    assert open_set("one", "transcriber").rate == 16000
    with pytest.raises(VoiceSetError, match=r"a set for 'transcriber', and one for 'speaker' is needed"):
        open_set("one", "speaker")
    assert installed("speaker") == []


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ("", "cannot be read"),
        ("[" * 100_000, "cannot be read"),
        ("[]", "not of format 1"),
        ({**GOOD, "format": 2}, "not of format 1"),
        ({**GOOD, "rate": "16000"}, "'rate' should be int"),
        ({**GOOD, "rate": True}, "'rate' should be int"),
        ({**GOOD, "rate": 0}, "rate 0 is not known"),
        ({**GOOD, "kind": "cat"}, "kind 'cat'"),
        ({"format": 1, "name": "one"}, "'family' is missing"),
        ({**GOOD, "files": []}, "should be objects"),
        ({**GOOD, "files": {"encoder": "../../etc/passwd"}}, "not a path inside the folder"),
        ({**GOOD, "files": {"encoder": "/etc/passwd"}}, "not a path inside the folder"),
        ({**GOOD, "files": {"encoder": 5}}, "not a path inside the folder"),
        (" " * (2 << 20), "larger than"),
    ],
)
def test_hostile_sets(tmp_path: Path, row: object, what: str) -> None:
    with pytest.raises(VoiceSetError, match=what):
        open_set(folder_with(tmp_path, row))


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.dictionaries(st.sampled_from([*GOOD, "files", "options", "language", "more"]), values, max_size=5))
def test_any_json_is_a_set_or_a_named_error(tmp_path: Path, row: dict[str, Any]) -> None:
    (tmp_path / "voice.json").write_text(json.dumps({**GOOD, **row}))
    try:
        found = open_set(tmp_path)
    except VoiceSetError:
        return
    assert found.rate == {**GOOD, **row}["rate"]
