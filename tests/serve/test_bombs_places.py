"""Clients that take every connection and stream leave room for others."""

from __future__ import annotations

import contextlib
import queue
import socket

import grpc
import pytest
import tritonclient.grpc as triton

from openrknn.serve.rpc.frames import PREFACE, FrameError, Frames
from openrknn.serve.rpc.messages import inference
from openrknn.serve.server import Server
from tests.serve.asking import PATIENCE, ask
from tests.serve.bombs import INPUTS, NAME
from tests.serve.test_hostile import knock, read_all


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


def test_many_tiny_chunks_end_the_connection(small: Server) -> None:
    with knock(small) as connection, contextlib.suppress(ConnectionError):
        connection.sendall(b"POST /v2/models/x/image HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        connection.sendall(b"1\r\nx\r\n" * 200_000)
        assert b"HTTP/1.1 200" not in read_all(connection)
    assert ask(small, "GET", "/v2/health/live").status == 200
