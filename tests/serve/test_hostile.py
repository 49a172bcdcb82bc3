"""Hostile clients are refused cleanly, and the server goes on."""

from __future__ import annotations

import gzip
import io
import json
import select
import socket
import struct
import zlib
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
import trustme
from tritonclient.utils import InferenceServerException

from openrknn.errors import UnsupportedError
from openrknn.serve.rpc.messages import inference
from openrknn.serve.server import Server, running
from openrknn.serve.settings import Limits, Settings, Tls
from tests.serve.asking import PATIENCE, ask, infer, request_body
from tests.serve.parts import FILES, random_inputs
from tests.serve.sessions import until

INPUTS = random_inputs("picture")
PATH = "/v2/models/image_rk3588_i8/infer"
SMALL = 1 << 20


@pytest.fixture(scope="module")
def tight() -> Iterator[Server]:
    """A server with little room. Its times are the usual ones: on a slow machine we are a slow client."""
    limits = Limits(body_bytes=SMALL, total_bytes=16 * SMALL, pixels=10_000, connections=16)
    with running(Settings([FILES["picture"]], http_port=0, grpc_port=0, limits=limits)) as server:
        yield server


@pytest.fixture(scope="module")
def hasty() -> Iterator[Server]:
    """A server that waits for nobody; only clients that are too slow on purpose may be judged by it."""
    limits = Limits(total_bytes=16 * SMALL, header_seconds=0.5, body_seconds=0.5, send_seconds=0.5)
    with running(Settings([FILES["picture"]], http_port=0, grpc_port=None, limits=limits)) as server:
        yield server
        until(lambda: is_answered(server))
        until(lambda: server.plane.under_way == 0)


@pytest.fixture(autouse=True)
def still_alive(tight: Server) -> Iterator[None]:
    """Whatever a test does, the next request is answered, and nothing is left over."""
    yield
    until(lambda: is_answered(tight))
    until(lambda: tight.plane.under_way == 0)


def is_answered(server: Server) -> bool:
    """On a busy machine our own request may be too slow for this server's limits: then it is tried again."""
    try:
        return infer(server, "image_rk3588_i8", INPUTS).status == 200
    except OSError:
        return False


def knock(server: Server) -> socket.socket:
    where = urlsplit(server.url)
    return socket.create_connection((where.hostname or "", where.port or 0), timeout=PATIENCE)


def read_all(connection: socket.socket) -> bytes:
    """Until the server closes; a reset counts as one."""
    parts = []
    try:
        while part := connection.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


# -- sizes -----------------------------------------------------------------------------------------------------------


def test_a_body_that_says_it_is_too_large(tight: Server) -> None:
    with knock(tight) as connection:
        connection.sendall(f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n".encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 403")  # this name is not ours
    with knock(tight) as connection:
        connection.sendall(f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n".encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 413")


