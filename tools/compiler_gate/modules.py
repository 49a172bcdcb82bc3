# ruff: noqa: E501, PLW0108  (a table: one module a line)
"""Small PyTorch modules, as people write them: name, module, shapes of its inputs. Needs PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

__all__ = ["modules"]

Shape = tuple[int, ...]
PICTURE: Shape = (1, 8, 12, 14)
SIGNAL: Shape = (1, 8, 30)
TOKENS: Shape = (1, 10, 16)
VECTOR: Shape = (1, 24)


class Call(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any], *parts: nn.Module) -> None:
        super().__init__()
        self.function, self.parts = function, nn.ModuleList(parts)

    def forward(self, *inputs: Any) -> Any:
        """The function, given its modules first."""
        return self.function(*self.parts, *inputs)


def modules() -> Iterator[tuple[str, nn.Module, list[Shape]]]:
    """All of them."""
    for group in (_layers, _activations, _functions, _blocks, _attention, _recurrent):
        yield from group()


def _layers() -> Iterator[tuple[str, nn.Module, list[Shape]]]:
    for kernel, stride, pad, gap, groups in (
        (1, 1, 0, 1, 1), (3, 1, 1, 1, 1), (3, 2, 1, 1, 1), (5, 1, 2, 1, 8), (3, 1, 2, 2, 1), (3, 1, 1, 1, 2), (7, 4, 3, 1, 1),
    ):  # fmt: skip
        yield f"conv{kernel}{stride}{gap}{groups}", nn.Conv2d(8, 16, kernel, stride, pad, gap, groups), [PICTURE]
        yield f"conv1d{kernel}{stride}{gap}{groups}", nn.Conv1d(8, 16, kernel, stride, pad, gap, groups), [SIGNAL]
    for mode in ("reflect", "replicate", "circular"):
        yield f"conv_{mode}", nn.Conv2d(8, 8, 3, padding=1, padding_mode=mode), [PICTURE]
    for kernel, stride, pad, more in ((2, 2, 0, 0), (3, 2, 1, 1), (4, 2, 1, 0), (3, 1, 1, 0), (5, 3, 2, 2)):
        yield f"turned{kernel}{stride}{more}", nn.ConvTranspose2d(8, 4, kernel, stride, pad, more), [PICTURE]
        yield f"turned1d{kernel}{stride}{more}", nn.ConvTranspose1d(8, 4, kernel, stride, pad, more), [SIGNAL]
    yield "turned_groups", nn.ConvTranspose2d(8, 8, 4, 2, 1, groups=8), [PICTURE]
    for ceil in (False, True):
        yield f"max{ceil}", nn.MaxPool2d(3, 2, 1, ceil_mode=ceil), [PICTURE]
        yield f"mean{ceil}", nn.AvgPool2d(3, 2, 1, ceil_mode=ceil), [PICTURE]
        yield f"mean_inside{ceil}", nn.AvgPool2d(3, 2, 1, ceil_mode=ceil, count_include_pad=False), [PICTURE]
        yield f"max1d{ceil}", nn.MaxPool1d(2, 2, ceil_mode=ceil), [SIGNAL]
        yield f"mean1d{ceil}", nn.AvgPool1d(3, 2, 1, ceil_mode=ceil), [SIGNAL]
    for size in (1, 2, (3, 7)):
        yield f"adaptive_mean{size}", nn.AdaptiveAvgPool2d(size), [PICTURE]
        yield f"adaptive_max{size}", nn.AdaptiveMaxPool2d(size), [PICTURE]
    yield "adaptive_1d", nn.AdaptiveAvgPool1d(1), [SIGNAL]
    yield "lp_pool", nn.LPPool2d(2, 2), [PICTURE]
    for name, layer, shape in (
        ("batch2d", nn.BatchNorm2d(8), PICTURE), ("batch1d", nn.BatchNorm1d(8), SIGNAL), ("batch0d", nn.BatchNorm1d(24), VECTOR),
        ("layer", nn.LayerNorm(16), TOKENS), ("layer2", nn.LayerNorm([10, 16]), TOKENS), ("layer3", nn.LayerNorm([8, 12, 14]), PICTURE),
        ("instance", nn.InstanceNorm2d(8, affine=True), PICTURE), ("instance1d", nn.InstanceNorm1d(8), SIGNAL),
        ("group", nn.GroupNorm(4, 8), PICTURE), ("group1", nn.GroupNorm(1, 8), PICTURE), ("local", nn.LocalResponseNorm(3), PICTURE),
        ("rms", nn.RMSNorm(16), TOKENS), ("linear", nn.Linear(24, 10), VECTOR), ("linear_tokens", nn.Linear(16, 10), TOKENS),
        ("linear_pixels", nn.Linear(14, 5), PICTURE), ("no_bias", nn.Linear(24, 10, bias=False), VECTOR),
        ("shuffle", nn.PixelShuffle(2), PICTURE), ("unshuffle", nn.PixelUnshuffle(2), PICTURE), ("channels", nn.ChannelShuffle(4), PICTURE),
        ("flatten", nn.Flatten(), PICTURE), ("dropout", nn.Dropout(), PICTURE), ("zero_pad", nn.ZeroPad2d((1, 2, 3, 0)), PICTURE),
        ("number_pad", nn.ConstantPad2d(2, 3.5), PICTURE), ("mirror_pad", nn.ReflectionPad2d(2), PICTURE),
        ("edge_pad", nn.ReplicationPad2d((1, 0, 2, 1)), PICTURE), ("crop", nn.ZeroPad2d(-2), PICTURE), ("mirror1d", nn.ReflectionPad1d(3), SIGNAL),
        ("circular", nn.CircularPad2d(1), PICTURE), ("bilinear", nn.Bilinear(24, 24, 6), VECTOR), ("fold", nn.Unfold(2, stride=2), PICTURE),
    ):  # fmt: skip
        yield name, layer, [shape] * (2 if name == "bilinear" else 1)
    for mode, corners in (("nearest", None), ("bilinear", False), ("bilinear", True), ("bicubic", False)):
        for scale in (2, 1.5, 0.5):
            yield (
                f"up_{mode}{corners}{scale}",
                nn.Upsample(scale_factor=scale, mode=mode, align_corners=corners),
                [PICTURE],
            )


def _activations() -> Iterator[tuple[str, nn.Module, list[Shape]]]:
    kinds = (
        nn.ReLU(), nn.ReLU6(), nn.LeakyReLU(0.2), nn.PReLU(), nn.PReLU(8), nn.ELU(), nn.CELU(0.5), nn.SELU(), nn.GELU(),
        nn.GELU("tanh"), nn.SiLU(), nn.Mish(), nn.Softplus(), nn.Softsign(), nn.Tanh(), nn.Sigmoid(), nn.LogSigmoid(),
        nn.Hardtanh(-0.5, 0.7), nn.Hardswish(), nn.Hardsigmoid(), nn.Hardshrink(), nn.Softshrink(), nn.Tanhshrink(),
        nn.Threshold(0.1, 0.5), nn.GLU(1), nn.Softmax(1), nn.LogSoftmax(1), nn.Softmin(1), nn.Softmax2d(), nn.RReLU(),
    )  # fmt: skip
    for number, kind in enumerate(kinds):
        yield f"act_{type(kind).__name__}{number}", kind, [PICTURE]


def _functions() -> Iterator[tuple[str, nn.Module, list[Shape]]]:
    yield "normalize", Call(lambda x: F.normalize(x, dim=1)), [PICTURE]
    yield "mean_all", Call(lambda x: x.mean((1, 2, 3))), [PICTURE]
    yield "std", Call(lambda x: x.std((2, 3), keepdim=True)), [PICTURE]
    yield "var", Call(lambda x: x.var(1, keepdim=True)), [PICTURE]
    yield "max_dim", Call(lambda x: x.max(1).values), [PICTURE]
    yield "amin", Call(lambda x: x.amin((2, 3))), [PICTURE]
    yield "argmax", Call(lambda x: x.argmax(1).float()), [PICTURE]
    yield "norm", Call(lambda x: x.norm(dim=1)), [PICTURE]
    yield "cumsum", Call(lambda x: x.cumsum(1)), [VECTOR]
    yield "where", Call(lambda x: torch.where(x > 0, x, x * 0.1)), [PICTURE]
    yield "masked", Call(lambda x: x.masked_fill(x < 0, -5.0)), [PICTURE]
    yield "clamp", Call(lambda x: x.clamp(-0.3, 0.8)), [PICTURE]
    yield "minimum", Call(lambda x, y: torch.minimum(x, y)), [PICTURE, PICTURE]
    yield "power", Call(lambda x: (x.abs() + 0.1) ** 1.5), [PICTURE]
    yield "roots", Call(lambda x: torch.rsqrt(x * x + 1)), [PICTURE]
    yield "quotient", Call(lambda x, y: x / (y.abs() + 1)), [PICTURE, PICTURE]
    yield "outer", Call(lambda x, y: x.unsqueeze(2) * y.unsqueeze(1)), [VECTOR, VECTOR]
    yield "roll", Call(lambda x: torch.roll(x, (1, 2), (2, 3))), [PICTURE]
    yield "flip", Call(lambda x: x.flip(3)), [PICTURE]
    yield "chunk", Call(lambda x: torch.cat(x.chunk(2, 1)[::-1], 1)), [PICTURE]
    yield "split", Call(lambda x: x.split([3, 5], 1)), [PICTURE]
    yield "stack", Call(lambda x, y: torch.stack((x, y), 1)), [SIGNAL, SIGNAL]
    yield "focus", Call(lambda x: torch.cat((x[..., ::2, ::2], x[..., 1::2, ::2]), 1)), [PICTURE]
    yield "permute", Call(lambda x: x.permute(0, 2, 3, 1)), [PICTURE]
    yield "tokens", Call(lambda x: x.flatten(2).transpose(1, 2)), [PICTURE]
    yield "windows", Call(lambda x: x.view(1, 8, 3, 4, 2, 7).permute(0, 2, 4, 3, 5, 1).reshape(6, 28, 8)), [PICTURE]
    yield "expand", Call(lambda x: x.mean((2, 3), keepdim=True).expand(-1, -1, 4, 5)), [PICTURE]
    yield "repeat", Call(lambda x: x.repeat(1, 2, 1, 2)), [PICTURE]
    yield "gather", Call(lambda x: x[:, [0, 3, 3, 7]]), [PICTURE]
    yield "einsum", Call(lambda x, y: torch.einsum("bij,bkj->bik", x, y)), [TOKENS, TOKENS]
    yield "bmm", Call(lambda x, y: x @ y.transpose(1, 2)), [TOKENS, TOKENS]
    yield "interpolate", Call(lambda x: F.interpolate(x, (24, 28), mode="bilinear")), [PICTURE]
    yield "grid", Call(lambda x, g: F.grid_sample(x, g.tanh(), align_corners=False)), [PICTURE, (1, 5, 6, 2)]
    yield "logsumexp", Call(lambda x: x.logsumexp(1)), [PICTURE]
    yield "triangle", Call(lambda x: torch.tril(x)), [TOKENS]
    yield "sort", Call(lambda x: x.topk(3, 1).values), [VECTOR]
    yield "batch", nn.Sequential(nn.Conv2d(8, 8, 3), nn.ReLU()), [(3, 8, 12, 14)]


def _blocks() -> Iterator[tuple[str, nn.Module, list[Shape]]]:
    conv = lambda *sizes, **more: nn.Conv2d(*sizes, **more)  # noqa: E731
    yield (
        "residual",
        Call(lambda a, b, x: F.relu(x + b(F.relu(a(x)))), conv(8, 8, 3, padding=1), conv(8, 8, 3, padding=1)),
        [PICTURE],
    )
    yield (
        "squeeze",
        Call(
            lambda a, b, x: x * torch.sigmoid(b(F.relu(a(x.mean((2, 3), keepdim=True))))), conv(8, 2, 1), conv(2, 8, 1)
        ),
        [PICTURE],
    )
    yield (
        "inverted",
        nn.Sequential(
            conv(8, 24, 1), nn.BatchNorm2d(24), nn.ReLU6(), conv(24, 24, 3, padding=1, groups=24), conv(24, 8, 1)
        ),
        [PICTURE],
    )
    yield "dense", Call(lambda a, x: torch.cat((x, a(x)), 1), conv(8, 5, 3, padding=1)), [PICTURE]
    yield (
        "unet",
        Call(
            lambda a, b, x: torch.cat((F.interpolate(a(F.max_pool2d(x, 2)), scale_factor=2), b(x)), 1),
            conv(8, 8, 1),
            conv(8, 4, 1),
        ),
        [PICTURE],
    )
    yield (
        "pyramid",
        Call(
            lambda a, x: torch.cat([x, *(F.max_pool2d(x, k, 1, k // 2) for k in (5, 9, 13))], 1) @ a.weight,
            nn.Linear(14, 14),
        ),
        [PICTURE],
    )
    yield (
        "convnext",
        Call(
            lambda a, n, b, x: x + b(F.gelu(n(a(x).permute(0, 2, 3, 1)))).permute(0, 3, 1, 2),
            conv(8, 8, 7, padding=3, groups=8),
            nn.LayerNorm(8),
            nn.Linear(8, 8),
        ),
        [PICTURE],
    )
    yield (
        "ghost",
        Call(lambda a, b, x: torch.cat((a(x), b(a(x))), 1), conv(8, 8, 1), conv(8, 8, 3, padding=1, groups=8)),
        [PICTURE],
    )
    yield (
        "shuffle_unit",
        Call(
            lambda a, x: (
                torch.cat((x[:, :4], a(x[:, 4:])), 1).view(1, 2, 4, 12, 14).transpose(1, 2).reshape(1, 8, 12, 14)
            ),
            conv(4, 4, 3, padding=1),
        ),
        [PICTURE],
    )
    yield (
        "classifier",
        nn.Sequential(
            conv(8, 16, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5), nn.Softmax(1)
        ),
        [PICTURE],
    )
    yield "mlp", nn.Sequential(nn.Linear(24, 32), nn.ReLU(), nn.Linear(32, 3)), [VECTOR]
    yield (
        "wavenet",
        Call(
            lambda a, b, x: torch.tanh(a(x)) * torch.sigmoid(b(x)),
            nn.Conv1d(8, 8, 3, dilation=4),
            nn.Conv1d(8, 8, 3, dilation=4),
        ),
        [SIGNAL],
    )
    yield (
        "boxes",
        Call(
            lambda a, x: (a(x).view(1, 4, 4, 168).softmax(2) * torch.arange(4.0).view(1, 1, 4, 1)).sum(2),
            conv(8, 16, 1),
        ),
        [PICTURE],
    )


def _attention() -> Iterator[tuple[str, nn.Module, list[Shape]]]:
    for heads in (1, 2, 4):
        yield (
            f"multihead{heads}",
            Call(lambda a, x: a(x, x, x, need_weights=False)[0], nn.MultiheadAttention(16, heads, batch_first=True)),
            [TOKENS],
        )
    yield "encoder", nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), [TOKENS]
    yield (
        "encoder_first",
        nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=True, activation="gelu"),
        [TOKENS],
    )
    yield "causal", Call(lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True)), [(1, 2, 10, 16)]
    yield "cross", Call(lambda q, k: F.scaled_dot_product_attention(q, k, k)), [(1, 2, 10, 16), (1, 2, 7, 16)]


def _recurrent() -> Iterator[tuple[str, nn.Module, list[Shape]]]:
    for kind in (nn.RNN, nn.GRU, nn.LSTM):
        for both in (False, True):
            layer = kind(16, 8, batch_first=True, bidirectional=both)
            yield f"{kind.__name__}{both}", Call(lambda a, x: a(x)[0], layer), [TOKENS]
    yield "cell", Call(lambda a, x, h: a(x, h), nn.GRUCell(24, 16)), [VECTOR, (1, 16)]
