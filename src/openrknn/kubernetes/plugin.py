"""The device plugin (v1beta1): tells the kubelet which NPUs there are, and what containers get.

The kubelet removes every socket in its folder when it starts. The plugin notices that its own is gone, or that the
kubelet's is another one, serves again and registers again; containers that run are not touched.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from openrknn.kubernetes.grants import grant, prefer
from openrknn.kubernetes.inventory import Offer
from openrknn.kubernetes.messages import DEVICE_PLUGIN, message
from openrknn.kubernetes.services import Socket, identity, load_grpc, stub, unix

__all__ = ["FOLDER", "DevicePlugin", "KubeletLink"]

_LOG = logging.getLogger(__name__)
FOLDER = Path("/var/lib/kubelet/device-plugins")
"""Hard-wired in the kubelet."""
_VERSION = "v1beta1"
_REGISTER_SECONDS = 10


class DevicePlugin:
    """The service. `cdi_kind` names CDI devices instead of nodes, where the runtime knows CDI."""

    def __init__(self, cdi_kind: str = "") -> None:
        self._cdi_kind = cdi_kind
        self._changed = threading.Condition()
        self._offers: tuple[Offer, ...] = ()
        self._reasons: Mapping[str, str | None] = {}
        self._generation = 0
        self._closed = False

    def update(self, offers: tuple[Offer, ...], reasons: Mapping[str, str | None]) -> None:
        """New devices or another health; whoever watches is told if anything changed."""
        with self._changed:
            if offers == self._offers and reasons == self._reasons:
                return
            for name, reason in reasons.items():
                if reason != self._reasons.get(name):
                    _LOG.log(logging.WARNING if reason else logging.INFO, "%s: %s", name, reason or "well")
            self._offers, self._reasons = offers, dict(reasons)
            self._generation += 1
            self._changed.notify_all()

    def close(self) -> None:
        """End all watches."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def GetDevicePluginOptions(self, request: Any, context: Any) -> Any:  # noqa: N802
        return message(DEVICE_PLUGIN, "DevicePluginOptions")(get_preferred_allocation_available=True)

    def ListAndWatch(self, request: Any, context: Any) -> Iterator[Any]:  # noqa: N802
        seen = -1
        while context.is_active():
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._generation != seen, timeout=5)  # noqa: B023
                if self._closed:
                    return
                if self._generation == seen:
                    continue
                seen, answer = self._generation, self._devices()
            yield answer

    def GetPreferredAllocation(self, request: Any, context: Any) -> Any:  # noqa: N802
        answer = message(DEVICE_PLUGIN, "PreferredAllocationResponse")()
        for wanted in request.container_requests:
            available = self._known(wanted.available_deviceIDs, context)
            required = self._known(wanted.must_include_deviceIDs, context)
            chosen = prefer(available, required, wanted.allocation_size)
            answer.container_responses.add(deviceIDs=[offer.id for offer in chosen])
        return answer

    def Allocate(self, request: Any, context: Any) -> Any:  # noqa: N802
        answer = message(DEVICE_PLUGIN, "AllocateResponse")()
        for wanted in request.container_requests:
            chosen = self._known(wanted.devices_ids, context)
            self._fill(answer.container_responses.add(), chosen)
            _LOG.info("allocated %s", ", ".join(offer.id for offer in chosen))
        return answer

    def PreStartContainer(self, request: Any, context: Any) -> Any:  # noqa: N802
        return message(DEVICE_PLUGIN, "PreStartContainerResponse")()

    def _devices(self) -> Any:
        answer = message(DEVICE_PLUGIN, "ListAndWatchResponse")()
        for offer in self._offers:
            bad = self._reasons.get(offer.unit.name)
            answer.devices.add(ID=offer.id, health="Unhealthy" if bad else "Healthy")
        return answer

    def _known(self, ids: Any, context: Any) -> list[Offer]:
        offers = {offer.id: offer for offer in self._offers}
        unknown = [one for one in ids if one not in offers]
        if unknown:
            status = load_grpc().StatusCode
            context.abort(status.NOT_FOUND, f"this node has no {unknown[0]}; it has {', '.join(offers) or 'none'}")
        return [offers[one] for one in ids]

    def _fill(self, response: Any, chosen: list[Offer]) -> None:
        if self._cdi_kind:
            for offer in chosen:
                response.cdi_devices.add(name=f"{self._cdi_kind}={offer.id}")
            # Variables of several CDI devices would overwrite each other; those of the kubelet are for all of them.
            response.envs.update(grant(chosen).variables)
            return
        given = grant(chosen)
        response.envs.update(given.variables)
        for node in given.nodes:
            response.devices.add(container_path=node, host_path=node, permissions="rw")
        for host, inside in given.mounts:
            response.mounts.add(container_path=inside, host_path=host, read_only=True)


class KubeletLink:
    """Serves the plugin in the kubelet's folder, and registers it again whenever the kubelet was started again."""

    def __init__(self, plugin: DevicePlugin, resource: str, folder: Path = FOLDER) -> None:
        self._plugin, self._resource, self._folder = plugin, resource, folder
        self._name = "openrknn-" + re.sub(r"[^a-zA-Z0-9.-]+", "-", resource) + ".sock"
        self._socket: Socket | None = None
        self._kubelet: tuple[int, int] | None = None

    @property
    def is_registered(self) -> bool:
        return self._kubelet is not None

    def refresh(self) -> bool:
        """Do what is needed to be registered; False while the kubelet is not there."""
        kubelet = identity(self._folder / "kubelet.sock")
        if self._socket is not None and not self._socket.is_reachable:
            _LOG.info("the socket is gone: the kubelet was started again")
            self.close()
        if kubelet is None:
            self._kubelet = None
            return False
        if self._socket is None:
            self._socket = Socket(self._folder / self._name, "v1beta1.DevicePlugin", self._plugin)
            self._kubelet = None
        if kubelet != self._kubelet:
            self._kubelet = kubelet if self._register() else None
        return self.is_registered

    def close(self) -> None:
        """Stop serving; the kubelet then calls the devices unhealthy."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _register(self) -> bool:
        """The kubelet calls back at once: the service is up before."""
        grpc = load_grpc()
        request = message(DEVICE_PLUGIN, "RegisterRequest")(
            version=_VERSION, endpoint=self._name, resource_name=self._resource
        )
        request.options.get_preferred_allocation_available = True
        with grpc.insecure_channel(unix(self._folder / "kubelet.sock")) as channel:
            try:
                stub(channel, "v1beta1.Registration").Register(request, timeout=_REGISTER_SECONDS)
            except grpc.RpcError as error:
                _LOG.warning("the kubelet does not take %s: %s; trying again", self._resource, error.details())
                return False
        _LOG.info("registered %s", self._resource)
        return True
