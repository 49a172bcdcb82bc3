"""What `verify` says about models that went wrong."""

from __future__ import annotations

from openrknn.compiler import compile_model
from openrknn.compiler.verify import verify
from tests.compiler.nets import Net


def test_numbers_beyond_fp16_are_counted_and_never_good() -> None:
    """60000 * 1000 is more than fp16 can hold, though not more than float."""
    net = Net()
    large = net.add("Relu", net.add("Mul", "x", net.constant([60000.0])))
    model = net.model({"x": (1, 16, 8, 8)}, [net.add("Mul", large, net.constant([1000.0]))])
    (verdict,) = verify(compile_model(model))
    assert verdict.distance.overflowed > 100
    assert not verdict.is_good
    assert "numbers are infinite or NaN" in verdict.as_json()["text"]
