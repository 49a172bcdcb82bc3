"""Dynamic resource allocation: slices, claims, CDI, health, on a real API server, scheduler and kubelet."""

from __future__ import annotations

import subprocess
import urllib.request
from typing import Any

from api import CLASSES, SLICES, RefusedError
from check_plugin import host_answer, inference
from claims import apply, documents, make_claim, pod_of_claim, remove, request, variables
from cluster import ACCOUNT, DRIVER, NAMESPACE, Cluster
from node import NAME, ROOT
from processes import CheckError, expect, wait
from sandbox import add_node

_OVERLAY = "deploy/kubernetes/overlays/dra-software"


def account_and_rights(cluster: Cluster) -> str:
    """Everything of the overlay but the DaemonSet: the driver runs here on the node, with the account's token."""
    values = documents(cluster.kubectl("kustomize", _OVERLAY))
    apply(cluster, [one for one in values if one["kind"] == "Namespace"])
    apply(cluster, [one for one in values if one["kind"] not in ("Namespace", "DaemonSet", "PodMonitor")])
    expect(cluster.token(), f"no token of {NAMESPACE}/{ACCOUNT}")
    return ", ".join(sorted({one["kind"] for one in values}))


def slices_published(cluster: Cluster) -> str:
    """Cores as counters, and devices for every set of cores that can be started."""
    cluster.start_driver()
    seconds = wait(lambda: len(cluster.devices()) >= 5, "the slices")
    wait(lambda: "registered the DRA driver" in cluster.processes.log("driver"), "registration")
    found = cluster.devices()
    wanted = {f"soft{npu}-{name}" for npu in (0, 1) for name in ("core-0", "core-1", "core-2", "cores-01", "cores-012")}
    expect(wanted <= found.keys(), f"{sorted(found)}")
    items = cluster.api.slices(DRIVER, NAME)
    owners = [owner for item in items for owner in item["metadata"]["ownerReferences"]]
    expect(all(owner["kind"] == "Node" and owner["name"] == NAME for owner in owners), f"{owners}")
    counters = [one["name"] for item in items for one in item["spec"].get("sharedCounters", ())]
    expect({"soft0", "soft1"} <= set(counters), f"counters {counters}")
    return f"{len(found)} devices {seconds:.1f} s after the start"


def claim_of_the_example(cluster: Cluster) -> str:
    """deploy/kubernetes/examples/claim.yaml: its CEL on software devices; an inference with the right mask."""
    values = documents((ROOT / "deploy/kubernetes/examples/claim.yaml").read_text())
    template = next(one for one in values if one["kind"] == "ResourceClaimTemplate")
    apply(cluster, [template])
    pod_of_claim(cluster, "example", {"": inference()}, template=template["metadata"]["name"])
    text = cluster.result("example")
    expect(text.startswith(host_answer()), text)
    found = variables(text)
    expect(found.get("OPENRKNN_NPU") == "software" and found.get("OPENRKNN_CORE_MASK") in ("1", "2", "4"), text)
    return f"core mask {found['OPENRKNN_CORE_MASK']}"


def pod_resources_of_claims(cluster: Cluster) -> str:
    """The driver's metrics say which pod has which core."""
    port = _metrics_port(cluster)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text = str(answer.read(), "utf-8")
    lines = [line for line in text.splitlines() if line.startswith("openrknn_npu_pod{")]
    expect(any('pod="example"' in line and 'npu=""' not in line for line in lines), text)
    remove(cluster, "example")
    return lines[0]


def two_requests_in_a_claim(cluster: Cluster) -> str:
    """Each container has the mask of its own request."""
    core = ('soc == "rk3588"', "cores == 1", 'npu == "soft0"')
    make_claim(cluster, "two", request("left", *core), request("right", *core))
    pod_of_claim(cluster, "two", {"left": inference(), "right": inference()})
    masks = []
    for name in ("left", "right"):
        text = cluster.result(f"two-{name}")
        expect(text.startswith(host_answer()), text)
        masks.append(variables(text)["OPENRKNN_CORE_MASK"])
    expect(len(set(masks)) == 2 and set(masks) <= {"1", "2", "4"}, f"masks {masks}")
    remove(cluster, "two")
    return f"core masks {' and '.join(masks)}"


def pairs_and_triples(cluster: Cluster) -> str:
    """Cores 0 and 1, or all three: one device each, one mask."""
    found = []
    for count in (2, 3):
        name = f"cores{count}"
        make_claim(cluster, name, request("npu", f"cores == {count}", "shared == false"))
        pod_of_claim(cluster, name, {"": "env"})
        found.append(variables(cluster.result(name))["OPENRKNN_CORE_MASK"])
        remove(cluster, name)
    expect(found == ["3", "7"], f"masks {found}")
    return f"core masks {' and '.join(found)}"


def cores_run_out(cluster: Cluster) -> str:
    """Three cores are three claims; the fourth waits until one ends."""
    names = [f"one{number}" for number in range(4)]
    for name in names[:3]:
        make_claim(cluster, name, request("npu", "cores == 1", 'npu == "soft0"', "shared == false"))
        pod_of_claim(cluster, name, {"": "env"})
    masks = {variables(cluster.result(name))["OPENRKNN_CORE_MASK"] for name in names[:3]}
    expect(masks == {"1", "2", "4"}, f"masks {masks}")
    make_claim(cluster, names[3], request("npu", "cores >= 1", 'npu == "soft0"', "shared == false"))
    pod_of_claim(cluster, names[3], {"": "env"})
    wait(lambda: "cannot allocate all claims" in cluster.refusal(names[3]), "the scheduler's refusal")
    remove(cluster, names[1])
    seconds = wait((cluster.out / f"{names[3]}.done").exists, "the fourth pod")
    mask = variables(cluster.result(names[3]))["OPENRKNN_CORE_MASK"]
    remove(cluster, names[0], names[2], names[3])
    return f"the fourth ran {seconds:.1f} s after one had ended, with core mask {mask}"


