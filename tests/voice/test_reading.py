"""Texts on standard input: encodings, SSML of several lines, long lines."""

from __future__ import annotations

import codecs
import io

import pytest

from openrknn.voice.text import SsmlError, parse_ssml
from openrknn.voice.text.reading import LONGEST_LINE, EncodingError, texts

_SSML = '<speak>\n  Über <break time="1s"/>\n\n  all.\n</speak>\n'


def _texts(data: bytes) -> list[str]:
    return list(texts(io.BytesIO(data), "here"))


@pytest.mark.parametrize(
    "data",
    [
        "Grüße.\n...\nZwei\n".encode(),
        codecs.BOM_UTF8 + "Grüße.\r\nZwei".encode(),
        codecs.BOM_UTF16_LE + "Grüße.\nZwei\n".encode("utf-16-le"),
        codecs.BOM_UTF16_BE + "Grüße.\nZwei\n".encode("utf-16-be"),
        codecs.BOM_UTF32_LE + "Grüße.\nZwei\n".encode("utf-32-le"),
    ],
)
def test_lines_of_text_in_several_encodings(data: bytes) -> None:
    assert _texts(data) == ["Grüße.", "Zwei"]


def test_ssml_is_one_document_of_several_lines() -> None:
    assert _texts(f"First.\n{_SSML}Last.\n".encode()) == ["First.", _SSML, "Last."]
    declared = f'<?xml version="1.0" encoding="ISO-8859-1"?>\n<!-- a note -->\n{_SSML}'
    for code in ("latin-1", "utf-16"):  # a byte order mark counts more than the declaration
        (found,) = _texts(declared.encode(code))
        assert found == declared
        assert "Über" in str(parse_ssml(found))
    assert _texts(b"<speak/>\nx\n") == ["<speak/>\n", "x"]
    (open_ended,) = _texts(b"<speak>\na\n")
    with pytest.raises(SsmlError, match="line 2"):
        parse_ssml(open_ended)
    with pytest.raises(SsmlError, match="no </speak>"):
        _texts(b"<speak>\n" + b"word\n" * (1 << 18))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("Eins\nGrüße\n".encode("latin-1"), r"here, line 2: not UTF-8 \(byte 0xfc\); .*iconv"),
        ("Grüße".encode("utf-16-le"), "line 1: .*UTF-16 without a byte order mark|line 1: not UTF-8"),
        ("abc".encode("utf-16-le"), "line 1: a zero byte"),
        (codecs.BOM_UTF16_LE + b"a\0b", "not utf-16-le"),
        (codecs.BOM_UTF8 + b"ab\xff", "not utf-8, as its beginning says"),
        (b'<?xml version="1.0" encoding="klingon"?><speak>a</speak>', "'klingon' is not known"),
        (b'<?xml version="1.0" encoding="base64"?><speak>a</speak>', "'base64' is not known"),
        (b"cut off \xc3", "line 1: not UTF-8"),
        (b"x" * (1 << 21), "more than 1048576 letters"),
    ],
)
def test_what_is_no_text_is_an_error_with_its_line(data: bytes, message: str) -> None:
    with pytest.raises(EncodingError, match=message):
        _texts(data)


def test_a_long_line_is_cut_between_sentences() -> None:
    sentence = "This is one sentence of many. "
    found = _texts(sentence.encode() * 5000)
    assert len(found) == 3
    assert all(len(text) <= LONGEST_LINE and text.endswith("many.") for text in found)
    assert " ".join(found) == (sentence * 5000).strip()
    assert len(_texts(b"x" * (LONGEST_LINE + 1))) == 2
