"""What Triton's clients do beside asking: classes, loading with files, priorities. The client is theirs, unmodified."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

from openrknn.serve.errors import BadRequestError, ConflictError, DeadlineError, FullError, NotFoundError
from openrknn.serve.plane.classes import top_classes
from openrknn.serve.plane.config import ModelConfig, read_config
from openrknn.serve.plane.job import Job
from openrknn.serve.plane.queue import JobQueue
from openrknn.serve.plane.tritonconfig import read_triton_config
from openrknn.serve.plane.uploaded_models import UploadedModels
from openrknn.serve.rpc.parse_memory import parse_memory_of_load
from openrknn.serve.server import Server, running
from openrknn.serve.settings import IN_PROCESS, Settings
from tests.serve.asking import ask
from tests.serve.parts import FILES, expected, random_inputs

MODULES = {"http": triton_http, "grpc": triton_grpc}


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Temporary folders of this test only."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.fixture(params=MODULES)
def module(request: pytest.FixtureRequest) -> Any:
    return MODULES[request.param]


def address(server: Server, module: Any) -> str:
    return server.grpc_address if module is triton_grpc else server.url.removeprefix("http://")


@pytest.fixture
def client(server: Server, module: Any) -> Iterator[Any]:
    made = module.InferenceServerClient(address(server, module))
    yield made
    made.close()


def tensor(module: Any, name: str, array: Any, datatype: str) -> Any:
    made = module.InferInput(name, list(array.shape), datatype)
    made.set_data_from_numpy(array)
    return made


# -- classes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("binary", [True, False], ids=["binary", "json"])
def test_classes_of_a_picture(client: Any, module: Any, binary: bool) -> None:
    image = np.random.default_rng(0).integers(0, 256, (1, 224, 224, 3), np.uint8)
    given = [tensor(module, "image", image, "UINT8")]
    logits = client.infer("scene", given).as_numpy("logits").reshape(-1)
    options = {} if module is triton_grpc else {"binary_data": binary}
    answer = client.infer("scene", given, outputs=[module.InferRequestedOutput("logits", class_count=3, **options)])
    found = [text.decode() if isinstance(text, bytes) else text for text in answer.as_numpy("logits")]
    labels = Path(__file__).parents[2].joinpath("examples/models/imagenet_labels.txt").read_text().splitlines()
    best = np.argsort(-logits, kind="stable")[:3]
    assert found == [f"{logits[place]:f}:{place}:{labels[place]}" for place in best]


def test_classes_of_a_batch_have_a_row_each(client: Any, module: Any) -> None:
    inputs = random_inputs("pairs")
    wanted = expected("pairs", inputs)["features"]
    output = module.InferRequestedOutput("features", class_count=2)
    found = client.infer("pairs", [tensor(module, "image", inputs["image"], "UINT8")], outputs=[output])
    rows = found.as_numpy("features")
    assert rows.shape == (2, 2)
    for row, array in zip(rows, wanted.reshape(2, -1), strict=True):
        assert float(row[0].decode().split(":")[0]) == pytest.approx(array.max(), abs=1e-6)
        assert int(row[0].decode().split(":")[1]) == array.argmax()


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        (np.array([1, 5, 10, 4], np.uint8), ["10:2", "5:1:b"]),  # the example of Triton's documentation
        (np.array([-7, -9, -7], np.int64), ["-7:0:a", "-7:2"]),  # equal ones: the first first
        (np.array([np.nan, 1.5, -np.inf], np.float32), ["1.500000:1:b", "nan:0:a"]),
        (np.array([0, 255, 254], np.uint8), ["255:1:b", "254:2"]),
        (np.array([True, False]), ["1:0:a", "0:1:b"]),
    ],
)
def test_order_and_form_of_classes(values: Any, texts: list[str]) -> None:
    found = top_classes(values, 2, ["a", "b"], batch=1, name="x")
    assert list(found.texts) == texts
    assert found.shape == (2,)
    assert found.raw()[:5] == len(texts[0]).to_bytes(4, "little") + texts[0][:1].encode()


def test_classes_are_bounded() -> None:
    assert top_classes(np.arange(3), 10**12, None, batch=1, name="x").shape == (3,)
    with pytest.raises(BadRequestError, match="1000001 elements"):
        top_classes(np.zeros(1_000_001, np.uint8), 1, None, batch=1, name="x")


# -- loading ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One that may be changed."""
    folder = tmp_path_factory.mktemp("small")
    (folder / "picture.rknn").write_bytes(FILES["picture"].read_bytes())
    settings = Settings([folder], http_port=0, grpc_port=0, instances=1, workers=IN_PROCESS)
    with running(settings) as started:
        yield started


