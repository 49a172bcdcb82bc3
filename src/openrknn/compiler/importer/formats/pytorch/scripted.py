"""TorchScript: read by PyTorch, and exported by its older exporter, which runs the program on inputs of the shapes."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

from openrknn.compiler.errors import ModelError
from openrknn.compiler.importer.formats.pytorch.exported import quiet, reason_of
from openrknn.compiler.importer.formats.pytorch.widen import widen

Shapes = Mapping[str, Sequence[int]] | Sequence[Sequence[int]]
"""By name, or in the order of the inputs."""
_OPSET = 17


def script_model(torch: Any, source: Any, shapes: Shapes | None) -> Any:
    """The ONNX model for inputs of these shapes. Errors begin after the name of the file."""
    import onnx

    try:
        module = torch.jit.load(source, map_location="cpu").eval()
        arguments = [one for one in module.forward.schema.arguments[1:] if "Tensor" in str(one.type)]
    except (RuntimeError, ValueError, OSError, AttributeError, TypeError, IndexError) as error:
        raise ModelError(f"is not a TorchScript model that PyTorch can read: {reason_of(error)}") from None
    names = [one.name for one in arguments]
    needed = [one.name for one in arguments if not one.has_default_value()]
    sizes = _sizes(names, needed, shapes)
    last: BaseException | None = None
    # The file does not say what kind of numbers an input has: token ids are found out by trying.
    for kind in (torch.float32, torch.int64):
        inputs = tuple(torch.zeros(*size, dtype=kind) for size in sizes.values())
        file = io.BytesIO()
        try:
            with quiet(), torch.no_grad():
                torch.onnx.export(
                    module, inputs, file, dynamo=False, opset_version=_OPSET, input_names=list(sizes)
                )
        except Exception as error:  # noqa: BLE001  (whatever the program raises on zeros)
            last = last or error
            continue
        model = onnx.load_model_from_string(file.getvalue())
        widen(model)
        return model
    assert last is not None
    raise ModelError(
        f"cannot be exported by PyTorch: {reason_of(last)}. Check the shapes, or save the model "
        "with torch.export.save as a .pt2"
    )


def _sizes(names: Sequence[str], needed: Sequence[str], shapes: Shapes | None) -> dict[str, tuple[int, ...]]:
    told = ", ".join(names)
    if not shapes:
        raise ModelError(
            f"is a TorchScript model, which does not say the shapes of its inputs ({told}). Give them, as in "
            f"`--shapes {names[0] if names else 'x'}=1,3,224,224`"
        )
    if not isinstance(shapes, Mapping):
        if len(shapes) > len(names):
            raise ModelError(f"has {len(names)} inputs ({told}), and {len(shapes)} shapes were given")
        shapes = dict(zip(names, shapes, strict=False))
    given = {one: tuple(int(size) for size in shapes[one]) for one in names if one in shapes}
    unknown = [one for one in shapes if one not in names]
    missing = [one for one in needed if one not in given]
    if unknown or missing:
        what = f"has no input {unknown[0]!r}" if unknown else f"needs the shape of {missing[0]!r}, too"
        raise ModelError(f"{what}; its inputs are {told}")
    return given
