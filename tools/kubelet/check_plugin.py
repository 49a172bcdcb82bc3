"""The device plugin on a real kubelet."""

from __future__ import annotations

import subprocess
import time
import urllib.request

from node import METRICS_PORT, MODEL, PYTHON, Node
from processes import end, expect, wait
from sandbox import add_node

PROGRAM = (
    f"import numpy, openrknn; s = openrknn.Session({str(MODEL)!r}); "
    "out = s.run([numpy.zeros(spec.shape, 'float32') for spec in s.inputs]); "
    "print(s.device.name, [value.tobytes().hex()[:64] for value in out.values()])"
)
"""An inference whose answer can be compared with the host's own."""


def inference() -> str:
    """A line of shell that computes, and shows the variables that the runtime gave."""
    return f'OPENRKNN_STATUS=off {PYTHON} -c "{PROGRAM}"; env | grep OPENRKNN'


def host_answer() -> str:
    """What the program says without a container."""
    return subprocess.run([PYTHON, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout


def registration(node: Node) -> str:
    """The kubelet calls back, and the plugin says so."""
    node.start_plugin()
    wait(lambda: "registered rockchip.com/npu" in node.processes.log("plugin"), "registration")
    return ""


def pod_with_a_node(node: Node) -> str:
    """The first device is the fake NPU: its node is in the container, and can be read."""
    node.pod("node", 1, "/bin/busybox head -c 4 /dev/accel/accel0 | /bin/busybox od; env")
    text = node.result("node")
    expect("0000000 000000 000000" in text, text)
    expect("OPENRKNN_NPU=rocket:/dev/accel/accel0\n" in text, text)
    return ""


def inference_in_a_pod(node: Node) -> str:
    """The device plugin's own words reach the program: `auto` is what the kubelet gave."""
    node.pod("inference", 1, inference())
    text = node.result("inference")
    expect(text.startswith(host_answer()), text)
    expect("OPENRKNN_NPU=software\n" in text, text)
    return ""


def too_many(node: Node) -> str:
    """A pod that asks for more than there is."""
    node.pod("greedy", 9, "true")
    wait(lambda: node.refusal("greedy"), "the refusal")
    text = node.refusal("greedy")
    expect("Requested: 9" in text or "Insufficient rockchip.com/npu" in text, text)
    node.delete("greedy")
    return ""


def pod_resources(node: Node) -> str:
    """The exporter knows which pod has which device."""
    with urllib.request.urlopen(f"http://127.0.0.1:{METRICS_PORT}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    wanted = f'openrknn_npu_pod{{namespace="default",pod="{node.pod_name("inference")}",container="main"'
    expect(wanted in text, text)
    return ""


def restart_of_the_kubelet(node: Node) -> str:
    """The plugin registers again, and no container is touched."""
    before = node.ctr("tasks", "list")
    end(node.kubelet)
    node.kubelet = node.start_kubelet()
    wait(lambda: node.processes.log("plugin").count("registered rockchip.com/npu") == 2, "the second registration")
    wait(lambda: node.states()["inference"]["phase"] == "Running", "the pod's state")
    expect(sorted(before.splitlines()) == sorted(node.ctr("tasks", "list").splitlines()), "containers were touched")
    return ""


def kill_of_the_plugin(node: Node) -> str:
    """Its socket stays behind; the next one takes it over, and registers."""
    process, seen = node.plugin, node.processes.log("plugin").count("registered rockchip.com/npu")
    expect(process is not None, "there is no plugin")
    if process is not None:
        process.kill()
        process.wait()
    node.start_plugin()
    seconds = wait(lambda: node.processes.log("plugin").count("registered rockchip.com/npu") > seen, "registration")
    return f"registered {seconds:.1f} s after the start"


def health(node: Node) -> str:
    """The fake NPU loses its node: the kubelet has one device less, until the node is back."""
    node.delete("node")
    device = node.board / "dev/accel/accel0"
    device.unlink()
    wait(lambda: "npu0: /dev/accel/accel0 is gone" in node.processes.log("plugin"), "the flip")
    time.sleep(1)  # until the kubelet has heard it
    node.pod("flip", 2, "true")
    wait(lambda: node.refusal("flip"), "the refusal")
    text = node.refusal("flip")
    expect("Available: 1" in text or "Insufficient rockchip.com/npu" in text, text)
    node.delete("flip")
    add_node(node.board)
    wait(lambda: "npu0: well" in node.processes.log("plugin").rpartition("is gone")[2], "the flip back")
    time.sleep(1)
    node.pod("both", 2, "env")
    expect("OPENRKNN_NPUS=rocket:/dev/accel/accel0,software" in node.result("both"), "both devices")
    return ""


def tidy(node: Node) -> str:
    """Its pods and the plugin end: what follows needs the devices."""
    for name in ("inference", "both"):
        node.delete(name)
    node.stop_plugin()
    return ""


CHECKS = (
    registration, pod_with_a_node, inference_in_a_pod, too_many, pod_resources, restart_of_the_kubelet,
    kill_of_the_plugin, health, tidy,
)  # fmt: skip
