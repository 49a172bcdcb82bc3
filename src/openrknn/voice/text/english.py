"""English: figures and signs in words."""

from __future__ import annotations

import re

from openrknn.voice.text.rules import PAUSE, RANGE, Words, acronyms, addresses, digits, number, units

_SMALL = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
_TENS = ["-", "-", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_LARGE = ("", "thousand", "million", "billion", "trillion")
_ORDINALS = {
    "one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth", "nine": "ninth",
    "twelve": "twelfth",
}  # fmt: skip
MONTHS = [
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
]  # fmt: skip
_MONTH = "|".join([*MONTHS, *(f"{month[:3]}\\.?" for month in MONTHS), "Sept\\.?"])
_FIGURE = r"[-−]?\d{1,3}(?:,\d{3})+(?:\.\d+)?|[-−]?\d+(?:\.\d+)?"
_MONEY = {
    "$": ("dollar", "dollars", "cent", "cents"), "€": ("euro", "euros", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"), "¥": ("yen", "yen", "sen", "sen"),
}  # fmt: skip
_SHORT = {
    "Mr.": "Mister", "Mrs.": "Missis", "Ms.": "Miz", "Dr.": "Doctor", "Prof.": "Professor", "Jr.": "Junior",
    "Sr.": "Senior", "vs.": "versus", "e.g.": "for example", "i.e.": "that is", "approx.": "approximately",
    "dept.": "department", "Gen.": "General", "Capt.": "Captain", "Lt.": "Lieutenant", "Rev.": "Reverend",
    "Ave.": "Avenue", "Blvd.": "Boulevard", "Inc.": "Incorporated", "Ltd.": "Limited", "Co.": "Company",
}  # fmt: skip


def cardinal(value: int) -> str:
    """1234 -> one thousand two hundred thirty-four."""
    if value < 20:
        return _SMALL[value]
    if value < 100:
        return _TENS[value // 10] + (f"-{_SMALL[value % 10]}" if value % 10 else "")
    if value < 1000:
        return f"{_SMALL[value // 100]} hundred" + (f" {cardinal(value % 100)}" if value % 100 else "")
    for power in range(len(_LARGE) - 1, 0, -1):
        if value >= 1000**power:
            head, rest = divmod(value, 1000**power)
            return f"{cardinal(head)} {_LARGE[power]}" + (f" {cardinal(rest)}" if rest else "")
    raise AssertionError(value)


def ordinal(value: int) -> str:
    """22 -> twenty-second."""
    words = cardinal(value)
    head, mark, last = words.rpartition("-") if "-" in words.rpartition(" ")[2] else words.rpartition(" ")
    last = _ORDINALS.get(last) or (f"{last[:-1]}ieth" if last.endswith("y") else f"{last}th")
    return f"{head}{mark}{last}"


def year(value: int) -> str:
    """1999 -> nineteen ninety-nine."""
    head, rest = divmod(value, 100)
    if not 1100 <= value <= 2099 or 2000 <= value <= 2009:
        return cardinal(value)
    if rest == 0:
        return f"{cardinal(head)} hundred"
    return f"{cardinal(head)} {'oh ' if rest < 10 else ''}{cardinal(rest)}"


WORDS = Words(
    cardinal, "point", "minus", "to", "percent", "at", "dot", "slash", "dash", "underscore", tuple(_SMALL[:10]),
    {
        "%": ("percent", "percent"), "km": ("kilometer", "kilometers"), "m": ("meter", "meters"),
        "cm": ("centimeter", "centimeters"), "mm": ("millimeter", "millimeters"), "kg": ("kilogram", "kilograms"),
        "g": ("gram", "grams"), "mg": ("milligram", "milligrams"), "l": ("liter", "liters"),
        "ml": ("milliliter", "milliliters"), "h": ("hour", "hours"), "min": ("minute", "minutes"),
        "s": ("second", "seconds"), "ms": ("millisecond", "milliseconds"), "mph": ("mile per hour", "miles per hour"),
        "mi": ("mile", "miles"), "ft": ("foot", "feet"), "lb": ("pound", "pounds"), "lbs": ("pound", "pounds"),
        "oz": ("ounce", "ounces"), "°C": ("degree Celsius", "degrees Celsius"), "°": ("degree", "degrees"),
        "°F": ("degree Fahrenheit", "degrees Fahrenheit"), "kB": ("kilobyte", "kilobytes"),
        "KB": ("kilobyte", "kilobytes"), "MB": ("megabyte", "megabytes"), "GB": ("gigabyte", "gigabytes"),
        "TB": ("terabyte", "terabytes"), "Hz": ("hertz", "hertz"), "kHz": ("kilohertz", "kilohertz"),
        "MHz": ("megahertz", "megahertz"), "GHz": ("gigahertz", "gigahertz"), "W": ("watt", "watts"),
        "kW": ("kilowatt", "kilowatts"), "kWh": ("kilowatt hour", "kilowatt hours"), "V": ("volt", "volts"),
        "mV": ("millivolt", "millivolts"), "mA": ("milliampere", "milliamperes"), "dB": ("decibel", "decibels"),
    }, "per",
)  # fmt: skip


def english(text: str, *, is_british: bool = False) -> str:
    """All rules, the more special first."""
    text = addresses(text, WORDS)
    for short, long in _SHORT.items():
        text = re.sub(rf"(?<!\w){re.escape(short)}", long, text)
    text = re.sub(r"\bSt\.(?=\s[A-Z])", "Saint", text)
    text = re.sub(r"\betc\.(?=\s[a-z])|\betc\b\.?(?=[,;)])", "et cetera", text)
    text = re.sub(r"\bNo\.\s?(?=\d)", "number ", text)
    text = _dates(text, is_british=is_british)
    text = _times(text)
    text = _money(text)
    text = re.sub(rf"({_FIGURE}){RANGE.pattern}", rf"\1 {WORDS.to} ", text) if RANGE.search(text) else text
    text = re.sub(r"\b(1[1-9]|20)(\d)0s\b", lambda m: _decade(int(m[1]), int(m[2])), text)
    text = units(text, WORDS, _FIGURE, ".")
    text = re.sub(r"\b(\d{1,3}(?:,\d{3})+|\d+)(?:st|nd|rd|th)\b", lambda m: ordinal(int(m[1].replace(",", ""))), text)
    for sign, said in (("½", "one half"), ("¼", "one quarter"), ("¾", "three quarters"), (" & ", " and ")):
        text = re.sub(rf"(?<=\d){sign}", f" and {said}", text) if sign in "½¼¾" else text
        text = text.replace(sign, said if sign in "½¼¾" else " and ")
    text = re.sub(r"(?<![\w.])\+\d[\d ]{6,}\d\b|\b0\d{5,}\b", lambda m: digits(m[0], WORDS), text)
    text = re.sub(r"\b(?:in|since|of|until|by|from|before|after)\s(1[1-9]\d\d|20\d\d)\b(?![.,]\d)",
                  lambda m: m[0][:-4] + year(int(m[1])), text)  # fmt: skip
    text = re.sub(rf"(?<![\w.])(?:{_FIGURE})(?![\w])", lambda m: number(m[0], WORDS, "."), text)
    return acronyms(PAUSE.sub(", ", text))


def _decade(head: int, tens: int) -> str:
    many = "hundreds" if tens == 0 else "tens" if tens == 1 else f"{_TENS[tens][:-1]}ies"
    return f"{cardinal(head)} {many}" if (head, tens) != (20, 0) else "two thousands"


def _dates(text: str, *, is_british: bool) -> str:
    def day(month: int, number: int, number_of_year: str | None) -> str:
        if not 1 <= month <= 12 or not 1 <= number <= 31:
            return ""
        return f"{MONTHS[month - 1]} {ordinal(number)}" + (f", {year(int(number_of_year))}" if number_of_year else "")

    def slashed(match: re.Match[str]) -> str:
        first, second = int(match[1]), int(match[2])
        month, number = (second, first) if is_british or first > 12 else (first, second)
        return day(month, number, match[3]) or match[0]

    def month_of(name: str) -> int:
        return next(place for place, month in enumerate(MONTHS, 1) if month.startswith(name[:3]))

    text = re.sub(r"\b(\d{4})-(\d\d)-(\d\d)\b", lambda m: day(int(m[2]), int(m[3]), m[1]) or m[0], text)
    text = re.sub(r"\b(\d{1,2})/(\d{1,2})/(\d{4})\b", slashed, text)
    text = re.sub(
        rf"\b({_MONTH})\s(\d{{1,2}})(?:st|nd|rd|th)?\b(?:,?\s(\d{{4}}))?(?![\d:])",
        lambda m: day(month_of(m[1]), int(m[2]), m[3]) or m[0], text,
    )  # fmt: skip
    return re.sub(
        rf"\b(\d{{1,2}})(?:st|nd|rd|th)?\s({_MONTH})\b(?:,?\s(\d{{4}}))?",
        lambda m: day(month_of(m[2]), int(m[1]), m[3]) or m[0], text,
    )  # fmt: skip


def _times(text: str) -> str:
    def said(match: re.Match[str]) -> str:
        hour, minute, half = int(match[1]), int(match[2] or 0), (match[3] or "").lower().replace(".", "")
        if hour > 24 or minute > 59:
            return match[0]
        words = cardinal(hour)
        if minute:
            words += f" {'oh ' if minute < 10 else ''}{cardinal(minute)}"
        elif not half:
            words += " o'clock" if 0 < hour <= 12 else " hundred hours"
        return words + (f" {half[0].upper()}.M" if half else "")

    half = r"\s?([AaPp]\.?[Mm]\b\.?)"
    text = re.sub(rf"\b(\d{{1,2}}):(\d\d)(?!:?\d)(?:{half})?", said, text)
    return re.sub(rf"\b(\d{{1,2}})()(?:{half})", said, text)


def _money(text: str) -> str:
    def said(match: re.Match[str]) -> str:
        one, many, small, smalls = _MONEY[match[1]]
        if match[3]:
            return f"{number(match[2], WORDS, '.')} {match[3]} {many}"
        whole, _, rest = match[2].replace(",", "").partition(".")
        words = f"{cardinal(int(whole))} {one if whole == '1' else many}"
        cents = int(rest[:2].ljust(2, "0")) if rest else 0
        if len(rest) > 2:
            return f"{number(match[2], WORDS, '.')} {many}"
        return words + (f" and {cardinal(cents)} {small if cents == 1 else smalls}" if cents else "")

    large = "thousand|million|billion|trillion"
    return re.sub(rf"([$€£¥])\s?(\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?|\d{{1,15}}(?:\.\d+)?)(?:\s({large})\b)?", said, text)
