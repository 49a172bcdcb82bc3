"""What the web page asks for."""

from __future__ import annotations

import asyncio
import time
from importlib import resources
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from openrknn.errors import RknnError
from openrknn.serve.errors import ModelFailedError, NotFoundError, ServeError
from openrknn.serve.llm.language import Language
from openrknn.serve.npu_load import NpuLoad
from openrknn.serve.page.doctor import findings
from openrknn.serve.plane.describe import server_metadata
from openrknn.serve.plane.plane import Plane
from openrknn.serve.plane.served import Served
from openrknn.serve.plane.stats import percentile
from openrknn.serve.rest.tickets import make_ticket
from openrknn.serve.voice.voice import Voice

__all__ = ["routes"]

_KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_FILES = (
    "index.html", "style.css", "app.js", "ask.js", "chat.js", "draw.js", "markdown.js", "try.js", "voice.js",
    "recorder.js", "icon.svg",
)  # fmt: skip
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "media-src blob:; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)


def routes(plane: Plane) -> list[Route]:
    """The page, its files, and its questions."""
    page = _Page(plane)
    return [
        Route("/", page.start),
        Route("/page/{file}", page.asset),
        Route("/status", page.status),
        Route("/doctor", page.doctor),
        Route("/ticket", page.ticket),
        Route("/v2/models/{name}/versions/{version}/inspect", page.inspect),
        Route("/v2/models/{name}/inspect", page.inspect),
    ]


class _Page:
    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        self._watch = NpuLoad(plane)
        folder = resources.files("openrknn.serve.page").joinpath("assets")
        self._files = {name: folder.joinpath(name).read_bytes() for name in _FILES}

    async def start(self, _: Request) -> Response:
        return self._file("index.html")

    async def asset(self, request: Request) -> Response:
        return self._file(request.path_params["file"])

    def _file(self, name: str) -> Response:
        content = self._files.get(name)
        if content is None:
            raise NotFoundError(f"the page has no file {name[:80]!r}")
        headers = {"content-security-policy": _POLICY, "cache-control": "no-cache"}
        return Response(content, media_type=_KINDS[name.rpartition(".")[2]], headers=headers)

    async def status(self, _: Request) -> Response:
        """Everything that moves."""
        npus = await asyncio.to_thread(self._watch.npus)
        plane = self._plane
        return JSONResponse(
            {
                "server": {
                    **server_metadata(self._plane),
                    "ready": not plane.ready_problem(),
                    "problem": plane.ready_problem(),
                    "up_seconds": round(time.time() - plane.started, 1),
                    "under_way": plane.under_way,
                },
                "npus": [
                    {
                        "name": npu.name,
                        "driver": npu.driver,
                        "version": npu.version,
                        "loads": [core.load_percent for core in npu.cores],
                        "hz": npu.clock.hz,
                        "memory_bytes": npu.memory.used_bytes,
                        "temperatures": [
                            {"zone": zone.zone, "celsius": zone.celsius, "throttling": zone.is_throttling}
                            for zone in npu.temperatures
                        ],
                    }
                    for npu in npus
                ],
                "models": [self._model(entry.as_json(), entry.served) for entry in plane.repository.entries()],
                "voices": [_voice(one) for one in plane.voices.all()],
                "languages": [_language(one) for one in plane.languages.all()],
            }
        )

    def _model(self, words: dict[str, Any], served: Served | None) -> dict[str, Any]:
        if served is None:
            return words
        stats = served.stats
        recent = stats.recent()
        stages = {name: stats.stages[name] for name in ("queue", "pre", "npu", "post")}
        return {
            **words,
            "platform": f"{served.card.chip} + CPU" if served.signature.is_parted else served.card.chip,
            "device": served.device_name,
            "contexts": len(served.instances),
            "busy_seconds": [round(seconds, 4) for seconds in served.busy()],
            "queue": len(served.queue),
            "queue_size": served.queue.size,
            "requests": stats.successes,
            "failures": dict(stats.failures),
            "restarts": stats.restarts,
            "worker_restarts": served.host.restarts,
            "milliseconds": {name: _ms(percentile(recent, share)) for name, share in _SHARES.items()},
            "stages": {name: _ms(entry.sum / entry.count if entry.count else None) for name, entry in stages.items()},
            "inputs": [port.as_json() for port in served.signature.inputs],
            "outputs": [port.as_json() for port in served.signature.outputs],
            "in_parts": served.signature.is_parted,
            "takes_pictures": not served.signature.is_parted
            and [port.datatype for port in served.signature.inputs] == ["UINT8"],
        }

    async def inspect(self, request: Request) -> Response:
        """The report of `openrknn inspect --html`; its own policy is inside it."""
        served = self._plane.repository.find(request.path_params["name"], request.path_params.get("version", ""))
        try:
            return HTMLResponse(await asyncio.to_thread(served.host.report))
        except ServeError:
            raise
        except RknnError as error:
            raise ModelFailedError(f"there is no report of model {served.name!r}: {error}") from None

    async def ticket(self, _: Request) -> Response:
        """A frame cannot send the token: this lets it show a report, for a minute."""
        token = self._plane.tokens.current
        return JSONResponse({"ticket": make_ticket(token) if token is not None else ""})

    async def doctor(self, _: Request) -> Response:
        return JSONResponse(await asyncio.to_thread(findings, self._plane))


def _language(one: Language) -> dict[str, Any]:
    stats, card = one.stats, one.card
    first = stats.first_seconds
    return {
        "name": one.name,
        "architecture": card.architecture,
        "quantisation": card.quantisation,
        "parameters": card.parameters,
        "context": card.capacity,
        "notice": card.notice,
        "can_chat": card.can_chat,
        "problem": one.problem,
        "requests": stats.successes,
        "failures": dict(stats.failures),
        "restarts": one.restarts,
        "active": one.active,
        "waiting": one.waiting,
        "prompt_tokens": stats.prompt_tokens,
        "generated_tokens": stats.generated_tokens,
        "tokens_per_second": round(stats.tokens_per_second, 2),
        "first_seconds": first.sum / first.count if first.count else None,
    }


def _voice(one: Voice) -> dict[str, Any]:
    stats = one.stats
    return {
        "name": one.name,
        "kind": one.kind,
        "language": one.language,
        "languages": one.languages,
        "tasks": one.tasks,
        "speakers": one.speakers,
        "problem": one.problem,
        "requests": stats.successes,
        "failures": dict(stats.failures),
        "restarts": one.restarts,
        "waiting": one.waiting,
        "audio_seconds": round(stats.audio_seconds, 3),
        "real_time_factor": stats.real_time_factor,
    }


_SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(1000 * seconds, 3)
