"""Convolutions, sums and products of an RV1103, byte for byte: dnhkng/open-rknpu's board tests, from their seeds.

The project wrote its own command programs, ran each on a Luckfox board with 2 to 16 inputs, and compared every byte of
the board with whole-number arithmetic: all were equal. It also published the SHA-256 of the container that its compiler
makes of each model with scale 1 and zero point 0. A rebuilt container with that hash has the board's commands, weights
and layout; with the scale that the board test used it is the one that ran.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.silicon.open_rknpu.arithmetic import convolved
from tests.silicon.open_rknpu.container import Loaded, read
from tests.silicon.open_rknpu.elementwise import expected as both
from tests.silicon.open_rknpu.elementwise import native_elementwise, write_pair
from tests.silicon.open_rknpu.suites import SUITES, Model
from tests.silicon.open_rknpu.writer import quantise, write

LEDGER: dict[str, Any] = json.loads((Path(__file__).parent / "open_rknpu" / "ledger.json").read_text())
PARTS = 8
"""Of each suite: the first is checked always, all of them with `--all`."""


def expected(model: Model, pictures: np.ndarray) -> np.ndarray:
    convolution = model.convolution
    q = quantise(convolution)
    shape = -1, *convolution.size, convolution.weights.shape[1]
    return np.array([convolved(convolution, q, picture) for picture in pictures.reshape(shape)])


@pytest.mark.sample(PARTS)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("suite", SUITES)
def test_all_bytes_are_the_boards(suite: str, part: int) -> None:
    hashes = LEDGER["suites"][suite]["sha256"]
    for number, model in islice(enumerate(SUITES[suite]()), part, None, PARTS):
        plain = write(replace(model.convolution, scale=1.0, zero_point=0, out=None))
        if hashes[number] is None:  # the published container is one of another form: the model is small
            continue
        assert hashlib.sha256(plain).hexdigest().startswith(hashes[number]), f"{suite} {number}"
        container = read(write(model.convolution))
        loaded = Loaded(container)
        for pictures in model.inputs:
            (found,) = loaded.run([pictures])
            assert np.array_equal(found, expected(model, pictures)), f"{suite} {number}"
        assert np.array_equal(Loaded(container, native=False).run([pictures])[0], found)


@pytest.mark.sample(PARTS)
@pytest.mark.parametrize("part", range(PARTS))
def test_sums_products_and_maxima_are_the_boards(part: int) -> None:
    hashes = LEDGER["suites"]["native_elementwise"]["sha256"]
    for number, pair in islice(enumerate(native_elementwise()), part, None, PARTS):
        first, second = (replace(model, scale=1.0, zero_point=0) for model in (pair.first, pair.second))
        plain = write_pair(pair._replace(first=first, second=second))
        assert hashlib.sha256(plain).hexdigest().startswith(hashes[number])
        container = read(write_pair(pair))
        said = [both(pair, case).tobytes() for case in pair.inputs]
        assert list(Loaded(container).answers(pair.inputs.tobytes())) == said, f"{pair.kind} {number}"
        assert next(Loaded(container, native=False).answers(pair.inputs[:1].tobytes())) == said[0]


@pytest.mark.parametrize("suite", ["accumulator_boundary", "conv_clip", "native_combined", "native_stride34"])
def test_as_many_inferences_and_bytes_as_the_board_did(suite: str) -> None:
    inferences = count = 0
    for model in SUITES[suite]():
        height, width = model.convolution.out_size
        inferences += len(model.inputs)
        count += len(model.inputs) * model.convolution.pictures * height * width * len(model.convolution.weights)
    said = LEDGER["suites"][suite]
    assert (inferences, count) == (said["inferences"], said["bytes"])


def test_a_pitch_of_half_the_lines_reads_up_to_four_lines() -> None:
    """Lines come four at a time: with four or fewer DMA_CON1 does not matter, and these containers have half of it."""
    model = next(islice(SUITES["native_large"](), 4, None))
    assert model.convolution.size == (3, 4)
    (found,) = Loaded(read(write(model.convolution))).run([model.inputs[3]])
    assert np.array_equal(found, expected(model, model.inputs[3]))
