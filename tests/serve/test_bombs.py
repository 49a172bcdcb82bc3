"""A little from a client never becomes much memory, and clients that take everything leave room for others."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import io
import json
import logging
import os
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import grpc
import pytest
import tritonclient.grpc as triton
import trustme
from PIL import Image

from openrknn.errors import UnsupportedError
from openrknn.monitor import software
from openrknn.serve.errors import BadRequestError, FullError, TooLargeError
from openrknn.serve.plane.budget import Budget
from openrknn.serve.rest.infer import json_bytes, parse
from openrknn.serve.rpc import gate
from openrknn.serve.rpc.frames import PREFACE, FrameError, Frames
from openrknn.serve.rpc.messages import inference
from openrknn.serve.rpc.weigh import weigh
from openrknn.serve.server import Server, running
from openrknn.serve.settings import Limits, Settings, Tls
from tests.serve.asking import PATIENCE, ask, infer, request_body
from tests.serve.parts import FILES, ROOT, random_inputs
from tests.serve.sessions import until
from tests.serve.test_hostile import knock, read_all

MIB = 1 << 20
NAME = "image_rk3588_i8"
PATH = f"/v2/models/{NAME}/infer"
INPUTS = random_inputs("picture")


@pytest.fixture(scope="module")
def small() -> Iterator[Server]:
    """A server with little memory and few places."""
    limits = Limits(body_bytes=8 * MIB, total_bytes=32 * MIB, connections=16, streams=4, header_bytes=16384)
    settings = Settings([FILES["picture"]], http_port=0, grpc_port=0, instances=1, limits=limits)
    with running(settings) as server:
        yield server
        until(lambda: server.plane.budget.used_bytes == 0)


# -- one budget ------------------------------------------------------------------------------------------------------


def test_a_budget_is_asked_and_given_back() -> None:
    budget = Budget(100)
    with budget.share(60) as one, budget.open() as two:
        two.grow(40)
        with pytest.raises(FullError):
            two.grow(1)
        with pytest.raises(TooLargeError, match="--max-memory"):
            two.grow(101)
        waiting = threading.Thread(target=lambda: two.grow(10, wait_seconds=PATIENCE))
        waiting.start()
        one.shrink(10)
        waiting.join(PATIENCE)
        assert (one.size_bytes, two.size_bytes, budget.used_bytes) == (50, 50, 100)
    assert budget.used_bytes == 0
    two.grow(5)  # a thread that did not hear of the end keeps nothing
    assert budget.used_bytes == 0


def test_one_long_text_among_many_short_ones() -> None:
    """NumPy would make an array of 20,000 texts of 100,000 letters: 8 GB."""
    data = ["x" * 100_000, *["a"] * 20_000]
    body = json.dumps({"inputs": [{"name": "image", "shape": [20_001], "datatype": "FP32", "data": data}]}).encode()
    tracemalloc.start()
    try:
        with pytest.raises(BadRequestError, match="not numbers"):
            parse(body, None)
        assert tracemalloc.get_traced_memory()[1] < 10 * MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("text", ["[]", "{}", '{"a":1}', '"ab"', "1.5", "[[1.5]]", '{"a":{"b":[]}}', '"\U0001f600"'])
def test_what_json_takes_is_never_underestimated(text: str) -> None:
    body = f'{{"inputs": [{",".join([text] * 20_000)}]}}'.encode()
    tracemalloc.start()
    try:
        from openrknn.serve.rest.infer import load_json

        words = load_json(body)
        assert tracemalloc.get_traced_memory()[0] <= json_bytes(body)
    finally:
        tracemalloc.stop()
    assert len(words["inputs"]) == 20_000


def test_what_a_message_takes_is_counted_before_it_is_parsed(small: Server) -> None:
    message = inference().message("ModelInferRequest")
    request = message(model_name=NAME, raw_input_contents=[INPUTS["image"].tobytes()])
    request.inputs.add(name="image", datatype="UINT8", shape=[1, 16, 16, 3])
    assert weigh(request.SerializeToString(), has_tensors=True) < 8 * len(request.SerializeToString())
    with pytest.raises(BadRequestError, match="fields"):
        weigh(b"\x2a\x00" * 100_000, has_tensors=True)  # that many empty inputs
    inner = b"\x22\x00" * 4000  # empty parameters of one input
    assert weigh(b"\x2a" + _varint(len(inner)) + inner, has_tensors=True) >= 100 * 4000
    for damaged in (b"\xff", b"\x2a\x05ab", b"\x0b", b"\xff" * 20):
        with pytest.raises(BadRequestError, match="damaged"):
            weigh(damaged, has_tensors=True)
    with grpc.insecure_channel(small.grpc_address) as channel:
        call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        with pytest.raises(grpc.RpcError) as caught:
            call(b"\x2a\x00" * 100_000, timeout=PATIENCE)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def _varint(number: int) -> bytes:
    return bytes([number & 0x7F | 0x80, number >> 7])


def test_pictures_share_the_budget() -> None:
    limits = Limits(total_bytes=16 * MIB, body_bytes=8 * MIB)
    stream = io.BytesIO()
    Image.new("RGB", (1500, 1000)).save(stream, "WEBP")
    model = ROOT / "examples/models/efficientnet_lite0_rk3588_i8.rknn"
    with running(Settings([model], http_port=0, grpc_port=None, instances=1, limits=limits)) as server:
        answer = ask(server, "POST", f"/v2/models/{model.stem}/image", stream.getvalue())
        assert (answer.status, "--max-memory" in answer.error) == (413, True)
        cat = (ROOT / "examples/images/cat.jpg").read_bytes()
        with ThreadPoolExecutor(8) as threads:
            path = f"/v2/models/{model.stem}/image"
            found = list(threads.map(lambda _: ask(server, "POST", path, cat).status, range(8)))
        assert found == [200] * 8, "pictures wait for each other's memory"


# -- heads, connections, streams -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "head",
    [
        b"GET /v2 HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 20_000 + b"\r\n\r\n",
        b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /v2 HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 300 + b"\r\n",
        b"GET /v2 HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 3_000_000,
    ],
    ids=["header", "line", "many", "endless"],
)
def test_heads_have_a_limit(small: Server, head: bytes) -> None:
    with knock(small) as connection:
        try:
            connection.sendall(head)
        except ConnectionError:
            return  # sent away while it talked
        answer = read_all(connection)
        assert answer == b"" or answer.startswith(b"HTTP/1.1 431"), "refused, or sent away while it talked"


def test_one_client_with_all_connections_does_not_keep_probes_out(small: Server) -> None:
    many = [knock(small) for _ in range(16)]
    try:
        for _ in range(5):
            assert ask(small, "GET", "/v2/health/live").status == 200
    finally:
        for connection in many:
            connection.close()


def test_idle_connections_of_grpc_make_room(small: Server) -> None:
    where = small.grpc_address.rpartition(":")
    many = [socket.create_connection((where[0], int(where[2])), timeout=PATIENCE) for _ in range(16)]
    try:
        with triton.InferenceServerClient(small.grpc_address) as client:
            assert client.is_server_live()
    finally:
        for connection in many:
            connection.close()


def test_idle_streams_make_room(small: Server) -> None:
    message = inference().message("ModelInferRequest")
    request = message(model_name=NAME, raw_input_contents=[INPUTS["image"].tobytes()])
    request.inputs.add(name="image", datatype="UINT8", shape=[1, 16, 16, 3])
    raw = request.SerializeToString()
    with grpc.insecure_channel(small.grpc_address) as channel:
        says: list[queue.SimpleQueue[bytes | None]] = [queue.SimpleQueue() for _ in range(6)]
        stream = channel.stream_stream("/inference.GRPCInferenceService/ModelStreamInfer")
        calls = []
        for one in says:  # each has proved to be open before the next one comes
            calls.append(stream(iter(one.get, None), timeout=PATIENCE))
            one.put(raw)
            assert next(calls[-1])
        assert channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")(raw, timeout=PATIENCE)
        for displaced in calls[:2]:
            with pytest.raises(grpc.RpcError) as caught:
                next(displaced)
            assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        says[-1].put(raw)
        assert next(calls[-1])
        for one in says:
            one.put(None)


def test_frames_are_followed_in_pieces_of_any_size() -> None:
    def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
        return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload

    message = b"\x00" + (70_000).to_bytes(4, "big") + bytes(70_000)
    data = PREFACE + frame(4, 0, 0, b"") + frame(1, 4, 1, b"packed") + frame(1, 4, 3, b"packed")
    data += frame(0, 0, 1, message[:3]) + frame(0, 8, 3, b"\x02" + b"\x01" + (9).to_bytes(4, "big") + b"..")
    data += frame(0, 0, 1, message[3:40_000]) + frame(0, 1, 1, message[40_000:]) + frame(3, 0, 3, bytes(4))
    for size in (1, 2, 3, 7, 1000, len(data)):
        frames = Frames(is_client=True)
        found = [one for at in range(0, len(data), size) for one in frames.feed(data[at : at + size])]
        assert {(one.stream, one.size_bytes, one.is_compressed) for one in found} == {(1, 70_000, False), (3, 9, True)}
        assert (frames.ended, frames.reset) == ([1], [3])
    with pytest.raises(FrameError):
        list(Frames(is_client=True).feed(b"GET / HTTP/1.1"))


# -- gRPC asks first -------------------------------------------------------------------------------------------------


def flood(address: str, count: int, size: int, metadata: Any = None) -> list[grpc.StatusCode]:
    """Large messages for a model that does not exist, all at once."""
    message = inference().message("ModelInferRequest")
    raw = message(model_name="nobody", raw_input_contents=[bytes(size)]).SerializeToString()

    def one(_: int) -> grpc.StatusCode:
        # Each on a connection of its own.
        with grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
            call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
            try:
                call(raw, timeout=PATIENCE, metadata=metadata)
            except grpc.RpcError as error:
                return error.code()
        raise AssertionError

    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(one, range(count)))


def test_large_messages_wait_for_memory(small: Server) -> None:
    assert set(flood(small.grpc_address, 12, 7 * MIB)) == {grpc.StatusCode.NOT_FOUND}
    until(lambda: small.plane.budget.used_bytes == 0)


def test_without_the_token_no_message_is_read() -> None:
    settings = Settings([FILES["picture"]], http_port=0, grpc_port=0, instances=1, token="sesame")
    with running(settings) as server:
        assert set(flood(server.grpc_address, 4, 20 * MIB)) == {grpc.StatusCode.UNAUTHENTICATED}
        until(lambda: server.plane.budget.used_bytes == 0)


def test_a_damaged_message_is_one_line_of_the_log(small: Server, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), grpc.insecure_channel(small.grpc_address) as channel:
        for method in ("ModelInfer", "ModelReady", "RepositoryIndex"):
            call = channel.unary_unary(f"/inference.GRPCInferenceService/{method}")
            with pytest.raises(grpc.RpcError) as caught:
                call(b"\xff\xff no message", timeout=PATIENCE)
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert not [entry for entry in caplog.records if entry.exc_info or "Traceback" in entry.getMessage()]


def test_a_port_that_is_taken_is_named(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for name, ports in (("gRPC", {"http_port": 0, "grpc_port": port}), ("HTTP", {"http_port": port})):
            with pytest.raises(UnsupportedError, match=f"{name} cannot listen on .*{port}"):
                running(Settings([FILES["picture"]], **ports)).__enter__()
    assert not [entry for entry in caplog.records if entry.exc_info]


def test_a_read_only_system_without_tmp_can_serve(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def nowhere() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", nowhere)
    monkeypatch.setattr(os, "access", lambda *_: False)
    monkeypatch.delenv(software.VARIABLE, raising=False)
    assert software.folder() is None
    monkeypatch.setattr(gate, "_PLACES", (None, "/nowhere", str(tmp_path)))
    assert gate.private_folder().parent == tmp_path
    monkeypatch.setattr(gate, "_PLACES", ("/nowhere",))
    with pytest.raises(UnsupportedError, match="writable folder"):
        gate.private_folder()


# -- certificates, draining ------------------------------------------------------------------------------------------


def test_a_new_certificate_is_noticed(tmp_path: Path) -> None:
    import ssl

    def write(authority: trustme.CA) -> None:
        certificate = authority.issue_cert("localhost", "127.0.0.1")
        certificate.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
        certificate.cert_chain_pems[0].write_to_path(str(tmp_path / "cert.pem"))

    def is_trusted(authority: trustme.CA, address: str) -> bool:
        context = ssl.create_default_context()
        authority.configure_trust(context)
        context.set_alpn_protocols(["h2"])
        host, _, port = address.rpartition(":")
        try:
            with socket.create_connection((host, int(port)), PATIENCE) as plain:
                context.wrap_socket(plain, server_hostname=host).close()
        except ssl.SSLError:
            return False
        return True

    old, new = trustme.CA(), trustme.CA()
    write(old)
    tls = Tls(str(tmp_path / "cert.pem"), str(tmp_path / "key.pem"))
    settings = Settings([FILES["picture"]], http_port=0, grpc_port=0, instances=1, tls=tls, certificate_seconds=0.05)
    with running(settings) as server:
        places = (server.url.removeprefix("https://"), server.grpc_address)
        assert all(is_trusted(old, place) for place in places)
        (tmp_path / "cert.pem").write_text("half written")
        time.sleep(0.2)
        assert all(is_trusted(old, place) for place in places)
        write(new)
        until(lambda: all(is_trusted(new, place) for place in places))


def test_draining_resets_no_connection_that_is_kept_alive() -> None:
    body = request_body(INPUTS)
    broken: list[BaseException] = []
    answered = [0]

    def work(server: Server) -> None:
        where = urlsplit(server.url)
        connection = http.client.HTTPConnection(where.hostname or "", where.port or 0, timeout=PATIENCE)
        try:
            while True:
                connection.request("POST", PATH, body)
                answer = connection.getresponse()
                answer.read()
                assert answer.status == 200
                answered[0] += 1
                if answer.getheader("connection") == "close":
                    return
        except BaseException as error:  # noqa: BLE001 - it fails in the main thread
            broken.append(error)
        finally:
            connection.close()

    with ThreadPoolExecutor(12) as threads:
        with running(Settings([FILES["picture"]], http_port=0, grpc_port=None, instances=2)) as server:
            workers = [threads.submit(work, server) for _ in range(12)]
            until(lambda: answered[0] > 60)
        for one in workers:
            one.result(PATIENCE)
    assert broken == []


# -- all of it at once -----------------------------------------------------------------------------------------------


def peak_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs Linux's /proc")
def test_a_siege() -> None:
    """Every bomb there is for a few seconds: health answers, and the server's memory stays within its budget."""
    budget, seconds = 96, 4.0
    model = ROOT / "examples/models/efficientnet_lite0_rk3588_i8.rknn"
    command = [
        sys.executable, "-m", "openrknn.cli", "serve", str(model), str(FILES["picture"]), "--port", "0",
        "--grpc-port", "0", "--log-format", "json", "--max-memory", str(budget), "--max-body", "24", "--instances", "1",
    ]  # fmt: skip
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            server, address = _Address(), ""
            for line in process.stderr:
                words = json.loads(line)["message"].split()
                if words[:2] == ["listening", "on"]:
                    server.url, address = words[2], words[-1]
                if words == ["ready"]:
                    break
            lines: list[str] = []
            reading = threading.Thread(target=lambda: lines.extend(process.stderr or ()))
            reading.start()
            before = peak_mib(process.pid)
            bombs = _attacks(server, model.stem, address)
            until_when = time.monotonic() + seconds
            slowest = [0.0]

            def again(attack: Any, least: int = 2) -> int:
                """For some seconds, and on a slow machine until it was done a few times."""
                count = 0
                while time.monotonic() < until_when or count < least:
                    attack()
                    count += 1
                return count

            def health() -> None:
                started = time.monotonic()
                assert ask(server, "GET", "/v2/health/live").status == 200  # type: ignore[arg-type]
                slowest[0] = max(slowest[0], time.monotonic() - started)
                time.sleep(0.02)

            with ThreadPoolExecutor(32) as threads:
                probes = threads.submit(again, health, 6)
                attacks = [threads.submit(again, attack) for attack in bombs * 3]
                assert probes.result() > 5
                assert sum(one.result() for one in attacks) > 20
            assert peak_mib(process.pid) - before < budget + 48
            assert infer(server, NAME, INPUTS).status == 200  # type: ignore[arg-type]
            assert slowest[0] < PATIENCE
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0
            reading.join(PATIENCE)
            assert not [line for line in lines if "Traceback" in line]
        finally:
            process.kill()


