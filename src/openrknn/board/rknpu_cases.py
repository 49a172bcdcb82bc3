"""Cases for the vendor's driver `rknpu`: what its ioctls answer, to right and to wrong requests.

Addresses of the NPU are not shown: they come from the kernel's allocator, whose alignment is a matter of its
configuration. Left out, because the driver takes them for pointers of the kernel and follows them: any `obj_addr` that
MEM_CREATE did not give out.
"""

from __future__ import annotations

from collections.abc import Iterator

from openrknn.board.drm_cases import arguments_nowhere, capabilities, unknown_numbers
from openrknn.board.iommu import PAGE_BYTES
from openrknn.board.program_text import ALL_ONES, CARD, PROTECTION, RENDER, Script
from openrknn.board.rknpu_job_cases import rknpu_job_cases
from openrknn.uapi import drm, rknpu
from openrknn.uapi.rknpu import Action, MemoryFlag, SyncFlag

__all__ = ["rknpu_cases"]

_CACHED = MemoryFlag.NON_CONTIGUOUS | MemoryFlag.CACHEABLE
_UNANSWERED = 26


def rknpu_cases() -> Iterator[Script]:
    """All of them."""
    yield from _core()
    yield from _render_node()
    yield from _sizes_in_requests()
    yield from _actions()
    yield from _creating()
    yield from _destroying()
    yield from _mapping()
    yield from _syncing()
    yield from _sharing()
    yield from rknpu_job_cases()


def _case(name: str) -> Script:
    return Script(name, CARD)


def _render_case(name: str) -> Script:
    return Script(f"render-{name}", RENDER)


def _core() -> Iterator[Script]:
    for length in (0, 1, 6, 100):
        case = _case(f"version-{length}")
        case.do("buffer", "text", 128)
        argument = case.call(
            case.open(), drm.VERSION, name="$text", name_len=length, desc="$text+32", desc_len=length
        )  # fmt: skip
        case.show(argument, drm.VERSION, "version_major", "version_minor", "version_patchlevel", "name_len", "desc_len")
        case.do("sum", "$text", 64)
        yield case
    yield from capabilities(_case)
    yield from arguments_nowhere(_case, rknpu.DRM_IOCTLS)
    yield from unknown_numbers(_case, (*range(0x46, 0x4C), 0x60, 0x80, 0x9F, *range(0xA0, 0xD4), 0xE0, 0xFF))
    for major, minor in ((1, 4), (-1, -1), (1, 5), (2, 0), (0, 0)):
        case = _case(f"set-version-{major}-{minor}")
        changes = {"drm_di_major": major & ALL_ONES, "drm_di_minor": minor & ALL_ONES}
        argument = case.call(case.open(), drm.SET_VERSION, drm_dd_major=ALL_ONES, drm_dd_minor=ALL_ONES, **changes)
        case.show(argument, drm.SET_VERSION, "drm_di_major", "drm_di_minor", "drm_dd_major", "drm_dd_minor")
        yield case
    case = _case("get-magic")
    case.call(case.open(), drm.GET_MAGIC)
    yield case


def _render_node() -> Iterator[Script]:
    """Requests of the core that a render node refuses; the driver's own are allowed."""
    yield from capabilities(_render_case)
    yield from unknown_numbers(_render_case, (0x46, 0x60, *range(0xA0, 0xD4), 0xFF))
    for ioctl in (drm.GET_UNIQUE, drm.GET_MAGIC, drm.SET_VERSION, drm.GEM_FLINK, drm.GEM_OPEN):
        case = _render_case(ioctl.name.lower())
        case.call(case.open(), ioctl)
        yield case
    case = _render_case("create")
    _create(case, case.open())
    yield case
    case = _render_case("card-and-render-node-do-not-share-handles")
    first, second = case.open("f"), case.open("g", CARD)
    _create(case, first)
    case.call(second, rknpu.MEM_MAP, handle=1)
    yield case


