"""What depends on features: shares as capacity, an API server that has none of them, kinds of nodes, upgrades."""

from __future__ import annotations

import subprocess
import time
from typing import Any

from api import CLAIMS
from claims import claim_files, make_claim, pod_of_claim, remove, request, variables
from cluster import Cluster
from node import NAME, PYTHON
from processes import CheckError, end, expect, wait
from sandbox import add_node

_GATES = "DRADeviceTaints=false,DRAPartitionableDevices=false,DRAConsumableCapacity=false"
_RESOURCE = "rockchip.com/npu"


def shares_as_capacity(cluster: Cluster) -> str:
    """One device is given to several claims, until its shares are gone; two requests of a claim share it too."""
    cluster.stop_driver()
    cluster.start_driver("--strategy", "shares", "--shares", "3", "--dra-shares", "capacity")
    wait(lambda: set(cluster.devices()) == {"npu0", "soft0", "soft1"}, "the slices")
    expect(cluster.devices()["soft0"]["capacity"]["shares"]["value"] == "3", f"{cluster.devices()['soft0']}")
    soft = 'npu == "soft0"'
    make_claim(cluster, "two", request("npu", soft, capacity={"requests": {"shares": "2"}}))
    pod_of_claim(cluster, "two", {"": "env"})
    cluster.result("two")
    make_claim(cluster, "pair", request("left", soft), request("right", 'npu == "soft1"'))
    pod_of_claim(cluster, "pair", {"left": "env", "right": "env"})
    found = [variables(cluster.result(f"pair-{side}")) for side in ("left", "right")]
    expect(all(one.get("OPENRKNN_NPU") == "software" for one in found), f"{found}")
    make_claim(cluster, "full", request("npu", soft))
    pod_of_claim(cluster, "full", {"": "env"})
    wait(lambda: "cannot allocate all claims" in cluster.refusal("full"), "the scheduler's refusal")
    remove(cluster, "pair")
    seconds = wait((cluster.out / "full.done").exists, "the pod that waited")
    make_claim(cluster, "both", request("left", 'npu == "soft1"'), request("right", 'npu == "soft1"'))
    pod_of_claim(cluster, "both", {"left": "env", "right": "env"})
    for side in ("left", "right"):
        cluster.result(f"both-{side}")
    remove(cluster, "two", "full", "both")
    return f"2 + 1 of 3 shares; the next ran {seconds:.1f} s after one was free"


def alternatives(cluster: Cluster) -> str:
    """A request with a first and a second choice: the container names the request, not the choice."""
    cluster.stop_driver()
    cluster.start_driver()
    wait(lambda: "soft0-cores-012" in cluster.devices(), "the slices")
    choices = [
        {"name": name, **request("", condition, 'npu == "soft0"', "shared == false")["exactly"]}
        for name, condition in (("nine", "cores == 9"), ("two", "cores == 2"), ("one", "cores == 1"))
    ]
    make_claim(cluster, "choice", {"name": "npu", "firstAvailable": choices})
    pod_of_claim(cluster, "choice", {"npu": "env"})
    mask = variables(cluster.result("choice-npu")).get("OPENRKNN_CORE_MASK")
    expect(mask == "3", f"core mask {mask}")
    remove(cluster, "choice")
    return f"the second: core mask {mask}"


def eviction(cluster: Cluster) -> str:
    """--taint-effect NoExecute: a pod whose NPU is not well any more has to go."""
    cluster.stop_driver()
    cluster.start_driver("--taint-effect", "NoExecute")
    wait(lambda: any(name.startswith("npu0") for name in cluster.devices()), "the slices")
    make_claim(cluster, "evicted", request("npu", 'driver == "rocket"'))
    pod_of_claim(cluster, "evicted", {"": "env"})
    cluster.result("evicted")
    (cluster.board / "dev/accel/accel0").unlink()
    try:
        seconds = wait(lambda: "evicted" not in cluster.states(), "the eviction")
    finally:
        add_node(cluster.board)
    cluster.api.delete(f"{CLAIMS}/evicted")
    wait(lambda: not [item for item in cluster.api.get(CLAIMS)["items"] if item["metadata"]["name"] == "evicted"], "it")
    wait(lambda: not claim_files(), "the end of its files")
    return f"gone {seconds:.1f} s after its device node"


