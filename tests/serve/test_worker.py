"""Each model in a process of its own: it may crash, hang or eat memory alone."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from openrknn.errors import FormatError, RknnError
from openrknn.serve.plane.contexts import Contexts
from openrknn.serve.plane.model_info import ModelInfo
from openrknn.serve.server import Server, running
from openrknn.serve.settings import Limits, Settings
from openrknn.serve.worker import supervisor
from openrknn.serve.worker.arena import Arena
from openrknn.serve.worker.host import reference
from openrknn.serve.worker.message_socket import MessageError
from openrknn.serve.worker.process import WorkerProcess
from tests.serve.asking import ask, infer
from tests.serve.parts import FILES, Array, expected, random_inputs
from tests.serve.sessions import CRASH, HANG, HUNGRY, POISON, TALK, open_fragile, open_that_crashes, until

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="workers need Linux")
INPUTS = random_inputs("picture")
MIB = 1 << 20


@contextmanager
def fragile(folder: Path, **limits: Any) -> Iterator[Server]:
    """Two models whose contexts can be broken, and one that never breaks beside them."""
    for name in ("one", "other"):
        shutil.copy(FILES["picture"], folder / f"{name}.rknn")
    settings = Settings([folder], http_port=0, grpc_port=0, instances=2, limits=Limits(**limits))
    with running(settings, open_session=open_fragile) as server:
        yield server


def picture(first: int) -> dict[str, Array]:
    image = INPUTS["image"].copy()
    image.reshape(-1)[0] = first
    return {"image": image}


def pid(server: Server, name: str = "one") -> int:
    (found,) = server.plane.repository.find(name).host.pids()
    return found


def answers(server: Server, name: str = "one") -> bool:
    return infer(server, name, picture(1)).status == 200


def test_a_crash_is_an_answer_and_hurts_no_other_model(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with fragile(tmp_path) as server:
        before, other = pid(server), pid(server, "other")
        assert len({before, other, os.getpid()}) == 3
        failed = infer(server, "one", picture(CRASH))
        assert (failed.status, "SIGSEGV" in failed.error) == (500, True)
        assert answers(server, "other")
        assert ask(server, "GET", "/v2/health/ready").status == 200
        until(lambda: answers(server))
        assert (pid(server) != before, pid(server, "other")) == (True, other)
        served = server.plane.repository.find("one")
        assert (served.host.restarts, served.stats.failures["INTERNAL"]) == (1, 1)
        metrics = ask(server, "GET", "/metrics").body.decode()
        assert 'openrknn_worker_restarts_total{model="one",version="1"} 1.0' in metrics
        # The same over gRPC, with what the C library printed in the log.
        tensor = triton.InferInput("image", [1, 16, 16, 3], "UINT8")
        tensor.set_data_from_numpy(picture(TALK)["image"])
        with (
            triton.InferenceServerClient(server.grpc_address) as client,
            pytest.raises(InferenceServerException, match=r"INTERNAL.*SIGABRT"),
        ):
            client.infer("other", [tensor])
        until(lambda: any("free(): invalid pointer" in entry.getMessage() for entry in caplog.records))


def test_results_are_those_of_a_session(server: Server) -> None:
    for name in ("picture", "half", "two", "pairs", "dynamic", "argmax"):
        inputs = random_inputs(name, 3)
        assert server.plane.repository.find(name).host.pids()
        answer = infer(server, name, inputs)
        assert answer.status == 200, answer.body
        for row in answer.json["outputs"]:
            wanted = expected(name, inputs)[row["name"]]
            assert np.array(row["data"], wanted.dtype).tobytes() == wanted.tobytes()


def test_a_worker_that_hangs_is_ended(tmp_path: Path) -> None:
    with fragile(tmp_path, run_seconds=0.5) as server:
        before = pid(server)
        failed = infer(server, "one", picture(HANG))
        assert (failed.status, "one run took more than 0.5 s" in failed.error) == (500, True)
        until(lambda: answers(server))
        assert pid(server) != before
        with pytest.raises(ProcessLookupError):
            os.kill(before, 0)


def test_a_worker_that_was_killed_while_idle_comes_back_before_the_next_request(tmp_path: Path) -> None:
    with fragile(tmp_path) as server:
        before = pid(server)
        os.kill(before, signal.SIGKILL)
        until(lambda: pid(server) not in (before, 0) if server.plane.repository.find("one").host.pids() else False)
        assert answers(server)
        assert server.plane.repository.find("one").stats.failures == {}


def test_a_model_that_always_crashes_is_restarted_with_pauses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "_FIRST_PAUSE", 300.0)
    with fragile(tmp_path) as server:
        assert infer(server, "one", picture(CRASH)).status == 500
        until(lambda: answers(server))  # the first time at once
        assert infer(server, "one", picture(CRASH)).status == 500
        until(lambda: "starts again in" in ask(server, "GET", "/v2/models/one/ready").json.get("error", ""))
        refused = infer(server, "one", picture(1))
        assert (refused.status, "SIGSEGV" in refused.error) == (503, True)
        assert answers(server, "other")


def test_all_contexts_hear_that_their_process_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when the context that runs is faster than the thread that waits for the process: it is held until then."""
    listen = WorkerProcess._listen

    def listen_late(worker: WorkerProcess) -> None:
        worker._process.wait()
        until(lambda: worker._wire._connection.fileno() < 0)  # it is being closed
        listen(worker)

    monkeypatch.setattr(WorkerProcess, "_listen", listen_late)
    monkeypatch.setattr(supervisor, "_FIRST_PAUSE", 300.0)
    with fragile(tmp_path) as server:
        for _ in range(2):  # the first time it starts again at once
            until(lambda: answers(server))
            assert infer(server, "one", picture(CRASH)).status == 500
        served = server.plane.repository.find("one")
        until(lambda: all("starts again in" in instance.problem for instance in served.instances))
        assert "starts again in" in ask(server, "GET", "/v2/models/one/ready").error


