"""`Regions`: the shared memory that clients have registered."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from openrknn.serve.errors import BadRequestError, ConflictError, ExistsError, ForbiddenError, FullError, NotFoundError

__all__ = ["Part", "Region", "Regions", "is_available"]

FOLDER = "/dev/shm"
_MOST_NAME = 255
_MOST_REGIONS = 256
_MOST_OFFSET = 1 << 62
_SEMAPHORES = "sem."
"""Files of sem_open: writing to them stops programs."""


def is_available(folder: str = FOLDER) -> bool:
    """Whether this system has shared memory with names (Linux)."""
    return hasattr(os, "preadv") and hasattr(os, "O_NOFOLLOW") and os.path.isdir(folder)


class _File:
    """A reference-counted descriptor: requests in flight outlive `unregister`."""

    def __init__(self, descriptor: int, *, is_writable: bool) -> None:
        self.descriptor, self.is_writable = descriptor, is_writable

    @property
    def size_bytes(self) -> int:
        return os.fstat(self.descriptor).st_size

    def __del__(self) -> None:
        os.close(self.descriptor)


@dataclass(frozen=True, slots=True)
class Part:
    """Some bytes of a region. Reading and writing fail in words when the file has shrunk meanwhile."""

    region: str
    offset: int
    """In the region."""
    size_bytes: int
    file: _File
    position: int
    """In the file."""

    def read_into(self, target: memoryview) -> None:
        """Fill `target`, which has to be as long as this part at most."""
        view, at = target, self.position
        while len(view):
            try:
                count = os.preadv(self.file.descriptor, [view], at)
            except OSError as error:
                raise BadRequestError(f"{self._what()} cannot be read: {error.strerror}") from None
            if not count:
                raise self._short()
            view, at = view[count:], at + count

    def write(self, source: memoryview) -> None:
        """Write all of `source`."""
        if not self.file.is_writable:
            raise ForbiddenError(f"{self._what()} may only be read")
        if self.position + len(source) > self.file.size_bytes:
            raise self._short()  # writing would make the file longer
        view, at = source, self.position
        while len(view):
            try:
                count = os.pwrite(self.file.descriptor, view, at)
            except OSError as error:
                raise BadRequestError(f"{self._what()} cannot be written: {error.strerror}") from None
            view, at = view[count:], at + count

    def overlaps(self, other: Part) -> bool:
        """Whether both have bytes of the same region."""
        return self.region == other.region and max(self.offset, other.offset) < min(
            self.offset + self.size_bytes, other.offset + other.size_bytes
        )

    def as_json(self) -> dict[str, Any]:
        """The parameters of the protocol."""
        words: dict[str, Any] = {"shared_memory_region": self.region, "shared_memory_byte_size": self.size_bytes}
        return {**words, "shared_memory_offset": self.offset} if self.offset else words

    def _what(self) -> str:
        return f"shared memory region {self.region!r}"

    def _short(self) -> BadRequestError:
        return BadRequestError(f"{self._what()} is shorter than when it was registered: somebody has truncated it")


@dataclass(frozen=True, slots=True)
class Region:
    """One registered region."""

    name: str
    key: str
    offset: int
    byte_size: int
    file: _File

    def as_json(self) -> dict[str, Any]:
        """For the status."""
        return {"name": self.name, "key": self.key, "offset": self.offset, "byte_size": self.byte_size}

    def part(self, offset: int, size_bytes: int) -> Part:
        """Some of its bytes."""
        if offset > self.byte_size or size_bytes > self.byte_size - offset:
            raise BadRequestError(
                f"shared memory region {self.name!r} has {self.byte_size} bytes; {size_bytes} from {offset} on are "
                "outside it"
            )
        return Part(self.name, offset, size_bytes, self.file, self.offset + offset)


class Regions:
    """By name. Registering takes none of our memory, only a descriptor; both the count and the bytes are bounded."""

    def __init__(self, *, refusal: str = "", most_bytes: int = 1 << 30, folder: str = FOLDER) -> None:
        self.refusal = refusal or ("" if is_available(folder) else "this system has no shared memory with names")
        """Why there is none here; empty: there is."""
        self._most_bytes, self._folder = most_bytes, folder
        self._lock = threading.Lock()
        self._regions: dict[str, Region] = {}

    # -- the calls of the protocol -------------------------------------------------------------------------------

    def register(self, name: object, key: object, offset: object, byte_size: object) -> None:
        """Open a region."""
        self._check_allowed()
        if not isinstance(name, str) or not name or len(name) > _MOST_NAME or not name.isprintable():
            raise BadRequestError(f"the name of a region has 1 to {_MOST_NAME} printable characters")
        start, size = _number(offset, "offset"), _number(byte_size, "byte_size")
        if not size:
            raise BadRequestError("byte_size is 0: a region has at least one byte")
        file_name = _file_name(key)
        with self._lock:
            self._check_room(name, size)
        file = self._open(file_name)
        if start > file.size_bytes or size > file.size_bytes - start:
            raise BadRequestError(
                f"shared memory {file_name!r} has {file.size_bytes} bytes; {size} from {start} on are outside it"
            )
        with self._lock:
            self._check_room(name, size)
            self._regions = {**self._regions, name: Region(name, str(key), start, size, file)}

    def unregister(self, name: str = "") -> None:
        """Forget one region, or all; requests in flight finish with the memory they have."""
        self._check_allowed()
        with self._lock:
            if name and name in self._regions:
                self._regions = {other: region for other, region in self._regions.items() if other != name}
            elif not name:
                self._regions = {}

    def status(self, name: str = "") -> list[dict[str, Any]]:
        """What is registered."""
        self._check_allowed()
        regions = self._regions
        if name and name not in regions:
            raise _unknown(name)
        return [regions[one].as_json() for one in ([name] if name else sorted(regions))]

    # -- requests ------------------------------------------------------------------------------------------------

    def part(self, parameters: Mapping[str, Any], what: str) -> Part | None:
        """The bytes that an input's or output's parameters name; None: they name none."""
        name = parameters.get("shared_memory_region")
        size, offset = parameters.get("shared_memory_byte_size"), parameters.get("shared_memory_offset", 0)
        if name is None and size is None and "shared_memory_offset" not in parameters:
            return None
        self._check_allowed()
        if name is None or size is None:
            raise BadRequestError(f"{what}: shared_memory_region and shared_memory_byte_size have to come together")
        if not isinstance(name, str):
            raise BadRequestError(f"{what}: shared_memory_region is the name of a region")
        region = self._regions.get(name)
        if region is None:
            raise _unknown(name)
        return region.part(_number(offset, "shared_memory_offset"), _number(size, "shared_memory_byte_size"))

    # -- inside --------------------------------------------------------------------------------------------------

    def _check_allowed(self) -> None:
        if self.refusal:
            raise ForbiddenError(f"shared memory is not offered: {self.refusal}")

    def _check_room(self, name: str, size: int) -> None:
        if name in self._regions:
            raise ExistsError(f"a shared memory region {name!r} is registered already; unregister it first")
        if len(self._regions) >= _MOST_REGIONS:
            raise FullError(f"{_MOST_REGIONS} shared memory regions are registered; unregister some")
        used = sum(region.byte_size for region in self._regions.values())
        if size > self._most_bytes - used:
            raise ConflictError(
                f"shared memory regions may have {self._most_bytes} bytes together (--max-memory); "
                f"{used} are registered"
            )

    def _open(self, name: str) -> _File:
        """A plain file of the folder itself: no link, no pipe, nothing mounted over it, no file of another user."""
        path = f"{self._folder}/{name}"
        flags = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        is_writable = True
        try:
            try:
                descriptor = os.open(path, os.O_RDWR | flags)
            except PermissionError:
                descriptor, is_writable = os.open(path, os.O_RDONLY | flags), False
        except FileNotFoundError:
            raise BadRequestError(f"there is no shared memory {name!r}") from None
        except OSError as error:
            raise ForbiddenError(f"shared memory {name!r} cannot be opened: {error.strerror}") from None
        file = _File(descriptor, is_writable=is_writable)
        status, folder = os.fstat(descriptor), os.stat(self._folder)
        if not stat.S_ISREG(status.st_mode) or status.st_dev != folder.st_dev:
            raise ForbiddenError(f"shared memory {name!r} is not a plain file of {self._folder}")
        # Root can open everything. What a client of it may use are its own files, and those that everybody may use.
        others = stat.S_IROTH | stat.S_IWOTH
        if status.st_uid != os.geteuid() and os.geteuid() == 0 and status.st_mode & others != others:
            raise ForbiddenError(f"shared memory {name!r} belongs to another user, who keeps it to himself")
        return file


def _file_name(key: object) -> str:
    """As shm_open: a slash at the front means nothing, and no other may be there."""
    name = key.removeprefix("/") if isinstance(key, str) else ""
    if not name or len(name.encode("utf-8", "replace")) > _MOST_NAME or not name.isprintable() or "/" in name:
        raise BadRequestError("the key of shared memory is the name that shm_open takes: no slashes but one in front")
    if name in {".", ".."} or name.startswith(_SEMAPHORES):
        raise BadRequestError(f"{name!r} is no shared memory")
    return name


def _number(value: object, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST_OFFSET:
        raise BadRequestError(f"{what} is a number of bytes")
    return value


def _unknown(name: str) -> NotFoundError:
    return NotFoundError(f"there is no shared memory region {name[:_MOST_NAME]!r}; register it first")
