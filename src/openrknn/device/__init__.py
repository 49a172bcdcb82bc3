"""What executes jobs: the software NPU in this process, or the NPU of a board through its kernel driver.

    protocol    Device, DeviceBuffer, Job, PreparedJob: what every device offers
    base        the lock, the owners of buffers and the life of jobs, for all of the following
    software    the software NPU in this process
    rknpu       the vendor's kernel driver        kernel    open, ioctl and mmap, for both drivers
    rocket      the mainline kernel's driver      memory    an address space that threads share
    automatic   what "auto" is on this machine
    choose      from the text that users write ("auto", "software:rk3588") to an open device

A device knows memory and tasks, and nothing of models: `openrknn.runtime` puts the one into the other.
"""

from __future__ import annotations

from openrknn.device.choose import open_device
from openrknn.device.protocol import Device, DeviceBuffer, Job, PreparedJob
from openrknn.device.software import SoftwareDevice

__all__ = ["Device", "DeviceBuffer", "Job", "PreparedJob", "SoftwareDevice", "open_device"]
