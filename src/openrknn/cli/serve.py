"""`openrknn serve`: models behind the Open Inference Protocol, with a web page and metrics."""

from __future__ import annotations

import argparse
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

from openrknn.cli.common.options import number, port, positive, seconds, zero_or_more
from openrknn.cli.common.output import CommandError, Output
from openrknn.cli.common.outputs import TIMESTAMPS, OutputFile, OutputFolder
from openrknn.extras import missing

if TYPE_CHECKING:
    from openrknn.serve.settings import Settings

NAME = "serve"
HELP = "serve models, voices and language models over REST and gRPC, with a web page and metrics"
DESCRIPTION = """Serve models: Open Inference Protocol v2 over REST and gRPC (Triton's clients work as they are),
an endpoint that takes pictures and returns labels, boxes or text, a web page, and metrics. Voices: speech to text and
text to speech as OpenAI's clients ask for it, and Wyoming for Home Assistant. Language models: chats, texts and
embeddings as OpenAI's and Ollama's clients ask for them. Without an NPU the software
NPU does the work. SIGTERM and Ctrl-C drain: accepted requests are answered before it stops. See docs/serve.md."""
EXAMPLES = (
    "openrknn serve yolo.rknn                          then open http://127.0.0.1:8000",
    "openrknn serve models/                            a folder of models; see docs/serve.md",
    "openrknn serve models/ --poll 5                   follow changes in the folder",
    "openrknn serve s3://models/boards --poll 30       S3-compatible storage (AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID ...)",
    "openrknn serve https://example.org/yolo.rknn#sha256=...",
    "OPENRKNN_TOKEN=... openrknn serve models/ --host 0.0.0.0 --tls-cert c.pem --tls-key k.pem",
    "openrknn serve --voice moonshine-tiny --wyoming tcp://0.0.0.0:10300   speech to text; Home Assistant finds it",
    "openrknn serve --llm smollm2-135m-instruct        a language model, as OpenAI's and Ollama's clients ask for it",
    "curl --data-binary @cat.jpg http://127.0.0.1:8000/v2/models/yolo/image",
)
_LOG = logging.getLogger(__name__)
_MEBIBYTE = 1024 * 1024
_TOKEN_VARIABLE = "OPENRKNN_TOKEN"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    sources = ".rknn and .rknnz files, model repositories, s3://BUCKET/PREFIX, https://HOST/MODEL.rknn[#sha256=...]"
    parser.add_argument("sources", metavar="MODEL_OR_FOLDER", nargs="*", help=sources)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this machine only)")
    parser.add_argument("--port", type=port, default=8000, help="HTTP port; 0 takes any free one (default: 8000)")
    parser.add_argument("--grpc-port", type=port, default=8001, help="gRPC port (default: 8001)")
    parser.add_argument("--no-grpc", action="store_true", help="REST only")
    parser.add_argument("--no-page", action="store_true", help="no web page")
    parser.add_argument("--device", default="auto", help="auto, software, rknpu or rocket (default: auto)")
    parser.add_argument("--cores", type=positive, metavar="N", help="cores that share each run (default: 1)")
    models = parser.add_argument_group("models")
    models.add_argument("--name", help="name of the model, if there is only one (default: its file name)")
    models.add_argument("--instances", type=positive, metavar="N", help="contexts per model (default: one per core)")
    models.add_argument(
        "--queue", type=positive, metavar="N", default=64, help="length of the request queue (default: 64)"
    )
    models.add_argument(
        "--batch-delay", type=zero_or_more, metavar="MS", default=0.0, help="how long to wait to fill a batch"
    )
    models.add_argument("--versions", choices=("latest", "all"), default="latest", help="which versions to load")
    models.add_argument("--poll", type=seconds, metavar="S", help="look for changes in the folders this often")
    models.add_argument("--require-checksum", action="store_true",
                        help="serve nothing from the network without a SHA-256 that was promised for it")  # fmt: skip
    models.add_argument("--model-cache", metavar="DIR", action=OutputFolder,
                        help="where those are kept (default: the user's cache)")  # fmt: skip
    models.add_argument(
        "--max-model", type=positive, metavar="MIB", default=4096, help="largest file to fetch (default: 4096)"
    )
    models.add_argument("--fixed", action="store_true", help="do not let clients load and unload models")
    models.add_argument("--no-warm-up", action="store_true", help="report ready before the first run")
    models.add_argument("--strict-readiness", action="store_true", help="ready only while every model is")
    models.add_argument("--workers", choices=("process", "in-process"), default="process",
                        help="run each model in its own process (default), or all in the server's")  # fmt: skip
    voices = parser.add_argument_group("voices")
    voices.add_argument("--voice", metavar="SET", action="append", default=[],
                        help="serve a voice: a set, NAME=SET, or a Piper voice; repeat for more")  # fmt: skip
    voices.add_argument("--voice-streams", type=positive, metavar="N", default=4,
                        help="conversations with one voice at a time (default: 4)")  # fmt: skip
    voices.add_argument("--wyoming", metavar="URI", help="Home Assistant's protocol, such as tcp://0.0.0.0:10300")
    _add_languages(parser.add_argument_group("language models"))
    limits = parser.add_argument_group("limits")
    limits.add_argument(
        "--max-audio", type=seconds, metavar="S", default=1800.0, help="longest recording or stream (default: 1800)"
    )
    limits.add_argument("--max-body", type=positive, metavar="MIB", default=64, help="largest request (default: 64)")
    limits.add_argument(
        "--max-memory",
        type=positive,
        metavar="MIB",
        default=512,
        help="memory for all requests together, and for each worker beside its model (default: 512)",
    )
    limits.add_argument(
        "--timeout", type=seconds, metavar="S", default=60.0, help="time limit of a request (default: 60)"
    )
    limits.add_argument("--run-timeout", type=seconds, metavar="S",
                        help="time limit of one run; a slower worker is restarted (default: --timeout)")  # fmt: skip
    limits.add_argument(
        "--drain", type=seconds, metavar="S", default=30.0, help="time to finish after SIGTERM (default: 30)"
    )
    limits.add_argument("--drain-delay", type=zero_or_more, metavar="S", default=0.0,
                        help="after SIGTERM: keep taking requests this long, but report not ready")  # fmt: skip
    _add_client_limits(limits)
    safety = parser.add_argument_group("security")
    safety.add_argument(
        "--token-file", metavar="FILE", help=f"file with the token that clients must send (or {_TOKEN_VARIABLE})"
    )
    safety.add_argument("--require-token", action="store_true", help="do not start without a token")
    safety.add_argument(
        "--shared-memory",
        choices=("auto", "on", "off"),
        default="auto",
        help="let clients leave tensors in /dev/shm (default: if only this machine reaches the server)",
    )
    safety.add_argument("--tls-cert", metavar="PEM", help="certificate (chain)")
    safety.add_argument("--tls-key", metavar="PEM", help="private key of the certificate")
    safety.add_argument("--tls-client-ca", metavar="PEM", help="require client certificates signed by this authority")
    logs = parser.add_argument_group("logs and traces")
    logs.add_argument("--log-format", choices=("text", "json"), default="text", help="log format (default: text)")
    logs.add_argument("--log-level", choices=("debug", "info", "warning", "error"), default="info")
    logs.add_argument("--trace-file", metavar="FILE", action=OutputFile, kind=TIMESTAMPS,
                      help="for the traces that Triton's clients switch on")  # fmt: skip
    logs.add_argument("--otlp", metavar="URL", default=os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT"),
                      help="send OpenTelemetry traces to this endpoint, such as http://localhost:4318")  # fmt: skip


