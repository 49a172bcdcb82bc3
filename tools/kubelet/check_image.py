"""The shipped manifests run with the shipped image: OPENRKNN_IMAGE=FILE, made by `packaging/build native image`."""

from __future__ import annotations

import json
import os
import shutil
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from claims import apply, claim_files, documents, make_claim, pod_of_claim, remove, request, variables
from cluster import NAMESPACE, Cluster
from node import MODEL
from processes import CheckError, expect, wait

IMAGE = "docker.io/library/openrknn:latest"
_DAEMON = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets/openrknn-device-plugin"
_TOKEN = "a-long-token-for-tests-0123456789"
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


def the_image(cluster: Cluster) -> str:
    """As the kubelet finds it."""
    cluster.stop_driver()
    before = set(cluster.ctr("images", "list", "--quiet").split())
    cluster.ctr("images", "import", os.environ["OPENRKNN_IMAGE"])
    made = sorted(set(cluster.ctr("images", "list", "--quiet").split()) - before)
    expect(made, "the file has no image for this machine")
    cluster.ctr("images", "tag", "--force", made[0], IMAGE)
    return made[0]


def daemon_set(cluster: Cluster) -> str:
    """The overlay `dra-software` as it is: root without capabilities, the account's own token, and slices appear."""
    values = documents(cluster.kubectl("kustomize", "deploy/kubernetes/overlays/dra-software"))
    apply(cluster, [one for one in values if one["kind"] != "PodMonitor"])
    seconds = wait(lambda: _is_rolled_out(cluster), "the DaemonSet")
    try:
        wait(lambda: len(cluster.devices()) >= 5, "the slices")
    except CheckError as error:
        said = cluster.kubectl("-n", NAMESPACE, "logs", "daemonset/openrknn-device-plugin", "--tail=20", fine=True)
        raise CheckError(f"{error}, only {sorted(cluster.devices())}: {said}") from None
    pod = _pods(cluster)[0]
    policy = cluster.api.get("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies")["items"]
    kept = [one["metadata"]["name"] for one in policy]
    return f"ready after {seconds:.1f} s as {pod['spec']['serviceAccountName']}, with the policies {', '.join(kept)}"


def example_pod(cluster: Cluster) -> str:
    """deploy/kubernetes/examples/claim.yaml as it is: a picture of a cat, on one core."""
    values = documents(cluster.kubectl("kustomize", "deploy/kubernetes/examples"))
    wanted = [one for one in values if one["metadata"]["name"] in ("one-core", "openrknn-claim")]
    for one in wanted:
        one["metadata"].setdefault("namespace", "default")
    apply(cluster, wanted)
    wait(lambda: cluster.states()["openrknn-claim"]["phase"] in ("Succeeded", "Failed"), "the end of the example")
    said = cluster.kubectl("logs", "openrknn-claim", fine=True)
    expect(cluster.states()["openrknn-claim"]["phase"] == "Succeeded", said)
    cluster.delete("openrknn-claim")
    wait(lambda: not claim_files(), "the end of the claim")
    return " ".join(said.split())[:160]


def rolling_update(cluster: Cluster) -> str:
    """`kubectl rollout restart` while claims come and go: each is prepared, and slices never vanish."""
    before, missing, slowest, number = len(cluster.devices()), 0, 0.0, 0
    old = {pod["metadata"]["uid"] for pod in _pods(cluster)}
    done = threading.Event()

    def watch() -> None:
        nonlocal missing
        while not done.wait(0.05):
            missing += len(cluster.devices()) < before

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        cluster.kubectl("-n", NAMESPACE, "rollout", "restart", "daemonset/openrknn-device-plugin")
        while number < 3 or not _is_rolled_out(cluster) or {p["metadata"]["uid"] for p in _pods(cluster)} & old:
            name = f"rolling{number}"
            make_claim(cluster, name, request("npu", "cores == 1"))
            pod_of_claim(cluster, name, {"": "env"})
            slowest = max(slowest, wait((cluster.out / f"{name}.done").exists, f"the pod {name}"))
            expect("OPENRKNN_CORE_MASK" in variables(cluster.result(name)), "no mask")
            remove(cluster, name)
            number += 1
            expect(number < 60, "the DaemonSet was not rolled out")
    finally:
        done.set()
        watcher.join()
    expect(not missing, f"slices were missing {missing} times")
    return f"{number} claims meanwhile, the slowest pod after {slowest:.1f} s; slices always there"


