"""Files of Darknet and Caffe that are damaged, contradict themselves or want too much: one named error, quickly."""

from __future__ import annotations

import logging
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from openrknn.compiler import read_model
from openrknn.compiler.errors import CompileError, ModelError
from openrknn.compiler.importer.formats.caffe.blobs import read_blobs
from openrknn.compiler.importer.formats.caffe.text import parse
from tests.compiler.formats.caffe_nets import Caffe, blob, field, packed_doubles, varint
from tests.compiler.formats.darknet_nets import Darknet

HEAD = "[net]\nwidth=8\nheight=8\nchannels=3\n"
EMPTY = struct.pack("<3iq", 0, 2, 5, 0)


@pytest.fixture(autouse=True)
def _quick() -> Iterator[None]:
    started = time.perf_counter()
    yield
    assert time.perf_counter() - started < 20


def darknet(text: str, weights: bytes = EMPTY) -> object:
    return read_model((text.encode(), weights))


@pytest.mark.parametrize(("text", "message"), [
    ("", "is empty"),
    ("# darknet\nhello", "is neither"),
    ("[convolutional]\nfilters=3\n", "does not begin with"),
    ("[net]\nwidth=8\nheight=8\n", "has no layers"),
    (HEAD + "[maxpool\n", "neither"),
    (HEAD + "[maxpool]\nsize=two\n", "size=two is not a whole number"),
    (HEAD + "[maxpool]\nsize=0\n", "size=0 is less than 1"),
    (HEAD + "[maxpool]\nsize=99\npadding=0\n", "too small"),
    (HEAD + "[maxpool]\nsize=2\npadding=9\n", "padding=9 is larger"),
    (HEAD + "[maxpool]\nstride=99999999999999999999\n", "too large"),
    (HEAD + "[route]\nlayers=0\n", "it takes layer 0; only layers"),
    (HEAD + "[dropout]\n[route]\nlayers=-2\n", "it takes layer -2"),
    (HEAD + "[dropout]\n[route]\nlayers=1\n", "it takes layer 1"),
    (HEAD + "[dropout]\n[route]\nlayers=7\n", "it takes layer 7"),
    (HEAD + "[dropout]\n[route]\n", "layers= is missing"),
    (HEAD + "[dropout]\n[route]\nlayers=-1\ngroups=2\n", "3 channels cannot be divided into 2 groups"),
    (HEAD + "[dropout]\n[route]\nlayers=-1\ngroups=3\ngroup_id=3\n", "group_id=3 is not one of 3"),
    (HEAD + "[dropout]\n[maxpool]\nstride=2\nsize=2\n[route]\nlayers=0,1\n", "maps of different sizes"),
    (HEAD + "[dropout]\n[shortcut]\nfrom=5\n", "it takes layer 5"),
    (HEAD + "[upsample]\nstride=2000000000\n", "more than 2\\^31 numbers"),
    (HEAD + "[convolutional]\nfilters=2000000000\nsize=9\n", "needs 2000000000 numbers, only 0 are left"),
    (HEAD + "[convolutional]\nfilters=4\nsize=1\ngroups=3\n", "cannot be shared by 3 groups"),
    (HEAD + "[convolutional]\nfilters=4\nxnor=1\n", "xnor=1 is not one of the forms"),
    (HEAD + "[activation]\nactivation=curly\n", "the activation 'curly' is not one"),
    (HEAD + "[yolo]\nmask=0,1\nclasses=4\n", "2 anchors with 4 classes need 18 channels"),
    (HEAD.replace("width=8", "width=0") + "[dropout]\n", "width=0 is less than 1"),
    (HEAD + "[dropout]\n" * 10_001, "more than 10000 layers"),
])  # fmt: skip
def test_cfg_that_cannot_be(text: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        darknet(text)


def test_a_layer_of_darknet_that_is_not_there_is_named() -> None:
    with pytest.raises(ModelError, match=r"line 5: the layer \[gru\] is not one that the compiler has"):
        darknet(HEAD + "[gru]\n")


def test_weights_that_are_cut_off_or_too_long(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    net = Darknet(3, 8, 8)
    net.conv(4)
    text, whole = "\n".join(net.text), net.weights()
    assert darknet(text, whole)
    for size in (0, 7, 15, 19, 20, 40, len(whole) - 1):
        with pytest.raises(ModelError, match=r"is empty|too short|cut off"):
            darknet(text, whole[:size])
    with caplog.at_level(logging.WARNING):
        assert darknet(text, whole + bytes(8))
    assert "8 bytes are left after the last layer" in caplog.text
    with pytest.raises(ModelError, match="is not a file of Darknet weights: version -1"):
        darknet(text, struct.pack("<5i", -1, 2, 5, 0, 0))


@pytest.mark.parametrize("version", [(0, 1, 0), (0, 2, 0), (0, 2, 5), (1, 0, 0)])
def test_headers_of_all_versions(version: tuple[int, int, int]) -> None:
    net = Darknet(3, 8, 8)
    net.conv(4, normalised=False)
    model = read_model(("\n".join(net.text).encode(), net.weights(version)))
    bias = next(tensor for tensor in model.graph.initializer if tensor.name == "conv_0.bias")
    np.testing.assert_allclose(np.frombuffer(bias.raw_data, "<f4"), net.numbers[0], rtol=1e-6)


def test_the_other_file_is_found_or_asked_for(tmp_path: Path) -> None:
    net = Darknet(3, 8, 8)
    net.conv(4)
    path = net.save(tmp_path)
    one = read_model(path)
    assert read_model(path.with_suffix(".weights")) == one
    assert read_model((path, path.with_suffix(".weights"))) == one
    assert read_model((path.with_suffix(".weights"), path)) == one
    path.with_suffix(".weights").rename(tmp_path / "trained.weights")
    with pytest.raises(ModelError, match=r"net\.weights is not beside it \(there are trained\.weights\)\. Give both"):
        read_model(path)
    with pytest.raises(ModelError, match=r"net\.cfg is one of the two files|trained\.cfg is not beside it"):
        read_model(tmp_path / "trained.weights")
    assert read_model((str(path), str(tmp_path / "trained.weights"))) == one
    with pytest.raises(ModelError, match="3 were given"):
        read_model((str(path), "a", "b"))
    with pytest.raises(ModelError, match="cannot be read: No such file"):
        read_model((str(path), str(tmp_path / "none.weights")))


START = 'input: "data" input_shape { dim: 1 dim: 4 dim: 6 dim: 6 } '


def caffe(text: str, binary: bytes | None = None) -> object:
    return read_model((text.encode(), binary if binary is not None else Caffe(1).binary() + field(100, b"")))


def one(kind: str, text: str = "") -> str:
    return f'{START} layer {{ name: "l" type: "{kind}" bottom: "data" top: "out" {text} }}'


@pytest.mark.parametrize(("text", "message"), [
    ("layer {", "a name is expected, not 'the end of the file'"),
    ("layer }", "a colon is expected after layer"),
    ("name: @", "'@' is not expected here"),
    ('name: "net"', "has no layers"),
    ("layer { " * 99, "more than 32 messages inside each other"),
    ('input: "data" layer { name: "a" type: "ReLU" bottom: "data" top: "b" }', "an input has no shape"),
    (START + 'layer { name: "a" type: "ReLU" bottom: "b" top: "a" }', "no layer before it makes 'b'"),
    (START + 'layer { name: "a" type: "ReLU" bottom: "b" top: "b" }', "no layer before it makes 'b'"),
    (START + 'layer { name: "a" type: "ReLU" }', "it has no bottom"),
    (START, "has no layers"),
    (one("Convolution"), "num_output is missing"),
    (one("Convolution", "convolution_param { num_output: 4 }"), "kernel_size is missing"),
    (one("Convolution", "convolution_param { num_output: 4 kernel_size: 3 }"), "its weights are missing in"),
    (one("Convolution", "convolution_param { num_output: -4 kernel_size: 3 }"), "num_output: -4 is less than 1"),
    (one("Convolution", "convolution_param { num_output: 4 kernel_size: 3 group: 3 }"), "shared by 3 groups"),
    (one("Pooling", "pooling_param { kernel_size: 3 pad: 3 }"), "pad: 3 is not less than the window"),
    (one("Pooling", "pooling_param { kernel_size: 9 pool: STOCHASTIC }"), "pool: STOCHASTIC is not one"),
    (one("Pooling", "pooling_param { kernel_size: 99 }"), "too small"),
    (one("Softmax", "softmax_param { axis: 9 }"), "there is no axis 9"),
    (one("Reshape", "reshape_param { shape { dim: 7 dim: -1 } }"), "cannot be reshaped"),
    (one("Reshape", "reshape_param { shape { dim: -1 dim: -1 } }"), "cannot be"),
    (one("Tile", "tile_param { tiles: 2000000000 }"), "more than 2\\^31 numbers"),
    (one("Permute", "permute_param { order: 0 order: 0 }"), "is no order of 4 dimensions"),
    (one("Slice", "slice_param { slice_point: 9 }"), "1 slice_points for 1 tops"),
    (one("ReLU", "relu_param { negative_slope: much }"), "negative_slope: much is not a number"),
    (one("Interp", "interp_param { height: 99999999999 }"), "too large"),
    ('layers { layer { name: "conv1" type: "conv" } }', "Caffe's first format"),
    ('layer { name: "data" type: "Data" top: "data" }', "the shape of its data is not said; take the deploy"),
])  # fmt: skip
def test_prototxt_that_cannot_be(text: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        caffe(text)


def test_a_layer_of_caffe_that_is_not_there_says_where_to_cut() -> None:
    with pytest.raises(ModelError, match=r"'l' \(LSTM\): the compiler does not have .* data are then"):
        caffe(one("LSTM"))
    with pytest.raises(ModelError, match="for training; take the deploy"):
        caffe(one("SoftmaxWithLoss"))


NET = Caffe(1, 4, 6, 6)
NET.conv("data", 4, 2, 3)


def test_every_cut_of_a_caffemodel_is_an_error() -> None:
    whole, text = NET.binary(), "\n".join(NET.text)
    assert caffe(text, whole)
    for size in range(0, len(whole), 7):
        with pytest.raises(CompileError):
            caffe(text, whole[:size])


@pytest.mark.parametrize(("data", "message"), [
    (b"\xff" * 40, "a number does not end"),
    (b"\x0b", "wire type 3"),
    (varint(100 << 3 | 2) + varint(1 << 60) + b"x", "field 100 of"),
    (field(100, field(7, field(7, field(1, varint(1 << 40) * 2)) + field(5, bytes(8)))), "says that it is"),
    (field(100, field(7, field(7, field(1, b"\x01" * 99)))), "more than 32 dimensions"),
    (field(100, field(7, field(5, bytes(7)))), "half a float"),
    (field(100, field(7, b"") * 99), "more than 64 arrays"),
    (b"\x08\x01", "no layers"),
])  # fmt: skip
def test_protobuf_that_lies(data: bytes, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        read_blobs(data, "net.caffemodel")


def test_random_bytes_are_errors_and_nothing_else() -> None:
    random = np.random.default_rng(0)
    whole = NET.binary()
    for _ in range(300):
        data = bytearray(whole)
        for place in random.integers(0, 60, 3):
            data[place] = random.integers(0, 256)
        with suppress(ModelError):
            assert isinstance(read_blobs(bytes(data), "net.caffemodel"), dict)


def test_doubles_and_old_shapes_are_read() -> None:
    array = np.arange(6.0).reshape(2, 3)
    blobs = field(7, packed_doubles(array)) + field(7, blob(array, is_old=True))
    found = read_blobs(field(100, field(1, b"a") + blobs), "net.caffemodel")["a"]
    assert [entry.shape for entry in found] == [(2, 3), (1, 1, 2, 3)]
    np.testing.assert_array_equal(found[0], array)


def test_text_of_all_kinds() -> None:
    made = parse(b"a: 1 # comment\nb { c: 'x\\'y' \"z\" }; d: [1, 2.5e-3]\n e <f: true> e: { f: false }", "x")
    assert made.whole("a", 0) == 1
    assert made.inner("b").word("c") == "x'yz"
    assert made.numbers("d") == [1.0, 0.0025]
    assert [entry.flag("f", True) for entry in made.inners("e")] == [True, False]
