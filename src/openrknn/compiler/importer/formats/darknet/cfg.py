"""The `.cfg` of Darknet: sections in brackets with `key=value` lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from openrknn.compiler.errors import ModelError

_MOST_SECTIONS = 10_000
_HEADER = re.compile(r"\[\s*([\w-]+)\s*\]")
_LARGEST = 1 << 31


@dataclass(slots=True)
class Section:
    """One layer as it is written; numbers are checked where they are asked for."""

    kind: str
    line: int
    file: str
    options: dict[str, str] = field(default_factory=dict)

    def whole(self, name: str, default: int, least: int | None = None) -> int:
        """A whole number."""
        return self._whole(name, self.options.get(name, str(default)), least)

    def number(self, name: str, default: float) -> float:
        """Any number."""
        text = self.options.get(name, str(default))
        try:
            return float(text)
        except ValueError:
            raise self.wrong(f"{name}={text} is not a number") from None

    def wholes(self, name: str) -> list[int]:
        """A list of whole numbers with commas."""
        text = self.options.get(name, "")
        return [self._whole(name, part, None) for part in text.split(",") if part.strip()]

    def word(self, name: str, default: str) -> str:
        """A word in small letters."""
        return self.options.get(name, default).lower()

    def has(self, names: Sequence[str]) -> str:
        """The first of these options that is set to something else than 0."""
        return next((name for name in names if self.options.get(name, "0") not in {"0", "none", ""}), "")

    def refuse(self, names: Sequence[str]) -> None:
        """Options that would change the result and that the reader does not have."""
        found = self.has(names)
        if found:
            raise self.wrong(f"{found}={self.options[found]} is not one of the forms that the compiler has")

    def strides(self) -> tuple[int, int]:
        """Down and across."""
        stride = self.whole("stride", 1, 1)
        return self.whole("stride_y", stride, 1), self.whole("stride_x", stride, 1)

    def wrong(self, text: str) -> ModelError:
        """An error that says where."""
        return ModelError(f"{self.file}, line {self.line}, [{self.kind}]: {text}")

    def _whole(self, name: str, text: str, least: int | None) -> int:
        try:
            value = int(text.strip())
        except ValueError:
            raise self.wrong(f"{name}={text[:40]} is not a whole number") from None
        if abs(value) >= _LARGEST:
            raise self.wrong(f"{name}={text[:40]} is too large")
        if least is not None and value < least:
            raise self.wrong(f"{name}={value} is less than {least}")
        return value


def parse(data: bytes, file: str) -> list[Section]:
    """The sections; the first is `[net]`."""
    sections: list[Section] = []
    for number, raw in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        line = raw.strip()
        if not line or line[0] in "#;":
            continue
        header = _HEADER.match(line)
        if header is not None:
            sections.append(Section(header[1].lower(), number, file))
            if len(sections) > _MOST_SECTIONS:
                raise ModelError(f"{file} has more than {_MOST_SECTIONS} layers")
            continue
        key, equals, value = line.partition("=")
        if not equals or not sections:
            raise ModelError(f"{file}, line {number}: {line[:60]!r} is neither [section] nor key=value")
        # Comments behind a value are taken off: Darknet's own atoi stops there as well.
        sections[-1].options[key.strip()] = re.split(r"\s*[#;]", value.strip(), maxsplit=1)[0].strip()
    if not sections or sections[0].kind not in {"net", "network"}:
        raise ModelError(f"{file} is not a Darknet network: it does not begin with [net]")
    if len(sections) == 1:
        raise ModelError(f"{file} has no layers")
    return sections