def load(server: Server, module: Any, name: str, config: str | None, files: dict[str, bytes]) -> None:
    with module.InferenceServerClient(address(server, module)) as client:
        client.load_model(name, config=config, files=files or None)


def folders() -> set[str]:
    return {name for name in os.listdir(tempfile.gettempdir()) if name.startswith("openrknn-load-")}


def test_a_model_of_files_lives_until_it_is_unloaded(small: Server, module: Any) -> None:
    before = folders()
    files = {
        "file:1/model.rknn": FILES["picture"].read_bytes(),
        "file:7/model.rknn": FILES["picture"].read_bytes(),
        "file:names.txt": b"one\ntwo\n",
    }
    output = {"name": "features", "data_type": "TYPE_FP32", "dims": [1, 16, 16, 16], "label_filename": "names.txt"}
    config = {"name": "mine", "version_policy": {"all": {}}, "output": [output], "max_batch_size": 0}
    load(small, module, "mine", json.dumps(config), files)
    made = folders() - before
    assert len(made) == 1
    assert Path(tempfile.gettempdir(), *made).stat().st_mode & 0o777 == 0o700
    with module.InferenceServerClient(address(small, module)) as client:
        assert client.is_model_ready("mine", "1")
        inputs = random_inputs("picture")
        given = [tensor(module, "image", inputs["image"], "UINT8")]
        found = client.infer("mine", given, model_version="7").as_numpy("features")
        assert found.tobytes() == expected("picture", inputs)["features"].tobytes()
        small.plane.repository.poll()  # what lies in no folder of the repository stays
        assert small.plane.repository.find("mine").labels == ("one", "two")
        with pytest.raises(InferenceServerException, match="send them again"):
            client.load_model("mine")
        # Files that are bad change nothing.
        with pytest.raises(InferenceServerException, match="cannot be loaded"):
            load(small, module, "mine", "{}", {"file:1/model.rknn": b"RKNN" + bytes(100)})
        assert folders() - before == made
        assert client.is_model_ready("mine", "7")
        client.unload_model("mine")
        assert folders() == before
        assert not client.is_model_ready("mine")
        client.unload_model("picture", unload_dependents=True)
        client.load_model("picture")
    assert "mine" not in {entry.name for entry in small.plane.repository.entries()}


