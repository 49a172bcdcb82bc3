"""`openrknn.torch.compile`: a module exported and compiled before it is used; the result is a callable and a file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as trees

from openrknn.closing import Closing
from openrknn.compiler.errors import OptionError
from openrknn.compiler.importer.formats.pytorch.exported import quiet
from openrknn.errors import RknnError
from openrknn.partition import Parted
from openrknn.torch.constants import of_array, to_array
from openrknn.torch.errors import LOG, ExportError, NotSavableError
from openrknn.torch.examples import flat_examples
from openrknn.torch.export import model_of
from openrknn.torch.graph import CompiledGraph
from openrknn.torch.options import TorchOptions


def compile_module(
    module: Any, example_inputs: Sequence[Any] | Any = (), example_keywords: Mapping[str, Any] | None = None, *,
    dynamic_shapes: Any = None, **options: Any,
) -> CompiledModule:  # fmt: skip
    """Export a module (`torch.export`), and compile it for the shapes of the example inputs.

    `module` may be an `ExportedProgram` too. `dynamic_shapes` is what `torch.export.export` takes; `options` are those
    of `TorchOptions`. The module is exported as in `eval()`.
    """
    chosen = TorchOptions.of(options)
    if isinstance(chosen.calibrate, int):
        raise OptionError("calibrate takes example inputs here; a number of calls is for torch.compile")
    arguments = (example_inputs,) if isinstance(example_inputs, torch.Tensor) else tuple(example_inputs)
    program = _exported(module, arguments, dict(example_keywords or {}), dynamic_shapes)
    made = CompiledModule(program, chosen, is_dynamic=dynamic_shapes is not None)
    if chosen.free_parameters and isinstance(module, torch.nn.Module):
        made.keep_only_needed()
        module.to("meta")
    return made


class CompiledModule(Closing):
    """Called like the module: arguments, keywords and results keep their structure."""

    def __init__(self, program: Any, options: TorchOptions, *, is_dynamic: bool = False) -> None:
        self.options = options
        self._in_spec, self._out_spec = program.call_spec.in_spec, program.call_spec.out_spec
        self._ends = _Ends(program)
        self._parted: Parted | None = None
        self._graph: CompiledGraph | None = None
        self._outputs = [_fake(node) for node in program.graph.output_node().args[0]]
        if is_dynamic and not self._ends.written:
            self._parted = _whole(program, options, self._ends, self._calibration())
        if self._parted is None:
            self._graph = self._specialised(program)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Run it."""
        given = self._flat(arguments, keywords)
        if self._parted is not None:
            found = self._parted.run({name: to_array(given[at]) for name, at in self._ends.feeds(self._parted)})
            outputs = self._ends.outputs(lambda number: of_array(found[f"output{number}"], None), self._outputs)
        else:
            assert self._graph is not None
            outputs = self._ends.write_back(self._graph(*self._ends.inputs(given)))
        return trees.tree_unflatten(outputs, self._out_spec)

    @property
    def parted(self) -> Any:
        """The one `Parted` that the module became; None if PyTorch has a share in it."""
        if self._parted is not None:
            return self._parted
        assert self._graph is not None
        shares = [share for program in self._graph.programs for share in program.shares]
        return shares[0].parted if len(shares) == 1 and shares[0].kind == "parted" else None

    def report(self) -> str:
        """What runs where, in words."""
        from openrknn.torch.graph import plan_lines

        return "\n".join(plan_lines(self._parted)) if self._graph is None else self._graph.report()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one file with all parts; `openrknn.Session` opens it on boards that have no PyTorch."""
        if self.parted is None:
            raise NotSavableError(
                "parts of this module run in PyTorch, so that a file cannot hold all of it. report() says which and "
                "why; export without them"
            )
        self.parted.save(path)

    def close(self) -> None:
        """Give everything back."""
        for one in (self._parted, self._graph):
            if one is not None:
                one.close()

    def keep_only_needed(self) -> None:
        """Let go of the parameters that the parts have: only what runs in PyTorch keeps its own."""
        needed = set() if self._graph is None else {at for one in self._graph.programs for at in one.needed()}
        self._ends.keep(needed)
        if self._graph is not None:
            self._graph.forget_parameters()

    def _specialised(self, program: Any) -> CompiledGraph:
        """For the shapes of each call; those of the examples are compiled now."""
        ends = self._ends
        flat = [[*ends.inputs(self._flat(*one))] for one in flat_examples(self.options.calibrate or ())]
        graph = CompiledGraph(program.graph_module, ends.constants, self.options, lambda _: flat, name="module")
        arguments, keywords = program.example_inputs
        graph.prepare(ends.inputs(self._flat(arguments, keywords)))
        return graph

    def _calibration(self) -> list[dict[str, Any]] | None:
        if self.options.calibrate is None:
            return None
        found = []
        for one in flat_examples(self.options.calibrate):
            given = self._flat(*one)
            found.append({f"input{at}": to_array(value) for at, value in enumerate(given) if _is_tensor(value)})
        return found

    def _flat(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> list[Any]:
        flat, spec = trees.tree_flatten((tuple(arguments), dict(keywords)))
        if spec != self._in_spec:
            reordered = _in_order(keywords, self._in_spec)
            flat, spec = trees.tree_flatten((tuple(arguments), reordered))
        if spec != self._in_spec:
            raise TypeError(
                f"the module was compiled for arguments like {self._in_spec}, and is called with {spec}; give the same "
                "ones, in the same structure"
            )
        return list(flat)


class _Ends:
    """Where the inputs and outputs of an exported program are: parameters, the user's, and what it writes to."""

    def __init__(self, program: Any) -> None:
        from torch.export.graph_signature import InputKind, OutputKind

        signature = program.graph_signature
        self._values: list[Any] = []
        self._user: list[int] = []
        self.constants: list[int] = []
        for at, spec in enumerate(signature.input_specs):
            if spec.kind == InputKind.USER_INPUT:
                self._user.append(at)
                self._values.append(None)
                continue
            held = program.state_dict if spec.target in program.state_dict else program.constants
            value = held.get(spec.target)
            self._values.append(value.detach() if _is_tensor(value) else value)
            if _is_tensor(value):
                self.constants.append(at)
        targets = {spec.target: at for at, spec in enumerate(signature.input_specs) if spec.target}
        names = {getattr(spec.arg, "name", ""): at for at, spec in enumerate(signature.input_specs)}
        self.written: dict[int, int] = {}
        """Output -> the input that it is written to."""
        self._returned: list[int] = []
        for at, spec in enumerate(signature.output_specs):
            if spec.kind == OutputKind.USER_OUTPUT:
                self._returned.append(at)
            elif spec.kind == OutputKind.USER_INPUT_MUTATION:
                self.written[at] = names[spec.target]
            elif spec.target in targets:
                self.written[at] = targets[spec.target]
        self.constants = [at for at in self.constants if at not in self.written.values()]
        self._last: list[Any] = []

    def inputs(self, given: Sequence[Any]) -> list[Any]:
        """All inputs of the graph."""
        values = list(self._values)
        for at, value in zip(self._user, given, strict=True):
            values[at] = value
        self._last = values
        return values

    def write_back(self, found: Sequence[Any]) -> list[Any]:
        """What the user gets, after buffers and inputs have what the graph wrote to them."""
        with torch.no_grad():
            for at, target in self.written.items():
                self._last[target].copy_(found[at])
        return [found[at] for at in self._returned]

    def outputs(self, read: Any, fakes: Sequence[Any]) -> list[Any]:
        """The user's outputs by number; numbers and None are what they were at the export."""
        return [
            read(number).to(fakes[at].dtype) if _is_tensor(fakes[at]) else fakes[at]
            for number, at in enumerate(self._returned)
        ]

    def feeds(self, parted: Parted) -> list[tuple[str, int]]:
        """Inputs by name, and their place among the user's."""
        return [(port.name, int(port.name.removeprefix("input"))) for port in parted.inputs]

    def keep(self, needed: set[int]) -> None:
        """Replace all constants but these by empty ones of the same kind."""
        for at in self.constants:
            if at not in needed:
                self._values[at] = torch.empty_like(self._values[at], device="meta")

    @property
    def users(self) -> int:
        """How many inputs the user gives."""
        return len(self._user)


