"""`openrknn compile --cache` and `inspect` of what it makes."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest

from openrknn import Decoder
from openrknn.cli.main import main
from tests.decoders import TOKENS, grouped


@pytest.fixture(scope="module")
def step(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("decoder") / "step.onnx"
    onnx.save(grouped(), path)
    return path


def test_a_decoder_is_made_and_shown(step: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = tmp_path / "decoder.rknnz"
    assert main(["compile", str(step), "--cache", "16", "-o", str(made), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["capacity"], facts["vocabulary"], facts["frames"]) == (16, TOKENS, 0)
    assert len(facts["caches"]) == 2
    with Decoder(made, "software") as decoder:
        decoder.start()
        assert decoder.step(3).shape == (TOKENS,)
    assert main(["inspect", str(made)]) == 0
    shown = capsys.readouterr().out
    assert "at most 16, 24 logits a step" in shown
    assert "model    step.rknn:" in shown
    assert main(["inspect", str(made), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kind"] == "decoder"
    assert main(["inspect", str(made), "--html", str(tmp_path / "x.html")]) != 0
    assert "--html and --graph are for the models in it" in capsys.readouterr().err
    assert main(["run", str(made)]) != 0
    assert "openrknn.Decoder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--cache", "16", "--partition"], "--partition does not go with --cache"),
        (["--cache", "16", "--shapes", "input_ids=1,1"], "--shapes does not go with --cache"),
        (["--frames", "16"], "--first and --frames are for decoders"),
        (["--cache", "none"], "'none' is not a number from 1 to 65536"),
    ],
)
def test_options_that_do_not_go_together(
    options: list[str], message: str, step: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(["compile", str(step), *options, "-o", str(tmp_path / "x.rknnz")])
    except SystemExit as error:
        code = int(error.code or 0)
    assert code != 0
    assert message in capsys.readouterr().err
