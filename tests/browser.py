"""A real browser for tests: Chromium without a window, driven through its debugging pipe.

    with Browser(tmp_path) as browser:
        page = browser.open("http://127.0.0.1:8000/", width=390, dark=True)
        page.until("document.title === 'ready'")
        page.screenshot(tmp_path / "page.png")
        assert page.complaints() == []

The pipe (file descriptors 3 and 4, JSON with a zero byte behind each message) needs no port and no library.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SECONDS = 90.0
"""For anything to happen, on a machine that is busy with other tests."""
FLAGS = (
    "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
    "--no-first-run", "--hide-scrollbars", "--disable-extensions", "--disable-background-networking",
    "--disable-component-update", "--no-proxy-server", "--mute-audio",
)  # fmt: skip


class Browser:
    """One Chromium process; skips the test where there is none."""

    def __init__(self, folder: Path) -> None:
        if PROGRAM is None:
            pytest.skip("no browser; Debian: apt install chromium")
        self._events: list[dict[str, Any]] = []
        self._number = 0
        self._rest = b""
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        # The browser expects its ends as 3 and 4; a shell moves them there, whatever numbers they have here.
        words = [PROGRAM, *FLAGS, f"--user-data-dir={folder / 'chromium-profile'}", "about:blank"]
        script = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
        self._process = subprocess.Popen(
            ["/bin/bash", "-c", script, "bash", *words], pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(theirs_in)
        os.close(theirs_out)

    def open(self, address: str, *, width: int = 1280, height: int = 800, dark: bool = False) -> Page:
        """A new tab of this size."""
        target = self.command("Target.createTarget", url="about:blank")["targetId"]
        session = self.command("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.command(f"{domain}.enable")
        page.resize(width, height, dark=dark)
        page.command("Page.navigate", url=address)
        return page

    def command(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Ask, and wait for the answer; events that come in between are kept."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") != self._number:
                self._events.append(answer)
            elif "error" in answer:
                raise AssertionError(f"{method}: {answer['error']}")
            else:
                result: dict[str, Any] = answer["result"]
                return result

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            data = os.read(self._in, 1 << 20)
            if not data:
                raise AssertionError("the browser ended")
            self._rest += data
        text, self._rest = self._rest.split(b"\0", 1)
        message: dict[str, Any] = json.loads(text)
        return message

    def events(self, session: str, method: str) -> list[dict[str, Any]]:
        """Parameters of the events of one kind so far."""
        return [
            event["params"]
            for event in self._events
            if event.get("method") == method and event.get("sessionId") == session
        ]

    def close(self) -> None:
        """End the browser and everything that it started."""
        os.close(self._out)  # it ends when its pipe does
        os.close(self._in)
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Page:
    """One tab."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser, self._session = browser, session

    def command(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._browser.command(method, self._session, **parameters)

    def resize(self, width: int, height: int, *, dark: bool) -> None:
        """The size of a window, and what the user prefers."""
        is_phone = width < 500
        self.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=is_phone
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.command("Emulation.setEmulatedMedia", features=[scheme])

    def ask(self, expression: str) -> Any:
        """The value of a JavaScript expression."""
        answer = self.command("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, expression: str) -> Any:
        """Wait until an expression is true; its value. While the page is not there yet, it may raise."""
        patient = f"(() => {{ try {{ return {expression} }} catch {{ return false }} }})()"
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            value = self.ask(patient)
            if value:
                return value
            time.sleep(0.05)
        raise AssertionError(f"it never became true: {expression}\n{self.ask('document.body.innerText')}")

    def screenshot(self, path: Path) -> None:
        """What the window shows, as a PNG."""
        data = self.command("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(data))

    def complaints(self) -> list[str]:
        """Exceptions, errors in the console, and addresses outside that were asked for."""
        self.ask("0")  # everything before has arrived
        found = [str(event) for event in self._browser.events(self._session, "Runtime.exceptionThrown")]
        found += [
            entry["text"]
            for event in self._browser.events(self._session, "Log.entryAdded")
            if (entry := event["entry"])["level"] == "error"
        ]
        found += [
            url
            for event in self._browser.events(self._session, "Network.requestWillBeSent")
            if not (url := event["request"]["url"]).startswith(("http://127.0.0.1:", "data:", "blob:", "about:"))
            and not (event.get("type") == "Document" and url.startswith("file:"))  # the page itself
        ]
        return found
