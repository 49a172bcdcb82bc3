"""A model on the vendor's kernel driver `rknpu`, without the vendor's library.

On a board: `python3 kernel_driver.py`. Anywhere else: `openrknn exec -- python3 kernel_driver.py`.
"""

from pathlib import Path

import numpy as np

import openrknn

MODEL = Path(__file__).parent / "models" / "efficientnet_lite0_rk3588_i8.rknn"


def main() -> None:
    """Feed a grey picture, and name the strongest class."""
    with openrknn.Session(MODEL, device="rknpu") as session:
        (logits,) = session.run(np.full((1, 224, 224, 3), 128, np.uint8)).values()
    print(f"strongest class of a grey picture: {int(logits.argmax())}")


if __name__ == "__main__":
    main()
