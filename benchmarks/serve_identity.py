"""An identity of 600 KB in the place of a model, for `serve.py`. Whoever imports it, server or worker, serves it."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from openrknn.container.model import Model
from openrknn.runtime.profile import RunTimes
from openrknn.serve import logs
from openrknn.serve.plane import contexts
from openrknn.serve.plane.model_info import ModelInfo
from openrknn.serve.plane.signature import Port, Signature
from openrknn.serve.server import Server
from openrknn.serve.settings import Settings

SHAPE = (1, 3, 224, 224)


class Identity:
    """A session that copies; everything else of the server is real."""

    times = RunTimes()
    device = SimpleNamespace(name="software:identity")

    def __init__(self, model: Model, **options: Any) -> None:
        pass

    def run(self, inputs: Any, **options: Any) -> Any:
        return {"output": inputs["input"].copy()}

    def set_shapes(self, wanted: Any) -> None:
        pass

    def close(self) -> None:
        pass


def _card(model: Model) -> ModelInfo:
    ports = [Port(name, "FP32", SHAPE) for name in ("input", "output")]
    signature = Signature(ports[:1], ports[1:], [{"input": SHAPE}], answer_elements=math.prod(SHAPE))
    return replace(ModelInfo.of(model), signature=signature)


contexts.ModelInfo = SimpleNamespace(of=_card)  # type: ignore[attr-defined, assignment]


def main() -> None:
    """`python -c "from benchmarks.serve_identity import main; main()" MODEL HTTP_PORT GRPC_PORT`"""
    logs.set_up("text", "warning")
    settings = Settings([sys.argv[1]], http_port=int(sys.argv[2]), grpc_port=int(sys.argv[3]))
    Server(settings, open_session=Identity).run()  # type: ignore[arg-type]
