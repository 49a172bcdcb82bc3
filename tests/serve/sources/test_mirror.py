"""The copy on disk of a model source, and a server that reads from it."""

from __future__ import annotations

import json
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest

from openrknn.errors import UnsupportedError
from openrknn.serve.server import running
from openrknn.serve.settings import Settings
from openrknn.serve.sources.mirror import Mirror
from tests.serve.sources.looking import BOUNDS, Look, sha256_of
from tests.serve.storage import Storage, storage

TONES = (Path(__file__).parents[3] / "examples/models/tones_rk3588_fp.rknn").read_bytes()


def test_what_is_altered_on_disk_is_fetched_again(web: Storage, look: Look, tmp_path: Path) -> None:
    web.files = {"/box/a.rknn": b"good", "/box/b.rknn": b"good"}
    look("s3://box")
    (tmp_path / "mirror/a.rknn").write_bytes(b"evil")
    (tmp_path / "mirror/planted.rknn").write_bytes(b"evil")
    (tmp_path / "mirror/b.rknn").unlink()
    (tmp_path / "mirror/b.rknn").symlink_to(tmp_path / "mirror/a.rknn")
    assert look("s3://box") == (["a.rknn", "b.rknn"], [])
    assert {path.read_bytes() for path in (tmp_path / "mirror").glob("*.rknn")} == {b"good"}
    (tmp_path / "mirror/.state.json").write_text('{"a.rknn": [{"tag": 1}]}')
    assert look("s3://box") == (["a.rknn", "b.rknn"], [])


def test_killed_between_state_and_files(web: Storage, look: Look, tmp_path: Path) -> None:
    """The state has both: whichever of them is on the disk verifies, without the network."""
    web.files = {"/box/a.rknn": b"old"}
    look("s3://box")
    state = tmp_path / "mirror/.state.json"
    content = json.loads(state.read_text())
    content["a.rknn"].append({"tag": "t", "size": 3, "sha256": sha256_of(b"new"), "is_promised": False})
    for data in (b"old", b"new"):
        state.write_text(json.dumps(content))
        (tmp_path / "mirror/a.rknn").write_bytes(data)
        assert Mirror(tmp_path / "mirror", BOUNDS).verified() == 1


def _ready(url: str) -> int:
    with urllib.request.urlopen(f"{url}/v2/models/tones/ready") as answer:
        return int(answer.status)


def test_serve_from_the_network_and_then_without_it(tmp_path: Path) -> None:
    with storage(files={"/tones.rknn": TONES}) as web:
        source = f"{web.url}/tones.rknn#sha256={sha256_of(TONES)}"
        settings = Settings(
            [source], http_port=0, grpc_port=None, workers="in-process", warm_up=False, model_cache=str(tmp_path),
            require_checksum=True, instances=1,
        )  # fmt: skip
        with running(settings) as server:
            assert _ready(server.url) == 200
            # A replacement that is not what the address promises changes nothing.
            web.files["/tones.rknn"] = b"evil"
            server.plane.repository.poll()
            assert _ready(server.url) == 200
    # The storage is gone: with a checksum in the address there is nothing to ask, else the cache has it.
    for again, problem in ((source, ""), (source.partition("#")[0], "cannot be reached")):
        with running(replace(settings, sources=[again])) as server:
            assert _ready(server.url) == 200
            assert problem in server.plane.repository.sources.problem
            with urllib.request.urlopen(f"{server.url}/metrics") as answer:
                metrics = answer.read().decode()
            assert ('openrknn_source_errors_total{reason="unreachable"' in metrics) == bool(problem)
            assert bool(problem) == bool(server.plane.repository.sources.problem)


def test_nothing_to_serve_is_said(tmp_path: Path) -> None:
    settings = Settings(["http://127.0.0.1:1/a.rknn"], http_port=0, grpc_port=None, model_cache=str(tmp_path))
    with pytest.raises(UnsupportedError, match=r"nothing to serve.*cannot be reached"), running(settings):
        pass
