"""Each test compiles anew, and gets its own warnings."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Nothing of PyTorch's compiler is left from other tests; where PyTorch is missing there is nothing to do."""
    if "torch" not in sys.modules:
        yield
        return
    import torch

    from openrknn.torch.errors import forget_warnings

    torch._dynamo.reset()
    forget_warnings()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()
