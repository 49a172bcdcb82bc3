"""The same as coco.py for YOLOX, without openrknn.vision: what the NPU writes, decoded by hand.

    python examples/coco_by_hand.py yolox.rknn street.jpg

The NPU keeps a tensor as [N, C1, H, W, C2]: channels in groups of C2, each group a picture of its own, and the last
group filled up. Stored are int8 numbers; value = (stored - zero point) * scale.
"""

from __future__ import annotations

import sys

import numpy as np
from PIL import Image, ImageOps

from openrknn import Session
from openrknn.vision.labels import names_of


def main() -> None:
    """Put the picture on a gray square, run, and walk through the cells of each stride."""
    model, picture = sys.argv[1:]
    with Session(model) as session:
        _, height, width, _ = session.inputs[0].shape
        square = ImageOps.pad(Image.open(picture).convert("RGB"), (width, height), color=(114, 114, 114))
        outputs = session.run(np.asarray(square, np.uint8)[None], outputs="native")
        for spec in session.outputs:
            native, scale = outputs[spec.name], spec.quantization
            assert scale is not None  # the outputs of this file are int8
            n, c1, h, w, c2 = native.shape
            planes = native.transpose(0, 1, 4, 2, 3).reshape(n, c1 * c2, h, w)[0, : spec.shape[1]]  # NC1HWC2 -> CHW
            values = (planes.astype(np.float32) - scale.zero_point[0]) * scale.scale[0]
            scores = values[4] * values[5:].max(axis=0)
            for y, x in np.argwhere(scores >= 0.51):  # sigmoid(0) is 0.502 in int8: 0.5 would let all cells through
                centre = (values[:2, y, x] + (x, y)) * (width / w)
                size = np.exp(values[2:4, y, x]) * (width / w)
                name = names_of("coco")[values[5:, y, x].argmax()]
                print(f"{scores[y, x]:.2f} {name} at {centre.round()} size {size.round()}")


if __name__ == "__main__":
    main()
