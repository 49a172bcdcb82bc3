"""Reading, scaling and drawing pictures; sources; reading ahead."""

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from openrknn.vision import sources
from openrknn.vision.draw import annotated, colour
from openrknn.vision.errors import SourceError
from openrknn.vision.frames import FrameImage
from openrknn.vision.geometry import place
from openrknn.vision.heads import Frame
from openrknn.vision.pictures import as_pixels, cut_out, fitted, read_picture, to_image
from openrknn.vision.prefetch import prefetch
from openrknn.vision.results import Areas, Found, Objects, Ranking, Reading
from tests.vision.tensors import Array

Image = pytest.importorskip("PIL.Image", reason="the extra 'images' (Pillow) is not installed")
PATTERN = np.random.default_rng(0).integers(0, 256, (20, 30, 3), np.uint8)


def test_pictures_are_read_upright_and_in_colour(tmp_path: Path) -> None:
    Image.fromarray(PATTERN).save(tmp_path / "a.png")
    assert (read_picture(tmp_path / "a.png") == PATTERN).all()
    exif = Image.Exif()
    exif[0x0112] = 3  # held upside down
    Image.fromarray(PATTERN).save(tmp_path / "b.png", exif=exif)
    assert (read_picture(tmp_path / "b.png") == PATTERN[::-1, ::-1]).all()
    Image.fromarray(PATTERN[:, :, 0]).save(tmp_path / "c.png")
    assert (read_picture(tmp_path / "c.png") == PATTERN[:, :, :1]).all()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a picture in a known format"),
        (b"hello", "not a picture in a known format"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "(?i)damaged|truncated|knows"),
    ],
)
def test_what_is_no_picture_is_named(data: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "x.png").write_bytes(data)
    with pytest.raises(SourceError, match=message) as caught:
        read_picture(tmp_path / "x.png")
    assert "x.png" in str(caught.value)


def test_half_a_picture_is_a_problem(tmp_path: Path) -> None:
    Image.fromarray(np.repeat(np.repeat(PATTERN, 9, 0), 9, 1)).save(tmp_path / "x.jpg")
    whole = (tmp_path / "x.jpg").read_bytes()
    (tmp_path / "x.jpg").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(SourceError, match=r"x\.jpg"):
        read_picture(tmp_path / "x.jpg")
    with pytest.raises(SourceError, match="no such file"):
        read_picture(tmp_path / "missing.jpg")


def test_arrays_and_images_are_pictures_too() -> None:
    assert (as_pixels(PATTERN) == PATTERN).all()
    assert (as_pixels(PATTERN[None]) == PATTERN).all()
    assert (as_pixels(to_image(PATTERN)) == PATTERN).all()
    assert as_pixels(PATTERN[:, :, 0]).shape == PATTERN.shape
    assert as_pixels(np.zeros((4, 5, 4), np.uint8)).shape == (4, 5, 3)
    with pytest.raises(ValueError, match="not a picture"):
        as_pixels(np.zeros((4, 5, 7), np.uint8))
    with pytest.raises(TypeError, match="float64"):
        as_pixels(np.zeros((4, 5, 3)))


def test_a_letterbox_has_gray_bars_and_the_picture_in_the_middle() -> None:
    """30x20 into 30x30: five rows of gray above and below, the pixels untouched."""
    sheet = fitted(PATTERN, place(30, 20, Frame(30, 30), "letterbox"))[0]
    assert (sheet[:5] == 114).all()
    assert (sheet[25:] == 114).all()
    assert (sheet[5:25] == PATTERN).all()


def test_colours_and_channels() -> None:
    placement = place(30, 20, Frame(30, 20), "stretch")
    assert (fitted(PATTERN, placement, order="bgr")[0] == PATTERN[:, :, ::-1]).all()
    assert (fitted(PATTERN, placement, channels=4)[0, :, :, 3] == 255).all()
    gray = fitted(PATTERN, placement, channels=1)[0, :, :, 0].astype(float)
    assert np.abs(gray - np.asarray(to_image(PATTERN).convert("L"), float)).max() <= 1
    with pytest.raises(ValueError, match="not 2"):
        fitted(PATTERN, placement, channels=2)


