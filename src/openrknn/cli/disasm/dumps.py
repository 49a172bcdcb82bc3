"""Command words alone in a file, without a model: what Mesa writes with ROCKET_DEBUG=dump_bos (mesa-regcmd-*.bin)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from openrknn.cli.common.output import Output

__all__ = ["read_words", "write_words"]

_MOST_BYTES = 64 << 20
_MOSTLY = 0.9


def read_words(path: str) -> list[int] | None:
    """The words of a file that holds register commands and nothing else; None for any other file."""
    from openrknn.isa import Command, Target

    place = Path(path)
    if not place.is_file() or place.stat().st_size % 8 or not 0 < place.stat().st_size <= _MOST_BYTES:
        return None
    words: list[int] = np.frombuffer(place.read_bytes(), "<u8").tolist()
    targets = [Command.decode(word).target for word in words if word]
    known = sum(target in set(Target) for target in targets)
    return words if targets and known >= _MOSTLY * len(targets) else None


def write_words(words: list[int], chip: str, output: Output, *, with_numbers: bool) -> None:
    """One line per command; offsets are those in the file."""
    from openrknn import isa

    rows = []
    for number, (word, one) in enumerate(zip(words, isa.disassemble(words, isa.map_for(chip)), strict=True)):
        command, text = isa.Command.decode(word), isa.format_instruction(one)
        numbers = f"{8 * number:#06x}  {word:#018x}  {command.offset:#06x} {command.value:#010x}  "
        output.value((numbers if with_numbers else "") + text) if not output.is_json else None
        rows.append({"text": text, "word": f"{word:#018x}", "offset": command.offset, "value": command.value})
    output.data({"chip": chip, "commands": rows})
