"""A `.rknn` with some of its values changed: fields of registers, words, tasks, relocations, shapes, scales, constants.

Nothing here knows what a change means. Values are those at which programs break (0, 1, the largest, one more, one
less, another bit), and fields that hold the same size in several blocks may change together, so that a mutant gets
past the checks that blocks make of each other.
"""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable
from functools import cache

from openrknn import isa
from openrknn.isa.fields import Choice, Field
from openrknn.isa.registers import Register
from tools.fuzzing.anatomy import Anatomy, TaskWords

__all__ = ["mutated"]

_WORD = struct.Struct("<Q")
_TASK_LETTERS = "IIIIIIIIQ"
_TASK_OFFSETS = (0, 4, 8, 12, 16, 20, 24, 28, 32)
_FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-40, 1e-30, 1e30, 3.4e38, math.inf, -math.inf, math.nan)
_LIMITS = {"B": 8, "i": 32, "I": 32, "Q": 64}
_FILLS = (0x00, 0x01, 0x7F, 0x80, 0x81, 0xFF)

Rng = random.Random
Change = Callable[[bytearray, Anatomy, Rng], None]


def mutated(data: bytes, anatomy: Anatomy, rng: Rng) -> bytes:
    """`data` with one to four changes."""
    result = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        change = rng.choices(_CHANGES, _WEIGHTS)[0]
        change(result, anatomy, rng)
    return bytes(result)


# -- numbers ----------------------------------------------------------------------------------------------------------


