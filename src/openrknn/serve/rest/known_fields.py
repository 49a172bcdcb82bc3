"""Fields of requests to language models: those that are read, those that change no answer, and no others.

A field that would change the answer and is not known here must not be passed over in silence: 400 names it.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from openrknn.serve.errors import BadRequestError
from openrknn.serve.rest.fields import Fields

__all__ = [
    "CHAT", "COMPLETIONS", "EMBEDDINGS", "OLLAMA_CHAT", "OLLAMA_EMBED", "OLLAMA_GENERATE", "OLLAMA_OPTIONS",
    "RESPONSES", "RESPONSE_REASONING", "RESPONSE_TEXT", "Known", "check_known", "check_options",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Known:
    """What a path takes."""

    read: frozenset[str]
    harmless: frozenset[str] = frozenset()
    """They are about accounts, storage, hardware or prices, and no answer depends on them."""
    usual: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """Taken with these values only: they mean what is done anyway."""
    instead: Mapping[str, str] = field(default_factory=dict)
    """What to do for somebody who asks for what is not there."""


_SAMPLING = frozenset({
    "model", "stream", "stream_options", "temperature", "top_p", "top_k", "min_p", "seed", "n", "max_tokens", "stop",
    "presence_penalty", "frequency_penalty", "repetition_penalty", "logit_bias", "logprobs", "response_format",
    "ignore_eos",
})  # fmt: skip
_OPENAI_HARMLESS = frozenset({
    "user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention",
    "prediction", "request_id", "priority", "cache_prompt",
})  # fmt: skip
_OPENAI_USUAL: dict[str, tuple[Any, ...]] = {"modalities": (["text"],), "verbosity": ("medium",)}
_CONSTRAINTS = "use 'response_format' with a JSON schema"
_OPENAI_INSTEAD = {
    "functions": "use 'tools'", "function_call": "use 'tool_choice'", "audio": "answers are text",
    "web_search_options": "nothing is searched here", "grammar": _CONSTRAINTS, "guided_json": _CONSTRAINTS,
    "guided_regex": _CONSTRAINTS, "guided_choice": _CONSTRAINTS, "guided_grammar": _CONSTRAINTS,
    "structured_outputs": _CONSTRAINTS, "json_schema": _CONSTRAINTS, "repeat_penalty": "use 'repetition_penalty'",
    "n_predict": "use 'max_tokens'", "num_predict": "use 'max_tokens'", "options": "it is Ollama's: use /api/chat",
    "num_ctx": "the context is the one of the model's file",
}  # fmt: skip

CHAT = Known(
    _SAMPLING | {"messages", "tools", "tool_choice", "parallel_tool_calls", "max_completion_tokens", "top_logprobs",
                 "chat_template_kwargs", "reasoning_effort"},
    _OPENAI_HARMLESS, _OPENAI_USUAL, _OPENAI_INSTEAD,
)  # fmt: skip
_NO_CONVERSATIONS = "send 'previous_response_id', or all items as 'input'"
RESPONSES = Known(
    (_SAMPLING - {"n", "max_tokens", "logprobs", "response_format"}) | {
        "input", "instructions", "previous_response_id", "max_output_tokens", "tools", "tool_choice",
        "parallel_tool_calls", "text", "reasoning", "truncation", "background", "include", "top_logprobs", "metadata",
        "store", "chat_template_kwargs",
    },
    # `max_tool_calls` bounds tools that the server itself calls, and there are none.
    (_OPENAI_HARMLESS - {"metadata", "store"}) | {"prompt_cache_options", "max_tool_calls"},
    {"context_management": ([],)},
    {
        **_OPENAI_INSTEAD, "messages": "use 'input', or /v1/chat/completions", "conversation": _NO_CONVERSATIONS,
        "prompt": "there are no stored prompts: use 'instructions'", "max_tokens": "use 'max_output_tokens'",
        "max_completion_tokens": "use 'max_output_tokens'", "response_format": "use 'text': {'format': ...}",
        "reasoning_effort": "use 'reasoning': {'effort': ...}", "logprobs": "use 'top_logprobs'",
        "context_management": "use 'truncation': 'auto'",
    },
)  # fmt: skip
RESPONSE_TEXT = Known(frozenset({"format"}), usual={"verbosity": ("medium",)})
RESPONSE_REASONING = Known(
    frozenset({"effort", "summary", "generate_summary"}), usual={"mode": ("standard",), "context": ("auto",)}
)
COMPLETIONS = Known(
    _SAMPLING | {"prompt", "echo", "suffix", "best_of"},
    _OPENAI_HARMLESS,
    _OPENAI_USUAL,
    {**_OPENAI_INSTEAD, "messages": "use /v1/chat/completions"},
)
EMBEDDINGS = Known(
    frozenset({"model", "input", "encoding_format", "dimensions"}),
    frozenset({"user"}),
    instead={"input_type": "put the words that the model was trained with before the text"},
)

_OLLAMA = frozenset({"model", "stream", "format", "options", "keep_alive", "think"})
_OLLAMA_INSTEAD = dict.fromkeys(
    ("temperature", "top_k", "top_p", "seed", "stop", "num_predict"), "it belongs into 'options'"
)
OLLAMA_CHAT = Known(
    _OLLAMA | {"messages", "tools"},
    usual={"logprobs": (False,), "top_logprobs": (0,), "truncate": (True,), "shift": (True,)},
    instead={**_OLLAMA_INSTEAD, "logprobs": "/v1/chat/completions has log-probabilities"},
)
OLLAMA_GENERATE = Known(
    _OLLAMA | {"prompt", "system", "raw", "suffix", "images", "template", "context"},
    usual=OLLAMA_CHAT.usual,
    instead={**OLLAMA_CHAT.instead, "messages": "use /api/chat"},
)
OLLAMA_EMBED = Known(frozenset({"model", "input", "prompt", "truncate", "dimensions", "keep_alive", "options"}))
OLLAMA_OPTIONS = Known(
    frozenset({
        "num_predict", "repeat_last_n", "seed", "temperature", "top_k", "top_p", "min_p", "repeat_penalty",
        "presence_penalty", "frequency_penalty", "stop", "num_keep",
    }),
    # How much memory and which processors; num_ctx too: the context of a compiled model is fixed.
    frozenset({
        "num_ctx", "num_batch", "num_gpu", "main_gpu", "num_thread", "numa", "low_vram", "f16_kv", "use_mmap",
        "use_mlock", "vocab_only", "num_gqa", "rope_frequency_base", "rope_frequency_scale", "draft_num_predict",
    }),
    {"mirostat": (0,), "tfs_z": (1,), "typical_p": (1,), "penalize_newline": (True,), "logits_all": (False,),
     "embedding_only": (False,)},
    {"mirostat": "it is not implemented; use 'temperature', 'top_p' or 'min_p'"},
)  # fmt: skip
_AFTER = {"mirostat_tau": "mirostat", "mirostat_eta": "mirostat"}
"""They say how another one works, which is not used."""


def check_known(fields: Fields, known: Known, what: str = "") -> None:
    """400 for an unknown field."""
    for name, value in fields.words.items():
        if name in known.read or name in known.harmless or value is None:
            continue
        if name in known.usual and value in known.usual[name]:
            continue
        if name in _AFTER and _AFTER[name] in known.usual:
            continue
        hint = known.instead.get(name, "")
        if not hint and name in known.usual:
            hint = f"it can only be {' or '.join(map(repr, known.usual[name]))}"
        if not hint:
            near = difflib.get_close_matches(name[:80], known.read, 1)
            hint = f"did you mean {near[0]!r}?" if near else "it would be ignored: leave it out"
        raise BadRequestError(f"'{what}{name[:80]}' is not known here; {hint}")


def check_options(fields: Fields) -> None:
    """The options of Ollama."""
    check_known(fields.inside("options"), OLLAMA_OPTIONS, "options.")
