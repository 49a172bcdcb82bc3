"""`Predictor` for `Dataset.map_batches`, and `predict`: a dataset of answers, computed when it is read."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from openrknn.extras import missing
from openrknn.ray.errors import ClusterError, ItemsError
from openrknn.ray.items import Array, Work, items_of
from openrknn.ray.job import plan_for
from openrknn.ray.ledger import Row
from openrknn.ray.pool import RESOURCE
from openrknn.ray.work import make_worker

__all__ = ["Predictor", "predict"]

_COLUMNS = ("bytes", "image", "path")
"""What is there counts more than where it came from."""


class Predictor:
    """A class for Ray Data: each actor opens the model once, each batch gets columns of answers.

        dataset.map_batches(
            openrknn.ray.Predictor, fn_constructor_args=("scene.rknn",), batch_size=16,
            compute=ray.data.ActorPoolStrategy(size=3), num_cpus=0, resources={"npu": 1},
        )

    Pictures are in the column `path`, `bytes` (files) or `image` (pixels, as `ray.data.read_images` has them), sound in
    `path` or `bytes`; with `kind="array"` the columns are the inputs of the model. The columns of the batch stay, but
    `bytes` and `image` go; `error` says why an item has no answer.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | bytes | Callable[..., Any],
        kind: str = "picture",
        *,
        top: int = 1,
        raw: bool = False,
        **options: Any,
    ) -> None:
        self._kind = kind
        self._worker = make_worker(plan_for(model, kind, options, top=top, raw=raw))

    def __call__(self, batch: dict[str, Array]) -> dict[str, Array]:
        """The batch with columns of answers."""
        count = len(next(iter(batch.values()))) if batch else 0
        rows = self._worker(self._work(batch, count))
        kept = {name: values for name, values in batch.items() if name not in {"bytes", "image"}}
        if self._kind == "array":
            kept = {}
        names = dict.fromkeys(name for row in rows for name in row if name != "item" and name not in kept)
        return {**kept, **{name: _column(rows, name) for name in names}}

    def _work(self, batch: dict[str, Array], count: int) -> Work:
        keys = [str(number) for number in range(count)]
        if self._kind == "array":
            return Work(0, "array", keys, arrays=batch)
        column = next((name for name in _COLUMNS if name in batch), "")
        if not column:
            raise ItemsError(f"the batch has no column path, bytes or image; it has {', '.join(batch)}")
        if column == "bytes":
            return Work(0, self._kind, keys, content=list(batch["bytes"]))
        if column == "image":
            return Work(0, "image", keys, arrays={"image": batch["image"]})
        return Work(0, self._kind, [str(path) for path in batch["path"]])


def _column(rows: list[Row], name: str) -> Array:
    values = [row.get(name) for row in rows]
    if name != "error" and all(isinstance(value, int | float) for value in values):
        return np.array(values)
    column = np.empty(len(values), object)  # numpy would make a matrix of lists of the same length
    column[:] = values
    return column


def predict(
    items: object,
    model: str | os.PathLike[str] | bytes | Callable[..., Any],
    *,
    kind: str = "picture",
    workers: int = 1,
    npus: float = 1.0,
    batch_size: int = 16,
    **options: Any,
) -> Any:
    """A `ray.data.Dataset` with the answers for paths, arrays or a dataset; it is computed when it is read.

    Paths and datasets as in `run`, options as in `Predictor`. Nothing is kept: `run` is for jobs that have to survive.
    """
    try:
        import ray.data
    except ImportError as error:
        raise ClusterError(missing(error, "ray")) from None
    if isinstance(items, ray.data.Dataset):
        dataset = items
    else:
        found = items_of(items, kind)
        if found.arrays is not None:
            kind = "array"
            dataset = ray.data.from_numpy(next(iter(found.arrays.values())))
            if len(found.arrays) > 1:
                raise ItemsError("several arrays are rows of a dataset: give a ray.data.Dataset with a column for each")
            dataset = (
                dataset.rename_columns({"data": next(iter(found.arrays))}) if next(iter(found.arrays)) else dataset
            )
        else:
            dataset = ray.data.from_items([{"path": os.path.abspath(path)} for path in found.keys])
    if not isinstance(model, bytes) and not callable(model) and kind != "audio":
        with open(model, "rb") as file:
            model = file.read()
    return dataset.map_batches(
        Predictor,
        fn_constructor_args=(model, kind),
        fn_constructor_kwargs=options,
        batch_size=batch_size,
        compute=ray.data.ActorPoolStrategy(size=workers),
        num_cpus=0 if npus else 1,
        resources={RESOURCE: npus} if npus else None,
    )
