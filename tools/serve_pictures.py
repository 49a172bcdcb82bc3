"""Takes the pictures of docs/serve.md: the server's page in Chromium (Debian: apt install chromium).

.venv/bin/python tools/serve_pictures.py            writes docs/images/serve-*.png
"""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
import threading
import urllib.request
from pathlib import Path
from typing import Any, Literal

from PIL import Image
from playwright.sync_api import sync_playwright

from openrknn.serve import Settings, running
from openrknn.serve.page.report import report

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
PATIENCE_MS = 120_000
WATCHED_SECONDS = 25


def repository(folder: Path) -> Path:
    """Models of the repository under short names."""
    for name, file in (("scene", "efficientnet_lite0_rk3588_i8"), ("text", "ppocrv4_det_rk3588_i8"),
                       ("tones", "tones_rk3588_fp")):  # fmt: skip
        (folder / name).mkdir()
        shutil.copy(EXAMPLES / "models" / f"{file}.rknn", folder / name / "model.rknn")
    shutil.copy(EXAMPLES / "models/imagenet_labels.txt", folder / "scene/labels.txt")
    return folder


def keep_busy(url: str, stop: threading.Event) -> None:
    """Something to see."""
    turn = 0
    while not stop.wait(0.02 if turn % 60 < 40 else 0.2):
        turn += 1
        name, picture = (("scene", "cat"), ("scene", "coffee"), ("text", "page"))[turn % 9 % 8 // 3]
        body = (EXAMPLES / "images" / f"{picture}.jpg").read_bytes()
        with urllib.request.urlopen(urllib.request.Request(f"{url}/v2/models/{name}/image", body)) as answer:
            answer.read()


def save(page: Any, name: str) -> None:
    """Few colours: a third of the bytes."""
    image = Image.open(io.BytesIO(page.screenshot()))
    path = ROOT / "docs/images" / f"serve-{name}.png"
    image.convert("RGB").quantize(128, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"wrote {path.relative_to(ROOT)}, {path.stat().st_size // 1024} KiB")


def main() -> int:
    """Start, use, photograph."""
    chromium = shutil.which("chromium") or sys.exit("there is no chromium; apt install chromium")
    stop = threading.Event()
    with (
        tempfile.TemporaryDirectory() as folder,
        running(Settings([repository(Path(folder))], http_port=0, grpc_port=0, describe=report)) as server,
        sync_playwright() as player,
    ):
        busy = threading.Thread(target=keep_busy, args=(server.url, stop))
        busy.start()
        browser = player.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        views: list[tuple[str, Literal["light", "dark"], int, int]]
        views = [("overview", "light", 1120, 700), ("phone", "dark", 390, 800)]
        for name, scheme, width, height in views:
            page = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": height})
            page.set_default_timeout(PATIENCE_MS)
            page.goto(server.url)
            page.wait_for_timeout(1000 * WATCHED_SECONDS)
            save(page, name)
        stop.set()
        busy.join()
        page = browser.new_page(color_scheme="light", viewport={"width": 1120, "height": 640})
        page.set_default_timeout(PATIENCE_MS)
        page.goto(f"{server.url}#/try/text")
        page.set_input_files("#file", EXAMPLES / "images/page.jpg")
        page.wait_for_selector("#found")
        save(page, "try")
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
