"""The programs: a folder of the user's (KUBE_BIN), or what tools/kubelet/setup made."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from processes import CheckError

CONTROL = ("kube-apiserver", "etcd", "kube-scheduler", "kube-controller-manager", "kubectl")
"""What makes a cluster of a node."""
NODE = ("kubelet", "containerd", "ctr", "runc", "busybox")
NETWORK = ("bridge", "host-local", "loopback")
"""CNI plugins: without them pods have the node's network."""
_CACHE = Path(os.environ.get("OPENRKNN_KUBELET", Path.home() / ".cache/openrknn/kubelet"))


class Binaries:
    """Where each program is."""

    def __init__(self) -> None:
        chosen = os.environ.get("KUBE_BIN")
        if chosen:
            given = Path(chosen).resolve()
            self.folders = [given, given / "cni"]
            hint = f"put it into {given} (KUBE_BIN)"
        else:
            root = _CACHE / "root"
            self.folders = [_CACHE, root / "usr/bin", root / "usr/sbin", root / "bin"]
            hint = "run tools/kubelet/setup first, or name a folder with it: KUBE_BIN=FOLDER"
        missing = [name for name in NODE if self.find(name) is None]
        if missing:
            raise SystemExit(f"there is no {', '.join(missing)}; {hint}")
        self.missing = [name for name in CONTROL if self.find(name) is None] if chosen else [*CONTROL]
        self.network = self._network()
        self.version = self._version()

    @property
    def is_cluster(self) -> bool:
        """Whether there is all that a cluster needs."""
        return not self.missing

    @property
    def path(self) -> str:
        """For PATH."""
        return ":".join([*map(str, self.folders), os.environ.get("PATH", "/usr/bin:/bin")])

    def find(self, name: str) -> Path | None:
        """The program, if there is one."""
        return next((folder / name for folder in self.folders if os.access(folder / name, os.X_OK)), None)

    def __getitem__(self, name: str) -> str:
        found = self.find(name)
        if found is None:
            raise CheckError(f"there is no {name}")
        return str(found)

    def versions(self) -> str:
        """Of everything, for the report."""
        words = {
            "kubelet": "--version", "kube-apiserver": "--version", "etcd": "--version", "containerd": "--version",
            "runc": "--version",
        }  # fmt: skip
        found = []
        for name, word in words.items():
            if self.find(name) is not None:
                text = subprocess.run([self[name], word], capture_output=True, text=True, check=False).stdout
                match = re.search(r"v?(\d+\.\d+\.\d+\S*)", text)
                found.append(f"{name} {match.group(1) if match else '?'}")
        return ", ".join(found)

    def _network(self) -> Path | None:
        for folder in (*self.folders, Path("/usr/lib/cni"), Path("/opt/cni/bin")):
            if all(os.access(folder / name, os.X_OK) for name in NETWORK):
                return folder
        return None

    def _version(self) -> tuple[int, int]:
        text = subprocess.run([self["kubelet"], "--version"], capture_output=True, text=True, check=True).stdout
        match = re.search(r"v(\d+)\.(\d+)", text)
        if match is None:
            raise SystemExit(f"this is not a kubelet: {text!r}")
        return int(match.group(1)), int(match.group(2))
