"""Chat templates: messages become the text that a model was trained with."""

from __future__ import annotations

import datetime
import json
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from openrknn.extras import missing
from openrknn.llm.errors import MissingPackageError, TemplateError

if TYPE_CHECKING:
    from openrknn.llm.tokens import Tokenizer

_LONGEST_TEMPLATE = 1 << 20


class ChatTemplate:
    """A template as transformers has them. It may be a stranger's: it runs in a sandbox with limits.

    `specials` are the names that the template may use: bos_token, eos_token, ...
    """

    def __init__(self, source: str, specials: Mapping[str, str] | None = None) -> None:
        if len(source) > _LONGEST_TEMPLATE:
            raise TemplateError(f"the chat template has {len(source)} characters; at most {_LONGEST_TEMPLATE} are read")
        try:
            import jinja2

            from openrknn.llm import template_sandbox
        except ImportError as error:
            raise MissingPackageError(f"chat templates: {missing(error, 'llm')}") from error
        self.source = source
        self._specials = dict(specials or {})
        self._lock = threading.Lock()
        self._sandbox = template_sandbox
        self._environment = template_sandbox.BoundedEnvironment()
        self._environment.filters["tojson"] = self._guarded_json()
        self._environment.globals.update(raise_exception=_raise_exception, strftime_now=_strftime_now)
        try:
            self._template = self._environment.from_string(source)
        except (jinja2.TemplateError, RecursionError, SyntaxError, MemoryError) as error:
            line = f" (line {error.lineno})" if isinstance(error, jinja2.TemplateSyntaxError) else ""
            raise TemplateError(f"the chat template cannot be compiled: {error}{line}") from None

    @classmethod
    def of(cls, tokenizer: Tokenizer, name: str = "default") -> ChatTemplate:
        """The template in a model's file."""
        if name not in tokenizer.templates:
            there = ", ".join(tokenizer.templates) or "none"
            raise TemplateError(
                f"the model has no chat template {name!r} (it has: {there}); give one, or complete plain text"
            )
        return cls(tokenizer.templates[name], tokenizer.specials.named)

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        **more: Any,
    ) -> str:
        """The prompt. `tools`: JSON descriptions of functions; `more`: what this template knows besides."""
        given = {
            **self._specials, **more, "messages": _plain(messages), "tools": _plain(tools) or None,
            "add_generation_prompt": add_generation_prompt,
        }  # fmt: skip
        with self._lock:
            self._environment.budget = self._sandbox.Budget()
            try:
                return self._template.render(given)
            except TemplateError:
                raise
            except RecursionError:
                raise TemplateError("the chat template calls itself too often") from None
            except Exception as error:
                # Whatever operation of the template failed, it is the template's error.
                raise TemplateError(f"the chat template failed: {type(error).__name__}: {error}") from error

    def _guarded_json(self) -> Any:
        return self._environment._guarded("tojson", _tojson)


def _plain(value: Any) -> Any:
    """Dictionaries, lists, texts and numbers: a template gets no object with methods of its own."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    if isinstance(value, Sequence):
        return [_plain(item) for item in value]
    raise TypeError(f"a message has a {type(value).__name__}; texts, numbers, lists and dictionaries are possible")


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    # Jinja's own escapes <, >, & and ', which no model was trained with.
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise_exception(message: str) -> None:
    raise TemplateError(f"the chat template refuses these messages: {str(message)[:400]}")


def _strftime_now(form: str) -> str:
    return datetime.datetime.now().strftime(str(form)[:200])
