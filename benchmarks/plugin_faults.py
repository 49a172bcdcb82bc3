"""The device plugin and DRA driver under faults: killed, forgotten, flooded.

    python benchmarks/plugin_faults.py                 20 kills, 20 kubelet restarts, 10,000 foreign slices
    python benchmarks/plugin_faults.py --quick         3 of each, for a first look
    python benchmarks/plugin_faults.py --json FILE     the numbers as JSON too

The program is the real one, in a process of its own; the kubelet and the API server are the stand-ins of the tests,
whose faults are those of Kubernetes 1.36: a kubelet that starts deletes the sockets of device plugins and the slices of
its node; sockets of a killed driver stay; every watch breaks after a second, in the middle of a line; somebody else's
slices are there by the thousand. While that goes on, claims are prepared and unprepared all the time.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.kubernetes.api_server import StandInApi
from tests.kubernetes.kubelet import Kubelet
from tests.machines import rknpu_board

LIMIT_SECONDS = 60.0
REPUBLISH_SECONDS = 2.0
RSS_MIB = 64.0
NEVER = 1e9


class Node:
    """One board: the program, the kubelet's folder, and what is measured."""

    def __init__(self, work: Path, api: StandInApi, seed: int) -> None:
        self.api, self.folder = api, work / "kubelet"
        self.cdi = work / "cdi"
        self.random = random.Random(seed)
        rknpu_board(work / "root")
        (work / "token").write_text("abc")
        self.command = [
            sys.executable, "-m", "openrknn.cli", "device-plugin", "--dra", "--node", "board1", "--strategy", "cores",
            "--api-server", api.url, "--token-file", str(work / "token"), "--root", str(work / "root"),
            "--kubelet-dir", str(self.folder), "--cdi-dir", str(self.cdi), "--interval", "1",
        ]  # fmt: skip
        self.log = (work / "log").open("ab")
        self.process: subprocess.Popen[bytes] | None = None
        self.most_rss = 0.0

    def start(self) -> None:
        """Start the program."""
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        self.process = subprocess.Popen(self.command, stdout=self.log, stderr=self.log, env=environment)

    def kill(self) -> None:
        """As the kernel does it when memory is short."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def rss(self) -> float:
        """MiB now; the most is kept."""
        assert self.process is not None
        with contextlib.suppress(OSError, IndexError):
            text = Path(f"/proc/{self.process.pid}/status").read_text()
            self.most_rss = max(self.most_rss, int(text.split("VmHWM:")[1].split()[0]) / 1024)
        return self.most_rss

    def is_whole(self) -> bool:
        """The slices of the board, all of one generation."""
        mine = [
            self.api.objects.get(f"/apis/resource.k8s.io/v1/resourceslices/board1-npu.rockchip.com-{number}")
            for number in range(2)
        ]
        generations = {item["spec"]["pool"]["generation"] for item in mine if item is not None}
        return None not in mine and len(generations) == 1


def wait(condition: Callable[[], bool]) -> float:
    """Seconds until it is so; a great number if it never is."""
    start = time.monotonic()
    while not condition():
        if time.monotonic() - start > LIMIT_SECONDS:
            return NEVER
        time.sleep(0.005)
    return time.monotonic() - start


class Claimer(threading.Thread):
    """Pods that come and go: each claim is prepared until the driver does it, as the kubelet does, and unprepared."""

    def __init__(self, api: StandInApi, kubelet: Callable[[], Kubelet]) -> None:
        super().__init__(daemon=True)
        self._api, self._kubelet = api, kubelet
        self._over = threading.Event()
        self.done = self.tries = 0
        self.wrong: list[str] = []
        self.longest = 0.0

    def stop(self) -> None:
        """After the claim that is under way."""
        self._over.set()
        self.join()

    def run(self) -> None:
        number = 0
        while not self._over.is_set():
            number += 1
            name, uid = f"claim{number}", f"uid-{number}"
            self._api.claim(name, uid, f"npu0-core-{number % 3}")
            start = time.monotonic()
            answer = self._until("NodePrepareResources", name, uid)
            self.longest = max(self.longest, time.monotonic() - start)
            if answer is None:
                self.wrong.append(f"{uid} was never prepared")
                return
            ids = [one for device in answer.devices for one in device.cdi_device_ids]
            if ids != [f"npu.rockchip.com/claim={uid}-npu0-core-{number % 3}"]:
                self.wrong.append(f"{uid}: {ids}")
            self._until("NodeUnprepareResources", name, uid)
            self._api.remove_claim(name)
            self.done += 1

    def _until(self, verb: str, name: str, uid: str) -> Any:
        end = time.monotonic() + LIMIT_SECONDS
        while time.monotonic() < end:
            self.tries += 1
            with contextlib.suppress(grpc.RpcError, IndexError, OSError):
                kubelet = self._kubelet()
                answer = kubelet.call_driver(kubelet.find_driver().endpoint, verb, ("home", name, uid)).claims[uid]
                if not answer.error:
                    return answer
            time.sleep(0.02)
        return None


def left_over(folder: Path, cdi: Path) -> list[str]:
    """Sockets, records and files that are not there in a node at rest."""
    sockets = [path for path in folder.rglob("*") if path.is_socket() and path.name != "kubelet.sock"]
    extra = [] if len(sockets) <= 3 else sockets  # registration, service, device plugin
    claims = [*cdi.glob("npu.rockchip.com-claim-*"), *(folder / "plugins/npu.rockchip.com/claims").glob("*")]
    return [path.name for path in (*extra, *claims, *cdi.glob(".openrknn-*"))]


def measure(kills: int, restarts: int, foreign: int, seed: int = 20) -> dict[str, Any]:
    """The whole run; seconds, counts, MiB."""
    result: dict[str, Any] = {"kills": kills, "restarts": restarts, "foreign": foreign}
    with tempfile.TemporaryDirectory(prefix="pf-") as folder, StandInApi() as api:
        node = Node(Path(folder), api, seed)
        api.add_foreign(foreign)
        api.page, api.watch_seconds, api.bookmark_seconds = 500, 1.0, 0.3
        kubelets = [Kubelet(node.folder)]
        kubelets[0].__enter__()
        claimer = Claimer(api, lambda: kubelets[-1])
        try:
            node.start()
            result["first_publication"] = wait(node.is_whole)
            claimer.start()
            result["after_kill"] = [_kill(node, kubelets) for _ in range(kills)]
            result["after_restart"] = [_restart(node, kubelets) for _ in range(restarts)]
            result["after_wipe"] = [_wipe(node) for _ in range(max(kills, 3))]
            claimer.stop()
            node.rss()
            time.sleep(11)  # halves of files go when they are surely nobody's
            node.kill()
            node.start()
            wait(lambda: _scan(kubelets[-1]))
            api.wipe()
            wait(node.is_whole)
            wait(lambda: not left_over(node.folder, node.cdi))
            result["left_over"] = left_over(node.folder, node.cdi)
            node.rss()
            foreign_now = len(api.slices) - len(api.mine())
            result["foreign_touched"] = foreign - foreign_now
            result["own_slices"] = len(api.mine())
        finally:
            if node.process is not None:
                node.process.send_signal(signal.SIGTERM)
                node.process.wait()
            kubelets[-1].__exit__(None, None, None)
            node.log.close()
            if "--keep" in sys.argv:
                shutil.copy(Path(folder) / "log", "plugin_faults.log")
        sockets = [path.name for path in node.folder.rglob("*") if path.is_socket()]
        result["sockets_after_sigterm"] = [name for name in sockets if name.startswith(("npu", "dra", "openrknn", "."))]
        result.update(
            claims=claimer.done, tries=claimer.tries, wrong=claimer.wrong, longest_claim=claimer.longest,
            rss_mib=node.most_rss, watches=api.watches, listed=api.listed,
        )  # fmt: skip
    return result


def _scan(kubelet: Kubelet) -> bool:
    kubelet.scan()
    return bool(kubelet.drivers)


def _kill(node: Node, kubelets: list[Kubelet]) -> float:
    """At a random moment of its life; while it is dead its slices are deleted, as a kubelet does after 30 seconds."""
    time.sleep(node.random.uniform(0.0, 1.5))
    node.rss()
    node.kill()
    node.api.wipe()
    node.start()
    # The time of Python's own start is in it: this is what a pod waits for.
    return wait(lambda: node.is_whole() and _scan(kubelets[-1]))


def _restart(node: Node, kubelets: list[Kubelet]) -> float:
    """A kubelet ends, and another one starts: sockets of device plugins and slices are deleted."""
    kubelets[-1].__exit__(None, None, None)
    newer = Kubelet(node.folder)
    newer.__enter__()
    kubelets.append(newer)
    del kubelets[:-1]
    node.api.wipe()
    seconds = wait(node.is_whole)
    wait(lambda: len(newer.devices) == 3 and _scan(newer))
    node.rss()
    return seconds


def _wipe(node: Node) -> float:
    time.sleep(node.random.uniform(0.0, 1.0))
    node.api.wipe()
    return wait(node.is_whole)


def verdict(result: dict[str, Any]) -> list[str]:
    """What is not as it should be."""
    bad = [f"{name} {result[name]}" for name in ("wrong", "left_over", "sockets_after_sigterm") if result[name]]
    for name in ("after_restart", "after_wipe"):
        if max(result[name], default=0) > REPUBLISH_SECONDS:
            bad.append(f"{name}: {max(result[name]):.2f} s until the slices are back, not {REPUBLISH_SECONDS:g}")
    if max(result["after_kill"], default=0) >= NEVER:
        bad.append("a killed driver did not come back")
    if result["rss_mib"] > RSS_MIB:
        bad.append(f"{result['rss_mib']:.1f} MiB")
    if result["foreign_touched"] or result["own_slices"] != 2:
        bad.append(f"{result['own_slices']} slices of ours, {result['foreign_touched']} of others touched")
    return bad


def main() -> int:
    """Print a table; 1 if something is not as it should be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--keep", action="store_true", help="keep the program's log in plugin_faults.log")
    parser.add_argument("--seed", type=int, default=20, help="of the moments at which it is killed")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    count = 3 if arguments.quick else 20
    result = measure(count, count, 1000 if arguments.quick else 10_000, arguments.seed)
    for name in ("after_kill", "after_restart", "after_wipe"):
        times = sorted(result[name])
        print(f"{name:16} n {len(times):3}  median {times[len(times) // 2]:6.3f} s  worst {times[-1]:6.3f} s")
    for name in ("first_publication", "claims", "tries", "longest_claim", "rss_mib", "watches", "listed"):
        print(f"{name:24} {result[name]:.6g}")
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2))
    bad = verdict(result)
    print(*(f"BAD  {line}" for line in bad), sep="\n")
    print("everything as it should be" if not bad else "")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
