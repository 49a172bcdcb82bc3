"""`Pipeline`: a model that takes pictures and gives what is in them.

with Pipeline("yolo.rknn") as detect:
    detect("street.jpg").save("street_boxes.jpg")
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from openrknn.analysis.io_reports import input_reports
from openrknn.closing import Closing
from openrknn.container.load import load
from openrknn.container.metadata import Metadata, metadata_of
from openrknn.container.model import Model, TensorSpec
from openrknn.device import Device
from openrknn.errors import UnsupportedError
from openrknn.runtime.pool import SessionPool
from openrknn.video.converters import open_converter
from openrknn.video.frame import VideoFrame
from openrknn.vision.families import Family, recognize
from openrknn.vision.frames import FrameImage, FrameRunner, FrameShape
from openrknn.vision.geometry import Placement, place
from openrknn.vision.heads import Array, Frame, Settings, heads_of, original_shape
from openrknn.vision.labels import names_for
from openrknn.vision.pictures import Pixels, as_pixels, fitted
from openrknn.vision.prefetch import prefetch
from openrknn.vision.result import Result
from openrknn.vision.results import Objects
from openrknn.vision.sources import Entry, OnOpen, Shot, entries, shots
from openrknn.vision.thresholds import safe_threshold

_PICTURE_CHANNELS = (1, 3, 4)
_FITS = {"classify": "crop", "read": "line"}
_TASKS = {"detect": "detect", "segment": "segment", "classify": "classify", "pose": "pose", "obb": "detect"}
"""Task in a model's metadata -> task here."""
_SCORED = ("detect", "segment", "pose")
_LARGEST_RANKING = 1000


class Runner(Protocol):
    """Runs a model somewhere: what `Pipeline` needs of a `SessionPool`."""

    def run(self, inputs: object, **options: Any) -> dict[str, Array]:
        """As `Session.run`."""


class PictureModel(Protocol):
    """What `Pipeline` needs of a model."""

    @property
    def inputs(self) -> tuple[TensorSpec, ...]: ...

    @property
    def outputs(self) -> tuple[TensorSpec, ...]: ...

    @property
    def batch_size(self) -> int: ...

    @property
    def path(self) -> str | None: ...