def test_a_body_in_chunks_that_grows_too_large(tight: Server) -> None:
    with knock(tight) as connection:
        connection.sendall(f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
        for _ in range(20):
            connection.sendall(chunk)
        assert select.select([connection], [], [], PATIENCE)[0]  # it is answered
        # All of the rest is thrown away, and the connection is good for another request.
        for _ in range(20):
            connection.sendall(chunk)
        connection.sendall(b"0\r\n\r\nGET /v2/health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        _, *answers = read_all(connection).split(b"HTTP/1.1 ")
        assert [answer[:3] for answer in answers] == [b"413", b"200"]


@pytest.mark.parametrize(
    "head",
    [
        f"POST {PATH} HTTP/1.0\r\nContent-Length: 99999999",
        f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 99999999",
        "GET /nowhere HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 99999999",
        "POST / HTTP/1.1\r\nHost: localhost\r\nX-Much: " + "x" * 70_000,
        "this is no HTTP",
    ],
    ids=["http-1.0", "close", "nowhere", "head", "garbage"],
)
def test_a_client_that_sends_on_can_read_why_it_was_refused(tight: Server, head: str) -> None:
    """A connection that is closed while bytes come in is reset, and a reset takes the answer away."""
    with knock(tight) as connection:
        connection.sendall(f"{head}\r\n\r\n".encode())
        assert select.select([connection], [], [], PATIENCE)[0]  # it is answered; we have not read it yet
        for _ in range(100):
            connection.sendall(bytes(65536))
        answer = read_all(connection)
        assert answer.startswith(b"HTTP/1.1 4")
        assert answer.count(b"HTTP/1.1") == 1
        assert json.loads(answer.split(b"\r\n\r\n")[1])["error"]


@pytest.mark.parametrize("encode", [gzip.compress, zlib.compress], ids=["gzip", "deflate"])
def test_a_decompression_bomb(tight: Server, encode: Any) -> None:
    bomb = encode(bytes(30 * SMALL))
    assert len(bomb) < SMALL // 10
    answer = ask(tight, "POST", PATH, bomb, {"Content-Encoding": "gzip"})
    assert answer.status == 413
    assert "when decompressed" in answer.error


@pytest.mark.parametrize(
    ("body", "encoding", "status"),
    [
        (b"no gzip at all", "gzip", 400),
        (gzip.compress(b'{"inputs": []}')[:-9], "gzip", 400),
        (gzip.compress(b"{}") + b"more", "gzip", 400),
        (b"{}", "br", 415),
    ],
    ids=["garbage", "truncated", "trailing", "unknown"],
)
def test_bad_compression(tight: Server, body: bytes, encoding: str, status: int) -> None:
    assert ask(tight, "POST", PATH, body, {"Content-Encoding": encoding}).status == status


def test_a_message_of_grpc_that_is_too_large(tight: Server) -> None:
    for algorithm in (None, "gzip"):
        tensor = triton.InferInput("image", [1, 2 * SMALL], "UINT8")
        tensor.set_data_from_numpy(np.zeros((1, 2 * SMALL), np.uint8))
        with (
            triton.InferenceServerClient(tight.grpc_address) as client,
            pytest.raises(InferenceServerException, match="RESOURCE_EXHAUSTED"),
        ):
            client.infer("image_rk3588_i8", [tensor], compression_algorithm=algorithm)


def test_pictures_with_too_many_pixels_are_not_decoded(tight: Server) -> None:
    from PIL import Image

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0))
    bomb = b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    path = "/v2/models/image_rk3588_i8/image"
    # This model gives feature maps: pictures are refused for that reason, whatever they are.
    assert ask(tight, "POST", path, bomb).status == 400
    from openrknn.serve.errors import BadRequestError
    from openrknn.serve.rest.pictures import read_pixels

    with pytest.raises(BadRequestError, match=r"too many pixels|60000x60000"):
        read_pixels(bomb, 10_000)
    stream = io.BytesIO()
    Image.new("RGB", (200, 200)).save(stream, "PNG")
    with pytest.raises(BadRequestError, match="200x200"):
        read_pixels(stream.getvalue(), 10_000)
    for damaged in (b"", b"GIF89a", stream.getvalue()[:60], b"%PDF-1.4"):
        with pytest.raises(BadRequestError):
            read_pixels(damaged, 1_000_000)


# -- contents --------------------------------------------------------------------------------------------------------

GOOD: dict[str, Any] = {"name": "image", "shape": [1, 16, 16, 3], "datatype": "UINT8", "data": [0] * 768}


