"""Models from S3-compatible storage. `web` is our own server; tests/serve/test_moto.py asks moto's."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import pytest

from openrknn.cli.main import main
from openrknn.serve.sources import Sources
from openrknn.serve.sources.http_client import Bounds
from tests.serve.sources.looking import Look, sha256_of
from tests.serve.storage import Storage


def _objects(**more: bytes) -> dict[str, bytes]:
    return {
        "/box/m/a.rknn": b"one",
        "/box/m/b/1/model.rknn": b"two",
        "/box/m/b/2/model.rknn": b"three",
        "/box/m/b/labels.txt": b"cat dog",
        "/box/m/notes/readme.md": b"-",
        "/box/m/../x.rknn": b"-",
        "/box/other.rknn": b"-",
        **{f"/box/m/{name}": data for name, data in more.items()},
    }


def test_a_bucket_in_pages(web: Storage, look: Look) -> None:
    web.files = _objects()
    there = ["a.rknn", "b/1/model.rknn", "b/2/model.rknn", "b/labels.txt"]
    assert look("s3://box/m") == (there, [])
    assert sum("continuation-token" in path for path, _ in web.asked) == 2
    assert all("AWS4-HMAC-SHA256" in headers["authorization"] for _, headers in web.asked)
    web.asked.clear()
    assert look("s3://box/m/") == (there, [])
    assert set(web.paths()) == {"/box/"}  # only the list: no object is asked for again
    del web.files["/box/m/b/2/model.rknn"], web.files["/box/m/a.rknn"]
    assert look("s3://box/m") == (["b/1/model.rknn", "b/labels.txt"], [])


def test_one_object(web: Storage, look: Look) -> None:
    web.files = _objects(**{"a.rknn.sha256": sha256_of(b"one").encode(), "a2.rknn": b"-"})
    assert look("s3://box/m/a.rknn", require=True) == (["a.rknn", "a.rknn.sha256"], [])
    assert look(f"s3://box/m/a.rknn#sha256={sha256_of(b'no')}", fresh=True) == ([], ["checksum"])
    assert look("s3://box/m/none.rknn", fresh=True) == ([], ["gone"])


def test_the_storages_own_checksum(web: Storage, look: Look) -> None:
    web.files = {"/box/m/a.rknn": b"one"}
    good = base64.b64encode(hashlib.sha256(b"one").digest()).decode()
    web.headers = {"/box/m/a.rknn": {"x-amz-checksum-sha256": good}}
    assert look("s3://box/m", require=True) == (["a.rknn"], [])
    web.headers["/box/m/a.rknn"]["x-amz-checksum-sha256"] = base64.b64encode(bytes(32)).decode()
    assert look("s3://box/m", fresh=True) == ([], ["checksum"])


def test_a_model_and_its_labels_change_together(web: Storage, look: Look, tmp_path: Path) -> None:
    web.files = {"/box/b/model.rknn": b"old", "/box/b/labels.txt": b"old"}
    look("s3://box")
    web.files = {"/box/b/model.rknn": b"new", "/box/b/labels.txt": b"new"}
    web.statuses = {"/box/b/model.rknn": 500}
    assert look("s3://box")[1] == ["unreachable"]
    assert (tmp_path / "mirror/b/labels.txt").read_bytes() == b"old"
    web.statuses = {}
    assert look("s3://box")[1] == []
    assert (tmp_path / "mirror/b/labels.txt").read_bytes() == b"new"


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("ExpiredToken", "have expired"),
        ("InvalidAccessKeyId", "does not accept the key AKEY..."),
        ("RequestTimeTooSkewed", "the clock"),
        ("AccessDenied", "may not read it"),
    ],
)
def test_credentials_that_are_refused(
    web: Storage, tmp_path: Path, caplog: pytest.LogCaptureFixture, code: str, says: str
) -> None:
    web.code = code
    variables = {"AWS_ENDPOINT_URL": web.url, "AWS_ACCESS_KEY_ID": "AKEY1234", "AWS_SECRET_ACCESS_KEY": "hush"}
    sources = Sources(["s3://box/m"], cache=str(tmp_path), environment=variables)
    sources.sync()
    sources.sync()
    assert says in sources.problem
    assert sources.remote[0].errors == {"credentials": 2}
    assert caplog.text.count(says) == 1  # a problem that stays is told once
    assert "hush" not in caplog.text


def test_what_did_not_verify_is_not_fetched_again_until_it_changes(web: Storage, tmp_path: Path) -> None:
    web.files = {"/box/a.rknn": b"without a checksum"}
    variables = {"AWS_ENDPOINT_URL": web.url}
    sources = Sources(["s3://box"], cache=str(tmp_path), require_checksum=True, environment=variables)
    for _ in range(3):
        sources.sync()
        assert "no checksum" in sources.problem
    assert web.paths().count("/box/a.rknn") == 1
    web.files["/box/a.rknn.sha256"] = sha256_of(b"without a checksum").encode()
    sources.sync()
    assert sources.problem == ""


def test_new_credentials_are_read_before_each_look(web: Storage, tmp_path: Path) -> None:
    web.files, web.code = {"/box/a.rknn": b"x"}, "ExpiredToken"
    file = tmp_path / "credentials"
    file.write_text("[default]\naws_access_key_id = OLD\naws_secret_access_key = s\naws_session_token = t\n")
    variables = {"AWS_ENDPOINT_URL": web.url, "AWS_SHARED_CREDENTIALS_FILE": str(file)}
    sources = Sources(["s3://box"], cache=str(tmp_path / "cache"), environment=variables)
    sources.sync()
    assert "have expired" in sources.problem
    file.write_text("[default]\naws_access_key_id = NEW\naws_secret_access_key = s\n")
    web.code = ""
    sources.sync()
    assert sources.problem == ""
    assert "Credential=OLD/" in web.asked[0][1]["authorization"]
    assert web.asked[0][1]["x-amz-security-token"] == "t"
    assert "Credential=NEW/" in web.asked[-1][1]["authorization"]


def test_the_command_refuses_addresses_before_it_starts(capsys: pytest.CaptureFixture[str]) -> None:
    for source in ("ftp://host/a.rknn", "https://host/folder/", "s3://bucket#sha256=1"):
        assert main(["serve", source]) != 0
        assert source.partition("#")[0] in capsys.readouterr().err


@pytest.mark.parametrize(
    "body",
    [
        b"<html></html>",
        b"",
        b"<ListBucketResult>",
        b'<!DOCTYPE x [<!ENTITY a "aaaa">]><ListBucketResult><Contents><Key>&a;</Key></Contents></ListBucketResult>',
        b"<ListBucketResult><Contents><Key>a.rknn</Key><Size>-1</Size></Contents></ListBucketResult>",
    ],
)
def test_lists_that_make_no_sense_take_nothing_away(web: Storage, look: Look, body: bytes) -> None:
    web.files = {"/box/a.rknn": b"kept"}
    look("s3://box")
    web.list_body = body
    assert look("s3://box") == (["a.rknn"], ["answer"])


def test_a_list_without_end(web: Storage, look: Look) -> None:
    web.list_body = (
        b"<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>x</NextContinuationToken>"
        b"</ListBucketResult>"
    )
    assert look("s3://box") == ([], ["size"])


def test_too_many_and_too_large(web: Storage, look: Look) -> None:
    web.files = {f"/box/m{number}.rknn": b"xx" for number in range(5)}
    assert look("s3://box", bounds=Bounds(files=4)) == ([], ["size"])
    assert look("s3://box", bounds=Bounds(total_bytes=9)) == ([], ["size"])
    assert look("s3://box", bounds=Bounds(file_bytes=1)) == ([], ["size"] * 5)
    assert set(web.paths()) == {"/box/"}


# -- the mirror ----------------------------------------------------------------------------------------------------
