"""The Helm chart: every set of values gives valid objects that fit together, with the kustomizations' defaults."""

from __future__ import annotations

import base64
import json
import re
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import jsonschema
import kubernetes_validate
import packing.chart as packing
import pytest
import yaml
from cryptography import x509

import openrknn
from openrknn.cli.main import build_parser
from openrknn.kubernetes.inventory import Settings
from openrknn.kubernetes.nodeconfig import NodeConfig
from tests.deploy import kustomize
from tests.deploy.chart import Chart, ChartError
from tests.deploy.chart_cases import CASES, WRONG

DEPLOY = Path(__file__).parents[2] / "deploy"
FOLDER = DEPLOY / "helm/openrknn"
VERSION = "1.36"
FOREIGN = ("keda.sh/", "serving.kserve.io/", "monitoring.coreos.com/", "cert-manager.io/")
"""Their schemas are not Kubernetes' own."""
Object = dict[str, Any]


class _Cluster(BaseHTTPRequestHandler):
    """As much of an API server as `lookup` asks for: the Secrets of every release."""

    secrets: ClassVar[dict[str, Object]] = {"token": {"token": "b2xk"}, "tls": {"tls.crt": "YQ==", "tls.key": "Yg=="}}

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        name = path.rpartition("/")[2]
        resource = {"name": "secrets", "namespaced": True, "kind": "Secret", "verbs": ["get", "list"]}
        data = self.secrets.get(name.rpartition("-")[2])
        answers: dict[str, Object] = {
            "/version": {"major": "1", "minor": "36", "gitVersion": "v1.36.0"},
            "/api": {"kind": "APIVersions", "versions": ["v1"]},
            "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
            "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": [resource]},
        }
        if data is not None:
            answers[path] = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data}
        self.send_response(200 if path in answers else 404)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(answers.get(path, {"kind": "Status", "code": 404})).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def chart() -> Iterator[Chart]:
    """Of a release whose Secrets are there: to make them takes Helm seconds."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Cluster) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Chart(FOLDER, cluster=f"http://127.0.0.1:{server.server_port}")
        server.shutdown()


@pytest.fixture(scope="module")
def rendered(chart: Chart) -> dict[str, list[Object]]:
    return {name: chart.objects(values) for name, values in CASES.items()}


@pytest.mark.parametrize("case", CASES)
def test_objects_are_valid(case: str, rendered: dict[str, list[Object]]) -> None:
    for one in rendered[case]:
        if not one["apiVersion"].startswith(FOREIGN):
            kubernetes_validate.validate(one, VERSION, strict=True)
    names = [(one["kind"], one["metadata"]["name"]) for one in rendered[case]]
    assert len(set(names)) == len(names) > 0


def pods(objects: list[Object]) -> Iterator[tuple[Object, Object]]:
    """Objects with containers, and the specification of their pods."""
    for one in objects:
        if one["kind"].endswith("ServingRuntime") or one["kind"] == "Pod":
            yield one, one["spec"]
        elif one["kind"] in {"DaemonSet", "Deployment"}:
            yield one, one["spec"]["template"]["spec"]


@pytest.mark.parametrize("case", CASES)
def test_commands_exist_and_nobody_is_privileged(case: str, rendered: dict[str, list[Object]]) -> None:
    for one, spec in pods(rendered[case]):
        for container in spec["containers"]:
            program, command, *more = container["command"]
            assert program == "openrknn"
            build_parser((command,)).parse_args([command, *more, *container["args"]])
            security = container["securityContext"]
            assert not security.get("privileged", False), one["kind"]
            assert security["capabilities"] == {"drop": ["ALL"]}
            assert not security["allowPrivilegeEscalation"]


@pytest.mark.parametrize("case", CASES)
def test_what_is_named_is_there(case: str, rendered: dict[str, list[Object]]) -> None:
    """Volumes of mounts, ports of probes and policies, pods of selectors, Secrets, accounts."""
    objects = rendered[case]
    made = {(one["kind"], one["metadata"]["name"]) for one in objects}
    labels = [one["spec"]["template"]["metadata"]["labels"] for one, _ in pods(objects) if "template" in one["spec"]]
    for _, spec in pods(objects):
        volumes = {volume["name"]: volume for volume in spec.get("volumes", ())}
        assert len(volumes) == len(spec.get("volumes", ()))
        for container in spec["containers"]:
            assert {mount["name"] for mount in container.get("volumeMounts", ())} == set(volumes)
        for volume in volumes.values():
            if "secret" in volume:
                name = volume["secret"]["secretName"]
                assert ("Secret", name) in made or name.startswith("mine") or ("Certificate", "openrknn") in made
    for one in objects:
        spec = one.get("spec", {})
        chosen = spec.get("podSelector", spec.get("selector", {}) if one["kind"] == "PodDisruptionBudget" else None)
        if chosen is not None:
            assert any(chosen["matchLabels"].items() <= found.items() for found in labels), one["kind"]
        if one["kind"] == "Service":
            assert any(spec["selector"].items() <= found.items() for found in labels)
        for subject in one.get("subjects", ()):
            assert (subject["kind"], subject["name"]) in made


def test_every_object_carries_the_common_labels(rendered: dict[str, list[Object]]) -> None:
    assert all(one["metadata"]["labels"]["owner"] == "me" for one in rendered["cores, k3s, labels"])


# One truth with the kustomizations

_OURS = ("app.kubernetes.io/instance", "app.kubernetes.io/component", "app.kubernetes.io/part-of",
         "app.kubernetes.io/version", "app.kubernetes.io/managed-by", "helm.sh/chart")  # fmt: skip
"""Labels that Helm's users expect, and that a kustomization has no values for."""


