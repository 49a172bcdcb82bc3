"""Figures in words, and SSML: what is read, what is refused."""

from __future__ import annotations

import pytest

from openrknn.voice.text import Break, SsmlError, Utterance, english, german, is_ssml, normalised, parse_ssml

ENGLISH = {
    "On 2026-11-18 at 14:30.": "On November eighteenth, twenty twenty-six at fourteen thirty.",
    "Nov. 3, 2007": "November third, two thousand seven",
    "18 November 1900": "November eighteenth, nineteen hundred",
    "1/2/2026": "January second, twenty twenty-six",
    "13/13/2026 is none": "thirteen/thirteen/two thousand twenty-six is none",
    "Dr. Smith paid $5.50, i.e. £1.2 million.": "Doctor Smith paid five dollars and fifty cents, that is one point two "
    "million pounds.",
    "$1 and €1,000": "one dollar and one thousand euros",
    "10–20 % of 3.5 kg": "ten to twenty percent of three point five kilograms",
    "1 km at 5 km/h": "one kilometer at five kilometers per hour",
    "-3 °C": "minus three degrees Celsius",
    "the 22nd, 3rd and 1,000th": "the twenty-second, third and one thousandth",
    "in 1999 and the 1990s": "in nineteen ninety-nine and the nineteen nineties",
    "3:05 pm, 9:00, 25:00": "three oh five P.M, nine o'clock, twenty-five:zero zero",
    "this – that": "this, that",
    "www.example.com/a, joe@example.org.": "example dot com slash a, joe at example dot org.",
    "The NPU of NASA": "The N.P.U of NASA",
    "call 0123456": "call zero one two three four five six",
    "2½ cups": "two and one half cups",
    "1,234,567": "one million two hundred thirty-four thousand five hundred sixty-seven",
    "[[ 1 2 ]] 3": "[[ 1 2 ]] three",
}
GERMAN = {
    "Am 18.11.2026 um 14:30 Uhr": "Am achtzehnten November zweitausendsechsundzwanzig um vierzehn Uhr dreißig",
    "Der 3. Mai und 1. Januar": "Der dritte Mai und erster Januar",
    "z. B. 5,50 € oder 3 Mio. €": "zum Beispiel fünf Euro fünfzig oder drei Millionen Euro",
    "1.234,5 km/h": "eintausendzweihundertvierunddreißig Komma fünf Kilometer pro Stunde",
    "10–20 %": "zehn bis zwanzig Prozent",
    "der 7. Sohn": "der siebte Sohn",
    "im Jahr 1999": "im Jahr neunzehnhundertneunundneunzig",
    "1 Uhr": "ein Uhr",
    "1000001": "eine Million eins",
}


@pytest.mark.parametrize(("written", "said"), ENGLISH.items())
def test_english(written: str, said: str) -> None:
    assert normalised(written, "en-us") == said


@pytest.mark.parametrize(("written", "said"), GERMAN.items())
def test_german(written: str, said: str) -> None:
    assert normalised(written, "de") == said


def test_british_dates_and_other_languages() -> None:
    assert normalised("1/2/2026", "en-gb") == "February first, twenty twenty-six"
    assert normalised("1\u202f000 €, 10–20", "fr-fr") == "1 000 €, 10–20"  # espeak-ng reads them


@pytest.mark.parametrize("value", [0, 19, 20, 99, 100, 101, 999, 1000, 10**6, 10**12, 999_999_999_999_999])
def test_every_size_has_words(value: int) -> None:
    for words in (english.cardinal(value), german.cardinal(value)):
        assert words
        assert not any(letter.isdecimal() for letter in words)


def test_ssml_parts() -> None:
    found = parse_ssml(
        '<speak>Hi <break time="500ms"/><prosody rate="80%" volume="-6dB" pitch="+2st">slow <sub alias="World">W</sub>'
        '</prosody> <say-as interpret-as="characters">AB1</say-as> <phoneme ph="a[b">x</phoneme>'
        '<voice name="p2"><lang xml:lang="de">ja</lang></voice> <say-as interpret-as="ordinal">22</say-as></speak>'
    )
    assert found == [
        Utterance("Hi "), Break(0.5), Utterance("slow World", 0.8, -6.0, 2.0), Utterance(" A.B 1 [[ab]]"),
        Utterance("ja", voice="p2", language="de"), Utterance(" 22nd"),
    ]  # fmt: skip
    assert is_ssml('<?xml version="1.0"?>\n<speak>x</speak>')
    assert is_ssml("<!-- a note --><speak>x</speak>")
    assert is_ssml("<speak/>")
    assert not is_ssml("x <speak>")
    assert not is_ssml("<speaker> is a tag")


REFUSED = {
    "<speak><audio src='x'/></speak>": "<audio> is not understood",
    "<!DOCTYPE speak [<!ENTITY a 'b'>]><speak>&a;</speak>": "document type",
    "<speak>&other;</speak>": "undefined entity",
    "<speak><break time='61s'/></speak>": "a break of '61s'",
    "<speak><break strength='huge'/></speak>": "strength 'huge'",
    "<speak><prosody rate='quick'>x</prosody></speak>": "a rate of 'quick'",
    "<speak><prosody rate='900%'>x</prosody></speak>": "20% to 500%",
    "<speak><sub>x</sub></speak>": "needs alias",
    "<speak><say-as interpret-as='song'>x</say-as></speak>": "'song' is not understood",
    "<speak><phoneme alphabet='x-sampa' ph='a'>x</phoneme></speak>": "alphabet 'x-sampa'",
    "<speak onload='x'>x</speak>": "not 'onload'",
    "<speak>x": "line 1",
    "<p>x</p>": "first element",
    "<speak>" + "<p>" * 40 + "</p>" * 40 + "</speak>": "more than 32",
    "<speak>" + "x" * (1 << 20) + "</speak>": "at most",
}


@pytest.mark.parametrize("text", REFUSED)
def test_ssml_refuses(text: str) -> None:
    with pytest.raises(SsmlError, match=REFUSED[text]):
        parse_ssml(text)
