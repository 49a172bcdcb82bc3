"""Text before it becomes phonemes.

normalise  what is written with figures and signs, in words: English and German; others go to espeak-ng as they are
english    numbers, dates, money and abbreviations in English;   german: in German
rules      what the languages share: patterns, units, addresses
ssml       a subset of SSML: spans of text with a rate, a volume, a voice, a language, and breaks
"""

from openrknn.voice.text.normalise import normalised
from openrknn.voice.text.ssml import Break, SsmlError, Utterance, is_ssml, parse_ssml

__all__ = ["Break", "SsmlError", "Utterance", "is_ssml", "normalised", "parse_ssml"]
