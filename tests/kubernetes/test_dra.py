"""The DRA driver against a kubelet and an API server that speak the real interfaces."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from openrknn.kubernetes.api import ApiServer
from openrknn.kubernetes.daemon import Daemon, Options, clean_up
from openrknn.kubernetes.dra import Driver, Folders
from openrknn.kubernetes.grants import startable
from openrknn.kubernetes.inventory import Settings, units
from openrknn.kubernetes.messages import POD_RESOURCES, message
from openrknn.kubernetes.slices import parts
from tests.kubernetes.api_server import StandInApi
from tests.kubernetes.kubelet import Kubelet
from tests.machines import rknpu_board, rocket_board

WELL: dict[str, str | None] = {"npu0": None}


@pytest.fixture
def api() -> Iterator[StandInApi]:
    with StandInApi() as server:
        yield server


def driver(api: StandInApi, short: Path, root: Path, **more: Any) -> Driver:
    token = short / "token"
    token.write_text("abc\n")
    clock = more.pop("clock", time.monotonic)
    settings = Settings(root, **{"strategy": "cores", **more})
    return Driver(settings, "board1", ApiServer(api.url, token), Folders(short, short / "cdi"), clock)


def devices(api: StandInApi) -> dict[str, Any]:
    return {one["name"]: one for item in api.slices for one in item["spec"].get("devices", ())}


def test_slices_have_the_masks_of_rk3588_as_counters(api: StandInApi, short: Path, tmp_path: Path) -> None:
    rknpu_board(tmp_path)
    made = driver(api, short, tmp_path)
    made.refresh(units(Settings(tmp_path)), WELL)
    made.close()
    assert api.tokens == {"Bearer abc"}
    counters, offered = api.slices
    assert counters["spec"]["sharedCounters"] == [
        {"name": "npu0", "counters": {f"core-{core}": {"value": "1"} for core in range(3)}}
    ]
    assert "devices" not in counters["spec"]
    assert counters["spec"]["pool"] == {"name": "board1", "generation": 1, "resourceSliceCount": 2}
    found = devices(api)
    assert list(found) == [*(f"npu0-core-{core}" for core in range(3)), "npu0-cores-01", "npu0-cores-012"]
    assert found["npu0-cores-01"]["consumesCounters"] == [
        {"counterSet": "npu0", "counters": {"core-0": {"value": "1"}, "core-1": {"value": "1"}}}
    ]
    assert found["npu0-core-2"]["attributes"] == {
        "driver": {"string": "rknpu"},
        "npu": {"string": "npu0"},
        "cores": {"int": 1},
        "shared": {"bool": False},
        "soc": {"string": "rk3588"},
        "driverVersion": {"version": "0.9.8"},
    }
    assert offered["metadata"]["ownerReferences"][0]["uid"] == "node-uid"
    for item in api.slices:
        plain = {**item, "metadata": {**item["metadata"]}}
        kubernetes_validate.validate(plain, "1.36", strict=True)


def test_rocket_is_offered_in_shares(tmp_path: Path) -> None:
    rocket_board(tmp_path)
    settings = Settings(tmp_path, strategy="cores")
    assert [offer.id for offer in parts(settings, units(settings))] == [f"npu0-share-{n}" for n in range(3)]


def test_claims_are_prepared_and_unprepared(api: StandInApi, short: Path, tmp_path: Path) -> None:
    rknpu_board(tmp_path)
    made = driver(api, short, tmp_path)
    with Kubelet(short) as kubelet:
        made.refresh(units(Settings(tmp_path)), WELL)
        info = kubelet.find_driver()
        assert (info.name, made.is_registered) == ("npu.rockchip.com", True)
        api.claim("eyes", "uid-1", "npu0-core-1")
        for _ in range(2):  # the kubelet asks again when it does not know whether it got an answer
            answer = kubelet.call_driver(info.endpoint, "NodePrepareResources", ("home", "eyes", "uid-1"))
            (device,) = answer.claims["uid-1"].devices
            assert answer.claims["uid-1"].error == ""
            assert list(device.cdi_device_ids) == ["npu.rockchip.com/claim=uid-1-npu0-core-1"]
            assert (list(device.request_names), device.pool_name, device.device_name) == (
                ["npu"], "board1", "npu0-core-1",
            )  # fmt: skip
        (file,) = (short / "cdi").iterdir()
        content = json.loads(file.read_text())
        assert content["devices"][0]["containerEdits"]["env"] == [
            "OPENRKNN_CORE_MASK=2",
            "OPENRKNN_NPU=rknpu:/dev/dri/renderD129",
            "OPENRKNN_NPUS=rknpu:/dev/dri/renderD129",
        ]
        for _ in range(2):
            answer = kubelet.call_driver(info.endpoint, "NodeUnprepareResources", ("home", "eyes", "uid-1"))
            assert answer.claims["uid-1"].error == ""
            assert list((short / "cdi").iterdir()) == []
    made.close()


def test_each_claim_gets_its_own_answer(api: StandInApi, short: Path, tmp_path: Path) -> None:
    rknpu_board(tmp_path)
    made = driver(api, short, tmp_path)
    with Kubelet(short) as kubelet:
        made.refresh(units(Settings(tmp_path)), WELL)
        endpoint = kubelet.find_driver().endpoint
        api.claim("good", "uid-1", "npu0-cores-01")
        api.claim("again", "uid-2", "npu0-core-2")
        api.claim("elsewhere", "uid-3", "npu0-core-2", pool="board2")
        api.claim("old", "uid-4", "npu7-core-0")
        wanted = [("good", "uid-1"), ("again", "other"), ("elsewhere", "uid-3"), ("old", "uid-4"), ("none", "uid-5")]
        claims = [("home", name, uid) for name, uid in [*wanted, ("good", "../../evil")]]
        answer = kubelet.call_driver(endpoint, "NodePrepareResources", *claims)
        assert set(answer.claims) == {uid for _, _, uid in claims}
        errors = {uid: one.error for uid, one in answer.claims.items()}
        assert errors["uid-1"] == ""
        assert "was made again" in errors["other"]
        assert "no device of npu.rockchip.com on board1" in errors["uid-3"]
        assert "this node has no npu7-core-0" in errors["uid-4"]
        assert "not found" in errors["uid-5"]
        assert "is not the uid of a claim" in errors["../../evil"]
        assert len(list((short / "cdi").iterdir())) == 1
    made.close()


def test_an_npu_that_is_not_well_leaves_the_slices(api: StandInApi, short: Path, tmp_path: Path) -> None:
    rknpu_board(tmp_path)
    found = units(Settings(tmp_path))
    made = driver(api, short, tmp_path)
    made.refresh(found, WELL)
    made.refresh(found, WELL)
    assert len([call for call in api.calls if call.startswith("POST")]) == 2
    made.refresh(found, {"npu0": "too hot"})
    assert devices(api) == {}
    (only,) = api.slices
    assert only["spec"]["pool"] == {"name": "board1", "generation": 2, "resourceSliceCount": 1}
    made.refresh(found, WELL)
    assert len(devices(api)) == 5
    made.close()


def test_what_fails_is_tried_again(api: StandInApi, short: Path, tmp_path: Path) -> None:
    rknpu_board(tmp_path)
    made = driver(api, short, tmp_path)
    api.fail = True
    made.refresh(units(Settings(tmp_path)), WELL)
    assert api.slices == []
    api.fail = False
    made.refresh(units(Settings(tmp_path)), WELL)
    assert len(api.slices) == 2
    (short / "plugins_registry/npu.rockchip.com-reg.sock").unlink()
    made.refresh(units(Settings(tmp_path)), WELL)
    assert (short / "plugins_registry/npu.rockchip.com-reg.sock").exists()
    made.close()


def test_a_driver_that_was_killed_is_replaced(api: StandInApi, short: Path, tmp_path: Path) -> None:
    """Its sockets stay behind, and nobody answers on them."""
    rknpu_board(tmp_path)
    for name in ("plugins_registry/npu.rockchip.com-reg.sock", "plugins/npu.rockchip.com/dra.sock"):
        (short / name).parent.mkdir(parents=True)
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(short / name))
    made = driver(api, short, tmp_path)
    with Kubelet(short) as kubelet:
        made.refresh(units(Settings(tmp_path)), WELL)
        assert kubelet.find_driver().name == "npu.rockchip.com"
        assert made.is_registered
    made.close()


def test_an_older_driver_that_leaves_lets_the_newer_ones_sockets_be(
    api: StandInApi, short: Path, tmp_path: Path
) -> None:
    rknpu_board(tmp_path)
    older, newer = driver(api, short, tmp_path), driver(api, short, tmp_path)
    older.refresh(units(Settings(tmp_path)), WELL)
    newer.refresh(units(Settings(tmp_path)), WELL)
    older.close()
    with Kubelet(short) as kubelet:
        assert kubelet.find_driver().name == "npu.rockchip.com"
    assert (newer.is_registered, older.is_registered) == (True, False)
    newer.close()
    assert list((short / "plugins_registry").iterdir()) == []


def test_slices_that_a_kubelet_deleted_are_published_again(api: StandInApi, short: Path, tmp_path: Path) -> None:
    rknpu_board(tmp_path)
    now = [0.0]
    made = driver(api, short, tmp_path, clock=lambda: now[0])
    found = units(Settings(tmp_path))
    made.refresh(found, WELL)
    api.wipe()
    made.refresh(found, WELL)  # nobody has told us, and it is not time to compare
    assert api.slices == []
    with Kubelet(short) as kubelet:
        kubelet.find_driver()
        made.refresh(found, WELL)
        assert len(devices(api)) == 5
    api.wipe()
    now[0] = 11
    made.refresh(found, WELL)
    assert len(devices(api)) == 5
    calls = len(api.calls)
    now[0] = 22
    made.refresh(found, WELL)
    assert {call.split()[0] for call in api.calls[calls:]} == {"GET"}, "nothing is written while nothing differs"
    made.close()


def test_slices_of_others_are_not_even_read(api: StandInApi, short: Path, tmp_path: Path) -> None:
    rknpu_board(tmp_path)
    api.add_foreign(2000)
    made = driver(api, short, tmp_path)
    made.refresh(units(Settings(tmp_path)), WELL)
    assert len(api.slices) == 2002
    assert api.listed == 0
    made.close()


def test_the_log_counts_devices_that_may_be_used(
    api: StandInApi, short: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    rknpu_board(tmp_path)
    made = driver(api, short, tmp_path)
    made.refresh(units(Settings(tmp_path)), {"npu0": "too hot"})
    made.close()
    assert "published 0 devices" in caplog.text


def test_each_request_of_a_claim_has_its_own_mask(api: StandInApi, short: Path, tmp_path: Path) -> None:
    rknpu_board(tmp_path)
    made = driver(api, short, tmp_path)
    with Kubelet(short) as kubelet:
        made.refresh(units(Settings(tmp_path)), WELL)
        endpoint = kubelet.find_driver().endpoint
        api.claim("two", "uid-1", "npu0-core-0", "npu0-core-1", requests=("left", "right"))
        kubelet.call_driver(endpoint, "NodePrepareResources", ("home", "two", "uid-1"))
        api.claim("pair", "uid-2", "npu0-core-1", "npu0-core-2")
        kubelet.call_driver(endpoint, "NodePrepareResources", ("home", "pair", "uid-2"))
    made.close()
    masks = {
        device["name"]: device["containerEdits"]["env"][0]
        for path in (short / "cdi").iterdir()
        for device in json.loads(path.read_text())["devices"]
    }
    assert masks == {
        "uid-1-npu0-core-0": "OPENRKNN_CORE_MASK=1",
        "uid-1-npu0-core-1": "OPENRKNN_CORE_MASK=2",
        # The driver starts nothing on cores 1 and 2 together.
        "uid-2-npu0-core-1": "OPENRKNN_CORE_MASK=2",
        "uid-2-npu0-core-2": "OPENRKNN_CORE_MASK=2",
    }


@pytest.mark.parametrize(("mask", "expected"), [(1, 1), (2, 2), (4, 4), (3, 3), (7, 7), (6, 2), (5, 1)])
def test_masks_that_the_driver_starts(mask: int, expected: int) -> None:
    assert startable(mask) == expected


def test_metrics_name_the_npu_of_a_claim(api: StandInApi, short: Path, tmp_path: Path) -> None:
    rknpu_board(tmp_path)
    made = driver(api, short, tmp_path)
    options = Options(
        Settings(tmp_path, strategy="cores"), device_plugin=False, pod_resources=short / "pod-resources/kubelet.sock"
    )
    daemon = Daemon(options, made)
    with Kubelet(short) as kubelet:
        daemon.look()
        pod = message(POD_RESOURCES, "PodResources")(name="eyes", namespace="home")
        claim = pod.containers.add(name="main").dynamic_resources.add(claim_name="eyes", claim_namespace="home")
        claim.claim_resources.add(driver_name="npu.rockchip.com", pool_name="board1", device_name="npu0-core-1")
        kubelet.pods = [pod]
        text = daemon.metrics()
    made.close()
    (line,) = [line for line in text.splitlines() if line.startswith("openrknn_npu_pod{")]
    assert 'device="npu0-core-1"' in line
    assert 'npu="fdab0000.npu"' in line


def test_what_an_uninstalled_plugin_left_is_removed(tmp_path: Path) -> None:
    ours = ["rockchip.com-npu.json", "npu.rockchip.com-claim-uid-1.json"]
    for name in (*ours, "nvidia.com-gpu.json"):
        (tmp_path / name).write_text("{}")
    removed = clean_up(Options(cdi_folder=tmp_path), tmp_path)
    assert sorted(path.name for path in removed) == sorted(ours)
    assert [path.name for path in tmp_path.iterdir()] == ["nvidia.com-gpu.json"]
