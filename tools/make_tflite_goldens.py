#!/usr/bin/env python3
"""Makes the small TFLite models of the tests, with what TensorFlow's own interpreter computes of them.

Needs TensorFlow (pip install tensorflow); the tests need only what this writes. Every model is `NAME.tflite`, and
`NAME.npz` beside it has the inputs (`x0`, ...) and the outputs (`y0`, ...) as the interpreter has them: integers where
the model has integers. The interpreter runs its own kernels, so that no delegate has its own rounding.

    python tools/make_tflite_goldens.py FOLDER [NAME ...]
"""

from __future__ import annotations

import argparse
import os
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
import tensorflow as tf

tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)

Body = Callable[..., Any]
RANDOM = np.random.default_rng(17)


def normal(*shape: int, scale: float = 1.0) -> Any:
    """A constant of the model."""
    return tf.constant(RANDOM.normal(0, scale, shape).astype(np.float32))


PICTURE = (1, 12, 10, 16)
WIDE = (1, 14, 14, 32)


def conv(x: Any, outputs: int = 24, size: int = 3, **options: Any) -> Any:
    """A convolution with bias."""
    w = normal(size, size, int(x.shape[3]), outputs, scale=0.1)
    made = tf.nn.conv2d(x, w, strides=options.pop("strides", 1), padding=options.pop("padding", "SAME"), **options)
    return tf.nn.bias_add(made, normal(outputs, scale=0.3))


def depthwise(x: Any, multiplier: int = 1, *, stride: int = 1, padding: str = "SAME", rate: int = 1) -> Any:
    """A depthwise convolution with bias."""
    channels = int(x.shape[3])
    w = normal(3, 3, channels, multiplier, scale=0.3)
    made = tf.nn.depthwise_conv2d(x, w, [1, stride, stride, 1], padding, dilations=[rate, rate])
    return tf.nn.bias_add(made, normal(channels * multiplier, scale=0.3))


def dense(x: Any, outputs: int, bias: bool = True) -> Any:
    """A product with constant weights."""
    made = tf.matmul(x, normal(int(x.shape[-1]), outputs, scale=0.2))
    return tf.nn.bias_add(made, normal(outputs, scale=0.3)) if bias else made


def transposed(x: Any, padding: str = "SAME", stride: int = 2, size: int = 3) -> Any:
    """A transposed convolution."""
    n, h, w, c = x.shape
    grow = 0 if padding == "SAME" else max(size - stride, 0)
    shape = [n, h * stride + grow, w * stride + grow, 16]
    return tf.nn.conv2d_transpose(x, normal(size, size, 16, c, scale=0.1), shape, stride, padding)


def block(x: Any, outputs: int, stride: int = 1, act: Body = tf.nn.relu6, expand: int = 2) -> Any:
    """MobileNetV2's inverted residual."""
    wide = act(conv(x, int(x.shape[3]) * expand, 1))
    deep = act(depthwise(wide, stride=stride))
    narrow = conv(deep, outputs, 1)
    return x + narrow if stride == 1 and int(x.shape[3]) == outputs else narrow


def squeeze(x: Any) -> Any:
    """Squeeze and excitation, as MobileNetV3 has it."""
    pooled = tf.reduce_mean(x, [1, 2], keepdims=True)
    gate = tf.nn.relu(conv(pooled, 16, 1))
    return x * (tf.nn.relu6(conv(gate, int(x.shape[3]), 1) + 3.0) * (1 / 6))


def hard_swish(x: Any) -> Any:
    """As TensorFlow's converter recognises it."""
    return x * tf.nn.relu6(x + 3.0) * (1 / 6)


def mobilenet_v1(x: Any) -> Any:
    """A small MobileNet v1."""
    x = tf.nn.relu6(conv(x, 16, 3, strides=2))
    for outputs, stride in ((32, 1), (48, 2), (48, 1)):
        x = tf.nn.relu6(conv(tf.nn.relu6(depthwise(x, stride=stride)), outputs, 1))
    return tf.nn.softmax(dense(tf.reduce_mean(x, [1, 2]), 10))