def _near(value: int, bits: int, rng: Rng) -> int:
    """Another number of so many bits."""
    top = (1 << bits) - 1
    match rng.randrange(9):
        case 0:
            found = rng.choice((0, 1, 2))
        case 1:
            found = rng.choice((top, top - 1, top >> 1, (top >> 1) + 1))
        case 2:
            found = value + 1
        case 3:
            found = value - 1
        case 4:
            found = value ^ 1 << rng.randrange(bits)
        case 5:
            found = rng.choice((value * 2, value // 2, value * 4, value + 8, value + 16, value - 16))
        case 6:
            found = 1 << rng.randrange(bits)
        case 7:
            found = rng.randrange(min(top, 64) + 1)
        case _:
            found = rng.getrandbits(bits)
    return found & top


def _number(data: bytearray, offset: int, letter: str, rng: Rng) -> None:
    if letter == "f":
        old = struct.unpack_from("<f", data, offset)[0]
        new = rng.choice((*_FLOATS, old * 2, old / 2, -old, old * 1e4))
        struct.pack_into("<f", data, offset, new if abs(new) < 3.4e38 or not math.isfinite(new) else math.inf)
        return
    bits = _LIMITS[letter]
    unsigned = letter.upper()
    old = struct.unpack_from(f"<{unsigned}", data, offset)[0]
    struct.pack_into(f"<{unsigned}", data, offset, _near(old, bits, rng))


def _table(data: bytearray, anatomy: Anatomy, rng: Rng) -> None:
    """A type, shape, scale, size or attribute."""
    if anatomy.numbers:
        number = rng.choice(anatomy.numbers)
        _number(data, number.offset, number.format, rng)


def _task(data: bytearray, anatomy: Anatomy, rng: Rng) -> None:
    if not anatomy.tasks:
        return
    place = rng.choice(anatomy.tasks)
    if rng.random() < 0.2:
        other = rng.choice(anatomy.tasks)
        data[place : place + 40] = data[other : other + 40]
        return
    number = rng.randrange(len(_TASK_LETTERS))
    _number(data, place + _TASK_OFFSETS[number], _TASK_LETTERS[number], rng)


def _relocation(data: bytearray, anatomy: Anatomy, rng: Rng) -> None:
    if not anatomy.relocations:
        return
    place = rng.choice(anatomy.relocations)
    if rng.random() < 0.2:
        other = rng.choice(anatomy.relocations)
        data[place : place + 4], data[other : other + 4] = data[other : other + 4], data[place : place + 4]
    elif rng.random() < 0.6:
        addend = struct.unpack_from("<I", data, place)[0] + rng.choice((-64, -16, -8, -1, 1, 8, 16, 64, 4096))
        struct.pack_into("<I", data, place, addend & 0xFFFFFFFF)
    else:
        _number(data, place + rng.choice((0, 0, 4)), "I", rng)


def _constant(data: bytearray, anatomy: Anatomy, rng: Rng) -> None:
    """Weights, operands per channel, zero points: extreme values, or others."""
    if not anatomy.data:
        return
    offset, size = rng.choice(anatomy.data)
    start = rng.randrange(size)
    count = min(rng.choice((1, 2, 4, 16, 64, size)), size - start)
    fill = bytes([rng.choice(_FILLS)]) * count if rng.random() < 0.5 else rng.randbytes(count)
    data[offset + start : offset + start + count] = fill


# -- commands ---------------------------------------------------------------------------------------------------------


def _at(words: TaskWords, number: int) -> int:
    return words.offset + 8 * number


def _fetch(data: bytearray, words: TaskWords, number: int) -> int:
    word: int = _WORD.unpack_from(data, _at(words, number))[0]
    return word


def _store(data: bytearray, words: TaskWords, number: int, word: int) -> None:
    _WORD.pack_into(data, _at(words, number), word)


@cache
def _registers(chip: str) -> dict[tuple[int, int], type[Register]]:
    found: dict[tuple[int, int], type[Register]] = {}
    for block in isa.map_for(chip).blocks:
        if block.target is not None:
            found |= {(block.target, offset): register for offset, register in block.by_offset.items()}
    return found


def _register(anatomy: Anatomy, word: int) -> type[Register] | None:
    return _registers(anatomy.chip.name).get((word >> 48, word & 0xFFFF))


def _set(word: int, field: Field[int], code: int) -> int:
    return word & ~(field.mask << 16) | (code & field.code_mask) << (field.low + 16)


def _code(field: Field[int], old: int, rng: Rng) -> int:
    if isinstance(field, Choice) and rng.random() < 0.9:
        return int(rng.choice([int(member) for member in field.enum.__members__.values()])) & field.code_mask
    return _near(old, field.width, rng)


def _field(data: bytearray, anatomy: Anatomy, rng: Rng) -> None:
    """One field of one register, or everything in the task that has the same value."""
    words = rng.choice(anatomy.words)
    for _ in range(8):
        number = rng.randrange(words.count)
        word = _fetch(data, words, number)
        register = _register(anatomy, word)
        if register is not None and register.fields():
            break
    else:
        return
    field = rng.choice(register.fields())
    old = field.code_in(word >> 16 & 0xFFFFFFFF)
    new = _code(field, old, rng)
    _store(data, words, number, _set(word, field, new))
    if field.width > 2 and old > 1 and rng.random() < 0.4:
        _follow(data, anatomy, words, field, (old, new))


def _follow(data: bytearray, anatomy: Anatomy, words: TaskWords, changed: Field[int], codes: tuple[int, int]) -> None:
    """Blocks repeat sizes, some of them minus one."""
    value, wanted = (int(changed.natural(code)) for code in codes)
    for number in range(words.count):
        word = _fetch(data, words, number)
        register = _register(anatomy, word)
        for field in register.fields() if register is not None else ():
            if (field.width > 2 and field.kind == changed.kind) or field.kind in ("size", "unsigned"):
                code = field.code_in(word >> 16 & 0xFFFFFFFF)
                if int(field.natural(code)) == value:
                    word = _set(word, field, code + wanted - value)
        _store(data, words, number, word)


def _raw_word(data: bytearray, anatomy: Anatomy, rng: Rng) -> None:
    """A whole value, a target or an offset."""
    words = rng.choice(anatomy.words)
    number = rng.randrange(words.count)
    word = _fetch(data, words, number)
    if rng.random() < 0.7:
        value = _near(word >> 16 & 0xFFFFFFFF, 32, rng)
        word = word & ~(0xFFFFFFFF << 16) | value << 16
    else:
        word ^= 1 << rng.choice((*range(16), *range(48, 64)))
    _store(data, words, number, word)


def _swap(data: bytearray, anatomy: Anatomy, rng: Rng) -> None:
    """Two words, or only their values, change places."""
    words, others = rng.choice(anatomy.words), rng.choice(anatomy.words)
    if rng.random() < 0.7:
        others = words
    first, second = rng.randrange(words.count), rng.randrange(others.count)
    one, two = _fetch(data, words, first), _fetch(data, others, second)
    if rng.random() < 0.5:
        value = 0xFFFFFFFF << 16
        one, two = one & ~value | two & value, two & ~value | one & value
        one, two = two, one
    _store(data, words, first, two)
    _store(data, others, second, one)


def _drop(data: bytearray, anatomy: Anatomy, rng: Rng) -> None:
    """A command that is not there, or one that is there twice in the place of its neighbour."""
    words = rng.choice(anatomy.words)
    number = rng.randrange(words.count)
    if rng.random() < 0.5:
        _store(data, words, number, 0)
    else:
        _store(data, words, rng.randrange(words.count), _fetch(data, words, number))


def _add(data: bytearray, anatomy: Anatomy, rng: Rng) -> None:
    """A register that the task does not write, in the place of a command that it hardly needs."""
    words = rng.choice(anatomy.words)
    number = rng.randrange(words.count)
    for candidate in (rng.randrange(words.count) for _ in range(8)):
        if not _fetch(data, words, candidate) >> 16 & 0xFFFFFFFF:  # what writes 0 is mostly the default
            number = candidate
            break
    (target, offset), register = rng.choice(list(_registers(anatomy.chip.name).items()))
    value = 0
    for field in register.fields():
        if rng.random() < 0.5:
            value |= _code(field, 0, rng) << field.low
    _store(data, words, number, target << 48 | value << 16 | offset)


def _borrow(data: bytearray, anatomy: Anatomy, rng: Rng) -> None:
    """The value that another task of the file writes into the same register."""
    words, others = rng.choice(anatomy.words), rng.choice(anatomy.words)
    number = rng.randrange(words.count)
    word = _fetch(data, words, number)
    for other in range(others.count):
        found = _fetch(data, others, other)
        if found >> 48 == word >> 48 and found & 0xFFFF == word & 0xFFFF:
            _store(data, words, number, found)
            return


def _command(change: Change) -> Change:
    def guarded(data: bytearray, anatomy: Anatomy, rng: Rng) -> None:
        if anatomy.words:
            change(data, anatomy, rng)

    return guarded


_CHANGES: tuple[Change, ...] = (
    *map(_command, (_field, _raw_word, _swap, _drop, _add, _borrow)), _table, _task, _relocation, _constant,
)  # fmt: skip
_WEIGHTS = (45, 6, 4, 5, 5, 3, 16, 4, 8, 4)
