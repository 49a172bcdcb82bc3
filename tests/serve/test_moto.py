"""The same against moto's server, a stand-in of Amazon's S3 that others wrote, with boto3 as the one who uploads."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openrknn.serve.sources import Sources
from openrknn.serve.sources.bucket import Bucket

_MANY = 10


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    moto_server: Any = pytest.importorskip("moto.server", reason="moto is not installed: tools/setup-checks --install")
    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(endpoint: str) -> Iterator[Any]:
    boto3: Any = pytest.importorskip("boto3", reason="boto3 is not installed: tools/setup-checks --install")
    client = boto3.client(
        "s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b"
    )
    client.create_bucket(Bucket="models")
    yield client
    listed = client.get_paginator("list_objects_v2").paginate(Bucket="models")
    for page in listed:
        for one in page.get("Contents", []):
            client.delete_object(Bucket="models", Key=one["Key"])
    client.delete_bucket(Bucket="models")


def _sources(endpoint: str, source: str, folder: Path, **options: Any) -> Sources:
    variables = {"AWS_ENDPOINT_URL": endpoint, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
    return Sources([source], cache=str(folder), environment=variables, **options)


def _files(sources: Sources) -> dict[str, bytes]:
    folder = Path(sources.paths()[0])
    found = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def test_follow_a_bucket(endpoint: str, bucket: Any, tmp_path: Path) -> None:
    def put(key: str, body: bytes, **more: str) -> None:
        bucket.put_object(Bucket="models", Key=key, Body=body, **more)

    put("boards/a.rknn", b"one", ChecksumAlgorithm="SHA256")
    put("boards/b c/x.rknn", b"a name with a blank is not one of ours")
    put("boards/b/1/model.rknn", b"two")
    put("boards/b/1/model.rknn.sha256", hashlib.sha256(b"two").hexdigest().encode())
    put("else.rknn", b"-")
    sources = _sources(endpoint, "s3://models/boards", tmp_path, require_checksum=True)
    sources.sync()
    assert sources.problem == ""
    assert set(_files(sources)) == {"a.rknn", "b/1/model.rknn", "b/1/model.rknn.sha256"}
    put("boards/a.rknn", b"one, again", ChecksumAlgorithm="SHA256")
    put("boards/b/2/model.rknn", b"without a checksum")
    sources.sync()
    assert "b/2/model.rknn has no checksum" in sources.problem
    assert _files(sources)["a.rknn"] == b"one, again"
    bucket.delete_object(Bucket="models", Key="boards/a.rknn")
    bucket.delete_object(Bucket="models", Key="boards/b/2/model.rknn")
    sources.sync()
    assert sources.problem == ""
    assert set(_files(sources)) == {"b/1/model.rknn", "b/1/model.rknn.sha256"}


def test_objects_in_parts_have_no_checksum_of_the_whole(endpoint: str, bucket: Any, tmp_path: Path) -> None:
    upload = bucket.create_multipart_upload(Bucket="models", Key="big.rknn", ChecksumAlgorithm="SHA256")
    known = {"Bucket": "models", "Key": "big.rknn", "UploadId": upload["UploadId"]}
    bodies = [b"x" * (5 << 20), b"y" * 1000]
    tags = [bucket.upload_part(**known, PartNumber=number, Body=body)["ETag"] for number, body in enumerate(bodies, 1)]
    parts = [{"ETag": tag, "PartNumber": number} for number, tag in enumerate(tags, 1)]
    bucket.complete_multipart_upload(**known, MultipartUpload={"Parts": parts})
    sources = _sources(endpoint, "s3://models", tmp_path)
    sources.sync()
    assert sources.problem == ""
    assert _files(sources) == {"big.rknn": b"".join(bodies)}


def test_lists_of_several_pages(endpoint: str, bucket: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Bucket, "page_size", 3)
    for number in range(_MANY):
        bucket.put_object(Bucket="models", Key=f"m/n{number:04}.md", Body=b"")
    bucket.put_object(Bucket="models", Key="m/z.rknn", Body=b"behind all others")
    sources = _sources(endpoint, "s3://models/m", tmp_path)
    sources.sync()
    assert _files(sources) == {"z.rknn": b"behind all others"}


def test_no_such_bucket(endpoint: str, tmp_path: Path) -> None:
    sources = _sources(endpoint, "s3://not-there/m", tmp_path)
    sources.sync()
    assert "there is no bucket 'not-there'" in sources.problem


def test_signatures_are_those_of_botocore() -> None:
    """moto does not check signatures; botocore's own signer does the same request."""
    from datetime import datetime, timezone
    from unittest import mock

    auth = pytest.importorskip("botocore.auth", reason="boto3 is not installed: tools/setup-checks --install")
    awsrequest = pytest.importorskip("botocore.awsrequest")
    theirs = pytest.importorskip("botocore.credentials")
    from openrknn.serve.sources.credentials import Credentials
    from openrknn.serve.sources.signing import canonical_path, canonical_query, signed

    moment = datetime(2026, 11, 16, 12, 0, 0, tzinfo=timezone.utc)
    path, query = "/bücket/a b+c~(1)/m.rknn", {"list-type": "2", "prefix": "a b/ü&=+", "continuation-token": "1+/="}
    ours = signed(
        Credentials("KEY", "secret/+", "token=="), region="eu-west-1", host="s3.test:9000", path=path, query=query,
        headers={"if-match": '"abc"'}, now=moment,
    )  # fmt: skip
    url = f"https://s3.test:9000{canonical_path(path)}?{canonical_query(query)}"
    request = awsrequest.AWSRequest("GET", url, headers={"if-match": '"abc"'}, data=b"")
    request.context["payload_signing_enabled"] = True
    signer = auth.S3SigV4Auth(theirs.Credentials("KEY", "secret/+", "token=="), "s3", "eu-west-1")
    with mock.patch.object(auth, "get_current_datetime", return_value=moment.replace(tzinfo=None), create=True):
        signer.add_auth(request)
    assert request.headers["Authorization"].rpartition("=")[2] == ours["authorization"].rpartition("=")[2]
