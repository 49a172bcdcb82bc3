"""The device plugin against a kubelet that speaks the real API: the whole life of a node."""

from __future__ import annotations

import socket
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from openrknn.kubernetes.daemon import Daemon, Options
from openrknn.kubernetes.inventory import Settings
from openrknn.kubernetes.messages import DEVICE_PLUGIN, POD_RESOURCES, message
from tests.kubernetes.kubelet import Kubelet, wait_for
from tests.machines import Machine, rknpu_board


@contextmanager
def running(folder: Path, settings: Settings, **more: Any) -> Iterator[Daemon]:
    daemon = Daemon(
        Options(
            settings,
            plugin_folder=folder / "device-plugins",
            pod_resources=folder / "pod-resources/kubelet.sock",
            interval_seconds=0.05,
            **more,
        )
    )
    thread = threading.Thread(target=daemon.run)
    thread.start()
    try:
        yield daemon
    finally:
        daemon.stop()
        thread.join()


def test_registration_and_allocation(short: Path, tmp_path: Path) -> None:
    rknpu_board(tmp_path)
    with Kubelet(short) as kubelet, running(short, Settings(tmp_path)):
        wait_for(lambda: len(kubelet.devices) == 3, "registration")
        assert kubelet.registrations[0].resource_name == "rockchip.com/npu"
        assert set(kubelet.devices.values()) == {"Healthy"}
        first, second = kubelet.admit(1, 2)
        assert [(one.host_path, one.container_path, one.permissions) for one in first.devices] == [
            ("/dev/dri/card1", "/dev/dri/card1", "rw"),
            ("/dev/dri/renderD129", "/dev/dri/renderD129", "rw"),
        ]
        assert first.envs["OPENRKNN_NPU"] == "rknpu:/dev/dri/renderD129"
        assert len(second.devices) == 2
        with pytest.raises(LookupError, match="Requested: 1, Available: 0"):
            kubelet.admit(1)


def test_cores_that_belong_together(short: Path, tmp_path: Path) -> None:
    rknpu_board(tmp_path)
    with Kubelet(short) as kubelet, running(short, Settings(tmp_path, strategy="cores")):
        wait_for(lambda: len(kubelet.devices) == 3, "registration")
        one, two = kubelet.admit(1, 2)
        assert (one.envs["OPENRKNN_CORE_MASK"], two.envs["OPENRKNN_CORE_MASK"]) == ("4", "3")


def test_health_flips_and_comes_back(short: Path, tmp_path: Path) -> None:
    machine = rknpu_board(tmp_path)
    node = machine.root / "dev/dri/renderD129"
    with Kubelet(short) as kubelet, running(short, Settings(tmp_path)):
        wait_for(lambda: len(kubelet.devices) == 3, "registration")
        node.unlink()
        wait_for(lambda: set(kubelet.devices.values()) == {"Unhealthy"}, "the flip")
        machine.node("/dev/dri/renderD129")
        wait_for(lambda: set(kubelet.devices.values()) == {"Healthy"}, "the flip back")
        assert len(kubelet.registrations) == 1


def test_it_survives_a_restart_of_the_kubelet(short: Path, tmp_path: Path) -> None:
    Machine(tmp_path)
    with running(short, Settings(tmp_path, software=2)):  # the plugin may be there first
        for _ in range(3):
            with Kubelet(short) as kubelet:
                wait_for(lambda: len(kubelet.devices) == 2, "registration")
                (answer,) = kubelet.admit(1)
                assert answer.envs["OPENRKNN_NPU"] == "software"


def test_a_rolling_upgrade(short: Path, tmp_path: Path) -> None:
    """At the end of the older one's stream the kubelet drops the newer one, which registers again."""
    Machine(tmp_path)
    settings = Settings(tmp_path, software=2)
    with Kubelet(short) as kubelet, running(short, settings) as older:
        wait_for(lambda: len(kubelet.devices) == 2, "the older one")
        with running(short, settings):
            wait_for(lambda: kubelet.streams == 2, "the newer one")
            first, second = (one.endpoint for one in kubelet.registrations)
            assert first != second
            older.stop()
            wait_for(lambda: len(kubelet.registrations) == 3, "the newer one again")
            assert kubelet.registrations[2].endpoint == second
            wait_for(lambda: set(kubelet.devices.values()) == {"Healthy"}, "its devices")
            (answer,) = kubelet.admit(1)
            assert answer.envs["OPENRKNN_NPU"] == "software"


