"""An unmodified tritonclient over gRPC goes through a whole session."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import AsyncIterator, Iterator
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
import tritonclient.grpc.aio as triton_aio
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

from openrknn.serve.rpc.messages import health
from openrknn.serve.server import Server
from tests.serve.parts import FILES, Array, expected, random_inputs

WAIT_SECONDS = 60


@pytest.fixture
def client(server: Server) -> Iterator[Any]:
    made = triton.InferenceServerClient(server.grpc_address)
    yield made
    made.close()


def tensors(inputs: dict[str, Array]) -> list[Any]:
    made = []
    for name, array in inputs.items():
        tensor = triton.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
        tensor.set_data_from_numpy(array)
        made.append(tensor)
    return made


def test_health_and_metadata(client: Any) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("picture")
    assert not client.is_model_ready("nothing")
    assert client.get_server_metadata().name == "openrknn"
    metadata = client.get_model_metadata("two", as_json=True)
    assert metadata["inputs"][1] == {"name": "features", "datatype": "FP32", "shape": ["1", "8", "8", "16"]}
    assert client.get_model_config("pairs").config.max_batch_size == 2
    assert client.get_model_config("picture").config.input[0].data_type == 2  # TYPE_UINT8


@pytest.mark.parametrize("name", FILES)
def test_results_are_those_of_session_run_byte_for_byte(client: Any, name: str) -> None:
    inputs = random_inputs(name)
    answer = client.infer(name, tensors(inputs), request_id="eight")
    assert answer.get_response().id == "eight"
    for output, array in expected(name, inputs).items():
        got = answer.as_numpy(output)
        assert (got.dtype, got.shape) == (array.dtype, array.shape)
        assert got.tobytes() == array.tobytes()


def test_half_precision_and_stored_elements(client: Any) -> None:
    inputs = {name: array.astype(np.float16) for name, array in random_inputs("half").items()}
    answer = client.infer("half", tensors(inputs), parameters={"raw_outputs": True})
    for output, array in expected("half", inputs, outputs="raw").items():
        assert answer.as_numpy(output).tobytes() == array.tobytes()


def test_tensors_as_numbers_instead_of_bytes(client: Any, server: Server) -> None:
    from tritonclient.grpc import service_pb2, service_pb2_grpc

    inputs = random_inputs("two")
    request = service_pb2.ModelInferRequest(model_name="two")
    for name, datatype, field in (("picture", "UINT8", "uint_contents"), ("features", "FP32", "fp32_contents")):
        tensor = request.inputs.add(name=name, datatype=datatype, shape=inputs[name].shape)
        getattr(tensor.contents, field).extend(inputs[name].reshape(-1).tolist())
    with grpc.insecure_channel(server.grpc_address) as channel:
        answer = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(request)
    assert answer.raw_output_contents[0] == expected("two", inputs)["y"].tobytes()


def test_compressed_calls(client: Any) -> None:
    inputs = random_inputs("picture")
    answer = client.infer("picture", tensors(inputs), compression_algorithm="gzip")
    assert answer.as_numpy("features").tobytes() == expected("picture", inputs)["features"].tobytes()


def test_errors_have_codes_and_words(client: Any) -> None:
    inputs = random_inputs("picture")
    for match, name, given in (
        ("NOT_FOUND.*there is no model 'nothing'", "nothing", inputs),
        ("INVALID_ARGUMENT.*no input is called 'other'", "picture", {"other": inputs["image"]}),
        ("INVALID_ARGUMENT.*do not fit", "picture", {"image": inputs["image"][:, :8]}),
    ):
        with pytest.raises(InferenceServerException, match=match):
            client.infer(name, tensors(given))
    with pytest.raises(InferenceServerException, match="NOT_FOUND"):
        client.get_model_metadata("../../etc/passwd")


def test_statistics_and_repository(client: Any) -> None:
    client.infer("half", tensors(random_inputs("half")))
    stats = client.get_inference_statistics("half").model_stats[0]
    assert stats.inference_stats.success.count >= 1
    assert stats.inference_stats.compute_infer.ns > 0
    rows = {(row.name, row.version): row.state for row in client.get_model_repository_index().models}
    assert rows["many", "1"] == "READY"


def test_streams_answer_in_order_and_survive_errors(client: Any) -> None:
    answers: queue.SimpleQueue[tuple[Any, Any]] = queue.SimpleQueue()
    client.start_stream(callback=lambda result, error: answers.put((result, error)))
    many = [random_inputs("picture", seed) for seed in range(20)]
    for number, inputs in enumerate(many):
        client.async_stream_infer("picture", tensors(inputs), request_id=str(number))
    client.async_stream_infer("picture", tensors({"other": many[0]["image"]}))
    client.async_stream_infer("picture", tensors(many[0]), request_id="last")
    for number, inputs in enumerate(many):
        result, error = answers.get(timeout=WAIT_SECONDS)
        assert error is None
        assert result.get_response().id == str(number)
        assert result.as_numpy("features").tobytes() == expected("picture", inputs)["features"].tobytes()
    _, error = answers.get(timeout=WAIT_SECONDS)
    assert "no input is called 'other'" in str(error)
    result, error = answers.get(timeout=WAIT_SECONDS)
    assert result.get_response().id == "last"
    client.stop_stream()


def test_the_asynchronous_client(server: Server) -> None:
    inputs = random_inputs("picture")
    wanted = expected("picture", inputs)["features"].tobytes()

    async def requests() -> AsyncIterator[dict[str, Any]]:
        for number in range(4):
            yield {"model_name": "picture", "inputs": tensors(inputs), "request_id": str(number)}

    async def session() -> None:
        async with triton_aio.InferenceServerClient(server.grpc_address) as client:
            assert await client.is_server_ready()
            answers = await asyncio.gather(*(client.infer("picture", tensors(inputs)) for _ in range(8)))
            assert {answer.as_numpy("features").tobytes() for answer in answers} == {wanted}
            numbers = []
            async for result, error in client.stream_infer(requests()):
                assert error is None
                assert result.as_numpy("features").tobytes() == wanted
                numbers.append(result.get_response().id)
            assert numbers == ["0", "1", "2", "3"]

    asyncio.run(session())


def test_the_health_service_of_grpc(server: Server) -> None:
    request, answer = health().message("HealthCheckRequest"), health().message("HealthCheckResponse")
    coders = {"request_serializer": request.SerializeToString, "response_deserializer": answer.FromString}
    with grpc.insecure_channel(server.grpc_address) as channel:
        check = channel.unary_unary("/grpc.health.v1.Health/Check", **coders)
        watch = channel.unary_stream("/grpc.health.v1.Health/Watch", **coders)
        assert check(request()).status == 1
        assert check(request(service="inference.GRPCInferenceService")).status == 1
        assert check(request(service="picture")).status == 1
        with pytest.raises(grpc.RpcError) as caught:
            check(request(service="nothing"))
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        stream = watch(request())
        assert next(stream).status == 1
        stream.cancel()


def test_a_call_that_is_not_offered_says_so(server: Server) -> None:
    with grpc.insecure_channel(server.grpc_address) as channel, pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary("/inference.GRPCInferenceService/ModelForget")(b"")
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
