"""`Report`: how a job went, and its table."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openrknn.ray.ledger import Row

__all__ = ["Report"]


@dataclass(frozen=True, slots=True)
class Report:
    """A job that is done: every item has one row."""

    table: Path
    """table.parquet, table.csv or table.jsonl in the job's folder."""
    items: int
    errors: int
    """Items whose row has a reason instead of an answer."""
    resumed: int
    """Items that an earlier run had done."""
    repeated: int
    """Paths that were given more than once; they count once."""
    duplicates: int
    """Parts that came twice, from workers taken for dead; the second was thrown away."""
    rounds: int
    """1: no part had to be looked for again."""
    workers: int
    seconds: float

    @property
    def rate(self) -> float:
        """Items a second, of those that this run did."""
        return (self.items - self.resumed) / self.seconds if self.seconds > 0 else 0.0

    def rows(self) -> Iterator[Row]:
        """One dictionary per item, in the order of the items."""
        if self.table.suffix == ".jsonl":
            with self.table.open(encoding="utf-8", errors="surrogateescape") as file:
                for line in file:
                    yield json.loads(line)
            return
        yield from self.to_arrow().to_pylist()

    def to_arrow(self) -> Any:
        """A `pyarrow.Table`."""
        if self.table.suffix == ".parquet":
            import pyarrow.parquet

            return pyarrow.parquet.read_table(self.table)
        if self.table.suffix == ".csv":
            import pyarrow.csv

            return pyarrow.csv.read_csv(self.table)
        import pyarrow

        return pyarrow.Table.from_pylist(list(self.rows()))

    def to_pandas(self) -> Any:
        """A `pandas.DataFrame`."""
        return self.to_arrow().to_pandas()

    def dataset(self) -> Any:
        """A `ray.data.Dataset`."""
        import ray.data

        return ray.data.from_arrow(self.to_arrow())