@pytest.mark.parametrize(
    "body",
    [
        "",
        "[]",
        "null",
        '{"inputs":',
        "[" * 100_000,
        '{"inputs": []}',
        '{"inputs": {}}',
        '{"inputs": [7]}',
        json.dumps({"inputs": [GOOD, GOOD]}),
        json.dumps({"inputs": [{**GOOD, "name": 5}]}),
        json.dumps({"inputs": [{**GOOD, "shape": "1,16,16,3"}]}),
        json.dumps({"inputs": [{**GOOD, "shape": [1, 16, 16, -3]}]}),
        json.dumps({"inputs": [{**GOOD, "shape": [1, 16, 16, 3.0]}]}),
        json.dumps({"inputs": [{**GOOD, "shape": [True, 16, 16, 3]}]}),
        json.dumps({"inputs": [{**GOOD, "shape": [2**31, 2**31, 2**31]}]}),
        json.dumps({"inputs": [{**GOOD, "shape": [2**62]}]}),
        json.dumps({"inputs": [{**GOOD, "shape": [1] * 40}]}),
        json.dumps({"inputs": [{**GOOD, "shape": [1, 16, 16]}]}),
        json.dumps({"inputs": [{**GOOD, "datatype": "BYTES"}]}),
        json.dumps({"inputs": [{**GOOD, "datatype": None}]}),
        json.dumps({"inputs": [{**GOOD, "data": [300] * 768}]}),
        json.dumps({"inputs": [{**GOOD, "data": ["a"] * 768}]}),
        json.dumps({"inputs": [{**GOOD, "data": [[1], [1, 2]]}]}),
        json.dumps({"inputs": [{**GOOD, "data": {"a": 1}}]}),
        json.dumps({"inputs": [{**GOOD, "data": [2**70] * 768}]}),
        json.dumps({"inputs": [{**GOOD, "data": "x" * 768}]}),
        json.dumps({"inputs": [{key: GOOD[key] for key in ("name", "shape", "datatype")}]}),
        json.dumps({"inputs": [{**GOOD, "parameters": {"binary_data_size": 768}}]}),
        json.dumps({"inputs": [{**GOOD, "parameters": {"shared_memory_region": "x"}}]}),
        json.dumps({"inputs": [{**GOOD, "parameters": []}]}),
        json.dumps({"inputs": [{**GOOD, "parameters": {"layout": "sideways"}}]}),
        json.dumps({"inputs": [GOOD], "outputs": [{"name": "nothing"}]}),
        json.dumps({"inputs": [GOOD], "outputs": [{"name": "features", "parameters": {"classification": -3}}]}),
        json.dumps({"inputs": [GOOD], "parameters": {"timeout": "soon"}}),
        json.dumps({"inputs": [GOOD], "parameters": {"raw_outputs": 1}}),
        json.dumps({"inputs": [GOOD], "id": 7}),
        json.dumps({"inputs": [{**GOOD, "datatype": "FP32", "data": [float("nan")] * 768}]}),
        '{"inputs": [{"name": "image", "shape": [1], "datatype": "INT64", "data": [' + "9" * 5000 + "]}]}",
    ],
    ids=lambda body: body[:40],
)
def test_requests_that_make_no_sense(tight: Server, body: str) -> None:
    answer = ask(tight, "POST", PATH, body)
    assert (answer.status, bool(answer.error)) == (400, True)


@pytest.mark.parametrize("length", ["-1", "x", "99999999", "1e3", "9" * 40, "3"])
def test_bad_header_lengths(tight: Server, length: str) -> None:
    answer = ask(tight, "POST", PATH, request_body(INPUTS), {"Inference-Header-Content-Length": length})
    assert answer.status == 400


@pytest.mark.parametrize("size", [-1, 767, 769, "768", None, True, 2**70])
def test_bad_binary_sizes(tight: Server, size: object) -> None:
    words = {"name": "image", "shape": [1, 16, 16, 3], "datatype": "UINT8", "parameters": {"binary_data_size": size}}
    text = json.dumps({"inputs": [words]}).encode()
    answer = ask(tight, "POST", PATH, text + bytes(768), {"Inference-Header-Content-Length": str(len(text))})
    assert answer.status == 400