class Pipeline(Closing):
    """A model with its pictures before and its decoder behind it.

    `family` (see `families.FAMILIES`) and `task` are worked out from the outputs; give one where that is not possible.
    `labels`: names of the classes; COCO, ImageNet and others are known by their number. `fit`: letterbox, stretch,
    crop or line. `every_class`: a cell may be an object of several classes, as measuring accuracy wants it. `workers`
    pictures are in flight at the same time, each on a session of its own with shared weights: as many as the NPU has
    cores keep it busy. `pool` is something else that runs the model, such as a server's queue; it stays open. Other
    options are those of `Session`.
    """

    def __init__(
        self,
        model: Model | PictureModel | str | os.PathLike[str] | bytes,
        *,
        task: str | None = None,
        family: str | None = None,
        labels: Sequence[str] | None = None,
        threshold: float | None = None,
        overlap: float = 0.45,
        limit: int = 300,
        every_class: bool = False,
        fit: str | None = None,
        order: str | None = None,
        device: str | Device = "auto",
        cores: int | None = None,
        workers: int = 1,
        pool: Runner | None = None,
    ) -> None:
        whole = load(model) if isinstance(model, str | os.PathLike | bytes) else model
        self.model: PictureModel = whole
        self.frame, self.channels = _picture_input(self.model)
        shapes = [original_shape(spec) for spec in self.model.outputs]
        metadata = metadata_of(whole) if isinstance(whole, Model) else Metadata()
        count = len(labels) if labels is not None else len(metadata.names) or None
        task = task or _TASKS.get(metadata.task)
        self.family: Family
        self.family, note = recognize(shapes, self.frame, task=task, family=family, classes=count)
        self.classes = self.family.classes(shapes)
        """How many classes it knows; 0 where that means nothing."""
        if labels is None and metadata.names and len(metadata.names) == self.classes:
            labels = metadata.names
        self.labels = tuple(labels) if labels is not None else _names(self.family, self.classes)
        self.fit = fit or self.family.fit or _FITS.get(self.family.task, "letterbox")
        self.order = order or _order(whole)
        place(1, 1, self.frame, self.fit)  # complains about an unknown fit before anything is loaded
        threshold, advice = self._threshold(threshold)
        size = limit if self.family.task != "classify" else _LARGEST_RANKING
        self.settings = Settings(threshold=threshold, overlap=overlap, limit=size, every_class=every_class)
        self.notes = tuple(text for text in (note, advice) if text)
        """What a user should know about the choices that were made."""
        self._own = SessionPool(_complete(whole), workers, device=device, cores=cores) if pool is None else None
        self._pool: Runner | SessionPool | None = self._own or pool
        sizes = (self.frame.height, self.frame.width, self.channels)
        self._shape = FrameShape(self.model.inputs[0].name, sizes, self.fit, self.order)
        self._frames = None if self._own is None else FrameRunner(self._own, self._shape)

    def _threshold(self, wanted: float | None) -> tuple[float, str]:
        if wanted is None:
            return self.family.threshold, ""
        is_quantized = any(spec.quantization is not None for spec in self.model.outputs)
        return safe_threshold(wanted, is_quantized=is_quantized and self.family.task in _SCORED)

    @property
    def device(self) -> str:
        """Where it runs."""
        if self._own is None:
            return "the given pool"
        with self._own.session() as session:
            return session.device.name

    @property
    def workers(self) -> int:
        """How many pictures it runs at the same time."""
        return 1 if self._own is None else self._own.size

    # -- running -------------------------------------------------------------------------------------------------

    def __call__(self, picture: object, name: str = "") -> Result:
        """What is in one picture.

        It is a path, an array [height, width, 3] of uint8 with red first, a Pillow image, or a `VideoFrame`, which is
        converted straight into the memory of the input; its release is the caller's.
        """
        if isinstance(picture, VideoFrame):
            return self._run_frame(picture, name or f"frame {picture.number}")
        label = name or (os.fspath(picture) if isinstance(picture, str | os.PathLike) else "picture")
        return self._run(as_pixels(picture, label), label)

    def _run(self, pixels: Pixels, name: str) -> Result:
        started = time.perf_counter()
        placement = place(pixels.shape[1], pixels.shape[0], self.frame, self.fit)
        ready = fitted(pixels, placement, channels=self.channels, order=self.order)
        prepared = time.perf_counter()
        outputs = self._computed(ready)
        return self._result(name, pixels, placement, outputs, (started, prepared, time.perf_counter()))

    def _computed(self, ready: Pixels) -> dict[str, Array]:
        # "raw": int8 stays int8, and the decoders compare it as it is.
        assert self._pool is not None  # the constructor has made one or was given one
        return self._pool.run({self.model.inputs[0].name: ready}, layout="nhwc", outputs="raw")

    def _run_frame(self, frame: VideoFrame, name: str) -> Result:
        """One conversion from the frame's own format into the input: there is no RGB image of the whole frame."""
        placement = place(frame.width, frame.height, self.frame, self.fit)
        if self._frames is not None:
            outputs, done, times = self._frames.run(frame)
        else:
            started = time.perf_counter()
            ready = self._shape.empty()
            done = self._shape.convert(open_converter("cpu"), frame, ready[0])
            prepared = time.perf_counter()
            outputs = self._computed(ready)
            times = started, prepared, time.perf_counter()
        result = self._result(name, FrameImage(frame), placement, outputs, times)
        return replace(result, copies=done.total, converter=done.converter)

    def _result(
        self,
        name: str,
        image: Pixels | FrameImage,
        placement: Placement,
        outputs: Mapping[str, Array],
        times: tuple[float, float, float],
    ) -> Result:
        """Decoded; `times`: when it began, when the input was ready, and when the outputs were."""
        started, prepared, ran = times
        found = self.family.decode(heads_of(self.model.outputs, outputs), self.frame, self.settings)
        if isinstance(found, Objects) and self.family.task in _SCORED:
            found = found.with_area(f"{self.family.name} ({self.family.about})")
        note = found.note if isinstance(found, Objects) else ""
        return Result(
            name=name,
            image=image,
            task=self.family.task,
            found=found.to_picture(placement),
            labels=self.labels,
            notes=(note,) if note else (),
            prepare_seconds=prepared - started,
            run_seconds=ran - prepared,
            decode_seconds=time.perf_counter() - ran,
        )

    def stream(
        self,
        sources: str | os.PathLike[str] | Entry | Iterable[str | os.PathLike[str]] | Sequence[Entry],
        on_open: OnOpen | None = None,
    ) -> Iterator[Result]:
        """Results for pictures, folders, patterns, videos, cameras: in their order, read ahead, `workers` at a time.

        `sources` is one of them or several. A picture that cannot be read gives a result with a `problem`. A live
        source drops what there is no time for. `on_open` is called with each `VideoSource` when it is open.
        """
        words = [sources] if isinstance(sources, str | os.PathLike | Entry) else list(sources)
        found = [word for word in words if isinstance(word, Entry)]
        found = found or entries([word for word in words if not isinstance(word, Entry)])
        has_video = any(entry.kind != "picture" for entry in found)  # which has threads of its own
        yield from self.stream_shots(shots(found, on_open) if has_video else prefetch(shots(found), 2 * self.workers))

    def stream_shots(self, ahead: Iterable[Shot]) -> Iterator[Result]:
        """`stream` for shots of the caller."""
        yield from parallel(ahead, self._shot, self.workers)

    def _shot(self, shot: Shot) -> Result:
        if shot.frame is not None:
            result = self._run_frame(shot.frame, shot.name)
            return replace(result, taken=shot.taken, capture_seconds=shot.seconds)
        if shot.pixels is None:
            return Result.unreadable(shot.name, self.family.task, shot.problem)
        return replace(self._run(shot.pixels, shot.name), taken=shot.taken)

    # -- resources -----------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Give everything back. Closing twice is allowed."""
        if self._frames is not None:
            self._frames.close()
        if self._own is not None:
            self._own.close()

    def __repr__(self) -> str:
        return f"<Pipeline {self.model.path or 'from bytes'}: {self.family.about}>"


