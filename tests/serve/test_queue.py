"""Queues: full ones refuse at once, deadlines and cancelled requests make room, nothing accepted is lost."""

from __future__ import annotations

import http.client
import queue
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from openrknn.serve.server import Server, running
from openrknn.serve.settings import Limits, Settings
from tests.serve.asking import PATIENCE, ask, helpers, infer, request_body
from tests.serve.parts import FILES, Array, expected, random_inputs
from tests.serve.sessions import POISON, Workshop, until

INPUTS = random_inputs("picture")
NAME = "image_rk3588_i8"


@contextmanager
def gated(queue_size: int = 2, instances: int = 1, **more: object) -> Iterator[tuple[Server, Workshop]]:
    """A server whose contexts wait at a gate."""
    workshop = Workshop()
    settings = Settings(
        [FILES["picture"]], http_port=0, grpc_port=0, queue_size=queue_size, instances=instances,
        workers="in-process", **more,  # type: ignore[arg-type]
    )
    with running(settings, open_session=workshop.open) as server:
        try:
            yield server, workshop
        finally:
            workshop.gate.set()


def waiting(server: Server) -> int:
    return len(server.plane.repository.find(NAME).queue)


def test_a_full_queue_refuses_at_once_on_both_protocols() -> None:
    with gated(queue_size=2) as (server, workshop), helpers(3) as threads:
        workshop.gate.clear()
        first = threads.submit(infer, server, NAME, INPUTS)
        until(lambda: workshop.running == 1)
        others = [threads.submit(infer, server, NAME, INPUTS) for _ in range(2)]
        until(lambda: waiting(server) == 2)
        refused = infer(server, NAME, INPUTS)
        assert refused.status == 429
        assert "2 requests waiting" in refused.error
        assert int(refused.headers["retry-after"]) >= 1
        tensor = triton.InferInput("image", [1, 16, 16, 3], "UINT8")
        tensor.set_data_from_numpy(INPUTS["image"])
        with (
            triton.InferenceServerClient(server.grpc_address) as client,
            pytest.raises(InferenceServerException, match="RESOURCE_EXHAUSTED"),
        ):
            client.infer(NAME, [tensor])
        # A picture is refused the same way, before it is read.
        assert ask(server, "POST", f"/v2/models/{NAME}/image", b"x" * 100_000).status == 429
        workshop.gate.set()
        assert [one.result(PATIENCE).status for one in (first, *others)] == [200] * 3
        assert infer(server, NAME, INPUTS).status == 200


def test_a_deadline_ends_the_waiting_and_frees_the_place() -> None:
    with gated() as (server, workshop), helpers(1) as threads:
        workshop.gate.clear()
        first = threads.submit(infer, server, NAME, INPUTS)
        until(lambda: workshop.running == 1)
        late = infer(server, NAME, INPUTS, parameters={"timeout": 30_000})
        assert late.status == 504
        assert waiting(server) == 0
        workshop.gate.set()
        assert first.result(PATIENCE).status == 200
        assert server.plane.repository.find(NAME).stats.failures["DEADLINE_EXCEEDED"] == 1


def test_the_deadline_of_a_call_ends_the_waiting_too() -> None:
    tensor = triton.InferInput("image", [1, 16, 16, 3], "UINT8")
    tensor.set_data_from_numpy(INPUTS["image"])
    with gated() as (server, workshop), triton.InferenceServerClient(server.grpc_address) as client:
        workshop.gate.clear()
        for _ in range(2):  # one that runs, one that waits
            with pytest.raises(InferenceServerException, match="DEADLINE_EXCEEDED"):
                client.infer(NAME, [tensor], client_timeout=0.2)
        until(lambda: waiting(server) == 0)
        workshop.gate.set()


def test_the_server_has_a_deadline_of_its_own() -> None:
    with gated(limits=Limits(request_seconds=0.05)) as (server, workshop):
        workshop.gate.clear()
        assert infer(server, NAME, INPUTS).status == 504
        workshop.gate.set()


def test_a_client_that_goes_away_is_taken_out_of_the_queue() -> None:
    with gated() as (server, workshop), helpers(1) as threads:
        workshop.gate.clear()
        first = threads.submit(infer, server, NAME, INPUTS)
        until(lambda: workshop.running == 1)
        where = urlsplit(server.url)
        connection = http.client.HTTPConnection(where.hostname or "", where.port or 0, timeout=PATIENCE)
        connection.request("POST", f"/v2/models/{NAME}/infer", request_body(INPUTS))
        until(lambda: waiting(server) == 1)
        connection.close()
        until(lambda: waiting(server) == 0)
        workshop.gate.set()
        assert first.result(PATIENCE).status == 200
        assert workshop.opened == 1


def test_a_cancelled_call_is_taken_out_of_the_queue() -> None:
    from openrknn.serve.rpc.messages import inference

    message, answer = inference().message("ModelInferRequest"), inference().message("ModelInferResponse")
    with gated() as (server, workshop), helpers(1) as threads, grpc.insecure_channel(server.grpc_address) as channel:
        workshop.gate.clear()
        first = threads.submit(infer, server, NAME, INPUTS)
        until(lambda: workshop.running == 1)
        request = message(model_name=NAME, raw_input_contents=[INPUTS["image"].tobytes()])
        request.inputs.add(name="image", datatype="UINT8", shape=[1, 16, 16, 3])
        call = channel.unary_unary(
            "/inference.GRPCInferenceService/ModelInfer",
            request_serializer=message.SerializeToString,
            response_deserializer=answer.FromString,
        ).future(request)
        until(lambda: waiting(server) == 1)
        call.cancel()
        until(lambda: waiting(server) == 0)
        workshop.gate.set()
        assert first.result(PATIENCE).status == 200