def test_memory_is_bounded(tmp_path: Path) -> None:
    with fragile(tmp_path, total_bytes=256 * MIB) as server:
        before = pid(server)
        failed = infer(server, "one", picture(HUNGRY))
        assert (failed.status, "--max-memory" in failed.error) == (500, True)
        until(lambda: answers(server))
        assert pid(server) == before, "an error of the model is no end of its process"
        assert infer(server, "one", picture(POISON)).error == "the model could not run: the context broke"
        until(lambda: answers(server))
        assert pid(server) == before


def test_a_file_that_ends_its_process_ends_nothing_else(tmp_path: Path) -> None:
    shutil.copy(FILES["picture"], tmp_path / "one.rknn")
    with running(Settings([tmp_path], http_port=0, grpc_port=None), open_session=open_that_crashes) as server:
        (row,) = ask(server, "POST", "/v2/repository/index").json
        assert (row["state"], "SIGSEGV" in row["reason"]) == ("UNAVAILABLE", True)
        assert ask(server, "GET", "/v2/health/live").status == 200


def test_workers_end_with_the_server(tmp_path: Path) -> None:
    with fragile(tmp_path) as server:
        found = [pid(server), pid(server, "other")]
        environment = Path(f"/proc/{found[0]}/environ").read_bytes()
        assert b"OPENRKNN_TOKEN" not in environment
        assert Path(f"/proc/{found[0]}/oom_score_adj").read_text().strip() == "500"
    for one in found:
        with pytest.raises(ProcessLookupError):
            os.kill(one, 0)


def test_workers_are_shown_by_the_page(server: Server) -> None:
    status = ask(server, "GET", "/status").json
    software = [npu for npu in status["npus"] if npu["driver"] == "software"]
    assert software
    assert all(npu["memory_bytes"] for npu in software)


def test_in_process_needs_no_worker(tmp_path: Path) -> None:
    settings = Settings([FILES["picture"]], http_port=0, grpc_port=None, workers="in-process")
    with running(settings) as server:
        served = server.plane.repository.find("image_rk3588_i8")
        assert (list(served.host.pids()), infer(server, served.name, INPUTS).status) == ([], 200)
    with pytest.raises(ValueError, match="in-process"):
        reference(lambda: None)


# -- what a worker says is checked -----------------------------------------------------------------------------------


def test_a_card_travels_as_json() -> None:
    for file in FILES.values():
        card = Contexts(file).card
        words = card.as_json()
        assert ModelInfo.from_json(words).as_json() == words


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("allowed", []), ("allowed", [[["image", [1 << 50]]]]), ("inputs", 5), ("batch", 0), ("cores", "3"),
        ("outputs", [{"name": "x", "datatype": "BYTES", "shape": [1]}]), ("answer_elements", -1), ("chip", "x" * 5000),
        ("picture_inputs", [{}]), ("inputs", [{"name": "x", "datatype": "UINT8", "shape": [1] * 99}]),
    ],
)  # fmt: skip
def test_a_hostile_card_is_refused(key: str, value: object) -> None:
    words = Contexts(FILES["picture"]).card.as_json()
    with pytest.raises(FormatError, match="cannot be"):
        ModelInfo.from_json({**words, key: value})


def test_shared_memory_cannot_be_left_or_shortened() -> None:
    arena = Arena.create(100, 100)
    try:
        rows = arena.put_inputs({"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array([True])})
        views = arena.views(rows)
        assert (views["a"] == np.arange(6).reshape(2, 3)).all()
        assert views["b"].dtype == np.uint8
        with pytest.raises(OSError, match=r"(?i)not permitted"):
            os.ftruncate(arena.descriptor, 0)
        with pytest.raises(ValueError, match="are left for it"):
            arena.put_outputs({"a": np.zeros(1 << 16, np.uint8)})
        end = arena.input_bytes + arena.output_bytes
        for row in (
            ["a", "UINT8", [1], end], ["a", "FP64", [end], 0], ["a", "UINT8", [-1], 0], ["a", "UINT8", [1], 1],
            ["a", "BYTES", [1], 0], ["a", "UINT8", [1 << 62, 1 << 62], 0], ["a", "UINT8", [1], -64], [1, 2, 3], "x",
            ["a", "UINT8", [True], 0], ["a", "UINT8", [1] * 99, 0],
        ):  # fmt: skip
            with pytest.raises(MessageError):
                arena.views([row])
    finally:
        arena.close()


def test_nonsense_from_a_worker_ends_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    worker = WorkerProcess("x", lambda: None)
    worker.ask({"do": "load", "path": str(tmp_path / "nothing"), "describe": None, "open_session": "os:open",
                "device": "auto", "cores": None, "warm_up": False, "memory_bytes": MIB}, seconds=60)  # fmt: skip
    worker._wire._connection.sendall(struct.pack("<I", 1 << 31))  # what a worker could send to us, the other way round
    with pytest.raises(RknnError, match="process ended"):
        worker.ask({"do": "report"}, seconds=60)
    worker.close()
