"""ONNX models whose images have channels last, with an input of channels first: mean and std are per channel then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from openrknn.models.errors import GettingError

__all__ = ["channels_first"]


def channels_first(path: Path, names: tuple[str, ...] = ()) -> Any:
    """The model with its only input [1, H, W, C] as [1, C, H, W], and a Transpose behind it; `names` of its classes."""
    import onnx

    model = onnx.load(path)
    fed = [entry for entry in model.graph.input if entry.name not in {one.name for one in model.graph.initializer}]
    sizes = [side.dim_value for side in fed[0].type.tensor_type.shape.dim] if len(fed) == 1 else []
    if len(sizes) != 4:
        raise GettingError(f"{path.name}: not a network with one image input; do not use it")
    name, (_, height, width, channels) = fed[0].name, sizes
    model.graph.input.remove(fed[0])
    image = onnx.helper.make_tensor_value_info(f"{name}_image", onnx.TensorProto.FLOAT, [1, channels, height, width])
    model.graph.input.append(image)
    turn = onnx.helper.make_node("Transpose", [image.name], [name], perm=[0, 2, 3, 1], name=f"{name}_channels_last")
    model.graph.node.insert(0, turn)
    if names:
        onnx.helper.set_model_props(model, {"names": repr(dict(enumerate(names))), "task": "classify"})
    return model
