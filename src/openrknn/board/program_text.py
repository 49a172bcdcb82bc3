"""Writes what `cases.c` runs: one case at a time, with ioctls by their names and arguments by their fields."""

from __future__ import annotations

from collections.abc import Mapping

from openrknn.uapi.ioctl import Ioctl

__all__ = ["ALL_ONES", "CARD", "NOWHERE", "PROTECTION", "READ_WRITE", "RENDER", "Script", "Value"]

NODE = "/dev/accel/accel0"
CARD, RENDER = "@card", "@render"
"""Stand for the nodes of rknpu: their numbers depend on what else a kernel has."""
READ_WRITE = 2
PROTECTION = 3
"""Of a map that can be read and written."""
NOWHERE = 0x10
"""An address that no program has mapped."""
ALL_ONES = 0xFFFF_FFFF
Value = int | str
_WIDE = ("u64", "s64", "word")
"""Types of fields with 64 bits in the programs that run cases."""
_REQUEST_SIZE_BITS = 16
_SIZE_MASK = 0x3FFF << _REQUEST_SIZE_BITS


class Script:
    """The operations of one case. Values are numbers, or names of variables with `$`."""

    def __init__(self, name: str, node: str = NODE) -> None:
        self.name = name
        self._node = node
        self.lines = [f"case {name}"]
        self._count = 0

    def do(self, *words: Value) -> None:
        """One operation."""
        self.lines.append(" ".join(str(word) for word in words))

    def open(self, variable: str = "f", path: str = "", flags: int = READ_WRITE) -> str:
        """Open the case's node, or another one; the value that stands for the file."""
        self.do("open", variable, path or self._node, flags)
        return f"${variable}"

    def argument(self, ioctl: Ioctl, values: Mapping[str, Value]) -> str:
        """An argument in memory with these fields; the value that stands for its address."""
        self._count += 1
        name = f"a{self._count}"
        self.do("buffer", name, ioctl.argument.size + 64)
        self.fill(f"${name}", ioctl, values)
        return f"${name}"

    def fill(self, address: str, ioctl: Ioctl, values: Mapping[str, Value]) -> None:
        """Set fields of an argument."""
        for field in ioctl.argument.fields:
            if field.name in values:
                place = f"{address}+{ioctl.argument.offsets[field.name]}"
                self.do("set64" if field.type in _WIDE else "set32", place, values[field.name])

    def call(
        self, file: str, ioctl: Ioctl, /, *, as_request: int | None = None, as_bytes: int | None = None, **values: Value
    ) -> str:
        """Call an ioctl, with another request code or another size in it if that is said; the argument's address."""
        address = self.argument(ioctl, values)
        request = ioctl.request if as_request is None else as_request
        if as_bytes is not None:
            request = request & ~_SIZE_MASK | as_bytes << _REQUEST_SIZE_BITS
        self.do("ioctl", file, f"{request:#x}", address)
        return address

    def get(self, variable: str, address: str, ioctl: Ioctl, field: str) -> str:
        """A field of an argument as a variable."""
        wide = {entry.name: entry.type for entry in ioctl.argument.fields}[field] in _WIDE
        self.do("get64" if wide else "get32", variable, f"{address}+{ioctl.argument.offsets[field]}")
        return f"${variable}"

    def show(self, address: str, ioctl: Ioctl, *fields: str) -> None:
        """Print fields of an argument."""
        for field in fields:
            self.do("show", self.get("shown", address, ioctl, field))
