"""An unmodified tritonclient over HTTP goes through a whole session."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tritonclient.http as triton
import tritonclient.http.aio as triton_aio
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

from openrknn.serve.server import Server
from tests.serve.parts import FILES, Array, expected, random_inputs


@pytest.fixture
def client(server: Server) -> Iterator[Any]:
    made = triton.InferenceServerClient(server.url.removeprefix("http://"), concurrency=4)
    yield made
    made.close()


def tensors(module: Any, inputs: dict[str, Array], *, binary: bool) -> list[Any]:
    made = []
    for name, array in inputs.items():
        tensor = module.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
        tensor.set_data_from_numpy(array, binary_data=binary)
        made.append(tensor)
    return made


def test_health_and_metadata(client: Any) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("picture")
    assert client.is_model_ready("many", "10")
    assert not client.is_model_ready("many", "2")
    assert not client.is_model_ready("nothing")
    assert client.get_server_metadata()["name"] == "openrknn"
    assert "binary_tensor_data" in client.get_server_metadata()["extensions"]
    assert client.get_model_metadata("two") == {
        "name": "two",
        "versions": ["1"],
        "platform": "rknn_rk3588",
        "inputs": [
            {"name": "picture", "datatype": "UINT8", "shape": [1, 8, 8, 3]},
            {"name": "features", "datatype": "FP32", "shape": [1, 8, 8, 16]},
        ],
        "outputs": [{"name": "y", "datatype": "FP32", "shape": [1, 16, 8, 8]}],
    }
    assert client.get_model_metadata("many")["versions"] == ["1", "10"]
    assert client.get_model_metadata("dynamic")["inputs"][0]["shape"] == [1, -1, -1, 3]
    config = client.get_model_config("pairs")
    assert config["max_batch_size"] == 2
    assert config["input"][0]["dims"] == [16, 16, 3]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("binary", [True, False], ids=["binary", "json"])
def test_results_are_those_of_session_run_byte_for_byte(client: Any, name: str, binary: bool) -> None:
    inputs = random_inputs(name)
    wanted = expected(name, inputs)
    outputs = [triton.InferRequestedOutput(output, binary_data=binary) for output in wanted]
    answer = client.infer(name, tensors(triton, inputs, binary=binary), outputs=outputs, request_id="seven")
    assert answer.get_response()["id"] == "seven"
    for output, array in wanted.items():
        got = answer.as_numpy(output)
        assert (got.dtype, got.shape) == (array.dtype, array.shape)
        assert got.tobytes() == array.tobytes()


def test_half_precision_and_stored_elements(client: Any) -> None:
    inputs = {name: array.astype(np.float16) for name, array in random_inputs("half").items()}
    wanted = expected("half", inputs, outputs="raw")
    answer = client.infer("half", tensors(triton, inputs, binary=True), parameters={"raw_outputs": True})
    for output, array in wanted.items():
        assert array.dtype == np.float16
        assert answer.as_numpy(output).tobytes() == array.tobytes()


@pytest.mark.parametrize("algorithm", ["gzip", "deflate"])
def test_compressed_requests_and_answers(client: Any, algorithm: str) -> None:
    inputs = random_inputs("picture")
    answer = client.infer(
        "picture",
        tensors(triton, inputs, binary=True),
        request_compression_algorithm=algorithm,
        response_compression_algorithm=algorithm,
    )
    assert answer.as_numpy("features").tobytes() == expected("picture", inputs)["features"].tobytes()


def test_a_batch_may_be_smaller_and_is_joined_with_others(client: Any) -> None:
    inputs = random_inputs("pairs")
    wanted = expected("pairs", inputs)["features"]
    pending = [
        client.async_infer("pairs", tensors(triton, {"image": inputs["image"][row : row + 1]}, binary=True))
        for row in (0, 1, 0, 1)
    ]
    for number, one in enumerate(pending):
        row = number % 2
        assert one.get_result().as_numpy("features").tobytes() == wanted[row : row + 1].tobytes()


def test_versions(client: Any) -> None:
    inputs = random_inputs("picture")
    assert client.infer("many", tensors(triton, inputs, binary=True)).get_response()["model_version"] == "10"
    old = client.infer("many", tensors(triton, inputs, binary=True), model_version="1")
    assert old.get_response()["model_version"] == "1"


def test_dynamic_shapes_follow_the_request(client: Any) -> None:
    from openrknn.container.load import load
    from openrknn.runtime.shapes import allowed_shapes

    rng = np.random.default_rng(1)
    for shapes in allowed_shapes(load(FILES["dynamic"])):
        inputs = {name: rng.integers(0, 256, shape, np.uint8) for name, shape in shapes.items()}
        answer = client.infer("dynamic", tensors(triton, inputs, binary=True))
        for output, array in expected("dynamic", inputs).items():
            assert answer.as_numpy(output).tobytes() == array.tobytes()


def test_errors_have_words(client: Any) -> None:
    inputs = random_inputs("picture")
    with pytest.raises(InferenceServerException, match="there is no model 'nothing'"):
        client.infer("nothing", tensors(triton, inputs, binary=True))
    with pytest.raises(InferenceServerException, match="has no version '7'"):
        client.infer("many", tensors(triton, inputs, binary=True), model_version="7")
    with pytest.raises(InferenceServerException, match="no input is called 'other'"):
        client.infer("picture", tensors(triton, {"other": inputs["image"]}, binary=True))
    with pytest.raises(InferenceServerException, match="do not fit"):
        client.infer("picture", tensors(triton, {"image": inputs["image"][:, :8]}, binary=True))
    with pytest.raises(InferenceServerException, match="no output is called"):
        client.infer(
            "picture", tensors(triton, inputs, binary=True), outputs=[triton.InferRequestedOutput("other")]
        )
    with pytest.raises(InferenceServerException, match="NaN"):
        client.infer("picture", tensors(triton, {"image": np.full((1, 16, 16, 3), np.nan, np.float32)}, binary=True))


def test_statistics_count(client: Any) -> None:
    before = client.get_inference_statistics("argmax")["model_stats"][0]["inference_stats"]["success"]["count"]
    inputs = random_inputs("argmax")
    client.infer("argmax", tensors(triton, inputs, binary=True))
    after = client.get_inference_statistics("argmax", "1")["model_stats"][0]
    assert after["inference_stats"]["success"]["count"] == before + 1
    assert after["inference_stats"]["compute_infer"]["ns"] > 0
    assert after["batch_stats"][0]["batch_size"] == 1
    assert len(client.get_inference_statistics()["model_stats"]) >= len(FILES)


def test_the_repository_is_listed(client: Any) -> None:
    rows = {(row["name"], row["version"]): row["state"] for row in client.get_model_repository_index()}
    assert rows["many", "10"] == "READY"
    assert rows["many", "2"] == "UNAVAILABLE"


def test_the_asynchronous_client(server: Server) -> None:
    inputs = random_inputs("picture")
    wanted = expected("picture", inputs)["features"].tobytes()

    async def session() -> None:
        async with triton_aio.InferenceServerClient(server.url.removeprefix("http://")) as client:
            assert await client.is_server_ready()
            assert (await client.get_model_metadata("picture"))["name"] == "picture"
            answers = await asyncio.gather(
                *(client.infer("picture", tensors(triton_aio, inputs, binary=number % 2 == 0)) for number in range(8))
            )
            assert {answer.as_numpy("features").tobytes() for answer in answers} == {wanted}
            with pytest.raises(InferenceServerException, match="there is no model"):
                await client.get_model_metadata("nothing")

    asyncio.run(session())


def test_json_as_people_write_it(server: Server) -> None:
    import urllib.request

    inputs = random_inputs("two")
    body = {
        "id": "by hand",
        "inputs": [
            {"name": "picture", "shape": [1, 8, 8, 3], "datatype": "UINT8", "data": inputs["picture"].tolist()},
            {
                "name": "features",
                "shape": [1, 8, 8, 16],
                "datatype": "FP32",
                "data": inputs["features"].reshape(-1).tolist(),
            },
        ],
    }
    request = urllib.request.Request(f"{server.url}/v2/models/two/infer", json.dumps(body).encode())
    with urllib.request.urlopen(request) as answer:
        words = json.load(answer)
    assert words["id"] == "by hand"
    got = np.array(words["outputs"][0]["data"], np.float32)
    assert got.tobytes() == expected("two", inputs)["y"].tobytes()
