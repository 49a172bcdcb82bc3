"""A stand-in for the kubelet: the real gRPC API over the real sockets, with the real order of calls.

It is as unkind as Kubernetes 1.36's: sockets of dead drivers stay and are tried in vain, a path that failed is not
tried again, an endpoint is registered once, and when the stream of an older device plugin ends, the newest one of that
resource is dropped. `raw` checks of the wire are in test_messages.py.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import grpc

from openrknn.kubernetes.messages import DEVICE_PLUGIN, DRA, DRA_HEALTH, POD_RESOURCES, REGISTRATION, message
from openrknn.kubernetes.services import handler, new_server, stub, unix

__all__ = ["Kubelet", "wait_for"]

DEADLINE_SECONDS = 60


def wait_for(condition: Callable[[], bool], what: str = "it") -> None:
    """Until it is so; a loaded machine gets its time."""
    end = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < end, f"{what} did not happen"
        time.sleep(0.01)


class Kubelet:
    """Registration server, watcher of devices, admission of containers, PodResources."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.plugins = folder / "device-plugins"
        self.registrations: list[Any] = []
        self.devices: dict[str, str] = {}
        self.updates = self.streams = 0
        self.pods: list[Any] = []
        self._allocated: set[str] = set()
        self._watching: list[Any] = []
        self._threads: list[threading.Thread] = []
        self._newest: Any = None
        self._failed: set[tuple[str, float]] = set()
        self.drivers: dict[str, Any] = {}
        """What drivers said of themselves, by the path of their registration; the newest is the last."""

    def __enter__(self) -> Kubelet:
        # A real one removes every socket in its folder when it starts.
        shutil.rmtree(self.plugins, ignore_errors=True)
        self.plugins.mkdir(parents=True)
        (self.folder / "pod-resources").mkdir(parents=True, exist_ok=True)
        (self.folder / "plugins_registry").mkdir(parents=True, exist_ok=True)
        self._server, self._pods = new_server(), new_server(2)
        self._server.add_generic_rpc_handlers((handler("v1beta1.Registration", self),))
        self._server.add_insecure_port(unix(self.plugins / "kubelet.sock"))
        self._server.start()
        self._pods.add_generic_rpc_handlers((handler("v1.PodResourcesLister", self),))
        self._pods.add_insecure_port(unix(self.folder / "pod-resources/kubelet.sock"))
        self._pods.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for channel, watch in self._watching:
            watch.cancel()
            channel.close()
        for thread in self._threads:
            thread.join()
        self._server.stop(0).wait()
        self._pods.stop(0).wait()

    # ------------------------------------------------------------ services

    def Register(self, request: Any, context: Any) -> Any:  # noqa: N802
        assert request.version == "v1beta1"
        assert "/" not in request.endpoint
        self.registrations.append(request)
        channel = grpc.insecure_channel(
            unix(self.plugins / request.endpoint), options=[("grpc.default_authority", "localhost")]
        )
        self.plugin = stub(channel, "v1beta1.DevicePlugin")
        options = self.plugin.GetDevicePluginOptions(message(DEVICE_PLUGIN, "Empty")(), timeout=DEADLINE_SECONDS)
        assert options.get_preferred_allocation_available
        watch = self.plugin.ListAndWatch(message(DEVICE_PLUGIN, "Empty")())
        self._watching.append((channel, watch))
        self._newest = watch
        thread = threading.Thread(target=self._watch, args=(watch,))
        self._threads.append(thread)
        thread.start()
        return message(DEVICE_PLUGIN, "Empty")()

    def List(self, request: Any, context: Any) -> Any:  # noqa: N802
        return message(POD_RESOURCES, "ListPodResourcesResponse")(pod_resources=self.pods)

    def GetAllocatableResources(self, request: Any, context: Any) -> Any:  # noqa: N802
        return message(POD_RESOURCES, "AllocatableResourcesResponse")()

    def _watch(self, watch: Any) -> None:
        is_first = True
        try:
            for answer in watch:
                self.streams += is_first
                is_first = False
                self.devices = {device.ID: device.health for device in answer.devices}
                self.updates += 1
        except grpc.RpcError:
            pass
        # runClient of the real one asks for the client by the name of the resource, and gets the newest.
        newest, self._newest = self._newest, None
        if newest is not None and newest is not watch:
            newest.cancel()
        self.devices = dict.fromkeys(self.devices, "Unhealthy")

    # ------------------------------------------------------------ what a kubelet does with a pod

    def admit(self, *counts: int, required: tuple[str, ...] = ()) -> list[Any]:
        """Containers that want so many devices each: preferred allocation, then Allocate, then PreStart."""
        request = message(DEVICE_PLUGIN, "AllocateRequest")()
        for count in counts:
            healthy = {one for one, health in self.devices.items() if health == "Healthy"}
            free = sorted(healthy - self._allocated)
            if len(free) < count:
                raise LookupError(f"Requested: {count}, Available: {len(free)}")
            wanted = message(DEVICE_PLUGIN, "PreferredAllocationRequest")()
            wanted.container_requests.add(
                available_deviceIDs=free, must_include_deviceIDs=required, allocation_size=count
            )
            answer = self.plugin.GetPreferredAllocation(wanted, timeout=DEADLINE_SECONDS)
            chosen = list(answer.container_responses[0].deviceIDs)
            assert len(chosen) == count
            self._allocated.update(chosen)
            request.container_requests.add(devices_ids=chosen)
        responses = list(self.plugin.Allocate(request, timeout=DEADLINE_SECONDS).container_responses)
        assert len(responses) == len(counts)
        for one in request.container_requests:
            start = message(DEVICE_PLUGIN, "PreStartContainerRequest")(devices_ids=one.devices_ids)
            self.plugin.PreStartContainer(start, timeout=DEADLINE_SECONDS)
        self.chosen = [list(one.devices_ids) for one in request.container_requests]
        return responses

    # ------------------------------------------------------------ DRA

    def scan(self) -> None:
        """What the plugin watcher does: registers what appeared, forgets what is gone, gives up on what is dead."""
        there = {str(path): path for path in sorted((self.folder / "plugins_registry").glob("[!.]*.sock"))}
        for gone in self.drivers.keys() - there.keys():
            del self.drivers[gone]
        for path in there.values():
            try:
                born = (str(path), path.stat().st_ctime)
            except FileNotFoundError:
                continue
            if str(path) in self.drivers or born in self._failed:
                continue
            try:
                self.drivers[str(path)] = self._meet(path)
            except grpc.RpcError:
                self._failed.add(born)

    def _meet(self, socket: Path) -> Any:
        with grpc.insecure_channel(unix(socket)) as channel:
            registration = stub(channel, "pluginregistration.Registration")
            info = registration.GetInfo(message(REGISTRATION, "InfoRequest")(), timeout=10)
            assert info.type == "DRAPlugin"
            assert list(info.supported_versions) == ["v1.DRAPlugin", "v1alpha1.DRAResourceHealth"]
            known = any(info.endpoint == other.endpoint for other in self.drivers.values())
            text = f"endpoint {info.endpoint} already registered" if known else ""
            status = message(REGISTRATION, "RegistrationStatus")(plugin_registered=not known, error=text)
            registration.NotifyRegistrationStatus(status, timeout=10)
        return info

    def find_driver(self) -> Any:
        """The newest driver that is registered."""
        self.scan()
        return list(self.drivers.values())[-1]

    @staticmethod
    def watch_health(endpoint: str, most: int) -> list[dict[str, tuple[int, str]]]:
        """The first so many answers of the health stream: device -> status, message."""
        found: list[dict[str, tuple[int, str]]] = []
        with grpc.insecure_channel(unix(endpoint)) as channel:
            stream = stub(channel, "v1alpha1.DRAResourceHealth").NodeWatchResources(
                message(DRA_HEALTH, "NodeWatchResourcesRequest")(), timeout=DEADLINE_SECONDS
            )
            for answer in stream:
                found.append({one.device.device_name: (one.health, one.message) for one in answer.devices})
                if len(found) == most:
                    stream.cancel()
                    break
        return found

    @staticmethod
    def call_driver(endpoint: str, verb: str, *claims: tuple[str, str, str]) -> Any:
        """NodePrepareResources or NodeUnprepareResources; namespace, name, uid of each claim."""
        request = message(DRA, f"{verb}Request")()
        for namespace, name, uid in claims:
            request.claims.add(namespace=namespace, name=name, uid=uid)
        with grpc.insecure_channel(unix(endpoint)) as channel:
            service = stub(channel, "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin")
            return getattr(service, verb)(request, timeout=DEADLINE_SECONDS)
