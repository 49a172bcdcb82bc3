"""/v1/vision as Frigate's detector of the type deepstack asks it. The model always sees one object."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator

import numpy as np
import pytest
from PIL import Image

import openrknn
from openrknn.serve.server import Server, running
from openrknn.serve.settings import Settings
from tests.serve.asking import Answer, ask

SIDE = 32
CAT = 15
"""Its number in COCO."""


def detector() -> bytes:
    """A YOLOX whose outputs do not depend on the image: a cat from (8, 8) to (24, 24), at the largest stride."""
    from onnx import TensorProto, helper, numpy_helper

    nodes, constants, outputs = [], [], []
    for stride in (8, 16, 32):
        numbers = np.full(85, -10, np.float32)
        if stride == SIDE:
            numbers[:5], numbers[5 + CAT] = (0.5, 0.5, math.log(0.5), math.log(0.5), 4), 4
        weights = np.zeros((85, 3, stride, stride), np.float32)
        constants += [numpy_helper.from_array(weights, f"w{stride}"), numpy_helper.from_array(numbers, f"b{stride}")]
        nodes.append(helper.make_node("Conv", ["image", f"w{stride}", f"b{stride}"], [f"o{stride}"],
                                      strides=[stride, stride], kernel_shape=[stride, stride]))  # fmt: skip
        shape = [1, 85, SIDE // stride, SIDE // stride]
        outputs.append(helper.make_tensor_value_info(f"o{stride}", TensorProto.FLOAT, shape))
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, SIDE, SIDE])
    graph = helper.make_graph(nodes, "net", [image], outputs, constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    return bytes(made.SerializeToString())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    path = tmp_path_factory.mktemp("models") / "watch.rknn"
    openrknn.save(openrknn.compile(detector(), fp16=True, check=False, std=(1.0, 1.0, 1.0)), path)
    settings = Settings([path], http_port=0, grpc_port=None, workers="in-process")
    with running(settings) as started:
        yield started


def send(server: Server, path: str, **fields: bytes) -> Answer:
    """A form as requests writes it: every field is a file or a text."""
    mark = b"a-boundary"
    body = b"".join(
        b'--%s\r\nContent-Disposition: form-data; name="%s"; filename="%s"\r\n\r\n%s\r\n'
        % (mark, name.encode(), name.encode(), content)
        for name, content in fields.items()
    )
    return ask(server, "POST", path, body + b"--" + mark + b"--\r\n",
               {"Content-Type": f"multipart/form-data; boundary={mark.decode()}"})  # fmt: skip


def photo() -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (2 * SIDE, SIDE), (90, 120, 60)).save(stream, "JPEG")
    return stream.getvalue()


@pytest.mark.parametrize("path", ["/v1/vision/detection", "/v1/vision/custom/watch"])
def test_boxes_are_in_pixels_of_the_image(server: Server, path: str) -> None:
    answer = send(server, path, api_key=b"", image=photo())
    assert answer.status == 200, answer.body
    (found,) = answer.json["predictions"]
    # The image is twice as wide as the input: letterboxed, everything is twice as large, and 16 rows are bars.
    assert (answer.json["success"], answer.json["count"], found["label"]) == (True, 1, "cat")
    assert [found[side] for side in ("x_min", "y_min", "x_max", "y_max")] == [16, 0, 48, 32]
    assert math.isclose(found["confidence"], (1 / (1 + math.exp(-4))) ** 2, abs_tol=0.01)


def test_the_confidence_can_be_chosen(server: Server) -> None:
    assert send(server, "/v1/vision/detection", image=photo(), min_confidence=b"0.99").json["predictions"] == []
    wrong = send(server, "/v1/vision/detection", image=photo(), min_confidence=b"much")
    assert (wrong.status, "min_confidence is a number" in wrong.json["error"]["message"]) == (400, True)


def test_what_is_wrong_is_said(server: Server) -> None:
    assert "no field 'image'" in send(server, "/v1/vision/detection", file=photo()).json["error"]["message"]
    assert send(server, "/v1/vision/detection", image=b"no image").status == 400
    assert send(server, "/v1/vision/custom/nobody", image=photo()).status == 404
    assert ask(server, "POST", "/v1/vision/detection", photo(), {"Content-Type": "image/jpeg"}).status == 415
