"""The manifests: valid by the schemas of Kubernetes, rendered by kustomize where it is, and true to our commands."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from openrknn.cli.main import build_parser
from tests.deploy import kustomize

FOLDER = Path(__file__).parents[2] / "deploy/kubernetes"
FILES = sorted(path for path in FOLDER.rglob("*.yaml") if path.name != "kustomization.yaml")
COMPONENTS = sorted(path.parent for path in FOLDER.rglob("components/*/kustomization.yaml"))
KUSTOMIZATIONS = sorted({path.parent for path in FOLDER.rglob("kustomization.yaml")} - set(COMPONENTS))
VERSION = "1.36"
FOREIGN = ("keda.sh/", "serving.kserve.io/", "monitoring.coreos.com/", "cert-manager.io/")
"""Their schemas are not Kubernetes' own."""


def name(path: Path) -> str:
    return str(path.relative_to(FOLDER))


def validate(items: Iterator[Any]) -> list[dict[str, Any]]:
    found = [item for item in items if item is not None]
    for item in found:
        if not item["apiVersion"].startswith(FOREIGN):
            kubernetes_validate.validate(item, VERSION, strict=True)
    return found


@pytest.mark.parametrize("path", FILES, ids=name)
def test_files_are_valid(path: Path) -> None:
    assert validate(yaml.safe_load_all(path.read_text()))


def rendered(folder: Path) -> list[dict[str, Any]]:
    return validate(iter(kustomize.build(folder)))


_OLD = ("unknown command", 'unknown field "components"', "cannot unmarshal object into Go struct field Kustomization")


@pytest.mark.parametrize("folder", KUSTOMIZATIONS, ids=name)
def test_kustomize_itself_renders_the_same(folder: Path) -> None:
    tool = shutil.which("kustomize")
    command = [tool, "build"] if tool else ["kubectl", "kustomize"]
    if not tool and not shutil.which("kubectl"):
        pytest.skip("neither kustomize nor kubectl is here")
    done = subprocess.run([*command, str(folder)], capture_output=True, text=True, check=False)
    if any(words in done.stderr for words in _OLD) and not tool:
        pytest.skip("this kubectl is too old: kustomize has components since 1.21")
    assert done.returncode == 0, done.stderr
    theirs = [one for one in yaml.safe_load_all(done.stdout) if one]
    order = lambda one: (one["kind"], one["metadata"]["name"])  # noqa: E731
    assert sorted(theirs, key=order) == sorted(kustomize.build(folder), key=order)


@pytest.mark.parametrize("folder", KUSTOMIZATIONS, ids=name)
def test_overlays_are_valid_and_their_commands_exist(folder: Path) -> None:
    items = rendered(folder)
    assert items
    for container in containers(items):
        parses(container)


def containers(items: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for item in items:
        spec = item.get("spec", {})
        template = spec.get("template", {}).get("spec", spec)
        yield from template.get("containers", ())


def parses(container: dict[str, Any]) -> None:
    program, command, *more = container["command"]
    assert program == "openrknn"
    build_parser((command,)).parse_args([command, *more, *container.get("args", ())])


@pytest.mark.parametrize("path", FILES, ids=name)
def test_commands_in_files_exist_and_no_container_is_privileged(path: Path) -> None:
    for container in containers(list(yaml.safe_load_all(path.read_text()))):
        parses(container)
        security = container.get("securityContext", {})
        assert not security.get("privileged", False)
        assert not security.get("capabilities", {}).get("add")


def test_the_software_overlay_runs_on_every_processor() -> None:
    (daemon,) = [item for item in rendered(FOLDER / "overlays/software") if item["kind"] == "DaemonSet"]
    spec = daemon["spec"]["template"]["spec"]
    assert "nodeSelector" not in spec
    assert "--software=2" in spec["containers"][0]["args"]


def test_the_dra_overlay_has_all_that_the_driver_needs() -> None:
    items = rendered(FOLDER / "overlays/dra")
    assert {"ClusterRole", "ClusterRoleBinding", "DeviceClass", "DaemonSet"} <= {item["kind"] for item in items}
    (daemon,) = [item for item in items if item["kind"] == "DaemonSet"]
    (container,) = daemon["spec"]["template"]["spec"]["containers"]
    assert {"--dra", "--node=$(NODE_NAME)"} <= set(container["args"])
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert {"/var/lib/kubelet/plugins_registry", "/var/lib/kubelet/plugins", "/var/run/cdi"} <= mounts


def test_every_component_has_an_overlay() -> None:
    """Components are combined in overlays; an overlay of one is there for each."""
    assert all((path.parents[1] / "overlays" / path.name / "kustomization.yaml").exists() for path in COMPONENTS)


def test_claims_with_software_npus_are_one_overlay() -> None:
    items = rendered(FOLDER / "overlays/dra-software")
    (container,) = containers([item for item in items if item["kind"] == "DaemonSet"])
    assert {"--dra", "--software=2"} <= set(container["args"])
    assert {item["kind"] for item in items} >= {"DeviceClass", "ClusterRole"}


@pytest.mark.parametrize("path", FILES, ids=name)
def test_images_are_named_in_the_kustomization_alone(path: Path) -> None:
    """`images:` of a kustomization then changes every one of them."""
    assert {container["image"] for container in containers(list(yaml.safe_load_all(path.read_text())))} <= {"openrknn"}


@pytest.mark.parametrize("path", [path for path in FILES if path.parent.name == "examples"], ids=name)
def test_example_pods_may_open_the_node(path: Path) -> None:
    """Nodes are 0660 on most boards."""
    pods = [item for item in yaml.safe_load_all(path.read_text()) if item["kind"] == "Pod"]
    assert all(item["spec"]["securityContext"]["supplementalGroups"] for item in pods)


def test_kserve_scrapes_the_port_that_is_served() -> None:
    (item,) = yaml.safe_load_all((FOLDER / "kserve/servingruntime.yaml").read_text())
    (container,) = item["spec"]["containers"]
    assert f"--port={item['spec']['annotations']['prometheus.kserve.io/port']}" in container["args"]
