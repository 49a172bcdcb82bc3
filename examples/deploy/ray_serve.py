"""Ray Serve: one actor per NPU, images in, labels out.

    pip install "ray[serve]" "/path/to/clone/of/openrknn[images]"
    ray start --head --resources '{"npu": 3}'       # on each board: how many NPUs (or cores) it has
    serve run examples.deploy.ray_serve:app
    curl -s --data-binary @examples/images/cat.jpg http://127.0.0.1:8000/
"""

from __future__ import annotations

import asyncio
import io
import os
from pathlib import Path

import numpy as np
from PIL import Image
from ray import serve
from starlette.requests import Request

import openrknn

MODEL = Path(os.environ.get("MODEL", Path(__file__).parents[1] / "models/efficientnet_lite0_rk3588_i8.rknn"))


# num_cpus=0: the actor waits for the NPU. More replicas than NPUs stay pending, and Ray's autoscaler sees them.
@serve.deployment(
    ray_actor_options={"num_cpus": 0, "resources": {"npu": 1}},
    autoscaling_config={"min_replicas": 1, "max_replicas": 3, "target_ongoing_requests": 4},
    max_ongoing_requests=16,
)
class Classifier:
    """One NPU."""

    def __init__(self) -> None:
        self._session = openrknn.Session(MODEL)  # "auto": what OPENRKNN_NPU says, else what is there
        self._lock = asyncio.Lock()

    async def __call__(self, request: Request) -> dict[str, object]:
        shape = self._session.inputs[0].shape
        picture = Image.open(io.BytesIO(await request.body())).convert("RGB").resize((shape[2], shape[1]))
        async with self._lock:  # one session, one job at a time
            outputs = await asyncio.to_thread(self._session.run, [np.asarray(picture)[None]])
        scores = next(iter(outputs.values())).ravel()
        return {"best": [int(index) for index in scores.argsort()[::-1][:3]]}


app = Classifier.bind()  # type: ignore[attr-defined]  # added by the decorator