def test_bad_messages_of_grpc(tight: Server) -> None:
    message, answer = inference().message("ModelInferRequest"), inference().message("ModelInferResponse")
    good = {"name": "image", "datatype": "UINT8", "shape": [1, 16, 16, 3]}
    cases = [
        ([], []),
        ([good], [bytes(5)]),
        ([good], []),
        ([good, good], [bytes(768), bytes(768)]),
        ([good], [bytes(768), bytes(768)]),
        ([{**good, "shape": [-1, 16, 16, 3]}], [bytes(768)]),
        ([{**good, "shape": [1 << 40]}], [bytes(768)]),
        ([{**good, "datatype": "FP99"}], [bytes(768)]),
        ([{**good, "name": ""}], [bytes(768)]),
        ([{**good, "datatype": "FP16"}], []),
    ]
    with grpc.insecure_channel(tight.grpc_address) as channel:
        call = channel.unary_unary(
            "/inference.GRPCInferenceService/ModelInfer",
            request_serializer=lambda request: request if isinstance(request, bytes) else request.SerializeToString(),
            response_deserializer=answer.FromString,
        )
        for inputs, raw in cases:
            request = message(model_name="image_rk3588_i8", raw_input_contents=raw)
            for entry in inputs:
                request.inputs.add(**entry)
            with pytest.raises(grpc.RpcError) as caught:
                call(request, timeout=PATIENCE)
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        with pytest.raises(grpc.RpcError):
            call(b"\xff\xff\xff no message", timeout=PATIENCE)


@pytest.mark.parametrize(
    "name",
    [
        "..", "../../../etc/passwd", "..%2f..%2fetc%2fpasswd", "%2e%2e", "/etc/passwd", "%00", "a%00b", "a" * 5000,
        "image_rk3588_i8%2f..", "image_rk3588_i8.rknn", "%ff%fe", "%E2%80%AE", "C:%5Cwindows", ".",
    ],
)  # fmt: skip
def test_path_tricks_in_model_names(tight: Server, name: str) -> None:
    for method, path in (
        ("GET", f"/v2/models/{name}"),
        ("GET", f"/v2/models/{name}/inspect"),
        ("POST", f"/v2/models/{name}/infer"),
        ("POST", f"/v2/repository/models/{name}/load"),
        ("POST", f"/v2/repository/models/{name}/unload"),
        ("GET", f"/page/{name}"),
    ):
        answer = ask(tight, method, path, "{}" if method == "POST" else None)
        assert answer.status in {400, 404, 405}, path
        assert b"root:" not in answer.body


# -- slow ones -------------------------------------------------------------------------------------------------------


def test_headers_that_never_end(hasty: Server) -> None:
    with knock(hasty) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
        assert read_all(connection) == b""


def test_a_connection_that_says_nothing(hasty: Server) -> None:
    with knock(hasty) as connection:
        assert read_all(connection) == b""


