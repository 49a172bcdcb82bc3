"""Chat templates: what transformers would write, and nothing that a stranger's template could do to us."""

import sys
import time
from pathlib import Path
from typing import Any

import pytest

from openrknn.llm import template_sandbox
from openrknn.llm.errors import MissingPackageError, TemplateError
from openrknn.llm.templates import ChatTemplate
from openrknn.llm.tokens.gguf_tokens import gguf_tokenizer
from tests.llm.test_tokens import byte_pair_metadata

HELLO = [{"role": "user", "content": "Hello <b>"}]
CHATML = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nBe brief<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def test_a_conversation() -> None:
    template = ChatTemplate(CHATML)
    start = "<|im_start|>system\nBe brief<|im_end|>\n<|im_start|>user\nHello <b><|im_end|>\n"
    assert template.render(HELLO) == start + "<|im_start|>assistant\n"
    assert template.render(HELLO, add_generation_prompt=False) == start


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("{{ bos_token }}{{ messages[0].content | trim }}", "<s>Hello <b>"),
        ("{% for t in tools %}{{ t | tojson }}{% endfor %}", '{"name": "é<"}'),
        ("{% for t in tools %}{{ t | tojson(indent=1) }}{% endfor %}", '{\n "name": "é<"\n}'),
        ("  {% if true %}\nx\n  {% endif %}\ny", "x\ny"),
        ("{% set ns = namespace(n=0) %}{% for i in range(5) %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}", "10"),
        ("{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", "01"),
        ("{% macro m(a) %}[{{ a }}]{% endmacro %}{{ m(1) }}{{ m('x') }}", "[1][x]"),
        ("{% generation %}{{ 'a' ~ 1 }}{% endgeneration %}", "a1"),
        ("{{ nothing is defined }} {{ (nothing or 'no') | upper }}", "False NO"),
        ("{{ messages | map(attribute='role') | join(',') }}", "user"),
        ("{{ messages[0].content.split('<')[0].strip() }}", "Hello"),
        ("{{ '%02d' % 7 }} {{ 'a' * 3 }} {{ [1, 2] + [3] }}", "07 aaa [1, 2, 3]"),
        ("{% for k, v in {'a': 1}.items() %}{{ k }}{{ v }}{% endfor %}", "a1"),
        ("{{ strftime_now('%Y') | int > 2000 }}", "True"),
    ],
)
def test_what_templates_use(source: str, wanted: str) -> None:
    template = ChatTemplate(source, {"bos_token": "<s>"})
    assert template.render(HELLO, tools=[{"name": "é<"}]) == wanted


def test_a_template_can_refuse() -> None:
    with pytest.raises(TemplateError, match="refuses these messages: no system"):
        ChatTemplate("{{ raise_exception('no system') }}").render(HELLO)


