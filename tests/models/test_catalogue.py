"""`openrknn models`: what the catalogue says of every model, and how one is fetched. No network."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from openrknn.cli.common.catalogue import rows
from openrknn.models.entry import KINDS
from openrknn.models.estimates import estimates
from openrknn.models.known import KNOWN
from openrknn.models.licences import needs_consent
from tests.cli.run import run
from tests.models.small_graph import SmallGraph

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("VISION", "VOICES", "LLMS", "PACKAGES"):
        monkeypatch.setenv(f"OPENRKNN_{name}", str(tmp_path / name))
    monkeypatch.setenv("npm_config_registry", "http://127.0.0.1:9/")  # nothing answers there
    return tmp_path


def test_every_model_says_what_it_is_and_is_pinned() -> None:
    found = rows()
    assert len({row.name for row in found}) == len(found)
    for row in found:
        assert row.kind in KINDS
        assert row.licence
        assert row.about
        assert row.size or not row.packages
        for package in row.packages:
            assert re.fullmatch(r"(sha512-[\w+/=]{88}|sha256:[0-9a-f]{64}|)", package.integrity)
    for name, known in KNOWN.items():
        assert known.package.integrity or re.fullmatch("[0-9a-f]{64}", known.sha256), name


def test_licences_that_restrict_use() -> None:
    assert not any(map(needs_consent, ("MIT", "Apache-2.0", "BSD-2-Clause", "CC0 data (model card)")))
    assert all(map(needs_consent, ("AGPL-3.0", "CC BY-NC-SA 4.0", "GPL-3.0", "", "non-commercial")))


def test_list_filters_by_kind_and_command(capsys: Capture) -> None:
    told = json.loads(run(capsys, "models", "list", "detector", "--target", "rk3576", "--json").out)
    assert told["target"] == "rk3576"
    assert {row["kind"] for row in told["models"]} == {"detector"}
    assert "coco-ssd" in run(capsys, "models", "list", "detect", "--quiet").out.split()
    assert "smollm2-135m-instruct" in run(capsys, "models", "list").out
    wrong = run(capsys, "models", "list", "toaster")
    assert (wrong.code, "no model is of the kind 'toaster'; there are detector" in wrong.err) == (2, True)
    wrong = run(capsys, "models", "list", "--target", "rk1")
    assert (wrong.code, "rk1" in wrong.err) == (2, True)


def test_show_and_names_that_are_nearly_right(capsys: Capture) -> None:
    shown = run(capsys, "models", "show", "yolov8n").out
    assert "AGPL-3.0; `get` needs --accept-licence" in shown
    assert KNOWN["yolov8n"].sha256 in shown
    wrong = run(capsys, "models", "show", "coco-sdd")
    assert (wrong.code, "did you mean coco-ssd?" in wrong.err) == (2, True)
    assert "needs a name" in run(capsys, "models", "get").err


def test_get_makes_a_model_that_is_then_here(homes: Path, capsys: Capture) -> None:
    SmallGraph().write(homes / "package")
    words = ("models", "get", "coco-ssd", "--source", homes / "package", "--precision", "fp16", "--target", "rk3588")
    made = run(capsys, *words, "--json")
    assert made.code == 0, made.err
    told = json.loads(made.out)
    assert told["path"] == str(homes / "VISION" / "coco-ssd-rk3588.rknn")
    assert told["size_bytes"] == Path(told["path"]).stat().st_size
    listed = json.loads(run(capsys, "models", "list", "detector", "--json").out)["models"]
    assert [row["name"] for row in listed if row["here"]] == ["coco-ssd"]


def test_a_licence_is_accepted_before_anything_is_fetched(homes: Path, capsys: Capture) -> None:
    for words in (("models", "get", "yolov8n"), ("models", "get", "alexa")):
        refused = run(capsys, *words)
        assert refused.code == 2
        assert "`--accept-licence` fetches the model under its terms" in refused.err
    assert not (homes / "PACKAGES").exists()
    accepted = run(capsys, "models", "get", "yolov8n", "--accept-licence")
    assert (accepted.code, "could not be fetched" in accepted.err, "--source" in accepted.err) == (2, True, True)


def test_another_network_than_the_known_one_is_refused(homes: Path, capsys: Capture) -> None:
    (homes / "package").mkdir()
    (homes / "package" / "u2netp.onnx").write_bytes(b"something else")
    refused = run(capsys, "models", "get", "u2netp", "--source", homes / "package")
    assert (refused.code, "u2netp.onnx has the SHA-256" in refused.err) == (2, True)


def test_a_language_model_from_a_folder(homes: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    import hashlib

    from openrknn.llm import home

    (homes / "package" / "model").mkdir(parents=True)
    (homes / "package" / "model" / "config.json").write_text("{}")
    (homes / "package" / "model" / "model.safetensors").write_bytes(b"weights")
    name = "all-minilm-l6-v2"
    digest = hashlib.sha256(b"weights").hexdigest()
    monkeypatch.setitem(home.KNOWN, name, replace(home.KNOWN[name], sha256=digest))
    made = run(capsys, "models", "get", name, "--source", homes / "package", "--quiet")
    assert (made.code, made.out.strip()) == (0, str(homes / "LLMS" / name))
    assert home.find_model(name) == homes / "LLMS" / name
    assert home.size_of(homes / "LLMS" / name) == len("{}weights")


def test_estimates_are_of_models_that_exist() -> None:
    assert set(estimates()) <= {row.name for row in rows()}


def test_the_page_is_current() -> None:
    """`python tools/make_model_docs.py` writes it."""
    from tools import make_model_docs

    assert make_model_docs.PAGE.read_text(encoding="utf-8") == make_model_docs.page()
