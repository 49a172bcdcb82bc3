"""An emulated kernel: unmodified programs find an NPU on machines that have none.

    preload (C)    in the program: forwards open, ioctl and mmap of the emulated files to
    server         one thread per connection; finds the open file and lets its driver answer
    drm, rknpu, rocket, heap    what the drivers answer
    rga, rga_pixels    /dev/rga: scaling and colour conversion
    gem, space     buffers, handles, names, device addresses
    jobs, fences   queues of the cores, waiting, time
    engine         another process: the software NPU; it never sees an ioctl, as the drivers never compute
    files, debugfs, tree    device nodes, sysfs, debugfs and the device tree as files
    launch         starts a program so that it sees all this
    events         for recording what happens
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from openrknn.fakekernel.device import Device
    from openrknn.fakekernel.events import Event, Hook

__all__ = ["Device", "Event", "Hook"]

_PLACES = {"Device": "device", "Event": "events", "Hook": "events"}


def __getattr__(name: str) -> Any:
    """Loaded when somebody asks: the engine's process needs none of it, and should be ready soon."""
    import importlib

    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
