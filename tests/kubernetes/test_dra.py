"""The DRA driver against a kubelet and an API server that speak the real interfaces."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from openrknn.kubernetes.api import ApiServer
from openrknn.kubernetes.dra import Driver, Folders
from openrknn.kubernetes.inventory import Settings, units
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
    settings = Settings(root, **{"strategy": "cores", **more})
    return Driver(settings, "board1", ApiServer(api.url, token), Folders(short, short / "cdi"))


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
