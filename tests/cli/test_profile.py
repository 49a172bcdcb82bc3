"""`openrknn profile`: the columns of the vendor's table."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from openrknn.analysis.profile_summary import summary_of, summary_of_parts
from openrknn.analysis.profiles import Row
from openrknn.pages.profile import Part, render
from tests.cli.run import run
from tests.container.places import golden

Capture = pytest.CaptureFixture[str]


def report_of(capsys: Capture, *words: object) -> dict[str, Any]:
    result = run(capsys, "profile", *words, "--runs", "1", "--json")
    assert (result.code, result.err) == (0, "")
    report: dict[str, Any] = json.loads(result.out)
    return report


def test_the_estimate_by_hand(capsys: Capture) -> None:
    """conv_rk3588: one convolution; the array takes groups of 32 inputs by 32 bytes of kernels, one a cycle and tap."""
    for name, kernels in (("conv_rk3588_i8", 32), ("conv_rk3588_fp", 16)):
        (row,) = report_of(capsys, golden(name))["operators"]
        weights = next(shape for shape in row["input_shape"] if len(shape) == 4 and shape != row["input_shape"][0])
        (_, channels, height, width) = row["output_shape"][0]
        macs = channels * height * width * weights[1] * weights[2] * weights[3]
        assert row["macs"] == macs
        taps = height * width * weights[2] * weights[3]
        assert row["npu_cycles"] == taps * -(-weights[1] // 32) * -(-channels // kernels)
        assert row["total_cycles"] > max(row["npu_cycles"], row["ddr_cycles"])
        assert row["board_us"] == pytest.approx(row["total_cycles"] / 1000, rel=1e-3)
        assert row["bound"] == "start"
        assert row["mac_usage_percent"] == pytest.approx(100 * row["npu_cycles"] / row["total_cycles"])
        assert row["here_us"] > 0


def test_cores_share_the_work(capsys: Capture) -> None:
    one, three = (report_of(capsys, golden("residual_rk3588_i8"), "--cores", cores) for cores in (1, 3))
    assert one["operators"][0]["workload_percent"] == [100, 0, 0]
    shares = three["operators"][0]["workload_percent"]
    assert sum(shares) == pytest.approx(100)
    assert min(shares) > 20
    assert three["operators"][0]["npu_cycles"] < one["operators"][0]["npu_cycles"]


def test_operators_of_the_cpu_have_no_cycles(capsys: Capture) -> None:
    rows = report_of(capsys, golden("cpu_sin_rk3588_i8"))["operators"]
    row = next(row for row in rows if row["op_type"] == "Sin")
    assert (row["target"], row["total_cycles"], row["board_us"]) == ("CPU", None, None)


def test_sums_and_sorting(capsys: Capture) -> None:
    report = report_of(capsys, golden("residual_rk3588_i8"), "--sort", "board")
    times = [row["board_us"] for row in report["operators"]]
    assert times == sorted(times, reverse=True)
    assert report["total"]["board_us"] == pytest.approx(sum(times)) == pytest.approx(report["total"]["time_ms"] * 1e3)
    assert report["total"]["low_ms"] < report["total"]["time_ms"] < report["total"]["high_ms"]
    assert sum(kin["calls"] for kin in report["types"]) == len(times)


@pytest.mark.parametrize(
    ("width", "shown"), [("170", "InputShape"), ("140", "MacUsage(%)"), ("120", "Cycles(DDR"), ("80", "Bound")]
)
def test_text(width: str, shown: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", width)
    text = run(capsys, "profile", golden("residual_rk3588_i8"), "--runs", "1").out
    assert shown in text
    assert "RK3588, 1 core at 1 GHz: about" in text
    assert "published figures" in text
    assert max(map(len, text.splitlines())) <= int(width)


def test_dynamic_shapes_and_quiet(capsys: Capture) -> None:
    assert run(capsys, "profile", golden("dynamic_rk3588_i8"), "-q").out.endswith(" us\n")


def test_bad_requests_are_one_line(capsys: Capture) -> None:
    for words in (["--cores", "7"], ["--runs", "0"], ["-i", "none.npy"]):
        result = run(capsys, "profile", golden("conv_rk3588_i8"), *words)
        assert (result.code, result.err.count("\n")) == (2, 1)


def test_the_last_line_is_the_next_step(capsys: Capture) -> None:
    result = run(capsys, "profile", golden("conv_rk3588_i8"), "--runs", "1")
    assert "takes 100% of the time and is limited by the overhead of starting tasks" in next_step(result.out)


def next_step(text: str) -> str:
    """The last thing that a command prints, which may take several lines."""
    return " ".join(text.rpartition("\nnext: ")[2].split())


def test_the_report_has_the_verdict_and_every_operator(tmp_path: Path, capsys: Capture) -> None:
    page = tmp_path / "profile.html"
    result = run(capsys, "profile", golden("residual_rk3588_i8"), "--runs", "1", "--report", page)
    assert result.code == 0
    text = page.read_text(encoding="utf-8")
    assert 'class="verdict good"' in text
    assert re.search(r"RK3588: about [\d.]+ ms on a board", text)
    rows = report_of(capsys, golden("residual_rk3588_i8"))["operators"]
    whole = text[text.index('id="operators0"') :]
    assert whole.count("<tr>") == len(rows) + 1
    assert next_step(result.out) in text


def row(name: str, *, board_us: float | None, target: str = "NPU", here_us: float = 10.0) -> Row:
    shape = ((1, 8, 4, 4),)
    return Row(0, "Conv", "INT8", target, shape, 1, shape, 1, 1, 1, board_us, "memory", here_us, 1.0, (), 1.0, 1, name)


def test_the_summary_without_a_board_time_and_with_slow_cpu_operators() -> None:
    rows = [row("a", board_us=None, here_us=30.0), row("<b>", board_us=None)]
    found = summary_of(rows, None, chip="RK2118", device="software")
    assert (found.level, found.numbers[0][1], found.numbers[1][1]) == ("fair", "unknown", "75%")
    assert found.next_step.startswith("a takes 75% of the time and is limited by memory bandwidth")
    page = render("x.rknn", "RK2118", found, [Part(rows)])
    assert "&lt;b&gt;" in page
    assert "<b>" not in page.replace("<b>Next: </b>", "")
    rows = [row("a", board_us=5.0), row("b", board_us=None, target="CPU", here_us=90.0)]
    assert "replace 1 operator on the CPU (Conv)" in summary_of(rows, None, chip="RK3588", device="software").next_step


def test_the_summary_of_parts() -> None:
    found = summary_of_parts([("npu", 10, 1000.0, 50.0), ("cpu", 2, 3000.0, 20.0)], device="software")
    assert (found.level, found.numbers[0][1], found.numbers[1][1]) == ("fair", "4 ms", "75%")
    assert "move 2 operators from the CPU to the NPU" in found.next_step
    parts = [Part([row("a", board_us=1000.0)], name="part 0"), Part([], name="part 1", kind="cpu", reason="no kernel")]
    page = render("x.rknnz", "RK3588", found, parts)
    assert "no kernel" in page
    assert "Operators of part 0" in page
    assert "Operators of part 1" not in page