def serve_with_token_and_tls(cluster: Cluster) -> str:
    """The Deployment's overlay `software` with two Secrets: ready, and only for who has the token."""
    certificate, key = cluster.certificates.make("serve", "openrknn-serve", names="DNS:openrknn-serve")
    secret = f"kubectl -n {NAMESPACE} create secret".split()[1:]
    cluster.kubectl(*secret, "generic", "openrknn-token", f"--from-literal=token={_TOKEN}")
    cluster.kubectl(*secret, "tls", "openrknn-tls", f"--cert={certificate}", f"--key={key}")
    models = Path("/var/lib/openrknn/models/conv/1")
    models.mkdir(parents=True)
    shutil.copy(MODEL, models / "model.rknn")
    values = documents(cluster.kubectl("kustomize", "deploy/kubernetes/serve/overlays/software"))
    for one in values:
        if one["kind"] == "Deployment":  # the node has claims, and no device plugin
            resources = one["spec"]["template"]["spec"]["containers"][0]["resources"]
            for side in resources.values():
                side.pop("rockchip.com/npu", None)
    apply(cluster, [one for one in values if one["kind"] != "ServiceMonitor"])
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/openrknn-serve"
    try:
        seconds = wait(lambda: cluster.api.get(path)["status"].get("readyReplicas") == 1, "the Deployment")
    except CheckError as error:
        said = cluster.kubectl("-n", NAMESPACE, "logs", "deployment/openrknn-serve", "--tail=20", fine=True)
        raise CheckError(f"{error}: {said}") from None
    address = next(pod for pod in _pods(cluster, "openrknn-serve"))["status"]["podIP"]
    context = ssl.create_default_context(cafile=str(cluster.certificates.ca))
    context.check_hostname = False
    ask = _asker(f"https://{address}:8000", context)
    answers = [ask("/v2/health/ready", ""), ask("/v2/models/conv", ""), ask("/v2/models/conv", _TOKEN)]
    expect(answers == [200, 401, 200], f"ready, without a token, with it: {answers}")
    cluster.kubectl("-n", NAMESPACE, "delete", "deployment", "openrknn-serve", "--wait=false")
    return f"ready after {seconds:.1f} s"


def uninstall(cluster: Cluster) -> str:
    """`kubectl delete -k`: pods and rights go; slices go when the kubelet has missed the driver for half a minute."""
    cluster.kubectl("delete", "-k", "deploy/kubernetes/overlays/dra-software", "--wait=false", "--ignore-not-found")
    seconds = wait(lambda: not cluster.devices(), "the end of the slices", 120)
    return f"the node's slices were gone after {seconds:.0f} s"


def _asker(server: str, context: ssl.SSLContext) -> Callable[[str, str], int]:
    def ask(path: str, token: str) -> int:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            with urllib.request.urlopen(
                urllib.request.Request(server + path, headers=headers), timeout=10, context=context
            ) as answer:
                json.loads(answer.read() or b"{}")
                return int(answer.status)
        except urllib.error.HTTPError as error:
            with error:
                return int(error.code)

    return ask


def _pods(cluster: Cluster, name: str = "openrknn-device-plugin") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cluster.api.get(f"{_PODS}?labelSelector=app.kubernetes.io/name%3D{name}")["items"]
    return found


def _is_rolled_out(cluster: Cluster) -> bool:
    one = cluster.api.get(_DAEMON)
    status = one["status"]
    fresh = status.get("observedGeneration") == one["metadata"]["generation"]
    return bool(fresh and status.get("updatedNumberScheduled") == status.get("numberReady") == 1)


CHECKS = (the_image, daemon_set, example_pod, rolling_update, serve_with_token_and_tls, uninstall)
