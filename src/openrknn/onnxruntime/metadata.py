"""What a model says about itself, in ONNX Runtime's words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from openrknn.partition import Port
from openrknn.partition.ports import element_word

_SINCE_VERSION_4 = 4
"""Of the format: initializers need not be inputs, so those that are may be given."""


@dataclass(slots=True)
class ModelMetadata:
    """As `onnxruntime.ModelMetadata`, which has no constructor."""

    producer_name: str = ""
    graph_name: str = ""
    domain: str = ""
    description: str = ""
    graph_description: str = ""
    version: int = 0
    custom_metadata_map: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, model: Any) -> ModelMetadata:
        """Of an `onnx.ModelProto`."""
        return cls(
            producer_name=model.producer_name,
            graph_name=model.graph.name,
            domain=model.domain,
            description=model.doc_string,
            graph_description=model.graph.doc_string,
            version=model.model_version if model.HasField("model_version") else 2**63 - 1,
            custom_metadata_map={entry.key: entry.value for entry in model.metadata_props},
        )


def overridable(model: Any) -> list[Port]:
    """Inputs that have a value in the model."""
    if model.ir_version < _SINCE_VERSION_4:
        return []
    values = {entry.name: entry for entry in model.graph.initializer}
    return [
        Port(entry.name, f"tensor({element_word(values[entry.name].data_type)})", tuple(values[entry.name].dims))
        for entry in model.graph.input
        if entry.name in values
    ]
