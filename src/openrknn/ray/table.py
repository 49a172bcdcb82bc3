"""One table of all parts: Parquet, CSV or JSON lines."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from openrknn.extras import missing
from openrknn.ray.errors import JobError
from openrknn.ray.ledger import Row

__all__ = ["FORMATS", "write_table"]

_ROWS = 5000
Rows = Callable[[], Iterable[Row]]


def write_table(rows: Rows, path: Path, form: str) -> None:
    """All rows, under their name only when they are all there. `rows` is called twice: the columns come first."""
    columns = list(dict.fromkeys(name for row in rows() for name in row))
    half = path.with_name(f".half-{path.name}")
    FORMATS[form](rows, columns, half)
    with half.open("rb") as file:
        os.fsync(file.fileno())
    half.rename(path)


def _jsonl(rows: Rows, columns: list[str], path: Path) -> None:
    with path.open("w", encoding="utf-8", errors="surrogateescape") as file:
        file.writelines(
            json.dumps({name: row.get(name) for name in columns}, ensure_ascii=False) + "\n" for row in rows()
        )


def _csv(rows: Rows, columns: list[str], path: Path) -> None:
    with path.open("w", encoding="utf-8", errors="surrogateescape", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        for row in rows():
            writer.writerow([_cell(row.get(name)) for name in columns])


def _cell(value: Any) -> Any:
    """Lists and objects as JSON: a cell holds text."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value


def _parquet(rows: Rows, columns: list[str], path: Path) -> None:
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError as error:
        raise JobError(missing(error, "ray")) from None
    try:
        # Types are those of all rows: the first thousands may have found nothing.
        schemas = [arrow.Table.from_pylist(some).schema for some in _chunks(rows(), columns)]
        schema = arrow.unify_schemas(schemas, promote_options="permissive")
        with parquet.ParquetWriter(path, schema) as writer:
            for some in _chunks(rows(), columns):
                writer.write_table(arrow.Table.from_pylist(some, schema=schema))
    except (arrow.ArrowInvalid, arrow.ArrowTypeError, UnicodeEncodeError) as error:
        raise JobError(f"the answers do not fit into columns ({error}); ask for format='jsonl'") from None


def _chunks(rows: Iterable[Row], columns: list[str]) -> Iterator[list[Row]]:
    walk = iter(rows)
    while some := [{name: row.get(name) for name in columns} for row in islice(walk, _ROWS)]:
        yield some


FORMATS: dict[str, Callable[[Rows, list[str], Path], None]] = {"parquet": _parquet, "csv": _csv, "jsonl": _jsonl}
