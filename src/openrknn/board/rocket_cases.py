"""Cases for the driver `rocket`: what its ioctls answer, to right and to wrong requests."""

from __future__ import annotations

from collections.abc import Iterator

from openrknn.board.drm_cases import arguments_nowhere, capabilities, unknown_numbers
from openrknn.board.iommu import PAGE_BYTES
from openrknn.board.program_text import ALL_ONES, PROTECTION, Script, Value
from openrknn.board.rocket_job_cases import job_cases
from openrknn.uapi import drm, rocket

__all__ = ["rocket_cases"]



def rocket_cases() -> Iterator[Script]:
    """All of them."""
    yield from _core()
    yield from _numbers()
    yield from _sizes_in_requests()
    yield from _buffers()
    yield from _waiting()
    yield from _mapping()
    yield from _sharing()
    yield from job_cases()


def _core() -> Iterator[Script]:
    """What the DRM core answers."""
    for length in (0, 1, 6, 100):
        case = Script(f"version-{length}")
        case.do("buffer", "text", 128)
        argument = case.call(
            case.open(), drm.VERSION, name="$text", name_len=length, desc="$text+32", desc_len=length
        )  # fmt: skip
        case.show(argument, drm.VERSION, "version_major", "version_minor", "version_patchlevel", "name_len", "desc_len")
        case.do("sum", "$text", 64)
        yield case
    yield from capabilities(Script)
    # Not GET_UNIQUE: Linux 7.2.13 follows a null pointer there (drm_getunique), and the program dies with an oops.
    # GET_MAGIC and SET_VERSION belong to masters as well; what they do was not tried.
    for ioctl in (drm.GEM_FLINK, drm.GEM_OPEN):
        for value in (0, 1):
            case = Script(f"{ioctl.name.lower()}-{value}")
            case.call(case.open(), ioctl, **{ioctl.argument.fields[0].name: value})
            yield case
    yield from arguments_nowhere(Script, rocket.IOCTLS)


def _numbers() -> Iterator[Script]:
    """Request numbers that the driver does not define."""
    yield from unknown_numbers(Script, (*range(0x44, 0x58), 0x60, 0x80, *range(0x9F, 0xD4), 0xE0, 0xFF))


def _sizes_in_requests() -> Iterator[Script]:
    """Programs that are older or newer than the kernel pass shorter or longer arguments."""
    for ioctl in rocket.IOCTLS:
        for size in (0, 4, 8, 16, 20, 32, 64):
            case = Script(f"size-{ioctl.name.lower()}-{size}")
            values = {"size": PAGE_BYTES} if ioctl is rocket.CREATE_BO else {}
            argument = case.call(case.open(), ioctl, as_bytes=size, **values)
            if ioctl is rocket.CREATE_BO:
                case.show(argument, ioctl, "handle", "dma_address")
            yield case
        for direction in range(4):
            case = Script(f"direction-{ioctl.name.lower()}-{direction}")
            values = {"size": PAGE_BYTES} if ioctl is rocket.CREATE_BO else {}
            argument = case.call(case.open(), ioctl, as_request=ioctl.request & 0x3FFF_FFFF | direction << 30, **values)
            if ioctl is rocket.CREATE_BO:
                case.show(argument, ioctl, "handle", "dma_address")
            yield case


def _create(case: Script, file: str, size: int) -> str:
    argument = case.call(file, rocket.CREATE_BO, size=size)
    case.show(argument, rocket.CREATE_BO, "handle", "dma_address")
    return argument


def _buffers() -> Iterator[Script]:
    """Making and closing buffers: handles and addresses."""
    for size in (0, 1, 8, 4095, 4096, 4097, 8191, 8192, 12289, 65536, 1 << 20, (1 << 20) + 1, 1 << 23):
        case = Script(f"create-{size}")
        file = case.open()
        _create(case, file, size)
        _create(case, file, PAGE_BYTES)
        yield case
    for order in ((1,), (2,), (3,), (1, 2), (2, 1), (1, 3), (3, 1), (2, 3), (1, 2, 3), (3, 2, 1)):
        case = Script(f"close-{'-'.join(map(str, order))}")
        file = case.open()
        for size in (PAGE_BYTES, 2 * PAGE_BYTES, PAGE_BYTES):
            _create(case, file, size)
        for handle in order:
            case.call(file, drm.GEM_CLOSE, handle=handle)
        for size in (2 * PAGE_BYTES, PAGE_BYTES, 3 * PAGE_BYTES):
            _create(case, file, size)
        yield case
    for handle in (0, 1, 2, 77, ALL_ONES):
        case = Script(f"gem-close-{handle}")
        file = case.open()
        _create(case, file, PAGE_BYTES)
        case.call(file, drm.GEM_CLOSE, handle=handle)
        case.call(file, drm.GEM_CLOSE, handle=handle)
        yield case
    for flags in (0, 1, 2):
        case = Script(f"open-{flags}")
        _create(case, case.open(flags=flags), PAGE_BYTES)
        yield case
    case = Script("files-do-not-share-handles")
    first, second = case.open("f"), case.open("g")
    _create(case, first, PAGE_BYTES)
    case.call(second, drm.GEM_CLOSE, handle=1)
    _create(case, second, PAGE_BYTES)
    case.call(second, drm.GEM_CLOSE, handle=1)
    case.call(first, drm.GEM_CLOSE, handle=1)
    yield case
    case = Script("copies-of-a-file-share-handles")
    file = case.open()
    case.do("dup", "g", file)
    _create(case, file, PAGE_BYTES)
    case.do("close", file)
    case.call("$g", drm.GEM_CLOSE, handle=1)
    yield case
    case = Script("closed-file")
    file = case.open()
    case.do("close", file)
    case.call(file, rocket.CREATE_BO, size=PAGE_BYTES)
    yield case


