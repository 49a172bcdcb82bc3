"""The recording library from Python: build it for a version, call it through openrknn, read what it saw."""

from __future__ import annotations

import ctypes
import re
from dataclasses import dataclass

from openrknn.vendor import Library, Version
from tests.vendor.compiler import HERE, compiled, native_compiler
from tests.vendor.layouts_of_c import api_number

NEWEST = "2.3.2"


@dataclass
class Recorder:
    """A library of one version."""

    library: Library

    @classmethod
    def build(cls, version: str = NEWEST, **options: object) -> Recorder:
        parsed = Version.parse(version)
        defines = [f"-DAPI={api_number(parsed)}", f'-DVERSION="{version}"', "-shared", "-fPIC"]
        path = compiled(native_compiler(), HERE / "recorder.c", "librknnrt.so", defines)
        made = cls(Library(path, chip=None, **options))  # type: ignore[arg-type]
        made.raw.recorder_log.restype = ctypes.c_char_p
        made.clear()
        return made

    @property
    def raw(self) -> ctypes.CDLL:
        return ctypes.CDLL(str(self.library.path))

    def clear(self) -> None:
        self.raw.recorder_clear()

    def text(self) -> str:
        """Everything since the last look. Lines of several threads may be mixed."""
        return "\n".join(self.log())

    def log(self, *names: str) -> list[str]:
        """The calls since the last look, or those of some functions."""
        raw = self.raw
        raw.recorder_log.restype = ctypes.c_char_p
        lines = (raw.recorder_log() or b"").decode().splitlines()
        raw.recorder_clear()
        return [line for line in lines if not names or line.split(" ")[0] in names]

    def one(self, name: str) -> dict[str, str]:
        """The only call of a function: its arguments by name."""
        (line,) = self.log(name)
        return dict(re.findall(r"(\w+)=(\S*)", line))

    def fail(self, name: str, code: int) -> None:
        """Let the next call of a function return a code."""
        self.raw.recorder_fail(name.encode(), code)
