"""Our own storage server, and a source followed once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from openrknn.serve.sources import credentials as credentials_module
from openrknn.serve.sources.address import parse
from openrknn.serve.sources.bucket import Bucket
from openrknn.serve.sources.errors import SourceError
from openrknn.serve.sources.http_client import Bounds, HttpClient
from openrknn.serve.sources.item import Remote
from openrknn.serve.sources.mirror import Mirror
from openrknn.serve.sources.web import Page, Sums
from tests.serve.sources.looking import BOUNDS, Look
from tests.serve.storage import Storage, storage


@pytest.fixture
def web() -> Iterator[Storage]:
    with storage() as made:
        yield made


@pytest.fixture
def look(tmp_path: Path, web: Storage) -> Look:
    """Follow a source once: -> the files that are there, the reasons of what went wrong."""

    def once(
        source: str, *, require: bool = False, bounds: Bounds = BOUNDS, fresh: bool = False
    ) -> tuple[list[str], list[str]]:
        address = parse(source)
        folder = tmp_path / ("other" if fresh else "mirror")
        folder.mkdir(exist_ok=True)
        client = HttpClient(bounds, pause=lambda _: None, environment={})
        remote: Remote
        if address.scheme == "s3":
            where = credentials_module.storage(
                {"AWS_ENDPOINT_URL": web.url, "AWS_ACCESS_KEY_ID": "AKEY", "AWS_SECRET_ACCESS_KEY": "secret"}
            )
            remote = Bucket(address, where, client)
        else:
            remote = Page(address, client) if address.file_name else Sums(address, client)
        mirror = Mirror(folder, bounds, require_checksum=require, sha256=address.sha256)
        try:
            problems = [problem.reason for problem in mirror.sync(remote).problems]
        except SourceError as error:
            problems = [error.reason]
        inside = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
        return sorted(name for name in inside if not name.startswith(".")), problems

    return once
