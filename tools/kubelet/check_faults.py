"""What happens to drivers, kubelets and API servers: kill -9, restarts, thousands of foreign slices, broken tokens."""

from __future__ import annotations

import concurrent.futures
import os
import random
import time
from pathlib import Path
from typing import Any

from api import CLAIMS, PODS, SLICES
from claims import CDI, claim_files, make_claim, pod_of_claim, remove, request, variables
from cluster import DRIVER, Cluster
from node import NAME
from processes import CheckError, end, expect, kill, resident, say, wait

KILLS = int(os.environ.get("OPENRKNN_KUBELET_KILLS", "6"))
RESTARTS = int(os.environ.get("OPENRKNN_KUBELET_RESTARTS", "4"))
FOREIGN = int(os.environ.get("OPENRKNN_KUBELET_FOREIGN", "3000"))
BAR_SECONDS, BAR_MIB = 2.0, 64.0
"""Slices are back this soon, and the driver is no larger than this."""
_CORE = ("cores == 1", "shared == false")


def kill_at_random_moments(cluster: Cluster) -> str:
    """kill -9 while a claim comes: the next driver prepares it, and nothing stays on the node."""
    seed = int(os.environ.get("OPENRKNN_KUBELET_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
    moments, slowest = random.Random(seed), 0.0
    if cluster.driver is None:
        cluster.start_driver()
    wait(lambda: len(cluster.devices()) >= 5, "the slices")
    for number in range(KILLS):
        name = f"killed{number}"
        make_claim(cluster, name, request("npu", *_CORE))
        pod_of_claim(cluster, name, {"": "env"})
        time.sleep(moments.uniform(0, 2))
        if cluster.driver is not None:
            kill(cluster.driver)
        cluster.start_driver()
        slowest = max(slowest, wait((cluster.out / f"{name}.done").exists, f"the pod {name}"))
        expect("OPENRKNN_CORE_MASK" in variables(cluster.result(name)), cluster.result(name))
        time.sleep(moments.uniform(0, 0.5))
        if number % 2 and cluster.driver is not None:  # and while it goes
            kill(cluster.driver)
            cluster.start_driver()
        remove(cluster, name)
    expect(not claim_files(), f"left on the node: {claim_files()}")
    return f"{KILLS} times (seed {seed}), the slowest pod ran {slowest:.1f} s after the new driver's start"


def restarts_of_the_kubelet(cluster: Cluster) -> str:
    """A kubelet that starts deletes its node's slices; they are back soon after it has registered the driver."""
    make_claim(cluster, "stays", request("npu", *_CORE))
    pod_of_claim(cluster, "stays", {"": "env"})
    cluster.result("stays")
    tasks, slowest, longest = cluster.ctr("tasks", "list"), 0.0, 0.0
    for number in range(RESTARTS):
        seen = cluster.processes.log("driver").count("registered the DRA driver")
        before = _uids(cluster)
        (kill if number % 2 else end)(cluster.kubelet)
        cluster.kubelet = cluster.start_kubelet()
        registered = gone = back = 0.0
        started = time.monotonic()
        while time.monotonic() - started < 60 and not (registered and back):
            now, found = time.monotonic(), _uids(cluster)
            if not registered and cluster.processes.log("driver").count("registered the DRA driver") > seen:
                registered = now
            if not gone and found != before:
                gone = now
            back = now if gone and not back and len(found) >= len(before) and not found & before else back
            time.sleep(0.02)
        if not registered:
            raise CheckError("the kubelet did not register the driver again")
        if not gone:
            say("    the kubelet did not delete the slices")
            continue
        expect(back, "the slices did not come back")
        slowest, longest = max(slowest, back - registered), max(longest, back - gone)
        time.sleep(1)
        expect(len(_uids(cluster)) >= len(before), "the slices went again")
    expect(sorted(tasks.splitlines()) == sorted(cluster.ctr("tasks", "list").splitlines()), "containers were touched")
    make_claim(cluster, "after", request("npu", *_CORE))
    pod_of_claim(cluster, "after", {"": "env"})
    cluster.result("after")
    remove(cluster, "stays", "after")
    expect(slowest <= BAR_SECONDS, f"slices were back {slowest:.2f} s after the registration")
    return f"{RESTARTS} times, slices back {slowest:.2f} s after registration, {longest:.2f} s after they went"


def slices_by_hand(cluster: Cluster) -> str:
    """Somebody deletes or changes our slices: they are as they should be again, soon."""
    wanted = _specs(cluster)
    for item in cluster.api.slices(DRIVER, NAME):
        cluster.api.delete(f"{SLICES}/{item['metadata']['name']}")
    deleted = wait(lambda: _specs(cluster) == wanted, "the slices' return", pause=0.05)
    item = next(item for item in cluster.api.slices(DRIVER, NAME) if item["spec"].get("devices"))
    item["spec"]["devices"] = item["spec"]["devices"][:1]
    cluster.api.call("PUT", f"{SLICES}/{item['metadata']['name']}", item)
    changed = wait(lambda: _specs(cluster) == wanted, "the slices' return", pause=0.05)
    expect(max(deleted, changed) <= BAR_SECONDS, f"after {deleted:.2f} s (deleted), {changed:.2f} s (changed)")
    return f"deleted: {deleted:.2f} s, changed: {changed:.2f} s"


def thousands_of_foreign_slices(cluster: Cluster) -> str:
    """Other drivers' slices, and other nodes': the driver neither reads nor keeps them."""
    before = _rss(cluster)

    def one(number: int) -> None:
        driver = DRIVER if number % 2 else "gpu.example.com"
        attributes = {f"attribute{index}": {"string": "x" * 60} for index in range(12)}
        devices = [{"name": f"device{index}", "attributes": attributes} for index in range(8)]
        pool = {"name": f"node{number}", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": driver, "nodeName": f"node{number}", "pool": pool, "devices": devices}
        meta = {"name": f"foreign-{number}", "labels": {"foreign": "yes"}}
        cluster.api.post(
            SLICES, {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": meta, "spec": spec}
        )

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(one, range(FOREIGN)))
    wanted, seen = _specs(cluster), cluster.processes.log("driver").count("registered the DRA driver")
    if cluster.driver is not None:
        kill(cluster.driver)
    cluster.start_driver()
    wait(lambda: cluster.processes.log("driver").count("registered the DRA driver") > seen, "the new driver")
    for item in cluster.api.slices(DRIVER, NAME):
        cluster.api.delete(f"{SLICES}/{item['metadata']['name']}")
    seconds = wait(lambda: _specs(cluster) == wanted, "the slices' return", pause=0.05)
    time.sleep(12)  # past a comparison or two
    after, most = _rss(cluster), resident(cluster.driver, "VmHWM") if cluster.driver else 0.0
    cluster.kubectl("delete", "resourceslices", "-l", "foreign=yes", "--wait=false")
    expect(most <= BAR_MIB, f"{most:.1f} MiB with {FOREIGN} foreign slices (before: {before:.1f})")
    return f"{FOREIGN}: {before:.1f} MiB before, {after:.1f} after, {most:.1f} at most; repaired in {seconds:.2f} s"


def restart_of_the_api_server(cluster: Cluster) -> str:
    """Its watches break; the driver goes on afterwards."""
    kill(cluster.api_server)
    time.sleep(2)
    cluster.start_api_server()
    wait(lambda: cluster.api.get("/readyz"), "the API server")
    wait(lambda: len(cluster.devices()) >= 5, "the slices")
    wanted = _specs(cluster)
    for item in cluster.api.slices(DRIVER, NAME):
        cluster.api.delete(f"{SLICES}/{item['metadata']['name']}")
    seconds = wait(lambda: _specs(cluster) == wanted, "the slices' return", pause=0.05)
    make_claim(cluster, "afterwards", request("npu", *_CORE))
    pod_of_claim(cluster, "afterwards", {"": "env"})
    cluster.result("afterwards")
    remove(cluster, "afterwards")
    return f"slices repaired {seconds:.2f} s after"


def token_that_is_not_valid(cluster: Cluster) -> str:
    """The driver reads the file again, and is well as soon as the token is."""
    token = cluster.work / "token"
    right = token.read_text()
    wanted = _specs(cluster)
    token.write_text("nonsense")
    for item in cluster.api.slices(DRIVER, NAME):
        cluster.api.delete(f"{SLICES}/{item['metadata']['name']}")
    wait(lambda: "401" in cluster.processes.log("driver"), "a word about the token")
    expect(cluster.driver is not None and cluster.driver.poll() is None, "the driver ended")
    token.write_text(right)
    seconds = wait(lambda: _specs(cluster) == wanted, "the slices' return", pause=0.05)
    return f"published {seconds:.1f} s after the token was right"


def leftovers(cluster: Cluster) -> str:
    """A node whose kubelet forgot a claim, half-written files: they go when the driver starts; other drivers' stay."""
    uid = make_claim(cluster, "lost", request("npu", *_CORE))
    pod_of_claim(cluster, "lost", {"": "env"})
    cluster.result("lost")
    expect(any(uid in name for name in claim_files()), f"no CDI file: {claim_files()}")
    kill(cluster.kubelet)
    if cluster.driver is not None:
        kill(cluster.driver)
    for path in Path("/var/lib/kubelet").glob("dra_manager_state*"):
        path.unlink()
    cluster.api.delete(f"{PODS}/lost", grace=0)
    cluster.api.delete(f"{CLAIMS}/lost")
    wait(lambda: "lost" not in [item["metadata"]["name"] for item in cluster.api.get(CLAIMS)["items"]], "no claim")
    half, others = CDI / ".openrknn-abcdefgh", CDI / "example.com-gpu.json"
    half.write_text('{"cdiVersion": "0.3')
    others.write_text('{"cdiVersion": "0.3.0", "kind": "example.com/gpu", "devices": []}')
    os.utime(half, (1, 1))  # a young one may be another process's work
    cluster.kubelet = cluster.start_kubelet()
    cluster.start_driver()
    try:
        seconds = wait(lambda: claim_files() == [others.name], "the cleaning", 90)
    except CheckError as error:
        raise CheckError(f"{error}: {claim_files()}") from None
    finally:
        for path in (half, others):
            path.unlink(missing_ok=True)
    return f"gone {seconds:.1f} s after the start"


def rolling_upgrade(cluster: Cluster) -> str:
    """A second driver starts before the first ends: claims are prepared all the time, and slices never vanish."""
    cluster.stop_driver()
    old = cluster.start_driver(name="driver-old", POD_UID="11111111-1111-4111-8111-111111111111")
    wait(lambda: "registered the DRA driver" in cluster.processes.log("driver-old"), "the first registration")
    wait(lambda: len(cluster.devices()) >= 5, "the slices")
    before, slowest, gaps = len(cluster.devices()), 0.0, 0
    for number in range(4):
        name = f"upgrade{number}"
        make_claim(cluster, name, request("npu", *_CORE))
        pod_of_claim(cluster, name, {"": "env"})
        if number == 1:
            new = cluster.start_driver(name="driver-new", POD_UID="22222222-2222-4222-8222-222222222222")
            wait(lambda: "registered the DRA driver" in cluster.processes.log("driver-new"), "the second registration")
        elif number == 2:
            end(old)
        started = time.monotonic()
        while not (cluster.out / f"{name}.done").exists():
            gaps += len(cluster.devices()) < before
            if time.monotonic() - started > 60:
                raise CheckError(f"the pod {name} did not run: {cluster.kubectl('describe', 'pod', name)[-2000:]}")
            time.sleep(0.05)
        slowest = max(slowest, time.monotonic() - started)
    remove(cluster, *(f"upgrade{number}" for number in range(4)))
    time.sleep(35)  # a kubelet that lost a driver deletes its slices after half a minute
    expect(len(cluster.devices()) >= before, "the slices went after the upgrade")
    end(new)
    cluster.driver = None
    cluster.start_driver()
    wait(lambda: len(cluster.devices()) >= 5, "the slices")
    expect(not gaps, f"slices were missing {gaps} times")
    return f"4 claims, the slowest {slowest:.1f} s; slices always there"


def _specs(cluster: Cluster) -> list[Any]:
    """What is offered, without what counts up."""
    found = sorted(cluster.api.slices(DRIVER, NAME), key=lambda item: str(item["metadata"]["name"]))
    return [{**item["spec"], "pool": item["spec"]["pool"]["name"]} for item in found]


def _uids(cluster: Cluster) -> set[str]:
    return {item["metadata"]["uid"] for item in cluster.api.slices(DRIVER, NAME)}


def _rss(cluster: Cluster) -> float:
    if cluster.driver is None:
        raise CheckError("there is no driver")
    return resident(cluster.driver)


CHECKS = (
    kill_at_random_moments, restarts_of_the_kubelet, slices_by_hand, thousands_of_foreign_slices,
    restart_of_the_api_server, token_that_is_not_valid, leftovers, rolling_upgrade,
)  # fmt: skip
