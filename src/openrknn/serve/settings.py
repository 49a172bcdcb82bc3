"""Everything that a user can choose about a server."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openrknn.container.bundle import Bundle
    from openrknn.container.model import Model

__all__ = ["IN_PROCESS", "PROCESSES", "Limits", "Settings", "Tls", "is_loopback"]

_MEBIBYTE = 1024 * 1024
PROCESSES, IN_PROCESS = "process", "in-process"


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits for all clients. Everything that waits or is kept in memory has a bound."""

    body_bytes: int = 64 * _MEBIBYTE
    """One request, before and after decompression."""
    total_bytes: int = 512 * _MEBIBYTE
    """All requests together, from the first byte of a body to the last byte of an answer; a worker may grow by as much
    beside what its model needs."""
    header_bytes: int = 64 * 1024
    """The request line and all headers."""
    pixels: int = 64 * 1000 * 1000
    """One picture."""
    connections: int = 1024
    """Of HTTP at the same time."""
    streams: int = 256
    """Calls of gRPC at the same time."""
    client_connections: int = 256
    """Of one client at the same time, of HTTP and of gRPC each; a client is an IPv4 address or an IPv6 /64."""
    client_streams: int = 64
    """Streams of gRPC of one client at the same time."""
    client_rate: float = 0.0
    """Requests of one client a second; 0: as many as it likes. Probes are not counted."""
    header_seconds: float = 10.0
    """From the first byte of a connection to the end of the headers."""
    body_seconds: float = 30.0
    """For a whole body."""
    send_seconds: float = 30.0
    """That a client may keep us waiting before it takes the next piece of an answer."""
    request_seconds: float = 60.0
    """The longest that a request may wait and run; clients can ask for less."""
    run_seconds: float = 60.0
    """One run of a model. A worker that takes longer hangs: it is ended and started again."""
    load_seconds: float = 300.0
    """Loading a model, or opening one of its contexts, in a worker."""
    audio_seconds: float = 1800.0
    """One recording, or one stream of sound."""
    text_characters: int = 4096
    """Said at a time."""


@dataclass(frozen=True, slots=True)
class Tls:
    """Files in PEM form; `client_ca` makes clients show a certificate of that authority."""

    certificate: str
    key: str
    client_ca: str | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """A server. The defaults are those of `openrknn serve MODEL_OR_FOLDER`."""

    sources: Sequence[str | os.PathLike[str]]
    """Models (.rknn, .rknnz) and model repositories: files, folders, s3://BUCKET/PREFIX, https://HOST/MODEL.rknn."""
    voices: Sequence[str | os.PathLike[str]] = ()
    """Voice sets by folder or name, and Piper voices (.onnx)."""
    voice_streams: int = 4
    """That may talk to one voice at the same time."""
    llms: Sequence[str | os.PathLike[str]] = ()
    """Language models: NAME=FILE or FILE, a GGUF file, a folder of Hugging Face or a compiled model."""
    llm_sequences: int = 8
    """Requests that one language model computes together."""
    llm_drafts: int = 0
    """Tokens that are drafted at a time while a request runs alone; 0: none, or four of a draft model."""
    llm_draft_models: Sequence[str | os.PathLike[str]] = ()
    """Smaller models that draft, NAME=FILE for one language model or FILE for all; without any, n-grams do."""
    llm_client_requests: int = 0
    """Of one client to one language model at the same time, running or waiting; 0: as many as the queue takes."""
    llm_keep_alive: float = -1.0
    """Seconds without requests after which a language model is unloaded, until the next one; negative: never."""
    wyoming: str | None = None
    """tcp://HOST:PORT or unix://PATH for Home Assistant's protocol; None: none."""
    name: str | None = None
    """Of the model, where there is only one; None: the name of its file or folder."""
    host: str = "127.0.0.1"
    http_port: int = 8000
    """0: any free one."""
    grpc_port: int | None = 8001
    """None: no gRPC."""
    device: str = "auto"
    cores: int | None = None
    """That share each run, as in `Session`."""
    instances: int | None = None
    """Contexts per model; None: as many as the NPU has cores, and no more than this machine has processors without
    an NPU."""
    queue_size: int = 64
    """Requests that may wait, per model."""
    batch_delay_seconds: float = 0.0
    """How long a batch waits for more requests; only models that were built for a batch have one."""
    versions: str = "latest"
    """Which versions of each model are loaded: latest or all. A model.toml says it for one model."""
    warm_up: bool = True
    workers: str = PROCESSES
    """"process": each model version in a process of its own, which may crash alone. "in-process": all of them here."""
    strict_readiness: bool = False
    """Ready only while every model is; else while any model is."""
    poll_seconds: float | None = None
    """How often the repositories are looked at for changes; None: only when asked to."""
    require_checksum: bool = False
    """Nothing from the network is served without a checksum that somebody promised."""
    model_cache: str | None = None
    """The folder where models from the network are kept; None: the user's cache."""
    model_bytes: int = 4 << 30
    """The largest file that is fetched."""
    allow_repository: bool = True
    """Whether clients may load and unload models."""
    shared_memory: bool | None = None
    """Whether clients may leave tensors in /dev/shm; None: where only programs of this machine reach the server."""
    token: str | None = field(default=None, repr=False)
    token_file: str | None = None
    """Where the token came from; it is read again when it changes."""
    token_grace_seconds: float = 60.0
    """That the old token stays good after that."""
    tls: Tls | None = None
    certificate_seconds: float = 10.0
    """How often the files of the certificate and of the token are looked at."""
    limits: Limits = Limits()
    drain_delay_seconds: float = 0.0
    """After SIGTERM: how long requests are still taken (not ready any more, so that balancers can notice)."""
    drain_seconds: float = 30.0
    """After that: how long what was accepted may take."""
    page: bool = True
    """The web page."""
    root: str = "/"
    """Where /sys and /proc are, for the NPU's load and temperature."""
    trace_file: str | os.PathLike[str] | None = None
    """Where Triton's traces go; None: nowhere."""
    otlp_endpoint: str | None = None
    """Where traces go, for example http://localhost:4318; None: nowhere."""
    describe: Callable[[Model | Bundle], str] | None = field(default=None, repr=False)
    """Makes the page about a model (`openrknn inspect --html`)."""

    @property
    def has_shared_memory(self) -> bool:
        """Whether clients may use shared memory."""
        return is_loopback(self.host) if self.shared_memory is None else self.shared_memory


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches that address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
