"""From the text that users write to an open device."""

from __future__ import annotations

import logging
import os

from openrknn.chips import Chip, chip_named
from openrknn.device.automatic import AUTO, automatic_device
from openrknn.device.protocol import Device
from openrknn.device.software import SoftwareDevice
from openrknn.errors import UnsupportedError
from openrknn.monitor.variables import MASK_VARIABLE

__all__ = ["open_device"]

_LOG = logging.getLogger(__name__)
_FORMS = "auto, software, software:CHIP (for example software:rk3588), rknpu[:NODE], rocket[:NODE], vendor[:LIBRARY]"


def open_device(text: str, chip: Chip, *, strict: bool = False, domain: int = 0) -> Device:
    """Open the device that `text` names for models of `chip`. What "auto" took is in the log and in `Device.name`.

    `domain`: the address space that it is to have, where the driver has numbers for them (`rknpu`). Elsewhere each
    open device has one of its own.
    """
    device = _opened(automatic_device(chip) if text == AUTO else text, chip, strict=strict, domain=domain)
    _LOG.info("device %s: took %s", text, device.name)
    return device


def _opened(text: str, chip: Chip, *, strict: bool, domain: int) -> Device:
    kind, _, rest = text.partition(":")
    if kind == "vendor":
        raise UnsupportedError(
            f"{text!r} is no device of its own but the vendor's library: Session(model, device={text!r}) uses it"
        )
    if kind == "rknpu":
        from openrknn.device.rknpu import RknpuDevice  # here: a machine has one driver at the most

        return RknpuDevice(chip, rest, core_mask=_core_mask(), domain=domain)
    if kind == "rocket":
        from openrknn.device.rocket import RocketDevice

        return RocketDevice(chip, rest)
    if kind != "software":
        raise ValueError(f"no device is called {text!r}; there are: {_FORMS}")
    wanted = chip_named(rest) if rest else chip
    if wanted.target != chip.target:
        raise UnsupportedError(f"the model is for {chip.title}, and {text!r} is a {wanted.title}; it cannot run there")
    return SoftwareDevice(wanted, strict=strict)


def _core_mask() -> int:
    text = os.environ.get(MASK_VARIABLE, "") or "0"
    try:
        return int(text, 0)
    except ValueError:
        raise ValueError(f"{MASK_VARIABLE}={text!r} is not a number such as 1, 2, 4, 3 or 7") from None