def test_a_plugin_that_was_killed_leaves_a_socket_that_goes(short: Path, tmp_path: Path) -> None:
    Machine(tmp_path)
    with Kubelet(short) as kubelet:
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(kubelet.plugins / "openrknn-rockchip.com-npu-00000000010000.sock"))
        with running(short, Settings(tmp_path, software=1)):
            wait_for(lambda: len(kubelet.devices) == 1, "registration")
            assert len(list(kubelet.plugins.glob("openrknn-*"))) == 1


def test_unknown_devices_are_refused(short: Path, tmp_path: Path) -> None:
    Machine(tmp_path)
    with Kubelet(short) as kubelet, running(short, Settings(tmp_path, software=1)):
        wait_for(lambda: len(kubelet.devices) == 1, "registration")
        request = message(DEVICE_PLUGIN, "AllocateRequest")()
        request.container_requests.add(devices_ids=["npu9"])
        with pytest.raises(grpc.RpcError) as caught:
            kubelet.plugin.Allocate(request)
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND


def test_cdi_devices_instead_of_nodes(short: Path, tmp_path: Path) -> None:
    rknpu_board(tmp_path / "root")
    with Kubelet(short) as kubelet, running(short, Settings(tmp_path / "root"), cdi_folder=tmp_path / "cdi"):
        wait_for(lambda: len(kubelet.devices) == 3, "registration")
        (answer,) = kubelet.admit(1)
        assert [one.name for one in answer.cdi_devices] == ["rockchip.com/npu=npu0-fdab0000-npu-0"]
        assert list(answer.devices) == []
        assert answer.envs["OPENRKNN_NPU"] == "rknpu:/dev/dri/renderD129"
        assert "npu0-fdab0000-npu-0" in (tmp_path / "cdi/rockchip.com-npu.json").read_text()


def test_metrics_by_pod(short: Path, tmp_path: Path) -> None:
    rknpu_board(tmp_path)
    with Kubelet(short) as kubelet, running(short, Settings(tmp_path), features_folder=tmp_path / "f") as daemon:
        wait_for(lambda: len(kubelet.devices) == 3, "registration")
        pod = message(POD_RESOURCES, "PodResources")(name="eyes", namespace="home")
        container = pod.containers.add(name="main")
        container.devices.add(resource_name="rockchip.com/npu", device_ids=["npu0-fdab0000-npu-0"])
        container.devices.add(resource_name="example.com/gpu", device_ids=["gpu0"])
        kubelet.pods = [pod]
        text = daemon.metrics()
        assert (
            'openrknn_npu_pod{namespace="home",pod="eyes",container="main",device="npu0-fdab0000-npu-0",'
            'npu="fdab0000.npu"} 1\n' in text
        )
        assert 'openrknn_npu_load_ratio{npu="fdab0000.npu",driver="rknpu",core="2"} 0\n' in text
        assert "gpu0" not in text
        assert text.count("# TYPE openrknn_npu_load_ratio gauge") == 1
        assert (tmp_path / "f/openrknn").exists()


def test_the_exporter(short: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    Machine(tmp_path)
    caplog.set_level("INFO")
    with Kubelet(short) as kubelet, running(short, Settings(tmp_path, software=1), metrics=("127.0.0.1", 0)):
        wait_for(lambda: len(kubelet.devices) == 1, "registration")
        told = next(record.getMessage() for record in caplog.records if record.msg.startswith("metrics on"))
        port = told.rpartition(" ")[2]
        base = f"http://127.0.0.1:{port}"
        with urllib.request.urlopen(f"{base}/metrics") as answer:
            assert b"openrknn_npu_device_healthy" in answer.read()
        wait_for(lambda: _status(f"{base}/healthz") == 200, "health")


def _status(url: str) -> int:
    try:
        with urllib.request.urlopen(url) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_a_folder_that_cannot_be_written_does_not_end_it(short: Path, tmp_path: Path) -> None:
    Machine(tmp_path / "root")
    (tmp_path / "features").write_text("a file, not a folder")
    with (
        Kubelet(short) as kubelet,
        running(short, Settings(tmp_path / "root", software=1), features_folder=tmp_path / "features/d"),
    ):
        (tmp_path / "features").unlink()
        wait_for(lambda: len(kubelet.devices) == 1, "registration")
        assert (tmp_path / "features/d/openrknn").exists()
