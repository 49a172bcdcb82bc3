"""All reports: a verdict first, sound HTML, no Markdown in it, no dead link, no horizontal scrolling on a phone.

Witnesses: Python's HTML parser, and Chromium.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.browser import Browser
from tests.pages.every_page import PAGES, WITHOUT_VERDICT

pytest.importorskip("PIL", reason="the extra 'images' (Pillow) is not installed")
pytest.importorskip("onnx", reason="the extra 'onnx' (package onnx) is not installed")
pytest.importorskip("onnxruntime", reason="the extra 'compile' (package onnxruntime) is not installed")
PHONE = (390, 844)
LOADED = "document.readyState == 'complete' && document.querySelector('main') && "
WIDEST = "Math.max(document.documentElement.scrollWidth, document.body.scrollWidth)"
MARKDOWN = re.compile(r"\*\*\w|`\w|\]\(\w|^#+ |\|---", re.MULTILINE)
VOID = frozenset({"br", "hr", "img", "input", "link", "meta", "wbr"})


class Reader(HTMLParser):
    """Text, links and places of a page; elements that do not close are an error."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.links: list[str] = []
        self.places: list[str] = []
        self.unnamed: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self._noted(tag, values)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._noted(tag, dict(attrs))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, self.open[-4:]

    def handle_data(self, data: str) -> None:
        if not {"script", "style", "pre", "code"} & set(self.open):
            self.texts.append(data)

    def _noted(self, tag: str, values: dict[str, str | None]) -> None:
        if target := values.get("href"):
            self.links.append(target)
        if place := values.get("id"):
            self.places.append(place)
        if tag == "img" and not values.get("alt"):
            self.unnamed.append(tag)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    for name, make in PAGES.items():
        make(folder / f"{name}.html")
    return {name: folder / f"{name}.html" for name in PAGES}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Browser:
    return Browser(tmp_path_factory.mktemp("browser"))


@pytest.mark.parametrize("name", PAGES)
def test_the_markup(made: dict[str, Path], name: str) -> None:
    text = made[name].read_text(encoding="utf-8")
    reader = Reader()
    reader.feed(text)
    assert reader.open == []
    assert [line for part in reader.texts for line in MARKDOWN.findall(part)] == []
    assert len(reader.places) == len(set(reader.places)), "an id twice"
    assert [link for link in reader.links if link.startswith("#") and link[1:] not in reader.places] == []
    assert [link for link in reader.links if not link.startswith(("#", "https://openrknn.github.io/"))] == []
    assert reader.unnamed == []
    assert '<html lang="en">' in text
    assert text.count("<h1") == 1
    if name not in WITHOUT_VERDICT:
        verdict, heading = text.index('class="verdict '), text.index("<h2")
        assert verdict < heading
        assert text[verdict:heading].count("<dt>") >= 1


def test_no_page_scrolls_sideways_on_a_phone(browser: Browser, made: dict[str, Path]) -> None:
    with browser:
        for name, page in made.items():
            for width, dark in ((PHONE[0], True), (1280, False)):
                shown = browser.open(page.as_uri(), width=width, height=PHONE[1], dark=dark)
                assert shown.until(LOADED + WIDEST) <= width, name
                assert shown.ask("[...document.querySelectorAll('details')].map(one => one.open = true).length") >= 0
                assert shown.ask(WIDEST) <= width, f"{name}, everything open"
                assert shown.complaints() == [], name
