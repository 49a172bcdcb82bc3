"""The plugin in runs of pytest of its own."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from openrknn.check import record
from openrknn.cli.check.making import _random
from tests.check.broken import flipped
from tests.container.places import golden

pytest_plugins = ["pytester"]

CONV = golden("conv_rk3588_i8")
TESTS = """
import numpy as np
import pytest

@pytest.mark.openrknn_model("model.rknn")
def test_outputs(openrknn_model, assert_close_to_golden):
    shape = openrknn_model.session.inputs[0].shape
    picture = np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)
    assert_close_to_golden(openrknn_model.run(picture), "line", steps=1)

@pytest.mark.openrknn_model("model.rknn")
def test_budget(openrknn_model):
    openrknn_model.assert_budget(ms=1, cpu_operators=0, bytes=30_000)
    openrknn_model.assert_no_findings()
    with pytest.raises(AssertionError, match="bytes are 20352"):
        openrknn_model.assert_budget(bytes=1000)
    with pytest.raises(TypeError, match="did you mean 'submits'"):
        openrknn_model.assert_budget(submit=1)

@pytest.mark.openrknn_model("model.rknn")
def test_all_of_it(openrknn_model, openrknn_golden):
    openrknn_golden.check(openrknn_model)

@pytest.mark.parametrize("openrknn_model", ["model.rknn"], indirect=True)
def test_by_parameter(openrknn_model):
    assert openrknn_model.model.chip.name == "rk3588"
    assert openrknn_model.session.device.name == "software:rk3588"

def test_without_a_model(openrknn_model):
    pass
"""


@pytest.fixture(autouse=True)
def installed() -> None:
    names = {entry.name for entry in metadata.entry_points(group="pytest11")}
    assert "openrknn" in names, "run tools/setup-venv: the entry point is not installed"


def prepared(pytester: pytest.Pytester) -> Path:
    (pytester.path / "model.rknn").write_bytes(CONV.read_bytes())
    folder = pytester.path / "model.golden"
    record(pytester.path / "model.rknn", folder, {"random": _random(str(CONV))})
    return folder


def test_fixtures(pytester: pytest.Pytester) -> None:
    prepared(pytester)
    pytester.makepyfile(TESTS)
    result = pytester.runpytest("-k", "outputs", "--strict-markers")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*line.npz: no such file; write it with --openrknn-update"])
    pytester.runpytest("-k", "outputs", "--openrknn-update").assert_outcomes(passed=1)
    result = pytester.runpytest("--strict-markers", "--openrknn-device", "software")
    result.assert_outcomes(passed=4, errors=1)
    result.stdout.fnmatch_lines(["*say which model: @pytest.mark.openrknn_model*"])
    flipped(CONV, pytester.path / "model.rknn", "const0", at=2, bit=7)
    result = pytester.runpytest("--openrknn-device", "software", "-k", "outputs or all_of_it")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*not close to *line.npz:*", "*weights-changed: #1 Conv 'Conv:conv0': weights*"])


def test_golden_folders_are_tests_if_asked(pytester: pytest.Pytester) -> None:
    folder = prepared(pytester)
    assert pytester.runpytest().ret == pytest.ExitCode.NO_TESTS_COLLECTED
    result = pytester.runpytest("--openrknn-golden", ".", "-v")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*golden.toml::file PASSED*", "*golden.toml::random PASSED*"])
    flipped(CONV, pytester.path / "model.rknn", "const0", at=2, bit=7)
    result = pytester.runpytest("--openrknn-golden", str(folder))
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*weights: changed in 1 operator*", "*first-difference: #1 Conv 'Conv:conv0'*"])
    pytester.makeini("[pytest]\nopenrknn_golden = model.golden\nopenrknn_models = elsewhere\n")
    result = pytester.runpytest()
    result.stdout.fnmatch_lines(["*model.rknn: not in *elsewhere; say where models are with --openrknn-models DIR*"])
    (folder / "golden.toml").write_text("budgets = 1")
    pytester.runpytest().assert_outcomes(errors=1)
    assert pytester.runpytest("--openrknn-golden", "nowhere").ret == pytest.ExitCode.USAGE_ERROR


def test_with_workers(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared(pytester)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # the plugins of others take seconds to import
    plugins = ("-p", "xdist.plugin", "-p", "openrknn.pytest_plugin")
    result = pytester.runpytest_subprocess(*plugins, "--openrknn-golden", ".", "-n", "1")
    result.assert_outcomes(passed=2)


def test_importing_it_is_cheap() -> None:
    """Every run of pytest imports it where openrknn is installed: neither NumPy nor rich may come with it."""
    code = "import sys, openrknn.pytest_plugin; print([m for m in ('numpy', 'rich', 'onnx') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
