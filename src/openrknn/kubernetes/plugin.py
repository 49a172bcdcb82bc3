"""The device plugin (v1beta1): tells the kubelet which NPUs there are, and what containers get.

The kubelet removes every socket in its folder when it starts. The plugin notices that its own is gone, or that the
kubelet's is another one, serves again and registers again; containers that run are not touched. It also registers again
when the kubelet stops listening: at the end of an older instance's stream a kubelet (1.36: `runClient`) drops whichever
instance is the newest by then, calls its devices unhealthy, and may do so after it came back. So a plugin that was
dropped waits for a moment, and says again what it has.
"""

from __future__ import annotations

import itertools
import logging
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from openrknn.kubernetes.allocation import grant, prefer
from openrknn.kubernetes.instances import Family, new_token
from openrknn.kubernetes.inventory import Offer
from openrknn.kubernetes.messages import DEVICE_PLUGIN, message
from openrknn.kubernetes.services import Socket, identity, load_grpc, stub, unix

__all__ = ["FOLDER", "DevicePlugin", "KubeletLink"]

_LOG = logging.getLogger(__name__)
FOLDER = Path("/var/lib/kubelet/device-plugins")
"""Hard-wired in the kubelet."""
_VERSION = "v1beta1"
_REGISTER_SECONDS = 10
_SAY_AGAIN_SECONDS = (0.0, 1.0, 5.0, 300.0)
_DROPPED_SECONDS = 0.5
_LISTEN_SECONDS = 5.0
"""How long a kubelet may take from a registration to its call for the devices."""


class DevicePlugin:
    """The service. `cdi_kind` names CDI devices instead of nodes, where the runtime knows CDI."""

    def __init__(self, cdi_kind: str = "", left: Callable[[], None] = lambda: None) -> None:
        self._cdi_kind, self._left = cdi_kind, left
        self._watchers = self._begun = 0
        self._changed = threading.Condition()
        self._offers: tuple[Offer, ...] = ()
        self._reasons: Mapping[str, str | None] = {}
        self._generation = 0
        self._closed = False

    def update(self, offers: tuple[Offer, ...], reasons: Mapping[str, str | None]) -> None:
        """New devices or another health; watchers are notified if anything changed."""
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

    @property
    def watchers(self) -> tuple[int, int]:
        """How many kubelets listen (one is right), and how many ever began to."""
        with self._changed:
            return self._watchers, self._begun

    def ListAndWatch(self, request: Any, context: Any) -> Iterator[Any]:  # noqa: N802
        seen, pauses = -1, itertools.chain(_SAY_AGAIN_SECONDS, itertools.repeat(_SAY_AGAIN_SECONDS[-1]))
        with self._changed:
            self._watchers += 1
            self._begun += 1
        # Each stream holds a worker: it has to end when the kubelet does, not at the next change.
        context.add_callback(self._wake)
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(
                        lambda: self._closed or self._generation != seen or not context.is_active(),  # noqa: B023
                        timeout=next(pauses),
                    )
                    if self._closed or not context.is_active():
                        return
                    seen, answer = self._generation, self._devices()
                yield answer
        finally:
            with self._changed:
                self._watchers -= 1
            self._left()

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

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

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
    """Serves the plugin in the kubelet's folder, and registers it again whenever the kubelet does not listen."""

    def __init__(
        self,
        plugin: DevicePlugin,
        resource: str,
        folder: Path = FOLDER,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._plugin, self._resource, self._folder, self._clock = plugin, resource, folder, clock
        self._family = Family(folder, "openrknn-" + re.sub(r"[^a-zA-Z0-9.-]+", "-", resource), ".sock")
        self._token = new_token()
        self._socket: Socket | None = None
        self._kubelet: tuple[int, int] | None = None
        self._registered_at = 0.0
        self._begun = 0
        self._problem = ""
        self.registrations = 0

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
            self._socket = Socket(self._family.path(self._token), {"v1beta1.DevicePlugin": self._plugin})
            self._kubelet = None
            for path in self._family.remove_dead(self._token):
                _LOG.info("removed %s, which a plugin that was killed left", path.name)
        if self._family.has_newer(self._token):
            # The newer pod of a rolling upgrade is registered, or will be; this one stays until it is told to go.
            self._kubelet = kubelet
        elif kubelet != self._kubelet or not self._is_heard():
            if kubelet == self._kubelet:
                _LOG.info("the kubelet does not listen any more")
                time.sleep(_DROPPED_SECONDS)
            self._kubelet = kubelet if self._register() else None
        return self.is_registered

    def close(self) -> None:
        """Stop serving; the kubelet then calls the devices unhealthy."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _is_heard(self) -> bool:
        """Whether the kubelet listens, or was told so recently that it may not have begun."""
        now, begun = self._plugin.watchers
        return bool(now) or (begun == self._begun and self._clock() - self._registered_at < _LISTEN_SECONDS)

    def _register(self) -> bool:
        """The kubelet calls back at once: the service is up before."""
        grpc = load_grpc()
        assert self._socket is not None
        request = message(DEVICE_PLUGIN, "RegisterRequest")(
            version=_VERSION, endpoint=self._socket.path.name, resource_name=self._resource
        )
        request.options.get_preferred_allocation_available = True
        begun = self._plugin.watchers[1]
        with grpc.insecure_channel(unix(self._folder / "kubelet.sock")) as channel:
            try:
                stub(channel, "v1beta1.Registration").Register(request, timeout=_REGISTER_SECONDS)
            except grpc.RpcError as error:
                if error.details() != self._problem:
                    _LOG.warning("the kubelet does not take %s: %s; trying again", self._resource, error.details())
                self._problem = error.details()
                return False
        self._registered_at, self._begun, self._problem = self._clock(), begun, ""
        self.registrations += 1
        _LOG.info("registered %s", self._resource)
        return True