def _complete(model: Model | PictureModel) -> Model:
    if not isinstance(model, Model):
        raise TypeError(f"{type(model).__name__} describes a model and cannot run; give a pool that runs it")
    return model


def _order(model: Model | PictureModel) -> str:
    """The order of colours that the model was calibrated with."""
    return "bgr" if isinstance(model, Model) and input_reports(model)[0].calibrated_as_bgr else "rgb"


def _picture_input(model: PictureModel) -> tuple[Frame, int]:
    """Size and channels of the only input."""
    if len(model.inputs) != 1:
        raise UnsupportedError(f"the model has {len(model.inputs)} inputs; pictures go into models that have one")
    if model.batch_size > 1:
        raise UnsupportedError(f"the model takes {model.batch_size} pictures per run; run it with `Session`")
    spec = model.inputs[0]
    shape = spec.shape if spec.layout == "nhwc" else (spec.shape[0], *spec.shape[2:], *spec.shape[1:2])
    if len(shape) != 4 or shape[3] not in _PICTURE_CHANNELS or shape[0] != 1:
        raise UnsupportedError(f"the input {spec} is not a picture; run the model with `Session`")
    return Frame(width=shape[2], height=shape[1]), shape[3]


def _names(family: Family, count: int) -> tuple[str, ...] | None:
    return names_for(family.task, count, family.name)


# Work on several items at a time; results come in the order of the items, each as soon as it is there.

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


def parallel(items: Iterable[Item], work: Callable[[Item], Outcome], workers: int) -> Generator[Outcome, None, None]:
    """`work` on each item, `workers` at a time.

    An item is taken only when a worker is free for it, so that of a live source it is the newest. No caller waits for
    the next item to see the result of the last. If `items` raises, the results of the items before come first.
    """
    free = threading.Semaphore(workers)
    unseen = threading.Semaphore(workers + 1)  # one result may wait while its reader is busy with the one before
    stop = threading.Event()

    def begun(threads: ThreadPoolExecutor) -> Iterator[Future[Outcome]]:
        source = iter(items)
        try:
            while True:
                free.acquire()
                unseen.acquire()
                if stop.is_set():
                    return
                try:
                    item = next(source)
                except StopIteration:
                    return
                future = threads.submit(work, item)
                future.add_done_callback(lambda _: free.release())
                yield future
        finally:
            close = getattr(source, "close", None)
            if close is not None:
                close()

    with ThreadPoolExecutor(max_workers=workers, thread_name_prefix="openrknn-vision") as threads:
        futures = prefetch(begun(threads), workers + 1)
        try:
            for future in futures:
                yield future.result()
                unseen.release()
        finally:
            stop.set()
            free.release()
            unseen.release()
            futures.close()
