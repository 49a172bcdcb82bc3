"""The chat page in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from openrknn.serve.server import running
from openrknn.serve.settings import IN_PROCESS, Settings
from tests.serve.languages import open_fake_language
from tests.serve.sessions import until
from tests.serve.test_page import CHROMIUM, Watched, needs_chromium

if TYPE_CHECKING:
    from playwright.sync_api import Page


@needs_chromium
def test_chatting_with_the_page(tmp_path: Path) -> None:
    from playwright.sync_api import sync_playwright

    file = tmp_path / "tiny.gguf"
    file.write_bytes(b"x")
    settings = Settings([], llms=[str(file)], http_port=0, grpc_port=None, workers=IN_PROCESS, token="sesame")
    with running(settings, open_language=open_fake_language) as server, sync_playwright() as player:
        browser = player.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        tab = Watched(browser, server.url)
        page = tab.page
        page.goto(f"{server.url}#/chat")
        page.fill("#token", "sesame")
        page.click("#login button")
        page.fill("#prompt", "SAY:<b>Paris</b>, of course.|")
        page.press("#prompt", "Enter")
        # Text is text: what a model writes is never markup.
        page.wait_for_selector(".bubble.assistant >> text=<b>Paris</b>, of course.")
        page.wait_for_selector("#numbers >> text=tokens/s")
        assert "not the NPU" in page.inner_text("#notice")
        page.wait_for_selector("#send >> text=Send")  # until then the same button stops the answer
        page.fill("#prompt", "slow!")
        page.click("#send")
        language = server.plane.languages.find("tiny")
        until(lambda: language.active == 1)
        page.click("#send >> text=Stop")
        page.wait_for_selector("#send >> text=Send")
        until(lambda: language.active == 0)
        page.wait_for_selector("#numbers >> text=Stopped.")
        page.fill("#prompt", "slow!")
        page.press("#prompt", "Enter")
        until(lambda: language.active == 1)
        page.press("#prompt", "Escape")
        page.wait_for_selector("#send >> text=Send")
        until(lambda: language.active == 0)
        _check_markdown(page)
        page.wait_for_selector("#send >> text=Send")
        page.fill("#prompt", "x" * 600)
        page.click("#send")
        page.wait_for_selector("#numbers.error >> text=the context holds 512")
        assert page.input_value("#prompt") == "x" * 600
        page.click("#clear")
        assert page.locator(".bubble").count() == 0
        page.goto(f"{server.url}#/")
        page.wait_for_selector('[data-language="tiny"] >> text=ready')
        tab.problems = [one for one in tab.problems if "400" not in one]  # the question that was refused
        tab.close()
        browser.close()


def _check_markdown(page: Page) -> None:
    """It becomes elements; markup and addresses that are no web pages stay text."""
    said = "**bold** `a*b*c` [x](javascript:y) [z](http://z/) <i>\n1. one\n2. two\n\n```py\n**no**\n```"
    page.fill("#prompt", f"SAY:{said}|")
    page.press("#prompt", "Enter")
    last = page.locator(".bubble.assistant").last
    last.locator("pre code", has_text="**no**").wait_for()
    assert last.locator("strong").all_inner_texts() == ["bold"]
    assert last.locator("p code").all_inner_texts() == ["a*b*c"]
    assert last.locator("li").all_inner_texts() == ["one", "two"]
    assert [one.get_attribute("href") for one in last.locator("a").all()] == ["http://z/"]
    assert last.locator("i").count() == 0
    assert "[x](javascript:y)" in last.inner_text()
