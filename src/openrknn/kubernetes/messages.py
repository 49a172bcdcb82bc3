"""The kubelet's messages as tables of field numbers, turned into protobuf classes when they are first used.

Why not generated code: files that protoc writes are tied to one version of protobuf, need a build step, and hide forty
field numbers in a thousand lines. Here each message is one line, and whoever installs openrknn needs no compiler.

Facts: k8s.io/kubelet/pkg/apis/{deviceplugin/v1beta1, pluginregistration/v1, dra/v1, dra-health/v1alpha1,
podresources/v1}.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

__all__ = ["DEVICE_PLUGIN", "DRA", "DRA_HEALTH", "POD_RESOURCES", "REGISTRATION", "Messages", "message"]

DEVICE_PLUGIN = "v1beta1"
REGISTRATION = "pluginregistration"
DRA = "k8s.io.kubelet.pkg.apis.dra.v1"
DRA_HEALTH = "v1alpha1"
POD_RESOURCES = "v1"
Messages = Mapping[str, str]
"""Name of a message -> its fields, "NUMBER NAME TYPE", separated by semicolons."""

TABLES: Mapping[str, Messages] = {
    DEVICE_PLUGIN: {
        "Empty": "",
        "DevicePluginOptions": "1 pre_start_required bool; 2 get_preferred_allocation_available bool",
        "RegisterRequest": "1 version string; 2 endpoint string; 3 resource_name string; 4 options DevicePluginOptions",
        "ListAndWatchResponse": "1 devices *Device",
        "TopologyInfo": "1 nodes *NUMANode",
        "NUMANode": "1 ID int64",
        "Device": "1 ID string; 2 health string; 3 topology TopologyInfo",
        "PreStartContainerRequest": "1 devices_ids *string",
        "PreStartContainerResponse": "",
        "PreferredAllocationRequest": "1 container_requests *ContainerPreferredAllocationRequest",
        "ContainerPreferredAllocationRequest": "1 available_deviceIDs *string; 2 must_include_deviceIDs *string; "
        "3 allocation_size int32",
        "PreferredAllocationResponse": "1 container_responses *ContainerPreferredAllocationResponse",
        "ContainerPreferredAllocationResponse": "1 deviceIDs *string",
        "AllocateRequest": "1 container_requests *ContainerAllocateRequest",
        "ContainerAllocateRequest": "1 devices_ids *string",
        "CDIDevice": "1 name string",
        "AllocateResponse": "1 container_responses *ContainerAllocateResponse",
        "ContainerAllocateResponse": "1 envs %string; 2 mounts *Mount; 3 devices *DeviceSpec; 4 annotations %string; "
        "5 cdi_devices *CDIDevice",
        "Mount": "1 container_path string; 2 host_path string; 3 read_only bool",
        "DeviceSpec": "1 container_path string; 2 host_path string; 3 permissions string",
    },
    REGISTRATION: {
        "InfoRequest": "",
        "PluginInfo": "1 type string; 2 name string; 3 endpoint string; 4 supported_versions *string",
        "RegistrationStatus": "1 plugin_registered bool; 2 error string",
        "RegistrationStatusResponse": "",
    },
    DRA: {
        "NodePrepareResourcesRequest": "1 claims *Claim",
        "NodePrepareResourcesResponse": "1 claims %NodePrepareResourceResponse",
        "NodePrepareResourceResponse": "1 devices *Device; 2 error string",
        "Device": "1 request_names *string; 2 pool_name string; 3 device_name string; 4 cdi_device_ids *string; "
        "5 share_id ?string",
        "NodeUnprepareResourcesRequest": "1 claims *Claim",
        "NodeUnprepareResourcesResponse": "1 claims %NodeUnprepareResourceResponse",
        "NodeUnprepareResourceResponse": "1 error string",
        "Claim": "1 namespace string; 2 uid string; 3 name string",
    },
    DRA_HEALTH: {
        "NodeWatchResourcesRequest": "",
        "NodeWatchResourcesResponse": "1 devices *DeviceHealth",
        "DeviceIdentifier": "1 pool_name string; 2 device_name string",
        # On the wire an enum is a number: 0 unknown, 1 healthy, 2 unhealthy.
        "DeviceHealth": "1 device DeviceIdentifier; 2 health int32; 3 last_updated_time int64; "
        "4 health_check_timeout_seconds int64; 5 message string",
    },
    POD_RESOURCES: {
        "ListPodResourcesRequest": "",
        "ListPodResourcesResponse": "1 pod_resources *PodResources",
        "PodResources": "1 name string; 2 namespace string; 3 containers *ContainerResources",
        "ContainerResources": "1 name string; 2 devices *ContainerDevices; 5 dynamic_resources *DynamicResource",
        "ContainerDevices": "1 resource_name string; 2 device_ids *string",
        "DynamicResource": "2 claim_name string; 3 claim_namespace string; 4 claim_resources *ClaimResource",
        "ClaimResource": "1 cdi_devices *CDIDevice; 2 driver_name string; 3 pool_name string; 4 device_name string",
        "CDIDevice": "1 name string",
        "AllocatableResourcesRequest": "",
        "AllocatableResourcesResponse": "1 devices *ContainerDevices",
    },
}
"""In a type, `*` is a list, `%` a map from text, and `?` a value whose absence is not the same as its emptiness."""

_FIELD = re.compile(r"(\d+) (\w+) ([*%?]?)(\w+)")
_SCALARS = {"bool": 8, "string": 9, "int32": 5, "int64": 3}
_MESSAGE, _OPTIONAL, _REPEATED = 11, 1, 3


def message(package: str, name: str) -> Any:
    """The class of a message."""
    return _classes(package)[name]


@cache
def _classes(package: str) -> Mapping[str, Any]:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name=f"openrknn/{package}.proto", package=package, syntax="proto3")
    for name, text in TABLES[package].items():
        _describe(file.message_type.add(name=name), text, f".{package}")
    # A pool of our own: another library in this process may have the official files in the default one.
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = {name: pool.FindMessageTypeByName(f"{package}.{name}") for name in TABLES[package]}
    return {name: message_factory.GetMessageClass(descriptor) for name, descriptor in found.items()}


def _describe(made: Any, text: str, scope: str) -> None:
    for number, name, many, kind in _fields(text):
        field = made.field.add(name=name, number=number, label=_REPEATED if many in ("*", "%") else _OPTIONAL)
        if many == "?":
            # What protoc makes of `optional` in proto3: a oneof of one.
            field.proto3_optional, field.oneof_index = True, len(made.oneof_decl)
            made.oneof_decl.add(name=f"_{name}")
        if many == "%":
            entry = made.nested_type.add(name="".join(part.title() for part in name.split("_")) + "Entry")
            entry.options.map_entry = True
            entry.field.add(name="key", number=1, label=_OPTIONAL, type=_SCALARS["string"])
            _set_type(entry.field.add(name="value", number=2, label=_OPTIONAL), kind, scope)
            field.type, field.type_name = _MESSAGE, f"{scope}.{made.name}.{entry.name}"
        else:
            _set_type(field, kind, scope)


def _fields(text: str) -> Iterator[tuple[int, str, str, str]]:
    for part in filter(None, (part.strip() for part in text.split(";"))):
        match = _FIELD.fullmatch(part)
        assert match, part
        yield int(match[1]), match[2], match[3], match[4]


def _set_type(field: Any, kind: str, scope: str) -> None:
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type, field.type_name = _MESSAGE, f"{scope}.{kind}"