def plain(one: Any) -> Any:
    """Without what only one of the two can have."""
    if isinstance(one, dict):
        return {key: plain(value) for key, value in one.items() if key not in _OURS}
    return [plain(value) for value in one] if isinstance(one, list) else one


def by_name(objects: list[Object], *leave: str) -> dict[tuple[str, str], Object]:
    found = {}
    for one in plain(objects):
        if one["kind"] in leave or "helm.sh/hook" in one["metadata"].get("annotations", {}):
            continue  # `helm test` is Helm's own
        labels = one["metadata"].get("labels", {})
        labels.pop("app.kubernetes.io/name", None)  # of the object; those of pods and selectors stay
        if not labels:
            one["metadata"].pop("labels", None)
        if one["kind"] == "PersistentVolumeClaim":
            one["metadata"].pop("annotations", None)  # Helm's own: the claim outlives the release
        if one["kind"] == "DeviceClass" or one["kind"].startswith("Validating"):
            one["metadata"].pop("namespace", None)  # kustomize does not know that it has none
        found[one["kind"], one["metadata"]["name"]] = one
    return found


_SERVE = {"devicePlugin": {"enabled": False}, "serve": {"enabled": True}}
_KEDA = {"autoscaling": {"kind": "keda"}}
_FOLDER = {"hostPath": "/var/lib/openrknn/models"}
_MANAGER = {"certManager": {"enabled": True, "issuer": {"name": "my-issuer"}}}
SAME: dict[str, dict[str, Any]] = {
    "base": {},
    "overlays/cores": {"devicePlugin": {"strategy": "cores"}},
    "overlays/software": {"devicePlugin": {"software": {"count": 2}}},
    "overlays/nfd": {"devicePlugin": {"nodeFeatures": True}},
    "overlays/dra": {"dra": {"enabled": True}},
    "overlays/dra-software": {"dra": {"enabled": True}, "devicePlugin": {"software": {"count": 2}}},
    "overlays/extended-resource": {
        "dra": {"enabled": True, "deviceClass": {"extendedResourceName": "rockchip.com/npu"}}
    },
    "overlays/monitoring": {"monitoring": {"monitors": {"enabled": True}}},
    "serve/base": _SERVE,
    "serve/overlays/hpa": {**_SERVE, "serve": {"enabled": True, "autoscaling": {"kind": "hpa"}}},
    "serve/overlays/keda": {**_SERVE, "serve": {"enabled": True, **_KEDA}},
    "serve/overlays/software": {**_SERVE, "serve": {"enabled": True, "models": _FOLDER}},
    "serve/overlays/cert-manager": {**_SERVE, "serve": {"enabled": True, "tls": _MANAGER}},
    "serve/overlays/monitoring": {**_SERVE, "monitoring": {"monitors": {"enabled": True}}},
}


@pytest.mark.parametrize("folder", SAME)
def test_chart_and_kustomization_say_the_same(folder: str, chart: Chart) -> None:
    values = {**SAME[folder], "image": {"tag": "latest"}}
    found = by_name(chart.objects(values), "Secret")
    other = by_name(kustomize.build(DEPLOY / "kubernetes" / folder), "Namespace")
    assert set(found) == set(other)
    for name, one in found.items():
        assert one == other[name], name


@pytest.mark.parametrize("case", ["nodes that differ"])
def test_the_plugin_takes_the_configuration(case: str, rendered: dict[str, list[Object]], tmp_path: Path) -> None:
    file = tmp_path / "plugin.toml"
    file.write_text(one_of(rendered[case], "ConfigMap", "openrknn-device-plugin")["data"]["plugin.toml"])
    assert NodeConfig(file, Settings(), "rock5-1", None).settings().strategy == "cores"
    assert NodeConfig(file, Settings(), "other", None).settings().strategy == "shares"


