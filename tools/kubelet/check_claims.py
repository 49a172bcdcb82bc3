"""Claims beyond the plain one: several pods, several devices, tolerations."""

from __future__ import annotations

from api import CLAIMS
from check_plugin import inference
from claims import claim_files, make_claim, pod_of_claim, remove, request, variables
from cluster import DRIVER, Cluster
from processes import CheckError, expect, wait
from sandbox import add_node


def one_claim_for_two_pods(cluster: Cluster) -> str:
    """It is prepared once, stays while one of them runs, and goes with the last."""
    if cluster.driver is None:
        cluster.start_driver()
    wait(lambda: len(cluster.devices()) >= 5, "the slices")
    uid = make_claim(cluster, "common", request("npu", "cores == 1", 'driver == "software"'))
    masks = []
    for name in ("first", "second"):
        pod_of_claim(cluster, name, {"": "env"}, claim="common")
        masks.append(variables(cluster.result(name))["OPENRKNN_CORE_MASK"])
    expect(masks[0] == masks[1], f"masks {masks}")
    cluster.delete("first")
    expect(any(uid in name for name in claim_files()), "the file went with the first pod")
    cluster.delete("second")
    wait(lambda: not any(uid in name for name in claim_files()), "the end of the file")
    cluster.api.delete(f"{CLAIMS}/common")
    return f"core mask {masks[0]} twice"


def two_devices_in_a_request(cluster: Cluster) -> str:
    """Two NPUs for one container: the first is what `auto` means, both are named."""
    one = {"count": 2, "allocationMode": "ExactCount"}
    wanted = request("npu", "cores == 3", 'driver == "software"')
    wanted["exactly"].update(one)
    make_claim(cluster, "double", wanted)
    pod_of_claim(cluster, "double", {"": inference()})
    found = variables(cluster.result("double"))
    expect(found.get("OPENRKNN_NPUS") == "software,software" and found.get("OPENRKNN_CORE_MASK") == "7", f"{found}")
    remove(cluster, "double")
    return f"OPENRKNN_NPUS={found['OPENRKNN_NPUS']}"


def toleration_of_an_eviction(cluster: Cluster) -> str:
    """`--taint-effect NoExecute`: a pod that has the NPU is ended, and a pod whose claim tolerates the taint is not."""
    cluster.stop_driver()
    cluster.start_driver("--taint-effect", "NoExecute", "--strategy", "shares", "--shares", "2")
    wait(lambda: "npu0-share-1" in cluster.devices(), "the shares")
    patient = request("npu", 'driver == "rocket"')
    # The effect has to be named: without one the scheduler is content, and 1.36 evicts all the same.
    patient["exactly"]["tolerations"] = [
        {"key": f"{DRIVER}/unhealthy", "operator": "Exists", "effect": "NoExecute"},
    ]
    make_claim(cluster, "patient", patient)
    make_claim(cluster, "evicted", request("npu", 'driver == "rocket"'))
    for name in ("patient", "evicted"):
        pod_of_claim(cluster, name, {"": "env"})
        cluster.result(name)
    (cluster.board / "dev/accel/accel0").unlink()
    try:
        seconds = wait(lambda: "evicted" not in cluster.states(), "the eviction", 60)
        expect(
            cluster.states().get("patient", {}).get("phase") == "Running", "the pod that tolerates the taint ended too"
        )
    except CheckError as error:
        taints = [one.get("taints") for one in cluster.devices().values()]
        raise CheckError(f"{error}; taints {taints}") from None
    finally:
        add_node(cluster.board)
    cluster.api.delete(f"{CLAIMS}/evicted")
    remove(cluster, "patient")
    cluster.stop_driver()
    cluster.start_driver()
    wait(lambda: "soft0-core-0" in cluster.devices(), "the slices")
    return f"{seconds:.1f} s after the fault"


CHECKS = (one_claim_for_two_pods, two_devices_in_a_request, toleration_of_an_eviction)
