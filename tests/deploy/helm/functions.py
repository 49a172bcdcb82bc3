"""The functions of Helm's templates that the chart uses, with Go's strictness."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import yaml

from tests.deploy.helm.parse import TemplateError

__all__ = ["FUNCTIONS", "is_true", "shown"]

_EXPONENT = 1_000_000


def is_true(value: object) -> bool:
    """Go's idea of it: nothing that is empty."""
    return bool(value)


def shown(value: object) -> str:
    """As an action prints it. Helm's numbers are floating: from a million on Go prints them with an exponent."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        if abs(value) >= _EXPONENT:
            raise TemplateError(f"Go would print {value} with an exponent: use int")
        return f"{value:g}"
    if not isinstance(value, str):
        raise TemplateError(f"{value!r} is printed in Go's own words: use toYaml or toJson")
    return value


def _same_kind(first: object, *others: object) -> None:
    kinds = {"number" if isinstance(one, (int, float)) and not isinstance(one, bool) else type(one).__name__
             for one in (first, *others)}  # fmt: skip
    if len(kinds) > 1:
        raise TemplateError(f"Go does not compare {first!r} with {others!r}")


def _eq(first: object, *others: object) -> bool:
    _same_kind(first, *others)
    return first in others


def _gt(first: Any, second: Any) -> bool:
    _same_kind(first, second)
    return bool(first > second)


def _fail(text: str) -> str:
    raise TemplateError(text)


def _indent(count: int, text: str) -> str:
    return "\n".join(" " * count + line for line in text.split("\n"))


def _yaml(value: object) -> str:
    text = str(yaml.safe_dump(value, default_flow_style=False, sort_keys=True, width=10_000))
    return text.rstrip("\n").removesuffix("\n...")


def _printf(form: str, *values: object) -> str:
    if set(re.findall(r"%(.)", form)) - {"s", "d"}:
        raise TemplateError(f"printf {form!r}: only %s and %d are known here")
    return form.replace("%d", "%s") % tuple(map(shown, values))


def _quote(value: object) -> str:
    return json.dumps(shown(value), ensure_ascii=False)


def _merge(into: dict[str, object], *more: Mapping[str, object]) -> dict[str, object]:
    for one in more:
        for key, value in one.items():
            if isinstance(value, Mapping) and key in into:
                raise TemplateError("merge of nested maps is not known here")
            into.setdefault(key, value)
    return into


def _dict(*pairs: Any) -> dict[str, object]:
    return dict(zip(pairs[::2], pairs[1::2], strict=True))


def _semver(rule: str, version: str) -> bool:
    match = re.fullmatch(r">=(\d+)\.(\d+)\.(\d+)-0", rule)
    if match is None:
        raise TemplateError(f"semverCompare {rule!r}: only >=A.B.C-0 is known here")
    numbers = [int(one) for one in re.findall(r"\d+", version)[:3]]
    return numbers >= [int(one) for one in match.groups()]


def _default(otherwise: object, value: object = None) -> object:
    return value if is_true(value) else otherwise


def _ternary(yes: object, no: object, condition: object) -> object:
    if not isinstance(condition, bool):
        raise TemplateError(f"ternary wants a bool, not {condition!r}")
    return yes if condition else no


def _authority(name: str, days: int) -> dict[str, str]:
    return {"Cert": f"certificate of {name}, {days} days", "Key": f"key of {name}"}


def _signed(name: str, addresses: list[str], hosts: list[str], days: int, by: dict[str, str]) -> dict[str, str]:
    made = json.dumps({"name": name, "addresses": addresses, "hosts": hosts, "days": days, "by": by["Cert"]})
    return {"Cert": made, "Key": f"key of {name}"}


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": lambda *values: sum(values),
    "b64enc": lambda text: base64.b64encode(text.encode()).decode(),
    "contains": lambda part, text: part in text,
    "default": _default,
    "dict": _dict,
    "eq": _eq,
    "fail": _fail,
    "first": lambda values: values[0],
    "fromYamlArray": lambda text: list(yaml.safe_load(text)),
    "genCA": _authority,
    "genSignedCert": _signed,
    "gt": _gt,
    "hasPrefix": lambda start, text: text.startswith(start),
    "index": lambda values, key: values[key],
    "indent": _indent,
    "int": int,
    "list": lambda *values: list(values),
    "lt": lambda first, second: _gt(second, first),
    "merge": _merge,
    "ne": lambda first, second: not _eq(first, second),
    "nindent": lambda count, text: "\n" + _indent(count, text),
    "not": lambda value: not is_true(value),
    "omit": lambda values, *keys: {key: value for key, value in values.items() if key not in keys},
    "printf": _printf,
    "quote": _quote,
    "randAlphaNum": lambda count: "x" * count,
    "replace": lambda old, new, text: text.replace(old, new),
    "semverCompare": _semver,
    "ternary": _ternary,
    "toJson": lambda value: json.dumps(value, separators=(",", ":")),
    "toString": shown,
    "toYaml": _yaml,
    "trim": str.strip,
    "trimSuffix": lambda end, text: text.removesuffix(end),
    "trunc": lambda count, text: text[:count],
}
"""`and`, `or`, `include` and `lookup` are the renderer's own: they need more than their arguments."""
