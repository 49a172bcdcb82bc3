from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest

from openrknn.watch import ConfigError, read_config

GOOD = """\
spool = "queue"

[models.squares]
path = "squares.rknn"
threshold = 0.5

[tracking]
lost_seconds = 3

[cameras.yard]
source = "test:1"
model = "squares"
rate = 2
size = "640x480"

[[cameras.yard.zones]]
name = "door"
polygon = [[0, 0], [0.5, 0], [0.5, 1]]
classes = ["person"]

[[cameras.yard.zones]]
name = "gate"
polygon = [[10, 10], [50, 10], [50, 90]]

[[cameras.yard.lines]]
name = "middle"
points = [[0.5, 0], [0.5, 1]]

[cameras.street]
source = "rtsp://example.org/live"

[cameras.street.tracking]
lost_seconds = 9

[events.file]
path = "events.jsonl"

[[events.webhook]]
url = "http://127.0.0.1:1880/a"

[[events.webhook]]
url = "https://example.org/b"

[page]
port = 0
"""


def _written(folder: Path, text: str) -> Path:
    (folder / "squares.rknn").write_bytes(b"")
    path = folder / "watch.toml"
    path.write_text(text)
    return path


def test_reads_what_is_written(tmp_path: Path) -> None:
    settings = read_config(_written(tmp_path, GOOD))
    yard, street = settings.cameras
    assert (yard.rate, yard.size, yard.tracking.lost_seconds) == (2, (640, 480), 3)
    assert (street.models, street.tracking.lost_seconds) == (("squares",), 9)
    assert yard.zones[0].pixels(200, 100) == ((0, 0), (100, 0), (100, 100))
    assert yard.zones[1].pixels(200, 100) == ((10, 10), (50, 10), (50, 90))
    assert settings.spool == tmp_path / "queue"
    assert settings.events.files[0].path == tmp_path / "events.jsonl"
    assert [one.url for one in settings.events.webhooks] == ["http://127.0.0.1:1880/a", "https://example.org/b"]


WRONG = {
    "rate = 2": ("rate = 0", 13, r"cameras\.yard\.rate: 0 is not from 0\.01"),
    "threshold = 0.5": ("treshold = 0.5", 5, r"models\.squares\.treshold: is not known; did you mean 'threshold'"),
    'model = "squares"': ('model = "sqares"', 12, r"there is no \[models\.sqares\]; did you mean 'squares'"),
    'path = "squares.rknn"': ('path = "other.rknn"', 4, "no such file"),
    'size = "640x480"': ('size = "huge"', 14, "is no size"),
    'source = "test:1"': ('source = "test:1?fsp=2"', 11, "'fsp' is not an option of test: cameras; did you mean 'fps'"),
    'name = "gate"': ('name = "door"', 16, "two zones or lines have the name 'door'"),
    "[[10, 10], [50, 10], [50, 90]]": ("[[10, 10], [50, 10]]", 23, r"zones 2\.polygon: needs 3 to 256 points"),
    "[[0, 0], [0.5, 0], [0.5, 1]]": ("[[0,0],[1,1],[1,0],[0,1]]", 18, "edges cross"),
    "points = [[0.5, 0], [0.5, 1]]": ("points = [[1, 1], [1, 1]]", 27, "the same"),
    'url = "https://example.org/b"': ('url = "ftp://example.org"', 42, "no http:// or https://"),
    "port = 0": ("port = 70000", 45, r"page\.port: 70000"),
    "[page]": ("[pge]", 44, "pge: is not known; did you mean 'page'"),
    'spool = "queue"': ('spool = "queue', 1, "not TOML"),
    'classes = ["person"]': ("classes = [1]", 19, "list of texts"),
    "lost_seconds = 3": ('lost_seconds = "long"', 8, "is no number"),
    "[cameras.street]": ('[cameras."a b"]', 0, "letters, digits"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_a_mistake_is_named_with_its_line(tmp_path: Path, what: str) -> None:
    instead, line, words = WRONG[what]
    assert what in GOOD
    with pytest.raises(ConfigError, match=words) as caught:
        read_config(_written(tmp_path, GOOD.replace(what, instead)))
    assert not line or caught.value.line == line


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no model; write \[models\.NAME\]"):
        read_config(_written(tmp_path, ""))
    with pytest.raises(ConfigError, match="0 cameras"):
        read_config(_written(tmp_path, '[models.a]\npath = "squares.rknn"\n'))
    with pytest.raises(ConfigError, match="cannot be read"):
        read_config(tmp_path / "nothing.toml")


def test_secrets_are_in_files(tmp_path: Path) -> None:
    text = GOOD.replace("port = 0", 'port = 0\ntoken_file = "token"')
    with pytest.raises(ConfigError, match="token cannot be read"):
        read_config(_written(tmp_path, text))
    (tmp_path / "token").write_text("long and random\n")
    settings = read_config(_written(tmp_path, text))
    assert settings.page.token == "long and random"
    assert "random" not in repr(settings)


def test_the_example_is_right(tmp_path: Path) -> None:
    text = resources.files("openrknn.watch").joinpath("example.toml").read_text("utf-8")
    (tmp_path / "detector.rknn").write_bytes(b"")
    settings = read_config(_written(tmp_path, text))
    assert [camera.name for camera in settings.cameras] == ["yard", "street"]
    # What is commented out is right as well.
    for name in ("mqtt-password", "webhook-secret", "page-token"):
        (tmp_path / name).write_text("x")
    whole = "\n".join(
        line.removeprefix("# ") if line.startswith(("# [", "# ")) and ("=" in line or "[" in line) else line
        for line in text.splitlines()
    )
    settings = read_config(_written(tmp_path, whole))
    assert settings.events.brokers[0].username == "openrknn"
    assert settings.page.token == "x"
