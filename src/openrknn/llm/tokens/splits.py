"""How byte-level BPE vocabularies cut text before they merge: regular expressions by `tokenizer.ggml.pre`.

A list is applied one after another: each expression cuts what it finds out of the pieces that the ones before left.
"""

from __future__ import annotations

from dataclasses import dataclass

from openrknn.llm.errors import TokenizerError

_SUFFIX = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"


def _modern(digits: str, *, suffix: str = _SUFFIX + "|") -> str:
    """Llama 3, Qwen 2 and what was made after them; they differ in how many digits a piece has."""
    return suffix + rf"[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|" + _SPACES


def _cased(suffix: str, digits: str) -> str:
    """GPT-4o and Tekken: a piece is upper case, then lower case."""
    upper, lower = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
    before = r"[^\r\n\p{L}\p{N}]?"
    words = f"{before}{upper}*{lower}+{suffix}|{before}{upper}+{lower}*{suffix}"
    return words + rf"|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|" + _SPACES


@dataclass(frozen=True)
class Split:
    """Expressions, and what else the name of a vocabulary implies."""

    expressions: tuple[str, ...]
    whole_words: bool = False
    """A piece that is a token stays one, whatever the merges would make of it."""
    begins: bool = False
    """Texts begin with the BOS token unless the file says otherwise."""


_PLAIN = Split((_GPT2,))
_DIGITS = Split((r"\p{N}", _GPT2))
_LLAMA3 = Split((_modern(r"\p{N}{1,3}"),), whole_words=True, begins=True)
_QWEN2 = Split((_modern(r"\p{N}"),))
_COLUMNS = r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"
_DEEPSEEK3 = Split(
    (
        r"\p{N}{1,3}",
        "[一-龥\u3040-\u309f\u30a0-\u30ff]+",
        _COLUMNS + r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|" + _SPACES,
    )
)
_DEFAULT = Split((r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", r"[0-9][0-9][0-9]"))

_SPLITS = {
    **dict.fromkeys(
        ("gpt-2", "phi-2", "gigachat", "a.x-4.0", "mellum", "modern-bert", "mpt", "olmo", "jais", "trillion",
         "granite-docling", "exaone4", "roberta-bpe", "jina-es", "jina-de", "jina-v2-es", "jina-v2-de", "jina-v2-code",
         "jina-v1-en"),
        _PLAIN,
    ),
    **dict.fromkeys(("starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b"), _DIGITS),
    **dict.fromkeys(
        ("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"), _LLAMA3
    ),
    **dict.fromkeys(("dbrx", "smaug-bpe", "chatglm-bpe"), Split(_LLAMA3.expressions)),
    **dict.fromkeys(("glm4", "glm5"), Split(_LLAMA3.expressions, whole_words=True)),
    **dict.fromkeys(
        ("qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "stablelm2", "megrez", "hunyuan", "grok-2", "solar-open"),
        _QWEN2,
    ),
    "qwen35": Split(
        (_SUFFIX + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + _SPACES,)
    ),
    "minicpm5": Split((r"\p{N}{1,3}", _modern(r"\p{N}+")), whole_words=True),
    **dict.fromkeys(("gpt-4o", "llama4", "kanana2"), Split((_cased(_SUFFIX + "?", r"\p{N}{1,3}"),))),
    "tekken": Split((_cased("", r"\p{N}"),), whole_words=True, begins=True),
    **dict.fromkeys(("deepseek-v3", "hunyuan-dense", "joyai-llm"), _DEEPSEEK3),
    "deepseek-coder": Split(
        ("[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥\u0800-一가-\ud7ff]+", r"\p{N}")
    ),
    "falcon": Split((r"[\p{P}\$\+<=>\^~\|`]+", _GPT2, r"[0-9][0-9][0-9]")),
    **dict.fromkeys(("default", ""), _DEFAULT),
}  # fmt: skip


def split_of(name: str) -> Split:
    """The rule for this `tokenizer.ggml.pre`."""
    if name not in _SPLITS:
        raise TokenizerError(f"tokenizer.ggml.pre is {name!r}; these ways to cut text are known: {', '.join(known())}")
    return _SPLITS[name]


def known() -> list[str]:
    """All names, for messages and tests."""
    return sorted(name for name in _SPLITS if name)
