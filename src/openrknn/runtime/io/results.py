"""`Outputs`: what a run gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from openrknn.errors import UnknownNameError
from openrknn.names import meant
from openrknn.runtime.io.tensors import Array

__all__ = ["Outputs"]


class Outputs(dict[str, Array]):
    """The results of a run: a dict, name -> array, in the order of the model, that takes a number as well.

        outputs = session.run(picture)
        outputs["logits"]                       # by name
        outputs[0], outputs[-1]                 # by number
        boxes, scores = outputs.values()        # all of them, in order (a dict itself unpacks to its names)

    It equals a plain dict of the same arrays, and pickles. A name that is not there raises `UnknownNameError` (a
    KeyError) with the names that are, a number that is too large `IndexError`.
    """

    __slots__ = ()

    if TYPE_CHECKING:

        def __getitem__(self, key: str | SupportsIndex) -> Array: ...

    def __missing__(self, key: Any) -> Array:
        """Numbers, and names that are not there: what is found never comes here, so a name costs nothing more."""
        if isinstance(key, int | np.integer):
            if not -len(self) <= key < len(self):
                raise IndexError(f"there is no output {key}; there are {len(self)}: {', '.join(self)}")
            return tuple(self.values())[key]
        raise UnknownNameError(f"no output is called {key!r}; there are {', '.join(self)}{meant(key, self)}")
