"""The kubelet's messages and services, from the .proto files in `proto`; read when they are first used."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from openrknn.protoschema import Schema

__all__ = ["DEVICE_PLUGIN", "DRA", "DRA_HEALTH", "FILES", "POD_RESOURCES", "REGISTRATION", "message", "schema"]

DEVICE_PLUGIN = "v1beta1"
REGISTRATION = "pluginregistration"
DRA = "k8s.io.kubelet.pkg.apis.dra.v1"
DRA_HEALTH = "v1alpha1"
POD_RESOURCES = "v1"
FILES = {
    DEVICE_PLUGIN: "deviceplugin.proto", REGISTRATION: "registration.proto", DRA: "dra.proto",
    DRA_HEALTH: "dra_health.proto", POD_RESOURCES: "podresources.proto",
}  # fmt: skip
"""Package of the messages -> its file."""


def message(package: str, name: str) -> Any:
    """The class of a message."""
    return schema(package).message(name)


@cache
def schema(package: str) -> Schema:
    """All messages and services of a package."""
    from openrknn.protoschema import Schema

    return Schema.read("openrknn.kubernetes", f"proto/{FILES[package]}")
