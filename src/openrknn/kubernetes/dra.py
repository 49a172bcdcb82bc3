"""The DRA driver: tells the API server what there is, and prepares claims for the kubelet."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from openrknn.errors import RknnError
from openrknn.kubernetes.api import ApiError, ApiServer
from openrknn.kubernetes.claims import Claims
from openrknn.kubernetes.inventory import Offer, Settings, Unit
from openrknn.kubernetes.messages import DRA, REGISTRATION, message
from openrknn.kubernetes.services import handler, new_server, unix
from openrknn.kubernetes.slices import parts, slices

__all__ = ["NAME", "Driver", "Folders"]

_LOG = logging.getLogger(__name__)
NAME = "npu.rockchip.com"
_SLICES = "/apis/resource.k8s.io/v1/resourceslices"


class Folders:
    """Where the kubelet looks."""

    def __init__(self, kubelet: Path = Path("/var/lib/kubelet"), cdi: Path = Path("/var/run/cdi")) -> None:
        self.registration = kubelet / "plugins_registry" / f"{NAME}-reg.sock"
        self.service = kubelet / "plugins" / NAME / "dra.sock"
        self.cdi = cdi


class Driver:
    """Both sides: slices for the scheduler, claims for the kubelet."""

    name = NAME

    def __init__(self, settings: Settings, node: str, api: ApiServer, folders: Folders | None = None) -> None:
        self._settings, self._node, self._api = settings, node, api
        self._folders = folders or Folders()
        self._claims = Claims(api, NAME, node, self._folders.cdi)
        self._lock = threading.Lock()
        self._offered: dict[str, Offer] = {}
        self._published: tuple[object, ...] | None = None
        self._servers: list[Any] = []
        self.is_registered = False

    def refresh(self, units: Sequence[Unit], reasons: Mapping[str, str | None]) -> None:
        """Serve, and publish what changed; what fails is tried again in the next round."""
        offered = parts(self._settings, units)
        with self._lock:
            self._offered = {offer.id: offer for offer in offered}
        if not self._folders.registration.exists() or not self._folders.service.exists():
            self._serve()
        state = (offered, tuple(sorted((name, bool(reason)) for name, reason in reasons.items())))
        if state != self._published:
            try:
                self._publish(offered, reasons)
                self._published = state
            except (ApiError, OSError) as error:
                _LOG.warning("the slices could not be published: %s; trying again", error)

    def close(self) -> None:
        """Stop serving. Slices stay: a driver that is updated must not take its pods' devices away."""
        for server in self._servers:
            server.stop(grace=0.5).wait()
        self._servers.clear()
        for path in (self._folders.registration, self._folders.service):
            with contextlib.suppress(OSError):
                path.unlink()

    # ------------------------------------------------------------ the kubelet's registration

    def GetInfo(self, request: Any, context: Any) -> Any:  # noqa: N802
        return message(REGISTRATION, "PluginInfo")(
            type="DRAPlugin", name=NAME, endpoint=str(self._folders.service), supported_versions=["v1.DRAPlugin"]
        )

    def NotifyRegistrationStatus(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.is_registered = request.plugin_registered
        if request.plugin_registered:
            _LOG.info("registered the DRA driver %s", NAME)
        else:
            _LOG.warning("the kubelet does not take the DRA driver: %s", request.error)
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
            path.parent.mkdir(parents=True, exist_ok=True)
            server = new_server(4)
            server.add_generic_rpc_handlers((handler(service, self),))
            server.add_insecure_port(unix(path))
            server.start()
            self._servers.append(server)

    def _publish(self, offered: Sequence[Offer], reasons: Mapping[str, str | None]) -> None:
        node = self._api.get(f"/api/v1/nodes/{self._node}")["metadata"]
        old = {item["metadata"]["name"]: item for item in self._api.get(_SLICES)["items"] if self._is_ours(item)}
        generation = max((item["spec"]["pool"]["generation"] for item in old.values()), default=0) + 1
        for item in slices(NAME, {"name": self._node, "uid": node["uid"]}, offered, reasons, generation):
            name = item["metadata"]["name"]
            if name in old:
                item["metadata"]["resourceVersion"] = old.pop(name)["metadata"]["resourceVersion"]
                self._api.call("PUT", f"{_SLICES}/{name}", item)
            else:
                self._api.call("POST", _SLICES, item)
        for name in old:
            with contextlib.suppress(ApiError):
                self._api.call("DELETE", f"{_SLICES}/{name}")
        _LOG.info("published %d devices, generation %d", len(offered), generation)

    def _is_ours(self, item: Mapping[str, Any]) -> bool:
        return bool(item["spec"]["driver"] == NAME and item["spec"].get("nodeName") == self._node)
