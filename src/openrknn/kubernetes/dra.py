"""The DRA driver: publishes to the API server what the node has, and prepares claims for the kubelet.

What is published is compared with what the API server holds, never with what this process remembers: a kubelet that
starts again deletes the slices of its node.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from openrknn.errors import RknnError
from openrknn.kubernetes.api import ApiError, ApiServer
from openrknn.kubernetes.claims import Claims
from openrknn.kubernetes.inventory import Offer, Settings, Unit
from openrknn.kubernetes.messages import DRA, REGISTRATION, message
from openrknn.kubernetes.services import Socket
from openrknn.kubernetes.slices import parts, slices

__all__ = ["NAME", "Driver", "Folders"]

_LOG = logging.getLogger(__name__)
NAME = "npu.rockchip.com"
_SLICES = "/apis/resource.k8s.io/v1/resourceslices"
_PAGE = 500
"""Objects per answer of the API server."""
_RESYNC_SECONDS = 10.0
"""From one comparison with the API server to the next while nothing seems to have changed."""


class Folders:
    """Where the kubelet looks."""

    def __init__(self, kubelet: Path = Path("/var/lib/kubelet"), cdi: Path = Path("/var/run/cdi")) -> None:
        self.registration = kubelet / "plugins_registry" / f"{NAME}-reg.sock"
        self.service = kubelet / "plugins" / NAME / "dra.sock"
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
        self._settings, self._node, self._api = settings, node, api
        self._folders = folders or Folders()
        self._claims = Claims(api, NAME, node, self._folders.cdi)
        self._lock = threading.Lock()
        self._offered: dict[str, Offer] = {}
        self._clock = clock
        self._published: tuple[object, ...] | None = None
        self._compare_at = 0.0
        self._sockets: list[Socket] = []
        self.is_registered = False

    @property
    def offered(self) -> tuple[Offer, ...]:
        """The devices of this node, by the names that claims use."""
        with self._lock:
            return tuple(self._offered.values())

    def refresh(self, units: Sequence[Unit], reasons: Mapping[str, str | None]) -> None:
        """Serve, and publish what differs; what fails is tried again in the next round."""
        offered = parts(self._settings, units)
        with self._lock:
            self._offered = {offer.id: offer for offer in offered}
        if not self._sockets or not all(socket.is_reachable for socket in self._sockets):
            self._serve()
        state = (offered, tuple(sorted((name, bool(reason)) for name, reason in reasons.items())))
        if state != self._published or self._clock() >= self._compare_at:
            try:
                self._publish(offered, reasons)
                self._published = state
                self._compare_at = self._clock() + _RESYNC_SECONDS
            except (ApiError, OSError) as error:
                self._published = None
                _LOG.warning("the slices could not be published: %s; trying again", error)

    def close(self) -> None:
        """Stop serving. Slices stay: a driver that is updated must not take its pods' devices away."""
        for socket in reversed(self._sockets):
            socket.close()
        self._sockets.clear()

    # ------------------------------------------------------------ the kubelet's registration

    def GetInfo(self, request: Any, context: Any) -> Any:  # noqa: N802
        return message(REGISTRATION, "PluginInfo")(
            type="DRAPlugin", name=NAME, endpoint=str(self._folders.service), supported_versions=["v1.DRAPlugin"]
        )

    def NotifyRegistrationStatus(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.is_registered = request.plugin_registered
        self._compare_at = 0.0  # a kubelet that was started again has deleted the slices
        if request.plugin_registered:
            _LOG.info("registered the DRA driver %s", NAME)
        else:
            _LOG.warning("the kubelet rejects the DRA driver: %s", request.error)
        return message(REGISTRATION, "RegistrationStatusResponse")()

    # ------------------------------------------------------------ claims

    def NodePrepareResources(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Every claim gets an answer; what is wrong with one says nothing about the others."""
        answer = message(DRA, "NodePrepareResourcesResponse")()
        with self._lock:
            offered = dict(self._offered)
        for claim in request.claims:
            response = answer.claims[claim.uid]
            try:
                for made in self._claims.prepare(claim.namespace, claim.name, claim.uid, offered):
                    response.devices.add(
                        request_names=[made.request], pool_name=made.pool, device_name=made.device,
                        cdi_device_ids=[made.cdi_id],
                    )  # fmt: skip
                _LOG.info("prepared the claim %s/%s", claim.namespace, claim.name)
            except (RknnError, OSError, KeyError) as error:
                response.error = f"{type(error).__name__}: {error}"
                _LOG.warning("the claim %s/%s cannot be prepared: %s", claim.namespace, claim.name, error)
        return answer

    def NodeUnprepareResources(self, request: Any, context: Any) -> Any:  # noqa: N802
        answer = message(DRA, "NodeUnprepareResourcesResponse")()
        for claim in request.claims:
            response = answer.claims[claim.uid]
            try:
                self._claims.unprepare(claim.uid)
            except (RknnError, OSError) as error:
                response.error = str(error)
        return answer

    # ------------------------------------------------------------ inside

    def _serve(self) -> None:
        """The service first: the kubelet calls it as soon as it sees the registration's socket."""
        self.close()
        self.is_registered = False
        for path, service in (
            (self._folders.service, "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin"),
            (self._folders.registration, "pluginregistration.Registration"),
        ):
            self._sockets.append(Socket(path, service, self, workers=4))

    def _publish(self, offered: Sequence[Offer], reasons: Mapping[str, str | None]) -> None:
        """Make the slices of the API server those of this node, if they are not."""
        old = {item["metadata"]["name"]: item for item in self._published_slices()}
        generation = max((item["spec"]["pool"]["generation"] for item in old.values()), default=0)
        node = {"name": self._node, "uid": ""}
        wanted = slices(NAME, node, offered, reasons, generation)
        have = {name: item["spec"] for name, item in old.items()}
        want = {item["metadata"]["name"]: item["spec"] for item in wanted}
        if have.keys() == want.keys() and _holds(have, want):
            return
        node["uid"] = self._api.get(f"/api/v1/nodes/{self._node}")["metadata"]["uid"]
        for item in slices(NAME, node, offered, reasons, generation + 1):
            name = item["metadata"]["name"]
            if name in old:
                item["metadata"]["resourceVersion"] = old.pop(name)["metadata"]["resourceVersion"]
                self._api.call("PUT", f"{_SLICES}/{name}", item)
            else:
                self._api.call("POST", _SLICES, item)
        for name in old:
            with contextlib.suppress(ApiError):
                self._api.call("DELETE", f"{_SLICES}/{name}")
        count = sum(len(item["spec"].get("devices", ())) for item in wanted)
        _LOG.info("published %d devices, generation %d", count, generation + 1)

    def _published_slices(self) -> Iterator[dict[str, Any]]:
        """Ours alone, page by page: a cluster may have thousands of slices of other drivers and nodes."""
        selector = f"fieldSelector=spec.driver%3D{NAME},spec.nodeName%3D{self._node}&limit={_PAGE}"
        token = ""
        while True:
            answer = self._api.get(f"{_SLICES}?{selector}" + (f"&continue={quote(token)}" if token else ""))
            yield from (item for item in answer["items"] if self._is_ours(item))
            token = (answer.get("metadata") or {}).get("continue") or ""
            if not token:
                return

    def _is_ours(self, item: Mapping[str, Any]) -> bool:
        return bool(item["spec"]["driver"] == NAME and item["spec"].get("nodeName") == self._node)


def _holds(have: object, want: object) -> bool:
    """Whether everything wanted is there; the API server may add fields of its own."""
    if isinstance(have, dict) and isinstance(want, dict):
        return all(name in have and _holds(have[name], value) for name, value in want.items())
    if isinstance(have, list) and isinstance(want, list):
        return len(have) == len(want) and all(map(_holds, have, want))
    return have == want
