"""A little from a client never becomes much memory: one budget for all of it."""

from __future__ import annotations

import io
import json
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from PIL import Image

from openrknn.serve.errors import BadRequestError, FullError, TooLargeError
from openrknn.serve.plane.budget import Budget
from openrknn.serve.rest.infer import json_bytes, parse
from openrknn.serve.rpc.messages import inference
from openrknn.serve.rpc.parse_memory import parse_memory
from openrknn.serve.server import Server, running
from openrknn.serve.settings import Limits, Settings
from tests.serve.asking import PATIENCE, ask
from tests.serve.bombs import INPUTS, MIB, NAME
from tests.serve.parts import ROOT


def test_a_budget_is_asked_and_given_back() -> None:
    budget = Budget(100)
    with budget.share(60) as one, budget.open() as two:
        two.grow(40)
        with pytest.raises(FullError):
            two.grow(1)
        with pytest.raises(TooLargeError, match="--max-memory"):
            two.grow(101)
        waiting = threading.Thread(target=lambda: two.grow(10, wait_seconds=PATIENCE))
        waiting.start()
        one.shrink(10)
        waiting.join(PATIENCE)
        assert (one.size_bytes, two.size_bytes, budget.used_bytes) == (50, 50, 100)
    assert budget.used_bytes == 0
    two.grow(5)  # a thread that did not hear of the end keeps nothing
    assert budget.used_bytes == 0


def test_one_long_text_among_many_short_ones() -> None:
    """NumPy would make an array of 20,000 texts of 100,000 letters: 8 GB."""
    data = ["x" * 100_000, *["a"] * 20_000]
    body = json.dumps({"inputs": [{"name": "image", "shape": [20_001], "datatype": "FP32", "data": data}]}).encode()
    tracemalloc.start()
    try:
        with pytest.raises(BadRequestError, match="not numbers"):
            parse(body, None)
        assert tracemalloc.get_traced_memory()[1] < 10 * MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("text", ["[]", "{}", '{"a":1}', '"ab"', "1.5", "[[1.5]]", '{"a":{"b":[]}}', '"\U0001f600"'])
def test_what_json_takes_is_never_underestimated(text: str) -> None:
    body = f'{{"inputs": [{",".join([text] * 20_000)}]}}'.encode()
    tracemalloc.start()
    try:
        from openrknn.serve.rest.infer import load_json

        words = load_json(body)
        assert tracemalloc.get_traced_memory()[0] <= json_bytes(body)
    finally:
        tracemalloc.stop()
    assert len(words["inputs"]) == 20_000


def test_what_a_message_takes_is_counted_before_it_is_parsed(small: Server) -> None:
    message = inference().message("ModelInferRequest")
    request = message(model_name=NAME, raw_input_contents=[INPUTS["image"].tobytes()])
    request.inputs.add(name="image", datatype="UINT8", shape=[1, 16, 16, 3])
    assert parse_memory(request.SerializeToString(), has_tensors=True) < 8 * len(request.SerializeToString())
    with pytest.raises(BadRequestError, match="fields"):
        parse_memory(b"\x2a\x00" * 100_000, has_tensors=True)  # that many empty inputs
    inner = b"\x22\x00" * 4000  # empty parameters of one input
    assert parse_memory(b"\x2a" + _varint(len(inner)) + inner, has_tensors=True) >= 100 * 4000
    for damaged in (b"\xff", b"\x2a\x05ab", b"\x0b", b"\xff" * 20):
        with pytest.raises(BadRequestError, match="damaged"):
            parse_memory(damaged, has_tensors=True)
    with grpc.insecure_channel(small.grpc_address) as channel:
        call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        with pytest.raises(grpc.RpcError) as caught:
            call(b"\x2a\x00" * 100_000, timeout=PATIENCE)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def _varint(number: int) -> bytes:
    return bytes([number & 0x7F | 0x80, number >> 7])


def test_pictures_share_the_budget() -> None:
    limits = Limits(total_bytes=16 * MIB, body_bytes=8 * MIB)
    stream = io.BytesIO()
    Image.new("RGB", (1500, 1000)).save(stream, "WEBP")
    model = ROOT / "examples/models/efficientnet_lite0_rk3588_i8.rknn"
    with running(Settings([model], http_port=0, grpc_port=None, instances=1, limits=limits)) as server:
        answer = ask(server, "POST", f"/v2/models/{model.stem}/image", stream.getvalue())
        assert (answer.status, "--max-memory" in answer.error) == (413, True)
        cat = (ROOT / "examples/images/cat.jpg").read_bytes()
        with ThreadPoolExecutor(8) as threads:
            path = f"/v2/models/{model.stem}/image"
            found = list(threads.map(lambda _: ask(server, "POST", path, cat).status, range(8)))
        assert found == [200] * 8, "pictures wait for each other's memory"