def extended_resource(cluster: Cluster) -> str:
    """A pod that asks for `rockchip.com/npu: 1`, as with the device plugin, is served by claims."""
    device_class: dict[str, Any] = cluster.api.get(f"{CLASSES}/{DRIVER}")
    name = "extended.npu.rockchip.com"
    condition = f'device.attributes["{DRIVER}"].cores == 1 && device.attributes["{DRIVER}"].driver == "software"'
    selectors = [*device_class["spec"].get("selectors", ()), {"cel": {"expression": condition}}]
    kind = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}}
    cluster.api.post(CLASSES, {**kind, "spec": {"selectors": selectors, "extendedResourceName": "rockchip.com/npu"}})
    try:
        stored = cluster.api.get(f"{CLASSES}/{name}")["spec"]
        if "extendedResourceName" not in stored:
            return "this API server does not know extendedResourceName: not checked"
        cluster.pod("extended", 1, inference())
        text = cluster.result("extended")
        expect(text.startswith(host_answer()), text)
        mask = variables(text)["OPENRKNN_CORE_MASK"]
        cluster.delete("extended")
    finally:
        cluster.api.delete(f"{CLASSES}/{name}")
    return f"core mask {mask}"


def another_nodes_slice_is_refused(cluster: Cluster) -> str:
    """The admission policy: a driver's token writes slices of its own node only."""
    mine = cluster.api_of(token=cluster.token())
    other = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "another-node"},
        "spec": {
            "driver": DRIVER,
            "nodeName": "board2",
            "pool": {"name": "board2", "generation": 1, "resourceSliceCount": 1},
            "devices": [],
        },
    }
    policies = cluster.api.get("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies")["items"]
    if not any("openrknn" in one["metadata"]["name"] for one in policies):
        raise CheckError("the manifests have no ValidatingAdmissionPolicy")
    said = ""

    def refused() -> bool:
        nonlocal said
        try:
            mine.post(SLICES, other)
        except RefusedError as error:
            said = str(error)
            return error.status in (403, 422)
        mine.delete(f"{SLICES}/another-node")
        return False

    wait(refused, "the refusal", 30)
    cluster.api.post(SLICES, other)  # as the administrator
    try:
        for method, value in (("DELETE", None), ("PUT", cluster.api.get(f"{SLICES}/another-node"))):
            try:
                mine.call(method, f"{SLICES}/another-node", value)
            except RefusedError as error:
                expect(error.status in (403, 422), str(error))
            else:
                raise CheckError(f"{method} of another node's slice was allowed")
    finally:
        cluster.api.delete(f"{SLICES}/another-node")
    return said.partition(": ")[2][:160]


def health_and_taints(cluster: Cluster) -> str:
    """The fake NPU loses its node: no new claim gets it, and the one that has it is told; then it is well again."""
    make_claim(cluster, "held", request("npu", 'driver == "rocket"'))
    pod_of_claim(cluster, "held", {"": "/bin/busybox head -c 4 /dev/accel/accel0 | /bin/busybox od; env"})
    text = cluster.result("held")
    expect("0000000 000000 000000" in text, text)
    expect("OPENRKNN_NPU=rocket:/dev/accel/accel0" in text, text)
    (cluster.board / "dev/accel/accel0").unlink()
    seconds = wait(lambda: not _offered(cluster, "npu0"), "the taint")
    shown = _offered(cluster, "npu0", tainted=True)
    make_claim(cluster, "next", request("npu", 'driver == "rocket"'))
    pod_of_claim(cluster, "next", {"": "env"})
    wait(lambda: "cannot allocate all claims" in cluster.refusal("next"), "the scheduler's refusal")
    told = "the kubelet was not told"
    try:
        wait(lambda: _health_in_status(cluster, "held") == "Unhealthy", "the pod's status", 30)
        told = "the pod's status says Unhealthy"
    except CheckError as error:
        told = str(error)
    add_node(cluster.board)
    back = wait(lambda: _offered(cluster, "npu0"), "the device's return")
    remove(cluster, "held")  # the only share
    cluster.result("next")
    remove(cluster, "next")
    return f"{'tainted' if shown else 'withdrawn'} after {seconds:.1f} s, {told}, back after {back:.1f} s"


def _offered(cluster: Cluster, npu: str, *, tainted: bool = False) -> list[str]:
    """The devices of an NPU in the slices that have, or have no, taint."""
    found = {name: one for name, one in cluster.devices().items() if name.startswith(npu + "-")}
    return [name for name, one in found.items() if bool(one.get("taints")) == tainted]


def _health_in_status(cluster: Cluster, pod: str) -> str:
    for container in cluster.states()[pod].get("containerStatuses", ()):
        for resource in container.get("allocatedResourcesStatus", ()):
            for one in resource.get("resources", ()):
                return str(one.get("health", ""))
    return ""


def _metrics_port(cluster: Cluster) -> int:
    process: subprocess.Popen[bytes] | None = cluster.driver
    if process is None:
        raise CheckError("there is no driver")
    words = list(map(str, process.args)) if isinstance(process.args, (list, tuple)) else []
    return int(words[words.index("--metrics-port") + 1])


RIGHTS = (account_and_rights,)
CHECKS = (
    slices_published, claim_of_the_example, pod_resources_of_claims, two_requests_in_a_claim,
    pairs_and_triples, cores_run_out, extended_resource, health_and_taints, another_nodes_slice_is_refused,
)  # fmt: skip
