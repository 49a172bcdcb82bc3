"""What a network of Caffe has to be fed with, and its shapes."""

from __future__ import annotations

from openrknn.compiler.errors import ModelError
from openrknn.compiler.importer.formats.caffe.message import Message

DATA_LAYERS = {"Input", "Data", "DummyData", "HDF5Data", "ImageData", "MemoryData", "WindowData", "AnnotatedData"}


def declared_inputs(net: Message, what: str) -> list[tuple[str, list[int]]]:
    """`input: "data"` with four `input_dim` or an `input_shape` for each."""
    names = net.words("input")
    shapes = [entry.wholes("dim") for entry in net.inners("input_shape")]
    if not shapes:
        numbers = net.wholes("input_dim")
        shapes = [numbers[at : at + 4] for at in range(0, len(numbers), 4)]
    if len(shapes) < len(names) or any(not shape for shape in shapes[: len(names)]):
        raise ModelError(f"{what}: an input has no shape; add four input_dim: lines, or an input_shape, for each")
    return list(zip(names, shapes, strict=False))


def data_shapes(layer: Message, kind: str, count: int) -> list[list[int]]:
    """Of a layer that brings data; files are not looked into."""
    if kind in {"Input", "DummyData"}:
        fields = layer.inner("input_param" if kind == "Input" else "dummy_data_param")
        shapes = [entry.wholes("dim") for entry in fields.inners("shape")]
        if shapes:
            shapes = shapes * count if len(shapes) == 1 else shapes
            if len(shapes) >= count:
                return shapes[:count]
    if kind == "MemoryData":
        fields = layer.inner("memory_data_param")
        sizes = [fields.whole(name, 0, 1) for name in ("batch_size", "channels", "height", "width")]
        if all(sizes):
            return [sizes, [sizes[0]]][:count]
    raise layer.wrong(
        "the shape of its data is not said; take the deploy .prototxt of the network, or put an Input layer with "
        "input_param { shape { dim: 1 dim: 3 dim: 224 dim: 224 } } in its place"
    )
