"""The door to a kernel driver: open, ioctl, mmap. Drivers talk through it; tests can stand in for the kernel."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

import numpy as np

from openrknn.device.protocol import Bytes
from openrknn.errors import DeviceError
from openrknn.uapi import drm
from openrknn.uapi.ioctl import Ioctl

__all__ = ["Driver", "Kernel", "SystemKernel", "open_driver"]

_NAME_BYTES = 64


class Kernel(Protocol):
    """What a driver needs of the operating system."""

    def open(self, path: str) -> int:
        """A file descriptor."""

    def close(self, descriptor: int) -> None:
        """Give it back."""

    def ioctl(self, descriptor: int, request: int, argument: bytearray) -> None:
        """The argument is changed in place; `OSError` where the kernel refuses."""

    def map(self, descriptor: int, size_bytes: int, offset: int) -> Bytes:
        """Shared memory of a buffer."""

    def nodes(self, folder: str) -> Iterator[str]:
        """The device nodes in a folder, in order."""


class SystemKernel:
    """The kernel that this process runs on."""

    def open(self, path: str) -> int:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def close(self, descriptor: int) -> None:
        os.close(descriptor)

    def ioctl(self, descriptor: int, request: int, argument: bytearray) -> None:
        fcntl.ioctl(descriptor, request, argument, True)

    def map(self, descriptor: int, size_bytes: int, offset: int) -> Bytes:
        return np.frombuffer(mmap.mmap(descriptor, size_bytes, offset=offset), np.uint8)

    def nodes(self, folder: str) -> Iterator[str]:
        place = Path(folder)
        return (str(path) for path in sorted(place.iterdir())) if place.is_dir() else iter(())


class Driver:
    """An open device node: ioctls by table, errors with the name of the call."""

    def __init__(self, kernel: Kernel, path: str) -> None:
        self.kernel, self.path = kernel, path
        try:
            self._descriptor = kernel.open(path)
        except OSError as error:
            raise DeviceError(f"{path}: {error.strerror}{_advice(error)}", errno=error.errno, call="open") from None

    def call(self, ioctl: Ioctl, values: Mapping[str, int]) -> dict[str, int]:
        """One ioctl; the values that the kernel left in its argument."""
        argument = bytearray(ioctl.argument.pack(values))
        try:
            self.kernel.ioctl(self._descriptor, ioctl.request, argument)
        except OSError as error:
            raise DeviceError(
                f"{self.path}: {ioctl.name} failed: {error.strerror}", errno=error.errno, call=ioctl.name
            ) from None
        return ioctl.argument.unpack(argument)

    def export(self, handle: int) -> int:
        """A buffer as a dma-buf: its descriptor, which is the caller's to close."""
        return self.call(drm.PRIME_HANDLE_TO_FD, {"handle": handle, "flags": drm.CLOEXEC | drm.RDWR})["fd"]

    def map(self, size_bytes: int, offset: int) -> Bytes:
        try:
            return self.kernel.map(self._descriptor, size_bytes, offset)
        except OSError as error:
            text = f"{self.path}: mapping {size_bytes} bytes failed: {error.strerror}"
            raise DeviceError(text, errno=error.errno, call="mmap") from None

    def name(self) -> str:
        """The DRM driver's name."""
        room = ctypes.create_string_buffer(_NAME_BYTES)
        self.call(drm.VERSION, {"name": ctypes.addressof(room), "name_len": _NAME_BYTES - 1})
        return room.value.decode("ascii", "replace")

    def close(self) -> None:
        if self._descriptor >= 0:
            self.kernel.close(self._descriptor)
            self._descriptor = -1


def open_driver(wanted: str, folders: tuple[str, ...], kernel: Kernel, path: str = "") -> Driver:
    """The node at `path`, or the first one in `folders` whose driver has the wanted name."""
    tried: list[str] = []
    for node in [path] if path else [node for folder in folders for node in kernel.nodes(folder)]:
        try:
            driver = Driver(kernel, node)
        except DeviceError as error:
            tried.append(str(error))
            continue
        try:
            found = driver.name()
        except DeviceError as error:
            found = str(error)
        if found == wanted:
            return driver
        driver.close()
        tried.append(f"{node}: driver {found!r}")
    what = "; ".join(tried) or f"no device node in {' or '.join(folders)}"
    raise DeviceError(f"no {wanted} device: {what}. Use device='software' to run without an NPU")


def _advice(error: OSError) -> str:
    return "; is your user in the group of this node (video or render)?" if isinstance(error, PermissionError) else ""
