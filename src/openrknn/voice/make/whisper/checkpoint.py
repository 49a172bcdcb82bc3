"""The weights of a Whisper by OpenAI's names, and what they say about its size."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from openrknn.voice.errors import VoiceSetError

Array = npt.NDArray[np.float32]
_LAYER = re.compile(r"(encoder|decoder)\.blocks\.(\d+)\.")
_WIDTH = 64
"""Channels of a head, in all of OpenAI's models and those distilled from them."""
_MOST_LAYERS = 64
_BANDS = (80, 128)
HEAD = "decoder.head"
"""The product whose results are logits."""


@dataclass(frozen=True)
class Checkpoint:
    """Weights such as "encoder.blocks.0.attn.query.weight" ([out, in], as PyTorch has them)."""

    arrays: dict[str, Array]
    name: str
    """Of the file, for messages."""
    pieces: tuple[bytes, ...] = ()
    """Text of the tokens, where the file has it."""
    alignment: tuple[tuple[int, int], ...] = ()
    """(layer, head) whose cross attention follows the words, if the file has them."""
    heads: tuple[int, int] = (0, 0)
    """Of encoder and decoder; 0: width / 64."""
    facts: dict[str, object] = field(default_factory=dict)

    def __getitem__(self, place: str) -> Array:
        try:
            return self.arrays[place]
        except KeyError:
            raise VoiceSetError(f"{self.name}: no Whisper that is understood: {place!r} is not there") from None

    @property
    def mels(self) -> int:
        """Bands of the spectrum."""
        return int(self["encoder.conv1.weight"].shape[1])

    @property
    def frames(self) -> int:
        """States that the encoder gives: 1500 for 30 s."""
        return int(self["encoder.positional_embedding"].shape[0])

    @property
    def context(self) -> int:
        """Tokens that the decoder has positions for."""
        return int(self["decoder.positional_embedding"].shape[0])

    @property
    def words(self) -> int:
        """Tokens."""
        return int(self["decoder.token_embedding.weight"].shape[0])

    @property
    def head(self) -> Array:
        """Weights of the logits: the tokens' rows, unless factors were folded into them."""
        return self.arrays.get(f"{HEAD}.weight", self["decoder.token_embedding.weight"])

    def width(self, side: str) -> int:
        """Channels of the encoder or of the decoder."""
        return int(self[f"{side}.positional_embedding"].shape[1])

    def head_count(self, side: str) -> int:
        """Heads of the encoder or of the decoder."""
        return self.heads[side == "decoder"] or self.width(side) // _WIDTH

    def layers(self, side: str) -> int:
        """Layers of the encoder or of the decoder."""
        found = {int(match[2]) for name in self.arrays if (match := _LAYER.match(name)) and match[1] == side}
        if not found or found != set(range(len(found))) or len(found) > _MOST_LAYERS:
            raise VoiceSetError(f"{self.name}: no Whisper that is understood: no layers 0, 1, ... of its {side}")
        return len(found)

    def checked(self) -> Checkpoint:
        """Everything is there, has the shape that it should have, and is finite."""
        if self.mels not in _BANDS:
            raise VoiceSetError(f"{self.name}: {self.mels} mel bands; Whisper has 80 or 128")
        for side in ("encoder", "decoder"):
            width, heads = self.width(side), self.head_count(side)
            if heads < 1 or width % heads:
                raise VoiceSetError(f"{self.name}: {width} channels of the {side} do not make {heads} heads")
            for place, shape in self._shapes(side).items():
                if self[place].shape != shape:
                    raise VoiceSetError(f"{self.name}: {place} is {self[place].shape}, and should be {shape}")
        if self["decoder.token_embedding.weight"].shape[1] != self.width("decoder"):
            raise VoiceSetError(f"{self.name}: rows of another width than the decoder's")
        for place, array in self.arrays.items():
            if not np.isfinite(array).all():
                raise VoiceSetError(f"{self.name}: the weights of {place} are not finite")
        return self

    def _shapes(self, side: str) -> dict[str, tuple[int, ...]]:
        width = self.width(side)
        inner = int(self[f"{side}.blocks.0.mlp.0.weight"].shape[0])
        shapes: dict[str, tuple[int, ...]] = {}
        if side == "encoder":
            shapes = {"encoder.conv1.weight": (width, self.mels, 3), "encoder.conv2.weight": (width, width, 3)}
            shapes |= {f"encoder.{part}": (width,) for part in ("conv1.bias", "conv2.bias")}
        ending = "ln_post" if side == "encoder" else "ln"
        shapes |= {f"{side}.{ending}.{part}": (width,) for part in ("weight", "bias")}
        kinds = ("attn",) if side == "encoder" else ("attn", "cross_attn")
        for layer in range(self.layers(side)):
            before = f"{side}.blocks.{layer}."
            norms = [*(f"{kind}_ln" for kind in kinds), "mlp_ln"]
            shapes |= {f"{before}{norm}.{part}": (width,) for norm in norms for part in ("weight", "bias")}
            shapes |= {f"{before}mlp.0.weight": (inner, width), f"{before}mlp.0.bias": (inner,)}
            shapes |= {f"{before}mlp.2.weight": (width, inner), f"{before}mlp.2.bias": (width,)}
            for kind in kinds:
                for part in ("query", "key", "value", "out"):
                    given = self.width("encoder") if kind == "cross_attn" and part in ("key", "value") else width
                    shapes[f"{before}{kind}.{part}.weight"] = (width, given)
                    if part != "key":
                        shapes[f"{before}{kind}.{part}.bias"] = (width,)
        return shapes
