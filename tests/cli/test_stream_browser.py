"""The page of `openrknn stream` in a real browser."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.browser import Browser, Page
from tests.cli.streaming import Streaming
from tests.container.places import golden

Image = pytest.importorskip("PIL.Image", reason="the extra 'images' (Pillow) is not installed")
SMALL = golden("image_rk3588_i8")  # 16x16 pixels, 16 classes per pixel
PHONE, DESK = (390, 844), (1280, 800)
WIDEST = "Math.max(document.documentElement.scrollWidth, document.body.scrollWidth)"
PAPER = "getComputedStyle(document.body).backgroundColor"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("browser")) as started:
        yield started


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    chance = np.random.default_rng(0)
    for number in range(3):
        picture = np.repeat(np.repeat(chance.integers(0, 256, (8, 12, 3), np.uint8), 40, axis=0), 40, axis=1)
        Image.fromarray(picture).save(folder / f"{number}.png")
    (folder / "broken.png").write_bytes(b"no picture")
    return folder


def text(page: Page, name: str) -> str:
    return str(page.ask(f"document.getElementById({name!r}).textContent"))


def test_the_page_shows_pictures_latency_and_load(browser: Browser, photos: Path) -> None:
    with Streaming(SMALL, photos, "--repeat", "--fps", "20", "--port", "0") as stream:
        page = browser.open(stream.address, width=DESK[0], height=DESK[1])
        page.until("after > 8")
        assert page.until("document.getElementById('picture').naturalWidth") == 480
        assert page.ask("document.getElementById('picture').naturalHeight") == 320
        assert text(page, "status") == "live"
        assert text(page, "device") == "software:rk3588"
        assert text(page, "model") == SMALL.name
        assert text(page, "latency").endswith(" ms")
        assert "% busy" in text(page, "npu")
        assert "cores" in text(page, "cpu")
        assert float(text(page, "speed")) > 0
        assert text(page, "found").endswith("areas")
        assert page.ask("document.querySelectorAll('#rows tr').length") >= 3
        assert page.ask("document.getElementById('curve').getAttribute('points').split(' ').length") >= 3
        assert page.complaints() == []


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_fits_phones_and_dark_rooms(browser: Browser, photos: Path, size: tuple[int, int], dark: bool) -> None:
    with Streaming(SMALL, photos / "0.png", "--port", "0") as stream:
        page = browser.open(stream.address, width=size[0], height=size[1], dark=dark)
        page.until("document.getElementById('picture').naturalWidth")
        assert page.ask(WIDEST) <= size[0]
        assert page.ask(PAPER) == ("rgb(16, 18, 21)" if dark else "rgb(255, 255, 255)")
        assert page.ask("document.getElementById('picture').getBoundingClientRect().width") > 0.5 * size[0]


def test_a_source_that_ends_and_a_program_that_ends(browser: Browser, photos: Path) -> None:
    with Streaming(SMALL, photos / "0.png", "--port", "0") as stream:
        page = browser.open(stream.address)
        page.until("document.title.startsWith('ended')")
        assert page.ask("document.getElementById('picture').naturalWidth") == 480  # the last picture stays
    with Streaming(SMALL, photos, "--repeat", "--fps", "20", "--port", "0") as stream:
        page = browser.open(stream.address)
        page.until("document.title.startsWith('live')")
        stream.end()
        page.until("document.title.startsWith('ended') || document.title.startsWith('lost')")


def test_the_motion_jpeg_moves(browser: Browser, photos: Path) -> None:
    with Streaming(SMALL, photos, "--repeat", "--fps", "20", "--port", "0") as stream:
        page = browser.open(f"{stream.address}stream.mjpg")
        page.until("document.images.length && document.images[0].naturalWidth === 480")
