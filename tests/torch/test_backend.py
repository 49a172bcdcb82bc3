"""`torch.compile(model, backend="openrknn")`. The witness is the same module in PyTorch, float."""

from __future__ import annotations

import gc
from typing import Any, NamedTuple

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: its backend is not checked")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: PyTorch's backend is not checked")

import torch

from openrknn.torch.errors import EagerWarning
from openrknn.torch.graph import CompiledGraph, compiled_graphs
from openrknn.torch.options import TorchOptions

pytestmark = pytest.mark.filterwarnings("default")

OPTIONS = {"cache": False, "prefer": "cpu"}
"""The parts in ONNX Runtime: what is tested here is the way to them."""


def compiled(model: Any, **options: Any) -> Any:
    return torch.compile(model, backend="openrknn", options={**OPTIONS, **options})


def close(found: Any, expected: Any, tolerance: float = 1e-4) -> None:
    assert type(found) is type(expected)
    if isinstance(expected, torch.Tensor):
        assert found.dtype == expected.dtype
        torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
    elif isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            close(found[name], value, tolerance)
    elif isinstance(expected, tuple | list):
        for one, other in zip(found, expected, strict=True):
            close(one, other, tolerance)
    else:
        assert found == expected


def graphs() -> list[CompiledGraph]:
    gc.collect()
    return compiled_graphs()


class Net(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3)
        self.norm = torch.nn.BatchNorm2d(8)
        self.head = torch.nn.Linear(8, 5)

    def forward(self, x: Any) -> Any:
        return self.head(self.norm(self.conv(x)).relu().mean((2, 3)))


class Pair(NamedTuple):
    one: Any
    two: Any


