"""What executes jobs: the software NPU in this process, and later the kernel drivers of real boards.

    protocol    Device, DeviceBuffer, Job, PreparedJob: what every device offers
    software    the software NPU in this process
    automatic   what "auto" is on this machine
    choose      from the text that users write ("auto", "software:rk3588") to an open device

A device knows memory and tasks, and nothing of models: `openrknn.runtime` puts the one into the other.
"""

from __future__ import annotations

from openrknn.device.choose import open_device
from openrknn.device.protocol import Device, DeviceBuffer, Job, PreparedJob
from openrknn.device.software import SoftwareDevice

__all__ = ["Device", "DeviceBuffer", "Job", "PreparedJob", "SoftwareDevice", "open_device"]
