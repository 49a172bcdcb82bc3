from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from openrknn.cli.main import main

pytest.importorskip("prometheus_client")


@pytest.fixture(autouse=True)
def _log_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command directs the log of its whole process; here that is the process of other tests too."""
    monkeypatch.setattr("openrknn.serve.logs.set_up", lambda *_: None)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("watch") / "demo"
    assert main(["watch", "--demo", str(folder)]) == 0
    config = folder / "watch.toml"
    config.write_text(config.read_text().replace("port = 8018", "port = 0") + '\n[extra]\n')
    return config


def _right(demo: Path) -> Path:
    path = demo.with_name("right.toml")
    text = demo.read_text().replace("[extra]\n", "").replace("spool =", 'workers = "in-process"\nspool =')
    path.write_text(text)
    return path


def test_a_configuration_is_checked(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", str(demo), "--check"]) == 2
    assert f"{demo}:" in (error := capsys.readouterr().err)
    assert "extra: is not known" in error
    assert main(["watch", str(_right(demo)), "--check", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["models"], found["cameras"]) == (["squares"], ["yard", "gate"])


def test_without_a_configuration_it_says_how_to_get_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch"]) == 2
    assert "--example" in capsys.readouterr().err
    assert main(["watch", "--example"]) == 0
    text = capsys.readouterr().out
    assert "\n[cameras.yard]\n" in text
    assert '\npath = "detector.rknn"\n' in text, "the name that docs/watch.md gives the model"


def test_sigterm_ends_it_with_all_events_delivered(demo: Path) -> None:
    path = _right(demo)
    process = subprocess.Popen(
        [sys.executable, "-m", "openrknn", "watch", str(path), "--log-level", "error"],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    events = demo.with_name("events.jsonl")
    try:
        assert "http://127.0.0.1:" in process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=120)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    lines = events.read_text().splitlines() if events.exists() else []
    assert out.strip() in {"", f"{len(lines)} events", "1 event"}  # a program that is not a terminal gets no last line
    assert len({json.loads(line)["id"] for line in lines}) == len(lines)
