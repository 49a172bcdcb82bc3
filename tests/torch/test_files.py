"""`.pt2` and TorchScript files. The witness is the module that they were saved from."""

from __future__ import annotations

import io
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openrknn.compiler.errors import ModelError
from openrknn.compiler.importer.formats.pytorch.archive import kind_of
from openrknn.compiler.importer.read import read_model

pytestmark = pytest.mark.filterwarnings("default")


class Evil:
    def __reduce__(self) -> Any:
        return (print, ("owned",))


def a_zip(**members: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in members.items():
            archive.writestr(name.replace("__", "/"), data)
    return stream.getvalue()


def test_checkpoints_are_told_from_models_without_loading_them() -> None:
    assert kind_of(a_zip(**{"x__data.pkl": pickle.dumps({}, 2)})) == "state"
    assert kind_of(a_zip(**{"x__data.pkl": pickle.dumps(Evil(), 2)})) == "module"
    assert kind_of(a_zip(**{"x__data.pkl": b"cultralytics.nn.tasks\nDetectionModel\n."})) == "ultralytics"
    assert kind_of(b"\x80\x02}.") == "legacy"
    with pytest.raises(ModelError, match=r"parameters only.*torch\.export\.save"):
        read_model(a_zip(**{"x__data.pkl": pickle.dumps({}, 2)}))
    with pytest.raises(ModelError, match="would run the code"):
        read_model(a_zip(**{"x__data.pkl": pickle.dumps(Evil(), 2)}))
    with pytest.raises(ModelError, match=r"yolo export|cannot be exported"):
        read_model(a_zip(**{"x__data.pkl": b"cultralytics.nn.tasks\nDetectionModel\n."}))


def test_damaged_archives_are_refused() -> None:
    for data in (b"PK\x03\x04", b"PK\x03\x04" + bytes(100), a_zip(**{"x__data.pkl": b"\xff\x00"}), a_zip(empty=b"")):
        with pytest.raises(ModelError):
            read_model(data)


def net() -> tuple[Any, Any]:
    import torch

    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU()).eval(), torch.randn(1, 3, 8, 8)


def same(model: Any, module: Any, x: Any) -> None:
    import onnxruntime
    import torch

    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    with torch.no_grad():
        expected = module(x).numpy()
    (found,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_pt2(tmp_path: Path) -> None:
    torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed: .pt2 files are not checked")
    pytest.importorskip("onnxscript", reason="onnxscript is not installed: .pt2 files are not checked")
    module, x = net()
    torch.export.save(torch.export.export(module, (x,)), tmp_path / "net.pt2")
    same(read_model(tmp_path / "net.pt2"), module, x)
    same(read_model((tmp_path / "net.pt2").read_bytes()), module, x)


def test_torchscript_needs_shapes(tmp_path: Path) -> None:
    torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed: TorchScript is not checked")
    pytest.importorskip("onnxscript", reason="onnxscript is not installed: TorchScript is not checked")
    module, x = net()
    path = tmp_path / "net.pt"
    torch.jit.save(torch.jit.trace(module, x), path)
    with pytest.raises(ModelError, match=r"--shapes input=1,3,224,224"):
        read_model(path)
    with pytest.raises(ModelError, match=r"no input 'y'; its inputs are input"):
        read_model(path, shapes={"y": (1, 3, 8, 8)})
    same(read_model(path, shapes={"input": (1, 3, 8, 8)}), module, x)

    import openrknn

    made = openrknn.compile(path, shapes={"input": (1, 3, 8, 8)})
    assert made.inputs[0].shape in {(1, 3, 8, 8), (1, 8, 8, 3)}


def test_torchscript_with_token_ids(tmp_path: Path) -> None:
    torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed: TorchScript is not checked")
    pytest.importorskip("onnxscript", reason="onnxscript is not installed: TorchScript is not checked")
    module = torch.nn.Embedding(10, 4).eval()
    path = tmp_path / "ids.pt"
    torch.jit.save(torch.jit.trace(module, torch.tensor([[1, 2]])), path)
    same(read_model(path, shapes={"input": (1, 2)}), module, torch.tensor([[3, 4]]))
