"""From the text that users write to an open device."""

from __future__ import annotations

import logging

from openrknn.chips import Chip, chip_named
from openrknn.device.protocol import Device
from openrknn.device.rknpu import RknpuDevice
from openrknn.device.rocket import RocketDevice
from openrknn.device.software import SoftwareDevice
from openrknn.errors import UnsupportedError

__all__ = ["open_device"]

_LOG = logging.getLogger(__name__)
_PLANNED = {"vendor"}
_FORMS = "auto, software, software:CHIP (for example software:rk3588), rknpu[:NODE], rocket[:NODE]"


def open_device(text: str, chip: Chip, *, strict: bool = True) -> Device:
    """Open the device that `text` names for models of `chip`. What "auto" took is in the log and in `Device.name`."""
    kind, _, rest = text.partition(":")
    if kind in _PLANNED:
        raise UnsupportedError(f"device {text!r} is not implemented yet; there are: {_FORMS}")
    if kind == "rknpu":
        return RknpuDevice(chip, rest)
    if kind == "rocket":
        return RocketDevice(chip, rest)
    if kind not in {"auto", "software"} or (kind == "auto" and rest):
        raise ValueError(f"no device is called {text!r}; there are: {_FORMS}")
    wanted = chip_named(rest) if rest else chip
    if wanted.target != chip.target:
        raise UnsupportedError(f"the model is for {chip.title}, and {text!r} is a {wanted.title}; it cannot run there")
    device = SoftwareDevice(wanted, strict=strict)
    _LOG.info("device %s: took %s", text, device.name)
    return device