def test_chart_and_kustomization_have_the_same_runtime() -> None:
    values = {"devicePlugin": {"enabled": False}, "kserve": {"enabled": True}, "image": {"tag": "latest"}}
    found = by_name(Chart(FOLDER).objects(values))
    other = by_name(kustomize.build(DEPLOY / "kubernetes/kserve"), "InferenceService")
    assert found == other


# Values

def keys(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, inner in value.items():
        yield (*path, key)
        if isinstance(inner, dict):
            yield from keys(inner, (*path, key))


_THEIRS = r" *(type|rollingUpdate|max\w+|requests|limits|cpu|memory|operator|effect|grafana_dashboard):"


def test_every_value_is_documented() -> None:
    """A comment stands above each key, or above the first of keys that follow each other without a comment."""
    lines = (FOLDER / "values.yaml").read_text().splitlines()
    for number, line in enumerate(lines):
        match = re.match(r"( *)[A-Za-z]\w*:", line)
        if match is None or re.match(_THEIRS, line):
            continue  # the last are Kubernetes' own words
        above = lines[number - 1]
        beside = re.match(rf"{match.group(1)}[A-Za-z]\w*: ", above)
        assert above.lstrip().startswith("#") or beside, f"values.yaml:{number + 1}: {line.strip()} has no comment"


def test_schema_and_values_have_the_same_keys() -> None:
    schema = json.loads((FOLDER / "values.schema.json").read_text())
    jsonschema.Draft7Validator.check_schema(schema)

    def named(part: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
        for key, inner in part.get("properties", {}).items():
            yield (*path, key)
            yield from named(inner, (*path, key))
        if "properties" in part:
            assert part["additionalProperties"] is False, path

    defaults = set(keys(yaml.safe_load((FOLDER / "values.yaml").read_text())))
    closed = set(named(schema))
    assert closed - {("global",)} <= defaults
    # What the schema leaves open is Kubernetes' own.
    assert all(any(path[:n] in closed for n in range(1, len(path))) for path in defaults - closed)


def test_templates_name_values_that_exist() -> None:
    """Helm prints nothing for a key that is not there: a typing error would be an empty line."""
    known = {".".join(path) for path in keys(yaml.safe_load((FOLDER / "values.yaml").read_text()))}
    for file in sorted((FOLDER / "templates").iterdir()):
        text = file.read_text()
        for name, path in re.findall(r"\$(\w+) := \.Values\.([\w.]+) ", text):
            text = re.sub(rf"\${name}\.", f".Values.{path}.", text)
        named = set(re.findall(r"\.Values\.(\w+(?:\.\w+)*)", text))
        assert named <= known, f"{file.name}: {named - known}"


@pytest.mark.parametrize("case", ["defaults", "serve with all of it"])
def test_lint(case: str) -> None:
    Chart(FOLDER).lint(CASES[case])


@pytest.mark.parametrize("values", [
    {"devicePlugins": {}}, {"devicePlugin": {"strategy": "threads"}}, {"devicePlugin": {"metricsPort": 70000}},
    {"serve": {"tls": {"enabled": "yes"}}}, {"serve": {"models": {"sources": ["ftp://x/y"]}}},
    {"image": {"digest": "sha256:1"}}, {"serve": {"autoscaling": {"kind": "vpa"}}},
    {"serve": {"maxUnavailable": "half"}},
    {"dra": {"deviceClass": {"extendedResourceName": "npu"}}}, {"networkPolicy": {"apiServerPorts": ["https"]}},
])  # fmt: skip
def test_the_schema_refuses(values: Object) -> None:
    with pytest.raises(ChartError, match="values don't meet the specifications of the schema"):
        Chart(FOLDER).objects(values)


@pytest.mark.parametrize("words", WRONG)
def test_contradictions_are_refused(words: str) -> None:
    with pytest.raises(ChartError, match=re.escape(words)):
        Chart(FOLDER).objects(WRONG[words])


def test_claims_need_a_new_cluster() -> None:
    with pytest.raises(ChartError, match=r"needs Kubernetes 1\.34"):
        Chart(FOLDER, kubernetes="v1.33.4").objects({"dra": {"enabled": True}})


# Details

def one_of(objects: list[Object], kind: str, name: str) -> Object:
    (found,) = [one for one in objects if (one["kind"], one["metadata"]["name"]) == (kind, name)]
    return found


def test_the_server_has_token_and_tls_by_default() -> None:
    objects = Chart(FOLDER).objects({"serve": {"enabled": True}})
    token = base64.b64decode(one_of(objects, "Secret", "openrknn-token")["data"]["token"])
    assert len(token) == 48
    secret = one_of(objects, "Secret", "openrknn-tls")
    assert set(secret["data"]) == {"ca.crt", "tls.crt", "tls.key"}
    made = x509.load_pem_x509_certificate(base64.b64decode(secret["data"]["tls.crt"]))
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    hosts = set(names.get_values_for_type(x509.DNSName))
    assert {"openrknn.openrknn.svc", "openrknn-grpc.openrknn", "localhost"} <= hosts
    (container,) = one_of(objects, "Deployment", "openrknn-serve")["spec"]["template"]["spec"]["containers"]
    probes = [container[f"{name}Probe"]["httpGet"]["scheme"] for name in ("startup", "readiness", "liveness")]
    assert set(probes) == {"HTTPS"}


def test_secrets_stay_over_upgrades(chart: Chart) -> None:
    objects = [one for one in chart.objects({"serve": {"enabled": True}}) if one["kind"] == "Secret"]
    assert {one["metadata"]["name"]: one["data"] for one in objects} == {
        "openrknn-token": _Cluster.secrets["token"], "openrknn-tls": _Cluster.secrets["tls"],
    }  # fmt: skip


def test_rights_are_only_those_that_are_needed(rendered: dict[str, list[Object]]) -> None:
    def kinds(case: str) -> set[str]:
        return {one["kind"] for one in rendered[case]}

    assert not kinds("defaults") & {"ClusterRole", "ClusterRoleBinding", "DeviceClass", "ValidatingAdmissionPolicy"}
    account = one_of(rendered["defaults"], "ServiceAccount", "openrknn-device-plugin")
    assert account["automountServiceAccountToken"] is False
    role = one_of(rendered["dra"], "ClusterRole", "openrknn-dra")
    verbs = {resource: set(rule["verbs"]) for rule in role["rules"] for resource in rule["resources"]}
    assert not any("*" in found for found in verbs.values())
    assert verbs["nodes"] == {"get"}
    assert "ValidatingAdmissionPolicyBinding" in kinds("dra")
    with_config = Chart(FOLDER).objects({"devicePlugin": {"configMap": "mine"}})
    assert [rule["resources"] for rule in one_of(with_config, "ClusterRole", "openrknn-dra")["rules"]] == [["nodes"]]


def test_names_follow_the_release(chart: Chart) -> None:
    edge = replace(chart, release="edge", namespace="npus")
    objects = edge.objects({"serve": {"enabled": True}, "dra": {"enabled": True}})
    assert one_of(objects, "Deployment", "edge-openrknn-serve")
    policy = one_of(objects, "ValidatingAdmissionPolicy", "edge-openrknn-own-slices")
    condition = policy["spec"]["matchConditions"][0]["expression"]
    assert '"system:serviceaccount:npus:edge-openrknn-device-plugin"' in condition
    assert {one["metadata"]["namespace"] for one in objects if "namespace" in one["metadata"]} == {"npus"}


def test_the_test_pod_asks_as_pods_do() -> None:
    def asked(values: Object) -> Any:
        (container,) = one_of(Chart(FOLDER).objects(values), "Pod", "openrknn-test")["spec"]["containers"]
        return container["resources"]

    assert asked({}) == {"limits": {"rockchip.com/npu": "1"}}
    assert asked({"dra": {"enabled": True}}) == {"claims": [{"name": "npu"}]}
    values = {"dra": {"enabled": True, "deviceClass": {"extendedResourceName": "a.example/npu"}}}
    assert asked(values) == {"limits": {"a.example/npu": "1"}}


def test_versions_are_openrknns() -> None:
    about = yaml.safe_load((FOLDER / "Chart.yaml").read_text())
    assert about["appVersion"] == openrknn.__version__
    assert about["version"] == packing.semver(openrknn.__version__)


def test_the_chart_as_a_file(tmp_path: Path) -> None:
    made = packing.build_chart(FOLDER.parents[2], tmp_path)
    again = packing.build_chart(FOLDER.parents[2], tmp_path)
    assert again.read_bytes() == made.read_bytes()
    with tarfile.open(made) as archive:
        for member in archive:
            content = archive.extractfile(member)
            assert content is not None
            path = tmp_path / member.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.read())
    assert Chart(tmp_path / "openrknn").objects() == Chart(FOLDER).objects() == Chart(made).objects()


def test_notes_are_for_what_was_installed(chart: Chart, tmp_path: Path) -> None:
    assert "rockchip.com/npu: 1" in chart.notes(tmp_path)
    notes = chart.notes(tmp_path, {"serve": {"enabled": True, "token": {"enabled": False}}})
    assert "WARNING: no token" in notes
    assert "https://openrknn.openrknn.svc:8000" in notes
    assert "resourceslices" in chart.notes(tmp_path, {"dra": {"enabled": True}})
