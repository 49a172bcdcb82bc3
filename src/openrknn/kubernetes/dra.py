"""The DRA driver: publishes to the API server what the node has, and prepares claims for the kubelet.

What is published is compared with what the API server holds, never with what this process remembers: a kubelet that
starts again deletes the slices of its node (`publisher`, `watch`, `object_store`).
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from openrknn.errors import RknnError
from openrknn.kubernetes.api import ApiServer
from openrknn.kubernetes.claims import Claims
from openrknn.kubernetes.features import Features
from openrknn.kubernetes.health import code
from openrknn.kubernetes.instances import Family, new_token
from openrknn.kubernetes.inventory import Offer, Settings, Unit
from openrknn.kubernetes.messages import DRA, REGISTRATION, message
from openrknn.kubernetes.publisher import Publisher
from openrknn.kubernetes.resource_health import ResourceHealth
from openrknn.kubernetes.services import Socket
from openrknn.kubernetes.slices import parts, pool
from openrknn.monitor.prometheus import Sample

__all__ = ["NAME", "Driver", "Folders"]

_LOG = logging.getLogger(__name__)
NAME = "npu.rockchip.com"
_SWEEP_SECONDS = 60.0
_REGISTER_SECONDS = 60.0
"""A kubelet that has not found us by then has missed our socket, and gets another one."""
_SERVICES = {"v1.DRAPlugin": "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin", "v1alpha1.DRAResourceHealth": ""}
"""As the kubelet calls them -> as they are called on the wire, where that is something else."""


class Folders:
    """Where the kubelet looks. The sockets of each instance have names of their own."""

    def clean_up(self) -> list[Path]:
        """Remove what instances that are gone left; what lives is not touched."""
        removed = [path for family in (self.registrations, self.services) for path in family.remove_dead("")]
        if not any(self.services.members()):
            removed += [path for path in self.claims.glob("*") if path.is_file()]
            for path in removed:
                path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                self.claims.rmdir()
        return removed

    def __init__(self, kubelet: Path = Path("/var/lib/kubelet"), cdi: Path = Path("/var/run/cdi")) -> None:
        self.registrations = Family(kubelet / "plugins_registry", NAME, "-reg.sock")
        self.services = Family(kubelet / "plugins" / NAME, "dra", ".sock")
        self.claims = kubelet / "plugins" / NAME / "claims"
        self.cdi = cdi


class Driver:
    """Both sides: slices for the scheduler, claims for the kubelet."""

    name = NAME

    def __init__(
        self,
        settings: Settings,
        node: str,
        api: ApiServer,
        folders: Folders | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings, self._node, self._clock = settings, node, clock
        self._folders = folders or Folders()
        self._claims = Claims(api, NAME, node, self._folders.cdi, self._folders.claims)
        self._publisher = Publisher(api, NAME, node, clock, lambda: not self._folders.services.has_newer(self._token))
        self._health = ResourceHealth(node)
        self._lock = threading.Lock()
        self._known: dict[str, Offer] = {}
        self._offered: tuple[Offer, ...] = ()
        self._token = new_token()
        self._sockets: list[Socket] = []
        self._served_at = self._swept_at = float("-inf")
        self._sweeper: threading.Thread | None = None
        self._started = self._was_published = False
        self._counts = {"prepared": 0, "failed": 0, "unprepared": 0, "registered": 0}
        self.is_registered = False

    @property
    def offered(self) -> tuple[Offer, ...]:
        """The devices of this node, by the names that claims use."""
        with self._lock:
            return self._offered

    @property
    def is_published(self) -> bool:
        """Whether the API server holds what this node has."""
        return self._publisher.is_published

    @property
    def is_ready(self) -> bool:
        """Whether the kubelet knows us and the cluster has heard of our devices: then an older instance may go."""
        self._was_published = self._was_published or self.is_published
        return self.is_registered and self._was_published

    def refresh(
        self, units: Sequence[Unit], reasons: Mapping[str, str | None], settings: Settings | None = None
    ) -> None:
        """Serve, and say what there is; the publisher writes what differs, in a thread of its own."""
        self._settings = settings = settings or self._settings
        known = parts(settings, units)
        with self._lock:
            self._known = {offer.id: offer for offer in known}
            self._offered = pool(settings, units, {}).offers
        self._health.update(known, reasons)
        late = not self.is_registered and self._clock() - self._served_at > _REGISTER_SECONDS
        if late:
            self._token = new_token()
        if late or not self._sockets or not all(socket.is_reachable for socket in self._sockets):
            self._serve()
        shown = dict(reasons)

        def contents(features: Features) -> Sequence[Mapping[str, Any]]:
            return pool(settings, units, shown, features).contents(shown)

        codes = tuple((name, reason and code(reason)) for name, reason in sorted(shown.items()))
        self._publisher.want((settings, tuple(units), codes), contents)
        if self._publisher.is_held:  # the newer instance may be gone by now
            self._publisher.wake()
        if not self._started:
            self._started = True
            self._publisher.start()
        self._sweep()

    def close(self) -> None:
        """Stop serving. Slices stay: a driver that is updated must not take its pods' devices away."""
        self._health.close()
        self._publisher.close()
        self._close_sockets()

    def samples(self) -> Iterator[Sample]:
        """For Prometheus."""
        for what, count in self._counts.items():
            name = f"openrknn_dra_{'claims' if what != 'registered' else 'kubelet'}_{what}_total"
            yield name, "counter", f"DRA: how often ({what})", {}, count
        publisher = self._publisher
        held = int(self.is_published)
        yield "openrknn_dra_published", "gauge", "DRA: 1 while the API server holds our slices", {}, held
        yield "openrknn_dra_devices", "gauge", "DRA: devices that claims may get", {}, publisher.published_devices
        yield "openrknn_dra_writes_total", "counter", "DRA: slices written or deleted", {}, publisher.writes
        yield "openrknn_dra_watch_breaks_total", "counter", "DRA: watches that broke", {}, publisher.watch_breaks
        yield "openrknn_dra_claims", "gauge", "DRA: claims prepared on this node", {}, len(self._claims.prepared())

    # ------------------------------------------------------------ the kubelet's registration

    def GetInfo(self, request: Any, context: Any) -> Any:  # noqa: N802
        return message(REGISTRATION, "PluginInfo")(
            type="DRAPlugin",
            name=NAME,
            endpoint=str(self._folders.services.path(self._token)),
            supported_versions=list(_SERVICES),
        )

    def NotifyRegistrationStatus(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.is_registered = request.plugin_registered
        if request.plugin_registered:
            self._counts["registered"] += 1
            _LOG.info("registered the DRA driver %s", NAME)
        else:
            _LOG.warning("the kubelet rejects the DRA driver: %s", request.error)
        self._publisher.wake()
        return message(REGISTRATION, "RegistrationStatusResponse")()

    # ------------------------------------------------------------ claims

    def NodePrepareResources(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Every claim gets an answer; what is wrong with one says nothing about the others."""
        answer = message(DRA, "NodePrepareResourcesResponse")()
        with self._lock:
            known = dict(self._known)
        for claim in request.claims:
            response = answer.claims[claim.uid]
            try:
                for made in self._claims.prepare(claim.namespace, claim.name, claim.uid, known):
                    response.devices.add(
                        request_names=[made.request], pool_name=made.pool, device_name=made.device,
                        cdi_device_ids=[made.cdi_id], share_id=made.share,
                    )  # fmt: skip
                self._counts["prepared"] += 1
                _LOG.info("prepared the claim %s/%s", claim.namespace, claim.name)
            except (RknnError, OSError, KeyError, TypeError, ValueError, AttributeError) as error:
                self._counts["failed"] += 1
                response.ClearField("devices")
                response.error = f"{type(error).__name__}: {error}"
                _LOG.warning("the claim %s/%s cannot be prepared: %s", claim.namespace, claim.name, error)
        return answer

    def NodeUnprepareResources(self, request: Any, context: Any) -> Any:  # noqa: N802
        answer = message(DRA, "NodeUnprepareResourcesResponse")()
        for claim in request.claims:
            response = answer.claims[claim.uid]
            try:
                self._claims.unprepare(claim.uid)
                self._counts["unprepared"] += 1
                _LOG.info("unprepared the claim %s/%s", claim.namespace, claim.name)
            except (RknnError, OSError) as error:
                response.error = str(error)
        return answer

    # ------------------------------------------------------------ inside

    def _serve(self) -> None:
        """The service first: the kubelet calls it as soon as it sees the registration's socket."""
        self._close_sockets()
        self.is_registered, self._served_at = False, self._clock()
        services = {wire or name: self._health if wire == "" else self for name, wire in _SERVICES.items()}
        service = Socket(self._folders.services.path(self._token), services, workers=6)
        self._sockets.append(service)
        registration = self._folders.registrations.path(self._token)
        self._sockets.append(Socket(registration, {"pluginregistration.Registration": self}, workers=2))
        for family in (self._folders.registrations, self._folders.services):
            for path in family.remove_dead(self._token):
                _LOG.info("removed %s, which a driver that was killed left", path.name)

    def _close_sockets(self) -> None:
        for socket in reversed(self._sockets):
            socket.close()
        self._sockets.clear()

    def _sweep(self) -> None:
        """Now and then, and only once the API server is known to answer."""
        is_busy = self._sweeper is not None and self._sweeper.is_alive()
        if self._publisher.is_published and not is_busy and self._clock() - self._swept_at > _SWEEP_SECONDS:
            self._swept_at = self._clock()
            self._sweeper = threading.Thread(target=self._swept, name="openrknn-sweep", daemon=True)
            self._sweeper.start()

    def _swept(self) -> None:
        try:
            self._claims.sweep()
        except OSError as error:
            _LOG.warning("leftovers of claims could not be removed: %s", error)
