"""One file for many kinds of nodes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from openrknn.kubernetes.api import ApiServer
from openrknn.kubernetes.daemon import Daemon, Options
from openrknn.kubernetes.inventory import Settings
from openrknn.kubernetes.nodeconfig import ConfigError, LabelsError, NodeConfig, NodeLabels
from tests.cli.run import run
from tests.kubernetes.api_server import StandInApi
from tests.machines import Machine

TEXT = """
strategy = "shares"
shares = 2

[[node]]
names = ["rock5-*", "opi5"]
strategy = "cores"

[[node]]
labels = { "rockchip.com/board" = "itx" }
dra_shares = "capacity"
shares = 8
"""


def config(path: Path, text: str, node: str, labels: Mapping[str, str] | None = None) -> NodeConfig:
    path.write_text(text)
    return NodeConfig(path, Settings(), node, None if labels is None else lambda: labels)


@pytest.mark.parametrize(
    ("node", "labels", "expected"),
    [
        ("pi", {}, ("shares", 2, "devices")),
        ("rock5-7", {}, ("cores", 2, "devices")),
        ("opi5", {"rockchip.com/board": "itx"}, ("cores", 8, "capacity")),
        ("pi", {"rockchip.com/board": "other"}, ("shares", 2, "devices")),
    ],
)
def test_entries_by_name_and_label(
    tmp_path: Path, node: str, labels: dict[str, str], expected: tuple[str, int, str]
) -> None:
    found = config(tmp_path / "a.toml", TEXT, node, labels).settings()
    assert (found.strategy, found.shares, found.dra_shares) == expected


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("strategy = 1", "strategy = 1: one of shares, cores"),
        ("shares = 0", "a number from 1 to 1000"),
        ("shares = true", "a number from 1 to 1000"),
        ("colour = 'red'", "there is no 'colour'"),
        ("root = '/'", "there is no 'root'"),
        ("[[node]]\nstrategy = 'cores'", "for which nodes"),
        ("[node]\nnames = ['a']", r"write \[\[node\]\]"),
        ("[[node]]\nnames = 'a'", "a list of patterns"),
        ("[[node]]\nlabels = {a = 1}", "a table of texts"),
        ("[[node]]\nlabels = {a = 'b'}", "labels need --node"),
        ("[[node]]\nnames = ['elsewhere']\nshares = -1", "node 1: shares = -1"),
        ("strategy", "not TOML"),
        ("# " + "x" * 300_000, "larger than 256 KiB"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        config(tmp_path / "a.toml", text, "pi").settings()


def test_a_file_that_changes_and_one_that_becomes_wrong(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A ConfigMap changes by another target of a symbolic link."""
    caplog.set_level("INFO")
    for name, text in (("one", "shares = 1"), ("two", "shares = 2"), ("bad", "shares = 'x'")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "plugin.toml").write_text(text)

    def point_to(name: str) -> None:
        (tmp_path / "new").symlink_to(name)
        (tmp_path / "new").rename(tmp_path / "..data")

    point_to("one")
    read = NodeConfig(tmp_path / "..data/plugin.toml", Settings(), "pi")
    assert read.settings().shares == 1
    point_to("two")
    assert read.settings().shares == 2
    assert "shares 1 -> 2" in caplog.text
    point_to("bad")
    assert [read.settings().shares for _ in range(3)] == [2, 2, 2]
    assert caplog.text.count("going on with what was there before") == 1
    point_to("one")
    assert read.settings().shares == 1


def test_the_daemon_follows_the_file(short: Path, tmp_path: Path) -> None:
    Machine(tmp_path / "root")
    base = Settings(tmp_path / "root")
    (tmp_path / "a.toml").write_text("software = 2")
    daemon = Daemon(Options(base, device_plugin=False), None, NodeConfig(tmp_path / "a.toml", base, "pi"))
    daemon.look()
    assert [offer.id for offer in daemon._offers] == ["soft0-rk3588-0", "soft1-rk3588-0"]
    (tmp_path / "a.toml").write_text("software = 1\nstrategy = 'cores'")
    daemon.look()
    assert [offer.id for offer in daemon._offers] == [f"soft0-rk3588-core{core}" for core in range(3)]


def test_labels_come_from_the_api_server() -> None:
    now = [0.0]
    with StandInApi() as api:
        labels = NodeLabels(ApiServer(api.url), "board1", lambda: now[0])
        api.fail = True
        with pytest.raises(LabelsError, match="labels of the node board1"):
            labels()
        api.fail = False
        api.objects["/api/v1/nodes/board1"]["metadata"]["labels"] = {"a": "b"}
        assert labels() == {"a": "b"}
        api.fail, now[0] = True, 61.0
        assert labels() == {"a": "b"}, "what it said last"


def test_the_command_reads_it(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    Machine(tmp_path / "root")
    (tmp_path / "a.toml").write_text("[[node]]\nnames = ['pi']\nsoftware = 1\nshares = 2")
    words = ("device-plugin", "--list", "--root", tmp_path / "root", "--config", tmp_path / "a.toml")
    assert "rockchip.com/npu: 2\n" in run(capsys, *words, "--node", "pi").out
    assert "rockchip.com/npu: 0\n" in run(capsys, *words, "--node", "other").out
    (tmp_path / "a.toml").write_text("x = 1")
    result = run(capsys, *words)
    assert (result.code, "there is no 'x'" in result.err) == (2, True)
