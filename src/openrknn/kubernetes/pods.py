"""Which pod uses which NPU: the kubelet tells it over its PodResources socket. And the metrics that come from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from openrknn.kubernetes.inventory import Offer
from openrknn.kubernetes.messages import POD_RESOURCES, message
from openrknn.kubernetes.services import load_grpc, stub, unix
from openrknn.monitor.prometheus import Sample

__all__ = ["SOCKET", "Use", "samples", "uses"]

SOCKET = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
_SECONDS = 5


@dataclass(frozen=True)
class Use:
    """A container that has a device."""

    namespace: str
    pod: str
    container: str
    device: str
    """The device's id, or with DRA its name."""


def uses(socket: Path, resource: str, driver: str = "") -> tuple[Use, ...]:
    """Containers with devices of this resource, or of this DRA driver. None where the kubelet does not answer."""
    grpc = load_grpc()
    with grpc.insecure_channel(unix(socket)) as channel:
        try:
            answer = stub(channel, "v1.PodResourcesLister").List(
                message(POD_RESOURCES, "ListPodResourcesRequest")(), timeout=_SECONDS
            )
        except grpc.RpcError:
            return ()
    return tuple(
        Use(pod.namespace, pod.name, container.name, device)
        for pod in answer.pod_resources
        for container in pod.containers
        for device in _devices(container, resource, driver)
    )


def _devices(container: object, resource: str, driver: str) -> Iterator[str]:
    for entry in getattr(container, "devices", ()):
        if entry.resource_name == resource:
            yield from entry.device_ids
    for claim in getattr(container, "dynamic_resources", ()):
        yield from (one.device_name for one in claim.claim_resources if driver and one.driver_name == driver)


def samples(found: Sequence[Use], offers: Sequence[Offer], reasons: Mapping[str, str | None]) -> Iterator[Sample]:
    """Who has what, and how well it is; join them with the other metrics over the label `npu`."""
    named = {offer.id: offer for offer in offers}
    for use in found:
        offer = named.get(use.device)
        labels = {
            "namespace": use.namespace,
            "pod": use.pod,
            "container": use.container,
            "device": use.device,
            "npu": offer.unit.device if offer else "",
        }
        yield "openrknn_npu_pod", "gauge", "Always 1; which container has which device", labels, 1
    for offer in offers:
        labels = {"device": offer.id, "npu": offer.unit.device}
        healthy = reasons.get(offer.unit.name) is None
        yield "openrknn_npu_device_healthy", "gauge", "Whether a device may be used", labels, int(healthy)
