"""Which RGA cores a chip has, and what each can do.

Facts: Rockchip Developer Guide RGA (librga 1.10, docs), its tables of hardware, formats and alignment; rga_hw_config.c
of the vendor's kernel for the features. The RGA3 floor of 68x2 is the guide's; older drivers refuse less than 128x128.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from openrknn.uapi.rga import Format

__all__ = ["CORES", "Core", "Picture", "bits_per_pixel", "cores_of", "refusal"]

_RGB = frozenset((Format.RGBA, Format.RGB, Format.BGRA, Format.BGR))
_SEMIPLANAR = frozenset((Format.NV12, Format.NV21))
_PACKED = frozenset((Format.YUYV, Format.UYVY))
_HALVES = _SEMIPLANAR | _PACKED | {Format.I420}
"""Their rectangles have even places and sizes."""


@dataclass(frozen=True, slots=True)
class Core:
    """One engine."""

    name: str
    version: tuple[int, int, int]
    bit: int
    """In the field `core` of a task."""
    smallest: tuple[int, int]
    largest_input: int
    largest_output: int
    scale: int
    """How many times larger or smaller, at most, along each axis."""
    row_bytes: int
    """Rows begin at multiples of it, and have a whole number of pixels."""
    formats: frozenset[Format]
    fills: bool
    address_bits: int
    """32: only memory below 4 GiB."""
    reduces_by: str
    """How it makes images smaller; all of them use a filter of their own to enlarge them."""


_RGA2_FORMATS = _RGB | _HALVES | {Format.GRAY}
_RGA3_FORMATS = _RGB | _SEMIPLANAR | _PACKED


_RGA3, _RGA2E, _RGA2_PRO = (3, 0, 0x76831), (3, 2, 0x63318), (3, 0xE, 0x19357)
_RGA2E_RV1106, _RGA2E_RK3562 = (3, 3, 0x87975), (3, 6, 0x92812)


def _rga3(number: int, version: tuple[int, int, int] = _RGA3) -> Core:
    name = f"rga3_core{number}"
    return Core(name, version, 1 << number, (68, 2), 8176, 8128, 8, 16, _RGA3_FORMATS, False, 40, "average")


def _rga2e(version: tuple[int, int, int] = _RGA2E) -> Core:
    bits = 40 if version == _RGA2E_RK3562 else 32
    return Core("rga2", version, 4, (2, 2), 8192, 4096, 16, 4, _RGA2_FORMATS, True, bits, "average")


def _rga2_pro(number: int) -> Core:
    name, filters = f"rga2_core{number}", "bilinear or average"
    return Core(name, _RGA2_PRO, 4 << number, (2, 2), 8192, 8192, 16, 4, _RGA2_FORMATS, True, 40, filters)


CORES: dict[str, tuple[Core, ...]] = {
    "rk3588": (_rga3(0), _rga3(1), _rga2e()),
    "rk3576": (_rga2_pro(0), _rga2_pro(1)),
    "rk3566": (_rga2e(),),
    "rk3562": (_rga2e(_RGA2E_RK3562),),
    "rv1106": (_rga2e(_RGA2E_RV1106),),
    "rv1106b": (_rga2e(_RGA2E_RV1106),),
}
"""By the family of the chip. Versions: kernel logs of boards (RK3588, RK3576, RV1106) and the driver's own comparisons;
RK3566 is given RK3588's, and RV1103B and RV1106B that of RV1106: theirs are not documented."""


def cores_of(versions: Sequence[tuple[int, int, int]]) -> tuple[Core, ...]:
    """The cores that a driver reports, in its order. Like the driver, what is not known is taken for RGA2-Enhance."""
    cores: list[Core] = []
    for version in versions:
        if version[1] == 0:
            cores.append(_rga3(sum(core.name.startswith("rga3") for core in cores), version))
        elif version == _RGA2_PRO:
            cores.append(_rga2_pro(sum(core.name.startswith("rga2") for core in cores)))
        else:
            cores.append(_rga2e(version))
    return tuple(cores)


@dataclass(frozen=True, slots=True)
class Picture:
    """One image of a task, as its fields say it; sizes in pixels."""

    format: int
    left: int
    top: int
    width: int
    height: int
    virtual_width: int
    virtual_height: int


_BITS = {
    Format.RGBA: 32, Format.BGRA: 32, Format.RGB: 24, Format.BGR: 24, Format.YUYV: 16, Format.UYVY: 16,
    Format.NV12: 8, Format.NV21: 8, Format.I420: 8, Format.GRAY: 8,
}  # fmt: skip


def bits_per_pixel(pixel_format: int) -> int:
    """Of the first plane."""
    return _BITS[Format(pixel_format)]


def refusal(core: Core, source: Picture | None, target: Picture) -> str:
    """Why a core cannot do a task, or "" if it can. Without a source it is a rectangle to fill."""
    if source is None:
        if not core.fills:
            return f"{core.name} does not fill rectangles"
        return _picture_refusal(core, "target", target, core.largest_output)
    for name, picture, largest in (
        ("source", source, core.largest_input), ("target", target, core.largest_output),
    ):  # fmt: skip
        if why := _picture_refusal(core, name, picture, largest):
            return why
    for name, a, b in (("width", source.width, target.width), ("height", source.height, target.height)):
        if a > b * core.scale or b > a * core.scale:
            return f"{core.name} scales by at most {core.scale}; the {name} goes from {a} to {b}"
    return ""


def _picture_refusal(core: Core, name: str, picture: Picture, largest: int) -> str:
    if picture.format not in core.formats:
        return f"{core.name} does not know the format {picture.format:#x} of the {name}"
    width, height = core.smallest
    if picture.width < width or picture.height < height:
        return f"{core.name} needs {width}x{height} pixels; the {name} has {picture.width}x{picture.height}"
    if picture.width > largest or picture.height > largest:
        return f"{core.name} takes {largest}x{largest} pixels; the {name} has {picture.width}x{picture.height}"
    bits = bits_per_pixel(picture.format)
    step = math.lcm(bits, core.row_bytes * 8) // bits
    if picture.virtual_width % step:
        return (
            f"{core.name} needs rows of a multiple of {step} pixels; those of the {name} have {picture.virtual_width}"
        )
    box = (picture.left, picture.top, picture.width, picture.height, picture.virtual_height)
    if picture.format in _HALVES and any(value % 2 for value in box):
        return f"{core.name} needs even places and sizes for YUV; the {name} has {box}"
    if picture.left + picture.width > picture.virtual_width or picture.top + picture.height > picture.virtual_height:
        return f"the rectangle of the {name} is not inside of its image"
    return ""
