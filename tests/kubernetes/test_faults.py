"""What the API server and the kubelet do to a driver: it comes back from all of it, by itself.

Each fault is one that Kubernetes 1.36 was seen to commit, or commits by its source.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from openrknn.kubernetes.api import ApiError, ApiServer
from openrknn.kubernetes.claims import ClaimError, Claims
from openrknn.kubernetes.dra import Driver, Folders
from openrknn.kubernetes.inventory import Settings, Unit, units
from openrknn.kubernetes.object_store import ObjectStore
from openrknn.kubernetes.slices import parts
from tests.kubernetes.api_server import StandInApi
from tests.kubernetes.kubelet import wait_for
from tests.machines import rknpu_board

WELL: dict[str, str | None] = {"npu0": None}


class Node:
    """A driver of one board against one API server."""

    def __init__(self, api: StandInApi, short: Path, root: Path) -> None:
        rknpu_board(root)
        self.api, self.token = api, short / "token"
        self.token.write_text("first")
        self.units: tuple[Unit, ...] = units(Settings(root))
        self.driver = Driver(
            Settings(root, strategy="cores"), "board1", ApiServer(api.url, self.token), Folders(short, short / "cdi")
        )

    def start(self) -> None:
        """Until everything is published."""
        self.driver.refresh(self.units, WELL)
        wait_for(lambda: self.driver.is_published, "publication")

    def is_whole(self) -> bool:
        """All five devices and their counters, of one generation."""
        mine = self.api.mine()
        generations = {item["spec"]["pool"]["generation"] for item in mine}
        return len(mine) == 2 and len(generations) == 1 and len(mine[1]["spec"].get("devices", ())) == 5


@pytest.fixture
def api() -> Iterator[StandInApi]:
    with StandInApi() as server:
        yield server


@pytest.fixture
def node(api: StandInApi, short: Path, tmp_path: Path) -> Iterator[Node]:
    made = Node(api, short, tmp_path)
    yield made
    made.driver.close()


def test_slices_that_a_kubelet_deleted_are_published_at_once(node: Node) -> None:
    node.start()
    for _ in range(3):
        node.api.wipe()
        assert not node.is_whole()
        wait_for(node.is_whole, "the return")


def test_a_slice_that_somebody_changed_is_made_right(node: Node) -> None:
    node.start()
    node.api.alter("board1-npu.rockchip.com-1", devices=[])
    wait_for(node.is_whole, "the return")
    more = [*node.api.mine()[1]["spec"]["devices"][:4], {"name": "npu0-cores-012", "attributes": {}, "taints": []}]
    node.api.alter("board1-npu.rockchip.com-1", devices=more)
    wait_for(lambda: "soc" in node.api.mine()[1]["spec"]["devices"][4]["attributes"], "the return")


def test_nothing_is_written_while_nothing_differs(node: Node) -> None:
    node.api.watch_seconds = 0.05  # lists again and again
    node.start()
    wait_for(node.is_whole, "publication")
    writes = node.driver._publisher.writes
    watches = node.api.watches
    wait_for(lambda: node.api.watches > watches + 2, "more watches")
    assert node.driver._publisher.writes == writes == 2


def test_a_wipe_between_two_watches_is_found_by_the_list(node: Node) -> None:
    node.api.watch_seconds = 0.02
    node.start()
    for _ in range(5):
        node.api.wipe()
        wait_for(node.is_whole, "the return")


OURS = b'"spec": {"driver": "npu.rockchip.com", "nodeName": "board1"}'
NONSENSE = {
    "text": b"not json",
    "list": b"[]",
    "no object": b'{"type": "ADDED"}',
    "no spec": b'{"type": "ADDED", "object": {"metadata": {}}}',
    "numbers": b'{"type": 1, "object": {}}',
    "half a slice": b'{"type": "ADDED", "object": {"metadata": {"name": 5}, ' + OURS + b"}}",
    "3 MB": b"x" * (3 << 20),
}


@pytest.mark.parametrize("noise", list(NONSENSE.values()), ids=list(NONSENSE))
def test_a_watch_that_talks_nonsense(node: Node, noise: bytes) -> None:
    node.api.noise.append(noise)
    node.start()
    wait_for(lambda: not node.api.noise, "the nonsense")
    node.api.wipe()
    wait_for(node.is_whole, "the return")


def test_an_answer_that_makes_no_sense(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    """Neither thread may die of it."""
    path = "/api/v1/nodes/board1"
    good = node.api.objects[path]
    node.api.noise.append(b"[" * 100_000 + b"]" * 100_000)
    node.api.objects[path] = {"metadata": {"name": "board1"}}
    node.driver.refresh(node.units, WELL)
    wait_for(lambda: "could not be published" in caplog.text, "the complaint")
    node.api.objects[path] = good
    wait_for(node.is_whole, "publication")
    wait_for(lambda: not node.api.noise, "the nonsense")
    node.api.wipe()
    wait_for(node.is_whole, "the return")


def test_an_account_that_may_not_watch_lists_now_and_then(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    """As with the role of an older version."""
    node.api.may_watch = False
    node.start()
    node.api.wipe()
    wait_for(node.is_whole, "the return")
    assert caplog.text.count("403") == 1
    assert "ClusterRole openrknn-dra" in caplog.text


def test_versions_that_are_too_old(node: Node) -> None:
    node.api.too_old = 2
    node.start()
    wait_for(lambda: not node.api.too_old, "both")
    node.api.wipe()
    wait_for(node.is_whole, "the return")


def test_bookmarks_are_not_slices(node: Node) -> None:
    node.api.bookmark_seconds = 0.01
    node.start()
    node.api.wipe()
    wait_for(node.is_whole, "the return")
    assert node.driver._publisher.watch_breaks == 0


def test_somebody_else_writes_at_the_same_time(node: Node) -> None:
    node.start()
    node.api.conflicts = 3
    node.driver.refresh(node.units, {"npu0": "too hot"})
    wait_for(lambda: all("taints" in one for one in node.api.mine()[1]["spec"]["devices"]), "the taints")
    wait_for(node.is_whole, "one generation")
    assert node.api.conflicts == 0


def test_a_token_that_expires(node: Node) -> None:
    node.api.valid_token = "first"
    node.api.watch_seconds = 0.05
    node.start()
    node.api.valid_token = "second"
    node.api.wipe()
    wait_for(lambda: node.driver._publisher._watch.problem == "401", "the refusal")
    assert not node.is_whole()
    node.token.write_text("second\n")
    wait_for(node.is_whole, "the return")


def test_a_server_that_is_overloaded_or_starting(node: Node) -> None:
    node.api.overload = 2
    node.start()
    assert node.is_whole()
    node.api.watch_seconds = 0.05
    node.api.fail = True
    node.api.wipe()
    node.api.fail = False
    wait_for(node.is_whole, "the return")


def test_retry_after_is_waited_for(api: StandInApi) -> None:
    api.overload, api.retry_after = 1, "7"
    with pytest.raises(ApiError, match="429") as caught:
        ApiServer(api.url).get("/api/v1/nodes/board1")
    assert (caught.value.status, caught.value.retry_after) == (429, 7.0)


def test_slices_of_others_are_not_even_read(node: Node) -> None:
    node.api.add_foreign(2000)
    node.start()
    assert len(node.api.slices) == 2002
    assert node.api.listed <= 2


def test_a_mirror_takes_nothing_older_than_it_has() -> None:
    def item(version: int, name: str = "a", node: str = "board1") -> dict[str, object]:
        spec = {"driver": "d", "nodeName": node, "pool": {"generation": version}}
        return {"metadata": {"name": name, "resourceVersion": str(version), "managedFields": [{}]}, "spec": spec}

    known = ObjectStore("d", "board1")
    known.replace([item(5), item(5, "b", "board2")])
    assert list(known.items()) == ["a"]
    assert "managedFields" not in known.items()["a"]["metadata"]
    known.put(item(4))
    assert known.items()["a"]["metadata"]["resourceVersion"] == "5"
    known.remove(item(3))
    assert known.items()
    known.remove(item(6))
    known.put(item(5))
    assert known.items() == {}
    known.put(item(7))
    assert list(known.items()) == ["a"]
    for number in range(1000):
        known.put(item(8, f"c{number}"))
    assert len(known.items()) == 64


def test_what_a_killed_driver_left_of_claims_is_removed(api: StandInApi, short: Path, tmp_path: Path) -> None:
    rknpu_board(tmp_path)
    settings = Settings(tmp_path)
    offered = {offer.id: offer for offer in parts(settings, units(settings))}
    claims = Claims(ApiServer(api.url), "npu.rockchip.com", "board1", short / "cdi", short / "claims")
    for name, uid in (("here", "uid-1"), ("gone", "uid-2"), ("again", "uid-3")):
        api.claim(name, uid, "npu0-core-0")
        claims.prepare("home", name, uid, offered)
    half = short / "cdi" / ".openrknn-half"
    half.write_text("{")
    api.remove_claim("gone")
    api.claim("again", "uid-4", "npu0-core-0")
    (short / "cdi/npu.rockchip.com-claim-old.json").write_text("{}")  # of a version without records
    api.fail = True
    assert claims.sweep() == [], "nothing goes on the word of a server that does not answer"
    api.fail = False
    assert claims.sweep() == ["uid-2", "uid-3"]
    assert claims.prepared() == {"uid-1", "old"}
    assert [path.stem for path in (short / "claims").iterdir()] == ["uid-1"]
    assert half.exists(), "somebody may be writing it now"
    past = time.time() - 60
    os.utime(half, (past, past))
    claims.sweep()
    assert not half.exists()


def test_a_claim_stays_prepared_while_nobody_answers(
    api: StandInApi, short: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kubelet that starts again asks for what its pods have already."""
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    rknpu_board(tmp_path)
    settings = Settings(tmp_path)
    offered = {offer.id: offer for offer in parts(settings, units(settings))}
    claims = Claims(ApiServer(api.url), "npu.rockchip.com", "board1", short / "cdi", short / "claims")
    api.claim("eyes", "uid-1", "npu0-core-0", "npu0-core-1", requests=("a", "b"), shares=("s1",))
    before = claims.prepare("home", "eyes", "uid-1", offered)
    api.fail = True
    assert claims.prepare("home", "eyes", "uid-1", offered) == before
    with pytest.raises(ApiError, match="503"):
        claims.prepare("home", "ears", "uid-2", offered)
    (short / "claims/uid-1.json").write_text("{")
    with pytest.raises(ApiError, match="503"):
        claims.prepare("home", "eyes", "uid-1", offered)


