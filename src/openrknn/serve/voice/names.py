"""Names of other people's models and languages, as clients of OpenAI's interface say them."""

from __future__ import annotations

import re

__all__ = ["code_of_language", "is_usual_name", "name_of_language"]

_DATE = r"(-20\d\d-\d\d-\d\d)?"
_USUAL = {
    "transcriber": re.compile(rf"default||whisper-1|gpt-([\w.]+-)*(transcribe|transcribe-diarize|whisper){_DATE}"),
    "speaker": re.compile(rf"default||tts-1(-hd)?(-\d{{4}})?|gpt-([\w.]+-)*tts{_DATE}"),
    "wake": re.compile("default|"),
}


def is_usual_name(name: str, kind: str) -> bool:
    """Programs with these names in their settings, or in their code, get the first voice of the kind."""
    return len(name) < 80 and _USUAL[kind].fullmatch(name) is not None


def name_of_language(code: str) -> str:
    """`en` is `english`; a language without a name keeps its code."""
    return _LANGUAGES.get(code.lower().replace("_", "-").partition("-")[0], code)


def code_of_language(text: str) -> str:
    """`English`, `en` and `en-US` are `en`."""
    plain = text.strip().lower().replace("_", "-")
    return _CODES.get(plain, plain.partition("-")[0])


_LANGUAGES = {
    "af": "afrikaans", "am": "amharic", "ar": "arabic", "as": "assamese", "az": "azerbaijani", "ba": "bashkir",
    "be": "belarusian", "bg": "bulgarian", "bn": "bengali", "bo": "tibetan", "br": "breton", "bs": "bosnian",
    "ca": "catalan", "cs": "czech", "cy": "welsh", "da": "danish", "de": "german", "el": "greek", "en": "english",
    "es": "spanish", "et": "estonian", "eu": "basque", "fa": "persian", "fi": "finnish", "fo": "faroese",
    "fr": "french", "gl": "galician", "gu": "gujarati", "ha": "hausa", "haw": "hawaiian", "he": "hebrew",
    "hi": "hindi", "hr": "croatian", "ht": "haitian creole", "hu": "hungarian", "hy": "armenian", "id": "indonesian",
    "is": "icelandic", "it": "italian", "ja": "japanese", "jw": "javanese", "ka": "georgian", "kk": "kazakh",
    "km": "khmer", "kn": "kannada", "ko": "korean", "la": "latin", "lb": "luxembourgish", "ln": "lingala", "lo": "lao",
    "lt": "lithuanian", "lv": "latvian", "mg": "malagasy", "mi": "maori", "mk": "macedonian", "ml": "malayalam",
    "mn": "mongolian", "mr": "marathi", "ms": "malay", "mt": "maltese", "my": "myanmar", "ne": "nepali", "nl": "dutch",
    "nn": "nynorsk", "no": "norwegian", "oc": "occitan", "pa": "punjabi", "pl": "polish", "ps": "pashto",
    "pt": "portuguese", "ro": "romanian", "ru": "russian", "sa": "sanskrit", "sd": "sindhi", "si": "sinhala",
    "sk": "slovak", "sl": "slovenian", "sn": "shona", "so": "somali", "sq": "albanian", "sr": "serbian",
    "su": "sundanese", "sv": "swedish", "sw": "swahili", "ta": "tamil", "te": "telugu", "tg": "tajik", "th": "thai",
    "tk": "turkmen", "tl": "tagalog", "tr": "turkish", "tt": "tatar", "uk": "ukrainian", "ur": "urdu", "uz": "uzbek",
    "vi": "vietnamese", "yi": "yiddish", "yo": "yoruba", "yue": "cantonese", "zh": "chinese",
}  # fmt: skip
_CODES = {name: code for code, name in _LANGUAGES.items()}