def _add_languages(texts: argparse._ArgumentGroup) -> None:
    texts.add_argument("--llm", metavar="[NAME=]FILE", action="append", default=[],
                       help="serve a language model: a GGUF file, or a name that was got; repeat for more")  # fmt: skip
    texts.add_argument("--llm-sequences", type=positive, metavar="N", default=8,
                       help="requests that one language model computes together (default: 8)")  # fmt: skip
    few = number("a whole number from 0 to 64", 0, 64, whole=True)
    texts.add_argument("--llm-drafts", type=few, metavar="N", default=0,
                       help="tokens that n-grams, or a draft model, propose at a time; changes the speed "
                       "only")  # fmt: skip
    texts.add_argument("--llm-draft-model", metavar="[NAME=]FILE", action="append", default=[],
                       help="a smaller model that drafts for the language model NAME, or for all")  # fmt: skip
    texts.add_argument("--llm-client-requests", type=positive, metavar="N", default=0,
                       help="requests of one client to a model at a time (default: no limit)")  # fmt: skip
    texts.add_argument("--llm-keep-alive", type=zero_or_more, metavar="SECONDS", default=-1.0,
                       help="unload a language model after so long without requests; the next one loads it again "
                       "(default: never)")  # fmt: skip


def _add_client_limits(limits: argparse._ArgumentGroup) -> None:
    limits.add_argument("--client-connections", type=positive, metavar="N", default=256,
                        help="connections of one client (address, IPv6 /64) to each port (default: 256)")  # fmt: skip
    limits.add_argument("--client-streams", type=positive, metavar="N", default=64,
                        help="gRPC streams of one client (default: 64)")  # fmt: skip
    limits.add_argument("--client-rate", type=zero_or_more, metavar="N", default=0.0,
                        help="requests of one client a second (default: no limit)")  # fmt: skip


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Serve until SIGTERM or Ctrl-C."""
    try:
        from openrknn.serve import logs
        from openrknn.serve.plane.index import scan
        from openrknn.serve.server import Server
        from openrknn.serve.sources.address import is_remote, parse
    except ImportError as error:
        raise CommandError(missing(error, "serve")) from None
    if not arguments.sources and not arguments.voice and not arguments.llm:
        raise CommandError("there is nothing to serve: give a model, a folder of models, --voice SET or --llm FILE")
    if arguments.wyoming and not arguments.voice:
        raise CommandError("--wyoming serves voices: give at least one --voice SET")
    settings = settings_from(arguments)
    if arguments.require_token and settings.token is None:
        raise CommandError(f"there is no token: set {_TOKEN_VARIABLE}, or give --token-file")
    # Complain about what is not there, or is no address, before anything starts.
    remote = [parse(str(source)) for source in settings.sources if is_remote(source)]
    is_empty = not scan([one for one in settings.sources if not is_remote(one)], None if remote else settings.name)
    is_empty = is_empty and not remote
    logs.set_up(arguments.log_format, arguments.log_level)
    for warning in _warnings(settings, is_empty=is_empty):
        _LOG.warning(warning)
    server = Server(settings)
    server.run()
    if server.failure is not None:
        raise CommandError(str(server.failure))
    return 0


def settings_from(arguments: argparse.Namespace) -> Settings:
    """What the command line says."""
    from openrknn.serve.page.report import report
    from openrknn.serve.settings import Limits, Settings, Tls

    if bool(arguments.tls_cert) != bool(arguments.tls_key):
        raise CommandError("TLS needs both --tls-cert and --tls-key")
    limits = Limits(
        body_bytes=arguments.max_body * _MEBIBYTE,
        total_bytes=max(arguments.max_memory, arguments.max_body) * _MEBIBYTE,
        request_seconds=arguments.timeout,
        run_seconds=arguments.run_timeout or arguments.timeout,
        audio_seconds=arguments.max_audio,
        client_connections=arguments.client_connections,
        client_streams=arguments.client_streams,
        client_rate=arguments.client_rate,
    )
    return Settings(
        sources=arguments.sources,
        voices=arguments.voice,
        voice_streams=arguments.voice_streams,
        llms=arguments.llm,
        llm_sequences=arguments.llm_sequences,
        llm_drafts=arguments.llm_drafts,
        llm_draft_models=arguments.llm_draft_model,
        llm_client_requests=arguments.llm_client_requests,
        llm_keep_alive=arguments.llm_keep_alive,
        wyoming=arguments.wyoming,
        name=arguments.name,
        host=arguments.host,
        http_port=arguments.port,
        grpc_port=None if arguments.no_grpc else arguments.grpc_port,
        device=arguments.device,
        cores=arguments.cores,
        instances=arguments.instances,
        queue_size=arguments.queue,
        batch_delay_seconds=arguments.batch_delay / 1000,
        versions=arguments.versions,
        warm_up=not arguments.no_warm_up,
        workers=arguments.workers,
        strict_readiness=arguments.strict_readiness,
        poll_seconds=arguments.poll,
        require_checksum=arguments.require_checksum,
        model_cache=arguments.model_cache,
        model_bytes=arguments.max_model * _MEBIBYTE,
        allow_repository=not arguments.fixed,
        shared_memory={"auto": None, "on": True, "off": False}[arguments.shared_memory],
        token=_token(arguments.token_file),
        token_file=arguments.token_file,
        tls=Tls(arguments.tls_cert, arguments.tls_key, arguments.tls_client_ca) if arguments.tls_cert else None,
        limits=limits,
        drain_delay_seconds=arguments.drain_delay,
        drain_seconds=arguments.drain,
        page=not arguments.no_page,
        trace_file=arguments.trace_file,
        otlp_endpoint=arguments.otlp,
        describe=report,
    )


def _token(file: str | None) -> str | None:
    """Never an argument: every user of the machine can read those."""
    token = Path(file).read_text("utf-8").strip() if file else os.environ.get(_TOKEN_VARIABLE, "").strip()
    if file and not token:
        raise CommandError(f"{file} is empty; write a long random text into it")
    return token or None


def _warnings(settings: Settings, *, is_empty: bool) -> list[str]:
    lines = []
    plain = [one for one in map(str, settings.sources) if one.startswith("http://") and "#sha256=" not in one]
    if plain:
        address = plain[0].partition("?")[0]
        lines.append(f"{address} comes unencrypted and without a checksum; add #sha256=..., or use https")
    if is_empty and settings.sources:  # a folder may be filled later
        lines.append(f"there is no model in {', '.join(map(str, settings.sources))} yet; see docs/serve.md")
    if settings.host not in {"127.0.0.1", "::1", "localhost"} and settings.token is None:
        lines.append(f"everybody who reaches {settings.host} may use this server; set a token ({_TOKEN_VARIABLE})")
    if settings.token is not None and settings.tls is None and settings.host not in {"127.0.0.1", "::1", "localhost"}:
        lines.append("the token travels unencrypted; use --tls-cert and --tls-key, or a proxy that does it")
    if settings.wyoming is not None and not settings.wyoming.startswith(("unix://", "tcp://127.", "tcp://localhost")):
        lines.append("Wyoming knows no tokens: everybody who reaches its port may listen and speak")
    return lines