def test_parameters_that_would_do_nothing_are_refused(api: StandInApi, short: Path, tmp_path: Path) -> None:
    rknpu_board(tmp_path)
    settings = Settings(tmp_path)
    offered = {offer.id: offer for offer in parts(settings, units(settings))}
    claims = Claims(ApiServer(api.url), "npu.rockchip.com", "board1", short / "cdi", short / "claims")
    api.claim("eyes", "uid-1", "npu0-core-0")
    allocation = api.objects["/apis/resource.k8s.io/v1/namespaces/home/resourceclaims/eyes"]["status"]["allocation"]
    others = {"opaque": {"driver": "gpu.example.com", "parameters": {"kind": "GpuConfig"}}}
    allocation["devices"]["config"] = [others]
    assert len(claims.prepare("home", "eyes", "uid-1", offered)) == 1
    ours = {"opaque": {"driver": "npu.rockchip.com", "parameters": {"kind": "NpuConfig"}}}
    allocation["devices"]["config"] = [others, ours]
    with pytest.raises(ClaimError, match="NpuConfig"):
        claims.prepare("home", "eyes", "uid-1", offered)


def test_clean_up_touches_nothing_that_lives(node: Node, short: Path) -> None:
    node.start()
    node.api.claim("eyes", "uid-1", "npu0-core-0")
    node.driver._claims.prepare("home", "eyes", "uid-1", node.driver._known)
    folders = Folders(short, short / "cdi")
    assert folders.clean_up() == []
    node.driver.close()
    assert [path.name for path in folders.clean_up()] == ["uid-1.json"]
    assert not (short / "plugins/npu.rockchip.com/claims").exists()


def test_the_program_needs_no_arrays() -> None:
    """NumPy alone is 20 MB of a limit of 64."""
    code = (
        "import sys, openrknn.cli.main, openrknn.cli.device_plugin\n"
        "import openrknn.kubernetes.daemon, openrknn.kubernetes.dra\n"
        "print(sorted({'numpy', 'onnx', 'PIL', 'cv2', 'openrknn.analysis', 'openrknn.runtime'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
