"""Orthogonal matrices whose entries are as even as can be: a product with one spreads an outlier over all channels.

Orders that are a Hadamard matrix's get one, built from two constructions and Kronecker products:

    Sylvester   2**a
    Paley       q + 1 for a prime q = 3 (mod 4), 2 * (q + 1) for a prime q = 1 (mod 4)

576 is 36 * 16 (Paley with q = 17, times Sylvester), 896 is 28 * 32, 1536 is 12 * 128, 8960 is 140 * 64. What is left
(an odd order, or one with no such factor, as 92) gets the orthogonal cosine transform of its odd part. The same order
gives the same matrix on every machine.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from openrknn.llm.weights import Floats

Doubles = npt.NDArray[np.float64]


@lru_cache(maxsize=8)
def rotation(order: int) -> Doubles:
    """The orthogonal matrix of this order, read-only."""
    if order < 1:
        raise ValueError(f"a rotation of order {order}: there has to be at least one number to rotate")
    odd = order
    while odd % 2 == 0:
        odd //= 2
    size, core = _core(odd, order // odd)
    made: Doubles = np.kron(core, _sylvester(order // size)) / np.sqrt(order // size)
    made.setflags(write=False)
    return made


LANES = 8
"""Numbers of fp16 that lie together on the NPU."""
_LARGEST_BLOCK = 256


def block_order(size: int) -> int | None:
    """The largest order up to 256 of blocks that rotate so many channels on the NPU, or None."""
    orders = [order for order in range(LANES, _LARGEST_BLOCK + 1, LANES) if size % order == 0 and is_hadamard(order)]
    return orders[-1] if orders else None


def turn_blocks(x: Floats, order: int) -> Floats:
    """The last axis by blocks of channels, each rotated.

    With its channels as lanes of eight in surfaces, the NPU can read a map of size / order times as many pixels and
    order channels instead, without moving anything: block p has every (size / order)-th surface from surface p on.
    """
    blocks = x.shape[-1] // order
    parts = x.reshape(*x.shape[:-1], order // LANES, blocks, LANES).swapaxes(-3, -2)
    turned = parts.reshape(*x.shape[:-1], blocks, order) @ rotation(order).astype(np.float32)
    made: Floats = turned.reshape(*x.shape[:-1], blocks, order // LANES, LANES).swapaxes(-3, -2).reshape(x.shape)
    return made


def is_hadamard(order: int) -> bool:
    """Whether all entries of the rotation have the same magnitude."""
    magnitudes = np.abs(rotation(order))
    return bool(np.allclose(magnitudes, magnitudes[0, 0], rtol=1e-9, atol=0))


def _core(odd: int, power: int) -> tuple[int, Doubles]:
    """(order, orthogonal matrix) of the part that Sylvester's construction cannot make."""
    if odd == 1:
        return 1, np.ones((1, 1))
    factor = 4
    while factor <= power:
        size = odd * factor
        if size % 4 == 0 and _is_prime(size - 1):
            return size, _paley_skew(size - 1) / np.sqrt(size)
        half = size // 2 - 1
        if half % 4 == 1 and _is_prime(half):
            return size, _paley_symmetric(half) / np.sqrt(size)
        factor *= 2
    return odd, _cosine(odd)


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))


def _sylvester(order: int) -> Doubles:
    made = np.ones((1, 1))
    while len(made) < order:
        made = np.block([[made, made], [made, -made]])
    return made


def _residues(prime: int) -> Doubles:
    """Jacobsthal's matrix: whether the difference of row and column is a square modulo the prime."""
    signs = -np.ones(prime)
    signs[np.arange(prime) ** 2 % prime] = 1
    signs[0] = 0
    place = np.arange(prime)
    return np.asarray(signs[(place[:, None] - place) % prime])


def _paley_skew(prime: int) -> Doubles:
    """Of order prime + 1."""
    made = np.ones((prime + 1, prime + 1))
    made[1:, 0] = -1
    made[1:, 1:] = _residues(prime) + np.eye(prime)
    return made


def _paley_symmetric(prime: int) -> Doubles:
    """Of order 2 * (prime + 1)."""
    frame = np.ones((prime + 1, prime + 1))
    frame[0, 0] = 0
    frame[1:, 1:] = _residues(prime)
    diagonal = np.eye(prime + 1)
    return np.asarray(np.kron(frame, [[1.0, 1.0], [1.0, -1.0]]) + np.kron(diagonal, [[1.0, -1.0], [-1.0, -1.0]]))


def _cosine(order: int) -> Doubles:
    row, column = np.arange(order)[:, None], np.arange(order)
    made = np.cos(np.pi * row * (column + 0.5) / order) * np.sqrt(2 / order)
    made[0] /= np.sqrt(2)
    return np.asarray(made)
