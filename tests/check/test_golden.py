"""golden.toml and its files: what is wrong is said with its line, and hostile files do no harm."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

from openrknn.check import GoldenError, check, load_golden
from openrknn.check.text import value_text
from tests.container.places import golden

CONV = golden("conv_rk3588_i8")
CASE = '[[case]]\nname = "one"\ninput = "x.npy"\noutputs = "y.npz"\n'


def written(folder: Path, text: str) -> Path:
    (folder / "golden.toml").write_text(text)
    return folder


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("format = 2", 1, "format 2 is not known"),
        ("budgets = 1", 1, "'budgets' is not known here; did you mean 'budget'?"),
        ("\n[budget]\ncpu_operator = 0", 3, "did you mean 'cpu_operators'?"),
        ("[budget]\nms = { rk3568 = 1, rk3589 = 2 }", 2, "there is no chip 'rk3589'; did you mean 'rk3588'?"),
        ('[budget]\nbytes = "many"', 2, "bytes should be a whole number from 0 on, not 'many'"),
        ("[budget]\nbytes = -1", 2, "from 0 on"),
        ('chip = "rk358"', 1, "did you mean 'rk3588'?"),
        ('[lint]\nfail_on = "warnings"', 2, "did you mean 'warning'?"),
        ('[[lint.ignore]]\nrule = "cpu-island"', 2, "say why"),
        ('[[lint.ignore]]\nrule = "cpu-iland"\nreason = "x"', 2, "did you mean 'cpu-island'?"),
        ('[[case]]\nname = "a"\noutputs = "y.npz"', 2, "has no input"),
        ('[[case]]\nname = "a"\ninput = "x.npy"', 2, "expects nothing"),
        (CASE + CASE, 2, "two cases are called 'one'"),
        ('[[case]]\nname = "../a"\ninput = "x.npy"\noutputs = "y.npz"', 2, "cannot be a name"),
        ('[[case]]\ninput = "../../etc/passwd"\noutputs = "y.npz"', 2, "not a path inside the folder"),
        ('[[case]]\ninput = "/etc/passwd"\noutputs = "y.npz"', 2, "not a path inside the folder"),
        (CASE + "tolerance = { step = 1 }", 5, "did you mean 'steps'?"),
        (CASE + "tolerance = { cosine = 1.5 }", 5, "from 0 to 1"),
        (CASE + "answer = { clases = [1] }", 5, "did you mean 'classes'?"),
        (CASE + "answer = { within = 5 }", 5, "expects nothing"),
        (CASE + 'answer = { boxes = [{ class = "cat", box = [1, 2, 3] }] }', 5, "box should be 4 numbers"),
        ("[integrity]\nweights = true", 2, "weights should be a text"),
        ("a = 1\nb = = 2", 2, "not TOML"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text: str, line: int, message: str, tmp_path: Path) -> None:
    with pytest.raises(GoldenError) as caught:
        load_golden(written(tmp_path, text))
    assert message in str(caught.value)
    assert caught.value.line == line


def test_a_folder_written_by_hand(tmp_path: Path) -> None:
    from openrknn import Session

    data = np.random.default_rng(0).uniform(-1, 1, (1, 3, 10, 12)).astype(np.float32)
    with Session(CONV) as session:
        shape = session.inputs[0].shape
        data = np.resize(data, shape)
        outputs = session.run(data)
    np.save(tmp_path / "x.npy", data)
    np.savez(tmp_path / "y.npz", x0=next(iter(outputs.values())))
    written(tmp_path, CASE + "tolerance = { exact = true }\n[budget]\nms = { rk3566 = 1 }\n")
    outcome = check(CONV, tmp_path)
    assert outcome.passed
    assert [(entry.name, str(entry.status)) for entry in outcome.checks] == [
        ("budget ms", "skipped"),
        ("outputs of one", "passed"),
    ]


def bomb(path: Path) -> None:
    """An array that announces a terabyte."""
    words = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000, 256), }"
    head = b"\x93NUMPY\x01\x00\x76\x00" + words.ljust(118)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x0.npy", head + bytes(1 << 16))


def test_hostile_files_are_errors_of_their_case(tmp_path: Path) -> None:
    written(tmp_path, CASE)
    np.save(tmp_path / "x.npy", np.zeros((1, 3, 4, 4), np.float32))

    def told() -> str:
        outcome = check(CONV, tmp_path)
        assert [str(entry.status) for entry in outcome.checks] == ["error"]
        return next(iter(outcome.findings)).text

    assert "no such file" in told()
    bomb(tmp_path / "y.npz")
    assert "more than there can be" in told()
    (tmp_path / "y.npz").write_bytes(b"PK\x03\x04 and no more")
    assert "not a .npz" in told()
    np.savez(tmp_path / "y.npz", nothing_like_it=np.zeros(3), other=np.zeros(3))
    assert "is no output of the model" in told()


BROKEN = ["[]", "{}", '{"format": 1}', '{"format": 1, "chip": 1, "operators": [3]}', "[" * 5000]


@pytest.mark.parametrize("data", BROKEN)
def test_a_broken_fingerprint_is_told(data: str, tmp_path: Path) -> None:
    (tmp_path / "f.json").write_text(data)
    with pytest.raises(GoldenError, match="not a fingerprint"):
        check(CONV, written(tmp_path, '[integrity]\nfile = "f.json"'))


def test_texts_survive_toml(tmp_path: Path) -> None:
    word = 'a "b" \\ c\n\t\x01\x7f é 漢 😀'
    path = written(tmp_path, f"model = {value_text(word)}\n")
    assert load_golden(path).model == word