def _exported(module: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], dynamic_shapes: Any) -> Any:
    if isinstance(module, torch.export.ExportedProgram):
        return module
    trained = [one for one in module.modules() if one.training]
    try:
        module.eval()
        with quiet(), torch.no_grad():
            try:
                return torch.export.export(module, arguments, keywords, dynamic_shapes=dynamic_shapes, strict=False)
            except Exception as error:
                raise ExportError(
                    f"torch.export cannot export this module: {type(error).__name__}: {error}. torch.compile(module, "
                    'backend="openrknn") runs the parts that it can'
                ) from error
    finally:
        for one in trained:
            one.training = True


def _whole(program: Any, options: TorchOptions, ends: _Ends, calibration: Any) -> Parted | None:
    """All of the program with open dimensions; None if that cannot be."""
    try:
        model = model_of(program, ends.users)
        return Parted(model, options.partition(calibration))
    except (RknnError, ValueError, RuntimeError) as error:
        LOG.warning("open dimensions: %s; each set of shapes is compiled by itself", error)
        return None


def _in_order(keywords: Mapping[str, Any], spec: Any) -> dict[str, Any]:
    """Keywords in the order of the export."""
    names = spec.children()[1].context if hasattr(spec, "children") and callable(spec.children) else ()
    return {name: keywords[name] for name in names if name in keywords} | dict(keywords)


def _fake(node: Any) -> Any:
    return node.meta.get("val") if hasattr(node, "meta") else node


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)
