"""Files that are replaced while the server runs, and the end of it."""

from __future__ import annotations

import http.client
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import grpc
import trustme

from openrknn.serve.server import Server, running
from openrknn.serve.settings import Settings, Tls
from tests.serve.asking import PATIENCE, ask, request_body
from tests.serve.bombs import INPUTS, PATH, infer_message
from tests.serve.parts import FILES
from tests.serve.sessions import until


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


def test_a_token_file_that_is_replaced_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old")
    settings = Settings(
        [FILES["picture"]], http_port=0, grpc_port=None, instances=1, token="old", token_file=str(file),
        certificate_seconds=0.02,
    )  # fmt: skip
    with running(settings) as server:

        def status(token: str) -> int:
            return ask(server, "GET", "/v2", headers={"Authorization": f"Bearer {token}"}).status

        assert (status("old"), status("new")) == (200, 401)
        file.write_text("new")
        until(lambda: status("new") == 200)
        assert status("old") == 200, "both are good for a while"


def test_draining_cancels_no_call_of_grpc() -> None:
    """gRPC's own server cancels calls that arrive while it stops; the gate tells clients first."""
    codes: list[grpc.StatusCode] = []
    answered = [0]

    def work(address: str) -> None:
        with grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
            call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
            try:
                while True:
                    assert call(infer_message(), timeout=PATIENCE)
                    answered[0] += 1
            except grpc.RpcError as error:
                codes.append(error.code())

    with ThreadPoolExecutor(8) as threads:
        with running(Settings([FILES["picture"]], http_port=0, grpc_port=0, instances=2)) as server:
            workers = [threads.submit(work, server.grpc_address) for _ in range(8)]
            until(lambda: answered[0] > 40)
        for one in workers:
            one.result(PATIENCE)
    assert codes == [grpc.StatusCode.UNAVAILABLE] * 8
