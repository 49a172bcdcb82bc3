"""The messages on the wire: bytes worked out by hand from the field numbers."""

from __future__ import annotations

from openrknn.kubernetes.messages import DEVICE_PLUGIN, DRA, FILES, POD_RESOURCES, message, schema


def test_every_table_makes_classes() -> None:
    for package in FILES:
        file = schema(package)
        for name in file.names:
            assert message(package, name)().SerializeToString() == b""


def test_an_optional_text_that_is_empty_is_there() -> None:
    device = message(DRA, "Device")
    assert not device().HasField("share_id")
    assert device(share_id="").HasField("share_id")
    assert device(share_id="").SerializeToString() == b"\x2a\x00"


def test_a_registration() -> None:
    made = message(DEVICE_PLUGIN, "RegisterRequest")(version="v1beta1", endpoint="a.sock", resource_name="b/c")
    made.options.get_preferred_allocation_available = True
    # Field 1: tag 0x0a, length, text; field 2: 0x12; field 3: 0x1a; field 4: 0x22 with field 2 (0x10) = 1 inside.
    assert made.SerializeToString() == b"\x0a\x07v1beta1\x12\x06a.sock\x1a\x03b/c\x22\x02\x10\x01"


def test_devices() -> None:
    made = message(DEVICE_PLUGIN, "ListAndWatchResponse")()
    made.devices.add(ID="x", health="Healthy")
    assert made.SerializeToString() == b"\x0a\x0c\x0a\x01x\x12\x07Healthy"


def test_what_a_container_gets() -> None:
    made = message(DEVICE_PLUGIN, "ContainerAllocateResponse")(envs={"A": "b"})
    made.mounts.add(container_path="/c", host_path="/h", read_only=True)
    made.devices.add(container_path="/d", host_path="/d", permissions="rw")
    made.cdi_devices.add(name="k=d")
    assert made.SerializeToString() == (
        b"\x0a\x06\x0a\x01A\x12\x01b"
        b"\x12\x0a\x0a\x02/c\x12\x02/h\x18\x01"
        b"\x1a\x0c\x0a\x02/d\x12\x02/d\x1a\x02rw"
        b"\x2a\x05\x0a\x03k=d"
    )


def test_a_prepared_claim() -> None:
    made = message(DRA, "NodePrepareResourcesResponse")()
    made.claims["u"].devices.add(request_names=["r"], pool_name="p", device_name="d", cdi_device_ids=["c"])
    # The map's entry: key (1) and value (2); devices is field 1 of the value.
    assert made.SerializeToString() == b"\x0a\x13\x0a\x01u\x12\x0e\x0a\x0c\x0a\x01r\x12\x01p\x1a\x01d\x22\x01c"


def test_dynamic_resources_of_a_container() -> None:
    made = message(POD_RESOURCES, "ContainerResources")(name="c")
    made.dynamic_resources.add(claim_name="n").claim_resources.add(driver_name="d", device_name="x")
    assert made.SerializeToString() == b"\x0a\x01c\x2a\x0b\x12\x01n\x22\x06\x12\x01d\x22\x01x"
