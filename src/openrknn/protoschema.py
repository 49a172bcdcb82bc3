"""Reads a .proto file at run time: the part of proto3 that our own files use.

    message, enum (both may be nested), oneof, map, repeated, optional, comments; services with rpc and stream

Why not generated code: files that protoc writes are tied to one version of protobuf and need a build step. The
descriptors are in a pool of their own, because another library of the process may have the official files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_TOKEN = re.compile(r'//[^\n]*|"[^"]*"|[A-Za-z_][\w.]*|\d+|[{}()<>=;,]|\S')
_SCALARS = {
    "double": 1, "float": 2, "int64": 3, "uint64": 4, "int32": 5, "bool": 8, "string": 9, "bytes": 12, "uint32": 13,
}  # fmt: skip
_MESSAGE, _ENUM = 11, 14
_OPTIONAL, _REPEATED = 1, 3


@dataclass(frozen=True, slots=True)
class Method:
    """One call of a service."""

    name: str
    request: Any
    response: Any
    """Message classes."""
    streams_requests: bool
    streams_responses: bool


class Schema:
    """The messages and services of one file, in a pool of their own."""

    def __init__(self, text: str, name: str) -> None:
        self._tokens: list[str] = [token for token in _TOKEN.findall(text) if not token.startswith("//")]
        self._at = 0
        self._file = descriptor_pb2.FileDescriptorProto(name=name, syntax="proto3")
        self._services: dict[str, list[tuple[str, str, str, bool, bool]]] = {}
        self._kinds: dict[str, int] = {}
        """Full name of a message or enum -> its number among field types."""
        while self._at < len(self._tokens):
            self._statement()
        self._resolve(self._file.message_type, f".{self._file.package}")
        self._pool = descriptor_pool.DescriptorPool()
        self._pool.Add(self._file)

    @classmethod
    def read(cls, package: str, file: str) -> Schema:
        """A file beside the modules of a Python package."""
        return cls(resources.files(package).joinpath(file).read_text("utf-8"), f"openrknn/{file}")

    @property
    def names(self) -> list[str]:
        """Of the messages that are not nested."""
        return [message.name for message in self._file.message_type]

    def message(self, name: str) -> Any:
        """The class of a message."""
        return message_factory.GetMessageClass(self._pool.FindMessageTypeByName(f"{self._file.package}.{name}"))

    def methods(self, service: str) -> list[Method]:
        """The calls of a service."""
        return [
            Method(name, self.message(request), self.message(response), streams_in, streams_out)
            for name, request, response, streams_in, streams_out in self._services[service]
        ]

    # -- reading -------------------------------------------------------------------------------------------------

    def _next(self, wanted: str | None = None) -> str:
        token = self._tokens[self._at] if self._at < len(self._tokens) else "the end"
        if wanted is not None and token != wanted:
            raise ValueError(f"{self._file.name}: {wanted!r} is missing before {token!r}")
        self._at += 1
        return token

    def _peek(self) -> str:
        return self._tokens[self._at]

    def _statement(self) -> None:
        word = self._next()
        if word == "syntax":
            self._next("=")
            self._next('"proto3"')
            self._next(";")
        elif word == "package":
            self._file.package = self._next()
            self._next(";")
        elif word == "message":
            self._message(self._file.message_type.add(), f".{self._file.package}")
        elif word == "enum":
            self._enum(self._file.enum_type.add(), f".{self._file.package}")
        elif word == "service":
            self._service()
        else:
            raise ValueError(f"{self._file.name}: {word!r} is not understood")

    def _block(self) -> Iterator[str]:
        """The statements of a block, by their first words."""
        self._next("{")
        while self._peek() != "}":
            yield self._next()
        self._next("}")

    def _message(self, made: Any, scope: str) -> None:
        made.name = self._next()
        full = f"{scope}.{made.name}"
        self._kinds[full] = _MESSAGE
        for word in self._block():
            if word == "message":
                self._message(made.nested_type.add(), full)
            elif word == "enum":
                self._enum(made.enum_type.add(), full)
            elif word == "oneof":
                made.oneof_decl.add(name=self._next())
                for kind in self._block():
                    self._field(made, kind, full, oneof=len(made.oneof_decl) - 1)
            else:
                self._field(made, word, full)

    def _field(self, made: Any, word: str, scope: str, oneof: int | None = None) -> None:
        field, is_optional = made.field.add(label=_OPTIONAL), False
        if word == "map":
            self._map(made, field, scope)
        else:
            if word == "repeated":
                field.label, word = _REPEATED, self._next()
            elif word == "optional":
                word, is_optional = self._next(), True
            field.type_name = word
            field.name = self._next()
        if is_optional:  # as protoc does it: a oneof of one field
            field.proto3_optional, oneof = True, len(made.oneof_decl)
            made.oneof_decl.add(name=f"_{field.name}")
        if oneof is not None:
            field.oneof_index = oneof
        self._next("=")
        field.number = int(self._next())
        self._next(";")

    def _map(self, made: Any, field: Any, scope: str) -> None:
        """A map is a list of entries with a key and a value."""
        self._next("<")
        key = self._next()
        self._next(",")
        value = self._next()
        self._next(">")
        field.name, field.label = self._next(), _REPEATED
        name = "".join(part.capitalize() for part in field.name.split("_")) + "Entry"
        entry = made.nested_type.add(name=name)
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, label=_OPTIONAL, type_name=key)
        entry.field.add(name="value", number=2, label=_OPTIONAL, type_name=value)
        self._kinds[f"{scope}.{name}"] = _MESSAGE
        field.type_name = name

    def _enum(self, made: Any, scope: str) -> None:
        made.name = self._next()
        self._kinds[f"{scope}.{made.name}"] = _ENUM
        for word in self._block():
            self._next("=")
            made.value.add(name=word, number=int(self._next()))
            self._next(";")

    def _service(self) -> None:
        calls = self._services[self._next()] = []
        for _ in self._block():
            name = self._next()
            streams_in, request = self._argument()
            self._next("returns")
            streams_out, response = self._argument()
            self._next(";")
            calls.append((name, request, response, streams_in, streams_out))

    def _argument(self) -> tuple[bool, str]:
        self._next("(")
        word = self._next()
        is_stream = word == "stream"
        name = self._next() if is_stream else word
        self._next(")")
        return is_stream, name

    def _resolve(self, messages: Any, scope: str) -> None:
        """Names of types become numbers or full names: the innermost scope that has the name wins."""
        for message in messages:
            inner = f"{scope}.{message.name}"
            for field in message.field:
                if field.type_name in _SCALARS:
                    field.type = _SCALARS[field.type_name]
                    field.ClearField("type_name")
                else:
                    field.type_name = self._full(field.type_name, inner)
                    field.type = self._kinds[field.type_name]
            self._resolve(message.nested_type, inner)

    def _full(self, name: str, scope: str) -> str:
        while scope:
            if f"{scope}.{name}" in self._kinds:
                return f"{scope}.{name}"
            scope = scope.rpartition(".")[0]
        raise ValueError(f"{self._file.name}: there is no type {name!r}")
