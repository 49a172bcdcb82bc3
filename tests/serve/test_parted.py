"""Models in parts behind the protocol: own types, open dimensions, a page, metrics.

Witness: an unmodified tritonclient, and `Session` on the same file.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from openrknn import Session
from openrknn.container.bundle import Bundle, write_bundle
from openrknn.errors import FormatError, UnsupportedError
from openrknn.serve.page.report import report
from openrknn.serve.plane.model_info import ModelInfo
from openrknn.serve.server import Server, running
from openrknn.serve.settings import IN_PROCESS, Settings
from tests.parted_file import feed, parted_bundle, parted_bytes
from tests.serve.asking import ask
from tests.serve.test_triton_grpc import tensors

pytest.importorskip("onnxruntime", reason="parts of the CPU run in ONNX Runtime")


def any_length() -> Bundle:
    """Open dimensions, whole numbers and truths; all of it on the CPU."""
    from onnx import TensorProto, helper

    from openrknn.partition import PartitionOptions
    from openrknn.partition.make import whole_bundle

    shape = ["batch", "length"]
    nodes = [
        helper.make_node("Not", ["keep"], ["drop"]),
        helper.make_node("Neg", ["ids"], ["less"]),
        helper.make_node("Where", ["keep", "ids", "less"], ["chosen"]),
    ]
    graph = helper.make_graph(
        nodes, "any",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, shape),
         helper.make_tensor_value_info("keep", TensorProto.BOOL, shape)],
        [helper.make_tensor_value_info("chosen", TensorProto.INT64, shape),
         helper.make_tensor_value_info("drop", TensorProto.BOOL, shape)],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return whole_bundle(model, PartitionOptions(cache=False))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("models")
    (folder / "parts.rknnz").write_bytes(parted_bytes())
    (folder / "any" / "3").mkdir(parents=True)
    (folder / "any" / "3" / "model.rknnz").write_bytes(write_bundle(any_length()))
    settings = Settings([folder], http_port=0, grpc_port=0, instances=2, describe=report)
    with running(settings) as started:
        assert started.plane.ready_problem() == ""
        yield started


def posted(server: Server, name: str, *inputs: tuple[str, str, Any]) -> Any:
    entries = [
        {"name": entry, "datatype": kind, "shape": list(np.shape(data)), "data": data} for entry, kind, data in inputs
    ]
    return ask(server, "POST", f"/v2/models/{name}/infer", json.dumps({"inputs": entries}))


def test_metadata_has_the_models_own_types(server: Server) -> None:
    words = ask(server, "GET", "/v2/models/parts").json
    assert words["platform"] == "rknnz_rk3588"
    assert words["inputs"] == [
        {"name": "image", "datatype": "FP32", "shape": [1, 16, 8, 8]},
        {"name": "number", "datatype": "INT64", "shape": [1]},
    ]
    assert [port["datatype"] for port in words["outputs"]] == ["FP32", "BOOL"]
    words = ask(server, "GET", "/v2/models/any").json
    assert words["versions"] == ["3"]
    assert words["inputs"][0] == {"name": "ids", "datatype": "INT64", "shape": [-1, -1]}


def test_both_protocols_give_what_the_session_gives(server: Server) -> None:
    with Session(parted_bytes()) as session:
        wanted = session.run(feed())
    client = triton.InferenceServerClient(server.grpc_address)
    try:
        answer = client.infer("parts", tensors(feed()))
        for name, array in wanted.items():
            got = answer.as_numpy(name)
            assert (got.dtype, got.tobytes()) == (array.dtype, array.tobytes())
        with pytest.raises(InferenceServerException, match="INT64; real numbers"):
            client.infer("parts", tensors({**feed(), "number": np.array([2.0], np.float32)}))
    finally:
        client.close()
    given = feed()
    rest = posted(server, "parts", ("image", "FP32", given["image"].tolist()), ("number", "INT64", [2]))
    assert rest.json["outputs"][1]["datatype"] == "BOOL"
    assert rest.json["outputs"][1]["data"] == wanted["mask"].reshape(-1).tolist()
    assert np.array_equal(np.array(rest.json["outputs"][0]["data"], np.float32), wanted["scores"].reshape(-1))


def test_open_dimensions_take_any_size(server: Server) -> None:
    for length in (1, 5):
        ids, keep = [list(range(length))] * 2, [[True] * length, [False] * length]
        answer = posted(server, "any", ("ids", "INT64", ids), ("keep", "BOOL", keep)).json["outputs"]
        assert answer[0]["shape"] == [2, length]
        assert answer[0]["data"] == [*range(length), *(-number for number in range(length))]
        assert answer[1]["data"] == [False] * length + [True] * length


def test_wrong_requests_are_answered_and_forgotten(server: Server) -> None:
    image = feed()["image"].tolist()
    for words, message in (
        ((("image", "FP32", image), ("number", "INT64", [99])), "cannot run on these inputs"),  # outside the table
        ((("image", "FP32", image), ("number", "INT64", [1, 2])), "does not fit [1]"),
        ((("image", "FP32", image[0]), ("number", "INT64", [1])), "does not fit [1, 16, 8, 8]"),
        ((("image", "FP32", image),), "'number' is missing"),
    ):
        answer = posted(server, "parts", *words)
        assert answer.status == 400
        assert message in answer.error
    wrong = posted(server, "any", ("ids", "INT64", [[1, 2]]), ("keep", "BOOL", [[True, True, True]]))
    assert wrong.status == 400
    assert ask(server, "POST", "/v2/models/parts/image", b"x").status == 400
    assert posted(server, "parts", ("image", "FP32", image), ("number", "INT64", [1])).status == 200
    served = server.plane.repository.find("parts", "")
    assert served.stats.restarts == 0


def test_the_page_and_the_metrics_know_it(server: Server) -> None:
    page = ask(server, "GET", "/v2/models/parts/inspect")
    assert page.status == 200
    assert b"Where it runs" in page.body
    entry = next(one for one in ask(server, "GET", "/status").json["models"] if one["name"] == "parts")
    assert (entry["in_parts"], entry["platform"], entry["takes_pictures"]) == (True, "rk3588 + CPU", False)
    metrics = ask(server, "GET", "/metrics").body.decode()
    assert 'openrknn_model_info{model="parts",platform="rknnz_rk3588",version="1"} 1.0' in metrics
    assert 'openrknn_requests_total{model="parts",outcome="OK"' in metrics


def test_one_file_in_the_servers_own_process(tmp_path: Path) -> None:
    (tmp_path / "one.rknnz").write_bytes(parted_bytes())
    settings = Settings([tmp_path / "one.rknnz"], http_port=0, grpc_port=0, instances=1, workers=IN_PROCESS)
    with running(settings) as started:
        image = feed()["image"].tolist()
        answer = posted(started, "one", ("image", "FP32", image), ("number", "INT64", [2]))
        assert answer.status == 200
        bad = posted(started, "one", ("image", "FP32", image), ("number", "INT64", [99]))
        assert (bad.status, "part on the CPU" in bad.error) == (400, True)


def test_cards() -> None:
    card = ModelInfo.of(parted_bundle(is_open=True))
    again = ModelInfo.from_json(json.loads(json.dumps(card.as_json())))
    assert again.signature.inputs[0].shape == (-1, 16, 8, 8)
    assert again.signature.is_parted
    assert again.signature.answer_elements == 2 * 16 * 64  # "rows" is 1 in the only plan
    assert ModelInfo.of(any_length()).signature.open_elements > 0
    with pytest.raises(FormatError):
        ModelInfo.from_json({**card.as_json(), "open_elements": -1})
    port = dataclasses.replace(parted_bundle().inputs[0], type="seq(tensor(float))")
    with pytest.raises(UnsupportedError, match="seq"):
        ModelInfo.of(dataclasses.replace(parted_bundle(), inputs=(port,)))