class Many(torch.nn.Module):  # type: ignore[misc]
    """Dicts, None, tuples, numbers, integers, keywords."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(10, 4)
        self.line = torch.nn.Linear(4, 4)

    def forward(self, ids: Any, pair: Any, *, scale: float = 1.0, mask: Any = None) -> Any:
        x = self.line(self.table(ids)) * scale
        values, places = torch.topk(x, 2, dim=-1)
        if mask is not None:
            x = x.masked_fill(mask[..., None], 0)
        return {"x": x, "none": None, "top": (values, places), "same": ids, "size": ids.shape[1],
                "pair": Pair(pair[0] + pair[1], pair[1])}  # fmt: skip


class Counter(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.line = torch.nn.Linear(4, 4)
        self.register_buffer("count", torch.zeros(1))
        self.register_buffer("cache", torch.zeros(3, 4))

    def forward(self, x: Any, at: int = 0) -> Any:
        y = self.line(x)
        self.count += 1
        self.cache[1] = y[0]
        return self.line(y + self.cache[1]) + self.count


@torch.no_grad()  # type: ignore[untyped-decorator]
def test_a_net_runs_and_is_one_graph() -> None:
    model = Net().eval()
    fast = compiled(model)
    x = torch.randn(1, 3, 12, 12)
    close(fast(x), model(x))
    close(fast(2 * x), model(2 * x))
    (graph,) = graphs()
    (program,) = graph.programs
    assert [share.kind for share in program.shares] == ["parted"]
    assert len(program.bound) == 8  # parameters and running statistics
    assert "1x3x12x12" in graph.report()


@torch.no_grad()  # type: ignore[untyped-decorator]
def test_structures_of_arguments_and_results_stay() -> None:
    model = Many().eval()
    fast = compiled(model)
    ids, pair = torch.tensor([[1, 2, 9]]), (torch.ones(2), torch.arange(2.0))
    close(fast(ids, pair), model(ids, pair))
    mask = torch.tensor([[True, False, True]])
    close(fast(ids, pair, scale=2.0, mask=mask), model(ids, pair, scale=2.0, mask=mask))


@torch.no_grad()  # type: ignore[untyped-decorator]
def test_other_shapes_are_compiled_anew_and_right() -> None:
    model = Net().eval()
    fast = compiled(model)
    for size in (12, 9, 15):
        x = torch.randn(2, 3, size, size + 1)
        close(fast(x), model(x))


@torch.no_grad()  # type: ignore[untyped-decorator]
def test_too_many_shapes_run_in_pytorch() -> None:
    model = Net().eval()
    fast = torch.compile(model, backend="openrknn", dynamic=True, options={**OPTIONS, "max_shapes": 1})
    x = torch.randn(2, 3, 12, 14)
    close(fast(x), model(x))
    other = torch.randn(2, 3, 11, 14)
    with pytest.warns(EagerWarning, match="more than 1 sets of input shapes"):
        close(fast(other), model(other))


@torch.no_grad()  # type: ignore[untyped-decorator]
def test_buffers_that_the_model_writes_stay_in_pytorch() -> None:
    model, twin = Counter().eval(), Counter().eval()
    twin.load_state_dict(model.state_dict())
    fast = compiled(model)
    for _ in range(3):
        x = torch.randn(2, 4)
        close(fast(x), twin(x))
    close(dict(model.state_dict()), dict(twin.state_dict()))
    assert model.count.item() == 3
    (graph,) = graphs()
    assert len(graph.programs) == 1
    assert {"parted", "torch"} == {share.kind for share in graph.programs[0].shares}


@torch.no_grad()  # type: ignore[untyped-decorator]
def test_inputs_written_in_place_and_views_of_them() -> None:
    line = torch.nn.Linear(4, 4)

    def program(x: Any) -> Any:
        y = line(x)
        x.add_(1)
        return y, x.t(), line(x)

    fast = compiled(program)
    x = torch.randn(4, 4)
    twin = x.clone()
    found, expected = fast(x), program(twin)
    close(found, expected)
    close(x, twin)
    x.zero_()
    assert not found[1].any()  # a view, as in PyTorch


@torch.no_grad()  # type: ignore[untyped-decorator]
def test_in_place_operators_inside_are_exported() -> None:
    line = torch.nn.Linear(4, 4)

    def program(x: Any) -> Any:
        y = line(x)
        y += 1
        y[:, 0] = 3
        return torch.nn.functional.relu(y, inplace=True)

    x = torch.randn(4, 4)
    close(compiled(program)(x), program(x))
    assert [share.kind for share in graphs()[0].programs[0].shares] == ["parted"]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
@torch.no_grad()  # type: ignore[untyped-decorator]
def test_half_models_keep_their_types(dtype: str) -> None:
    model = Net().eval().to(getattr(torch, dtype))
    x = torch.randn(1, 3, 12, 12).to(getattr(torch, dtype))
    close(compiled(model)(x), model(x), 0.05)


@torch.no_grad()  # type: ignore[untyped-decorator]
def test_strides_and_memory() -> None:
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 1), torch.nn.ReLU()).eval()
    fast = compiled(model)
    x = torch.randn(1, 6, 6, 3).permute(0, 3, 1, 2)  # channels last
    first = fast(x)
    close(first, model(x))
    assert first.stride() == model(x).stride()
    kept = first.clone()
    fast(-x)
    close(first, kept)  # not written by the second run


def test_changed_parameters_are_never_forgotten() -> None:
    model = Net().eval()
    x = torch.randn(1, 3, 12, 12)
    with torch.no_grad():
        fast = compiled(model)
        close(fast(x), model(x))
        model.head.weight.mul_(3)
        close(fast(x), model(x))
        model.load_state_dict(Net().state_dict())
        close(fast(x), model(x))
        model.head.weight.data = torch.zeros(5, 8)
        close(fast(x), model(x))
        model.head.bias = torch.nn.Parameter(torch.ones(5))
        close(fast(x), model(x))


def test_writes_through_data_are_seen_by_content() -> None:
    model = Net().eval()
    x = torch.randn(1, 3, 12, 12)
    with torch.no_grad():
        fast = compiled(model, watch="content")
        close(fast(x), model(x))
        model.head.weight.data.mul_(3)
        close(fast(x), model(x))


@torch.no_grad()  # type: ignore[untyped-decorator]
def test_two_modules_of_one_class_keep_their_own_parameters() -> None:
    one, two = Net().eval(), Net().eval()
    x = torch.randn(1, 3, 12, 12)
    for model in (one, two, one):
        close(compiled(model)(x), model(x))


def test_gradients_run_in_pytorch_with_one_warning() -> None:
    model = Net()
    fast = compiled(model)
    x = torch.randn(2, 3, 12, 12)
    with pytest.warns(EagerWarning, match="inference_mode"):
        fast(x).sum().backward()
    assert model.head.weight.grad is not None
    assert not graphs()


def test_inference_can_be_insisted_on() -> None:
    model = Net().eval()
    x = torch.randn(1, 3, 12, 12)
    found = compiled(model, inference=True)(x)
    assert not found.requires_grad
    close(found, model(x).detach())


def test_inference_mode() -> None:
    with torch.inference_mode():
        model = Net().eval()
        fast = compiled(model)
        x = torch.randn(1, 3, 12, 12)
        close(fast(x), model(x))
        assert "npu" in compiled_graphs()[-1].report()
        model.head.weight.mul_(2)  # such tensors have no counter
        close(fast(x), model(x))


@torch.no_grad()  # type: ignore[untyped-decorator]
def test_training_mode_runs_in_pytorch() -> None:
    model = Net().train()
    with pytest.warns(EagerWarning, match="training mode"):
        compiled(model)(torch.randn(2, 3, 12, 12))


def test_unknown_options_are_named() -> None:
    with pytest.raises(Exception, match=r"no option 'precison'.*did you mean precision.*target, device"):
        compiled(Net().eval(), precison="int8", inference=True)(torch.randn(1, 3, 12, 12))
    with pytest.raises(Exception, match=r"option of openrknn\.torch\.compile"):
        compiled(Net().eval(), free_parameters=True)(torch.randn(1, 3, 12, 12))


@torch.no_grad()  # type: ignore[untyped-decorator]
def test_what_onnx_does_not_have_stays_in_pytorch() -> None:
    @torch.library.custom_op("openrknn_test::flip", mutates_args=())  # type: ignore[untyped-decorator]
    def flip(x: torch.Tensor) -> torch.Tensor:
        return x.flip(-1)

    flip.register_fake(torch.empty_like)
    one, two = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def program(x: Any) -> Any:
        return two(flip(one(x)))

    x = torch.randn(2, 4)
    close(compiled(program)(x), program(x))
    (graph,) = graphs()
    assert [share.kind for share in graph.programs[0].shares] == ["parted", "torch", "parted"]
    assert "flip is an operator of its own" in graph.report()


@torch.no_grad()  # type: ignore[untyped-decorator]
def test_what_the_exporter_refuses_is_found_by_halving(monkeypatch: pytest.MonkeyPatch) -> None:
    from openrknn.torch import export
    from openrknn.torch import program as inner
    from openrknn.torch.errors import ExportError

    real = export.exported_model

    def picky(module: Any, inputs: Any) -> Any:
        if any("cumsum" in str(node.target) for node in module.graph.nodes):
            raise ExportError("no cumsum today")
        return real(module, inputs)

    monkeypatch.setattr(inner, "exported_model", picky)
    one, two = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def program(x: Any) -> Any:
        parts = one(x).split([1, 3], -1)
        y = torch.cat([parts[0], parts[1].relu()], -1).cumsum(0)
        return two(y) + x.size(0), parts[1]

    x = torch.randn(2, 4)
    close(compiled(program)(x), program(x))
    (graph,) = graphs()
    eager = [share for share in graph.programs[0].shares if share.kind == "torch"]
    assert sum(share.nodes for share in eager) < 4
    assert "no cumsum today" in graph.report()


@torch.no_grad()  # type: ignore[untyped-decorator]
def test_calls_are_collected_for_calibration(monkeypatch: pytest.MonkeyPatch) -> None:
    from openrknn.torch import program as inner

    seen: list[Any] = []

    def parted(model: Any, options: Any) -> Any:
        seen.append(options.calibration)
        raise ValueError("seen")

    monkeypatch.setattr(inner, "Parted", parted)
    model = Net().eval()
    fast = compiled(model, calibrate=2)
    for _ in range(3):
        x = torch.randn(1, 3, 12, 12)
        close(fast(x), model(x))
    assert [sorted(one) for one in seen[0]] == [["input0"], ["input0"]]
    examples = [torch.randn(1, 3, 12, 12), (torch.randn(1, 3, 12, 12),), {"x": torch.randn(1, 3, 12, 12)}]
    seen.clear()
    torch._dynamo.reset()
    compiled(model, calibrate=examples)(x)
    assert len(seen[0]) == 3
    assert (seen[0][0]["input0"] == examples[0].numpy()).all()


class Recurrent(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.layer = getattr(torch.nn, kind)(6, 8, batch_first=True)
        self.head = torch.nn.Linear(8, 3)

    def forward(self, x: Any) -> Any:
        return self.head(self.layer(x)[0])


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_recurrent_layers_reach_the_backend(kind: str) -> None:
    """Dynamo skips them without a word unless its setting allow_rnn is on."""
    model, x = Recurrent(kind).eval(), torch.randn(1, 4, 6)
    torch._dynamo.reset()
    before = {graph.number for graph in graphs()}
    fast = compiled(model)
    with torch.inference_mode():
        close(fast(x), model(x))
    (made,) = [graph for graph in graphs() if graph.number not in before]
    assert [share.kind for share in made.programs[0].shares] == ["parted"]


def test_a_new_shape_at_every_call_is_not_compiled_at_every_call() -> None:
    """Two sets of shapes are compiled when they come, further ones when they come again."""
    model = torch.nn.Linear(4, 3).eval()
    graph = CompiledGraph(torch.fx.symbolic_trace(model), [], TorchOptions.of(OPTIONS))
    inputs = [torch.ones(1, length, 4) for length in range(1, 7)]
    with pytest.warns(EagerWarning, match="further ones keep coming"):
        found = [graph(x) for x in inputs]
    for x, y in zip(inputs, found, strict=True):
        close(y, model(x).detach())
    assert len(graph.programs) == 2
    graph(torch.ones(1, 6, 4))
    assert len(graph.programs) == 3