def _waiting() -> Iterator[Script]:
    """PREP_BO and FINI_BO of a buffer that no job writes."""
    for handle in (0, 1, 2, ALL_ONES):
        for reserved in (0, 1, ALL_ONES):
            for timeout in (0, 1, -1, "$soon"):
                case = Script(f"prep-{handle}-{reserved}-{str(timeout).strip('$')}")
                file = case.open()
                _create(case, file, PAGE_BYTES)
                case.do("later", "soon", 1_000_000)
                wait: Value = timeout if isinstance(timeout, str) else timeout & 0xFFFF_FFFF_FFFF_FFFF
                case.call(file, rocket.PREP_BO, handle=handle, reserved=reserved, timeout_ns=wait)
                yield case
            case = Script(f"fini-{handle}-{reserved}")
            file = case.open()
            _create(case, file, PAGE_BYTES)
            case.call(file, rocket.FINI_BO, handle=handle, reserved=reserved)
            yield case


def _mapping() -> Iterator[Script]:
    for made, mapped in ((1, 1), (1, 2), (2, 1), (2, 2), (3, 4)):
        case = Script(f"map-{mapped}-of-{made}")
        file = case.open()
        offset = case.get("offset", _create(case, file, made * PAGE_BYTES), rocket.CREATE_BO, "offset")
        case.do("map", "m", file, mapped * PAGE_BYTES, offset, PROTECTION)
        yield case
    for name, change in (("inside", PAGE_BYTES), ("unaligned", 1), ("far", 1 << 40)):
        case = Script(f"map-{name}")
        file = case.open()
        offset = case.get("offset", _create(case, file, 2 * PAGE_BYTES), rocket.CREATE_BO, "offset")
        case.do("map", "m", file, PAGE_BYTES, f"{offset}+{change}", PROTECTION)
        yield case
    for protection in (0, 1, 2, 3, 7):
        case = Script(f"map-protection-{protection}")
        file = case.open()
        offset = case.get("offset", _create(case, file, PAGE_BYTES), rocket.CREATE_BO, "offset")
        case.do("map", "m", file, PAGE_BYTES, offset, protection)
        yield case
    for offset_number in (0, PAGE_BYTES):
        case = Script(f"map-nothing-{offset_number}")
        case.do("map", "m", case.open(), PAGE_BYTES, offset_number, PROTECTION)
        yield case
    case = Script("map-by-another-file")
    first, second = case.open("f"), case.open("g")
    offset = case.get("offset", _create(case, first, PAGE_BYTES), rocket.CREATE_BO, "offset")
    case.do("map", "m", second, PAGE_BYTES, offset, PROTECTION)
    yield case
    case = Script("a-map-outlives-its-handle")
    file = case.open()
    offset = case.get("offset", _create(case, file, PAGE_BYTES), rocket.CREATE_BO, "offset")
    case.do("map", "m", file, PAGE_BYTES, offset, PROTECTION)
    case.do("set32", "$m", 0x1234)
    case.call(file, drm.GEM_CLOSE, handle=1)
    case.do("map", "n", file, PAGE_BYTES, offset, PROTECTION)
    case.do("sum", "$m", PAGE_BYTES)
    case.do("unmap", "$m", PAGE_BYTES)
    yield case
    case = Script("new-memory-is-zero")
    file = case.open()
    offset = case.get("offset", _create(case, file, 4 * PAGE_BYTES), rocket.CREATE_BO, "offset")
    case.do("map", "m", file, 4 * PAGE_BYTES, offset, PROTECTION)
    case.do("sum", "$m", 4 * PAGE_BYTES)
    yield case


def _sharing() -> Iterator[Script]:
    """dma-bufs."""
    for flags in (0, drm.CLOEXEC, drm.RDWR, drm.CLOEXEC | drm.RDWR, 1, 4, ALL_ONES):
        case = Script(f"export-{flags:#x}")
        file = case.open()
        _create(case, file, PAGE_BYTES)
        case.call(file, drm.PRIME_HANDLE_TO_FD, handle=1, flags=flags)
        yield case
    for handle in (0, 2, ALL_ONES):
        case = Script(f"export-of-handle-{handle}")
        file = case.open()
        _create(case, file, PAGE_BYTES)
        case.call(file, drm.PRIME_HANDLE_TO_FD, handle=handle, flags=drm.CLOEXEC)
        yield case
    case = Script("import-of-its-own")
    file = case.open()
    _create(case, file, PAGE_BYTES)
    exported = case.call(file, drm.PRIME_HANDLE_TO_FD, handle=1, flags=drm.CLOEXEC | drm.RDWR)
    descriptor = case.get("d", exported, drm.PRIME_HANDLE_TO_FD, "fd")
    imported = case.call(file, drm.PRIME_FD_TO_HANDLE, fd=descriptor)
    case.show(imported, drm.PRIME_FD_TO_HANDLE, "handle")
    case.do("map", "m", descriptor, PAGE_BYTES, 0, PROTECTION)
    yield case
    for what in ("memfd", "node", "closed"):
        case = Script(f"import-of-{what}")
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
