"""A graph for one set of shapes and parameters: runs of nodes on NPU and CPU, and what stays in PyTorch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from openrknn.closing import Closing
from openrknn.partition import Parted
from openrknn.torch.constants import of_array, to_array
from openrknn.torch.effects import look
from openrknn.torch.errors import LOG, ExportError
from openrknn.torch.export import exported_model, input_name, output_name
from openrknn.torch.options import TorchOptions
from openrknn.torch.segments import Piece, Segment, cut


@dataclass(frozen=True, slots=True)
class Share:
    """What became of a run of nodes."""

    kind: str
    """parted: NPU and CPU parts of `Parted`; torch: PyTorch."""
    nodes: int
    reason: str
    parted: Any = None


class FlatProgram(Closing):
    """Takes and returns flat lists of tensors."""

    def __init__(
        self, module: Any, inputs: Sequence[Any], statics: Mapping[int, Any], options: TorchOptions,
        examples: Sequence[Sequence[Any]] = (),
    ) -> None:  # fmt: skip
        self._module = module
        self._options = options
        self._places = [node for node in module.graph.nodes if node.op == "placeholder"]
        self._output = next(node for node in module.graph.nodes if node.op == "output")
        self.effects = look(module, inputs)
        bound = {
            self._places[number]: value
            for number, value in statics.items()
            if self._places[number] not in self.effects.written
        }
        self.bound = sorted(number for number in statics if self._places[number] in bound)
        """Which inputs are constants now."""
        self._calibration = _Recorder(self._places, examples)
        nodes = [node for node in module.graph.nodes if node.op not in {"placeholder", "output"}]
        self.segments = self._keep_worthy(cut(nodes, self.effects, bound, self._make)) if nodes else []
        self._calibration.forget()
        self.forget()

    @property
    def shares(self) -> list[Share]:
        """What runs where."""
        return [
            Share("torch" if segment.piece is None else "parted", len(segment.nodes), segment.reason, segment.made)
            for segment in self.segments
        ]

    @property
    def is_eager(self) -> bool:
        """Whether nothing is left to do for openrknn."""
        return all(segment.piece is None for segment in self.segments)

    def needed(self) -> set[int]:
        """Inputs that PyTorch still reads: their memory has to stay."""
        eager = {node for segment in self.segments if segment.piece is None for node in segment.nodes}
        eager.add(self._output)
        return {at for at, place in enumerate(self._places) if any(user in eager for user in place.users)}

    def run(self, inputs: Sequence[Any]) -> Any:
        """What the graph returns."""
        if self.is_eager:
            return self._module(*inputs)
        interpreter = torch.fx.Interpreter(self._module, garbage_collect_values=False)
        values: dict[Any, Any] = interpreter.env
        values.update(zip(self._places, inputs, strict=True))
        for segment in self.segments:
            if segment.piece is None:
                for node in segment.nodes:
                    values[node] = interpreter.run_node(node)
            else:
                self._call(segment, values)
        return torch.fx.map_arg(self._output.args[0], lambda node: values[node])

    def give_up(self, reason: str) -> None:
        """All of it runs in PyTorch from now on."""
        nodes = [node for segment in self.segments for node in segment.nodes]
        self.close()
        self.segments = [Segment(nodes, reason=reason)]

    def forget(self) -> None:
        """Let go of the modules that the parts were exported from."""
        for segment in self.segments:
            if segment.piece is not None:
                segment.piece.module = None

    def close(self) -> None:
        """Give the parts back."""
        for segment in self.segments:
            if segment.piece is not None:
                segment.made.close()
        self.segments = []

    def _make(self, piece: Piece) -> Parted:
        examples = [_zeros(_part(self.effects.values[node], path)) for node, path in piece.inputs]
        model = exported_model(piece.module, examples)
        _check_ports(model, piece)
        calibration = self._calibration.feeds(self._module, piece)
        try:
            return Parted(model, self._options.partition(calibration))
        except Exception as error:  # ONNX Runtime has a class for each of its codes
            raise ExportError(f"{type(error).__name__}: {error}") from error

    def _keep_worthy(self, segments: list[Segment]) -> list[Segment]:
        """A run of which nothing goes to the NPU stays in PyTorch, where its parameters are already."""
        for segment in segments:
            plans = getattr(segment.made, "plans", None)
            if segment.piece is not None and plans and self._options.prefer != "cpu":
                parts = [part for plan in plans for part in plan.parts]
                if parts and all(part.kind != "npu" for part in parts):
                    segment.made.close()
                    segment.piece = segment.made = None
                    segment.reason = "nothing of it is worth moving to the NPU"
        return segments

    @staticmethod
    def _call(segment: Segment, values: dict[Any, Any]) -> None:
        piece = segment.piece
        assert piece is not None
        feed = {
            input_name(number): to_array(_part(values[node], path)) for number, (node, path) in enumerate(piece.inputs)
        }
        found = segment.made.run(feed)
        tensors = {
            place: of_array(found[output_name(number)], fake)
            for number, (place, fake) in enumerate(zip(piece.outputs, piece.fakes, strict=True))
        }
        for node, path in piece.outputs:
            if not path:
                values[node] = tensors[node, path]
        for node, constant in piece.constants.items():
            values[node] = _rebuilt(node, constant, (), tensors)


class _Recorder:
    """Calibration data of a piece: what reaches it when the graph runs on the example inputs."""

    def __init__(self, places: Sequence[Any], examples: Sequence[Sequence[Any]]) -> None:
        self._examples = list(examples)
        self._places = places

    def feeds(self, module: Any, piece: Piece) -> list[dict[str, Any]] | None:
        """By name of the piece's inputs; None without examples."""
        if not self._examples:
            return None
        found = []
        wanted = {node for node, _ in piece.inputs}
        for example in self._examples:
            copies = [one.clone() if isinstance(one, torch.Tensor) else one for one in example]
            values = dict(zip(self._places, copies, strict=True))
            if not wanted <= values.keys():
                interpreter = torch.fx.Interpreter(module, garbage_collect_values=False)
                with torch.no_grad():
                    interpreter.run(*copies)
                values = interpreter.env
            found.append(
                {input_name(at): to_array(_part(values[node], path)) for at, (node, path) in enumerate(piece.inputs)}
            )
        return found

    def forget(self) -> None:
        """The examples are not needed any more."""
        self._examples = []


