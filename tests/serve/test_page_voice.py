"""The microphone button in a real browser, with a recording instead of a microphone."""

from __future__ import annotations

import re
from pathlib import Path

from openrknn.serve.server import running
from openrknn.serve.settings import Settings
from tests.serve.sessions import until
from tests.serve.test_page import CHROMIUM, Watched, needs_chromium
from tests.serve.voices import make_sets, open_fake, wav


@needs_chromium
def test_talking_to_the_page_and_being_answered(tmp_path: Path) -> None:
    from playwright.sync_api import sync_playwright

    recording = tmp_path / "said.wav"
    recording.write_bytes(wav(*[5] * 30, rate=48000))
    flags = [
        "--no-sandbox", "--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream",
        f"--use-file-for-fake-audio-capture={recording}", "--autoplay-policy=no-user-gesture-required",
    ]  # fmt: skip
    voices = [*make_sets(tmp_path), *make_sets(tmp_path, "polyglot")]
    settings = Settings([], voices=voices, http_port=0, grpc_port=None, token="sesame", workers="in-process")
    with running(settings, open_voice=open_fake) as server, sync_playwright() as player:
        browser = player.chromium.launch(executable_path=CHROMIUM, args=flags)
        tab = Watched(browser, server.url, permissions=["microphone"])
        page = tab.page
        page.goto(f"{server.url}#/voice")
        page.fill("#token", "sesame")
        page.click("#login button")
        page.click("#mic")
        # The browser's own filters make the steady sound of this recording quieter: which word it is says nothing.
        page.locator("#said").filter(has_text=re.compile(r"\w{3}")).wait_for()
        assert page.get_attribute("#mic", "aria-pressed") == "true"
        page.click("#mic")
        page.wait_for_selector("#mic[aria-pressed=false]")
        assert "s heard" in page.inner_text("#heard")
        # A recording is exact.
        (tmp_path / "exact.wav").write_bytes(wav(1, 2, 3))
        (tmp_path / "other.wav").write_bytes(wav(4, 5))
        page.set_input_files("#recording", str(tmp_path / "exact.wav"))
        page.wait_for_selector("#said >> text=one two three")
        assert not page.is_visible("#language"), "one language leaves nothing to choose"
        page.select_option("#listener", "polyglot")
        page.select_option("#language", "en")
        page.set_input_files("#recording", str(tmp_path / "other.wav"))
        page.wait_for_selector("#said >> text=four five")
        page.select_option("#task", "translate")
        page.set_input_files("#recording", str(tmp_path / "exact.wav"))
        page.wait_for_selector("#said >> text=one in English")
        page.fill("#text", "Hello there")
        page.select_option("#speaker", label="mouth: loud")
        page.click("#speak")
        page.wait_for_selector("#spoken >> text=1.1 s of speech")
        until(lambda: abs((page.evaluate("document.querySelector('#player').duration") or 0) - 1.1) < 0.01)
        page.fill("#text", " ")
        page.click("#speak")
        page.wait_for_selector("#spoken.error >> text=no text")
        page.goto(f"{server.url}#/")
        page.wait_for_selector('[data-voice="mouth"] >> text=text to speech')
        tab.problems = [one for one in tab.problems if "400" not in one]  # the question that was refused
        tab.close()
        browser.close()
