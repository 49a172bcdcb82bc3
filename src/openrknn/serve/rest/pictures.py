"""The image endpoint: a picture in, labels, boxes or text out."""

from __future__ import annotations

import asyncio
import io
import json
import math
import os
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from openrknn.errors import UnsupportedError
from openrknn.pictures import PictureError, Pixels, read_picture
from openrknn.serve.datatypes import Array
from openrknn.serve.errors import BadRequestError, DeadlineError, FullError, ServeError
from openrknn.serve.plane.job import Job, Stages
from openrknn.serve.plane.plane import Plane, Request
from openrknn.serve.plane.served import Served
from openrknn.serve.plane.throttled_pool import ThrottledPool
from openrknn.serve.shared.tensor import Written
from openrknn.vision.errors import SourceError, UnknownFamilyError
from openrknn.vision.ocr import TextReader
from openrknn.vision.pipeline import Pipeline
from openrknn.vision.result import Result

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["PictureOptions", "Pictures"]

_FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF")
"""What browsers and cameras write. Readers for anything else are never called."""
_QUALITY = 90
_LIGHT_BYTES = 48 * 1024 * 1024
"""Pictures that take more memory than this (3 megapixels, 2 as WebP) are decoded in a throttled pool."""
_MOST_TOP = 1000
_MOST_THROTTLED = 64


@dataclass(frozen=True, slots=True)
class PictureOptions:
    """What the query says."""

    threshold: float | None = None
    top: int = 5
    as_picture: bool = False
    reader: str | None = None


@dataclass(slots=True)
class _Visit:
    """One picture on its way: its jobs, so that they can be cancelled, and its times."""

    data: bytes
    deadline: float
    stages: Stages = field(default_factory=Stages)
    jobs: list[Job] = field(default_factory=list)
    is_over: bool = False

    @property
    def seconds_left(self) -> float:
        return max(0.0, self.deadline - time.monotonic())


class _HeavyPicture(Exception):  # noqa: N818 - it is no error
    """This picture takes so much memory, and as much time."""

    def __init__(self, size_bytes: int) -> None:
        super().__init__(size_bytes)
        self.size_bytes = size_bytes


class _Runner:
    """Runs the model of a pipeline through the queue of the server."""

    def __init__(self, plane: Plane, served: Served, here: threading.local) -> None:
        self._plane, self._served, self._here = plane, served, here

    def run(self, inputs: object, **options: Any) -> dict[str, Array]:
        visit: _Visit = self._here.visit
        assert isinstance(inputs, Mapping)
        left = visit.deadline - time.monotonic()
        layouts = dict.fromkeys(inputs, options["layout"])
        job = self._plane.job(self._served, Request(inputs, layouts, kind=options["outputs"], timeout_seconds=left))
        visit.jobs.append(job)
        if visit.is_over:
            raise CancelledError
        self._served.submit(job)
        try:
            outputs, stages = job.future.result(timeout=max(left, 0.0))
        except FutureTimeout:
            job.future.cancel()
            raise DeadlineError("the picture was not done in time") from None
        visit.stages.queue += stages.queue
        visit.stages.pre += stages.pre
        visit.stages.npu += stages.npu
        visit.stages.post += stages.post
        return {name: array for name, array in outputs.items() if not isinstance(array, Written)}


