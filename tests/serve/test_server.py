"""The command, SIGTERM, the repository, metrics, traces, logs, and many clients at once."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from PIL import Image
from prometheus_client.parser import text_string_to_metric_families

from openrknn.cli.main import main
from openrknn.errors import RknnError
from openrknn.serve import tracing
from openrknn.serve.logs import JsonFormatter, TextFormatter
from openrknn.serve.plane.served import Served
from openrknn.serve.server import Server, running
from openrknn.serve.settings import Settings
from tests.runtime.cases import MODELS, shared_case
from tests.serve.asking import PATIENCE, ask, infer
from tests.serve.parts import FILES, ROOT, expected, random_inputs
from tests.serve.sessions import until

INPUTS = random_inputs("picture")


# -- pictures --------------------------------------------------------------------------------------------------------


def test_a_picture_becomes_labels(server: Server) -> None:
    cat = (ROOT / "examples/images/cat.jpg").read_bytes()
    words = ask(server, "POST", "/v2/models/scene/image?top=3", cat).json
    assert (words["task"], words["width"], words["height"]) == ("classify", 451, 300)
    assert len(words["found"]) == 3
    assert "cat" in words["found"][0]["label"]
    assert set(words["milliseconds"]) == {"queue", "pre", "npu", "post"}
    from openrknn.vision.pipeline import Pipeline

    labels = (ROOT / "examples/models/imagenet_labels.txt").read_text().splitlines()
    model = ROOT / "examples/models/efficientnet_lite0_rk3588_i8.rknn"
    with Pipeline(model, labels=labels) as pipeline:
        assert words["found"] == list(pipeline(ROOT / "examples/images/cat.jpg").rows(3))


def test_a_picture_becomes_a_picture(server: Server) -> None:
    cat = (ROOT / "examples/images/cat.jpg").read_bytes()
    answer = ask(server, "POST", "/v2/models/scene/image?output=picture", cat)
    assert (answer.status, answer.headers["content-type"], answer.body[:2]) == (200, "image/jpeg", b"\xff\xd8")


def test_a_picture_becomes_text() -> None:
    reader = shared_case(MODELS / "ppocrv4_rec_rk3588_fp.rknn")
    finder = ROOT / "examples/models/ppocrv4_det_rk3588_i8.rknn"
    with running(Settings([finder, reader], http_port=0, grpc_port=None, instances=1)) as server:
        stream = io.BytesIO()
        with Image.open(ROOT / "examples/images/page.jpg") as whole:
            whole.crop((0, 0, whole.width, 45)).save(stream, "PNG")  # its title
        page = stream.getvalue()
        lines = ask(server, "POST", f"/v2/models/{finder.stem}/image", page).json["found"]
        assert len(lines) >= 1
        assert len(lines[0]["corners"]) == 4
        read = ask(server, "POST", f"/v2/models/{finder.stem}/image?reader={reader.stem}", page).json
        assert any("segmentation" in line["text"] for line in read["found"])
        nobody = ask(server, "POST", f"/v2/models/{finder.stem}/image?reader=nobody", page)
        assert nobody.status == 404


@pytest.mark.parametrize("query", ["threshold=2", "threshold=x", "top=0", "top=-1", "output=gif", "other=1", "top=٣"])
def test_queries_that_make_no_sense(server: Server, query: str) -> None:
    from urllib.parse import quote

    assert ask(server, "POST", f"/v2/models/scene/image?{quote(query, safe='=')}", b"x").status == 400


def test_what_is_no_picture_and_models_that_take_none(server: Server) -> None:
    assert "not a picture" in ask(server, "POST", "/v2/models/scene/image", b"hello").error
    assert "takes no pictures" in ask(server, "POST", "/v2/models/two/image", b"hello").error


# -- the repository --------------------------------------------------------------------------------------------------


def test_models_come_and_go(tmp_path: Path) -> None:
    shutil.copy(FILES["picture"], tmp_path / "one.rknn")
    with running(Settings([tmp_path], http_port=0, grpc_port=0, instances=1)) as server:
        client = triton_http.InferenceServerClient(server.url.removeprefix("http://"))
        calls = triton_grpc.InferenceServerClient(server.grpc_address)
        client.unload_model("one")
        assert not client.is_model_ready("one")
        assert infer(server, "one", INPUTS).status == 503
        client.load_model("one")
        assert infer(server, "one", INPUTS).status == 200
        (tmp_path / "two").mkdir()
        (tmp_path / "two" / "1").mkdir()
        shutil.copy(FILES["picture"], tmp_path / "two" / "1" / "any.rknn")
        calls.load_model("two")
        assert calls.is_model_ready("two")
        (tmp_path / "two" / "3").mkdir()
        shutil.copy(FILES["half"], tmp_path / "two" / "3" / "model.rknn")
        calls.load_model("two")
        assert client.get_model_metadata("two")["versions"] == ["3"]
        calls.unload_model("two")
        assert ask(server, "GET", "/v2/health/ready").status == 200
        # A bad file keeps what works.
        (tmp_path / "one.rknn").write_bytes(b"nothing")
        answer = ask(server, "POST", "/v2/repository/models/one/load", "{}")
        assert answer.status in {200, 409}
        assert infer(server, "one", INPUTS).status == 200
        assert ask(server, "POST", "/v2/repository/models/two/load", '{"parameters": {"config": "[]"}}').status == 400
        assert ask(server, "POST", "/v2/repository/models/zero/load").status == 404
        client.close()
        calls.close()


def test_a_folder_is_followed(tmp_path: Path) -> None:
    shutil.copy(FILES["picture"], tmp_path / "one.rknn")
    with running(Settings([tmp_path], http_port=0, grpc_port=None, instances=1, poll_seconds=0.05)) as server:
        shutil.copy(FILES["half"], tmp_path / ".two.rknn")
        (tmp_path / ".two.rknn").rename(tmp_path / "two.rknn")
        until(lambda: ask(server, "GET", "/v2/models/two/ready").status == 200)
        (tmp_path / "one.rknn").unlink()
        until(lambda: ask(server, "GET", "/v2/models/one/ready").status == 404)
        (tmp_path / "two.rknn").write_bytes(FILES["picture"].read_bytes())
        until(lambda: ask(server, "GET", "/v2/models/two").json.get("inputs", [{}])[0].get("name") == "image")


def test_labels_and_settings_are_followed_too(tmp_path: Path) -> None:
    folder = tmp_path / "scene"
    folder.mkdir()
    shutil.copy(ROOT / "examples/models/efficientnet_lite0_rk3588_i8.rknn", folder / "model.rknn")
    (folder / "model.toml").write_text("instances = 1\n")
    with running(Settings([tmp_path], http_port=0, grpc_port=None, poll_seconds=0.05)) as server:

        def served() -> Served:
            return server.plane.repository.find("scene")

        assert (served().labels, len(served().instances)) == (None, 1)
        (folder / "labels.txt").write_text("\n".join(f"thing {number}" for number in range(1000)))
        until(lambda: (served().labels or ("",))[0] == "thing 0")
        (folder / "model.toml").write_text("instances = 2\n")
        until(lambda: len(served().instances) == 2)


def test_a_bad_version_that_is_removed_is_forgotten(tmp_path: Path) -> None:
    for version, content in (("1", FILES["picture"].read_bytes()), ("2", b"nothing")):
        (tmp_path / "many" / version).mkdir(parents=True)
        (tmp_path / "many" / version / "model.rknn").write_bytes(content)
    settings = Settings([tmp_path], http_port=0, grpc_port=None, instances=1, versions="all", poll_seconds=0.05)
    with running(settings) as server:

        def listed() -> dict[str, str]:
            return {row["version"]: row["state"] for row in ask(server, "POST", "/v2/repository/index").json}

        assert listed() == {"1": "READY", "2": "UNAVAILABLE"}
        shutil.rmtree(tmp_path / "many" / "2")
        until(lambda: listed() == {"1": "READY"})


def test_a_fixed_server_keeps_its_models() -> None:
    settings = Settings([FILES["picture"]], http_port=0, grpc_port=0, allow_repository=False)
    with running(settings) as server, triton_grpc.InferenceServerClient(server.grpc_address) as client:
        assert ask(server, "POST", "/v2/repository/models/image_rk3588_i8/unload").status == 403
        with pytest.raises(triton_grpc.InferenceServerException, match="PERMISSION_DENIED"):
            client.load_model("image_rk3588_i8")


def test_one_bad_model_does_not_hide_the_others(tmp_path: Path) -> None:
    shutil.copy(FILES["picture"], tmp_path / "good.rknn")
    (tmp_path / "bad.rknn").write_bytes(b"nothing")
    (tmp_path / "odd").mkdir()
    shutil.copy(FILES["picture"], tmp_path / "odd" / "model.rknn")
    (tmp_path / "odd" / "model.toml").write_text("instances = 'many'")
    with running(Settings([tmp_path], http_port=0, grpc_port=None)) as server:
        assert infer(server, "good", INPUTS).status == 200
        assert ask(server, "GET", "/v2/health/ready").status == 200
        assert ask(server, "GET", "/v2/models/bad/ready").status == 503
        rows = {row["name"]: row for row in ask(server, "POST", "/v2/repository/index").json}
        assert (rows["good"]["state"], rows["bad"]["state"]) == ("READY", "UNAVAILABLE")
        assert "instances" in rows["odd"]["reason"]
        object.__setattr__(server.settings, "strict_readiness", True)
        assert "'bad'" in ask(server, "GET", "/v2/health/ready").error


def test_a_model_that_was_named_has_to_load(tmp_path: Path) -> None:
    (tmp_path / "bad.rknn").write_bytes(b"nothing")
    with pytest.raises(RknnError, match=r"bad\.rknn"), running(Settings([tmp_path / "bad.rknn"], http_port=0)):
        pass
    assert main(["serve", str(tmp_path / "nothing")]) == 2
    assert main(["serve"]) == 2
    assert main(["serve", str(FILES["picture"]), "--wyoming", "tcp://127.0.0.1:0"]) == 2
    assert main(["serve", str(FILES["picture"]), "--tls-cert", "x"]) == 2


def test_the_only_model_may_have_another_name(tmp_path: Path) -> None:
    shutil.copy(FILES["picture"], tmp_path / "model.rknn")
    with running(Settings([tmp_path], name="eyes", http_port=0, grpc_port=None)) as server:
        assert infer(server, "eyes", INPUTS).status == 200
        assert infer(server, "model", INPUTS).status == 404
    assert main(["serve", str(tmp_path), "--name", "../eyes"]) == 2
    shutil.copy(FILES["picture"], tmp_path / "other.rknn")
    assert main(["serve", str(tmp_path), "--name", "eyes"]) == 2


def test_an_empty_folder_can_be_filled_later(tmp_path: Path) -> None:
    with running(Settings([tmp_path], http_port=0, grpc_port=None)) as server:
        assert ask(server, "GET", "/v2/health/ready").error == "there is no model"
        shutil.copy(FILES["picture"], tmp_path / "one.rknn")
        assert ask(server, "POST", "/v2/repository/models/one/load").status == 200
        assert ask(server, "GET", "/v2/health/ready").status == 200


# -- telling ---------------------------------------------------------------------------------------------------------


def test_metrics(server: Server) -> None:
    infer(server, "picture", INPUTS)
    infer(server, "picture", {"image": INPUTS["image"][:, :4]})
    answer = ask(server, "GET", "/metrics")
    families = {family.name: family for family in text_string_to_metric_families(answer.body.decode())}
    assert all(name.startswith("openrknn_") for name in families)

    def value(name: str, **labels: str) -> float:
        family = families[name.removesuffix("_total").removesuffix("_count")]
        wanted = {"model": "picture", "version": "1", **labels}
        return next(sample.value for sample in family.samples if sample.name == name and sample.labels == wanted)

    assert value("openrknn_requests_total", outcome="OK") >= 1
    assert value("openrknn_requests_total", outcome="INVALID_ARGUMENT") >= 1
    for stage in ("queue", "pre", "npu", "post", "request"):
        assert value(f"openrknn_{stage}_seconds_count") >= 1
    assert value("openrknn_contexts") == 2
    assert "openrknn_npu_memory_bytes" in families
    modern = ask(server, "GET", "/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert modern.body.endswith(b"# EOF\n")


def test_the_npu_of_a_board_is_told(tmp_path: Path) -> None:
    from openrknn.serve.metrics import registry, render
    from openrknn.serve.plane.plane import Plane

    for file, text in (
        ("sys/module/rknpu/version", "0.9.8\n"),
        ("proc/rknpu/load", "NPU load:  Core0: 20%, Core1:  0%, Core2: 63%,\n"),
        ("sys/class/thermal/thermal_zone6/type", "npu-thermal\n"),
        ("sys/class/thermal/thermal_zone6/temp", "45500\n"),
        ("sys/class/devfreq/fdab0000.npu/cur_freq", "1000000000\n"),
        ("sys/bus/platform/drivers/RKNPU/fdab0000.npu/uevent", "\n"),
    ):
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    plane = Plane(Settings([], root=str(tmp_path)))
    text = render(registry(plane), "")[0].decode()
    plane.close()
    if 'openrknn_npu_load_ratio{core="2"' not in text:
        pytest.skip("the monitor finds NPUs by other files")
    assert 'openrknn_npu_load_ratio{core="2",npu="fdab0000.npu"} 0.63' in text


def test_traces_continue_those_of_the_caller(server: Server) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing.use(provider)
    try:
        parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        body = json.dumps({"inputs": [{"name": "image", "shape": [1, 16, 16, 3], "datatype": "UINT8",
                                       "data": INPUTS["image"].ravel().tolist()}]})  # fmt: skip
        assert ask(server, "POST", "/v2/models/picture/infer", body, {"traceparent": parent}).status == 200
    finally:
        tracing.stop()
    spans: dict[str, Any] = {span.name: span for span in exporter.get_finished_spans()}
    assert set(spans) == {"infer", "pre", "queue", "npu", "post"}
    assert f"{spans['infer'].context.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"
    assert spans["infer"].attributes["openrknn.model"] == "picture"
    assert {spans[name].parent.span_id for name in ("pre", "npu")} == {spans["infer"].context.span_id}


def test_a_line_of_the_log_is_json(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "openrknn.serve.access"):
        answer = ask(server, "GET", "/v2/models/picture", headers={"X-Request-Id": "mine"})
        until(lambda: any("GET /v2/models/picture" in entry.getMessage() for entry in caplog.records))
    record = next(entry for entry in caplog.records if "GET /v2/models/picture" in entry.getMessage())
    words = json.loads(JsonFormatter().format(record))
    assert answer.headers["x-request-id"] == words["request_id"] == "mine"
    assert (words["status"], words["model"], words["level"]) == (200, "picture", "info")


def test_nobody_forges_a_line_of_the_log(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "openrknn.serve.access"):
        ask(server, "GET", "/v2/models/%0A12:00:00%20ERROR%20forged%1B%5B2J%E2%80%AE")
        until(lambda: any("forged" in entry.getMessage() for entry in caplog.records))
        (record,) = [entry for entry in caplog.records if "forged" in entry.getMessage()]
        line = TextFormatter("%(message)s").format(record)
        assert "\\n12:00:00 ERROR forged\\x1b[2J\\u202e" in line
        assert line.isprintable()
        for path in ("/v2/health/live", "/v2/health/ready", "/metrics", "/status", "/page/app.js"):
            assert ask(server, "GET", path).status == 200
        until(lambda: any("GET /page/app.js" in entry.getMessage() for entry in caplog.records))
        quiet = [entry for entry in caplog.records if "GET /v2/health" in entry.getMessage()]
        assert {entry.levelno for entry in quiet} == {logging.DEBUG}, "probes and polling are no news"


# -- many at once ----------------------------------------------------------------------------------------------------


def test_many_clients_get_their_own_answers(server: Server) -> None:
    """Wrong answers would be those of another: every client has a picture of its own."""
    clients, rounds = 16, 6
    many = [random_inputs("picture", seed) for seed in range(clients)]
    wanted = [expected("picture", inputs)["features"].tobytes() for inputs in many]
    before = server.plane.repository.find("picture").stats.successes

    def work(number: int) -> list[bytes]:
        inputs = many[number]["image"]
        if number % 2:
            rpc = triton_grpc.InferenceServerClient(server.grpc_address)
            tensor = triton_grpc.InferInput("image", list(inputs.shape), "UINT8")
            client: Any = rpc
        else:
            client = triton_http.InferenceServerClient(server.url.removeprefix("http://"))
            tensor = triton_http.InferInput("image", list(inputs.shape), "UINT8")
        tensor.set_data_from_numpy(inputs)
        try:
            return [client.infer("picture", [tensor]).as_numpy("features").tobytes() for _ in range(rounds)]
        finally:
            client.close()

    with ThreadPoolExecutor(clients) as threads:
        answers = list(threads.map(work, range(clients)))
    assert answers == [[one] * rounds for one in wanted]
    assert server.plane.repository.find("picture").stats.successes == before + clients * rounds


def test_the_command_serves_and_sigterm_loses_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "openrknn.cli", "serve", str(FILES["picture"]), "--port", "0", "--grpc-port", "0",
               "--log-format", "json"]  # fmt: skip
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        try:
            server = _Address()
            for line in process.stderr:
                words = json.loads(line)
                if words["message"].startswith("listening on"):
                    server.url = words["message"].split()[2]
                if words["message"] == "ready":
                    break
            stderr, lines = process.stderr, list[str]()
            drain = threading.Thread(target=lambda: lines.extend(stderr))
            drain.start()
            wanted = expected("picture", INPUTS)["features"]
            asked, answered, wrong = [0], [0], [0]
            lock = threading.Lock()

            def work() -> None:
                while True:
                    try:
                        answer = infer(server, "image_rk3588_i8", INPUTS)  # type: ignore[arg-type]
                    except OSError:
                        return  # it does not listen any more; what it has accepted is counted below
                    with lock:
                        asked[0] += 1
                        answered[0] += answer.status == 200
                        if answer.status == 200:
                            data = np.array(answer.json["outputs"][0]["data"], np.float32)
                            wrong[0] += data.tobytes() != wanted.tobytes()

            threads = [threading.Thread(target=work) for _ in range(6)]
            for thread in threads:
                thread.start()
            until(lambda: answered[0] > 20)
            process.send_signal(signal.SIGTERM)
            for thread in threads:
                thread.join(PATIENCE)
            assert process.wait(PATIENCE) == 0
            drain.join(PATIENCE)
            assert (asked[0], wrong[0]) == (answered[0], 0)
            accepted = [line for line in map(json.loads, lines) if line.get("method") == "POST"]
            assert [line["status"] for line in accepted] == [200] * answered[0]
        finally:
            process.kill()


class _Address:
    url = ""


def test_the_image_is_pinned_and_needs_a_token(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = (ROOT / "deploy/container/Containerfile").read_text().splitlines()
    (version,) = [line.partition("=")[2] for line in lines if line.startswith("ARG PYTHON=")]
    assert re.fullmatch(r"3\.\d+\.\d+-slim-[a-z]+", version)
    assert {line.split()[1] for line in lines if line.startswith("FROM")} == {"python:${PYTHON}"}
    command = json.loads(next(line for line in lines if line.startswith("CMD")).removeprefix("CMD "))
    monkeypatch.delenv("OPENRKNN_TOKEN", raising=False)
    assert main([*command[:-1], str(FILES["picture"])]) == 2
    assert "OPENRKNN_TOKEN" in capsys.readouterr().err


def test_settings_can_be_changed() -> None:
    assert replace(Settings(["a"]), token="secret").token == "secret"
    assert "secret" not in repr(replace(Settings(["a"]), token="secret"))
