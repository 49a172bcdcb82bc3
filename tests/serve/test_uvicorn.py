"""What `serve.rest.protocol` takes from inside uvicorn is there, in the version that is installed."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
import uvicorn
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

METHODS = (
    "connection_made", "connection_lost", "data_received", "on_message_begin", "on_url", "on_header", "on_body",
    "send_400_response", "on_headers_complete", "on_message_complete", "on_response_complete", "shutdown",
    "handle_websocket_upgrade", "_should_upgrade",
)  # fmt: skip
FIELDS = ("connections", "cycle", "flow", "headers", "loop", "pipeline", "scope", "transport")
PYPROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"


def number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])


@pytest.mark.parametrize("name", METHODS)
def test_method_of_http_tools_protocol(name: str) -> None:
    assert callable(getattr(HttpToolsProtocol, name))


def test_fields_of_http_tools_protocol() -> None:
    async def made() -> HttpToolsProtocol:
        return HttpToolsProtocol(config=Config(lambda: None), server_state=ServerState(), app_state={})

    found = vars(asyncio.run(made()))
    assert [name for name in FIELDS if name not in found and name not in HttpToolsProtocol.__annotations__] == []


def test_fields_of_request_response_cycle() -> None:
    names = RequestResponseCycle.__init__.__code__.co_names
    assert {"transport", "response_complete"} <= {*names, *RequestResponseCycle.__annotations__}


def test_installed_version_is_in_the_range_of_pyproject() -> None:
    lowest, highest = re.findall(r'"uvicorn>=([\d.]+),<([\d.]+)"', PYPROJECT.read_text())[0]
    assert number(lowest) <= number(uvicorn.__version__) < number(highest)
