"""The elements `openrknn` and `openrknnoverlay` in real pipelines; skipped where GStreamer is not installed."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from openrknn.gstreamer.build import _ANALYTICS, _has, install, problem
from openrknn.vision.draw import colour
from tests.gstreamer.models import write_classifier, write_detector
from tests.gstreamer.plugin import FAKE, Run, environment, has_elements, run

_WHY = problem() or ("" if shutil.which("gst-inspect-1.0") else "gst-inspect-1.0 is not installed")
pytestmark = pytest.mark.skipif(bool(_WHY), reason=f"the GStreamer plugin cannot be tested: {_WHY}")

_RED = "videotestsrc num-buffers={count} pattern=red ! video/x-raw,format={form},width=64,height=64,framerate=10/1"
_NET = "openrknn name=net model=squares.rknn labels=squares.txt limit=1"


def _source(count: int = 4, form: str = "NV12") -> str:
    return _RED.format(count=count, form=form)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("gstreamer")
    write_detector(place / "squares.rknn")
    write_classifier(place / "colour.rknn")
    if not has_elements(place, "videotestsrc", "videoconvert", "appsrc", "openrknn", "openrknnoverlay"):
        pytest.skip("the basic plugins of GStreamer are not installed (Debian: gstreamer1.0-plugins-base)")
    return place


def _fake(folder: Path, model: str, rest: str = "", count: int = 2) -> Run:
    return run(folder, f'{_source(count)} ! openrknn name=net model={model} engine="{FAKE}" {rest} ! fakesink name=out')


def test_every_frame_has_its_object_and_nothing_is_copied(folder: Path) -> None:
    done = run(folder, f"{_source()} ! {_NET} ! fakesink name=out", "stats@4")
    assert len(done.frames) == 4
    for lines in done.frames:
        assert lines[0].startswith(
            "region 1 parent 0 0 0 12 12 openrknn, kind=(string)object, source=(string)net, fresh="
        )
        assert 'label=(string)"red\\ thing", class=(int)0, score=(double)0.99' in lines[0]
        assert ("analytics object red thing 0 0 12 12 1.000" in lines) == _has(_ANALYTICS)
    # videotestsrc draws into memory that the element has offered.
    assert (done.number("frames"), done.number("runs"), done.number("copies")) == (4, 4, 0)
    assert done.line("eos")


@pytest.mark.parametrize(
    "form", ["I420", "NV21", "YUY2", "UYVY", "RGB", "BGR", "RGBx", "BGRA", "RGBA", "BGRx", "GRAY8"]
)
def test_formats(folder: Path, form: str) -> None:
    done = run(folder, f"{_source(1, form)} ! {_NET} ! openrknnoverlay ! fakesink name=out", "stats@1")
    assert done.number("copies") == 0
    assert bool(done.frames[0]) == (form != "GRAY8")  # no red in gray


def test_dma_bufs_are_passed_on(folder: Path) -> None:
    caps = "video/x-raw(memory:DMABuf),format=NV12,width=64,height=64,framerate=10/1"
    done = run(folder, f'appsrc name=feed format=time caps="{caps}" ! {_NET} ! fakesink name=out', "stats@3")
    assert done.number("copies") == 0
    assert [lines[0].split()[4:8] for lines in done.frames] == [["0", "0", "12", "12"]] * 3
    done = run(folder, f'appsrc name=plain format=time caps="{caps}" ! {_NET} ! fakesink name=out')
    assert "no dma-buf that holds its planes" in done.line("error")


def test_other_memory_is_copied_once(folder: Path) -> None:
    caps = "video/x-raw,format=NV12,width=64,height=64,framerate=10/1"
    done = run(folder, f'appsrc name=plain format=time caps="{caps}" ! {_NET} ! fakesink name=out', "stats@3")
    assert (done.number("copies"), done.number("runs")) == (3, 3)
    assert [lines[0].split()[4:8] for lines in done.frames] == [["0", "0", "12", "12"]] * 3


def test_two_models_in_sequence(folder: Path) -> None:
    second = "openrknn name=second model=colour.rknn labels=colour.txt regions="
    done = run(folder, f"{_source(2)} ! {_NET} ! {second}all ! openrknnoverlay ! fakesink name=out")
    for lines in done.frames:
        assert lines[1].startswith("region 2 parent 1 0 0 12 12 openrknn, kind=(string)class, source=(string)second")
        assert "labels=(string)< red, blue, green >" in lines[1]
    done = run(folder, f'{_source(2)} ! {_NET} ! {second}"green thing, cat" ! fakesink name=out')
    assert [len([line for line in lines if line.startswith("region")]) for lines in done.frames] == [1, 1]


def test_every_third_frame(folder: Path) -> None:
    done = run(folder, f"{_source(7)} ! {_NET} interval=3 ! fakesink name=out", "stats@7")
    assert ["fresh=(boolean)true" in lines[0] for lines in done.frames] == [True, False, False] * 2 + [True]
    assert (done.number("runs"), done.number("skipped")) == (3, 4)
    done = run(folder, f"{_source(7)} ! {_NET} interval=3 repeat=false ! fakesink name=out")
    assert [bool(lines) for lines in done.frames] == [True, False, False] * 2 + [True]


def test_async_frames_do_not_wait(folder: Path) -> None:
    done = run(folder, f"{_source(40)} ! {_NET} async=true ! fakesink name=out", "stats@40")
    assert len(done.frames) == done.number("frames") == 40
    assert all("fresh=(boolean)false" in line for lines in done.frames for line in lines if line.startswith("region"))


def test_details(folder: Path) -> None:
    keypoints = _fake(folder, "pose").frames[0][0]
    assert "keypoints=(double)< 0.5, 0.5, 0.899" in keypoints  # fractions of the region
    turned = _fake(folder, "turned").frames[0][0]
    assert "corners=(double)< 0.5, 0, 1, 0.5, 0.5, 1, 0, 0.5 >" in turned
    assert turned.startswith("region 1 parent 0 8 16 32 32 ")
    masked = _fake(folder, "mask").frames[0]
    assert masked[0].startswith("region 1 parent 0 8 16 32 32 mask 1024 ")
    assert any(line.startswith("analytics mask 8 16 32 32 32x32") for line in masked) == _has(
        "gstreamer-analytics-1.0 >= 1.26"
    )
    areas = _fake(folder, "areas").frames[0][0]
    assert "mask 4096" in areas
    assert "labels=(string)< a, b >" in areas
    assert 'text=(string)"Gr' in _fake(folder, "text").frames[0][0]


def test_notes_are_on_the_bus_once(folder: Path) -> None:
    done = _fake(folder, "nothing", count=5)
    assert done.line("info") == "info it is a fake"
    assert done.line("warning") == "warning that is strange"
    assert len(done.frames) == 5


@pytest.mark.parametrize(
    ("element", "words"),
    [
        ("model=nowhere.rknn", "nowhere.rknn: No such file or directory"),
        ("model=squares.txt", "squares.txt: not a .rknn file"),
        ("", "No model is set"),
        ("model=squares.rknn family=yolo99", "yolo99"),
        ("model=squares.rknn engine=/bin/false", "/bin/false has ended: exit status 1"),
        ("model=squares.rknn engine=/no/such", "/no/such cannot be started: No such file or directory"),
    ],
)
def test_errors_of_opening_are_on_the_bus(folder: Path, element: str, words: str) -> None:
    done = run(folder, f"{_source()} ! openrknn name=net {element} ! fakesink name=out")
    assert words in done.line("error")
    assert "state change failed" in done.text
    assert not done.frames


def test_an_engine_that_is_killed(folder: Path) -> None:
    done = run(folder, f"{_source(100000)} ! {_NET} ! fakesink name=out", "kill@3")
    assert "has ended: signal 9 (Killed)" in done.line("error")
    done = run(folder, f"{_source(100000)} ! {_NET} async=true ! fakesink name=out", "kill@3")
    assert "has ended: signal 9 (Killed)" in done.line("error")


def test_an_engine_that_ends_or_refuses(folder: Path) -> None:
    done = _fake(folder, "dies")
    assert "has ended: exit status 7\nno more\n" in done.text
    assert "the frame is not to the liking of moody" in _fake(folder, "moody").line("error")


def test_seek_stop_and_eos(folder: Path) -> None:
    done = run(folder, f"{_source(30)} ! {_NET} ! fakesink name=out", "seek@4", "stop@9", "stats@20")
    assert done.line("eos")
    assert all(lines for lines in done.frames)
    assert done.number("frames") < 20  # counted anew
    done = run(folder, f"{_source(100000)} ! {_NET} async=true ! fakesink name=out", "seek@4", "eos@9")
    assert done.line("eos")


def test_the_size_may_change(folder: Path) -> None:
    # concat plays one source after the other.
    other = _source(2).replace("width=64,height=64", "width=128,height=96")
    done = run(folder, f"concat name=c ! {_NET} ! fakesink name=out  {_source(2)} ! c.  {other} ! c.")
    assert [lines[0].split()[4:8] for lines in done.frames] == [["0", "0", "12", "12"]] * 2 + [
        ["0", "0", "24", "24"]
    ] * 2


def test_metadata_of_a_shared_buffer(folder: Path) -> None:
    """Both branches of a tee have the same buffer: only the one with the element may see its results."""
    text = f"{_source(3)} ! tee name=t  t. ! queue ! {_NET} ! fakesink  t. ! queue ! fakesink name=out"
    done = run(folder, text)
    assert done.frames == [[], [], []]


@pytest.mark.parametrize("form", ["RGB", "BGRx", "I420", "NV12", "YUY2"])
def test_the_overlay_draws_boxes(folder: Path, form: str) -> None:
    raw = folder / f"{form}.raw"
    source = _source(1, form).replace("pattern=red", "pattern=black")
    text = (
        f'{source} ! openrknn name=net model=box engine="{FAKE}" ! openrknnoverlay labels=false line-width=2 '
        f"! filesink name=out location={raw}"
    )
    run(folder, text)
    data = np.frombuffer(raw.read_bytes(), np.uint8)
    step = {"RGB": 3, "BGRx": 4, "YUY2": 2}.get(form, 1)
    image = data[: 64 * 64 * step].reshape(64, 64, step)[:, :, 0]  # red, blue or luma
    red, green, blue = colour(3)
    luma = 16 + (0.299 * red + 0.587 * green + 0.114 * blue) * 219 / 255
    expected = np.full((64, 64), 0 if step > 2 else 16)
    expected[16:48, 8:40] = {"RGB": red, "BGRx": blue}.get(form, round(luma))
    expected[18:46, 10:38] = 0 if step > 2 else 16
    assert np.array_equal(image, expected)
    if form in ("I420", "NV12"):
        chroma = data[64 * 64 :].reshape(-1, 64)
        assert (chroma != 128).sum() == 2 * (16 * 16 - 14 * 14)


def test_the_overlay_draws_masks_areas_points_and_text(folder: Path) -> None:
    for model in ("mask", "areas", "pose", "turned", "text"):
        raw = folder / f"{model}.raw"
        source = _source(1, "RGB").replace("pattern=red", "pattern=black")
        labels = model == "text"
        run(
            folder,
            f'{source} ! openrknn name=net model={model} engine="{FAKE}" ! openrknnoverlay labels={labels} '
            f"! filesink name=out location={raw}",
        )
        image = np.frombuffer(raw.read_bytes(), np.uint8).reshape(64, 64, 3)
        assert image.any(), model
        if model == "mask":
            assert np.abs(image[30, 30].astype(int) - np.array(colour(3)) * 0.45).max() < 3
            assert not image[40, 30].any()
        if model == "areas":
            assert np.abs(image[60, 60].astype(int) - np.array(colour(1)) * 0.45).max() < 3


def test_gst_inspect_and_the_page_agree(folder: Path) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/gstreamer.md").read_text("utf-8")
    for element in ("openrknn", "openrknnoverlay"):
        done = subprocess.run(
            ["gst-inspect-1.0", element], env=environment(folder), capture_output=True, text=True, check=True
        )
        properties = done.stdout[done.stdout.index("Element Properties") :]
        found = set(re.findall(r"^  ([a-z][a-z-]*)\s+: ", properties, re.MULTILINE)) - {"name", "parent"}
        section = page[page.index(f"## `{element}`") :].partition("\n## ")[0]
        assert found == set(re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE))


def test_installing(tmp_path: Path) -> None:
    path = install(tmp_path / "plugins")
    assert path.name == "libgstopenrknn.so"
    assert install(tmp_path / "plugins") == path  # over the old one
    assert [one.name for one in path.parent.iterdir()] == [path.name]
