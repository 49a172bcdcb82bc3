"""/v1/vision as DeepStack and CodeProject.AI have it, for programs such as Frigate: an image in, boxes out."""

from __future__ import annotations

import json
import math
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from openrknn.serve import tracing
from openrknn.serve.errors import BadRequestError, NotFoundError
from openrknn.serve.plane.plane import Plane
from openrknn.serve.plane.served import Served
from openrknn.serve.rest.body import read_body
from openrknn.serve.rest.disconnect import unless_gone
from openrknn.serve.rest.multipart import Part, parse_form
from openrknn.serve.rest.pictures import PictureOptions, Pictures

__all__ = ["routes"]

_THRESHOLD = 0.4
"""The protocol's own default for `min_confidence`."""


def routes(plane: Plane, pictures: Pictures) -> list[Route]:
    """Everything under /v1/vision."""
    mine = _Vision(plane, pictures)
    return [
        Route("/v1/vision/detection", mine.detection, methods=["POST"]),
        Route("/v1/vision/custom/{name}", mine.detection, methods=["POST"]),
    ]


class _Vision:
    def __init__(self, plane: Plane, pictures: Pictures) -> None:
        self._plane, self._pictures, self._limits = plane, pictures, plane.settings.limits

    async def detection(self, request: Request) -> Response:
        """Objects of a detector: the one that is named, or the first that is served."""
        served = self._detector(request.path_params.get("name"))
        with tracing.request("image", served, request.headers) as span:
            body = await read_body(request, self._limits)
            image, threshold = _form(parse_form(body, request.headers.get("content-type", "")))
            seen = self._pictures.see(served, image, PictureOptions(threshold))
            content, _, stages = await unless_gone(request, seen)
            span.stages(stages)
        return JSONResponse(_answer(json.loads(content)))

    def _detector(self, name: str | None) -> Served:
        if name is not None:
            found = self._plane.repository.find(name)
            if not self._finds_objects(found):
                raise BadRequestError(f"model {name[:80]!r} finds no objects; see /v2/models/NAME/image")
            return found
        every = self._plane.repository.served()
        found_here = next((served for served in every if self._finds_objects(served)), None)
        if found_here is None:
            raise NotFoundError("no model that is served here finds objects; start the server with a detector")
        return found_here

    def _finds_objects(self, served: Served) -> bool:
        try:
            return self._pictures.pipeline(served).family.task in {"detect", "pose", "segment"}
        except BadRequestError:  # a model for other things than images
            return False


def _form(parts: list[Part]) -> tuple[bytes, float]:
    """The image, and the lowest confidence that is wanted."""
    fields = {part.name: part for part in parts}
    if "image" not in fields:
        raise BadRequestError("the form has no field 'image' with the bytes of one")
    threshold = _THRESHOLD
    if "min_confidence" in fields:
        try:
            threshold = float(fields["min_confidence"].text)
        except ValueError:
            threshold = math.nan
        if not 0 <= threshold <= 1:
            raise BadRequestError("min_confidence is a number from 0 to 1")
    return bytes(fields["image"].content), threshold


def _answer(words: dict[str, Any]) -> dict[str, Any]:
    found = []
    for row in words["found"]:
        if "box" in row:
            left, top, right, bottom = (round(side) for side in row["box"])
            found.append({"label": row["label"], "confidence": row["score"], "x_min": left, "y_min": top,
                          "x_max": right, "y_max": bottom})  # fmt: skip
    return {"success": True, "code": 200, "count": len(found), "predictions": found,
            "inferenceMs": round(words["milliseconds"]["npu"])}  # fmt: skip