def _sizes_in_requests() -> Iterator[Script]:
    for ioctl in rknpu.DRM_IOCTLS:
        values: dict[str, int] = {"size": PAGE_BYTES, "flags": _CACHED} if ioctl is rknpu.MEM_CREATE else {}
        for size in (0, 4, 8, 16, 32, 40, 48, 64, 128):
            case = _case(f"size-{ioctl.name.lower()}-{size}")
            argument = case.call(case.open(), ioctl, as_bytes=size, **values)
            if ioctl is rknpu.MEM_CREATE:
                case.show(argument, ioctl, "handle", "size")
            yield case
        for direction in range(4):
            case = _case(f"direction-{ioctl.name.lower()}-{direction}")
            argument = case.call(case.open(), ioctl, as_request=ioctl.request & 0x3FFF_FFFF | direction << 30, **values)
            if ioctl is rknpu.MEM_CREATE:
                case.show(argument, ioctl, "handle", "size")
            yield case


def _actions() -> Iterator[Script]:
    for number in (*range(_UNANSWERED + 2), 1000, ALL_ONES):
        for value in (0, 5):
            case = _case(f"action-{number}-{value}")
            argument = case.call(case.open(), rknpu.ACTION, flags=number, value=value)
            case.show(argument, rknpu.ACTION, "value")
            if number == Action.SET_IOMMU_DOMAIN_ID:
                case.call("$f", rknpu.ACTION, flags=number, value=0)
            yield case
    for number in (-1, 16, 1000):
        case = _case(f"domain-{number}")
        case.call(case.open(), rknpu.ACTION, flags=Action.SET_IOMMU_DOMAIN_ID, value=number & ALL_ONES)
        argument = case.call("$f", rknpu.ACTION, flags=Action.GET_IOMMU_DOMAIN_ID)
        case.show(argument, rknpu.ACTION, "value")
        case.call("$f", rknpu.ACTION, flags=Action.SET_IOMMU_DOMAIN_ID, value=0)
        yield case


def _create(case: Script, file: str, **values: int) -> str:
    """A page of cached memory, unless said otherwise; handle, size, and what is left of the rest."""
    argument = case.call(file, rknpu.MEM_CREATE, **{"size": PAGE_BYTES, "flags": _CACHED, **values})
    case.show(argument, rknpu.MEM_CREATE, "handle", "size", "sram_size", "flags", "iommu_domain_id", "core_mask")
    return argument


def _creating() -> Iterator[Script]:
    for size in (0, 1, 4095, 4096, 4097, 8192, 65536, 1 << 20, (1 << 20) + 1, 1 << 24, 1 << 63, (1 << 63) + 4096):
        case = _case(f"create-{size}")
        file = case.open()
        _create(case, file, size=size)
        _create(case, file)
        yield case
    for flags in (*range(16), 0x20, 0x21, 0x40, 0x80, 0x82, 0x100, 0x103, 0x200, 0x203, 0x400, 0x403, 0x800, 1 << 31):
        case = _case(f"create-flags-{flags:#x}")
        file = case.open()
        _create(case, file, flags=flags)
        mapped = case.call(file, rknpu.MEM_MAP, handle=1)
        case.do("map", "m", file, PAGE_BYTES, case.get("offset", mapped, rknpu.MEM_MAP, "offset"), PROTECTION)
        case.do("sum", "$m", PAGE_BYTES)
        yield case
    for field, value in (("sram_size", 4096), ("core_mask", 1), ("core_mask", 7), ("core_mask", ALL_ONES)):
        case = _case(f"create-{field.replace('_', '-')}-{value}")
        _create(case, case.open(), **{field: value})
        yield case
    for domain in (1, 15, 16, -1):
        case = _case(f"create-domain-{domain}")
        _create(case, case.open(), iommu_domain_id=domain & ALL_ONES)
        case.call("$f", rknpu.ACTION, flags=Action.SET_IOMMU_DOMAIN_ID, value=0)
        yield case
    for handle in (1, 2, 77, ALL_ONES):
        case = _case(f"create-with-handle-{handle}")
        file = case.open()
        _create(case, file, size=2 * PAGE_BYTES)
        _create(case, file, handle=handle)
        _create(case, file, handle=handle, size=0)
        yield case
    for flags in (0, 1, 2):
        case = _case(f"open-{flags}")
        _create(case, case.open(flags=flags))
        yield case
    for count in (1, 10, 40):
        case = _case(f"opened-and-closed-{count}-times")
        for _ in range(count):
            file = case.open()
            case.call(file, rknpu.MEM_CREATE, size=PAGE_BYTES, flags=_CACHED)
            case.do("close", file)
        _create(case, case.open())
        yield case


