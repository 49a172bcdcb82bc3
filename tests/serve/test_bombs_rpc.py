"""gRPC asks for memory before a message is let in."""

from __future__ import annotations

import logging
import os
import socket
import tempfile
from pathlib import Path

import grpc
import pytest

from openrknn.errors import UnsupportedError
from openrknn.monitor import software
from openrknn.serve.rpc import admission_proxy
from openrknn.serve.server import Server, running
from openrknn.serve.settings import Limits, Settings
from tests.serve.asking import PATIENCE
from tests.serve.bombs import MIB, flood, infer_message
from tests.serve.parts import FILES
from tests.serve.sessions import until


def test_large_messages_wait_for_memory() -> None:
    """With room for all calls: on a busy machine each may have begun before the first message is announced."""
    limits = Limits(body_bytes=8 * MIB, total_bytes=32 * MIB, connections=16, streams=16)
    settings = Settings([FILES["picture"]], http_port=0, grpc_port=0, instances=1, limits=limits)
    with running(settings) as server:
        assert set(flood(server.grpc_address, 12, 7 * MIB)) == {grpc.StatusCode.NOT_FOUND}
        until(lambda: server.plane.budget.used_bytes == 0)


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
    monkeypatch.setattr(admission_proxy, "_PLACES", (None, "/nowhere", str(tmp_path)))
    assert admission_proxy.private_folder().parent == tmp_path
    monkeypatch.setattr(admission_proxy, "_PLACES", ("/nowhere",))
    with pytest.raises(UnsupportedError, match="writable folder"):
        admission_proxy.private_folder()


def test_what_no_model_can_need_is_not_read(small: Server) -> None:
    """8 MiB and 16 bytes per number: refused when it is announced. The connection goes on."""
    with grpc.insecure_channel(small.grpc_address, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        for size in (9 * MIB, 16 * MIB):
            with pytest.raises(grpc.RpcError) as caught:
                call(bytes(size), timeout=PATIENCE)
            assert caught.value.code() in {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED}
        assert call(infer_message(), timeout=PATIENCE)
