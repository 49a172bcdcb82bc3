"""Models from HTTP(S) and S3-compatible storage. `storage` is our own server; tests/serve/test_moto.py asks moto's."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import socket
import ssl
import threading
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest
import trustme

from openrknn.cli.main import main
from openrknn.errors import UnsupportedError
from openrknn.serve.server import running
from openrknn.serve.settings import Settings
from openrknn.serve.sources import Sources, http_client
from openrknn.serve.sources import credentials as credentials_module
from openrknn.serve.sources.address import parse, relative_path
from openrknn.serve.sources.bucket import Bucket
from openrknn.serve.sources.credentials import Credentials
from openrknn.serve.sources.errors import BadAddressError, CredentialsError, SourceError
from openrknn.serve.sources.http_client import Bounds, HttpClient
from openrknn.serve.sources.item import Remote
from openrknn.serve.sources.mirror import Mirror
from openrknn.serve.sources.signing import signed
from openrknn.serve.sources.web import Page, Sums
from tests.serve.storage import Storage, storage

TONES = (Path(__file__).parents[2] / "examples/models/tones_rk3588_fp.rknn").read_bytes()
Look = Callable[..., tuple[list[str], list[str]]]
BOUNDS = Bounds(stall_seconds=2.0, head_seconds=2.0)


def _sum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


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


# -- addresses and signatures --------------------------------------------------------------------------------------


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


# -- HTTP ----------------------------------------------------------------------------------------------------------


def test_a_file_travels_once(web: Storage, look: Look) -> None:
    web.files = {"/m/a.rknn": b"one"}
    source = f"{web.url}/m/a.rknn"
    assert look(source) == (["a.rknn"], [])
    assert look(source) == (["a.rknn"], [])
    assert web.asked[2][1]["if-none-match"] == f'"{hashlib.md5(b"one").hexdigest()}"'
    web.files["/m/a.rknn"] = b"two"
    assert look(source) == (["a.rknn"], [])


def test_checksum_in_the_address(web: Storage, look: Look) -> None:
    web.files = {"/a.rknn": b"good"}
    assert look(f"{web.url}/a.rknn#sha256={_sum(b'good')}", require=True) == (["a.rknn"], [])
    assert look(f"{web.url}/a.rknn#sha256={_sum(b'bad')}", fresh=True) == ([], ["checksum"])
    # What is in the cache is not what the new address promises: it is not served either.
    assert look(f"{web.url}/a.rknn#sha256={_sum(b'bad')}") == ([], ["checksum"])


def test_checksum_beside_the_file(web: Storage, look: Look, tmp_path: Path) -> None:
    web.files = {"/a.rknn": b"good", "/a.rknn.sha256": f"{_sum(b'good')}  a.rknn\n".encode()}
    assert look(f"{web.url}/a.rknn", require=True) == (["a.rknn", "a.rknn.sha256"], [])
    web.files["/a.rknn"] = b"replaced before its checksum"
    assert look(f"{web.url}/a.rknn", require=True)[1] == ["checksum"]
    assert (tmp_path / "mirror/a.rknn").read_bytes() == b"good"
    web.files["/a.rknn.sha256"] = _sum(b"replaced before its checksum").encode()
    assert look(f"{web.url}/a.rknn", require=True)[1] == []
    web.files["/a.rknn.sha256"] = b"hello"
    assert look(f"{web.url}/a.rknn", fresh=True) == ([], ["checksum"])


def test_no_checksum_where_one_is_required(web: Storage, look: Look) -> None:
    web.files = {"/a.rknn": b"x"}
    assert look(f"{web.url}/a.rknn", require=True) == ([], ["checksum"])
    web.statuses = {"/a.rknn.sha256": 403}  # storages that hide what there is
    assert look(f"{web.url}/a.rknn") == (["a.rknn"], [])


@pytest.mark.parametrize(
    ("status", "reason", "asked"),
    [
        (404, "missing", 1),
        (401, "credentials", 1),
        (403, "credentials", 1),
        (500, "unreachable", 3),
        (418, "answer", 1),
    ],
)
def test_refusals_have_names_and_take_nothing_away(
    web: Storage, look: Look, status: int, reason: str, asked: int
) -> None:
    web.files = {"/a.rknn": b"kept"}
    look(f"{web.url}/a.rknn")
    web.statuses = {"/a.rknn": status}
    web.asked.clear()
    assert look(f"{web.url}/a.rknn") == (["a.rknn"], [reason])
    assert web.paths().count("/a.rknn") == asked


def test_gone_is_gone(web: Storage, look: Look) -> None:
    web.files = {"/a.rknn": b"kept"}
    look(f"{web.url}/a.rknn")
    web.statuses = {"/a.rknn": 410}
    assert look(f"{web.url}/a.rknn") == ([], ["gone"])


def test_partial_downloads(web: Storage, look: Look, tmp_path: Path) -> None:
    web.files, web.cut = {"/a.rknn": b"0123456789"}, {"/a.rknn": 3}
    assert look(f"{web.url}/a.rknn") == ([], ["partial"])
    web.unframed = True
    assert look(f"{web.url}/a.rknn") == ([], ["partial"])
    assert look(f"{web.url}/a.rknn#sha256={_sum(b'0123456789')}") == ([], ["checksum"])
    web.cut = {}
    assert look(f"{web.url}/a.rknn#sha256={_sum(b'0123456789')}") == (["a.rknn"], [])
    assert not list(tmp_path.rglob(".half-*"))


def test_size_limits(web: Storage, look: Look) -> None:
    web.files = {"/a.rknn": b"x" * 1000}
    small = Bounds(file_bytes=999, files=2)
    assert look(f"{web.url}/a.rknn", bounds=small) == ([], ["size"])
    web.unframed = True
    assert look(f"{web.url}/a.rknn#sha256={_sum(b'x' * 1000)}", bounds=small) == ([], ["size"])


def test_packed_bodies_are_refused(web: Storage, look: Look) -> None:
    web.files, web.headers = {"/a.rknn": b"x"}, {"/a.rknn": {"Content-Encoding": "gzip"}}
    assert look(f"{web.url}/a.rknn") == ([], ["answer"])


def test_redirects(web: Storage, look: Look) -> None:
    web.files = {"/there.bin": b"moved"}
    web.statuses = dict.fromkeys(("/a.rknn", "/b.rknn", "/c.rknn", "/d.rknn"), 302)
    web.headers = {
        "/a.rknn": {"Location": "/there.bin"},
        "/b.rknn": {"Location": "file:///etc/passwd"},
        "/c.rknn": {"Location": "/c.rknn"},
        "/d.rknn": {"Location": "http://[bad"},
    }
    assert look(f"{web.url}/a.rknn") == (["a.rknn"], [])
    for name in "bcd":
        assert look(f"{web.url}/{name}.rknn", fresh=True) == ([], ["redirect"]), name


def test_a_redirect_does_not_reach_other_services_of_this_machine(web: Storage, look: Look) -> None:
    """Another port of the same host is another service, and so is every private address."""
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as secret:

        def listen() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = secret.accept()
                    with connection:
                        connection.settimeout(5)
                        asked.append(connection.recv(100))

        thread = threading.Thread(target=listen)
        thread.start()
        port = secret.getsockname()[1]
        places = (f"http://127.0.0.1:{port}/x", f"http://localhost:{port}/x", f"http://[::ffff:127.0.0.1]:{port}/x")
        for number, place in enumerate(places):
            web.statuses[f"/{number}.rknn"] = 302
            web.headers[f"/{number}.rknn"] = {"Location": place}
            assert look(f"{web.url}/{number}.rknn", fresh=True) == ([], ["redirect"]), place
        secret.shutdown(socket.SHUT_RDWR)
        thread.join()
    assert not any(asked)


@pytest.mark.parametrize(
    ("address", "is_public"),
    [("8.8.8.8", True), ("2606:4700::1111", True), ("127.0.0.1", False), ("10.0.0.1", False), ("::1", False),
     ("169.254.169.254", False), ("fe80::1%eth0", False), ("::ffff:10.0.0.1", False), ("0.0.0.0", False),
     ("224.0.0.1", False)],
)  # fmt: skip
def test_public_addresses(address: str, is_public: bool) -> None:
    assert http_client._is_public(address) is is_public


def test_https_never_becomes_http_and_passwords_stay_with_their_host(
    web: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_client, "_is_public", lambda address: True)  # both servers of this test are local
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1", "localhost").configure_cert(context)
    ca_file = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(ca_file))
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password secret\n")
    (tmp_path / ".netrc").chmod(0o600)
    got: list[bytes] = []

    def serve(listener: socket.socket, locations: list[str]) -> None:
        for location in locations:
            with listener.accept()[0] as plain, context.wrap_socket(plain, server_side=True) as one:
                got.append(one.recv(65536))
                one.sendall(f"HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode())

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        onward = [f"{web.url}/a.rknn", f"https://localhost:{port}/b.rknn", "ftp://host/c.rknn"]
        thread = threading.Thread(target=serve, args=(listener, onward))
        thread.start()
        client = HttpClient(BOUNDS, ca_file=str(ca_file), pause=lambda _: None, environment={"HOME": str(tmp_path)})
        for _ in range(2):
            with pytest.raises(SourceError, match="not followed"), client.open(f"https://127.0.0.1:{port}/a.rknn"):
                pass
        thread.join()
    assert web.asked == []
    has_password = [b"authorization: basic" in request.lower() for request in got]
    assert has_password == [True, True, False]  # the third is another host


@pytest.mark.parametrize("speech", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", b"HTTP/1.1 200 OK\r\nX: y"])
def test_servers_that_stop_talking(look: Look, speech: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        source = f"http://127.0.0.1:{listener.getsockname()[1]}/a.rknn"
        held: list[socket.socket] = []

        def answer() -> None:
            one, _ = listener.accept()
            held.append(one)
            one.recv(4096)
            one.sendall(speech)

        thread = threading.Thread(target=answer)
        thread.start()
        assert look(source, bounds=Bounds(stall_seconds=0.2, head_seconds=5, tries=1)) == ([], ["unreachable"])
        thread.join()
        held[0].close()


def test_headers_byte_by_byte(look: Look) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        source = f"http://127.0.0.1:{listener.getsockname()[1]}/a.rknn"

        def drip() -> None:
            with listener.accept()[0] as one:
                one.recv(4096)
                try:
                    one.sendall(b"HTTP/1.1 200 OK\r\nX: ")
                    while True:
                        one.sendall(b"y")
                        threading.Event().wait(0.05)
                except OSError:
                    return

        thread = threading.Thread(target=drip)
        thread.start()
        assert look(source, bounds=Bounds(stall_seconds=5, head_seconds=0.3, tries=1)) == ([], ["unreachable"])
        thread.join()


@pytest.mark.parametrize(
    "nonsense", [b"\0\1\2\3\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n", b"HTTP/9 x\r\n\r\n"]
)
def test_answers_that_are_no_http(look: Look, nonsense: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            with listener.accept()[0] as one:
                one.recv(4096)
                one.sendall(nonsense)

        thread = threading.Thread(target=answer)
        thread.start()
        source = f"http://127.0.0.1:{listener.getsockname()[1]}/a.rknn"
        files, problems = look(source, bounds=Bounds(stall_seconds=1, tries=1))
        thread.join()
        assert files == []
        assert problems[0] in {"unreachable", "partial"}


# -- lists of checksums --------------------------------------------------------------------------------------------


def test_a_folder_by_its_list(web: Storage, look: Look) -> None:
    web.files = {"/m/a.rknn": b"one", "/m/b/1/model.rknn": b"two", "/m/b/labels.txt": b"cat"}
    lines = [f"{_sum(data)}  ./{path.removeprefix('/m/')}" for path, data in web.files.items()]
    lines += [f"{_sum(b'')} *../../etc/passwd.rknn", f"{_sum(b'')}  readme.md"]
    web.files["/m/SHA256SUMS"] = "\n".join(lines).encode()
    there = ["a.rknn", "b/1/model.rknn", "b/labels.txt"]
    assert look(f"{web.url}/m/SHA256SUMS", require=True) == (there, [])
    web.asked.clear()
    assert look(f"{web.url}/m/SHA256SUMS", require=True) == (there, [])
    assert web.paths() == ["/m/SHA256SUMS"]
    web.files["/m/SHA256SUMS"] = "\n".join(lines[1:]).encode()
    assert look(f"{web.url}/m/SHA256SUMS") == (there[1:], [])
    web.files["/m/SHA256SUMS"] = b"<html>not found</html>"
    assert look(f"{web.url}/m/SHA256SUMS") == (there[1:], ["answer"])


def test_one_bad_model_holds_up_only_itself(web: Storage, look: Look) -> None:
    web.files = {"/a.rknn": b"one", "/b.rknn": b"two"}
    web.files["/SHA256SUMS"] = f"{_sum(b'other')}  a.rknn\n{_sum(b'two')}  b.rknn\n".encode()
    assert look(f"{web.url}/SHA256SUMS") == (["b.rknn"], ["checksum"])


# -- S3 ------------------------------------------------------------------------------------------------------------


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
    web.files = _objects(**{"a.rknn.sha256": _sum(b"one").encode(), "a2.rknn": b"-"})
    assert look("s3://box/m/a.rknn", require=True) == (["a.rknn", "a.rknn.sha256"], [])
    assert look(f"s3://box/m/a.rknn#sha256={_sum(b'no')}", fresh=True) == ([], ["checksum"])
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
    web.files["/box/a.rknn.sha256"] = _sum(b"without a checksum").encode()
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


def test_what_is_altered_on_disk_is_fetched_again(web: Storage, look: Look, tmp_path: Path) -> None:
    web.files = {"/box/a.rknn": b"good", "/box/b.rknn": b"good"}
    look("s3://box")
    (tmp_path / "mirror/a.rknn").write_bytes(b"evil")
    (tmp_path / "mirror/planted.rknn").write_bytes(b"evil")
    (tmp_path / "mirror/b.rknn").unlink()
    (tmp_path / "mirror/b.rknn").symlink_to(tmp_path / "mirror/a.rknn")
    assert look("s3://box") == (["a.rknn", "b.rknn"], [])
    assert {path.read_bytes() for path in (tmp_path / "mirror").glob("*.rknn")} == {b"good"}
    (tmp_path / "mirror/.state.json").write_text('{"a.rknn": [{"tag": 1}]}')
    assert look("s3://box") == (["a.rknn", "b.rknn"], [])


def test_killed_between_state_and_files(web: Storage, look: Look, tmp_path: Path) -> None:
    """The state has both: whichever of them is on the disk verifies, without the network."""
    web.files = {"/box/a.rknn": b"old"}
    look("s3://box")
    state = tmp_path / "mirror/.state.json"
    content = json.loads(state.read_text())
    content["a.rknn"].append({"tag": "t", "size": 3, "sha256": _sum(b"new"), "is_promised": False})
    for data in (b"old", b"new"):
        state.write_text(json.dumps(content))
        (tmp_path / "mirror/a.rknn").write_bytes(data)
        assert Mirror(tmp_path / "mirror", BOUNDS).verified() == 1


# -- the server ----------------------------------------------------------------------------------------------------


def _ready(url: str) -> int:
    with urllib.request.urlopen(f"{url}/v2/models/tones/ready") as answer:
        return int(answer.status)


def test_serve_from_the_network_and_then_without_it(tmp_path: Path) -> None:
    with storage(files={"/tones.rknn": TONES}) as web:
        source = f"{web.url}/tones.rknn#sha256={_sum(TONES)}"
        settings = Settings(
            [source], http_port=0, grpc_port=None, workers="in-process", warm_up=False, model_cache=str(tmp_path),
            require_checksum=True, instances=1,
        )  # fmt: skip
        with running(settings) as server:
            assert _ready(server.url) == 200
            # A replacement that is not what the address promises changes nothing.
            web.files["/tones.rknn"] = b"evil"
            server.plane.repository.poll()
            assert _ready(server.url) == 200
    # Nobody is there any more: with a checksum in the address there is nothing to ask, else the cache has it.
    for again, problem in ((source, ""), (source.partition("#")[0], "cannot be reached")):
        with running(replace(settings, sources=[again])) as server:
            assert _ready(server.url) == 200
            assert problem in server.plane.repository.sources.problem
            with urllib.request.urlopen(f"{server.url}/metrics") as answer:
                metrics = answer.read().decode()
            assert ('openrknn_source_errors_total{reason="unreachable"' in metrics) == bool(problem)
            assert bool(problem) == bool(server.plane.repository.sources.problem)


def test_nothing_to_serve_is_said(tmp_path: Path) -> None:
    settings = Settings(["http://127.0.0.1:1/a.rknn"], http_port=0, grpc_port=None, model_cache=str(tmp_path))
    with pytest.raises(UnsupportedError, match=r"nothing to serve.*cannot be reached"), running(settings):
        pass
