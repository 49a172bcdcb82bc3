"""Traces, logs and statistics, as Triton's own client sets and reads them."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

from openrknn.serve.errors import BadRequestError, ConflictError
from openrknn.serve.logs import JsonFormatter, text_formatter
from openrknn.serve.logsettings import LogSettings
from openrknn.serve.server import Server, running
from openrknn.serve.settings import IN_PROCESS, Settings
from openrknn.serve.traces import Traces
from tests.serve.asking import ask
from tests.serve.parts import FILES, random_inputs
from tests.serve.sessions import until

MODULES = {"http": triton_http, "grpc": triton_grpc}
ORDER = [
    "REQUEST_START", "QUEUE_START", "COMPUTE_START", "COMPUTE_INPUT_END", "COMPUTE_OUTPUT_START", "COMPUTE_END",
    "INFER_RESPONSE_COMPLETE", "REQUEST_END",
]  # fmt: skip

LAST: list[str] = []
"""Requests whose traces nobody has written before the server stops."""


@pytest.fixture(params=MODULES)
def module(request: pytest.FixtureRequest) -> Any:
    return MODULES[request.param]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("traces")


@pytest.fixture(scope="module")
def traced(folder: Path) -> Iterator[Server]:
    settings = Settings(
        [FILES["picture"]], name="picture", http_port=0, grpc_port=0, instances=1, workers=IN_PROCESS,
        trace_file=folder / "trace.json",
    )  # fmt: skip
    with running(settings) as started:
        yield started
    if LAST:  # what nothing else had written when it stopped
        left = json.loads((folder / "trace.json").read_text())
        assert [row["request_id"] for row in left if "model_name" in row] == LAST


@pytest.fixture
def client(traced: Server, module: Any) -> Iterator[Any]:
    address = traced.grpc_address if module is triton_grpc else traced.url.removeprefix("http://")
    made = module.InferenceServerClient(address)
    yield made
    made.close()


def infer(client: Any, module: Any, name: str) -> None:
    image = random_inputs("picture")["image"]
    tensor = module.InferInput("image", list(image.shape), "UINT8")
    tensor.set_data_from_numpy(image)
    client.infer("picture", [tensor], request_id=name)


def words(found: Any) -> dict[str, Any]:
    """gRPC's settings as REST's."""
    if isinstance(found, dict):
        return found
    lists = {key: list(value.value) for key, value in found.settings.items()}
    return {key: value if key == "trace_level" else value[0] for key, value in lists.items()}


def test_traces_are_taken_and_written(traced: Server, client: Any, module: Any, folder: Path) -> None:
    before = set(folder.iterdir())
    assert words(client.get_trace_settings())["trace_level"] == ["OFF"]
    infer(client, module, "unseen")
    # The interface of gRPC takes texts, that of REST texts and lists.
    changed = {"trace_level": ["TIMESTAMPS"], "trace_rate": "2", "trace_count": "2", "log_frequency": "1"}
    found = words(client.update_trace_settings(settings=changed))
    assert {key: found[key] for key in changed} == changed
    for number in range(6):  # every second one, and two of them
        infer(client, module, f"{module.__name__} {number}")
    until(lambda: len(set(folder.iterdir()) - before) == 2 and not list(folder.glob("*.part")))
    assert words(client.get_trace_settings())["trace_count"] == "0"
    rows = [row for file in sorted(set(folder.iterdir()) - before) for row in json.loads(file.read_text())]
    heads = [row for row in rows if "model_name" in row]
    assert [head["request_id"] for head in heads] == [f"{module.__name__} 1", f"{module.__name__} 3"]
    assert {(head["model_name"], head["model_version"]) for head in heads} == {("picture", 1)}
    protocol = "HTTP" if module is triton_http else "GRPC"
    for head in heads:
        times = {one["name"]: one["ns"] for row in rows if row["id"] == head["id"] for one in row.get("timestamps", ())}
        assert [name for name in times if name in ORDER] == ORDER
        started = "HTTP_RECV_START" if protocol == "HTTP" else "GRPC_WAITREAD_START"
        way = [started, "REQUEST_START", *ORDER[1:6], f"{protocol}_SEND_START", f"{protocol}_SEND_END"]
        assert [times[name] for name in way] == sorted(times[name] for name in way)
    client.update_trace_settings(settings={"trace_level": None, "trace_rate": None, "trace_count": None})
    assert words(client.get_trace_settings())["trace_rate"] == "1000"


def test_a_model_has_settings_of_its_own(client: Any, module: Any) -> None:
    client.update_trace_settings(model_name="picture", settings={"trace_rate": "7"})
    assert words(client.get_trace_settings("picture"))["trace_rate"] == "7"
    client.update_trace_settings(settings={"trace_count": "55"})
    assert words(client.get_trace_settings("picture"))["trace_count"] == "55"  # not its own: as for all
    client.update_trace_settings(model_name="picture", settings={"trace_rate": None})
    assert words(client.get_trace_settings("picture"))["trace_rate"] == "1000"
    client.update_trace_settings(settings={"trace_count": None})
    with pytest.raises(InferenceServerException, match="no model 'nothing'"):
        client.get_trace_settings("nothing")


def test_the_last_one_is_written_at_the_end(traced: Server) -> None:
    """Looked at when the server has stopped."""
    with triton_http.InferenceServerClient(traced.url.removeprefix("http://")) as client:
        client.update_trace_settings(settings={"trace_level": ["TIMESTAMPS"], "trace_rate": "1", "log_frequency": "0"})
        infer(client, triton_http, "last")
        LAST.append("last")
        client.update_trace_settings(settings={"trace_level": ["OFF"]})


@pytest.mark.parametrize(
    "settings",
    [
        {"trace_file": "/etc/passwd"}, {"trace_level": "TENSORS"}, {"trace_level": []}, {"trace_rate": "0"},
        {"trace_rate": "many"}, {"trace_count": "-2"}, {"trace_count": 1.5}, {"log_frequency": str(10**12)},
        {"trace_colour": "1"}, {"trace_rate": ["1", "2"]}, {"trace_level": [["OFF"]]}, {"trace_rate": "１"},
    ],
)  # fmt: skip
def test_wrong_trace_settings_change_nothing(settings: dict[str, Any], tmp_path: Path) -> None:
    traces = Traces(tmp_path / "t")
    before = traces.settings()
    with pytest.raises(BadRequestError):
        traces.update({"trace_count": "5", **settings})
    assert traces.settings() == before
    traces.close()


def test_traces_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openrknn.serve.traces._MOST_WAITING", 3)
    monkeypatch.setattr("openrknn.serve.traces._MOST_BYTES", 500)
    traces = Traces(tmp_path / "t")
    traces.update({"trace_level": "TIMESTAMPS", "trace_rate": 1})
    for _ in range(30):
        trace = traces.start("m", "1", "HTTP")
        assert trace is not None
        traces.end(trace)
    traces.close()
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= 500
    assert (tmp_path / "t.0").is_file()
    with pytest.raises(ConflictError, match="--trace-file"):
        Traces(None).update({"trace_level": ["TIMESTAMPS"]})


def test_traces_of_many_threads(tmp_path: Path) -> None:
    """One of two is traced, each once."""
    traces = Traces(tmp_path / "t")
    traces.update({"trace_level": "TIMESTAMPS", "trace_rate": 2, "log_frequency": 100})

    def work() -> None:
        for _ in range(250):
            trace = traces.start("m", "1", "HTTP")
            if trace is not None:
                traces.end(trace)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    traces.close()
    files = sorted(tmp_path.iterdir())
    assert len(files) == 5
    assert sorted(row["id"] for file in files for row in json.loads(file.read_text())) == list(range(1, 501))


# -- logs ------------------------------------------------------------------------------------------------------------


def test_log_settings_change_what_is_logged(
    traced: Server, client: Any, module: Any, caplog: pytest.LogCaptureFixture
) -> None:
    log, access = logging.getLogger("openrknn.serve.test"), logging.getLogger("openrknn.serve.access")

    def values(found: Any) -> dict[str, Any]:
        if isinstance(found, dict):
            return found
        return {key: getattr(one, one.WhichOneof("parameter_choice")) for key, one in found.settings.items()}

    def logged() -> list[str]:
        caplog.clear()
        for logger in (log, access):
            logger.debug("debug")
            logger.info("info")
            logger.warning("warning")
            logger.error("error")
        return [record.message for record in caplog.records if record.name == log.name]

    try:
        client.update_log_settings({"log_info": True, "log_verbose_level": 0})
        assert logged() == ["info", "warning", "error"]
        found = values(client.update_log_settings({"log_warning": False, "log_verbose_level": 1}))
        assert (found["log_warning"], found["log_verbose_level"], found["log_file"]) == (False, 1, "")
        assert logged() == ["debug", "info", "error"]
        client.update_log_settings({"log_info": False, "log_verbose_level": 0})
        assert logged() == ["error"]
        assert values(client.get_log_settings())["log_info"] is False
        client.update_log_settings({"log_error": False})
        assert logged() == []
        for wrong in ({"log_file": "/tmp/x"}, {"log_format": "fancy"}):
            with pytest.raises(InferenceServerException):
                client.update_log_settings(wrong)
    finally:
        traced.plane.logs.close()
    assert logged()[-2:] == ["warning", "error"]


@pytest.mark.parametrize(
    "settings", [{"log_info": 1}, {"log_verbose_level": -1}, {"log_verbose_level": True}, {"log_noise": True}]
)
def test_wrong_log_settings(settings: dict[str, Any]) -> None:
    logs = LogSettings()
    before = logs.settings()
    with pytest.raises(BadRequestError):
        logs.update({"log_error": False, **settings})
    assert logs.settings() == before


def test_formats_of_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(text_formatter())
    monkeypatch.setattr(logging.getLogger(), "handlers", [handler])
    logs = LogSettings()
    record = logging.LogRecord("openrknn", logging.INFO, "", 0, "hello", None, None)
    record.created = 0.0
    logs.update({"log_format": "ISO8601"})
    assert handler.format(record) == "1970-01-01T00:00:00Z INFO    hello"
    logs.close()
    assert "T" not in handler.format(record).split(" ")[0]
    handler.setFormatter(JsonFormatter())
    assert logs._now()["log_format"] == "ISO8601"
    with pytest.raises(BadRequestError, match="--log-format json"):
        logs.update({"log_format": "default"})


def test_a_fixed_server_keeps_its_settings(tmp_path: Path) -> None:
    settings = Settings([tmp_path], http_port=0, grpc_port=None, allow_repository=False)
    with running(settings, wait_seconds=None) as server:
        for path in ("/v2/logging", "/v2/trace/setting"):
            assert ask(server, "GET", path).status == 200
            assert ask(server, "POST", path, "{}").status == 403
        extensions = ask(server, "GET", "/v2").json["extensions"]
        assert "logging" in extensions
        assert "trace" not in extensions


# -- statistics ------------------------------------------------------------------------------------------------------


def test_statistics_are_complete(server: Server) -> None:
    """Every field that Triton has; of all versions, where none is named."""
    with triton_http.InferenceServerClient(server.url.removeprefix("http://")) as rest:
        rows = rest.get_inference_statistics("many")["model_stats"]
        assert [row["version"] for row in rows] == ["1", "10"]
        assert len(rest.get_inference_statistics("many", "10")["model_stats"]) == 1
    with triton_grpc.InferenceServerClient(server.grpc_address) as rpc:
        before = rpc.get_inference_statistics("pairs").model_stats[0]
        image = random_inputs("pairs")["image"]
        for count in (1, 2):
            tensor = triton_grpc.InferInput("image", [count, *image.shape[1:]], "UINT8")
            tensor.set_data_from_numpy(image[:count])
            rpc.infer("pairs", [tensor])
        after = rpc.get_inference_statistics("pairs").model_stats[0]
        assert after.inference_count - before.inference_count == 3
        assert after.execution_count - before.execution_count == 2
        assert after.memory_usage[0].byte_size > 1 << 20
        for field in ("success", "queue", "compute_input", "compute_infer", "compute_output"):
            now, then = getattr(after.inference_stats, field), getattr(before.inference_stats, field)
            assert (now.count - then.count, now.ns > then.ns) == (2, True), field
        assert not after.inference_stats.cache_hit.count
        counts = {batch.batch_size: batch.compute_infer.count for batch in after.batch_stats}
        old = {batch.batch_size: batch.compute_infer.count for batch in before.batch_stats}
        assert {size: counts[size] - old.get(size, 0) for size in (1, 2)} == {1: 1, 2: 1}
        assert [one.version for one in rpc.get_inference_statistics("many").model_stats] == ["1", "10"]
