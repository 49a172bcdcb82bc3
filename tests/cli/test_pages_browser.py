"""The pages of `compare --html`, `trace timeline` and `compile --report` on a phone, in a real browser."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from openrknn.pages.compiled.page import _mark
from openrknn.pages.frame import grade
from tests.browser import Browser
from tests.cli.run import run
from tests.container.places import ROOT

Capture = pytest.CaptureFixture[str]
PHONE = (390, 844)
MODELS = ROOT / "examples" / "models"
WIDEST = "Math.max(document.documentElement.scrollWidth, document.body.scrollWidth)"
OUTSIDE = """[...document.querySelectorAll('.card svg')].filter(drawn => {
    const card = drawn.closest('.card');
    return drawn.getBoundingClientRect().right > card.getBoundingClientRect().right
        && getComputedStyle(card).overflowX != 'auto';
}).length"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("browser")) as started:
        yield started


def test_charts_of_compare_stay_in_their_cards(browser: Browser, tmp_path: Path, capsys: Capture) -> None:
    pytest.importorskip("onnx", reason="the extra 'onnx' (package onnx) is not installed")
    page = tmp_path / "page.html"
    run(capsys, "compare", MODELS / "picture_gate_rk3562_fp.rknn", MODELS / "picture_gate.onnx", "--html", page)
    shown = browser.open(page.as_uri(), width=PHONE[0], height=PHONE[1])
    assert shown.until(f"document.readyState == 'complete' && document.querySelector('main') && {WIDEST}") <= PHONE[0]
    assert shown.ask(OUTSIDE) == 0


def test_the_page_of_a_model_in_parts(browser: Browser, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="parts of the CPU run in ONNX Runtime")
    from openrknn.pages.parted.page import parted_page
    from tests.parted_file import parted_bundle

    page = tmp_path / "page.html"
    page.write_text(parted_page(parted_bundle()), "utf-8")
    shown = browser.open(page.as_uri(), width=PHONE[0], height=PHONE[1])
    assert shown.until(f"document.readyState == 'complete' && document.querySelector('main') && {WIDEST}") <= PHONE[0]
    assert shown.ask(OUTSIDE) == 0
    seen = "[...document.querySelectorAll('.one-graph')].filter(one => !one.hidden).map(one => one.id).join()"
    assert shown.ask(seen) == "g0-all"
    shown.ask("(() => { const chosen = document.querySelector('.picker select'); chosen.value = 'g2-all';"
              "chosen.dispatchEvent(new Event('change')); return 1; })()")  # fmt: skip
    assert shown.ask(seen) == "g2-all"


def test_bars_of_the_timeline_have_room(browser: Browser, tmp_path: Path, capsys: Capture) -> None:
    page = tmp_path / "page.html"
    assert run(capsys, "trace", "timeline", ROOT / "examples" / "traces" / "tiny.trace", "-o", page).code == 0
    shown = browser.open(page.as_uri(), width=PHONE[0], height=PHONE[1])
    assert shown.until(f"document.readyState == 'complete' && document.querySelector('main') && {WIDEST}") <= PHONE[0]
    assert shown.ask("document.querySelector('.time').getBoundingClientRect().width") > 0.5 * PHONE[0]


def test_the_verdict_of_the_compiler_uses_the_scale_of_the_chart() -> None:
    assert [_mark({"is_good": True, "snr_db": value}) for value in (22.0, 29.9, 30.0)] == ["fair", "fair", "good"]
    assert _mark({"is_good": False, "snr_db": 35.0}) == "poor"
    assert [grade(value) for value in (19.9, 20.0, 30.0)] == ["poor", "fair", "good"]
