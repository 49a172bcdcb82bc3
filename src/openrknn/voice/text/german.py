"""German: figures and signs in words."""

from __future__ import annotations

import re

from openrknn.voice.text.rules import PAUSE, RANGE, Words, acronyms, addresses, digits, number, units

_SMALL = [
    "null",
    "eins",
    "zwei",
    "drei",
    "vier",
    "fünf",
    "sechs",
    "sieben",
    "acht",
    "neun",
    "zehn",
    "elf",
    "zwölf",
    "dreizehn",
    "vierzehn",
    "fünfzehn",
    "sechzehn",
    "siebzehn",
    "achtzehn",
    "neunzehn",
]
_TENS = ["-", "-", "zwanzig", "dreißig", "vierzig", "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig"]
_LARGE = {10**12: ("Billion", "Billionen"), 10**9: ("Milliarde", "Milliarden"), 10**6: ("Million", "Millionen")}
_ORDINALS = {1: "erst", 3: "dritt", 7: "siebt", 8: "acht"}
MONTHS = [
    "Januar", "Februar", "März", "April", "Mai", "Juni",
    "Juli", "August", "September", "Oktober", "November", "Dezember",
]  # fmt: skip
_MONTH = "|".join(MONTHS)
_FIGURE = r"[-−]?\d{1,3}(?:\.\d{3})+(?:,\d+)?|[-−]?\d+(?:,\d+)?"
_WEAK = r"am|vom|dem|zum|bis zum|ab dem|seit dem|den|im|beim|der|des|die|das"
_SHORT = {
    r"z\.\s?B\.": "zum Beispiel", r"d\.\s?h\.": "das heißt", r"u\.\s?a\.": "unter anderem", r"usw\.": "und so weiter",
    r"bzw\.": "beziehungsweise", r"ca\.": "circa", r"Dr\.": "Doktor", r"Prof\.": "Professor", r"Nr\.": "Nummer",
    r"Hr\.": "Herr", r"Fr\.(?=\s[A-ZÄÖÜ])": "Frau", r"ggf\.": "gegebenenfalls", r"inkl\.": "inklusive",
    r"evtl\.": "eventuell", r"Std\.": "Stunden", r"Min\.": "Minuten", r"Mio\.": "Millionen", r"Mrd\.": "Milliarden",
    r"Abs\.(?=\s?\d)": "Absatz", r"S\.(?=\s?\d)": "Seite",
}  # fmt: skip


def cardinal(value: int) -> str:
    """1234 -> eintausendzweihundertvierunddreißig."""
    for power, (one, many) in _LARGE.items():
        if value >= power:
            head, rest = divmod(value, power)
            words = f"eine {one}" if head == 1 else f"{cardinal(head)} {many}"
            return words + (f" {cardinal(rest)}" if rest else "")
    if value >= 1000:
        head, rest = divmod(value, 1000)
        return f"{_joined(head)}tausend" + (cardinal(rest) if rest else "")
    if value >= 100:
        head, rest = divmod(value, 100)
        return f"{_joined(head)}hundert" + (cardinal(rest) if rest else "")
    if value < 20:
        return _SMALL[value]
    head, rest = divmod(value, 10)
    return f"{_joined(rest)}und{_TENS[head]}" if rest else _TENS[head]


def _joined(value: int) -> str:
    """As the first part of a longer word: ein, not eins."""
    words = cardinal(value)
    return words[:-1] if words.endswith("eins") else words


def ordinal(value: int, ending: str = "e") -> str:
    """22 -> zweiundzwanzigste."""
    rest = value % 100
    if value in _ORDINALS or (rest in _ORDINALS and value > 100):
        head = cardinal(value - rest) if value > rest else ""
        return f"{head}{_ORDINALS[rest]}{ending}"
    return f"{cardinal(value)}{'t' if 0 < rest < 20 else 'st'}{ending}"


def year(value: int) -> str:
    """1999 -> neunzehnhundertneunundneunzig."""
    if 1100 <= value < 2000:
        head, rest = divmod(value, 100)
        return f"{cardinal(head)}hundert" + (cardinal(rest) if rest else "")
    return cardinal(value)


WORDS = Words(
    cardinal, "Komma", "minus", "bis", "Prozent", "ät", "Punkt", "Schrägstrich", "Bindestrich", "Unterstrich",
    tuple(_SMALL[:10]),
    {
        "%": ("Prozent", "Prozent"), "km": ("Kilometer", "Kilometer"), "m": ("Meter", "Meter"),
        "cm": ("Zentimeter", "Zentimeter"), "mm": ("Millimeter", "Millimeter"), "kg": ("Kilogramm", "Kilogramm"),
        "g": ("Gramm", "Gramm"), "mg": ("Milligramm", "Milligramm"), "l": ("Liter", "Liter"),
        "ml": ("Milliliter", "Milliliter"), "h": ("Stunde", "Stunden"), "min": ("Minute", "Minuten"),
        "s": ("Sekunde", "Sekunden"), "ms": ("Millisekunde", "Millisekunden"), "°C": ("Grad Celsius", "Grad Celsius"),
        "°": ("Grad", "Grad"), "kB": ("Kilobyte", "Kilobyte"), "MB": ("Megabyte", "Megabyte"),
        "GB": ("Gigabyte", "Gigabyte"), "TB": ("Terabyte", "Terabyte"), "Hz": ("Hertz", "Hertz"),
        "kHz": ("Kilohertz", "Kilohertz"), "MHz": ("Megahertz", "Megahertz"), "GHz": ("Gigahertz", "Gigahertz"),
        "W": ("Watt", "Watt"), "kW": ("Kilowatt", "Kilowatt"), "kWh": ("Kilowattstunde", "Kilowattstunden"),
        "V": ("Volt", "Volt"), "mA": ("Milliampere", "Milliampere"), "dB": ("Dezibel", "Dezibel"),
    }, "pro",
)  # fmt: skip


