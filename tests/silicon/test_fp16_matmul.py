"""A 9 x 9 matrix product in fp16 as an RK3566 printed it (HadySK/rk3566NpuModel, README): 81 numbers.

NumPy prints the shortest decimals that name an fp16 number, so the operands are known to the last bit; the result came
as float32 and was printed with four digits.
"""

from __future__ import annotations

import numpy as np

from openrknn.isa import Precision
from openrknn.npu.blocks import core
from openrknn.npu.blocks.formats import decode, encode
from tests.silicon.test_fp16_convolutions import Shape, configuration

LEFT = """
0.4934 0.593 0.8374 0.646 0.185 0.9985 0.1071 0.558 0.174
0.326 0.559 0.452 0.8706 0.569 0.883 0.1854 0.2874 0.3298
0.38 0.5083 0.5215 0.0937 0.067 0.8047 0.1996 0.1321 0.312
0.944 0.752 0.0684 0.702 0.03464 0.942 0.711 0.135 0.804
0.38 0.6245 0.1705 0.97 0.8877 0.5674 0.7896 0.3716 0.399
0.2262 0.354 0.1283 0.9136 0.01645 0.4502 0.4204 0.7827 0.2234
0.4224 0.7773 0.6304 0.6587 0.6714 0.842 0.9106 0.9917 0.1467
0.9863 0.977 0.8696 0.518 0.4026 0.0738 0.9097 0.9067 0.7974
0.134 0.854 0.0704 0.3423 0.528 0.8887 0.533 0.4807 0.747
"""
RIGHT = """
0.1197 0.2664 0.4314 0.959 0.945 0.6177 0.07947 0.3281 0.5728
0.8115 0.9165 0.852 0.1404 0.8413 0.4426 0.3376 0.3171 0.02785
0.8345 0.1714 0.5684 0.7305 0.2795 0.491 0.3496 0.9756 0.903
0.449 0.79 0.4172 0.6357 0.7803 0.5186 0.4255 0.581 0.664
0.9326 0.6562 0.721 0.2167 0.4905 0.009544 0.46 0.5156 0.1254
0.181 0.3635 0.265 0.1509 0.776 0.2854 0.5127 0.633 0.4575
0.4546 0.3403 0.958 0.5186 0.397 0.953 0.3289 0.404 0.396
0.6777 0.9766 0.508 0.002102 0.2463 0.01982 0.628 0.0977 0.1483
0.4473 0.6763 0.4521 0.372 0.286 0.535 0.603 0.5903 0.421
"""
BOARD = """
2.387 2.512 2.326 1.891 2.799 1.807 1.895 2.471 2.162
2.377 2.625 2.354 1.751 2.787 1.738 1.897 2.381 1.919
1.463 1.475 1.594 1.232 1.863 1.354 1.204 1.671 1.371
2.072 2.789 2.768 2.324 3.385 2.693 1.954 2.412 2.164
2.85 3.16 3.113 2.029 3.084 2.242 2.146 2.461 1.939
1.75 2.361 1.886 1.315 2.041 1.497 1.574 1.514 1.446
3.434 3.578 3.627 2.195 3.373 2.469 2.547 2.812 2.309
3.643 3.742 3.971 2.916 3.469 3.074 2.506 2.965 2.637
2.477 2.926 2.678 1.321 2.623 1.849 2.096 2.121 1.461
"""


def matrix(text: str) -> np.ndarray:
    return np.array([line.split() for line in text.split("\n") if line], np.float64).astype(np.float16)


def printed(values: np.ndarray) -> list[list[str]]:
    return [[f"{value:.4g}" for value in row] for row in values.astype(np.float64).tolist()]


def test_the_board_and_the_software_npu_agree_on_all_81() -> None:
    left, right = matrix(LEFT), matrix(RIGHT)
    shape = Shape(1, 9, 9, 1, 9, 9, 1, 1, 1)
    sums = core.convolve(left.T[:, :, None], right.T[:, None, None, :], configuration(shape), window_sums=False)
    found = decode(encode(sums.accumulators, Precision.FP16), Precision.FP16).reshape(9, 9).T
    assert printed(found) == [line.split() for line in BOARD.split("\n") if line]


def test_sums_in_fp16_would_be_seen() -> None:
    left, right = matrix(LEFT), matrix(RIGHT)
    narrow = np.zeros((9, 9), np.float16)
    for k in range(9):
        narrow += left[:, k, None] * right[None, k]
    board = [line.split() for line in BOARD.split("\n") if line]
    pairs = zip(printed(narrow), board, strict=True)
    assert sum(one != other for rows in pairs for one, other in zip(*rows, strict=True)) > 10