def test_a_smaller_picture_is_a_mean() -> None:
    """A board of 0 and 200 becomes 100 everywhere, but at its edges: nothing is left out."""
    board = (np.indices((64, 64)).sum(axis=0) % 2 * 200).astype(np.uint8)
    small = fitted(as_pixels(board), place(64, 64, Frame(8, 8), "stretch"))[0]
    assert np.abs(small[1:-1, 1:-1].astype(int) - 100).max() <= 2


def test_text_is_cut_out_upright() -> None:
    """A dark bar on a slant becomes dark everywhere."""
    y, x = np.mgrid[:100, :100] + 0.5
    turn = 0.4
    u = (x - 50) * np.cos(turn) + (y - 50) * np.sin(turn)
    v = (y - 50) * np.cos(turn) - (x - 50) * np.sin(turn)
    picture = np.where((np.abs(u) < 30) & (np.abs(v) < 8), 10, 240).astype(np.uint8)
    along, across = np.array([np.cos(turn), np.sin(turn)]) * 28, np.array([-np.sin(turn), np.cos(turn)]) * 6
    corners = np.array([-along - across, along - across, along + across, -along + across]) + 50
    part = cut_out(as_pixels(picture), corners)
    assert part.shape == (12, 56, 3)
    assert part.max() < 60


def count_colour(image: object, wanted: tuple[int, int, int]) -> int:
    return int((np.asarray(image) == wanted).all(axis=2).sum())


@pytest.mark.parametrize("has_masks", [False, True])
def test_boxes_are_drawn_where_they_are(has_masks: bool) -> None:
    gray = np.full((500, 600, 3), 90, np.uint8)
    masks = np.zeros((1, 500, 600), np.bool_)
    masks[0, 200:300, 200:300] = True
    found = Objects(
        np.array([[100, 150, 400, 450]], np.float32),
        np.array([0.9], np.float32),
        np.array([3]),
        keypoints=np.array([[[250, 300, 1.0]] * 17], np.float32),
        masks=masks if has_masks else None,
    )
    image = np.asarray(annotated(gray, found, ("a", "b", "c", "d")))
    assert image.shape == gray.shape
    assert (image[300, 100] == colour(3)).all()
    assert (image[450, 250] == colour(3)).all()
    assert (image[300, 50] == 90).all()
    assert bool((image[210, 210] == 90).all()) is not has_masks


@pytest.mark.parametrize(
    "found",
    [
        Ranking(np.array([1, 0]), np.array([0.8, 0.2], np.float32), np.array([3.0, 1.0], np.float32)),
        Areas(np.arange(600).reshape(20, 30) % 4),
        Reading("hello", 0.9),
        Objects.none(),
        Objects(np.zeros((1, 4), np.float32), np.ones(1, np.float32), np.zeros(1, np.int64),
                corners=np.array([[[2, 2], [20, 3], [20, 12], [2, 11]]], np.float32), texts=("text \u5b57",)),
    ],
)  # fmt: skip
def test_everything_can_be_drawn(found: Found) -> None:
    image = annotated(PATTERN, found, None)
    assert min(image.size) >= 200  # small pictures are enlarged first


def test_folders_patterns_and_files(tmp_path: Path) -> None:
    for name in ("b.png", "a.JPG", ".hidden.png", "notes.txt"):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "clip.mp4").write_bytes(b"x")
    names = [Path(entry.place).name for entry in sources.entries([tmp_path])]
    assert names == ["a.JPG", "b.png"]
    assert [Path(entry.place).name for entry in sources.entries([f"{tmp_path}/*.png"])] == ["b.png"]
    assert [entry.kind for entry in sources.entries([str(tmp_path / "clip.mp4"), "0", "rtsp://camera/1"])] == [
        "video", "live", "live",
    ]  # fmt: skip
    for word, message in ((str(tmp_path / "no.png"), "no such file"), (f"{tmp_path}/*.gif", "no file has a name")):
        with pytest.raises(SourceError, match=message):
            sources.entries([word])
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match="no pictures"):
        sources.entries([tmp_path / "empty"])