def test_a_configuration_alone(small: Server, module: Any) -> None:
    """What `get_model_config` says may come back changed."""
    with triton_http.InferenceServerClient(address(small, triton_http)) as client:
        config = client.get_model_config("picture")
        config["instance_group"][0]["count"] = 3
        config["dynamic_batching"] = {
            "priority_levels": "4", "default_priority_level": 2, "max_queue_delay_microseconds": 1500,
            "default_queue_policy": {"max_queue_size": 9, "default_timeout_microseconds": "250000"},
        }  # fmt: skip
        load(small, module, "picture", json.dumps(config), {})
        served = small.plane.repository.find("picture")
        assert (len(served.instances), served.queue.size) == (3, 9)
        assert (served.config.priority_levels, served.config.default_priority) == (4, 2)
        assert (served.config.batch_delay_ms, served.config.timeout_ms) == (1.5, 250.0)
        shown = client.get_model_config("picture")
        assert shown["dynamic_batching"]["priority_levels"] == 4
        small.plane.repository.poll()
        assert small.plane.repository.find("picture") is served
        config["input"][0]["dims"] = [1, 32, 32, 3]
        with pytest.raises(InferenceServerException, match="and the model has 'image' TYPE_UINT8"):
            load(small, module, "picture", json.dumps(config), {})
        assert small.plane.repository.find("picture") is served
        client.load_model("picture")  # as the folder says again
        assert len(small.plane.repository.find("picture").instances) == 1


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("file:../model.rknn", "names no file"),
        ("file:1/../../model.rknn", "names no file"),
        ("file:/etc/passwd", "names no file"),
        ("file:1/.model.rknn", "names no file"),
        ("file:0/model.rknn", "names no file"),
        ("file:", "names no file"),
        ("file:labels.txt", "no .rknn or .rknnz file"),
        ("model.rknn", "nothing called"),
    ],
)
def test_hostile_names_of_files(small: Server, module: Any, key: str, text: str) -> None:
    before = folders()
    with pytest.raises(InferenceServerException, match=text):
        load(small, module, "evil", "{}", {key: b"x"})
    assert folders() == before
    assert "evil" not in {entry.name for entry in small.plane.repository.entries()}


