"""A cluster of one node: etcd, API server with RBAC, scheduler, controller manager, and what node.py has."""

from __future__ import annotations

import contextlib
import json
import subprocess
from pathlib import Path
from typing import Any

from api import PODS, PORT, Api
from binaries import Binaries
from certificates import Certificates
from node import NAME, PYTHON, ROOT, Node
from processes import CheckError, end, wait
from sandbox import NODE_ADDRESS, SERVICE_ADDRESS

NAMESPACE, ACCOUNT, DRIVER = "openrknn", "openrknn-device-plugin", "npu.rockchip.com"
SERVER = f"https://{NODE_ADDRESS}:{PORT}"
_NAMES = f"DNS:kubernetes.default.svc,DNS:localhost,IP:127.0.0.1,IP:{NODE_ADDRESS},IP:{SERVICE_ADDRESS}"


class Cluster(Node):
    """One node that an API server knows."""

    is_cluster = True

    def __init__(self, work: Path, stack: contextlib.ExitStack, binaries: Binaries) -> None:
        super().__init__(work, stack, binaries)
        self.driver: subprocess.Popen[bytes] | None = None
        wait(self._is_ready, "the node")
        wait(lambda: self.api.get("/api/v1/namespaces/default/serviceaccounts/default"), "the default account")

    # ------------------------------------------------------------ its parts

    def before_kubelet(self) -> None:
        """The control plane."""
        self.certificates = Certificates(self.work / "pki")
        self.admin = self.certificates.kubeconfig("admin", SERVER, "admin", "system:masters")
        self.api = self.api_of(certificate=(self.admin.with_suffix(".crt"), self.admin.with_suffix(".key")))
        if self.binaries.network is not None:
            self._write_network()
        self.processes.start(
            "etcd", self.binaries["etcd"], f"--data-dir={self.work}/etcd", "--unsafe-no-fsync",
            "--listen-client-urls=http://127.0.0.1:2379", "--advertise-client-urls=http://127.0.0.1:2379",
            "--listen-peer-urls=http://127.0.0.1:2380",
        )  # fmt: skip
        self.start_api_server()
        wait(lambda: self.api.get("/readyz"), "the API server")
        for name, more in (
            ("kube-scheduler", []),
            (
                "kube-controller-manager",
                [
                    f"--root-ca-file={self.certificates.ca}",
                    f"--service-account-private-key-file={self.certificates.accounts}",
                    "--use-service-account-credentials=true",
                ],
            ),
        ):
            config = self.certificates.kubeconfig(name, SERVER, f"system:{name}")
            self.processes.start(
                name, self.binaries[name], f"--kubeconfig={config}", "--leader-elect=false",
                "--authentication-skip-lookup=true", "--bind-address=127.0.0.1", *more,
            )  # fmt: skip

    def start_api_server(self) -> None:
        """With what a cluster of kubeadm has on."""
        pki = self.certificates
        certificate, key = pki.make("server", "kube-apiserver", names=_NAMES)
        client, client_key = pki.make("api-to-kubelet", "kube-apiserver-kubelet-client", "system:masters")
        self.api_server = self.processes.start(
            "kube-apiserver", self.binaries["kube-apiserver"], "--etcd-servers=http://127.0.0.1:2379",
            "--bind-address=0.0.0.0", f"--secure-port={PORT}", f"--advertise-address={NODE_ADDRESS}",
            f"--tls-cert-file={certificate}", f"--tls-private-key-file={key}", f"--client-ca-file={pki.ca}",
            "--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={pki.accounts_public}",
            f"--service-account-signing-key-file={pki.accounts}", "--service-cluster-ip-range=10.96.0.0/16",
            f"--kubelet-client-certificate={client}", f"--kubelet-client-key={client_key}",
            "--kubelet-preferred-address-types=InternalIP",
        )  # fmt: skip

    def kubelet_flags(self) -> list[str]:
        config = self.certificates.folder / "kubelet.conf"
        if not config.exists():
            self.certificates.kubeconfig("kubelet", SERVER, f"system:node:{NAME}", "system:nodes")
        return [f"--kubeconfig={config}", f"--node-ip={NODE_ADDRESS}"]

    def kubelet_settings(self) -> dict[str, Any]:
        return {
            **super().kubelet_settings(),
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": False},
                "x509": {"clientCAFile": str(self.certificates.ca)},
            },
            "nodeStatusUpdateFrequency": "2s",
            "registerWithTaints": [],
        }

    def _write_network(self) -> None:
        (self.work / "cni").mkdir(exist_ok=True)  # containerd makes it too
        bridge = {
            "type": "bridge",
            "bridge": "cni0",
            "isGateway": True,
            "ipam": {
                "type": "host-local",
                "ranges": [[{"subnet": "10.98.0.0/24"}]],
                "routes": [{"dst": "0.0.0.0/0"}],
                "dataDir": str(self.work / "cni-leases"),
            },
        }
        content = {"cniVersion": "0.4.0", "name": "test", "plugins": [bridge]}
        (self.work / "cni/10-test.conflist").write_text(json.dumps(content))

    def _is_ready(self) -> bool:
        conditions = self.api.get(f"/api/v1/nodes/{NAME}")["status"]["conditions"]
        return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)

    # ------------------------------------------------------------ as whom

    def api_of(self, certificate: tuple[Path, Path] | None = None, token: str = "") -> Api:
        """The API server, as somebody."""
        return Api(self.certificates.ca, certificate, token)

    def kubectl(self, *words: str, given: str | None = None, fine: bool = False) -> str:
        """As the administrator."""
        command = [self.binaries["kubectl"], f"--kubeconfig={self.admin}", *words]
        done = subprocess.run(command, input=given, capture_output=True, text=True, check=False, cwd=ROOT)
        if done.returncode and not fine:
            raise CheckError(f"kubectl {' '.join(words)}: {done.stdout}{done.stderr}")
        return done.stdout + (done.stderr if fine else "")

    def token(self, node: str = NAME) -> str:
        """A token of the driver's account that is bound to a node."""
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "expirationSeconds": 3600,
                "boundObjectRef": {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "name": node,
                    "uid": self.api.get(f"/api/v1/nodes/{node}")["metadata"]["uid"],
                },
            },
        }
        path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{ACCOUNT}/token"
        return str(self.api.post(path, request)["status"]["token"])

    # ------------------------------------------------------------ the DRA driver

    def start_driver(self, *words: str, name: str = "driver", **variables: str) -> subprocess.Popen[bytes]:
        """As the account of the manifests, with two software NPUs of three cores and the fake NPU."""
        token = self.work / "token"
        if not token.exists():
            token.write_text(self.token())
        port = 19500 + len(self.processes.logs())
        self.driver = self.processes.start(
            name, str(PYTHON), "-m", "openrknn.cli", "device-plugin", "--dra", "--no-plugin", "--node", NAME,
            "--api-server", SERVER, "--token-file", str(token), "--ca-file", str(self.certificates.ca),
            "--root", str(self.board), "--software", "2", "--strategy", "cores", "--interval", "0.5",
            "--metrics-port", str(port), *words, **variables,
        )  # fmt: skip
        return self.driver

    def stop_driver(self) -> None:
        """If it runs."""
        if self.driver is not None:
            end(self.driver)
            self.driver = None

    def devices(self) -> dict[str, dict[str, Any]]:
        """What our slices offer, by name."""
        found = self.api.slices(DRIVER, NAME)
        return {device["name"]: device for item in found for device in item["spec"].get("devices", ())}

    # ------------------------------------------------------------ pods

    def create(self, pod: dict[str, Any]) -> None:
        """Through the API server and the scheduler."""
        if self.binaries.network is None:
            pod["spec"]["tolerations"] = [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]
        self.api.post(PODS, pod)

    def delete(self, *names: str) -> None:
        """And wait until they are gone."""
        for name in names:
            self.api.delete(f"{PODS}/{name}", grace=0 if self._is_pending(name) else 1)
        for name in names:
            wait(lambda: name not in self.states(), f"the end of the pod {name}")  # noqa: B023
            for path in (self.out / name, self.out / f"{name}.done"):
                path.unlink(missing_ok=True)

    def _is_pending(self, name: str) -> bool:
        return "nodeName" not in self.api.get(f"{PODS}/{name}")["spec"]

    def pod_name(self, name: str) -> str:
        return name

    def states(self) -> dict[str, dict[str, Any]]:
        """Of all pods, from the API server."""
        return {item["metadata"]["name"]: item["status"] for item in self.api.get(PODS)["items"]}

    def refusal(self, name: str) -> str:
        """The scheduler's words, or the kubelet's."""
        for condition in self.states().get(name, {}).get("conditions", ()):
            if condition["type"] == "PodScheduled" and condition["status"] == "False":
                return str(condition.get("message", ""))
        return super().refusal(name)
