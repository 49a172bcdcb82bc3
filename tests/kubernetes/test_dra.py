"""The DRA driver against a kubelet and an API server that speak the real interfaces."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from openrknn.kubernetes.allocation import startable
from openrknn.kubernetes.api import ApiServer
from openrknn.kubernetes.daemon import Daemon, Options, clean_up
from openrknn.kubernetes.dra import Driver, Folders
from openrknn.kubernetes.inventory import Offer, Settings, Unit, units
from openrknn.kubernetes.messages import POD_RESOURCES, message
from openrknn.kubernetes.resource_health import ResourceHealth
from openrknn.kubernetes.slices import pool
from tests.kubernetes.api_server import StandInApi
from tests.kubernetes.kubelet import Kubelet, wait_for
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


def settled(made: Driver, found: tuple[Unit, ...], reasons: Mapping[str, str | None] = WELL) -> None:
    """A round of the daemon, and what follows from it at the API server."""
    made.refresh(found, reasons)
    wait_for(lambda: made.is_published, "publication")


def devices(api: StandInApi) -> dict[str, Any]:
    return {one["name"]: one for item in api.slices for one in item["spec"].get("devices", ())}


def test_slices_have_the_masks_of_rk3588_as_counters(api: StandInApi, short: Path, tmp_path: Path) -> None:
    rknpu_board(tmp_path)
    made = driver(api, short, tmp_path)
    settled(made, units(Settings(tmp_path)))
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


def test_every_device_has_every_attribute(tmp_path: Path) -> None:
    """An expression that reads one that is not there is an error, and the scheduler then places the pod nowhere."""
    rknpu_board(tmp_path / "a")
    rocket_board(tmp_path / "b")
    found = [
        set(device["attributes"])
        for root in ("a", "b")
        for content in pool(
            Settings(tmp_path / root), units(Settings(tmp_path / root, software=1)), {}
        ).contents({})
        for device in content["devices"]
    ]
    assert all(names == {"driver", "driverVersion", "npu", "cores", "shared", "soc"} for names in found)
    bare = Unit("npu0", "x.npu", "rocket", "accel", None, None, 3, ())
    (content,) = pool(Settings(tmp_path), [bare], {}).contents({})
    attributes = content["devices"][0]["attributes"]
    assert (attributes["soc"], attributes["driverVersion"]) == ({"string": "unknown"}, {"version": "0.0.0"})


def test_rocket_is_offered_in_shares(tmp_path: Path) -> None:
    rocket_board(tmp_path)
    settings = Settings(tmp_path, strategy="cores")
    offered = pool(settings, units(settings), {}).offers
    assert [offer.id for offer in offered] == [f"npu0-share-{n}" for n in range(3)]


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


def test_an_npu_that_is_not_well_gets_a_taint(api: StandInApi, short: Path, tmp_path: Path) -> None:
    rknpu_board(tmp_path)
    found = units(Settings(tmp_path))
    made = driver(api, short, tmp_path)
    settled(made, found)
    made.refresh(found, {"npu0": "npu-thermal has 112 °C"})
    wait_for(lambda: all("taints" in one for one in devices(api).values()), "the taints")
    taint = devices(api)["npu0-core-0"]["taints"][0]
    assert (taint["key"], taint["value"], taint["effect"]) == ("npu.rockchip.com/unhealthy", "too-hot", "NoSchedule")
    writes = len([call for call in api.calls if call.startswith("PUT")])
    wait_for(lambda: made.is_published, "publication")
    made.refresh(found, {"npu0": "npu-thermal has 113 °C"})
    made.refresh(found, WELL)
    wait_for(lambda: not any("taints" in one for one in devices(api).values()), "the end of the taints")
    assert len([call for call in api.calls if call.startswith("PUT")]) <= writes + 2, "a degree is no news"
    made.close()


def test_without_taints_it_leaves_the_slices(api: StandInApi, short: Path, tmp_path: Path) -> None:
    api.gates -= {"DRADeviceTaints"}
    rknpu_board(tmp_path)
    found = units(Settings(tmp_path))
    made = driver(api, short, tmp_path)
    settled(made, found)
    assert len(devices(api)) == 5
    made.refresh(found, {"npu0": "too hot"})
    wait_for(lambda: len(api.slices) == 1, "the empty slice")
    (only,) = api.slices
    pool = dict(only["spec"]["pool"])
    assert pool.pop("generation") > 1, "how often the pool was written before depends on when the watch answers"
    assert pool == {"name": "board1", "resourceSliceCount": 1}
    made.refresh(found, WELL)
    wait_for(lambda: len(devices(api)) == 5, "the return")
    made.close()


def test_without_counters_nothing_that_is_offered_overlaps(api: StandInApi, short: Path, tmp_path: Path) -> None:
    api.gates = frozenset()
    rknpu_board(tmp_path)
    made = driver(api, short, tmp_path)
    settled(made, units(Settings(tmp_path)))
    made.close()
    assert [(one["name"], "consumesCounters" in one) for one in devices(api).values()] == [
        (f"npu0-core-{core}", False) for core in range(3)
    ]
    assert not [call for call in api.calls if "dryRun" not in call and "PUT" in call], "asked before, not mended after"


def test_shares_as_capacity(api: StandInApi, short: Path, tmp_path: Path) -> None:
    rknpu_board(tmp_path)
    made = driver(api, short, tmp_path, strategy="shares", dra_shares="capacity", shares=4)
    settled(made, units(Settings(tmp_path)))
    (device,) = devices(api).values()
    assert device["name"] == "npu0"
    assert device["allowMultipleAllocations"] is True
    policy = {"default": "1", "validRange": {"min": "1", "step": "1"}}
    assert device["capacity"] == {"shares": {"value": "4", "requestPolicy": policy}}
    with Kubelet(short) as kubelet:
        endpoint = kubelet.find_driver().endpoint
        api.claim("two", "uid-1", "npu0", "npu0", requests=("left", "right/fast"), shares=("s1", "s2"))
        answer = kubelet.call_driver(endpoint, "NodePrepareResources", ("home", "two", "uid-1")).claims["uid-1"]
    made.close()
    assert [(list(one.request_names), one.share_id, list(one.cdi_device_ids)) for one in answer.devices] == [
        (["left"], "s1", ["npu.rockchip.com/claim=uid-1-npu0-left"]),
        (["right"], "s2", ["npu.rockchip.com/claim=uid-1-npu0-right"]),
    ]
    for item in api.slices:
        kubernetes_validate.validate(item, "1.36", strict=True)


def test_many_devices_are_cut_into_slices(tmp_path: Path) -> None:
    settings = Settings(tmp_path, software=3, shares=50)
    contents = pool(settings, units(settings), {}).contents({})
    assert [len(one["devices"]) for one in contents] == [64, 64, 22]


def test_a_driver_that_was_killed_is_replaced(api: StandInApi, short: Path, tmp_path: Path) -> None:
    """Its sockets stay behind, and nobody answers on them: those of this version and those of older ones."""
    rknpu_board(tmp_path)
    for name in (
        "plugins_registry/npu.rockchip.com-reg.sock", "plugins/npu.rockchip.com/dra.sock",
        "plugins_registry/npu.rockchip.com-00000000010000-reg.sock", "plugins/npu.rockchip.com/dra-00000000010000.sock",
    ):  # fmt: skip
        (short / name).parent.mkdir(parents=True, exist_ok=True)
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(short / name))
    made = driver(api, short, tmp_path)
    with Kubelet(short) as kubelet:
        kubelet.scan()
        assert kubelet.drivers == {}
        settled(made, units(Settings(tmp_path)))
        assert kubelet.find_driver().name == "npu.rockchip.com"
        assert made.is_registered
    assert len(list(short.rglob("*.sock"))) == 2
    made.close()
    assert list(short.rglob("*.sock")) == []


def test_sockets_that_somebody_removed_are_made_again(api: StandInApi, short: Path, tmp_path: Path) -> None:
    rknpu_board(tmp_path)
    made = driver(api, short, tmp_path)
    settled(made, units(Settings(tmp_path)))
    (path,) = (short / "plugins_registry").iterdir()
    path.unlink()
    made.refresh(units(Settings(tmp_path)), WELL)
    assert path.exists()
    made.close()


def test_a_kubelet_that_does_not_come_gets_another_socket(api: StandInApi, short: Path, tmp_path: Path) -> None:
    """It tries a path that failed again only after a while, up to two minutes."""
    rknpu_board(tmp_path)
    now = [0.0]
    made = driver(api, short, tmp_path, clock=lambda: now[0])
    made.refresh(units(Settings(tmp_path)), WELL)
    (before,) = (short / "plugins_registry").iterdir()
    now[0] = 61
    made.refresh(units(Settings(tmp_path)), WELL)
    (after,) = (short / "plugins_registry").iterdir()
    made.close()
    assert before != after


def test_a_rolling_upgrade_has_no_gap(api: StandInApi, short: Path, tmp_path: Path) -> None:
    rknpu_board(tmp_path)
    found = units(Settings(tmp_path))
    older = driver(api, short, tmp_path)
    with Kubelet(short) as kubelet:
        settled(older, found)
        first = kubelet.find_driver().endpoint
        newer = driver(api, short, tmp_path, strategy="shares")
        settled(newer, found)
        second = kubelet.find_driver().endpoint
        assert first != second
        assert (older.is_registered, newer.is_registered) == (True, True)
        wait_for(lambda: older._publisher.is_held, "that the older one sees the newer one's slices")
        assert set(devices(api)) == {f"npu0-share-{share}" for share in range(3)}, "and lets them be"
        older.refresh(found, {"npu0": "too hot"})
        api.claim("eyes", "uid-1", "npu0-core-1")
        for endpoint in (first, second):  # whichever the kubelet takes, and names of before the upgrade
            answer = kubelet.call_driver(endpoint, "NodePrepareResources", ("home", "eyes", "uid-1"))
            assert answer.claims["uid-1"].error == ""
        older.close()
        assert kubelet.find_driver().endpoint == second
        kubelet.call_driver(second, "NodeUnprepareResources", ("home", "eyes", "uid-1"))
        assert "npu0-share-0" in devices(api)
        assert not any("taints" in one for one in devices(api).values())
    newer.close()
    assert list(short.rglob("*.sock")) == []
    assert list((short / "cdi").iterdir()) == []


def test_an_upgrade_that_crashes_leaves_the_older_one_in_charge(api: StandInApi, short: Path, tmp_path: Path) -> None:
    rknpu_board(tmp_path)
    found = units(Settings(tmp_path))
    older, newer = driver(api, short, tmp_path), driver(api, short, tmp_path, strategy="shares")
    settled(older, found)
    settled(newer, found)
    wait_for(lambda: older._publisher.is_held, "that the older one lets the newer one's slices be")
    newer.close()
    older.refresh(found, WELL)
    wait_for(lambda: "npu0-core-0" in devices(api), "the older one's slices")
    older.close()


def test_the_health_of_each_device_reaches_the_kubelet(api: StandInApi, short: Path, tmp_path: Path) -> None:
    rknpu_board(tmp_path)
    found = units(Settings(tmp_path))
    made = driver(api, short, tmp_path)
    with Kubelet(short) as kubelet:
        made.refresh(found, WELL)
        endpoint = kubelet.find_driver().endpoint
        with ThreadPoolExecutor(1) as pool:
            heard = pool.submit(kubelet.watch_health, endpoint, 2)
            wait_for(lambda: made._health.streams == 1, "the stream")
            made.refresh(found, {"npu0": "/dev/dri/renderD129 is gone"})
            well, ill = heard.result()
    made.close()
    assert well["npu0-core-0"] == (1, "")
    assert ill["npu0-core-0"] == (2, "/dev/dri/renderD129 is gone")
    assert {"npu0-cores-012", "npu0-share-0", "npu0"} <= set(ill), "by every name that a claim may have"


def test_health_that_was_not_looked_at_is_unknown() -> None:
    now = [100.0]
    health = ResourceHealth("board1", lambda: now[0])
    health.update([Offer("npu0", Unit("npu0", "x", "rknpu", "drm", None, None, 3, ()))], {"npu0": None})
    assert health._answer().devices[0].health == 1
    now[0] = 161.0
    assert (health._answer().devices[0].health, health._answer().devices[0].last_updated_time) == (0, 100)


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
