"""What the tests about bombs share."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from openrknn.serve.rpc.messages import inference
from tests.serve.asking import PATIENCE
from tests.serve.parts import random_inputs

MIB = 1 << 20
NAME = "image_rk3588_i8"
PATH = f"/v2/models/{NAME}/infer"
INPUTS = random_inputs("picture")


def infer_message() -> bytes:
    """A request that is right."""
    message = inference().message("ModelInferRequest")
    request = message(model_name=NAME, raw_input_contents=[INPUTS["image"].tobytes()])
    request.inputs.add(name="image", datatype="UINT8", shape=[1, 16, 16, 3])
    return bytes(request.SerializeToString())


def flood(address: str, count: int, size: int, metadata: Any = None) -> list[grpc.StatusCode]:
    """Large messages for a model that does not exist, all at once."""
    message = inference().message("ModelInferRequest")
    raw = message(model_name="nobody", raw_input_contents=[bytes(size)]).SerializeToString()

    def one(_: int) -> grpc.StatusCode:
        # Each on a connection of its own.
        with grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
            call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
            try:
                call(raw, timeout=PATIENCE, metadata=metadata)
            except grpc.RpcError as error:
                return error.code()
        raise AssertionError

    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(one, range(count)))
