"""Our .proto files: read at run time, and number by number what clients have."""

from __future__ import annotations

from typing import Any

import pytest
from tritonclient.grpc import model_config_pb2, service_pb2

from openrknn.protoschema import Schema
from openrknn.serve.rpc.messages import health, inference


def fields(message: Any) -> dict[str, tuple[int, int, bool, str]]:
    """Name -> number, type, repeated, oneof."""
    return {
        field.name: (
            field.number,
            field.type,
            field.is_repeated,
            field.containing_oneof.name if field.containing_oneof else "",
        )
        for field in message.fields
    }


def compare(ours: Any, theirs: Any, seen: list[str]) -> None:
    """Every field that we have is theirs."""
    there = fields(theirs)
    for name, mine in fields(ours).items():
        assert there[name] == mine, f"{ours.full_name}.{name}"
        seen.append(name)
    for nested in ours.nested_types:
        compare(nested, theirs.nested_types_by_name[nested.name], seen)
    for enum in ours.enum_types:
        numbers = {value.name: value.number for value in theirs.enum_types_by_name[enum.name].values}
        assert all(numbers[value.name] == value.number for value in enum.values)


def test_every_field_has_the_number_that_triton_has() -> None:
    seen: list[str] = []
    theirs = {**service_pb2.DESCRIPTOR.message_types_by_name, **model_config_pb2.DESCRIPTOR.message_types_by_name}
    file = inference().message("ServerLiveRequest").DESCRIPTOR.file
    for name, message in file.message_types_by_name.items():
        compare(message, theirs[name], seen)
    assert len(seen) > 100


def test_every_call_is_theirs() -> None:
    theirs = service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"].methods_by_name
    for method in inference().methods("GRPCInferenceService"):
        assert method.request.DESCRIPTOR.full_name == theirs[method.name].input_type.full_name
        assert method.response.DESCRIPTOR.full_name == theirs[method.name].output_type.full_name
        assert method.streams_requests == theirs[method.name].client_streaming
        assert method.streams_responses == theirs[method.name].server_streaming


def test_bytes_are_the_same() -> None:
    words = {"model_name": "m", "id": "7", "raw_input_contents": [b"abc"]}
    mine, other = inference().message("ModelInferRequest")(**words), service_pb2.ModelInferRequest(**words)
    for message in (mine, other):
        message.parameters["timeout"].int64_param = 5
        message.inputs.add(name="x", datatype="FP32", shape=[1, 2])
    assert mine.SerializeToString(deterministic=True) == other.SerializeToString(deterministic=True)


def test_health_has_its_own_pool() -> None:
    assert health().message("HealthCheckResponse")(status=1).SerializeToString() == b"\x08\x01"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('syntax = "proto2";', "proto3"),
        ("message A { B b = 1; }", "no type 'B'"),
        ("extend A {}", "'extend' is not understood"),
        ("message A { string s = 1 }", "';' is missing"),
    ],
)
def test_what_the_reader_does_not_know_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Schema(text, "test.proto")
