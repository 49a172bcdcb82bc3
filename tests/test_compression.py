"""Compressed weights: our own streams there and back, and streams that lie.

What the streams mean rests on pairs of files that the toolkit built with and without compression (tests/goldens,
`pruned_*`): tests/npu/test_compression.py runs them, tests/container/test_compressed.py extracts them.
"""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openrknn.errors import UnsupportedError
from openrknn.layout.compression import CODES, SCHEMES, Header, Lane, Scheme, decompress
from openrknn.layout.compressor import compress

Bytes = npt.NDArray[np.uint8]
SINGLES, EIGHTS = SCHEMES[8], SCHEMES[2]


def weights(draw: st.DrawFn) -> Bytes:
    """Bytes as networks have them: dense, sparse, narrow, or all alike."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    size = draw(st.integers(0, 700)) * 2
    spread = draw(st.sampled_from([0.3, 2.0, 15.0, 60.0]))
    values = random.normal(draw(st.integers(-128, 127)), spread, size).round().astype(np.int64)
    values[random.random(size) < draw(st.sampled_from([0.0, 0.5, 0.97, 1.0]))] = draw(st.integers(-128, 127))
    return values.astype(np.uint8)


@given(st.composite(weights)(), st.sampled_from(sorted(SCHEMES)), st.sampled_from([1, 2]))
@settings(deadline=None, max_examples=60)
def test_there_and_back(stored: Bytes, lanes: int, element_bytes: int) -> None:
    scheme = SCHEMES[lanes]
    streams = compress(stored, scheme, element_bytes)
    assert all(lane.header.size % 16 == lane.payload.size % 16 == 0 for lane in streams)
    np.testing.assert_array_equal(decompress(streams, stored.size, scheme, element_bytes), stored)


def test_the_codes_are_complete() -> None:
    """Every five bits begin with exactly one code: no payload can have a place without a symbol."""
    for number in range(32):
        bits = format(number, "05b")
        assert sum(bits.startswith(code) for code in CODES) == 1


def lane(bits: str, *, head: str = "00 00 00 00 10 32 54 76", runs: tuple[int, ...] = ()) -> Lane:
    header = bytes.fromhex(head) + np.array(runs, "<u2").tobytes()
    payload = np.packbits(np.array([int(bit) for bit in bits.replace(" ", "")], np.uint8), bitorder="little")
    return Lane(np.frombuffer(header.ljust(16, b"\0"), np.uint8), payload)


def one(stream: Lane, count: int, scheme: Scheme) -> list[int]:
    """The first signed bytes of one lane; the others hold zeros in eights of the shortest code."""
    empty = lane("00 00000000" * 40) if scheme.eights else lane("00 0" * 400)
    streams = [stream, *[empty] * (scheme.lanes - 1)]
    found = decompress(streams, scheme.lanes * scheme.step * -(-count // scheme.step), scheme)
    signed = found.reshape(-1, scheme.lanes, scheme.step)[:, 0].reshape(-1)[:count].view(np.int8)
    return [int(value) for value in signed]


def test_singles_by_hand() -> None:
    """The toolkit's streams for weights that were made for it (RK3588, 32 kernels of 32 channels, 1x1)."""
    runs = "11 00 00 00 83 70 54 26"
    stream = lane("00 0 00  00 0 10  00 0 01  00 0 11  111 0", head=runs, runs=(60, 3, 1, 2))
    assert one(stream, 8, SINGLES) == [4, 5, 6, 7, 0, 0, 0, 0]
    stream = lane("111 0  00 1 0000000  00 0 1111111", head="11 00 00 00 87 30 54 26", runs=(2, 3, 1, 2))
    assert one(stream, 4, SINGLES) == [0, 0, -128, 127]
    dense = lane("0101 0 111111  0101 1 111111  110 1  111 1 00", head="00 00 00 00 02 13 74 65")
    assert one(dense, 4, SINGLES) == [127, -128, -2, -5]
    lowered = dense._replace(header=lane("", head="00 02 00 00 02 13 74 65").header)
    assert one(lowered, 4, SINGLES) == [-127, -126, 0, -3]


def test_eights_by_hand() -> None:
    """The toolkit's stream for -16, -14, ... (RK3562)."""
    stream = lane("10 11111111 1111 1011 1101 1001 1110 1010 1100 1000", head="00 00 00 00 40 37 51 26")
    assert one(stream, 8, EIGHTS) == [-16, -14, -12, -10, -8, -6, -4, -2]
    raised = stream._replace(header=lane("", head="f3 ff ff ff 40 37 51 26").header)
    assert one(raised, 8, EIGHTS) == [-3, -1, 1, 3, 5, 7, 9, 11]


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (Lane(np.zeros(4, np.uint8), np.zeros(16, np.uint8)), "header has 4 bytes"),
        (lane("0" * 64, head="00 00 00 00 99 99 99 99"), "which is unknown"),
        (lane("0" * 64, head="00 00 00 01 10 32 54 76"), "which is unknown"),
        (lane("0" * 64, head="ff 00 00 00 10 32 54 76"), "which is unknown"),
        (lane("0" * 64, head="44 00 00 00 10 32 54 76"), "32 runs in a header of 16 bytes"),
        (lane("000"), "end after 3 of 40 weights"),
        (lane(""), "end after 0 of 40 weights"),
        (lane("00 0" * 80, head="11 00 00 00 10 32 54 76", runs=(0, 0, 0, 0)), "of 40 weights"),
    ],
)
def test_streams_that_lie(broken: Lane, words: str) -> None:
    with pytest.raises(UnsupportedError, match=words):
        decompress([broken] * 8, 8 * 40, SINGLES)


def test_a_payload_that_ends_inside_a_symbol_is_refused() -> None:
    whole = compress(np.arange(256, dtype=np.uint8), EIGHTS)
    short = [stream._replace(payload=stream.payload[:100]) for stream in whole]
    with pytest.raises(UnsupportedError, match="lane 0: the compressed weights end after"):
        decompress(short, 256, EIGHTS)


def test_runs_do_not_make_more_than_was_asked_for() -> None:
    stream = lane("00 0", head="11 00 00 00 10 32 54 76", runs=(0xFFFF, 1, 1, 1))
    assert not decompress([stream] * 8, 8 * 40, SINGLES).any()


@given(st.binary(max_size=80), st.binary(min_size=8, max_size=48), st.sampled_from(sorted(SCHEMES)))
@settings(deadline=None, max_examples=150)
def test_any_bytes_give_weights_or_a_reason(payload: bytes, header: bytes, lanes: int) -> None:
    stream = Lane(np.frombuffer(header, np.uint8), np.frombuffer(payload, np.uint8))
    try:
        found = decompress([stream] * lanes, 256, SCHEMES[lanes])
    except UnsupportedError:
        return
    assert found.shape == (256,)
    assert max(Header.read(stream.header, eights=SCHEMES[lanes].eights).symbols) <= 8
