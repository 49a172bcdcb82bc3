"""Everything in deploy/ as a real API server sees it: strict, server side, without being stored."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from claims import apply, documents
from cluster import Cluster
from node import PYTHON, ROOT
from processes import CheckError, expect, say

_RENDER = """
import json
from pathlib import Path
from tests.deploy.chart import Chart
from tests.deploy.chart_cases import CASES
chart = Chart(Path("deploy/helm/openrknn"))
print(json.dumps({name: chart.objects(values) for name, values in CASES.items()}))
"""


def definitions(cluster: Cluster) -> str:
    """Others' kinds (monitors, scalers, KServe) from a folder of YAML files: CRDS=FOLDER."""
    folder = os.environ.get("CRDS")
    if not folder:
        return "no CRDS=FOLDER: objects of other projects are not checked"
    files = sorted(path for path in Path(folder).rglob("*") if path.suffix in (".yaml", ".yml", ".json"))
    problems = []
    for path in files:
        said = cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(path), fine=True)
        if "error" in said.lower():
            problems.append(f"{path.name}: {said.strip()[:200]}")
    names = [one["metadata"]["name"] for one in _definitions(cluster)]
    for name in names:
        cluster.kubectl("wait", "--for=condition=Established", f"crd/{name}", "--timeout=60s")
    for problem in problems:
        say(f"    {problem}")
    return f"{len(names)} kinds"


def every_kustomization(cluster: Cluster) -> str:
    """Each folder that `kubectl apply -k` takes."""
    folders = [
        path.parent.relative_to(ROOT)
        for path in sorted((ROOT / "deploy/kubernetes").rglob("kustomization.yaml"))
        if "kind: Component" not in path.read_text()
    ]
    count, unknown = 0, set()
    for folder in folders:
        found = documents(cluster.kubectl("kustomize", str(folder)))
        count += len(found)
        unknown |= _dry_run(cluster, str(folder), found)
    return f"{count} objects of {len(folders)} folders" + _not_checked(unknown)


def the_chart(cluster: Cluster) -> str:
    """Each set of values of the tests."""
    helm = cluster.binaries.find("helm")
    done = subprocess.run([PYTHON, "-c", _RENDER], capture_output=True, text=True, check=True, cwd=ROOT)
    cases: dict[str, list[dict[str, Any]]] = json.loads(done.stdout)
    unknown: set[str] = set()
    for name, objects in cases.items():
        unknown |= _dry_run(cluster, f"the chart, {name}", objects)
    if helm is not None:
        words = ["template", "-n", "openrknn", "openrknn", "deploy/helm/openrknn"]
        text = subprocess.run([helm, *words], capture_output=True, text=True, check=True, cwd=ROOT).stdout
        unknown |= _dry_run(cluster, "helm template", documents(text))
    count = sum(map(len, cases.values()))
    return f"{count} objects of {len(cases)} sets of values{'' if helm else ' (no helm: rendered by the tests)'}" + (
        _not_checked(unknown)
    )


def _dry_run(cluster: Cluster, where: str, objects: list[dict[str, Any]]) -> set[str]:
    """The API server takes them all; the kinds that it does not know."""
    known, unknown = _kinds(cluster), set()
    good = []
    for one in objects:
        one["metadata"].pop("creationTimestamp", None)
        if one["kind"] == "Namespace" or (one["apiVersion"], one["kind"]) in known:
            good.append(one)
        else:
            unknown.add(f"{one['apiVersion']} {one['kind']}")
    there = {one["metadata"]["name"] for one in cluster.api.get("/api/v1/namespaces")["items"]}
    for name in {str(one["metadata"].get("namespace", "")) for one in good} - {"", *there}:
        cluster.kubectl("create", "namespace", name)  # nothing can be tried in one that is not there
    if good:
        try:
            apply(cluster, good, "--dry-run=server", "--validate=strict")
        except CheckError as error:
            raise CheckError(f"{where}: {str(error)[-1500:]}") from None
    return unknown


def _kinds(cluster: Cluster) -> set[tuple[str, str]]:
    """Of every version that the API server serves."""
    found = {("v1", one["kind"]) for one in cluster.api.get("/api/v1")["resources"]}
    for group in cluster.api.get("/apis")["groups"]:
        for version in group["versions"]:
            name = version["groupVersion"]
            found |= {(name, one["kind"]) for one in cluster.api.get(f"/apis/{name}")["resources"]}
    expect(("apps/v1", "DaemonSet") in found, "the API server does not say what it knows")
    return found


def _definitions(cluster: Cluster) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cluster.api.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")["items"]
    return found


def _not_checked(unknown: set[str]) -> str:
    return f"; not checked, for want of their definitions: {', '.join(sorted(unknown))}" if unknown else ""


CHECKS = (definitions, every_kustomization, the_chart)
