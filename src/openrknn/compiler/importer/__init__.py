"""Stage 1, import: ONNX in, the intermediate form out, with every shape known and every constant folded."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from openrknn.compiler.errors import CompileError, in_terms_of
from openrknn.compiler.float_model import onnx_package
from openrknn.compiler.importer.batch import batch_of, one_item
from openrknn.compiler.importer.build import build_graph
from openrknn.compiler.importer.check import check_sizes
from openrknn.compiler.importer.constants import fix_inputs
from openrknn.compiler.importer.fold import fold, leave_out_empty, simplify
from openrknn.compiler.importer.formats import format_of
from openrknn.compiler.importer.inline import inline_functions
from openrknn.compiler.importer.masks import soften_masks
from openrknn.compiler.importer.qdq import stored_weights
from openrknn.compiler.importer.read import read_model
from openrknn.compiler.importer.shapes import bind_shapes, cut_outputs, find_scores, known_shapes, picture_shape
from openrknn.compiler.importer.types import as_float, refuse_integers, widen_outputs
from openrknn.compiler.ir import Graph
from openrknn.container.metadata import Metadata, read_metadata
from openrknn.errors import InputWarning

__all__ = ["Imported", "import_model"]


@dataclass(frozen=True, slots=True)
class Imported:
    """The graph, and the folded ONNX model that computes the same in float: calibration runs it."""

    graph: Graph
    model: Any
    batch: int = 1
    """Items that the ONNX model takes at once; graph and model are for one of them."""
    known: frozenset[str] = frozenset()
    """Names of operators and values of the model that was given."""
    metadata: Metadata = field(default_factory=Metadata)
    """What the file says about classes and pictures."""
    given: Callable[[], Any] | None = None
    """Reads the model as it was given: shapes are bound and outputs cut, nothing is rewritten."""


def import_model(
    source: str | os.PathLike[str] | bytes | Any,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    outputs: Sequence[str] = (),
    constants: Mapping[str, Any] | None = None,
) -> Imported:
    """Read, fix and bind inputs, cut at `outputs`, fold constants, take one item of a batch, simplify."""
    model = read_model(source, outputs=outputs, shapes=shapes)
    known = {name for node in model.graph.node for name in (node.name, *node.output)}
    known.update(entry.name for entry in model.graph.input)
    metadata, problems = read_metadata({entry.key: entry.value for entry in model.metadata_props})
    for problem in problems:
        warnings.warn(problem, InputWarning, stacklevel=2)
    shapes = {**picture_shape(model, metadata.imgsz), **(shapes or {})}
    if not isinstance(source, onnx_package().ModelProto) and format_of(source) is not None:
        source = onnx_package().ModelProto()  # what another framework's file became: converting it again takes long
        source.CopyFrom(model)
    given = partial(_given, source, shapes, tuple(outputs), constants or {})
    try:
        imported = _imported(model, shapes, outputs, constants or {})
        return replace(imported, known=frozenset(known), metadata=metadata, given=given)
    except CompileError as error:
        in_terms_of(error, known)
        raise


def _given(
    source: Any, shapes: Mapping[str, Sequence[int]], outputs: Sequence[str], constants: Mapping[str, Any]
) -> Any:
    """The model with what the user asked for: inputs that are constants, shapes, outputs."""
    model = read_model(source, outputs=outputs, shapes=shapes)
    _prepare(model, shapes, outputs, constants)
    return model


def _prepare(
    model: Any, shapes: Mapping[str, Sequence[int]], outputs: Sequence[str], constants: Mapping[str, Any]
) -> tuple[set[str], set[str]]:
    fix_inputs(model, constants, shapes)
    bind_shapes(model, {name: shape for name, shape in shapes.items() if name not in constants})
    found = find_scores(model)
    if outputs:
        cut_outputs(model, outputs)
    return found


def _imported(
    model: Any, shapes: Mapping[str, Sequence[int]], outputs: Sequence[str], constants: Mapping[str, Any]
) -> Imported:
    scores, logits = _prepare(model, shapes, outputs, constants)
    as_float(model)
    stored = stored_weights(model)
    folded = fold(model)
    inlined = inline_functions(folded)
    folded = folded if inlined is folded else fold(inlined)
    leave_out_empty(folded)
    check_sizes(known_shapes(folded))
    batch = batch_of(folded)
    mixes = ""
    if batch > 1:
        try:
            folded = one_item(folded, batch)
        except CompileError as error:  # then it is a dimension like any other, as far as that goes
            batch, mixes = 1, str(error)
    folded = simplify(folded, lambda some: stored.update(stored_weights(some)))
    widen_outputs(folded)
    refuse_integers(folded)
    soften_masks(folded)
    graph = build_graph(folded)
    graph.stored = {name: weights for name, weights in stored.items() if name in graph.constants}
    graph.scores, graph.logits, graph.mixes = scores, logits, mixes
    return Imported(graph, folded, batch)