def german(text: str) -> str:
    """All rules, the more special first."""
    text = addresses(text, WORDS)
    for short, long in _SHORT.items():
        text = re.sub(rf"(?<!\w){short}", long, text)
    text = _dates(text)
    text = _times(text)
    text = _money(text)
    text = re.sub(rf"({_FIGURE}){RANGE.pattern}", rf"\1 {WORDS.to} ", text) if RANGE.search(text) else text
    text = units(text, WORDS, _FIGURE, ",")
    text = re.sub(
        rf"\b({_WEAK})\s(\d{{1,3}})\.(?=\s[A-ZÄÖÜ]?[a-zäöü])",
        lambda m: f"{m[1]} {ordinal(int(m[2]), 'e' if m[1] in ('der', 'die', 'das') else 'en')}", text,
        flags=re.IGNORECASE,
    )  # fmt: skip
    text = re.sub(r"\s&\s", " und ", text)
    text = re.sub(r"(?<![\w.])\+\d[\d ]{6,}\d\b|\b0\d{5,}\b", lambda m: digits(m[0], WORDS), text)
    text = re.sub(r"\b(?:im Jahr|seit|von|bis|um|nach|vor|Jahre?)\s(1[1-9]\d\d)\b(?![.,]\d)",
                  lambda m: m[0][:-4] + year(int(m[1])), text)  # fmt: skip
    text = re.sub(rf"(?<![\w.])(?:{_FIGURE})(?![\w])", lambda m: number(m[0], WORDS, ","), text)
    return acronyms(PAUSE.sub(", ", text))


def _dates(text: str) -> str:
    def said(match: re.Match[str]) -> str:
        before, day, month, number_of_year = match["before"] or "", int(match["day"]), match["month"], match["year"]
        place = int(month) if month.isdecimal() else MONTHS.index(month) + 1
        if not 1 <= day <= 31 or not 1 <= place <= 12:
            return match[0]
        ending = "en" if before.strip().lower() not in ("", "der", "die", "das") else "e" if before.strip() else "er"
        return f"{before}{ordinal(day, ending)} {MONTHS[place - 1]}" + (
            f" {year(int(number_of_year))}" if number_of_year else ""
        )

    before = rf"(?P<before>\b(?i:{_WEAK})\s)?"
    text = re.sub(rf"{before}\b(?P<day>\d{{1,2}})\.\s?(?P<month>\d{{1,2}})\.(?:\s?(?P<year>\d{{4}})\b)?(?!\d)", said,
                  text)  # fmt: skip
    text = re.sub(rf"{before}\b(?P<day>\d{{1,2}})\.\s(?P<month>{_MONTH})\b(?:\s(?P<year>\d{{4}})\b)?", said, text)
    return re.sub(r"(?P<before>)\b(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)\b", said, text)


def _times(text: str) -> str:
    def said(match: re.Match[str]) -> str:
        hour, minute = int(match[1]), int(match[2] or 0)
        if hour > 24 or minute > 59:
            return match[0]
        return f"{_joined(hour)} Uhr" + (f" {cardinal(minute)}" if minute else "")

    return re.sub(r"\b(\d{1,2})[:.](\d\d)\sUhr\b|\b(?<!\d)(\d{1,2}):(\d\d)(?![:\d])|\b(\d{1,2})\sUhr\b",
                  lambda m: said(_first(m)), text)  # fmt: skip


def _first(match: re.Match[str]) -> re.Match[str]:
    """The alternative that matched, with its numbers as groups 1 and 2."""
    hour, minute = next((match[n], match[n + 1] if n < 5 else None) for n in (1, 3, 5) if match[n])
    found = re.match(r"(\d+):?(\d+)?", f"{hour}:{minute}" if minute else hour)
    assert found is not None
    return found


def _money(text: str) -> str:
    signs = {"€": ("Euro", "Euro"), "EUR": ("Euro", "Euro"), "$": ("Dollar", "Dollar"), "£": ("Pfund", "Pfund"),
             "CHF": ("Franken", "Franken")}  # fmt: skip

    def said(figure: str, sign: str, large: str | None) -> str:
        name = signs[sign][0]
        if large:
            return f"{number(figure, WORDS, ',')} {large} {name}"
        whole, _, rest = figure.replace(".", "").partition(",")
        words = f"{_joined(int(whole))} {name}"
        return words + (f" {cardinal(int(rest.ljust(2, '0')[:2]))}" if rest.strip("0") else "")

    figure, large = r"(\d{1,3}(?:\.\d{3})+(?:,\d\d)?|\d{1,15}(?:,\d+)?)", r"(?:\s(Millionen|Milliarden))?"
    text = re.sub(rf"{figure}{large}\s?(€|EUR\b|\$|£|CHF\b)", lambda m: said(m[1], m[3], m[2]), text)
    return re.sub(rf"(€|\$|£|CHF\s)\s?{figure}", lambda m: said(m[2], m[1].strip(), None), text)
