"""Cases for every DRM device: what the DRM core answers, independent of the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from openrknn.board.program_text import NOWHERE, Script
from openrknn.uapi import drm
from openrknn.uapi.ioctl import Ioctl

__all__ = ["Make", "arguments_nowhere", "capabilities", "unknown_numbers"]

Make = Callable[[str], Script]
"""A case of this name, on the node that is tested."""
_ANY_REQUEST = 0xC0206400
_FOREIGN_REQUEST = 0xC0180040


def capabilities(make: Make) -> Iterator[Script]:
    """What drivers without a display say about displays, and the rest."""
    for capability in range(24):
        case = make(f"capability-{capability}")
        argument = case.call(case.open(), drm.GET_CAP, capability=capability)
        case.show(argument, drm.GET_CAP, "value")
        yield case
    for capability in range(1, 9):
        case = make(f"client-capability-{capability}")
        case.call(case.open(), drm.SET_CLIENT_CAP, capability=capability, value=1)
        yield case


def arguments_nowhere(make: Make, ioctls: Iterable[Ioctl]) -> Iterator[Script]:
    """Arguments that cannot be read."""
    for ioctl in (drm.VERSION, drm.GET_CAP, drm.GEM_CLOSE, *ioctls):
        case = make(f"null-{ioctl.name.lower()}")
        case.do("ioctl", case.open(), f"{ioctl.request:#x}", 0)
        yield case
        case = make(f"unmapped-{ioctl.name.lower()}")
        case.do("ioctl", case.open(), f"{ioctl.request:#x}", NOWHERE)
        yield case


def unknown_numbers(make: Make, numbers: Iterable[int]) -> Iterator[Script]:
    """Requests that the driver does not define, and requests of others."""
    for number in numbers:
        case = make(f"number-{number:#x}")
        case.do("buffer", "a", 256)
        case.do("ioctl", case.open(), f"{_ANY_REQUEST | number:#x}", "$a")
        yield case
    for letter in "bDHx":
        case = make(f"letter-{letter}")
        case.do("buffer", "a", 256)
        case.do("ioctl", case.open(), f"{_FOREIGN_REQUEST | ord(letter) << 8:#x}", "$a")
        yield case