def gates_off_at_the_api_server(cluster: Cluster) -> str:
    """It drops fields without a word: nothing that overlaps is offered, and an NPU that is not well is not in it."""
    cluster.stop_driver()
    _delete_slices(cluster)
    words = _restart_api_server(cluster, f"--feature-gates={_GATES}")
    try:
        cluster.start_driver()
        wait(lambda: bool(cluster.devices()), "the slices")
        found = cluster.devices()
        expect({f"soft0-core-{core}" for core in range(3)} <= found.keys(), f"{sorted(found)}")
        expect(not [name for name in found if "-cores-" in name], f"{sorted(found)}")
        make_claim(cluster, "plain", request("npu", "cores == 1", 'npu == "soft0"'))
        pod_of_claim(cluster, "plain", {"": "env"})
        mask = variables(cluster.result("plain"))["OPENRKNN_CORE_MASK"]
        remove(cluster, "plain")
        (cluster.board / "dev/accel/accel0").unlink()
        seconds = wait(lambda: not [name for name in cluster.devices() if name.startswith("npu0")], "the withdrawal")
        add_node(cluster.board)
        wait(lambda: [name for name in cluster.devices() if name.startswith("npu0")], "the return")
    finally:
        cluster.stop_driver()
        _delete_slices(cluster)
        _restart_api_server(cluster, words=words)
    return f"single cores (mask {mask}); withdrawn after {seconds:.1f} s"


def kinds_of_nodes(cluster: Cluster) -> str:
    """--config with an entry for the label of this node; a change is noticed while the driver runs."""
    file = cluster.work / "plugin.toml"
    entry = f'[[node]]\nlabels = {{ "kubernetes.io/hostname" = "{NAME}" }}\nsoftware = 1\n'
    file.write_text(f'strategy = "shares"\n[[node]]\nnames = ["other-*"]\nshares = 9\n{entry}')
    cluster.stop_driver()
    cluster.start_driver("--config", str(file))
    wait(lambda: [name for name in cluster.devices() if name.startswith("soft")] == ["soft0-share-0"], "the slices")
    file.write_text(f'strategy = "cores"\n{entry}')
    seconds = wait(lambda: "soft0-cores-012" in cluster.devices(), "the change")
    expect("soft1-core-0" not in cluster.devices(), f"{sorted(cluster.devices())}")
    cluster.stop_driver()
    return f"a change took {seconds:.1f} s"


def upgrade_of_the_device_plugin(cluster: Cluster) -> str:
    """A second plugin starts before the first ends. The kubelet then drops the second too, which comes back."""
    cluster.stop_plugin()
    old = _plugin(cluster, "plugin-old")
    wait(lambda: _allocatable(cluster) == 3, "the first plugin's devices")
    new = _plugin(cluster, "plugin-new")
    wait(lambda: f"registered {_RESOURCE}" in cluster.processes.log("plugin-new"), "the second registration")
    end(old)
    try:
        seconds = wait(lambda: cluster.processes.log("plugin-new").count(f"registered {_RESOURCE}") > 1, "the return")
        time.sleep(3)  # the node's status follows every two seconds
        wait(lambda: _allocatable(cluster) == 3, "the devices")
        cluster.pod("upgraded", 1, "env")
        text = cluster.result("upgraded")
        cluster.delete("upgraded")
        if "OPENRKNN_NPU=" not in text:
            raise CheckError(text)
        count = cluster.processes.log("plugin-new").count(f"registered {_RESOURCE}")
    finally:
        end(new)
    return f"registered again after {seconds:.1f} s, {count} times in all"


def _plugin(cluster: Cluster, name: str) -> subprocess.Popen[bytes]:
    return cluster.processes.start(
        name, str(PYTHON), "-m", "openrknn.cli", "device-plugin", "--root", str(cluster.board), "--software", "2",
        "--interval", "5",
    )  # fmt: skip


def _allocatable(cluster: Cluster) -> int:
    status = cluster.api.get(f"/api/v1/nodes/{NAME}")["status"]
    return int(status.get("allocatable", {}).get(_RESOURCE, "0"))


def _restart_api_server(cluster: Cluster, *more: str, words: list[str] | None = None) -> list[str]:
    """With more flags, or with those of before; what it had."""
    given: Any = cluster.api_server.args
    before = [str(one) for one in given]
    end(cluster.api_server)
    cluster.api_server = cluster.processes.start("kube-apiserver", *(words or [*before, *more]))
    wait(lambda: cluster.api.get("/readyz"), "the API server")
    return before


def _delete_slices(cluster: Cluster) -> None:
    """A server keeps the fields of objects that had them."""
    cluster.kubectl("delete", "resourceslices", "--all")


CHECKS = (
    shares_as_capacity, alternatives, eviction, gates_off_at_the_api_server, kinds_of_nodes,
    upgrade_of_the_device_plugin,
)  # fmt: skip
