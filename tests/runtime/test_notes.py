"""A model whose commands hold bits that boards are recorded to ignore: it runs, says so, and is refused if strict.

CONV_CON2 bit 14 is set by the gemm of allbilly/rk3588, which passes on an Orange Pi 5.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from openrknn import Session, isa, load
from openrknn.analysis.explain import describe
from openrknn.analysis.reports import Severity
from openrknn.container.model import Model
from openrknn.errors import UndeclaredBitsError
from tests.cli.changed import with_graph
from tests.cli.run import run
from tests.container.places import golden

IGNORED, UNKNOWN = 0x4000, 0x8000


def with_bits(bits: int) -> Model:
    """The golden with these bits in CONV_CON2 of every task."""
    model = load(golden("conv_rk3588_i8"))
    words = np.array(model.graphs[0].commands, np.uint64)
    place = isa.Target.CNA << 48 | isa.cna.ConvCon2.offset
    chosen = words & np.uint64(0xFFFF_0000_0000_FFFF) == np.uint64(place)
    assert chosen.any()
    words[chosen] |= np.uint64(bits << 16)
    return with_graph(model, commands=memoryview(words.tobytes()).cast("Q"))


def picture(random: np.random.Generator | None = None) -> np.ndarray:
    shape = load(golden("conv_rk3588_i8")).inputs[0].shape
    return np.zeros(shape, np.float32) if random is None else random.normal(size=shape).astype(np.float32)


def test_a_session_notes_what_boards_ignore() -> None:
    feed = picture(np.random.default_rng(5))
    with Session(golden("conv_rk3588_i8"), "software") as plain, Session(with_bits(IGNORED), "software") as other:
        right, same = plain.run(feed), other.run(feed)
        assert plain.notes == ()
        (note,) = other.notes
        assert "CONV_CON2" in note
        assert "0x4000" in note
        assert "gemm" in note
        assert "Orange Pi 5" in note
        assert all(np.array_equal(right[name], same[name]) for name in right)


def test_strict_sessions_refuse_it() -> None:
    session = Session(with_bits(IGNORED), "software", strict=True)
    with session, pytest.raises(UndeclaredBitsError, match="0x4000"):
        session.run(picture())


def test_unknown_bits_stop_every_session_and_say_what_to_send() -> None:
    session = Session(with_bits(UNKNOWN), "software")
    with session, pytest.raises(UndeclaredBitsError, match=r"CONV_CON2") as caught:
        session.run(picture())
    assert "issue" in str(caught.value)
    assert "openrknn verify" in str(caught.value)


@pytest.mark.parametrize(
    ("bits", "code", "severity"),
    [(IGNORED, "ignored-bits", Severity.NOTE), (UNKNOWN, "unknown-bits", Severity.WARNING)],
)
def test_inspect_tells(bits: int, code: str, severity: Severity) -> None:
    found = [finding for finding in describe(with_bits(bits)).findings if finding.code == code]
    assert [finding.severity for finding in found] == [severity]
    assert f"{bits:#x}" in found[0].what


def test_run_tells_programs_and_obeys_strict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "x.npy", picture())
    words = ("run", golden("conv_rk3588_i8"), "--input", tmp_path / "x.npy", "--strict", "--json")
    done = run(capsys, *words)
    assert done.code == 0, done.err
    assert json.loads(done.out)["notes"] == []
