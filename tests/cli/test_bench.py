"""`openrknn bench`: the numbers add up, and what was asked for was done."""

import json

import pytest

from openrknn.cli.bench.measure import percentiles
from tests.cli.run import run
from tests.container.places import golden

Capture = pytest.CaptureFixture[str]
CONV = golden("conv_rk3588_i8")
QUICK = ("--seconds", "0.01", "--warmup", "1")


def test_numbers_for_programs(capsys: Capture) -> None:
    result = run(capsys, "bench", CONV, *QUICK, "--runs", "7", "--cores", "2", "--json")
    assert (result.code, result.err) == (0, "")
    report = json.loads(result.out)
    latency = report["latency_seconds"]
    order = [latency[name] for name in ("min", "p50", "p90", "p95", "p99", "max")]
    assert order == sorted(order)
    assert report["runs"] >= 7
    assert report["cores"] == 2
    assert report["inputs"] == "random"
    assert report["runs_per_second"] == pytest.approx(1 / latency["mean"])
    assert report["memory"]["peak_bytes"] > report["memory"]["device"]["weights_bytes"] > 0
    assert report["kernels"] in {"numpy", "native"} or report["kernels"]


def test_text_and_quiet(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    result = run(capsys, "bench", CONV, *QUICK, "-i", CONV.with_suffix(".npz"))
    assert "runs per second" in result.out
    assert "as given" in result.out
    quiet = run(capsys, "bench", CONV, *QUICK, "-q").out
    assert quiet.endswith(" ms\n")
    assert float(quiet.split()[0]) > 0


def test_percentiles_by_hand() -> None:
    found = percentiles([3.0, 1.0, 2.0])
    assert (found["min"], found["p50"], found["max"], found["mean"]) == (1.0, 2.0, 3.0, 2.0)


@pytest.mark.parametrize("words", [["--runs", "0"], ["--seconds", "-1"], ["--threads", "x"], ["--cores", "9"]])
def test_bad_requests_are_one_line(words: list[str], capsys: Capture) -> None:
    result = run(capsys, "bench", CONV, *words)
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)


def test_ctrl_c_ends_it_without_a_word(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(run: object) -> float:
        raise KeyboardInterrupt

    monkeypatch.setattr("openrknn.cli.bench.measure._timed", interrupted)
    assert run(capsys, "bench", CONV) == (130, "", "")