def _destroying() -> Iterator[Script]:
    for ioctl in (rknpu.MEM_DESTROY, drm.GEM_CLOSE):
        for handle in (0, 1, 2, 77, ALL_ONES):
            case = _case(f"{ioctl.name.lower().replace('_', '-')}-{handle}")
            file = case.open()
            _create(case, file)
            case.call(file, ioctl, handle=handle)
            case.call(file, ioctl, handle=handle)
            yield case
    for order in ((1,), (2,), (1, 2), (2, 1), (3, 1), (1, 2, 3), (3, 2, 1)):
        case = _case(f"destroy-{'-'.join(map(str, order))}")
        file = case.open()
        for _ in range(3):
            _create(case, file)
        for handle in order:
            case.call(file, rknpu.MEM_DESTROY, handle=handle)
        for _ in range(3):
            _create(case, file)
        yield case
    for field in ("reserved", "obj_addr"):
        case = _case(f"destroy-with-{field.replace('_', '-')}")
        file = case.open()
        _create(case, file)
        case.call(file, rknpu.MEM_DESTROY, handle=1, **{field: 1})
        yield case
    case = _case("destroy-of-another-file")
    first, second = case.open("f"), case.open("g")
    _create(case, first)
    case.call(second, rknpu.MEM_DESTROY, handle=1)
    case.call(first, rknpu.MEM_DESTROY, handle=1)
    yield case


def _mapped(case: Script, file: str, pages: int = 1, flags: int = _CACHED) -> str:
    """A new buffer; the value that stands for its offset."""
    _create(case, file, size=pages * PAGE_BYTES, flags=flags)
    argument = case.call(file, rknpu.MEM_MAP, handle=1)
    return case.get("offset", argument, rknpu.MEM_MAP, "offset")


def _mapping() -> Iterator[Script]:
    for handle in (0, 1, 2, ALL_ONES):
        for reserved in (0, 1):
            case = _case(f"mem-map-{handle}-{reserved}")
            file = case.open()
            _create(case, file)
            case.call(file, rknpu.MEM_MAP, handle=handle, reserved=reserved)
            yield case
    for made, mapped in ((1, 1), (1, 2), (2, 1), (3, 4), (16, 16)):
        case = _case(f"map-{mapped}-of-{made}")
        file = case.open()
        case.do("map", "m", file, mapped * PAGE_BYTES, _mapped(case, file, made), PROTECTION)
        yield case
    for name, change in (("inside", PAGE_BYTES), ("unaligned", 1), ("far", 1 << 40)):
        case = _case(f"map-{name}")
        file = case.open()
        case.do("map", "m", file, PAGE_BYTES, f"{_mapped(case, file, 2)}+{change}", PROTECTION)
        yield case
    for protection in (0, 1, 2, 3):
        case = _case(f"map-protection-{protection}")
        file = case.open()
        case.do("map", "m", file, PAGE_BYTES, _mapped(case, file), protection)
        yield case
    case = _case("map-nothing")
    case.do("map", "m", case.open(), PAGE_BYTES, 0, PROTECTION)
    yield case
    case = _case("map-by-another-file")
    first, second = case.open("f"), case.open("g")
    case.do("map", "m", second, PAGE_BYTES, _mapped(case, first), PROTECTION)
    yield case
    case = _case("two-maps-are-one-memory")
    file = case.open()
    offset = _mapped(case, file)
    for name in "mn":
        case.do("map", name, file, PAGE_BYTES, offset, PROTECTION)
    case.do("set32", "$m+64", 0x1234)
    case.do("sum", "$n", PAGE_BYTES)
    yield case
    case = _case("a-map-outlives-its-handle")
    file = case.open()
    offset = _mapped(case, file)
    case.do("map", "m", file, PAGE_BYTES, offset, PROTECTION)
    case.do("set32", "$m", 0x1234)
    case.call(file, rknpu.MEM_DESTROY, handle=1)
    case.do("sum", "$m", PAGE_BYTES)
    case.do("unmap", "$m", PAGE_BYTES)
    yield case
    case = _case("a-child-inherits-no-maps")
    file = case.open()
    case.do("map", "m", file, PAGE_BYTES, _mapped(case, file), PROTECTION)
    case.do("child")
    case.do("sum", "$m", PAGE_BYTES)
    case.do("end")
    yield case


