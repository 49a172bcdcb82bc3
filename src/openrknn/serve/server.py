"""`Server`: both protocols over one data plane, from the first socket to the last answer."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn

from openrknn.errors import RknnError, UnsupportedError
from openrknn.runtime.session import Session
from openrknn.serve import tracing
from openrknn.serve.llm.language import OpenLanguage
from openrknn.serve.llm.languages import open_language
from openrknn.serve.memory import keep_freed_memory
from openrknn.serve.plane.index import scan
from openrknn.serve.plane.plane import Plane
from openrknn.serve.plane.served import OpenSession
from openrknn.serve.realtime.route import MESSAGE_BYTES
from openrknn.serve.rest.app import build
from openrknn.serve.rest.protocol import GuardedWebSocket, guarded_protocol
from openrknn.serve.rpc.server import RpcServer
from openrknn.serve.settings import Settings
from openrknn.serve.tls import Certificates
from openrknn.serve.voice.channel_handler import OpenVoice, open_voice
from openrknn.serve.wyoming.server import WyomingServer

__all__ = ["Server", "running"]

_LOG = logging.getLogger(__name__)
_KEEP_ALIVE_SECONDS = 75
_BACKLOG = 1024
_SWITCH_SECONDS = 0.0005


class _Uvicorn(uvicorn.Server):
    """uvicorn without its signal handlers: two protocols share one shutdown."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Server:
    """Listens as soon as it starts, loads its models, is ready when they are, and drains before it stops."""

    def __init__(
        self,
        settings: Settings,
        *,
        open_session: OpenSession = Session,
        open_voice: OpenVoice = open_voice,
        open_language: OpenLanguage = open_language,
    ) -> None:
        self.settings = settings
        self.plane = Plane(
            settings, open_session=open_session, open_voice=open_voice, open_language=open_language
        )  # fmt: skip
        self.url = ""
        self.wyoming_address = ""
        self.grpc_address = ""
        self.listening = threading.Event()
        self.loaded = threading.Event()
        """Everything was tried, and `failure` is known."""
        self.failure: BaseException | None = None
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    # -- life ----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Serve until SIGTERM or SIGINT."""
        keep_freed_memory()
        # Threads that read pictures and texts hold Python's lock for as long: the loop gets it back sooner.
        sys.setswitchinterval(_SWITCH_SECONDS)
        asyncio.run(self._main(signals=True))

    def stop(self) -> None:
        """Begin to drain; from any thread."""
        if self._loop is not None and self._stop is not None:
            with contextlib.suppress(RuntimeError):  # it has stopped already
                self._loop.call_soon_threadsafe(self._stop.set)

    async def _main(self, *, signals: bool) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        if self.settings.otlp_endpoint:
            tracing.start(self.settings.otlp_endpoint)
        http = _Uvicorn(self._uvicorn_config())
        http_socket = _listen(self.settings.host, self.settings.http_port, "HTTP")
        rpc_socket: socket.socket | None = None
        try:
            if self.settings.grpc_port is not None:
                rpc_socket = _listen(self.settings.host, self.settings.grpc_port, "gRPC")
            rpc = RpcServer(self.plane) if rpc_socket is not None else None
            wyoming = WyomingServer(self.plane, self.settings.wyoming) if self.settings.wyoming is not None else None
        except BaseException:
            for one in (http_socket, rpc_socket):
                if one is not None:
                    one.close()
            raise
        if signals:
            for number in (signal.SIGTERM, signal.SIGINT):
                self._loop.add_signal_handler(number, self._signalled, number)
        try:
            if wyoming is not None:
                await wyoming.start()
                self.wyoming_address = wyoming.address
                _LOG.info("listening on %s (Wyoming)", wyoming.address)
            await self._serve(http, http_socket, rpc, rpc_socket, wyoming)
        finally:
            http_socket.close()
            await asyncio.to_thread(self.plane.close)
            if self.settings.otlp_endpoint:
                tracing.stop()

    async def _serve(
        self,
        http: _Uvicorn,
        http_socket: socket.socket,
        rpc: RpcServer | None,
        rpc_socket: socket.socket | None,
        wyoming: WyomingServer | None,
    ) -> None:
        assert self._stop is not None
        scheme = "https" if self.settings.tls else "http"
        host = f"[{self.settings.host}]" if ":" in self.settings.host else self.settings.host
        self.url = f"{scheme}://{host}:{http_socket.getsockname()[1]}"
        rpc_tls = Certificates.context(self.settings.tls, "h2") if self.settings.tls else None
        if rpc is not None and rpc_socket is not None:
            self.grpc_address = f"{host}:{rpc_socket.getsockname()[1]}"
            await rpc.start(rpc_socket, rpc_tls)
        serving = asyncio.create_task(http.serve(sockets=[http_socket]))
        while not http.started and not serving.done():
            await asyncio.sleep(0.005)
        self.listening.set()
        _LOG.info("listening on %s%s", self.url, f" and gRPC on {self.grpc_address}" if rpc is not None else "")
        loading = asyncio.create_task(self._load())
        polling = asyncio.create_task(self._poll())
        renewing = asyncio.create_task(self._renew(http.config.ssl, rpc_tls))
        stopping = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait({stopping, serving}, return_when=asyncio.FIRST_COMPLETED)
            await self._drain(http, serving, rpc, wyoming)
        finally:
            for task in (polling, renewing, stopping, loading):
                task.cancel()
            await asyncio.gather(polling, renewing, stopping, loading, return_exceptions=True)

    async def _drain(
        self, http: _Uvicorn, serving: asyncio.Task[None], rpc: RpcServer | None, wyoming: WyomingServer | None
    ) -> None:
        """Nothing that was accepted is lost: first not ready, then no new connections, then wait for the answers."""
        self.plane.is_draining = True
        if self.settings.drain_delay_seconds:
            _LOG.info("not ready any more; requests are taken for %g s", self.settings.drain_delay_seconds)
            await asyncio.sleep(self.settings.drain_delay_seconds)
        _LOG.info("draining: %d requests in progress", self.plane.under_way)
        http.should_exit = True
        waits = [serving]
        if rpc is not None:
            waits.append(asyncio.create_task(rpc.stop(self.settings.drain_seconds)))
        if wyoming is not None:
            waits.append(asyncio.create_task(wyoming.stop(self.settings.drain_seconds)))
        await asyncio.gather(*waits)
        _LOG.info("drained")

    async def _load(self) -> None:
        try:
            await self._load_all()
        finally:
            self.loaded.set()

    async def _load_all(self) -> None:
        try:
            await asyncio.to_thread(self.plane.repository.load_all)
            await asyncio.to_thread(self.plane.voices.load_all)
            await asyncio.to_thread(self.plane.languages.load_all)
        except (RknnError, OSError) as error:
            self.failure = error
            _LOG.error("%s", error)
            self.stop()
            return
        self.failure = self._missing()
        if self.failure is not None:
            self.stop()
        elif not self.plane.ready_problem():
            _LOG.info("ready")

    def _missing(self) -> RknnError | None:
        """A model that was named itself has to load; those of a folder may have problems of their own."""
        paths = self.plane.repository.sources.paths()
        named = scan((source for source in paths if Path(source).is_file()), self.settings.name)
        bad = [entry for entry in self.plane.repository.entries() if entry.name in named and entry.served is None]
        return UnsupportedError(f"{named[bad[0].name].versions[1]}: {bad[0].reason}") if bad else None

    async def _poll(self) -> None:
        while self.settings.poll_seconds is not None:
            await asyncio.sleep(self.settings.poll_seconds)
            if not self.plane.repository.is_loading:
                try:
                    await asyncio.to_thread(self.plane.repository.poll)
                except (RknnError, OSError) as error:
                    _LOG.error("the repository cannot be read: %s", error)

    async def _renew(self, *contexts: ssl.SSLContext | None) -> None:
        files: list[Callable[[], bool]] = []
        if self.settings.token_file is not None:
            files.append(self.plane.tokens.refresh)
        if self.settings.tls is not None:
            files.append(Certificates(self.settings.tls, *(one for one in contexts if one is not None)).refresh)
        while files:
            await asyncio.sleep(self.settings.certificate_seconds)
            for refresh in files:
                await asyncio.to_thread(refresh)

    def _signalled(self, number: int) -> None:
        _LOG.info("got %s", signal.Signals(number).name)
        self.stop()

    def _uvicorn_config(self) -> uvicorn.Config:
        tls = self.settings.tls
        config = uvicorn.Config(
            build(self.plane),
            http=guarded_protocol(self.settings.limits),
            ws=GuardedWebSocket,
            ws_max_size=MESSAGE_BYTES,
            ws_per_message_deflate=False,  # sound hardly shrinks, and a few bytes can stand for gigabytes
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=True,
            proxy_headers=False,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=max(1, round(self.settings.drain_seconds)),
            ssl_certfile=tls.certificate if tls else None,
            ssl_keyfile=tls.key if tls else None,
            ssl_ca_certs=tls.client_ca if tls else None,
            ssl_cert_reqs=ssl.CERT_REQUIRED if tls and tls.client_ca else ssl.CERT_NONE,
        )
        try:
            config.load()
        except (OSError, ssl.SSLError) as error:
            raise UnsupportedError(f"the TLS files cannot be used: {error}") from None
        return config


