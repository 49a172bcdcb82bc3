"""`NpuEmbedder`: a compiled model of embeddings on the NPU, or on the software NPU. One job for a whole text.

The CPU looks up rows of the embedding (and of learned positions), writes angles and what each token sees, and pools the
rows that come back. A text takes the smallest graph that it fits into; the rest of that graph is hidden.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NoReturn

import numpy as np

from openrknn.container.load import load
from openrknn.device import Device
from openrknn.errors import FormatError, UnsupportedError
from openrknn.llm.config import LanguageConfig
from openrknn.llm.engine import Cache
from openrknn.llm.errors import CacheFullError
from openrknn.llm.file import LanguageFile, read_language
from openrknn.llm.npu_limits import check_ports
from openrknn.llm.ports import Ports, makes_embeddings
from openrknn.llm.range_guard import checked_hidden
from openrknn.llm.reference import pool, visible
from openrknn.llm.step_inputs import HIDDEN, Rotations
from openrknn.llm.weights import Floats
from openrknn.runtime.binding import Binding
from openrknn.runtime.session import Session


class NpuEmbedder:
    """A compiled file, ready to run. One thread at a time.

    with NpuEmbedder("minilm.rknnz") as engine:
        vector = engine.embed(tokens)
    """

    def __init__(self, model: LanguageFile | str | os.PathLike[str] | bytes, device: str | Device = "auto") -> None:
        self.file = file = model if isinstance(model, LanguageFile) else read_language(model)
        self._config = file.config
        name = file.path or "the language model"
        if not makes_embeddings(file.config):
            raise UnsupportedError(f"{name} generates text: open it with openrknn.llm.npu.NpuEngine")
        self._session = Session(load(file.step), device)
        try:
            if len(self._session.model.graphs) != len(file.graphs):
                raise FormatError(f"{name} has {len(self._session.model.graphs)} graphs, and says {len(file.graphs)}")
            self.graphs: dict[int, Binding] = {}
            for number, entry in enumerate(file.graphs):
                bound = self._session.bind(pixels=False, graph=number)
                check_ports(Ports(file.config, 0, entry.tokens), bound, name, logits=False)
                self.graphs[entry.tokens] = bound
        except BaseException:
            self._session.close()
            raise
        self._rows, self._positions = file.embedding, file.positions
        for tokens, bound in self.graphs.items():  # positions of a text are always the same
            Rotations(Ports(file.config, 0, tokens), bound.inputs, file.layout).write(0)
        self._seen: dict[int, int] = {}

    @property
    def config(self) -> LanguageConfig:
        return self._config

    @property
    def capacity(self) -> int:
        """Tokens of the longest text."""
        return self.file.capacity

    @property
    def session(self) -> Session:
        """The graphs as a model, to look at or to profile."""
        return self._session

    def hidden(self, tokens: Sequence[int]) -> Floats:
        """Rows of the last layer of a text, after its norm, [tokens, width]."""
        given = [int(token) for token in tokens]
        wrong = next((one for one in given if not 0 <= one < self._config.vocabulary), None)
        if not given or wrong is not None:
            raise ValueError(f"token {wrong} was given; there are {self._config.vocabulary}" if given else "no tokens")
        if len(given) > self.capacity:
            raise CacheFullError(
                f"a text of {len(given)} tokens was given, and {self.capacity} fit; compile with a larger capacity, "
                "or shorten the text"
            )
        size = min(one for one in self.graphs if one >= len(given))
        bound, count, atom = self.graphs[size], len(given), self.file.layout.atom
        rows = self._rows[given].astype(np.float32)
        if self._positions is not None:
            rows += self._positions[:count]
        filled = bound.inputs["x"].reshape(-1, size, atom)
        filled[:, :count] = rows.reshape(count, -1, atom).transpose(1, 0, 2)
        filled[:, count:] = 0
        self._show(size, count)
        bound.run()
        made = bound.outputs["hidden"].reshape(-1, size, atom)[:, :count]
        return checked_hidden(made.transpose(1, 0, 2).reshape(count, -1)[:, : self._config.width].astype(np.float32))

    def embed(self, tokens: Sequence[int], *, normalise: bool = True) -> Floats:
        """One vector [width] of a text, pooled as the model's file says ("none": the mean)."""
        return pool(self._config, self.hidden(tokens), normalise=normalise)

    def _show(self, size: int, count: int) -> None:
        """Tokens see what the model lets them see of the text, and nothing behind it."""
        if self._seen.get(size) == count:
            return
        config, bound, ports = self._config, self.graphs[size], Ports(self._config, 0, size)
        self._seen[size] = count
        for name, layer in {ports.mask_of(layer): layer for layer in range(config.layers)}.items():
            mask = bound.inputs[name][0, :, 0]
            seen = visible(config, layer, np.arange(size), size) & (np.arange(size) < count)
            pixels = np.arange(mask.shape[1]) % size
            mask[...] = (
                np.where(seen[pixels].T, 0, HIDDEN).reshape(-1, self.file.layout.atom, len(pixels)).transpose(0, 2, 1)
            )

    # -- as an engine ----------------------------------------------------------------------------------------------

    def new_cache(self) -> NoReturn:
        self._refuse()

    def forward(self, cache: Cache, tokens: Sequence[int], *, all_logits: bool = False) -> NoReturn:
        self._refuse()

    def forward_batch(self, caches: Sequence[Cache], tokens: Sequence[int]) -> NoReturn:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise UnsupportedError(f"a compiled {self._config.architecture} model makes embeddings and no text")

    def close(self) -> None:
        """Give everything back. Closing twice is allowed."""
        self._session.close()

    def __enter__(self) -> NpuEmbedder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
