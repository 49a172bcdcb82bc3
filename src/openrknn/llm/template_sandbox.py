"""Jinja2 for templates that strangers wrote: no way to Python's objects, and a limit for steps, text and time.

Jinja's own sandbox keeps templates from attributes and from changing values. It does not keep them from loops of 10^10
rounds or from texts of gigabytes. So the template's syntax tree is rewritten before it is compiled: each round of a
loop and each call of a macro counts, and each value that is written, joined or compared is measured first.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, ItemsView, Iterator, KeysView, Sized, ValuesView
from typing import Any

from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from openrknn.llm.errors import TemplateError

MOST_STEPS = 1_000_000
MOST_TEXT = 8 << 20
SECONDS = 5.0
_LARGEST_NUMBER = 100_000
_MOST_BITS = 1024
_REMOVED_FILTERS = ("pprint", "random", "urlize", "xmlattr", "filesizeformat", "wordwrap", "format", "striptags")
_REMOVED_GLOBALS = ("lipsum", "cycler", "joiner")
_SAFE_METHODS: dict[type, frozenset[str]] = {
    str: frozenset((
        "capitalize", "casefold", "count", "endswith", "find", "index", "isalnum", "isalpha", "isascii", "isdecimal",
        "isdigit", "islower", "isnumeric", "isspace", "istitle", "isupper", "join", "lower", "lstrip", "partition",
        "removeprefix", "removesuffix", "replace", "rfind", "rindex", "rpartition", "rsplit", "rstrip", "split",
        "splitlines", "startswith", "strip", "swapcase", "title", "upper",
    )),
    dict: frozenset(("get", "items", "keys", "values", "copy")),
    list: frozenset(("count", "index", "copy")),
    tuple: frozenset(("count", "index")),
}  # fmt: skip
_JINJA_OWN = ("_loop_vars", "_block_vars")
"""Arguments that Jinja adds to each call."""
_WIDE_BRACES = re.compile(r":[^}]*(\d{3,}|\{)")
_WIDE_FORMAT = re.compile(r"%[^a-zA-Z%]*(\d{3,}|\*)")


class Budget:
    """What one rendering may still use."""

    def __init__(self) -> None:
        self.steps, self.text, self.until = MOST_STEPS, MOST_TEXT, time.monotonic() + SECONDS

    def step(self, count: int = 1) -> None:
        self.steps -= count
        if self.steps < 0:
            raise TemplateError(f"the chat template takes more than {MOST_STEPS} steps")
        if time.monotonic() > self.until:
            raise TemplateError(f"the chat template takes longer than {SECONDS:g} s")

    def write(self, size: int) -> None:
        self.text -= size
        if self.text < 0:
            raise TemplateError(f"the chat template writes more than {MOST_TEXT} characters")

    def measure(self, *values: Any) -> int:
        """Characters that these would have if they were written out, at least; too many are an error.

        A value may hold another one many times: what counts is how often it would be walked through.
        """
        size, walked, waiting = 0, 0, list(values)
        while waiting:
            value = waiting.pop()
            if isinstance(value, str):
                size += len(value)
            elif isinstance(value, dict):
                waiting += [*value.keys(), *value.values()]
            elif isinstance(value, list | tuple):
                waiting += value
            size += 1
            walked += 1
            if size > MOST_TEXT or len(waiting) > MOST_TEXT:
                raise TemplateError(f"the chat template makes a value of more than {MOST_TEXT} characters")
        self.step(1 + (walked >> 4))
        return size


class _Generation(Extension):
    """`{% generation %}` marks what a model is trained on; for a prompt it says nothing."""

    tags = {"generation"}  # noqa: RUF012 -- Jinja declares it so

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class BoundedEnvironment(ImmutableSandboxedEnvironment):
    """One for each template: `budget` is that of the rendering that runs."""

    intercepted_binops = frozenset(("+", "*", "**", "%"))

    def __init__(self) -> None:
        # The optimiser computes constants while it compiles, before anything is counted.
        super().__init__(trim_blocks=True, lstrip_blocks=True, optimized=False, extensions=[loopcontrols, _Generation])
        self.budget = Budget()
        for name in _REMOVED_FILTERS:
            self.filters.pop(name, None)
        for name in _REMOVED_GLOBALS:
            self.globals.pop(name, None)
        for table in (self.filters, self.tests):
            for name, function in list(table.items()):
                table[name] = self._guarded(name, function)

    def _generate(self, source: nodes.Template, *args: Any, **more: Any) -> str:
        return super()._generate(_Counting().visit(source), *args, **more)

    # ------------------------------------------------ what the rewritten template calls

    def bounded_step(self, text: int) -> str:
        """At the start of each round of a loop and of each macro, with the length of the text in it."""
        self.budget.step()
        self.budget.write(text)
        return ""

    def bounded_write(self, value: Any) -> Any:
        """Around each value that is written."""
        self.budget.write(self.budget.measure(value))
        return value

    def bounded_value(self, value: Any) -> Any:
        """Around each value that is joined or compared."""
        self.budget.measure(value)
        return value

    # ------------------------------------------------ what Jinja calls

    def call(self, context: Any, obj: Any, *args: Any, **kwargs: Any) -> Any:
        own: Any = getattr(obj, "__self__", None)
        if own is self:
            return obj(*args)
        self.budget.step()
        given = {key: value for key, value in kwargs.items() if key not in _JINJA_OWN}
        self.budget.measure(own, args, given)
        for kind, names in _SAFE_METHODS.items():
            if isinstance(own, kind) and obj.__name__ not in names:
                raise TemplateError(f"the chat template calls {kind.__name__}.{obj.__name__}, which templates may not")
        if isinstance(own, str) and obj.__name__ in ("replace", "join"):
            args = tuple(map(_listed, args))
            _check_growth(obj.__name__, own, args)
        result = super().call(context, obj, *args, **kwargs)
        self.budget.measure(result)
        return result

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        wrapped = super().wrap_str_format(value)
        if wrapped is not None and _WIDE_BRACES.search(value.__self__):
            raise TemplateError("the chat template formats texts with a width of hundreds")
        return wrapped

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        self.budget.step()
        size = self.budget.measure(left, right)
        if operator == "**" and (abs(left) > 10_000 or abs(right) > 64):
            raise TemplateError(f"the chat template computes {left} ** {right}")
        if operator == "%" and isinstance(left, str) and _WIDE_FORMAT.search(left):
            raise TemplateError("the chat template formats numbers with hundreds of digits")
        if operator == "*":
            times = [value for value in (left, right) if isinstance(value, int)]
            if len(times) == 2 and sum(value.bit_length() for value in times) > _MOST_BITS:
                raise TemplateError(f"the chat template computes numbers of more than {_MOST_BITS} bits")
            if len(times) == 1 and not isinstance(left, float) and not isinstance(right, float):
                self.budget.write(size * max(times[0], 0))
        return super().call_binop(context, operator, left, right)

    def _guarded(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        passes = getattr(function, "jinja_pass_arg", None)

        def guarded(*args: Any, **kwargs: Any) -> Any:
            own, given = args[: passes is not None], tuple(map(_listed, args[passes is not None :]))
            self.budget.step()
            size = self.budget.measure(*given, *kwargs.values())
            numbers = [value for value in (*given[1:], *kwargs.values()) if isinstance(value, int)]
            if name != "default" and any(abs(number) > _LARGEST_NUMBER for number in numbers):
                raise TemplateError(f"the chat template asks the filter {name} for {max(map(abs, numbers))}")
            if name in ("indent", "center", "batch", "slice", "tojson"):
                self.budget.write(size * max((abs(number) for number in numbers), default=0))
            if name == "replace" and len(given) > 1:
                _check_growth(name, str(given[0]), (given[1], *given[2:], *kwargs.values()))
            if name == "join" and given:
                _check_growth(name, str(given[1] if len(given) > 1 else kwargs.get("d", "")), given[:1])
            if name == "sum" and any(isinstance(item, list | tuple | str) for item in given[0]):
                raise TemplateError("the chat template adds up what are no numbers")
            result = _listed(function(*own, *given, **kwargs))
            self.budget.measure(result)
            return result

        if passes is not None:
            guarded.jinja_pass_arg = passes  # type: ignore[attr-defined]
        return guarded


def _listed(value: Any) -> Any:
    """What can only be walked through, as a list: its length is known before something is made of it."""
    # Not all that has __iter__: an undefined value has it as well.
    return list(value) if isinstance(value, Iterator | KeysView | ValuesView | ItemsView | range | set) else value


def _check_growth(name: str, text: str, args: tuple[Any, ...]) -> None:
    """`replace` and `join` can square the length of a text: refused before it is made."""
    longer = 0
    if name == "join" and args and isinstance(args[0], Sized):
        longer = len(text) * len(args[0])
    elif name == "replace" and len(args) > 1:
        longer = (text.count(str(args[0])) + 1) * len(str(args[1]))
    if longer > MOST_TEXT:
        raise TemplateError(f"the chat template makes a text of more than {MOST_TEXT} characters")


class _Counting(NodeTransformer):
    """Puts the counting into a template."""

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802
        node.body = [_step(node.body), *self._all(node.body)]
        if node.test is not None:
            node.test = _wrapped("bounded_value", node.test)
        return self._rest(node)

    def visit_Macro(self, node: nodes.Macro) -> nodes.Node:  # noqa: N802
        node.body = [_step(node.body), *self._all(node.body)]
        return self._rest(node)

    def visit_CallBlock(self, node: nodes.CallBlock) -> nodes.Node:  # noqa: N802
        node.body = [_step(node.body), *self._all(node.body)]
        return self._rest(node)

    def visit_Output(self, node: nodes.Output) -> nodes.Node:  # noqa: N802
        node.nodes = [
            child if isinstance(child, nodes.TemplateData) else _wrapped("bounded_write", self.visit(child))
            for child in node.nodes
        ]
        return node

    def visit_Concat(self, node: nodes.Concat) -> Any:  # noqa: N802
        node.nodes = [_wrapped("bounded_value", self.visit(child)) for child in node.nodes]
        return _wrapped("bounded_value", node)

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:  # noqa: N802
        node.expr = _wrapped("bounded_value", self.visit(node.expr))
        for operand in node.ops:
            operand.expr = _wrapped("bounded_value", self.visit(operand.expr))
        return node

    def _all(self, body: list[nodes.Node]) -> list[nodes.Node]:
        return [self.visit(child) for child in body]

    def _rest(self, node: nodes.Node) -> nodes.Node:
        """What is beside the body."""
        for name, value in node.iter_fields(exclude=("body",)):
            if isinstance(value, nodes.Node):
                setattr(node, name, self.visit(value))
            elif isinstance(value, list):
                setattr(node, name, [self.visit(item) if isinstance(item, nodes.Node) else item for item in value])
        return node


def _call(name: str, argument: nodes.Expr) -> nodes.Call:
    # An attribute of the environment is no name that a template could set.
    return nodes.Call(nodes.EnvironmentAttribute(name), [argument], [], None, None)


def _wrapped(name: str, value: nodes.Node) -> Any:
    return _call(name, value).set_lineno(value.lineno)  # type: ignore[arg-type]


def _step(body: list[nodes.Node]) -> Any:
    size = sum(len(data.data) for part in body for data in part.find_all(nodes.TemplateData))
    return nodes.Output([_call("bounded_step", nodes.Const(size))]).set_lineno(body[0].lineno if body else 1)
