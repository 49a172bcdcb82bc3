"""PyTorch is an extra: without it these tests are skipped, with the reason."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: openrknn.torch is not checked")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: openrknn.torch is not checked")


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Each test compiles anew, and gets its own warnings."""
    import torch

    from openrknn.torch.errors import forget_warnings

    torch._dynamo.reset()
    forget_warnings()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()