def test_load_without_what_it_needs(small: Server, module: Any) -> None:
    with pytest.raises(InferenceServerException, match="need a 'config'"):
        load(small, module, "mine", None, {"file:1/model.rknn": b"x"})
    with pytest.raises(InferenceServerException, match="send its files too"):
        load(small, module, "mine", "{}", {})
    answer = ask(small, "POST", "/v2/repository/models/a%2Fb/load", "{}")
    assert answer.status == 404
    words = {"parameters": {"config": "{}", "file:1/model.rknn": "no base64!"}}
    assert "not base64" in ask(small, "POST", "/v2/repository/models/mine/load", json.dumps(words)).error


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ("", "not JSON"),
        ("[]", "not a JSON object"),
        ('{"name": "other"}', "is for a model 'other'"),
        ('{"colour": 1}', "no part of a model configuration"),
        ('{"ensemble_scheduling": {}}', "does not offer"),
        ('{"instance_group": 3}', "list of objects"),
        ('{"instance_group": [{"count": -1}]}', "whole number"),
        ('{"dynamic_batching": {"priority_levels": 1e9}}', "whole number"),
        ('{"dynamic_batching": {"default_priority_level": 2}}', "one of priority_levels"),
        ('{"dynamic_batching": {"default_queue_policy": {"timeout_action": "DELAY"}}}', "REJECT"),
        ('{"version_policy": {"specific": {"versions": []}}}', "no versions"),
        ('{"version_policy": {"latest": {"num_versions": 2}}}', "one version"),
        ('{"parameters": {"cores": {"string_value": "many"}}}', "is a number"),
        ('{"parameters": {"path": {"string_value": "/etc"}}}', "may be cores"),
        ('{"input": [{"name": "x"}]}', "a name, a data_type and dims"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_configurations_that_make_no_sense(config: str, text: str) -> None:
    with pytest.raises(BadRequestError, match=text):
        read_triton_config(config, "mine")


def test_what_clients_give_is_bounded() -> None:
    given = UploadedModels(most_bytes=1000)
    with pytest.raises(ConflictError, match="--max-memory"):
        given.make("mine", "{}", {"file:1/model.rknn": bytes(1001)})
    with pytest.raises(BadRequestError, match="at most 32 files"):
        given.make("mine", "{}", {f"file:{number}/model.rknn": b"" for number in range(1, 35)})
    with pytest.raises(BadRequestError, match="cannot be called"):
        given.make("../mine", "{}", {"file:1/model.rknn": b""})


def test_a_fixed_server_takes_nothing(tmp_path: Path) -> None:
    settings = Settings([tmp_path], http_port=0, grpc_port=None, allow_repository=False)
    with running(settings, wait_seconds=None) as server:
        answer = ask(server, "POST", "/v2/repository/models/mine/load", json.dumps({"parameters": {"config": "{}"}}))
        assert (answer.status, "--fixed" in answer.error) == (403, True)


def test_files_weigh_little_more_than_themselves() -> None:
    from openrknn.serve.rpc.messages import inference

    message = inference().message("RepositoryModelLoadRequest")(model_name="mine")
    message.parameters["config"].string_param = "{}"
    message.parameters["file:1/model.rknn"].bytes_param = bytes(1_000_000)
    assert 2_000_000 <= parse_memory_of_load(message.SerializeToString()) < 2_010_000
    many = inference().message("RepositoryModelLoadRequest")()
    for number in range(1000):
        many.parameters[str(number)].bool_param = False
    assert parse_memory_of_load(many.SerializeToString()) > 200_000


# -- the queue -------------------------------------------------------------------------------------------------------


def job(level: int, deadline: float | None = None) -> Job:
    return Job({}, {}, level=level, deadline=deadline)


def test_higher_levels_go_first_and_equals_in_their_order() -> None:
    queue = JobQueue(10, "model")
    jobs = [job(level) for level in (5, 5, 1, 9, 5, 1)]
    for one in jobs:
        queue.put(one)
    order = [taken for _ in jobs for taken in queue.take() or ()]
    assert [jobs.index(one) for one in order] == [2, 5, 0, 1, 4, 3]


def test_time_is_over_in_the_queue() -> None:
    """By the queue's own clock: nobody sleeps."""
    now = 100.0
    queue = JobQueue(2, "model", clock=lambda: now)
    late, patient, third = job(1, 100.5), job(2, 200.0), job(3)
    queue.put(late)
    queue.put(patient)
    with pytest.raises(FullError):
        queue.put(third)
    now = 100.5
    queue.put(third)  # whose time is over needs no place
    with pytest.raises(DeadlineError, match="longer than its deadline"):
        late.future.result(0)
    assert queue.take() == [patient]
    assert queue.take() == [third]


def test_levels_of_a_model(tmp_path: Path) -> None:
    usual = ModelConfig()
    assert [usual.level(priority) for priority in (0, 1, 5, 10, 11)] == [5, 1, 5, 10, 5]
    (tmp_path / "model.toml").write_text("priority_levels = 3\ndefault_priority = 3\ntimeout_ms = 20\n")
    config = read_config(tmp_path / "model.toml")
    assert [config.level(priority) for priority in (0, 1, 2, 4)] == [3, 1, 2, 3]
    (tmp_path / "model.toml").write_text("priority_levels = 3\ndefault_priority = 4\n")
    with pytest.raises(Exception, match="none of the priority_levels"):
        read_config(tmp_path / "model.toml")


def test_priority_and_timeout_of_a_request(server: Server, client: Any, module: Any) -> None:
    """They arrive at the queue: what the client says is what the job has."""
    seen: list[Job] = []
    served = server.plane.repository.find("picture")
    really = served.queue.put

    def put(one: Job, **options: Any) -> None:
        seen.append(one)
        really(one, **options)

    served.queue.put = put  # type: ignore[method-assign, assignment]
    try:
        image = random_inputs("picture")["image"]
        given = [tensor(module, "image", image, "UINT8")]
        client.infer("picture", given, priority=2, timeout=30_000_000)
        client.infer("picture", given)
    finally:
        del served.queue.put
    assert [one.level for one in seen] == [2, 5]
    assert seen[0].deadline is not None
    assert seen[1].deadline is not None
    assert 29 < seen[0].deadline - seen[0].arrived <= 30
    assert 59 < seen[1].deadline - seen[1].arrived <= 60


def test_unknown_models(small: Server) -> None:
    with pytest.raises(NotFoundError):
        small.plane.repository.unload("nothing")