def test_a_broken_picture_does_not_stop_the_others(tmp_path: Path) -> None:
    for name in ("a.png", "c.png"):
        Image.fromarray(PATTERN).save(tmp_path / name)
    (tmp_path / "b.png").write_bytes(b"broken")
    seen = list(sources.shots(sources.entries([tmp_path])))
    assert [shot.pixels is not None for shot in seen] == [True, False, True]
    assert "b.png" in seen[1].problem


class FakeCapture:
    """Three pictures, the number of each in its blue channel."""

    left = 3

    def __init__(self, place: object) -> None:
        self.place = place

    def isOpened(self) -> bool:  # noqa: N802 - OpenCV's name
        return self.place != "broken.mp4"

    def read(self) -> tuple[bool, Array | None]:
        if not self.left:
            return False, None
        self.left -= 1
        picture = np.zeros((4, 6, 3), np.uint8)
        picture[:, :, 0] = self.left
        return True, picture

    def release(self) -> None:
        pass


def test_videos_and_cameras(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in for OpenCV, which gives blue first."""
    stand_in = type(sys)("cv2")
    stand_in.VideoCapture = FakeCapture  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cv2", stand_in)
    (tmp_path / "clip.mp4").write_bytes(b"x")
    seen = list(sources.shots(sources.entries([f"opencv:{tmp_path}/clip.mp4"])))
    assert [shot.name.partition("clip")[2] for shot in seen] == [f"_mp4#00000{number}" for number in range(3)]
    assert [int(shot.frame.rows(0)[0, 0]) for shot in seen if shot.frame is not None] == [2, 1, 0]
    with pytest.raises(SourceError, match="the stream ended"):
        list(sources.shots(sources.entries(["opencv:0"])))
    with pytest.raises(SourceError, match=r"broken\.mp4: the video cannot be opened"):
        list(sources.shots(sources.entries(["opencv:broken.mp4"])))


def test_without_a_decoder_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(SourceError, match=r"pip install 'openrknn\[video\]'"):
        list(sources.shots(sources.entries(["opencv:0"])))


def test_without_pillow_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(SourceError, match=r"pip install 'openrknn\[images\]'"):
        read_picture("x.png")


def test_reading_ahead_keeps_the_order_and_the_error() -> None:
    assert list(prefetch(range(50), 3)) == list(range(50))

    def broken() -> Iterator[int]:
        yield 1
        raise SourceError("the camera fell down")

    ahead = prefetch(broken(), 2)
    assert next(ahead) == 1
    with pytest.raises(SourceError, match="fell down"):
        next(ahead)


def test_reading_ahead_stops_when_nobody_listens() -> None:
    closed = threading.Event()

    def endless() -> Iterator[int]:
        try:
            while True:
                yield 1
        finally:
            closed.set()

    ahead = prefetch(endless(), 2)
    assert next(ahead) == 1
    ahead.close()
    assert closed.wait(5)


def test_a_real_video(tmp_path: Path) -> None:
    """Written and read by OpenCV; compression blurs the colours a little."""
    cv2 = pytest.importorskip("cv2", reason="the extra 'video' (OpenCV) is not installed")
    path = str(tmp_path / "clip.avi")
    writer = cv2.VideoWriter(path, cv2.VideoWriter_fourcc(*"MJPG"), 10, (64, 48))
    for number in range(5):
        writer.write(np.full((48, 64, 3), (0, 0, 40 * number), np.uint8))  # blue first: shades of red
    writer.release()
    seen = [shot.frame for shot in sources.shots(sources.entries([path]))]
    means = [FrameImage(frame).pixels().mean(axis=(0, 1)) for frame in seen if frame is not None]
    assert [round(float(mean[0]) / 40) for mean in means] == [0, 1, 2, 3, 4]
    assert max(float(mean[2]) for mean in means) < 20


def test_a_video_of_giant_frames_is_refused_before_the_first_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from openrknn.video.sources import opencv

    class Capture:
        def get(self, number: int) -> float:
            return {3: 60_000.0, 4: 60_000.0}[number]

        def read(self) -> None:
            raise AssertionError("a frame was decoded")

        def release(self) -> None:
            pass

    monkeypatch.setattr(opencv, "_open", lambda place: Capture())
    with pytest.raises(SourceError, match="60000x60000 pixels"):
        list(sources.shots(sources.entries(["opencv:a.mp4"])))
