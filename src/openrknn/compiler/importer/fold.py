"""What can be computed before anything is fed: constants, shapes, and operators over them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from openrknn.compiler.errors import ModelError
from openrknn.compiler.importer.evaluate import evaluate, shape_of
from openrknn.compiler.importer.rewrite import FOREIGN_RULES, rewrite
from openrknn.compiler.importer.shapes import infer, known_shapes
from openrknn.compiler.importer.store import Store, constants_of
from openrknn.compiler.ir import Array
from openrknn.compiler.operators import RANDOM
from openrknn.onnxgraph import reads_of

_ROUNDS = 20


def fold(model: Any, *, lenient: bool = False) -> Any:
    """Compute what is constant and infer shapes, until neither finds anything new.

    `lenient`: what cannot be computed, or would be too large, stays an operator.
    """
    store = Store(model)
    for _ in range(_ROUNDS):
        model = infer(model)
        found = _constant_results(model, store.constants, lenient=lenient)
        if not found:
            break
        store.put(model, found)
        del model.graph.value_info[:]
    store.finish(model)
    return model


def simplify(model: Any, seen: Callable[[Any], None] = lambda model: None) -> Any:
    """Say operators with simpler ones (`rewrite`), as long as there are some; `seen` looks before they are folded."""
    for _ in range(_ROUNDS):
        _drop_unread(model)
        if not rewrite(model, constants_of(model), known_shapes(model)):
            break
        seen(model)
        model = fold(model)
    return model


def standard(model: Any) -> Any:
    """The folded model without branches that are decided and without operators of other domains, as far as that goes;
    everything else stays as it is."""
    for _ in range(_ROUNDS):
        if not rewrite(model, constants_of(model), known_shapes(model), FOREIGN_RULES):
            break
        model = fold(model, lenient=True)
    _drop_unread(model)
    return model


def leave_out_empty(model: Any) -> None:
    """Outputs without a single number go (merged decoders have some); if there is no other, they are an error later."""
    empty = {tensor.name for tensor in model.graph.initializer if 0 in tensor.dims}
    kept = [entry for entry in model.graph.output if entry.name not in empty]
    if kept and len(kept) < len(model.graph.output):
        del model.graph.output[:]
        model.graph.output.extend(kept)


def _drop_unread(model: Any) -> None:
    """Nodes whose results are unused (both branches of an If need shapes), and spare outputs of those that stay."""
    while True:
        read = {name for node in model.graph.node for name in reads_of(node)}
        read.update(entry.name for entry in model.graph.output)
        kept = [node for node in model.graph.node if any(name in read for name in node.output)]
        for node in kept:
            # A Split says how many parts it has in other places, too.
            while len(node.output) > 1 and node.output[-1] not in read and node.op_type != "Split":
                node.output.pop()
        if len(kept) == len(model.graph.node):
            return
        del model.graph.node[:]
        model.graph.node.extend(kept)


def _constant_results(model: Any, known: Mapping[str, Array], *, lenient: bool) -> dict[str, Array]:
    constants = dict(known)
    shapes = known_shapes(model)
    outputs = {entry.name for entry in model.graph.output}
    found: dict[str, Array] = {}
    for node in model.graph.node:
        if node.op_type in RANDOM or any(attribute.HasField("g") for attribute in node.attribute):
            continue
        if node.op_type == "Shape" and node.input[0] in shapes:
            values = shape_of(node, shapes[node.input[0]])
        elif all(not name or name in constants for name in node.input) and node.output[0] not in outputs:
            try:
                values = evaluate(model, node, constants, shapes)
            except ModelError:
                if not lenient:
                    raise
                continue
        else:
            continue
        for name, array in zip(node.output, values, strict=False):
            constants[name] = found[name] = array
    return found
