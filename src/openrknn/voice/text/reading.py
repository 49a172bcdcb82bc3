"""Texts of a byte stream as they arrive: a line each, and SSML as one document of many lines.

The bytes are UTF-8, or UTF-16 or UTF-32 with a byte order mark, or what an XML declaration names. Anything else is an
error that names the line: guessed letters would be spoken.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import BinaryIO

from openrknn.voice.text.ssml import LARGEST, SsmlError, is_ssml

LONGEST_LINE = 1 << 16
"""Letters; longer lines are cut behind a sentence or a word."""
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF32_LE, "utf-32-le"), (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"),
)  # fmt: skip
"""UTF-32 first: its mark begins with that of UTF-16."""
_DECLARED = re.compile(rb"""\s*<\?xml[^>]*?\sencoding\s*=\s*["']([\w.:-]{1,40})["']""")
_PIECE = 1 << 16
_SENTENCE = re.compile(r".*[.!?]\s", re.DOTALL)
_END = re.compile(r"</(?:\w+:)?speak\s*>|<(?:\w+:)?speak(?:\s[^<>]*)?/>", re.IGNORECASE)


class EncodingError(ValueError):
    """The bytes are not text of a known encoding; the message has the line."""


def texts(stream: BinaryIO, name: str) -> Iterator[str]:
    """What is to be said, one text at a time; lines without a letter or figure are left out."""
    document = ""
    for line in _lines(stream, name):
        if document or is_ssml(line):
            document += line
            if _END.search(line):
                yield document
                document = ""
            elif len(document) > LARGEST:
                raise SsmlError(f"{name}: no </speak> in the first {LARGEST} letters of an SSML document")
        elif any(letter.isalnum() for letter in line):
            yield from _cut(line.strip())
    if document:
        yield document  # its end is missing: the parser names the line


def _cut(line: str) -> Iterator[str]:
    while len(line) > LONGEST_LINE:
        head = line[:LONGEST_LINE]
        match = _SENTENCE.match(head)
        end = match.end() if match else head.rfind(" ") + 1 or LONGEST_LINE
        yield line[:end].strip()
        line = line[end:]
    if any(letter.isalnum() for letter in line):
        yield line


def _lines(stream: BinaryIO, name: str) -> Iterator[str]:
    """Each with its end."""
    held = stream.readline(_PIECE)
    mark, encoding = next(((mark, code) for mark, code in _MARKS if held.startswith(mark)), (b"", ""))
    held = held[len(mark) :]
    if not mark and (declared := _DECLARED.match(held)):
        encoding = declared[1].decode("ascii")
    try:
        b"a".decode(encoding or "utf-8", "ignore")  # refuses base64 and others, which are not of text
        decoder = codecs.getincrementaldecoder(encoding or "utf-8")()
    except LookupError:
        raise EncodingError(f"{name}: the encoding {encoding!r} is not known; save it as UTF-8") from None
    number, text, is_over = 1, "", False
    while not is_over:
        is_over = not held and not mark
        try:
            text += decoder.decode(held, final=is_over)
        except UnicodeError as error:
            raise EncodingError(_not_text(name, number, encoding, error)) from None
        if "\0" in text:
            raise EncodingError(
                f"{name}, line {number}: a zero byte, so this is no text, or it is UTF-16 without a byte order mark; "
                "convert it to UTF-8, for example with `iconv -f UTF-16LE -t UTF-8`"
            )
        *whole, text = text.split("\n")
        for line in whole:
            yield f"{line}\n"
        number += len(whole)
        if len(text) > LARGEST:
            raise EncodingError(f"{name}, line {number}: more than {LARGEST} letters; put sentences on lines")
        held, mark = stream.readline(_PIECE), b""
    if text:
        yield text


def _not_text(name: str, number: int, encoding: str, error: UnicodeError) -> str:
    byte = f" (byte {error.object[error.start]:#04x})" if isinstance(error, UnicodeDecodeError) else ""
    if encoding:
        return f"{name}, line {number}: not {encoding}, as its beginning says{byte}; save it as UTF-8"
    return (
        f"{name}, line {number}: not UTF-8{byte}; convert it, for example with `iconv -f ISO-8859-1 -t UTF-8`, or save "
        "it as UTF-8 or UTF-16 with a byte order mark"
    )
