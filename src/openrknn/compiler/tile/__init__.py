"""Stage 5, tile: what does not fit into the NPU's buffers at once is cut into tasks."""

from openrknn.compiler.tile.convolution import Band, Shape, row_entries, tile
from openrknn.compiler.tile.cores import Share, parts, share_bands, shares
from openrknn.compiler.tile.pooling import Rows, Stripe, pool_rows, stripes

__all__ = ["Band", "Rows", "Shape", "Share", "Stripe", "parts", "pool_rows", "row_entries", "share_bands", "shares",
           "stripes", "tile"]  # fmt: skip
