"""The intermediate form of the compiler: `Graph`, its text, and the difference of two."""

from openrknn.compiler.ir.graph import Array, Graph, Op, Quantization, Value
from openrknn.compiler.ir.text import diff_graphs, format_graph

__all__ = ["Array", "Graph", "Op", "Quantization", "Value", "diff_graphs", "format_graph"]
