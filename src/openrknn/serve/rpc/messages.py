"""The message classes."""

from __future__ import annotations

from functools import cache

from openrknn.protoschema import Schema

__all__ = ["health", "inference"]


@cache
def inference() -> Schema:
    """The inference protocol."""
    return Schema.read("openrknn.serve.rpc", "inference.proto")


@cache
def health() -> Schema:
    """grpc.health.v1."""
    return Schema.read("openrknn.serve.rpc", "health.proto")