def mobilenet_v2(x: Any) -> Any:
    """A small MobileNet v2."""
    x = tf.nn.relu6(conv(x, 16, 3, strides=2))
    for outputs, stride in ((16, 1), (24, 2), (24, 1)):
        x = block(x, outputs, stride)
    return dense(tf.reduce_mean(tf.nn.relu6(conv(x, 64, 1)), [1, 2]), 10)


def mobilenet_v3(x: Any) -> Any:
    """A small MobileNet v3."""
    x = hard_swish(conv(x, 16, 3, strides=2))
    x = squeeze(block(x, 24, 2, hard_swish))
    return dense(tf.reduce_mean(hard_swish(conv(x, 48, 1)), [1, 2]), 10)


def yolo_head(x: Any) -> Any:
    """Two scales with an upsampling between, as small YOLOs have them."""
    act: Body = lambda value: tf.nn.leaky_relu(value, 0.1)  # noqa: E731
    a = act(conv(x, 16, 3, strides=2))
    b = act(conv(tf.nn.max_pool2d(a, 2, 2, "SAME"), 32))
    up = tf.image.resize(b, (int(a.shape[1]), int(a.shape[2])), "nearest")
    return conv(tf.concat([a, up], 3), 24, 1), conv(b, 24, 1)


def ssd_head(x: Any) -> Any:
    """Boxes and scores of two maps, reshaped and joined."""
    a = tf.nn.relu6(conv(x, 16, 3, strides=2))
    b = tf.nn.relu6(conv(a, 32, 3, strides=2))
    boxes = tf.concat([tf.reshape(conv(m, 12, 1), (1, -1, 4)) for m in (a, b)], 1)
    scores = tf.concat([tf.reshape(conv(m, 15, 1), (1, -1, 5)) for m in (a, b)], 1)
    return boxes, tf.sigmoid(scores)


def deeplab(x: Any) -> Any:
    """Dilated convolutions, the mean of the picture, a linear upsampling."""
    x = tf.nn.relu(conv(x, 16, 3, strides=2))
    a, b = tf.nn.relu(conv(x, 16, 1)), tf.nn.relu(conv(x, 16, 3, dilations=2))
    pooled = tf.nn.relu(conv(tf.reduce_mean(x, [1, 2], keepdims=True), 16, 1))
    c = tf.image.resize(pooled, (int(x.shape[1]), int(x.shape[2])))
    return tf.image.resize(conv(tf.concat([a, b, c], 3), 8, 1), (32, 32))


def keywords(x: Any) -> Any:
    """Keyword spotting: a separable network over a spectrogram."""
    x = tf.nn.relu(conv(x, 32, 3, strides=2))
    for _ in range(2):
        x = tf.nn.relu(conv(tf.nn.relu(depthwise(x)), 32, 1))
    x = tf.nn.avg_pool2d(x, (int(x.shape[1]), int(x.shape[2])), 1, "VALID")
    return tf.nn.softmax(dense(tf.reshape(x, (1, -1)), 12))


def pose(x: Any) -> Any:
    """A decoder with skips and bilinear upsampling, as pose networks have it."""
    a = tf.nn.relu(conv(x, 16, 3, strides=2))
    b = tf.nn.relu(conv(tf.nn.relu(depthwise(a, stride=2)), 32, 1))
    up = tf.image.resize(b, (int(a.shape[1]), int(a.shape[2])))
    return tf.sigmoid(conv(conv(up, 16, 1) + a, 17, 1))


def autoencoder(x: Any) -> Any:
    """Dense layers, as the anomaly models of MLPerf Tiny have them."""
    for outputs in (64, 8, 64, 128):
        x = tf.nn.relu(dense(x, outputs))
    return dense(x, 96)


def attention(x: Any) -> Any:
    """One head of attention over 16 tokens."""
    q, k, v = (dense(tf.reshape(x, (16, 32)), 32) for _ in range(3))
    scores = tf.nn.softmax(tf.matmul(q[None], k[None], transpose_b=True) * 0.2)
    return tf.matmul(scores, v[None])


