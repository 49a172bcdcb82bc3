"""Requests invented after the OpenAPI description: nothing may end in a 5xx, and answers are what the page says."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

from openrknn.serve.rest.openapi import description
from openrknn.serve.server import Server, running
from openrknn.serve.settings import Settings
from tests.serve.languages import open_fake_language
from tests.serve.voices import make_sets, open_fake

EXAMPLES = int(os.environ.get("OPENRKNN_EXAMPLES", "8"))
"""Of each operation; more of them by hand: OPENRKNN_EXAMPLES=300 pytest tests/serve/test_openapi.py."""
SCHEMA = schemathesis.openapi.from_dict(description(has_token=False))
FOUND: list[Any] = list(SCHEMA.get_all_operations())
OPERATIONS = [result.ok() for result in FOUND]
# A name that exists reaches deeper than invented ones. Load and unload would change the server of the other tests.
MODEL = "picture"
CHANGING = ("/load", "/unload")


CASES = [(operation, False) for operation in OPERATIONS]
CASES += [(one, True) for one in OPERATIONS if "{name}" in one.path and not one.path.endswith(CHANGING)]


@pytest.fixture(scope="module")
def voices(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("voices")
    sets = make_sets(folder)
    (folder / "tiny.gguf").write_bytes(b"x")
    with running(
        Settings(
            [], voices=sets, llms=[folder / "tiny.gguf"], http_port=0, grpc_port=None, workers="in-process",
            voice_streams=64,
        ),
        open_voice=open_fake,
        open_language=open_fake_language,
    ) as started:
        yield started


@pytest.mark.parametrize(
    ("operation", "known"), CASES, ids=lambda part: {True: MODEL, False: "any"}.get(part) or part.label
)
def test_no_request_breaks_the_server(server: Server, voices: Server, operation: Any, known: bool) -> None:
    asked = voices if operation.path.startswith(("/v1/", "/api/")) else server

    @hypothesis.given(case=operation.as_strategy())
    @hypothesis.settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    def check(case: Any) -> None:
        if known:
            case.path_parameters = {**case.path_parameters, "name": MODEL}
        elif case.path_parameters and operation.path.endswith(CHANGING):
            case.path_parameters = {**case.path_parameters, "name": "nobody/" + str(case.path_parameters["name"])}
        response = case.call(base_url=asked.url)
        allowed = (response_schema_conformance, status_code_conformance)
        if response.status_code == 503:  # a version that is known and not loaded
            return
        case.validate_response(response, checks=(not_a_server_error, *allowed))

    check()
    asked.plane.logs.close()  # what is logged is as it was


def test_the_description_has_every_path_of_the_protocol() -> None:
    paths = description(has_token=True)["paths"]
    for path in (
        "/v2",
        "/v2/health/live",
        "/v2/health/ready",
        "/v2/models/{name}",
        "/v2/models/{name}/ready",
        "/v2/models/{name}/infer",
        "/v2/models/{name}/versions/{version}/infer",
        "/v2/repository/index",
        "/v2/systemsharedmemory/region/{region}/register",
        "/v2/models/{name}/trace/setting",
        "/v2/logging",
        "/v1/models",
        "/v1/audio/transcriptions",
        "/v1/audio/speech",
        "/v1/chat/completions",
        "/api/chat",
    ):
        assert path in paths
