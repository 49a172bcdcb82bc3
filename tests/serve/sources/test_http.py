"""Models from HTTP(S): files and lists of checksums. `web` is our own server."""

from __future__ import annotations

import contextlib
import hashlib
import socket
import ssl
import threading
from pathlib import Path

import pytest
import trustme

from openrknn.serve.sources import http_client
from openrknn.serve.sources.errors import SourceError
from openrknn.serve.sources.http_client import Bounds, HttpClient
from tests.serve.sources.looking import BOUNDS, Look, sha256_of
from tests.serve.storage import Storage


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
    assert look(f"{web.url}/a.rknn#sha256={sha256_of(b'good')}", require=True) == (["a.rknn"], [])
    assert look(f"{web.url}/a.rknn#sha256={sha256_of(b'bad')}", fresh=True) == ([], ["checksum"])
    # What is in the cache is not what the new address promises: it is not served either.
    assert look(f"{web.url}/a.rknn#sha256={sha256_of(b'bad')}") == ([], ["checksum"])


def test_checksum_beside_the_file(web: Storage, look: Look, tmp_path: Path) -> None:
    web.files = {"/a.rknn": b"good", "/a.rknn.sha256": f"{sha256_of(b'good')}  a.rknn\n".encode()}
    assert look(f"{web.url}/a.rknn", require=True) == (["a.rknn", "a.rknn.sha256"], [])
    web.files["/a.rknn"] = b"replaced before its checksum"
    assert look(f"{web.url}/a.rknn", require=True)[1] == ["checksum"]
    assert (tmp_path / "mirror/a.rknn").read_bytes() == b"good"
    web.files["/a.rknn.sha256"] = sha256_of(b"replaced before its checksum").encode()
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
    assert look(f"{web.url}/a.rknn#sha256={sha256_of(b'0123456789')}") == ([], ["checksum"])
    web.cut = {}
    assert look(f"{web.url}/a.rknn#sha256={sha256_of(b'0123456789')}") == (["a.rknn"], [])
    assert not list(tmp_path.rglob(".half-*"))


def test_size_limits(web: Storage, look: Look) -> None:
    web.files = {"/a.rknn": b"x" * 1000}
    small = Bounds(file_bytes=999, files=2)
    assert look(f"{web.url}/a.rknn", bounds=small) == ([], ["size"])
    web.unframed = True
    assert look(f"{web.url}/a.rknn#sha256={sha256_of(b'x' * 1000)}", bounds=small) == ([], ["size"])


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
    lines = [f"{sha256_of(data)}  ./{path.removeprefix('/m/')}" for path, data in web.files.items()]
    lines += [f"{sha256_of(b'')} *../../etc/passwd.rknn", f"{sha256_of(b'')}  readme.md"]
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
    web.files["/SHA256SUMS"] = f"{sha256_of(b'other')}  a.rknn\n{sha256_of(b'two')}  b.rknn\n".encode()
    assert look(f"{web.url}/SHA256SUMS") == (["b.rknn"], ["checksum"])
