"""`openrknn.torch.compile`: export ahead of time. The witness is the same module in PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: openrknn.torch.compile is not checked")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: openrknn.torch.compile is not checked")

import torch

import openrknn.torch
from openrknn.compiler.errors import OptionError
from openrknn.torch.errors import NotSavableError
from tests.torch.test_backend import Counter, Many, Net, close

pytestmark = pytest.mark.filterwarnings("default")


@torch.no_grad()  # type: ignore[untyped-decorator]
def test_a_module_becomes_a_callable_and_a_file(tmp_path: Path) -> None:
    from openrknn import Session

    model = Net().eval()
    x = torch.randn(1, 3, 12, 12)
    made = openrknn.torch.compile(model, (x,), prefer="npu", cache=False)
    close(made(x), model(x), 0.01)
    assert any(part.kind == "npu" for plan in made.parted.plans for part in plan.parts)
    assert "npu" in made.report()
    made.save(tmp_path / "net.zip")
    with Session(tmp_path / "net.zip") as session:
        found = session.run({"input0": x.numpy()})
    close(torch.from_numpy(found["output0"]), model(x), 0.01)


@torch.no_grad()  # type: ignore[untyped-decorator]
def test_structures_stay(tmp_path: Path) -> None:
    model = Many().eval()
    ids, pair = torch.tensor([[1, 2, 9]]), (torch.ones(2), torch.arange(2.0))
    mask = torch.tensor([[True, False, True]])
    made = openrknn.torch.compile(model, (ids, pair), {"scale": 2.0, "mask": mask}, prefer="cpu", cache=False)
    close(made(ids, pair, mask=mask, scale=2.0), model(ids, pair, scale=2.0, mask=mask))
    with pytest.raises(TypeError, match="compiled for arguments like"):
        made(ids)


@torch.no_grad()  # type: ignore[untyped-decorator]
def test_open_dimensions() -> None:
    model = Net().eval()
    x = torch.randn(2, 3, 12, 12)
    made = openrknn.torch.compile(
        model, (x,), dynamic_shapes={"x": {0: torch.export.Dim("batch")}}, prefer="cpu", cache=False
    )
    for count in (2, 3, 5):
        x = torch.randn(count, 3, 12, 12)
        close(made(x), model(x))


@torch.no_grad()  # type: ignore[untyped-decorator]
def test_buffers_are_written_back() -> None:
    model, twin = Counter().eval(), Counter().eval()
    twin.load_state_dict(model.state_dict())
    x = torch.randn(2, 4)
    made = openrknn.torch.compile(model, (x,), prefer="cpu", cache=False)
    for _ in range(3):
        close(made(x), twin(x))


def test_modules_in_training_are_exported_as_in_use_and_stay_as_they_were() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5))
    x = torch.ones(1, 4)
    made = openrknn.torch.compile(model, (x,), prefer="cpu", cache=False)
    assert model.training
    assert model[1].training
    close(made(x), model.eval()(x).detach())


@torch.no_grad()  # type: ignore[untyped-decorator]
def test_parameters_are_not_kept_twice() -> None:
    model = Net().eval()
    x = torch.randn(1, 3, 12, 12)
    expected = model(x)
    made = openrknn.torch.compile(model, (x,), free_parameters=True, prefer="cpu", cache=False)
    assert all(one.is_meta for one in model.parameters())
    close(made(x), expected)


@torch.no_grad()  # type: ignore[untyped-decorator]
def test_what_stays_in_pytorch_cannot_be_saved(tmp_path: Path) -> None:
    @torch.library.custom_op("openrknn_test::twice", mutates_args=())  # type: ignore[untyped-decorator]
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    twice.register_fake(torch.empty_like)

    class Odd(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.line = torch.nn.Linear(4, 4)

        def forward(self, x: Any) -> Any:
            return self.line(twice(self.line(x)))

    model = Odd().eval()
    x = torch.randn(2, 4)
    made = openrknn.torch.compile(model, x, prefer="cpu", cache=False)
    close(made(x), model(x))
    with pytest.raises(NotSavableError, match="run in PyTorch"):
        made.save(tmp_path / "odd.zip")


def test_options_are_checked() -> None:
    with pytest.raises(OptionError, match="no option 'targt'"):
        openrknn.torch.compile(Net(), (torch.zeros(1, 3, 12, 12),), targt="rk3588")
    with pytest.raises(OptionError, match="number of calls is for"):
        openrknn.torch.compile(Net(), (torch.zeros(1, 3, 12, 12),), calibrate=3)