def test_draining_answers_what_was_accepted() -> None:
    wanted = expected("picture", INPUTS)["features"]
    with helpers(8) as threads:
        with gated(queue_size=8) as (server, workshop):
            workshop.gate.clear()
            asked = [threads.submit(infer, server, NAME, INPUTS) for _ in range(6)]
            until(lambda: workshop.running == 1 and waiting(server) == 5)
            server.stop()
            until(lambda: server.plane.is_draining)
            where = urlsplit(server.url)

            def refused() -> bool:
                with socket.socket() as knock:
                    return knock.connect_ex((where.hostname or "", where.port or 0)) != 0

            until(refused)
            workshop.gate.set()
            answers = [one.result(PATIENCE) for one in asked]
        assert [answer.status for answer in answers] == [200] * 6
        for answer in answers:
            assert np.array(answer.json["outputs"][0]["data"], np.float32).tobytes() == wanted.tobytes()


def test_draining_ends_streams_after_what_they_have_taken() -> None:
    tensor = triton.InferInput("image", [1, 16, 16, 3], "UINT8")
    tensor.set_data_from_numpy(INPUTS["image"])
    answers: queue.SimpleQueue[tuple[Any, Any]] = queue.SimpleQueue()
    with gated(queue_size=8) as (server, workshop):
        client = triton.InferenceServerClient(server.grpc_address)
        client.start_stream(callback=lambda result, error: answers.put((result, error)))
        workshop.gate.clear()
        for _ in range(4):
            client.async_stream_infer(NAME, [tensor])
        until(lambda: workshop.running == 1 and waiting(server) == 3)
        server.stop()
        until(lambda: server.plane.is_draining)
        workshop.gate.set()
        wanted = expected("picture", INPUTS)["features"].tobytes()
        for _ in range(4):
            result, error = answers.get(timeout=PATIENCE)
            assert error is None
            assert result.as_numpy("features").tobytes() == wanted
        client.stop_stream()
        client.close()


def test_all_requests_together_have_a_budget_too() -> None:
    limits = Limits(body_bytes=1 << 20, total_bytes=1 << 20)
    with gated(limits=limits) as (server, workshop), helpers(1) as threads:
        with server.plane.budget.share((1 << 20) - 500):
            assert infer(server, NAME, INPUTS).status == 429
            tensor = triton.InferInput("image", [1, 16, 16, 3], "UINT8")
            tensor.set_data_from_numpy(INPUTS["image"])
            with (
                triton.InferenceServerClient(server.grpc_address) as client,
                pytest.raises(InferenceServerException, match="RESOURCE_EXHAUSTED"),
            ):
                client.infer(NAME, [tensor])
        assert threads.submit(infer, server, NAME, INPUTS).result(PATIENCE).status == 200
        assert workshop.running == 0


def test_before_it_drains_it_says_that_it_is_not_ready() -> None:
    with gated(drain_delay_seconds=PATIENCE) as (server, _):
        assert ask(server, "GET", "/v2/health/ready").status == 200
        server.plane.is_draining = True
        answer = ask(server, "GET", "/v2/health/ready")
        assert (answer.status, answer.error) == (503, "the server is shutting down")
        assert ask(server, "GET", "/v2/health/live").status == 200
        assert infer(server, NAME, INPUTS).status == 200
        server.settings = Settings([])  # leave without the delay


def poisoned() -> dict[str, Array]:
    image = INPUTS["image"].copy()
    image.reshape(-1)[0] = POISON
    return {"image": image}


def test_a_broken_context_is_replaced_and_hurts_nobody_else() -> None:
    with gated(instances=2) as (server, workshop):
        assert workshop.opened == 2
        answer = infer(server, NAME, poisoned())
        assert (answer.status, answer.error) == (500, "the model could not run: the context broke")
        until(lambda: workshop.opened >= 3)
        assert infer(server, NAME, INPUTS).status == 200
        stats = server.plane.repository.find(NAME).stats
        assert (stats.restarts, stats.failures["INTERNAL"]) == (1, 1)


def test_a_model_that_cannot_come_back_is_not_ready_until_it_does() -> None:
    with gated(instances=1) as (server, workshop):
        workshop.refuse_to_open = True
        assert infer(server, NAME, poisoned()).status == 500
        until(lambda: ask(server, "GET", f"/v2/models/{NAME}/ready").status == 503)
        assert "the device is gone" in ask(server, "GET", "/v2/health/ready").error
        assert infer(server, NAME, INPUTS).status == 503
        index = ask(server, "POST", "/v2/repository/index", "{}").json
        assert (index[0]["state"], "device is gone" in index[0]["reason"]) == ("UNAVAILABLE", True)
        workshop.refuse_to_open = False
        until(lambda: ask(server, "GET", "/v2/health/ready").status == 200)
        assert infer(server, NAME, INPUTS).status == 200
