"""The look at a graph between two passes: what it must not let through."""

from __future__ import annotations

import pytest

from openrknn.compiler.forms import Conv, Slice
from openrknn.compiler.importer import import_model
from openrknn.compiler.ir import Graph
from openrknn.compiler.normalise import PASSES, normalise
from openrknn.compiler.passes import (
    NO_ORPHANS,
    ONE_RESHAPE,
    ORDERED,
    READY,
    GraphError,
    Pass,
    Property,
    verify_graph,
)
from openrknn.compiler.targets import RK3588
from tests.compiler.nets import Net
from tests.compiler.passes.text import parse_graph

SOUND = """input %x[1,4]
%a[1,4] = Relu(%x)
%y[1,4] = Add(%a, $k[4])
output %y"""


@pytest.mark.parametrize(
    ("line", "instead", "what"),
    [
        ("%a[1,4] = Relu(%x)", "%a[1,5] = Relu(%x)", "makes"),
        ("Add(%a, $k[4])", "Add(%a, $k[3])", "makes"),
        ("Add(%a, $k[4])", "Add(%a, %b)", "which nothing computes"),
        ("%a[1,4] = Relu(%x)", "%a[1,4] = Relu(%x)\n%a[1,4] = Tanh(%x)", "computed 2 times"),
        ("%a[1,4] = Relu(%x)", "%x[1,4] = Relu(%x)\n%a[1,4] = Tanh(%x)", "an input and computed"),
        ("output %y", "output %z", "output 'z' is not computed"),
        ("%a[1,4] = Relu(%x)", "%a[1,4] = Transpose(%x) perm=[1,0]", "makes"),
        ("%a[1,4] = Relu(%x)", "%a[1,4] = Conv(%x, $w[4,3,1,1], $b[4]) kernel=(1,1) strides=(1,1) dilations=(1,1) "
         "pads=(0,0,0,0) group=1", "makes"),
        ("%a[1,4] = Relu(%x)", "%a[1,4] = Conv(%x, $w[4,1,1,1], $b[4]) kernel=(1,1) group=2", "makes"),
    ],
)  # fmt: skip
def test_broken_graphs_are_told(line: str, instead: str, what: str) -> None:
    verify_graph(parse_graph(SOUND), "sound")
    with pytest.raises(GraphError, match=what) as error:
        verify_graph(parse_graph(SOUND.replace(line, instead)), "behind the pass")
    assert "behind the pass" in str(error.value)


@pytest.mark.parametrize(
    ("each", "text"),
    [
        (ORDERED, "input %x[1,4]\n%y[1,4] = Relu(%a)\n%a[1,4] = Tanh(%x)\noutput %y"),
        (NO_ORPHANS, "input %x[1,4]\n%a[1,4] = Tanh(%x)\n%y[1,4] = Relu(%x)\noutput %y"),
        (ONE_RESHAPE, "input %x[1,4]\n%a[4] = Reshape(%x)\n%y[2,2] = Reshape(%a)\noutput %y"),
        (READY, "input %x[1,4]\n%y[1,4] = Relu(%x)\noutput %y"),
    ],
)
def test_properties(each: Property, text: str) -> None:
    verify_graph(parse_graph(text), "without")
    with pytest.raises(GraphError, match=each.text):
        verify_graph(parse_graph(text), "with", [each])


def test_a_form_belongs_to_its_operator() -> None:
    graph = parse_graph("input %x[1,4]\n%y[1,4] = Activation(%x) function=relu\noutput %y")
    verify_graph(graph, "sound")
    graph.ops[0].form = Slice(0)
    with pytest.raises(GraphError, match="has the form of a Slice"):
        verify_graph(graph, "behind the pass")
    with pytest.raises(TypeError, match="Activation 'y' is no normalised Conv"):
        graph.ops[0].get(Conv)


def test_the_pass_that_errs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def lose(graph: Graph, _: object) -> None:
        graph.ops.pop(0)

    net = Net()
    out = net.add("Relu", net.conv("x", 16, 16))
    graph = import_model(net.model({"x": (1, 16, 4, 4)}, [out])).graph
    monkeypatch.setattr("openrknn.compiler.normalise.PASSES", (PASSES[0], Pass("lose", lose), *PASSES[1:]))
    with pytest.raises(GraphError, match="after pass 1 lose"):
        normalise(graph, atom=16, target=RK3588)