def loop(x: Any) -> Any:
    """Three rounds of a layer: WHILE."""
    w = normal(16, 16, scale=0.2)
    return tf.while_loop(lambda i, _: i < 3, lambda i, v: (i + 1, tf.tanh(tf.matmul(v, w)) + x), (0, x))[1]


SINGLE: dict[str, tuple[Body, list[tuple[int, ...]]]] = {
    "conv_same": (conv, [PICTURE]),
    "conv_valid_stride": (lambda x: conv(x, strides=2, padding="VALID"), [PICTURE]),
    "conv_same_stride_relu": (lambda x: tf.nn.relu(conv(x, strides=2)), [(1, 13, 11, 16)]),
    "conv_relu6": (lambda x: tf.nn.relu6(conv(x)), [PICTURE]),
    "conv_1x1": (lambda x: conv(x, 32, 1), [PICTURE]),
    "conv_dilated": (lambda x: conv(x, dilations=2), [PICTURE]),
    "conv_rgb": (lambda x: tf.nn.relu(conv(x, 16, 3, strides=2)), [(1, 20, 18, 3)]),
    "depthwise": (depthwise, [PICTURE]),
    "depthwise_stride_relu6": (lambda x: tf.nn.relu6(depthwise(x, stride=2)), [WIDE]),
    "depthwise_multiplier": (lambda x: depthwise(x, 2), [PICTURE]),
    "depthwise_dilated": (lambda x: depthwise(x, rate=2), [PICTURE]),
    "transposed_same": (transposed, [PICTURE]),
    "transposed_valid": (lambda x: transposed(x, "VALID"), [PICTURE]),
    "dense": (lambda x: dense(x, 40), [(1, 64)]),
    "dense_relu": (lambda x: tf.nn.relu(dense(x, 40)), [(1, 64)]),
    "dense_rows": (lambda x: dense(x, 24), [(1, 9, 32)]),
    "max_pool": (lambda x: tf.nn.max_pool2d(x, 3, 2, "SAME"), [PICTURE]),
    "average_pool": (lambda x: tf.nn.avg_pool2d(x, 2, 2, "VALID"), [PICTURE]),
    "average_pool_same": (lambda x: tf.nn.avg_pool2d(x, 3, 1, "SAME"), [PICTURE]),
    "add": (lambda x, y: x + y, [PICTURE, PICTURE]),
    "add_relu": (lambda x, y: tf.nn.relu(x + y), [PICTURE, PICTURE]),
    "add_constant": (lambda x: x + normal(16), [PICTURE]),
    "sub": (lambda x, y: x - y, [PICTURE, PICTURE]),
    "mul": (lambda x, y: x * y, [PICTURE, PICTURE]),
    "mul_gate": (lambda x, y: x * y, [PICTURE, (1, 1, 1, 16)]),
    "mul_constant": (lambda x: x * normal(16), [PICTURE]),
    "maximum": (tf.maximum, [PICTURE, PICTURE]),
    "minimum": (tf.minimum, [PICTURE, PICTURE]),
    "relu": (tf.nn.relu, [PICTURE]),
    "relu6": (lambda x: tf.nn.relu6(3 * x), [PICTURE]),
    "leaky_relu": (lambda x: tf.nn.leaky_relu(x, 0.1), [PICTURE]),
    "prelu": (lambda x: tf.nn.relu(x) + normal(1, 1, 16, scale=0.2) * -tf.nn.relu(-x), [PICTURE]),
    "hard_swish": (lambda x: hard_swish(3 * x), [PICTURE]),
    "elu": (tf.nn.elu, [PICTURE]),
    "logistic": (tf.sigmoid, [PICTURE]),
    "tanh": (tf.tanh, [PICTURE]),
    "softmax": (lambda x: tf.nn.softmax(3 * x), [(1, 40)]),
    "softmax_picture": (lambda x: tf.nn.softmax(3 * x), [PICTURE]),
    "log_softmax": (tf.nn.log_softmax, [(1, 40)]),
    "mean": (lambda x: tf.reduce_mean(x, [1, 2]), [PICTURE]),
    "mean_kept": (lambda x: tf.reduce_mean(x, [1, 2], keepdims=True), [PICTURE]),
    "sum": (lambda x: tf.reduce_sum(x, [3]), [PICTURE]),
    "reduce_max": (lambda x: tf.reduce_max(x, [1, 2]), [PICTURE]),
    "reshape": (lambda x: tf.reshape(x, (1, 120, 16)), [PICTURE]),
    "transpose": (lambda x: tf.transpose(x, (0, 2, 1, 3)), [PICTURE]),
    "concat": (lambda x, y: tf.concat([x, y], 3), [PICTURE, PICTURE]),
    "split": (lambda x: tf.split(x, 2, 3), [PICTURE]),
    "slice": (lambda x: tf.slice(x, [0, 2, 1, 0], [1, 8, 6, 16]), [PICTURE]),
    "strided_slice": (lambda x: x[:, ::2, 1::2, :], [PICTURE]),
    "pad": (lambda x: tf.pad(x, [[0, 0], [1, 2], [2, 1], [0, 0]]), [PICTURE]),
    "mirror_pad": (lambda x: tf.pad(x, [[0, 0], [1, 1], [2, 2], [0, 0]], "REFLECT"), [PICTURE]),
    "resize_nearest": (lambda x: tf.image.resize(x, (24, 20), "nearest"), [PICTURE]),
    "resize_bilinear": (lambda x: tf.image.resize(x, (24, 20)), [PICTURE]),
    "resize_corners": (lambda x: tf.compat.v1.image.resize_bilinear(x, (23, 19), align_corners=True), [PICTURE]),
    "depth_to_space": (lambda x: tf.nn.depth_to_space(x, 2), [PICTURE]),
    "space_to_depth": (lambda x: tf.nn.space_to_depth(x, 2), [PICTURE]),
    "batch_matmul": (tf.matmul, [(1, 16, 32), (1, 32, 16)]),
    "l2_normalization": (lambda x: tf.math.l2_normalize(x, 3), [PICTURE]),
    "pack": (lambda x, y: tf.stack([x, y], 1), [(1, 12, 16), (1, 12, 16)]),
    "gather": (lambda x: tf.gather(x, [3, 1, 7], axis=1), [PICTURE]),
    "squared_difference": (tf.math.squared_difference, [PICTURE, PICTURE]),
    "gelu": (tf.nn.gelu, [(1, 12, 32)]),
    "abs": (tf.abs, [PICTURE]),
    "div": (lambda x, y: x / (tf.abs(y) + 1.0), [PICTURE, PICTURE]),
    "exp": (tf.exp, [PICTURE]),
    "squeeze": (lambda x: tf.squeeze(tf.nn.relu(x), [1]), [(1, 1, 10, 16)]),
    "expand_dims": (lambda x: tf.expand_dims(tf.nn.relu(x), 1), [(1, 10, 16)]),
    "unpack": (lambda x: tf.unstack(x, axis=1), [(1, 3, 10, 16)]),
    "split_v": (lambda x: tf.split(x, [6, 10], 3), [PICTURE]),
    "tile": (lambda x: tf.tile(x, [1, 2, 1, 1]), [PICTURE]),
    "reduce_min": (lambda x: tf.reduce_min(x, [1, 2]), [PICTURE]),
    "reverse": (lambda x: tf.reverse(x, [2]), [PICTURE]),
    "sqrt": (lambda x: tf.sqrt(tf.nn.relu(x)), [PICTURE]),
    "rsqrt": (lambda x: tf.math.rsqrt(tf.abs(x) + 0.5), [PICTURE]),
    "select": (lambda x, y: tf.where(x > y, x, y), [PICTURE, PICTURE]),
    "topk": (lambda x: tf.math.top_k(x, 5)[0], [(1, 40)]),
    "neg": (lambda x: -x, [PICTURE]),
    "argmax": (lambda x: tf.argmax(x, 3, tf.int32), [PICTURE]),
}  # fmt: skip
NETWORKS: dict[str, tuple[Body, list[tuple[int, ...]]]] = {
    "net_mobilenet_v1": (mobilenet_v1, [(1, 32, 32, 3)]),
    "net_mobilenet_v2": (mobilenet_v2, [(1, 32, 32, 3)]),
    "net_mobilenet_v3": (mobilenet_v3, [(1, 32, 32, 3)]),
    "net_yolo": (yolo_head, [(1, 32, 32, 3)]),
    "net_ssd": (ssd_head, [(1, 32, 32, 3)]),
    "net_deeplab": (deeplab, [(1, 32, 32, 3)]),
    "net_keywords": (keywords, [(1, 49, 10, 1)]),
    "net_pose": (pose, [(1, 32, 32, 3)]),
    "net_autoencoder": (autoencoder, [(1, 96)]),
    "net_attention": (attention, [(1, 16, 32)]),
    "net_loop": (loop, [(1, 16)]),
}