def _listen(host: str, port: int, what: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol said, asyncio switches Nagle's waiting off; without it small answers take 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise UnsupportedError(f"{what} cannot listen on {host}:{port}: {error.strerror}") from None
    return listener


@contextmanager
def running(
    settings: Settings,
    *,
    open_session: OpenSession = Session,
    open_voice: OpenVoice = open_voice,
    open_language: OpenLanguage = open_language,
    wait_seconds: float | None = 120.0,
) -> Iterator[Server]:
    """A server in a thread of this process, ready when the block begins (or after `wait_seconds`; None: do not wait).

    It drains and stops when the block ends.
    """
    server = Server(settings, open_session=open_session, open_voice=open_voice, open_language=open_language)
    problems: list[BaseException] = []

    def work() -> None:
        try:
            asyncio.run(server._main(signals=False))
        except BaseException as error:  # noqa: BLE001 - it is raised where the user is
            problems.append(error)
        finally:
            server.listening.set()

    thread = threading.Thread(target=work, name="openrknn-serve")
    thread.start()
    try:
        server.listening.wait()
        _wait_ready(server, thread, wait_seconds)
        if problems or server.failure is not None:
            raise server.failure or problems[0]
        yield server
    finally:
        server.stop()
        thread.join()


def _wait_ready(server: Server, thread: threading.Thread, seconds: float | None) -> None:
    waited = 0.0
    while seconds is not None and waited < seconds and thread.is_alive() and not server.loaded.wait(0.05):
        waited += 0.05