HOSTILE = {
    "attributes": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "environment": "{{ self._TemplateReference__context.environment }}",
    "import": "{% import 'os' as os %}",
    "include": "{% include '/etc/passwd' %}",
    "change": "{% set _ = messages.append(1) %}",
    "wide": "{{ '{:>9999999999}'.format(1) }}",
    "wider": "{{ '{:>{}}'.format(1, 10 ** 10) }}",
    "loops": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "filtered loop": "{% for i in range(99999) if range(9999) | list | length < 0 %}{% endfor %}",
    "long range": "{% for i in range(10 ** 12) %}{% endfor %}",
    "recursion": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "branching": "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    "recursive loop": "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
    "product": "{{ 'a' * 10 ** 10 }}",
    "list product": "{{ ([0] * 10 ** 9) | length }}",
    "power": "{{ 9 ** 9 ** 9 }}",
    "squares": "{% set n = namespace(x=3) %}{% for i in range(99) %}{% set n.x = n.x * n.x %}{% endfor %}",
    "doubling": "{% set n = namespace(x='a') %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
    "adding": "{% set n = namespace(x='a') %}{% for i in range(60) %}{% set n.x = n.x + n.x %}{% endfor %}",
    "nesting": "{% set n = namespace(x=[]) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x }}",
    "nested json": "{% set n = namespace(x=[]) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}{% endfor %}"
    "{{ n.x | tojson | length }}",
    "comparing": "{% set n = namespace(x=[], y=[]) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}"
    "{% set n.y = [n.y, n.y] %}{% endfor %}{{ n.x == n.y }}",
    "captured": "{% set x %}{% for i in range(99999) %}" + "y" * 999 + "{% endfor %}{% endset %}",
    "captured value": "{% set a = 'y' * 99999 %}{% set x %}{% for i in range(99999) %}{{ a }}{% endfor %}{% endset %}",
    "padding": "{{ 'a' | center(10 ** 10) }}",
    "justify": "{{ 'a'.ljust(10 ** 10) }}",
    "zfill": "{{ 'a'.zfill(10 ** 10) }}",
    "width": "{{ '%9999999999d' % 1 }}",
    "star": "{{ '%*d' % (10 ** 9, 1) }}",
    "indent": "{% set a = ('a\n' * 9999) %}{{ a | indent(99999) }}",
    "batch": "{{ [1] | batch(10 ** 9, 0) | list }}",
    "replace": "{% set a = 'a' * 99999 %}{{ a.replace('a', a) | length }}",
    "replace filter": "{% set a = 'a' * 99999 %}{{ a | replace('a', a) | length }}",
    "join": "{% set a = 'a' * 99999 %}{{ a.join(range(99999) | map('string')) | length }}",
    "join filter": "{% set a = 'a' * 99999 %}{{ range(99999) | join(a) | length }}",
    "sum": "{{ ([[1]] * 99999) | sum(start=[]) | length }}",
    "generator": "{{ lipsum(n=10 ** 6) }}",
    "deep": "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
    "unfinished": "{% for x in y %}",
    "undefined": "{{ nothing.more }}",
    "zero": "{{ 1 / 0 }}",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_templates_end_with_an_error(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # The limits that do not depend on the clock must be enough.
    monkeypatch.setattr(template_sandbox, "SECONDS", 1e9)
    monkeypatch.setattr(template_sandbox, "MOST_STEPS", 20_000)
    monkeypatch.setattr(template_sandbox, "MOST_TEXT", 200_000)
    with pytest.raises(TemplateError):
        ChatTemplate(HOSTILE[name]).render(HELLO)


@pytest.mark.parametrize("source", ["{{ raise_exception.__globals__ }}", "{{ '{0.__class__}'.format(messages) }}"])
def test_what_is_not_for_templates_is_not_there(source: str) -> None:
    assert ChatTemplate(source).render(HELLO) == ""


def test_a_template_has_an_end_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(10**6))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))
    with pytest.raises(TemplateError, match="longer than 5 s"):
        ChatTemplate("{% for i in range(100) %}{% endfor %}").render(HELLO)


def test_messages_have_no_objects() -> None:
    with pytest.raises(TypeError, match="a message has a PosixPath"):
        ChatTemplate("").render([{"role": "user", "content": Path()}])


def test_the_template_of_a_model() -> None:
    more: dict[str, Any] = {
        "chat_template": "{{ eos_token }}", "chat_templates": ["rag"], "chat_template.rag": "{{ bos_token }}!",
    }  # fmt: skip
    tokenizer = gguf_tokenizer(byte_pair_metadata(**more))
    assert ChatTemplate.of(tokenizer).render(HELLO) == "<|im_end|>"
    assert ChatTemplate.of(tokenizer, "rag").render(HELLO) == "<|im_start|>!"
    with pytest.raises(TemplateError, match="no chat template 'default'"):
        ChatTemplate.of(gguf_tokenizer(byte_pair_metadata()))


def test_without_jinja_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(MissingPackageError, match=r"openrknn\[llm\]"):
        ChatTemplate("")