class Pictures:
    """Pipelines in front of and behind the models. Pictures are read and scaled in a few threads of their own."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        self._here = threading.local()
        self._pipelines: weakref.WeakKeyDictionary[Served, Pipeline] = weakref.WeakKeyDictionary()
        processors = os.cpu_count() or 1
        self._threads = ThreadPoolExecutor(2 * processors, thread_name_prefix="openrknn-picture")
        self._throttled = ThrottledPool(
            "large-picture", threads=max(1, processors // 2), most_waiting=_MOST_THROTTLED, is_busy=plane.is_busy
        )
        plane.closers += [self._throttled.close, self._threads.shutdown]
        self._under_way = 0

    @staticmethod
    def options(query: Mapping[str, str]) -> PictureOptions:
        """The query of a request, checked."""
        unknown = set(query) - {"threshold", "top", "output", "reader"}
        if unknown:
            name = min(unknown)[:40]
            raise BadRequestError(f"{name!r} is unknown; the choices are threshold, top, output and reader")
        threshold: float | None = None
        if "threshold" in query:
            try:
                threshold = float(query["threshold"])
            except ValueError:
                threshold = math.nan
            if not 0 <= threshold <= 1:
                raise BadRequestError("threshold is a number from 0 to 1")
        top = query.get("top", "5")
        if not top.isascii() or not top.isdigit() or not 1 <= int(top[:9]) <= _MOST_TOP:
            raise BadRequestError(f"top is a whole number from 1 to {_MOST_TOP}")
        output = query.get("output", "json")
        if output not in {"json", "picture"}:
            raise BadRequestError("output is json or picture")
        return PictureOptions(threshold, int(top), output == "picture", query.get("reader"))

    def pipeline(self, served: Served, threshold: float | None = None) -> Pipeline:
        """What reads the model's answers; one for all requests that want nothing special."""
        found = self._pipelines.get(served) if threshold is None else None
        if found is not None:
            return found
        config = served.config
        if served.signature.is_parted:
            raise BadRequestError(f"model {served.name!r} is in parts and takes tensors; send them to .../infer")
        try:
            made = Pipeline(
                served.card.picture,
                order=served.card.picture.order,
                task=config.task,
                family=config.family,
                labels=served.labels,
                threshold=config.threshold if threshold is None else threshold,
                pool=_Runner(self._plane, served, self._here),
            )
        except (UnsupportedError, UnknownFamilyError, ValueError) as error:
            raise BadRequestError(f"model {served.name!r} takes no pictures here: {error}") from None
        if threshold is None:
            self._pipelines[served] = made
        return made

    async def see(self, served: Served, data: bytes, options: PictureOptions) -> tuple[bytes, str, Stages]:
        """What is in a picture: the body of the answer, its type, and where the time went.

        A picture waits until there is memory to decode it; the threads that wait hold encoded pictures only.
        """
        if self._under_way >= served.queue.size:
            served.stats.failed(FullError.code, 0.0)
            raise FullError(f"{self._under_way} pictures are waiting; try again later")
        started = time.monotonic()
        visit = _Visit(data, started + self._plane.settings.limits.request_seconds)
        self._under_way += 1
        self._plane.under_way += 1
        try:
            content, kind = await self._look_at(served, options, visit)
        except ServeError as error:
            served.stats.failed(error.code, time.monotonic() - started)
            raise
        except asyncio.CancelledError:
            visit.is_over, visit.data = True, b""
            for job in visit.jobs:
                job.future.cancel()
            served.stats.failed("CANCELLED", time.monotonic() - started)
            raise
        finally:
            self._under_way -= 1
            self._plane.under_way -= 1
        served.stats.succeeded(visit.stages, 1)
        return content, kind, visit.stages

    async def _look_at(self, served: Served, options: PictureOptions, visit: _Visit) -> tuple[bytes, str]:
        """Small pictures at once; large ones are noticed by their header and wait for each other."""
        loop = asyncio.get_running_loop()
        try:
            with self._plane.light_work():
                return await loop.run_in_executor(self._threads, self._work, served, options, visit, _LIGHT_BYTES)
        except _HeavyPicture as found:
            cost = found.size_bytes
        self._plane.budget.check(cost)
        self._under_way -= 1  # those that wait have a bound of their own
        try:
            return await self._throttled.run(cost, lambda: self._work(served, options, visit, None))
        finally:
            self._under_way += 1

    # -- in a thread ---------------------------------------------------------------------------------------------

    def _work(self, served: Served, options: PictureOptions, visit: _Visit, most: int | None) -> tuple[bytes, str]:
        """`most` bytes of memory; a picture that takes more is looked at by somebody else."""
        # A share of its own: the thread goes on for a while when the client is gone.
        with self._plane.budget.open() as share:

            def admit(size: int) -> None:
                if most is not None and size > most:
                    raise _HeavyPicture(size)
                share.grow(size, wait_seconds=visit.seconds_left)

            return self._look(served, options, visit, admit)

    def _look(
        self, served: Served, options: PictureOptions, visit: _Visit, admit: Callable[[int], None]
    ) -> tuple[bytes, str]:
        begun = time.perf_counter()
        if visit.is_over:
            raise CancelledError
        self._here.visit = visit
        finder = self.pipeline(served, options.threshold)
        reader_name = options.reader or served.config.reader
        pixels = read_pixels(visit.data, self._plane.settings.limits.pixels, admit)
        read = time.perf_counter()
        try:
            if reader_name and finder.family.task == "text":
                reader = self.pipeline(self._plane.repository.find(reader_name))
                result = TextReader(finder, reader)(pixels)
            else:
                result = finder(pixels)
        except (SourceError, ValueError) as error:
            raise BadRequestError(str(error)) from None
        stages = visit.stages
        stages.pre += read - begun + result.prepare_seconds
        content, kind = _encode(served, finder, result, options, stages)
        # Whatever was not waiting, preparing or running was making sense of the outputs.
        stages.post = max(0.0, time.perf_counter() - begun - stages.queue - stages.pre - stages.npu)
        return content, kind


def read_pixels(data: bytes, most_pixels: int, admit: Callable[[int], None] | None = None) -> Pixels:
    """A picture from the network: its size is looked at before it is decoded, and `admit` hears what that takes."""
    if not data:
        raise BadRequestError("the body is empty; send the bytes of a picture")
    try:
        return read_picture(io.BytesIO(data), formats=_FORMATS, most_pixels=most_pixels, admit=admit)
    except PictureError as error:
        raise BadRequestError(f"the body: {error}") from None


def _encode(
    served: Served, pipeline: Pipeline, result: Result, options: PictureOptions, stages: Stages
) -> tuple[bytes, str]:
    if options.as_picture:
        stream = io.BytesIO()
        image: Image = result.annotated()
        image.convert("RGB").save(stream, "JPEG", quality=_QUALITY)
        return stream.getvalue(), "image/jpeg"
    assert result.pixels is not None
    words = {
        "model_name": served.name,
        "model_version": served.version,
        "task": result.task,
        "family": pipeline.family.name,
        "width": result.pixels.shape[1],
        "height": result.pixels.shape[0],
        "found": list(result.rows(options.top)),
        "notes": [*pipeline.notes, *result.notes],
        "milliseconds": {
            "queue": _ms(stages.queue),
            "pre": _ms(stages.pre),
            "npu": _ms(stages.npu),
            "post": _ms(stages.post + result.decode_seconds),
        },
    }
    return json.dumps(words).encode(), "application/json"


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 3)
