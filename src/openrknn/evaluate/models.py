"""Models that can be evaluated: a `.rknn`, a `.rknnz` in parts, an ONNX file in float, a voice."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from openrknn.closing import Closing
from openrknn.container.bundle import is_bundle, read_bundle
from openrknn.container.load import load
from openrknn.container.metadata import metadata_of
from openrknn.container.model import Model
from openrknn.container.specs import Specs
from openrknn.errors import FormatError, RknnError, UnsupportedError
from openrknn.evaluate.errors import EvaluationError
from openrknn.evaluate.onnx_model import OnnxModel
from openrknn.evaluate.settings import LIMIT, MASK_LIMIT, ORIENTED_THRESHOLD, THRESHOLD, overlap_for
from openrknn.evaluate.truth import Array
from openrknn.models.home import installed as installed_models
from openrknn.runtime.pool import SessionPool
from openrknn.vision.errors import UnknownFamilyError
from openrknn.vision.families import recognize
from openrknn.vision.heads import original_shape
from openrknn.vision.pipeline import Pipeline
from openrknn.voice.sets import FILE as VOICE_FILE
from openrknn.voice.sets import open_set

_TASKS = {"detect": "detect", "segment": "segment", "classify": "classify", "pose": "pose", "obb": "detect"}
_WITH_SCORES = ("detect", "segment", "pose")


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """How a model is opened. None: as its file says, or as its family is usually evaluated."""

    task: str | None = None
    family: str | None = None
    labels: Sequence[str] | None = None
    threshold: float | None = None
    overlap: float | None = None
    fit: str | None = None
    order: str | None = None
    mean: Sequence[float] | None = None
    std: Sequence[float] | None = None
    size: tuple[int, int] | None = None
    """Height and width, for an ONNX model that leaves them open."""
    device: str = "auto"
    cores: int | None = None
    workers: int = 1


@dataclass
class Subject(Closing):
    """One model, ready to be fed."""

    path: str
    task: str
    """detect, obb, segment, areas, pose, classify, text, read, speech or tensors."""
    about: str
    """What it is, in a few words: "int8 on software:rk3588"."""
    pipeline: Pipeline | None = None
    transcriber: Any = None
    runner: SessionPool | OnnxModel | None = None
    """For models without a pipeline."""
    inputs: Specs = field(default_factory=lambda: Specs(()))
    outputs: Specs = field(default_factory=lambda: Specs(()))
    model: Model | OnnxModel | None = None
    notes: tuple[str, ...] = ()
    _stack: ExitStack = field(default_factory=ExitStack)

    @property
    def is_float(self) -> bool:
        """Whether ONNX Runtime computes it."""
        return isinstance(self.model, OnnxModel)

    def close(self) -> None:
        """Give everything back."""
        self._stack.close()


def open_subject(model: str | os.PathLike[str] | Model, options: ModelOptions, like: Subject | None = None) -> Subject:
    """`like`: the model beside which this one is evaluated; it says what the file does not."""
    if isinstance(model, Model):
        return _rknn(model, model.path or "model", options)
    path = os.fspath(model)
    if _is_voice(path):
        return _voice(path, options)
    path = _found(path)
    if path.lower().endswith(".onnx"):
        return _onnx(path, options, like)
    try:
        if is_bundle(path):
            return _bundle(path, options)
        return _rknn(load(path), path, options)
    except OSError as error:
        raise EvaluationError(f"{path}: {error.strerror or error}") from None
    except FormatError as error:
        raise EvaluationError(f"{path}: {error}; give a .rknn, .rknnz or .onnx file") from error


def _found(path: str) -> str:
    """A path, or the name of a model that `openrknn models get` has put at home."""
    if os.path.exists(path):
        return path
    known = next((one for one in installed_models() if one.name == path), None)
    if known is not None:
        return str(known.path)
    raise EvaluationError(
        f"{path}: no such file; give a .rknn, .rknnz or .onnx file, the folder or the name of a voice, or the name of "
        "a model that was fetched before"
    )


# -- images ----------------------------------------------------------------------------------------------------------


def _rknn(model: Model, path: str, options: ModelOptions) -> Subject:
    stack = ExitStack()
    names = options.labels or metadata_of(model).names or None
    try:
        pipeline = stack.enter_context(_pipeline(model, options, names, pool=None))
    except (UnknownFamilyError, UnsupportedError) as error:
        pool = stack.enter_context(SessionPool(model, options.workers, device=options.device, cores=options.cores))
        about = f"{_precision(model)} on {pool.device.name}"
        return Subject(path, "tensors", about, runner=pool, inputs=pool.inputs, outputs=pool.outputs, model=model,
                       notes=(str(error),), _stack=stack)  # fmt: skip
    return Subject(path, _task(pipeline), f"{_precision(model)} on {pipeline.device}", pipeline, model=model,
                   notes=pipeline.notes, _stack=stack)  # fmt: skip


@dataclass(frozen=True)
class _Described:
    """What `Pipeline` needs of a model in parts."""

    inputs: Specs
    outputs: Specs
    path: str | None
    batch_size: int = 1


def _bundle(path: str, options: ModelOptions) -> Subject:
    stack = ExitStack()
    pool = stack.enter_context(
        SessionPool(read_bundle(path), options.workers, device=options.device, cores=options.cores)
    )
    about = f"in parts on {pool.device.name}"
    try:
        pipeline = _pipeline(_Described(pool.inputs, pool.outputs, path), options, options.labels, pool)
    except (UnknownFamilyError, UnsupportedError) as error:
        return Subject(path, "tensors", about, runner=pool, inputs=pool.inputs, outputs=pool.outputs,
                       notes=(str(error),), _stack=stack)  # fmt: skip
    return Subject(path, _task(pipeline), about, pipeline, notes=pipeline.notes, _stack=stack)


def _onnx(path: str, options: ModelOptions, like: Subject | None) -> Subject:
    mean, std, size, order, notes = options.mean, options.std, options.size, options.order, []
    if like is not None and isinstance(like.model, Model):
        normalization = like.model.inputs[0].normalization
        if normalization is not None:
            mean = mean or normalization.mean[: _channels(like.model)]
            std = std or normalization.std[: _channels(like.model)]
    if like is not None and like.pipeline is not None:
        size = size or (like.pipeline.frame.height, like.pipeline.frame.width)
        order = order or like.pipeline.order
    model = OnnxModel(path, mean=mean or (0.0,), std=std or (1.0,), size=size)
    if mean is None and std is None and model.is_image and not model.takes_pixels:
        if model.metadata.names:  # Ultralytics trains on parts of 255
            model.std = model.std * 255
        else:
            notes.append("the ONNX model is fed pixels from 0 to 255; --mean and --std change that")
    names = options.labels or model.metadata.names or None
    task = options.task or _TASKS.get(model.metadata.task)
    family = options.family if like is None or options.family is None else None
    chosen = ModelOptions(task=task or (_like_task(like)), family=family, threshold=options.threshold,
                          overlap=options.overlap, fit=options.fit, order=order, workers=options.workers)  # fmt: skip
    if not model.is_image:
        return Subject(path, "tensors", "float, ONNX Runtime", runner=model, inputs=model.inputs, model=model)
    if like is not None and like.pipeline is not None:
        names = names or like.pipeline.labels
        chosen = _alike(chosen, like.pipeline, model, options.family)
    try:
        pipeline = _pipeline(model, chosen, names, pool=model)
    except UnknownFamilyError as error:
        return Subject(path, "tensors", "float, ONNX Runtime", runner=model, inputs=model.inputs,
                       outputs=model.outputs, model=model, notes=(str(error),))  # fmt: skip
    return Subject(path, _task(pipeline), "float, ONNX Runtime", pipeline, model=model,
                   notes=(*notes, *pipeline.notes))  # fmt: skip


def _like_task(like: Subject | None) -> str | None:
    return like.pipeline.family.task if like is not None and like.pipeline is not None else None


def _alike(chosen: ModelOptions, pipeline: Pipeline, model: OnnxModel, family: str | None) -> ModelOptions:
    """The family of the model beside it, where the outputs are the same; its way of scaling images always."""
    shapes = [original_shape(spec) for spec in model.outputs]
    wanted = family or pipeline.family.name
    try:
        recognize(shapes, pipeline.frame, family=wanted)
    except UnknownFamilyError:
        wanted = ""
    return replace(chosen, family=wanted or None, fit=chosen.fit or pipeline.fit)


def _channels(model: Model) -> int:
    shape = model.inputs[0].shape
    return shape[3] if model.inputs[0].layout == "nhwc" else shape[1]


def _pipeline(model: Any, options: ModelOptions, names: Sequence[str] | None, pool: Any) -> Pipeline:
    """The settings of an evaluation depend on the family, which the shapes of the outputs say."""

    def made(**more: Any) -> Pipeline:
        return Pipeline(
            model, task=options.task, family=options.family, labels=names, fit=options.fit, order=options.order,
            device=options.device, cores=options.cores, workers=options.workers, pool=pool, **more,
        )  # fmt: skip

    # A pool that runs nothing: the family is known without loading the weights twice.
    probe = Pipeline(model, task=options.task, family=options.family, labels=names, fit=options.fit, pool=_Nothing())
    if probe.family.task not in _WITH_SCORES or probe.family.name == "segmentation":
        return made(threshold=options.threshold)
    is_slow = probe.family.task == "segment" or "obb" in probe.family.name
    threshold = ORIENTED_THRESHOLD if "obb" in probe.family.name else THRESHOLD
    return made(
        threshold=threshold if options.threshold is None else options.threshold,
        overlap=overlap_for(probe.family.name) if options.overlap is None else options.overlap,
        limit=MASK_LIMIT if is_slow else LIMIT,
        every_class="obb" not in probe.family.name,
    )


class _Nothing:
    def run(self, inputs: object, **options: Any) -> dict[str, Array]:
        raise AssertionError("this pipeline is only asked for its family")


def _task(pipeline: Pipeline) -> str:
    if "obb" in pipeline.family.name:
        return "obb"
    return "areas" if pipeline.family.name == "segmentation" else pipeline.family.task


def _precision(model: Model) -> str:
    """The type of most tensors that the NPU computes: int8, float16 ..."""
    counts: dict[str, int] = {}
    for tensor in model.graphs[0].tensors:
        if tensor.blob or tensor.data is not None:  # constants
            continue
        name = str(getattr(tensor.dtype, "label", tensor.dtype))
        counts[name] = counts.get(name, 0) + 1
    best = max(counts, key=lambda name: counts[name], default="")
    return {"float16": "fp16"}.get(best, best)


# -- sound -----------------------------------------------------------------------------------------------------------


def _is_voice(path: str) -> bool:
    if os.path.isdir(path):
        if (Path(path) / VOICE_FILE).is_file():
            return True
        raise EvaluationError(f"{path}: a folder without a model; give a file, or the folder of a voice")
    if os.path.exists(path) or os.sep in path or "." in path:
        return False
    try:
        return open_set(path).kind == "transcriber"
    except RknnError:
        return False


def _voice(path: str, options: ModelOptions) -> Subject:
    from openrknn.voice.transcriber import Transcriber

    stack = ExitStack()
    voice = open_set(Path(path) if os.path.isdir(path) else path, "transcriber")
    listen = stack.enter_context(Transcriber(voice, options.device))
    return Subject(path, "speech", f"{voice.name} for {voice.target}", transcriber=listen, _stack=stack)
