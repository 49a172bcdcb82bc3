"""The web page in a real browser: Chromium of the system, without a display and without a network."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from openrknn.serve.page.report import report
from openrknn.serve.rest.tickets import is_right_ticket, make_ticket
from openrknn.serve.server import Server, running
from openrknn.serve.settings import Settings
from tests.serve.asking import PATIENCE, ask
from tests.serve.parts import FILES, ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here (Debian: apt install chromium)")
PATIENCE_MS = 1000 * PATIENCE


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as player:
        started = player.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


class Watched:
    """A tab that must not complain, and must not ask anybody but our server."""

    def __init__(self, browser: Browser, url: str, **options: Any) -> None:
        self.problems: list[str] = []
        self.context = browser.new_context(**options)
        self.context.set_default_timeout(PATIENCE_MS)
        self.page = self.context.new_page()
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("console", self._console)
        self.page.on("request", lambda request: self._asked(request.url, url))

    def _console(self, message: Any) -> None:
        if message.type == "error" and "401" not in message.text:  # the question that brings the login
            self.problems.append(message.text)

    def _asked(self, asked: str, url: str) -> None:
        if not asked.startswith((url, "blob:", "data:")):
            self.problems.append(f"asked {asked}")

    def close(self) -> None:
        assert not self.page.evaluate("document.documentElement.scrollWidth > innerWidth"), "it is too wide"
        self.context.close()
        assert self.problems == []


@needs_chromium
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (375, "dark")], ids=["desk", "phone"])
def test_the_page_shows_everything(server: Server, browser: Browser, width: int, scheme: str) -> None:
    tab = Watched(browser, server.url, viewport={"width": width, "height": 800}, color_scheme=scheme)
    page = tab.page
    page.goto(server.url)
    page.wait_for_selector('[data-model="scene"] >> text=p95')
    assert page.inner_text("#state") == "ready"
    assert page.locator(".core .chart").count() == 3
    page.click('[data-model="scene"] >> text=Try it')
    page.set_input_files("#file", str(ROOT / "examples/images/cat.jpg"))
    page.wait_for_selector("#found li")
    assert "cat" in page.inner_text("#found li >> nth=0")
    assert "NPU" in page.inner_text(".legend")
    assert page.evaluate("document.querySelector('canvas').width") == 451
    page.goto(f"{server.url}#/model/scene/1")
    page.frame_locator("iframe").locator("text=openrknn inspect").first.wait_for()
    page.goto(f"{server.url}#/doctor")
    page.wait_for_selector(".finding")
    tab.close()


@needs_chromium
def test_the_page_asks_for_the_token(browser: Browser) -> None:
    settings = Settings([FILES["picture"]], http_port=0, grpc_port=None, token="sesame", describe=report)
    with running(settings) as server:
        tab = Watched(browser, server.url)
        page = tab.page
        page.goto(server.url)
        page.wait_for_selector("#login[open]")
        page.fill("#token", "sesame")
        page.click("#login button")
        page.click("text=Look inside")
        page.frame_locator("iframe").locator("text=openrknn inspect").first.wait_for()
        tab.close()


def test_a_ticket_opens_reports_and_nothing_else() -> None:
    settings = Settings([FILES["picture"]], http_port=0, grpc_port=None, token="sesame", describe=report)
    with running(settings) as server:
        path = "/v2/models/image_rk3588_i8/inspect"
        ticket = make_ticket("sesame")
        assert ask(server, "GET", f"{path}?ticket={ticket}").status == 200
        assert ask(server, "GET", path).status == 401
        assert ask(server, "GET", f"{path}?ticket={make_ticket('other')}").status == 401
        assert ask(server, "GET", f"/v2/models/image_rk3588_i8?ticket={ticket}").status == 401
    assert not is_right_ticket(f"ticket={make_ticket('sesame', now=0)}".encode(), "sesame")
    for bad in (b"", b"ticket=", b"ticket=9.", b"ticket=x.y", b"ticket=%ff.%ff"):
        assert not is_right_ticket(bad, "sesame")


def test_the_page_keeps_others_out(server: Server) -> None:
    answer = ask(server, "GET", "/")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["x-frame-options"] == "SAMEORIGIN"
    assert b"http" not in answer.body.replace(b"https://", b"http://").split(b"<body>")[1].split(b"<noscript>")[0]
    for file in ("app.js", "style.css", "draw.js", "try.js", "ask.js", "icon.svg"):
        assert ask(server, "GET", f"/page/{file}").status == 200
