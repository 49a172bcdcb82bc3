"""The report of a quantisation, and its page."""

from __future__ import annotations

import json

import pytest

from openrknn.llm.quantise.model import quantise_language
from openrknn.llm.quantise.report import Report, make_report
from openrknn.pages.language import render

from .sources import MemorySource
from .test_model import OTHER, TEXTS


@pytest.fixture(scope="module")
def report() -> Report:
    source = MemorySource(logit_scale=0.02)
    quantised = quantise_language(source, TEXTS, precision="w4a16", group=32, prefix=1)
    return make_report(quantised, OTHER, layers=True)


def test_parts_cost_less_than_the_whole(report: Report) -> None:
    assert set(report.kinds) == {"q", "k", "v", "o", "gate", "up", "down", "head"}
    assert set(report.layers) == {0, 1}
    assert max(one.kl for one in report.kinds.values()) < report.whole.kl
    assert max(one.kl for one in report.layers.values()) < 1.5 * report.whole.kl
    assert report.weight_bytes < report.float_bytes / 3


def test_it_is_json(report: Report) -> None:
    found = json.loads(json.dumps(report.to_json()))
    assert found["whole"]["tokens"] == 80
    assert found["products"][0]["name"] == "layers.0.q"
    assert found["layers"][1]["layer"] == 1


def test_the_page_says_it_all(report: Report) -> None:
    page = render(report, "tiny <b>")
    assert f"{report.whole.kl:.4f}" in page
    assert "tiny &lt;b&gt;" in page
    worst = max(report.layers, key=lambda layer: report.layers[layer].kl)  # nearly the same: processors differ
    for text in ("layers.1.down", f"Largest KL: layer {worst} with", "to the nearest", "Kinds of products"):
        assert text in page


def test_details_can_be_left_out() -> None:
    quantised = quantise_language(MemorySource(), TEXTS)
    report = make_report(quantised, OTHER[:1], kinds=False)
    assert not report.kinds
    assert "Kinds of products" not in render(report, "tiny")