def _part(value: Any, path: Sequence[int]) -> Any:
    for at in path:
        value = value[at]
    return value


def _rebuilt(node: Any, value: Any, path: tuple[int, ...], tensors: Mapping[Any, Any]) -> Any:
    """A value with real tensors in the places of fake ones."""
    if isinstance(value, torch.Tensor):
        return tensors[node, path]
    if isinstance(value, tuple | list) and not isinstance(value, torch.Size):
        return tuple(_rebuilt(node, one, (*path, at), tensors) for at, one in enumerate(value))
    return value


def _zeros(fake: Any) -> Any:
    """The exporter wants memory, and looks at shapes and types only."""
    return torch.empty_strided(fake.shape, fake.stride(), dtype=fake.dtype, device="cpu").zero_()


def _check_ports(model: Any, piece: Piece) -> None:
    """The exporter may drop or add what it likes; the names have to be those that we feed and read."""
    given = {entry.name for entry in model.graph.input}
    made = {entry.name for entry in model.graph.output}
    expected = {output_name(number) for number in range(len(piece.outputs))}
    unknown = given - {input_name(number) for number in range(len(piece.inputs))}
    if unknown or not expected <= made:
        LOG.debug("exported with inputs %s and outputs %s", sorted(given), sorted(made))
        raise ExportError("the exported model has other inputs or outputs than the graph")
