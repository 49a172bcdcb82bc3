"""`ModelInfo`: all that the server itself knows about a model, as plain numbers and names. The worker has the file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from openrknn.analysis.io_reports import input_reports
from openrknn.chips import chip_named
from openrknn.container.bundle import Bundle
from openrknn.container.model import Model, TensorSpec
from openrknn.container.parts import Quantization
from openrknn.errors import FormatError, RknnError
from openrknn.serve.datatypes import DATATYPES
from openrknn.serve.plane.parted import signature_of
from openrknn.serve.plane.signature import Port, Signature

__all__ = ["ModelInfo", "PictureModel"]

_MOST_NAME, _MOST_PORTS, _MOST_RANK = 4096, 4096, 16
_MOST_ELEMENTS = 1 << 40


@dataclass(frozen=True, slots=True)
class PictureModel:
    """What `Pipeline` needs of a model."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    batch_size: int
    order: str
    """Of the colours: rgb or bgr."""
    path: str | None = None


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """One model."""

    chip: str
    cores: int
    signature: Signature
    picture: PictureModel

    @classmethod
    def of(cls, model: Model | Bundle) -> ModelInfo:
        """Read a model's card off it."""
        if isinstance(model, Bundle):
            chip = chip_named(model.target)
            return cls(chip.name, chip.cores, signature_of(model), PictureModel((), (), 1, "rgb"))
        picture = PictureModel(model.inputs, model.outputs, model.batch_size, _order(model))
        return cls(model.chip.name, model.chip.cores, Signature.of(model), picture)

    @property
    def platform(self) -> str:
        """The platform that clients see: "rknn_rk3588", in parts "rknnz_rk3588"."""
        return f"{'rknnz' if self.signature.is_parted else 'rknn'}_{self.chip}"

    def as_json(self) -> dict[str, Any]:
        """For the way to the server."""
        signature = self.signature
        return {
            "chip": self.chip,
            "cores": self.cores,
            "batch": signature.batch,
            "is_dynamic": signature.is_dynamic,
            "answer_elements": signature.answer_elements,
            "is_parted": signature.is_parted,
            "open_elements": signature.open_elements,
            "inputs": [port.as_json() for port in signature.inputs],
            "outputs": [port.as_json() for port in signature.outputs],
            "allowed": [[[name, list(shape)] for name, shape in entry.items()] for entry in signature.allowed],
            "order": self.picture.order,
            "picture_batch": self.picture.batch_size,
            "picture_inputs": [_spec_json(spec) for spec in self.picture.inputs],
            "picture_outputs": [_spec_json(spec) for spec in self.picture.outputs],
        }

    @classmethod
    def from_json(cls, words: Mapping[str, Any]) -> ModelInfo:
        """What a worker says. A hostile model may have taken it over: every value is checked."""
        try:
            return cls._from_json(words)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise FormatError("the worker described its model in a form that cannot be") from None

    @classmethod
    def _from_json(cls, words: Mapping[str, Any]) -> ModelInfo:
        signature = Signature(
            [_port(entry) for entry in _listed(words["inputs"])],
            [_port(entry) for entry in _listed(words["outputs"])],
            [{_name(name): _shape(shape, 1) for name, shape in _listed(entry)} for entry in _listed(words["allowed"])],
            batch=_number(words["batch"], 1),
            is_dynamic=bool(words["is_dynamic"]),
            answer_elements=_number(words["answer_elements"], 0),
            is_parted=bool(words["is_parted"]),
            open_elements=_number(words["open_elements"], 0),
        )
        if not signature.allowed:
            raise ValueError
        picture = PictureModel(
            tuple(_spec(entry) for entry in _listed(words["picture_inputs"])),
            tuple(_spec(entry) for entry in _listed(words["picture_outputs"])),
            _number(words["picture_batch"], 0),
            "bgr" if words["order"] == "bgr" else "rgb",
        )
        return cls(_name(words["chip"]), _number(words["cores"], 1), signature, picture)


def _order(model: Model) -> str:
    try:
        return "bgr" if input_reports(model)[0].calibrated_as_bgr else "rgb"
    except (RknnError, IndexError):
        return "rgb"


def _spec_json(spec: TensorSpec) -> dict[str, Any]:
    scale = spec.quantization
    return {
        "name": spec.name,
        "shape": list(spec.shape),
        "dtype": spec.dtype,
        "layout": spec.layout,
        "is_image": spec.is_image,
        "quantization": None if scale is None else [float(scale.scale[0]), int(scale.zero_point[0])],
    }


def _spec(words: Mapping[str, Any]) -> TensorSpec:
    given = words["quantization"]
    scale = None if given is None else Quantization((float(given[0]),), (int(given[1]),))
    return TensorSpec(
        name=_name(words["name"]),
        shape=_shape(words["shape"], 0),
        dtype=_name(words["dtype"]),
        layout=_name(words["layout"]),
        quantization=scale,
        is_image=bool(words["is_image"]),
    )


def _port(words: Mapping[str, Any]) -> Port:
    if words["datatype"] not in DATATYPES:
        raise ValueError
    return Port(_name(words["name"]), words["datatype"], _shape(words["shape"], -1))


def _listed(value: object) -> list[Any]:
    if not isinstance(value, list) or len(value) > _MOST_PORTS:
        raise ValueError
    return value


def _name(value: object) -> str:
    if not isinstance(value, str) or len(value) > _MOST_NAME:
        raise ValueError
    return value


def _number(value: object, least: int) -> int:
    if type(value) is not int or not least <= value < _MOST_ELEMENTS:
        raise ValueError
    return value


def _shape(value: object, least: int) -> tuple[int, ...]:
    sizes = tuple(_number(size, least) for size in _listed(value))
    if len(sizes) > _MOST_RANK or math.prod(map(abs, sizes)) >= _MOST_ELEMENTS:
        raise ValueError
    return sizes
