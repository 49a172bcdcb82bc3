"""Pods with claims, and what a driver's manifests are."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

from api import CLAIMS
from cluster import DRIVER, Cluster
from node import PYTHON
from processes import expect, wait

CDI = Path("/var/run/cdi")


def documents(text: str) -> list[dict[str, Any]]:
    """Manifests as values. The repository's environment reads YAML; this Python may have nothing for it."""
    program = "import json, sys, yaml; print(json.dumps([one for one in yaml.safe_load_all(sys.stdin) if one]))"
    done = subprocess.run([PYTHON, "-c", program], input=text, capture_output=True, text=True, check=True)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def apply(cluster: Cluster, values: list[dict[str, Any]], *words: str) -> str:
    """Server side, as kubectl does it."""
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": values})
    return cluster.kubectl("apply", "--server-side", "--force-conflicts", *words, "-f", "-", given=text)


def request(name: str, *conditions: str, count: int = 1, **more: Any) -> dict[str, Any]:
    """One request for devices of ours, with CEL conditions on attributes."""
    exactly: dict[str, Any] = {"deviceClassName": DRIVER, **more}
    if count != 1:
        exactly["count"] = count
    if conditions:
        expression = " && ".join(f'device.attributes["{DRIVER}"].{condition}' for condition in conditions)
        exactly["selectors"] = [{"cel": {"expression": expression}}]
    return {"name": name, "exactly": exactly}


def make_claim(cluster: Cluster, name: str, *requests: dict[str, Any]) -> str:
    """A claim; its uid."""
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": {"devices": {"requests": list(requests)}},
    }
    return str(cluster.api.post(CLAIMS, claim)["metadata"]["uid"])


def pod_of_claim(
    cluster: Cluster, name: str, scripts: dict[str, str], claim: str = "", template: str = ""
) -> None:  # fmt: skip
    """A pod whose containers each have one request (or, named "", all) of a claim."""
    source = {"resourceClaimTemplateName": template} if template else {"resourceClaimName": claim or name}
    containers = []
    for wanted, script in scripts.items():
        reference = {"name": "npu", "request": wanted} if wanted else {"name": "npu"}
        container = cluster.container(f"{name}-{wanted}" if wanted else name, script, claims=[reference])
        container["name"] = wanted or "main"
        containers.append(container)
    cluster.create(cluster.pod_of(name, *containers, resourceClaims=[{"name": "npu", **source}]))


def variables(text: str) -> dict[str, str]:
    """Ours, as a pod printed them."""
    return dict(re.findall(r"^(OPENRKNN_[A-Z]+(?:_[A-Z]+)*)=(.*)$", text, re.MULTILINE))


def claim_files() -> list[str]:
    """CDI files of claims on the node; whatever else is left there too."""
    return sorted(path.name for path in CDI.iterdir()) if CDI.exists() else []


def is_prepared(cluster: Cluster, uid: str) -> bool:
    """Whether there is a CDI file for this claim."""
    return any(uid in name for name in claim_files())


def remove(cluster: Cluster, *names: str) -> None:
    """Pods and the claims of the same names; nothing of them stays on the node."""
    uids = [item["metadata"]["uid"] for item in cluster.api.get(CLAIMS)["items"]]
    cluster.delete(*names)
    for name in names:
        cluster.api.delete(f"{CLAIMS}/{name}")
    wait(lambda: not {item["metadata"]["name"] for item in cluster.api.get(CLAIMS)["items"]} & set(names), "the claims")
    still = [item["metadata"]["uid"] for item in cluster.api.get(CLAIMS)["items"]]
    gone = [uid for uid in uids if uid not in still]
    expect(not [name for name in claim_files() if any(uid in name for uid in gone)], f"left: {claim_files()}")