class _Address:
    url = ""


def _attacks(server: Any, model: str, address: str) -> list[Any]:
    def encoded(form: str, width: int, height: int) -> bytes:
        stream = io.BytesIO()
        Image.new("RGB" if form == "WEBP" else "1", (width, height)).save(stream, form)
        return stream.getvalue()

    png, webp = encoded("PNG", 8000, 7999), encoded("WEBP", 4000, 4000)
    fitting = encoded("WEBP", 1700, 1700)
    texts = json.dumps({"inputs": [{"name": "image", "shape": [1], "datatype": "FP32",
                                    "data": ["x" * 60_000, *["a"] * 50_000]}]})  # fmt: skip
    lists = '{"inputs": [' + ",".join(["[]"] * 60_000) + "]}"
    zipped = gzip.compress(bytes(64 * MIB))
    host = urlsplit(server.url)

    def post(path: str, body: bytes | str, headers: dict[str, str] | None = None) -> None:
        with contextlib.suppress(OSError):  # sent away in the middle of its body
            assert ask(server, "POST", path, body, headers).status in {200, 400, 413, 429}

    def header() -> None:
        with socket.create_connection((host.hostname or "", host.port or 0), PATIENCE) as connection:
            try:
                connection.sendall(b"GET / HTTP/1.1\r\nX: " + b"x" * MIB)
                connection.recv(100)
            except OSError:
                pass

    return [
        lambda: post(f"/v2/models/{model}/image", png),
        lambda: post(f"/v2/models/{model}/image", webp),
        lambda: post(f"/v2/models/{model}/image", fitting),
        lambda: post(PATH, texts),
        lambda: post(PATH, lists),
        lambda: post(f"/v2/models/{model}/image", zipped, {"Content-Encoding": "gzip"}),
        header,
        lambda: flood(address, 2, 20 * MIB),
    ]
