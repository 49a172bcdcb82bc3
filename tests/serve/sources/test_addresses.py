"""Addresses, signatures and credentials of model sources."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import pytest

from openrknn.serve.sources import credentials as credentials_module
from openrknn.serve.sources.address import parse, relative_path
from openrknn.serve.sources.credentials import Credentials
from openrknn.serve.sources.errors import BadAddressError, CredentialsError
from openrknn.serve.sources.signing import signed


@pytest.mark.parametrize(
    "bad",
    [
        "ftp://host/a.rknn",
        "file:///etc/a.rknn",
        "https:///a.rknn",
        "https://host/",
        "https://host/folder/",
        "https://user:secret@host/a.rknn",
        "https://host/a b.rknn",
        "https://host:99999/a.rknn",
        "https://host/%2e%2e%2f.rknn",
        "https://host/a.rknn#sha256=12",
        "https://host/a.rknn#md5=" + "0" * 64,
        "s3://",
        "s3://B/prefix",
        "s3://bucket/prefix#sha256=" + "0" * 64,
        "s3://bucket/a?endpoint=x",
    ],
)
def test_addresses_that_are_none(bad: str) -> None:
    with pytest.raises(BadAddressError) as caught:
        parse(bad)
    assert "secret" not in str(caught.value)


def test_addresses_are_shown_without_their_query() -> None:
    address = parse("https://host/a.rknn?X-Amz-Signature=abc")
    assert address.text == "https://host/a.rknn"
    assert address.place.endswith("?X-Amz-Signature=abc")


@pytest.mark.parametrize(
    ("path", "is_good"),
    [
        ("a.rknn", True),
        ("a/1/model.rknn", True),
        ("a/labels.txt", True),
        ("a/model.toml", True),
        ("a.rknn.sha256", True),
        ("a/b/1/model.rknn", False),
        ("../a.rknn", False),
        ("a/../../b.rknn", False),
        ("/etc/a.rknn", False),
        ("a//b.rknn", False),
        (".hidden.rknn", False),
        ("a\\b.rknn", False),
        ("a\0.rknn", False),
        ("readme.md", False),
        ("x" * 200 + ".rknn", False),
    ],
)
def test_names_in_a_mirror(path: str, is_good: bool) -> None:
    assert (relative_path(path) is not None) == is_good


def test_signature_of_the_example_in_the_documentation_of_s3() -> None:
    """GET /test.txt with Range, of "Authenticating Requests (AWS Signature Version 4)"."""
    headers = signed(
        Credentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
        region="us-east-1",
        host="examplebucket.s3.amazonaws.com",
        path="/test.txt",
        query={},
        headers={"Range": "bytes=0-9"},
        now=datetime(2013, 5, 24, tzinfo=timezone.utc),
    )
    assert headers["authorization"].endswith(
        "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
    )


def test_signature_of_the_list_in_the_documentation_of_s3() -> None:
    headers = signed(
        Credentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
        region="us-east-1",
        host="examplebucket.s3.amazonaws.com",
        path="/",
        query={"max-keys": "2", "prefix": "J"},
        headers={},
        now=datetime(2013, 5, 24, tzinfo=timezone.utc),
    )
    assert headers["authorization"].endswith(
        "Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"
    )


def test_credentials_of_a_profile(tmp_path: Path) -> None:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws/credentials").write_text(
        "[default]\naws_access_key_id = A\naws_secret_access_key = B\n[lab]\naws_access_key_id = C\n"
        "aws_secret_access_key = D\naws_session_token = E\n"
    )
    (tmp_path / ".aws/config").write_text("[profile lab]\nregion = eu-west-1\nendpoint_url = http://minio:9000/\n")
    home = {"HOME": str(tmp_path)}
    assert credentials_module.storage(home).credentials == Credentials("A", "B")
    lab = credentials_module.storage({**home, "AWS_PROFILE": "lab"})
    assert (lab.credentials, lab.region, lab.endpoint) == (Credentials("C", "D", "E"), "eu-west-1", "http://minio:9000")
    assert "D" not in repr(lab.credentials)
    with pytest.raises(CredentialsError, match="profile"):
        credentials_module.storage({**home, "AWS_PROFILE": "other"})
    with pytest.raises(CredentialsError, match="belong together"):
        credentials_module.storage({"AWS_ACCESS_KEY_ID": "A"})
    with pytest.raises(CredentialsError, match="letters"):
        credentials_module.storage({"AWS_ACCESS_KEY_ID": "A\r\nX: y", "AWS_SECRET_ACCESS_KEY": "b"})
