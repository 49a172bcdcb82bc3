"""Stage 5, tile: what does not fit into the NPU's buffers at once is cut into tasks."""

from openrknn.compiler.tile.columns import LONGEST, Axis, Columns, fold
from openrknn.compiler.tile.convolution import Band, Shape, folded, row_entries, tile
from openrknn.compiler.tile.cores import Share, parts, share_bands, shared_parts, shares
from openrknn.compiler.tile.pooling import Rows, Stripe, pool_rows, stripes

__all__ = ["LONGEST", "Axis", "Band", "Columns", "Rows", "Shape", "Share", "Stripe", "fold", "folded", "parts",
           "pool_rows", "row_entries", "share_bands", "shared_parts", "shares", "stripes", "tile"]  # fmt: skip