def _syncing() -> Iterator[Script]:
    both = SyncFlag.TO_DEVICE | SyncFlag.FROM_DEVICE
    for flags in (0, 1, 5, 9, 13, _CACHED, _CACHED | MemoryFlag.KERNEL_MAPPING, MemoryFlag.CACHEABLE):
        case = _case(f"sync-of-{flags:#x}")
        file = case.open()
        made = _create(case, file, flags=flags)
        place = case.get("object", made, rknpu.MEM_CREATE, "obj_addr")
        case.call(file, rknpu.MEM_SYNC, obj_addr=place, size=PAGE_BYTES, flags=both)
        yield case
    for flags in (*range(5), ALL_ONES):
        for offset, size in ((0, 0), (0, PAGE_BYTES), (64, 64), (PAGE_BYTES, 0)):
            case = _case(f"sync-{flags}-{offset}-{size}")
            file = case.open()
            place = case.get("object", _create(case, file), rknpu.MEM_CREATE, "obj_addr")
            case.call(file, rknpu.MEM_SYNC, obj_addr=place, offset=offset, size=size, flags=flags)
            yield case
    case = _case("sync-of-nothing")
    case.call(case.open(), rknpu.MEM_SYNC, size=PAGE_BYTES, flags=both)
    yield case
    case = _case("sync-by-another-file")
    first, second = case.open("f"), case.open("g")
    place = case.get("object", _create(case, first), rknpu.MEM_CREATE, "obj_addr")
    case.call(second, rknpu.MEM_SYNC, obj_addr=place, size=PAGE_BYTES, flags=both)
    yield case


def _sharing() -> Iterator[Script]:
    """Names and dma-bufs."""
    for flags in (0, drm.CLOEXEC, drm.RDWR, drm.CLOEXEC | drm.RDWR, 1, 4, ALL_ONES):
        case = _case(f"export-{flags:#x}")
        file = case.open()
        _create(case, file)
        case.call(file, drm.PRIME_HANDLE_TO_FD, handle=1, flags=flags)
        yield case
    for handle in (0, 2, ALL_ONES):
        case = _case(f"export-of-handle-{handle}")
        file = case.open()
        _create(case, file)
        case.call(file, drm.PRIME_HANDLE_TO_FD, handle=handle, flags=drm.CLOEXEC)
        yield case
    for other in (False, True):
        case = _case("import-by-another-file" if other else "import-of-its-own")
        file = case.open()
        _create(case, file)
        exported = case.call(file, drm.PRIME_HANDLE_TO_FD, handle=1, flags=drm.CLOEXEC | drm.RDWR)
        descriptor = case.get("d", exported, drm.PRIME_HANDLE_TO_FD, "fd")
        second = case.open("g") if other else file
        imported = case.call(second, drm.PRIME_FD_TO_HANDLE, fd=descriptor)
        case.show(imported, drm.PRIME_FD_TO_HANDLE, "handle")
        again = case.call(second, rknpu.MEM_CREATE, handle=1)
        case.show(again, rknpu.MEM_CREATE, "handle", "size")
        case.do("map", "m", descriptor, PAGE_BYTES, 0, PROTECTION)
        case.do("set32", "$m", 0x1234)
        case.call(second, rknpu.MEM_DESTROY, handle=1)
        case.call(file, rknpu.MEM_DESTROY, handle=1)
        case.do("sum", "$m", PAGE_BYTES)
        yield case
    for what in ("memfd", "node", "closed"):
        case = _case(f"import-of-{what}")
        file = case.open()
        if what == "memfd":
            case.do("memfd", "d", PAGE_BYTES)
        elif what == "node":
            case.open("d")
        else:
            case.do("dup", "d", file)
            case.do("close", "$d")
        case.call(file, drm.PRIME_FD_TO_HANDLE, fd="$d")
        yield case
    case = _case("a-name")
    first, second = case.open("f"), case.open("g")
    _create(case, first)
    named = case.call(first, drm.GEM_FLINK, handle=1)
    name = case.get("name", named, drm.GEM_FLINK, "name")
    opened = case.call(second, drm.GEM_OPEN, name=name)
    case.show(opened, drm.GEM_OPEN, "handle", "size")
    case.call(second, drm.GEM_OPEN, name="$name+1")
    case.call(first, drm.GEM_FLINK, handle=2)
    yield case
