"""`.rknn` files: read, checked, written.

openrknn.load(path)         Model: everything in the file as typed objects
openrknn.save(model, path)  a Model back into a file
container.check.problems    what does not fit together in it
container.link              the memory image that a loader hands to the NPU
write_atomically            any other file that is there completely or not at all
Graph, Tensor, DataType, Layout     what `Model.graphs` is made of
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openrknn.lazy import lazy_names

if TYPE_CHECKING:
    from openrknn.container.parts import DataType, Graph, Layout, Tensor
    from openrknn.container.save import write_atomically

__all__ = ["DataType", "Graph", "Layout", "Tensor", "write_atomically"]

__getattr__, __dir__ = lazy_names(__name__, {"parts": "DataType Graph Layout Tensor", "save": "write_atomically"})