def test_a_body_that_never_ends(hasty: Server) -> None:
    with knock(hasty) as connection:
        connection.sendall(f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{{".encode())
        answer = b""
        while b"}" not in answer and (part := connection.recv(4096)):
            answer += part
        assert answer.startswith(b"HTTP/1.1 408")
        assert b"did not arrive" in answer


def test_a_client_that_does_not_read_its_answers(hasty: Server) -> None:
    body = request_body(INPUTS).encode()
    head = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with knock(hasty) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(0.2)
        try:
            for _ in range(2000):
                connection.sendall(head + body)
        except (TimeoutError, ConnectionError):
            pass  # its own buffers are full, or it was sent away
        # Not one byte is read: the server has to end it by itself.
        watch = select.poll()
        watch.register(connection, 0)
        assert watch.poll(1000 * PATIENCE)


def test_too_many_connections_are_sent_away(tight: Server) -> None:
    many = [knock(tight) for _ in range(40)]
    try:
        # 16 may stay; nobody has said anything, so a connection that can be read is one that was ended.
        until(lambda: len(select.select(many, [], [], 0)[0]) >= 20)
    finally:
        for connection in many:
            connection.close()

    def answers() -> bool:
        try:
            return ask(tight, "GET", "/v2/health/live").status == 200
        except OSError:
            return False

    until(answers)


# -- who may ask -----------------------------------------------------------------------------------------------------


def test_pages_of_others_may_not_use_a_server_of_this_machine(tight: Server) -> None:
    path = "/v2/repository/models/image_rk3588_i8/unload"
    assert ask(tight, "POST", path, "{}", {"Origin": "http://evil.example"}).status == 403
    assert ask(tight, "GET", "/v2", headers={"Host": "evil.example"}).status == 403


def test_the_token() -> None:
    settings = Settings([FILES["picture"]], http_port=0, grpc_port=0, token="open sesame ü")
    with running(settings) as server:
        assert ask(server, "GET", "/v2/health/live").status == 200
        assert ask(server, "GET", "/v2/health/ready").status == 200
        assert ask(server, "GET", "/").status == 200
        for path in ("/v2", "/v2/models/image_rk3588_i8", "/metrics", "/status", "/doctor", "/openapi.json", "/other"):
            for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic open sesame ü"}):
                raw = {name: value.encode().decode("latin-1") for name, value in headers.items()}
                answer = ask(server, "GET", path, headers=raw)
                assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
            right = {"Authorization": "Bearer open sesame ü".encode().decode("latin-1")}
            assert ask(server, "GET", path, headers=right).status in {200, 404}
        assert ask(server, "POST", PATH, "{}").status == 401


def test_the_token_of_grpc() -> None:
    settings = Settings([FILES["picture"]], http_port=0, grpc_port=0, token="sesame")
    with running(settings) as server, triton.InferenceServerClient(server.grpc_address) as client:
        assert client.is_server_live()
        for headers in (None, {"authorization": "Bearer wrong"}):
            with pytest.raises(InferenceServerException, match="UNAUTHENTICATED"):
                client.get_model_metadata("image_rk3588_i8", headers=headers)
        client.get_model_metadata("image_rk3588_i8", headers={"authorization": "Bearer sesame"})


def test_tls(tmp_path: Any) -> None:
    import ssl
    import urllib.request

    authority = trustme.CA()
    certificate = authority.issue_cert("localhost", "127.0.0.1")
    certificate.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
    for part in certificate.cert_chain_pems:
        part.write_to_path(str(tmp_path / "cert.pem"), append=True)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    tls = Tls(str(tmp_path / "cert.pem"), str(tmp_path / "key.pem"))
    with running(Settings([FILES["picture"]], http_port=0, grpc_port=0, tls=tls)) as server:
        assert server.url.startswith("https://")
        context = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
        with urllib.request.urlopen(f"{server.url}/v2/health/ready", context=context) as answer:
            assert answer.status == 200
        with triton.InferenceServerClient(
            server.grpc_address, ssl=True, root_certificates=str(tmp_path / "ca.pem")
        ) as client:
            assert client.is_server_ready()
        with knock(server) as plain:
            plain.sendall(b"GET /v2 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"HTTP/1.1 200" not in read_all(plain)
    # With an authority for clients, one without a certificate is not served.
    tls = Tls(tls.certificate, tls.key, str(tmp_path / "ca.pem"))
    mine = authority.issue_cert("client@example.org")
    with (
        mine.private_key_and_cert_chain_pem.tempfile() as both,
        running(Settings([FILES["picture"]], http_port=0, grpc_port=None, tls=tls)) as server,
    ):
        with pytest.raises(OSError, match=r"(?i)certificate|reset|closed"):
            urllib.request.urlopen(f"{server.url}/v2/health/ready", context=context)
        context.load_cert_chain(both)
        with urllib.request.urlopen(f"{server.url}/v2/health/ready", context=context) as answer:
            assert answer.status == 200
    with pytest.raises(UnsupportedError, match="TLS"), running(
        Settings([FILES["picture"]], http_port=0, grpc_port=None, tls=Tls("nothing.pem", "nothing.pem"))
    ):
        pass