def convert(body: Body, shapes: list[tuple[int, ...]], kind: str) -> bytes:
    """TensorFlow's converter: float, half, dynamic (weights int8), int8, uint8 (ends of the model)."""
    signature = [tf.TensorSpec(shape, tf.float32, name=f"x{number}") for number, shape in enumerate(shapes)]
    function = tf.function(body, input_signature=signature, autograph=False).get_concrete_function()
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function])

    def samples() -> Any:
        random = np.random.default_rng(3)
        for _ in range(8):
            yield [random.normal(0, 1, shape).astype(np.float32) for shape in shapes]

    if kind != "float":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if kind == "half":
        converter.target_spec.supported_types = [tf.float16]
    if kind in {"int8", "uint8"}:
        converter.representative_dataset = samples
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        converter.inference_input_type = converter.inference_output_type = getattr(tf, kind)
    return bytes(converter.convert())


def run(data: bytes, seed: int) -> dict[str, Any]:
    """Inputs, and what the interpreter makes of them."""
    interpreter = tf.lite.Interpreter(
        model_content=data, num_threads=1,
        experimental_op_resolver_type=tf.lite.experimental.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    )  # fmt: skip
    interpreter.allocate_tensors()
    random = np.random.default_rng(seed)
    arrays = {}
    for number, entry in enumerate(interpreter.get_input_details()):
        x = random.normal(0, 1, entry["shape"]).astype(np.float32)
        scale, zero = entry["quantization"]
        if scale:
            ends = np.iinfo(entry["dtype"])
            x = np.clip(np.rint(x / scale) + zero, ends.min, ends.max)
        arrays[f"x{number}"] = x.astype(entry["dtype"])
        interpreter.set_tensor(entry["index"], arrays[f"x{number}"])
    interpreter.invoke()
    for number, entry in enumerate(interpreter.get_output_details()):
        arrays[f"y{number}"] = interpreter.get_tensor(entry["index"])
    return arrays


def main() -> int:
    """Write them all, or those that are named; names may end in `.float`, `.half`, `.dynamic`, `.int8`, `.uint8`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    every = {**SINGLE, **NETWORKS}
    for wanted in arguments.names or [f"{name}.int8" for name in every]:
        name, _, kind = wanted.partition(".")
        body, shapes = every[name]
        global RANDOM  # noqa: PLW0603  (every model has the same weights whatever was made before it)
        RANDOM = np.random.default_rng(zlib.crc32(name.encode()))
        try:
            data = convert(body, shapes, kind or "int8")
            arrays = run(data, zlib.crc32(name.encode()))
        except Exception as error:  # noqa: BLE001  (the converter has its own kinds)
            sys.stderr.write(f"{wanted}: {str(error).splitlines()[0]}\n")
            continue
        (arguments.folder / f"{name}.{kind or 'int8'}.tflite").write_bytes(data)
        np.savez_compressed(arguments.folder / f"{name}.{kind or 'int8'}.npz", **arrays)
        sys.stderr.write(f"{wanted}: {len(data)} bytes\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
