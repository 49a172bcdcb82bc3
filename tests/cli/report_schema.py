"""The JSON Schema of `openrknn inspect --json`, made from the report's dataclasses, and a small validator for it.

Write docs/inspect.schema.json again with `python -m tests.cli.report_schema > docs/inspect.schema.json`.
"""

import ast
import dataclasses
import inspect
import itertools
import json
import types
import typing
from collections.abc import Mapping

from openrknn.analysis import reports as report
from openrknn.analysis.reports import SCHEMA_VERSION, ModelReport
from openrknn.backports import StrEnum

Schema = dict[str, object]
PLAIN: dict[type, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}


def schema() -> Schema:
    """The whole schema."""
    definitions: dict[str, Schema] = {}
    root = object_schema(ModelReport, definitions)
    typing.cast(dict[str, Schema], root["properties"])["schema_version"]["const"] = SCHEMA_VERSION
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "openrknn inspect --json",
        **root,
        "$defs": dict(sorted(definitions.items())),
    }


def object_schema(kind: type, definitions: dict[str, Schema]) -> Schema:
    """A dataclass as an object that has exactly its fields."""
    texts = field_texts(kind)
    hints = typing.get_type_hints(kind, vars(report))
    properties: dict[str, Schema] = {}
    for field in dataclasses.fields(kind):
        properties[field.name] = type_schema(hints[field.name], definitions)
        if field.name in texts:
            properties[field.name]["description"] = texts[field.name]
    return {
        "description": inspect.cleandoc(kind.__doc__ or ""),
        "type": "object",
        "additionalProperties": False,
        "required": list(properties),
        "properties": properties,
    }


def type_schema(hint: typing.Any, definitions: dict[str, Schema]) -> Schema:
    """A field's type."""
    arguments = typing.get_args(hint)
    origin = typing.get_origin(hint)
    if hint in PLAIN:
        return {"type": PLAIN[hint]}
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return {"enum": [str(member) for member in hint]}
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        if hint.__name__ not in definitions:
            definitions[hint.__name__] = {}
            definitions[hint.__name__] = object_schema(hint, definitions)
        return {"$ref": f"#/$defs/{hint.__name__}"}
    if origin is types.UnionType:
        return {
            "anyOf": [{"type": "null"} if part is type(None) else type_schema(part, definitions) for part in arguments]
        }
    if origin is tuple:
        return tuple_schema(arguments, definitions)
    assert origin is Mapping, hint
    return {"type": "object", "additionalProperties": type_schema(arguments[1], definitions)}


def tuple_schema(arguments: tuple[typing.Any, ...], definitions: dict[str, Schema]) -> Schema:
    # NaN and infinity become null in JSON, so a number in a list may be missing.
    items = {"type": ["number", "null"]} if arguments[0] is float else type_schema(arguments[0], definitions)
    if arguments[-1] is Ellipsis:
        return {"type": "array", "items": items}
    return {"type": "array", "items": items, "minItems": len(arguments), "maxItems": len(arguments)}


def field_texts(kind: type) -> dict[str, str]:
    """The strings below the fields of a class."""
    body = typing.cast(ast.ClassDef, ast.parse(inspect.getsource(kind)).body[0]).body
    texts = {}
    for field, text in itertools.pairwise(body):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
        ):
            texts[field.target.id] = inspect.cleandoc(str(text.value.value)).strip()
    return texts


TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
    "object": (dict,),
    "array": (list,),
}


def problems(value: typing.Any, node: typing.Any, root: typing.Any, where: str = "$") -> list[str]:
    """What in `value` does not fit the schema; only the words that `schema` uses are understood."""
    if "$ref" in node:
        return problems(value, root["$defs"][node["$ref"].rpartition("/")[2]], root, where)
    if "anyOf" in node:
        tried = [problems(value, choice, root, where) for choice in node["anyOf"]]
        return [] if any(not found for found in tried) else tried[-1]
    if "const" in node and value != node["const"]:
        return [f"{where} is {value!r}, not {node['const']!r}"]
    if "enum" in node:
        return [] if value in node["enum"] else [f"{where} is {value!r}, not one of {node['enum']}"]
    names = node["type"] if isinstance(node["type"], list) else [node["type"]]
    if not any(
        isinstance(value, TYPES[name]) and (name == "boolean" or (value is not True and value is not False))
        for name in names
    ):
        return [f"{where} is {value!r}, not {' or '.join(names)}"]
    return [*_in_object(value, node, root, where), *_in_array(value, node, root, where)]


def _in_object(value: typing.Any, node: typing.Any, root: typing.Any, where: str) -> list[str]:
    if not isinstance(value, dict):
        return []
    known = node.get("properties", {})
    found = [f"{where} lacks {name}" for name in node.get("required", ()) if name not in value]
    for name, item in value.items():
        child = known.get(name, node.get("additionalProperties", False))
        found += [f"{where}.{name} is unknown"] if child is False else problems(item, child, root, f"{where}.{name}")
    return found


def _in_array(value: typing.Any, node: typing.Any, root: typing.Any, where: str) -> list[str]:
    if not isinstance(value, list):
        return []
    short = len(value) < node.get("minItems", 0) or len(value) > node.get("maxItems", len(value))
    found = [f"{where} has {len(value)} items"] if short else []
    for number, item in enumerate(value):
        found += problems(item, node["items"], root, f"{where}[{number}]")
    return found


if __name__ == "__main__":
    print(json.dumps(schema(), indent=2, ensure_ascii=False))
