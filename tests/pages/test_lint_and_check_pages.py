"""The pages of `lint` and `check`: a verdict, and every finding. Evidence: what the commands found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from openrknn.analysis.lint import Finding, Severity
from openrknn.cli.main import main
from openrknn.pages import checked, findings
from tests.docs.code_blocks import ROOT

MODEL = ROOT / "examples" / "models" / "tones_rk3588_fp.rknn"


def test_the_worst_finding_is_the_verdict() -> None:
    found = [
        Finding("some-note", Severity.NOTE, what="a note"),
        Finding("bad-thing", Severity.ERROR, what="it is <wrong>", why="because", change="change it"),
    ]
    page = findings.render([("a.rknn", found), ("b.rknn", [])], ran=False)
    assert 'class="verdict poor"' in page
    assert "It is &lt;wrong&gt;" in page
    assert "<b>Next: </b>change it" in page
    assert page.index("bad-thing") < page.index("some-note")
    assert "Nothing found." in page


def test_a_file_that_could_not_be_read_is_the_verdict() -> None:
    page = findings.render([("a.rknn", "a.rknn: not a .rknn file")], ran=True)
    assert "1 file could not be read" in page
    assert "not a .rknn file" in page


def test_nothing_found_is_good() -> None:
    page = findings.render([("a.rknn", [])], ran=True)
    assert 'class="verdict good"' in page


def outcome(status: str) -> dict[str, Any]:
    finding = {"severity": "error", "text": "3 values differ", "do": "look at it"}
    check = {"name": "outputs of cat", "status": status, "text": "12 dB", "findings": [finding], "seconds": 0.1}
    return {"model": "x/a.rknn", "golden": "g", "chip": "RK3588", "device": "software", "passed": status == "passed",
            "seconds": 0.2, "notes": [], "checks": [check]}  # fmt: skip


def test_a_failed_check_is_the_verdict() -> None:
    page = checked.render([outcome("passed"), outcome("failed")])
    assert 'class="verdict poor"' in page
    assert "a.rknn: outputs of cat: 12 dB" in page
    assert "error: 3 values differ → look at it" in page
    assert 'class="verdict good"' in checked.render([outcome("passed")])


def test_the_commands_write_them(tmp_path: Path) -> None:
    page = tmp_path / "lint.html"
    assert main(["lint", str(MODEL), "--report", str(page)]) == 0
    assert 'class="verdict' in page.read_text(encoding="utf-8")
    golden = str(tmp_path / "golden")
    assert main(["check", str(MODEL), "--record", golden]) == 0
    page = tmp_path / "check.html"
    assert main(["check", str(MODEL), "--golden", golden, "--report", str(page)]) == 0
    assert 'class="verdict good"' in page.read_text(encoding="utf-8")


def test_the_next_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The last thing that each command prints; the page of a failed check has it, too."""
    assert main(["lint", str(MODEL)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("next: `openrknn lint MODEL --run` also checks")
    golden = str(tmp_path / "golden")
    main(["check", str(MODEL), "--record", golden])
    capsys.readouterr()
    assert main(["check", str(MODEL), "--golden", golden]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("next: run this check for every change")
    page = checked.render([outcome("failed")], "if the change is intended: `openrknn check x --update`")
    assert "<code>openrknn check x --update</code>" in page
    assert main(["doctor"]) in (0, 1)
    assert "\nnext: " in capsys.readouterr().out
