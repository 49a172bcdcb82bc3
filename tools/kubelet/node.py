"""One node: containerd, kubelet, our plugin. Without an API server the kubelet runs pods whose files lie in a folder.

A kubelet of 1.20 takes flags, a newer one a file of configuration; containerd 1 and 2 name their settings differently.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

from binaries import Binaries
from images import PAUSE, TOOLS, write_image
from processes import Processes, end, wait
from sandbox import fake_board

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv/bin/python"
MODEL = ROOT / "tests/goldens/conv_rk3588_i8.rknn"
NAME = "board1"
READ_ONLY_PORT, HEALTH_PORT, METRICS_PORT = 10255, 10248, 19465
_CONTAINERD_1 = """
version = 2
root = "{work}/containerd"
state = "{work}/run"
[grpc]
address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{pause}"
restrict_oom_score_adj = true
disable_apparmor = true
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "native"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
BinaryName = "{runc}"
"""
_CONTAINERD_2 = """
version = 3
root = "{work}/containerd"
state = "{work}/run"
[grpc]
address = "{socket}"
[plugins.'io.containerd.cri.v1.images']
snapshotter = "{snapshotter}"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "{pause}"
[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = true
disable_apparmor = true
enable_cdi = true
cdi_spec_dirs = ["/etc/cdi", "/var/run/cdi"]
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
BinaryName = "{runc}"
SystemdCgroup = false
[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ["{network}"]
conf_dir = "{work}/cni"
"""


class Node:
    """containerd, kubelet and plugin."""

    is_cluster = False

    def __init__(self, work: Path, stack: contextlib.ExitStack, binaries: Binaries) -> None:
        self.work, self.stack, self.binaries = work, stack, binaries
        self.processes = Processes(work, stack, binaries.path)
        self.pods, self.out = work / "pods", work / "out"
        for folder in (self.pods, self.out):
            folder.mkdir()
        self.socket = work / "containerd.sock"
        self.board = fake_board(work / "board")
        self._containerd()
        self.before_kubelet()
        self.kubelet = self.start_kubelet()
        self.plugin: subprocess.Popen[bytes] | None = None

    def before_kubelet(self) -> None:
        """What else there has to be."""

    def start_plugin(self, *words: str) -> subprocess.Popen[bytes]:
        """The device plugin with a fake NPU and two software NPUs."""
        self.plugin = self.processes.start(
            "plugin", str(PYTHON), "-m", "openrknn.cli", "device-plugin", "--root", str(self.board), "--software", "2",
            "--interval", "0.5", "--metrics-port", str(METRICS_PORT), *words,
        )  # fmt: skip
        return self.plugin

    def stop_plugin(self) -> None:
        """If it runs."""
        if self.plugin is not None:
            end(self.plugin)
            self.plugin = None

    def start_kubelet(self) -> subprocess.Popen[bytes]:
        """With the settings that a machine without systemd needs."""
        if self.binaries.version < (1, 29):
            return self._start_old_kubelet()
        config = self.work / "kubelet.json"
        config.write_text(json.dumps(self.kubelet_settings()))
        return self.processes.start(
            "kubelet", self.binaries["kubelet"], f"--config={config}", f"--hostname-override={NAME}",
            f"--cert-dir={self.work}/pki-kubelet", *self.kubelet_flags(),
        )  # fmt: skip

    def kubelet_flags(self) -> list[str]:
        """What is no setting."""
        return ["--register-node=false"]

    def kubelet_settings(self) -> dict[str, Any]:
        """For a kubelet from 1.29 on."""
        settings: dict[str, Any] = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "containerRuntimeEndpoint": f"unix://{self.socket}",
            "staticPodPath": str(self.pods),
            "cgroupDriver": "cgroupfs",
            "cgroupsPerQOS": False,
            "enforceNodeAllocatable": [],
            "failSwapOn": False,
            "makeIPTablesUtilChains": False,
            "localStorageCapacityIsolation": False,
            "evictionHard": {"memory.available": "1Mi", "nodefs.available": "0%", "imagefs.available": "0%"},
            "resolvConf": "",
            "readOnlyPort": READ_ONLY_PORT,
            "healthzPort": HEALTH_PORT,
            "fileCheckFrequency": "1s",
            "syncFrequency": "2s",
            "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "shutdownGracePeriod": "0s",
        }
        if self.binaries.version >= (1, 31):
            settings["failCgroupV1"] = False
        return settings

    def _start_old_kubelet(self) -> subprocess.Popen[bytes]:
        return self.processes.start(
            "kubelet", self.binaries["kubelet"], "--container-runtime=remote",
            f"--container-runtime-endpoint=unix://{self.socket}", f"--pod-manifest-path={self.pods}",
            "--cgroup-driver=cgroupfs", "--cgroups-per-qos=false", "--enforce-node-allocatable=",
            "--fail-swap-on=false", "--make-iptables-util-chains=false",
            "--feature-gates=LocalStorageCapacityIsolation=false",
            f"--hostname-override={NAME}", f"--cert-dir={self.work}/pki-kubelet", "--eviction-hard=",
            "--register-node=false", f"--read-only-port={READ_ONLY_PORT}", f"--healthz-port={HEALTH_PORT}",
            "--file-check-frequency=1s", "--sync-frequency=2s",
        )  # fmt: skip

    def ctr(self, *words: str) -> str:
        """containerd's own tool."""
        command = [self.binaries["ctr"], "--address", str(self.socket), "--namespace", "k8s.io", *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def _containerd(self) -> None:
        said = subprocess.run([self.binaries["containerd"], "--version"], capture_output=True, text=True, check=True)
        old = " 1." in said.stdout
        overlay = "overlay" in Path("/proc/filesystems").read_text()
        config = self.work / "containerd.toml"
        config.write_text(
            (_CONTAINERD_1 if old else _CONTAINERD_2).format(
                work=self.work, socket=self.socket, pause=PAUSE, runc=self.binaries["runc"],
                snapshotter="overlayfs" if overlay else "native", network=self.binaries.network or "/nonexistent",
            )
        )  # fmt: skip
        self.processes.start("containerd", self.binaries["containerd"], "--config", str(config))
        wait(lambda: self.socket.exists() and self.ctr("version"), "containerd")
        for name, command in ((PAUSE, ["/bin/busybox", "sleep", "1000000"]), (TOOLS, ["/bin/busybox", "true"])):
            archive = self.work / "image.tar"
            write_image(archive, name, command, self.binaries["busybox"])
            self.ctr("images", "import", str(archive))

    def container(self, name: str, script: str, **resources: Any) -> dict[str, Any]:
        """A container that sees the host's programs and this repository, and runs a line of shell."""
        return {
            "name": "main",
            "image": TOOLS,
            "imagePullPolicy": "Never",
            "command": ["/bin/busybox", "sh", "-c", f"( {script} ) > {self.out}/{name} 2>&1; "
                        f"/bin/busybox touch {self.out}/{name}.done; exec /bin/busybox sleep 100000"],
            "env": [{"name": "HOME", "value": "/tmp"}],
            "resources": resources,
            "volumeMounts": [
                {"name": one, "mountPath": path, "readOnly": one != "out"} for one, path in self._mounted().items()
            ],
        }  # fmt: skip

    def pod_of(self, name: str, *containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
        """A pod with these containers."""
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 1,
                "hostNetwork": True,
                "automountServiceAccountToken": False,
                "containers": list(containers),
                "volumes": [{"name": one, "hostPath": {"path": path}} for one, path in self._mounted().items()],
                **spec,
            },
        }

    def _mounted(self) -> dict[str, str]:
        places = {"usr": "/usr", "repository": str(ROOT), "out": str(self.out), "lib": "/lib", "lib64": "/lib64"}
        mounted = {name: path for name, path in places.items() if Path(path).exists()}
        python = os.path.realpath(PYTHON).rpartition("/bin/")[0]
        if not python.startswith("/usr"):
            mounted["python"] = python
        return mounted

    def pod(self, name: str, devices: int, script: str) -> None:
        """A pod that asks the device plugin for devices."""
        (self.out / f"{name}.done").unlink(missing_ok=True)
        self.create(self.pod_of(name, self.container(name, script, limits={"rockchip.com/npu": devices})))

    def create(self, pod: dict[str, Any]) -> None:
        """Written elsewhere first: the kubelet must not read half a file."""
        name = pod["metadata"]["name"]
        (self.work / f"{name}.json").write_text(json.dumps(pod))
        os.replace(self.work / f"{name}.json", self.pods / f"{name}.json")

    def delete(self, name: str) -> None:
        """And wait until it is gone."""
        (self.pods / f"{name}.json").unlink()
        wait(lambda: name not in self.states(), f"the end of the pod {name}")

    def result(self, name: str) -> str:
        """What a pod printed, when it is done."""
        wait((self.out / f"{name}.done").exists, f"the pod {name}")
        return (self.out / name).read_text()

    def pod_name(self, name: str) -> str:
        """The kubelet puts its node's name behind those of static pods."""
        return f"{name}-{NAME}"

    def states(self) -> dict[str, dict[str, Any]]:
        """Of all pods, from the kubelet itself."""
        with urllib.request.urlopen(f"http://127.0.0.1:{READ_ONLY_PORT}/pods", timeout=10) as answer:
            items = json.load(answer)["items"] or []
        return {item["metadata"]["name"].removesuffix(f"-{NAME}"): item["status"] for item in items}

    def refusal(self, name: str) -> str:
        """Why a pod does not run; nothing as long as nobody said."""
        state = self.states().get(name, {})
        return str(state.get("message", "")) if state.get("reason") == "UnexpectedAdmissionError" else ""
