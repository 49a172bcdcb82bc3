"""Stage 9, write: the file. `container` knows the format; here is what goes where."""

from openrknn.compiler.write.mini import as_mini, with_pixels
from openrknn.compiler.write.model import Preprocessing, build_model
from openrknn.compiler.write.several import join_models

__all__ = ["Preprocessing", "as_mini", "build_model", "join_models", "with_pixels"]
