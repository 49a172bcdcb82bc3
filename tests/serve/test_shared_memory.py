"""Triton's client leaves tensors in /dev/shm, over both protocols; and clients that do worse."""

from __future__ import annotations

import asyncio
import json
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.grpc.aio as triton_grpc_aio
import tritonclient.http as triton_http
import tritonclient.http.aio as triton_http_aio
import tritonclient.utils.shared_memory as shm
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

from openrknn.serve.errors import BadRequestError, ConflictError, ExistsError, ForbiddenError, FullError, NotFoundError
from openrknn.serve.server import Server, running
from openrknn.serve.settings import Settings
from openrknn.serve.shared.regions import FOLDER, Regions, is_available
from openrknn.serve.shared.tensor import SharedTensor, put
from tests.serve.asking import ask
from tests.serve.parts import FILES, Array, expected, random_inputs

pytestmark = pytest.mark.skipif(not is_available(), reason="there is no /dev/shm")
MODULES = {"http": triton_http, "grpc": triton_grpc}


@pytest.fixture(params=MODULES)
def module(request: pytest.FixtureRequest) -> Any:
    return MODULES[request.param]


@pytest.fixture
def client(server: Server, module: Any) -> Iterator[Any]:
    made = module.InferenceServerClient(address(server, module))
    made.unregister_system_shared_memory()
    yield made
    made.unregister_system_shared_memory()
    made.close()


def address(server: Server, module: Any) -> str:
    return server.grpc_address if module in {triton_grpc, triton_grpc_aio} else server.url.removeprefix("http://")


@pytest.fixture
def key() -> Iterator[str]:
    """A name that nobody else has, and nothing left of it."""
    name = f"openrknn-test-{uuid.uuid4().hex}"
    yield name
    Path(FOLDER, name).unlink(missing_ok=True)


class Places:
    """One region with all inputs of a model behind each other, and all outputs behind them."""

    def __init__(self, key: str, inputs: dict[str, Array], outputs: dict[str, Array]) -> None:
        self.key, self.at = key, {}
        size = 0
        for name, array in [*inputs.items(), *outputs.items()]:
            self.at[name] = (size, array.nbytes)
            size += array.nbytes
        self.size = size
        self.handle = shm.create_shared_memory_region(key, f"/{key}", size)
        for name, array in inputs.items():
            shm.set_shared_memory_region(self.handle, [array], self.at[name][0])

    def tensors(self, module: Any, inputs: dict[str, Array], outputs: dict[str, Array]) -> tuple[list[Any], list[Any]]:
        takes, gives = [], []
        for name, array in inputs.items():
            takes.append(module.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype)))
            takes[-1].set_shared_memory(self.key, self.at[name][1], self.at[name][0])
        for name in outputs:
            gives.append(module.InferRequestedOutput(name))
            gives[-1].set_shared_memory(self.key, self.at[name][1], self.at[name][0])
        return takes, gives

    def check(self, outputs: dict[str, Array]) -> None:
        for name, array in outputs.items():
            found = shm.get_contents_as_numpy(self.handle, array.dtype, array.shape, self.at[name][0])
            assert found.tobytes() == array.tobytes(), name

    def close(self) -> None:
        shm.destroy_shared_memory_region(self.handle)


@pytest.mark.parametrize("name", FILES)
def test_results_are_those_of_session_run_byte_for_byte(client: Any, module: Any, key: str, name: str) -> None:
    inputs = random_inputs(name)
    wanted = expected(name, inputs)
    places = Places(key, inputs, wanted)
    client.register_system_shared_memory(key, f"/{key}", places.size)
    takes, gives = places.tensors(module, inputs, wanted)
    answer = client.infer(name, takes, outputs=gives, request_id="seven")
    places.check(wanted)
    # Inputs from there, outputs in the answer; and only those that were asked for.
    first = next(iter(wanted))
    sent = client.infer(name, takes, outputs=[module.InferRequestedOutput(first)])
    assert sent.as_numpy(first).tobytes() == wanted[first].tobytes()
    found = answer.get_output(first)
    described = {"datatype": found.datatype, "shape": found.shape} if module is triton_grpc else found
    assert described["datatype"] == np_to_triton_dtype(wanted[first].dtype)
    assert list(described["shape"]) == list(wanted[first].shape)
    places.close()


def test_one_output_there_and_one_in_the_answer(client: Any, module: Any, key: str) -> None:
    """An answer's tensors are counted: those in shared memory have a place among them."""
    inputs = random_inputs("two")
    wanted = expected("two", inputs)
    places = Places(key, inputs, wanted)
    client.register_system_shared_memory(key, f"/{key}", places.size)
    takes, _ = places.tensors(module, inputs, wanted)
    sent = module.InferInput("features", list(inputs["features"].shape), "FP32")
    sent.set_data_from_numpy(inputs["features"])
    answer = client.infer("two", [takes[0], sent])
    assert answer.as_numpy("y").tobytes() == wanted["y"].tobytes()
    places.close()


def test_status_and_unregister(client: Any, module: Any, key: str) -> None:
    Path(FOLDER, key).write_bytes(bytes(4096))
    client.register_system_shared_memory("a", f"/{key}", 1024)
    client.register_system_shared_memory("b/c d", key, 1000, offset=3096)
    rows = status(client, module)
    assert rows["a"] == {"name": "a", "key": f"/{key}", "offset": 0, "byte_size": 1024}
    assert rows["b/c d"] == {"name": "b/c d", "key": key, "offset": 3096, "byte_size": 1000}
    assert list(status(client, module, "b/c d")) == ["b/c d"]
    with pytest.raises(InferenceServerException, match="registered already"):
        client.register_system_shared_memory("a", f"/{key}", 1024)
    client.unregister_system_shared_memory("a")
    client.unregister_system_shared_memory("a")  # Triton says nothing either
    with pytest.raises(InferenceServerException, match="no shared memory region 'a'"):
        client.get_system_shared_memory_status("a")
    client.unregister_system_shared_memory()
    assert status(client, module) == {}
    # What programs for Triton do first.
    client.unregister_cuda_shared_memory()
    assert not status(client, module, cuda=True)


def status(client: Any, module: Any, name: str = "", *, cuda: bool = False) -> dict[str, Any]:
    call = client.get_cuda_shared_memory_status if cuda else client.get_system_shared_memory_status
    if module is triton_http:
        return {row["name"]: row for row in call(name)}
    regions = call(name).regions
    return {
        key: {"name": one.name, "key": one.key, "offset": one.offset, "byte_size": one.byte_size}
        for key, one in regions.items()
    }


def test_the_asyncio_clients(server: Server, key: str) -> None:
    inputs = random_inputs("picture")
    wanted = expected("picture", inputs)
    places = Places(key, inputs, wanted)

    async def use(module: Any) -> None:
        async with module.InferenceServerClient(address(server, module)) as client:
            await client.register_system_shared_memory(key, f"/{key}", places.size)
            takes, gives = places.tensors(module, inputs, wanted)
            places.handle._mpsm_handle.buf[places.at["features"][0] :] = bytes(places.at["features"][1])
            await client.infer("picture", takes, outputs=gives)
            places.check(wanted)
            await client.unregister_system_shared_memory(key)

    for module in (triton_http_aio, triton_grpc_aio):
        asyncio.run(use(module))
    places.close()


def test_a_region_that_is_truncated_is_an_answer_and_no_signal(client: Any, module: Any, key: str) -> None:
    """The witness is the kernel: a mapping would end the server with SIGBUS here."""
    inputs = random_inputs("picture")
    wanted = expected("picture", inputs)
    places = Places(key, inputs, wanted)
    client.register_system_shared_memory(key, f"/{key}", places.size)
    takes, gives = places.tensors(module, inputs, wanted)
    os.truncate(Path(FOLDER, key), places.at["features"][0])
    with pytest.raises(InferenceServerException, match="truncated"):
        client.infer("picture", takes, outputs=gives)
    assert Path(FOLDER, key).stat().st_size == places.at["features"][0]
    os.truncate(Path(FOLDER, key), 10)
    with pytest.raises(InferenceServerException, match="truncated"):
        client.infer("picture", takes)
    os.truncate(Path(FOLDER, key), 0)
    os.truncate(Path(FOLDER, key), places.size)
    client.infer("picture", takes, outputs=gives)
    assert client.is_model_ready("picture")
    places.close()


def test_in_a_batch_only_the_truncated_one_fails(server: Server, key: str) -> None:
    inputs = random_inputs("pairs")
    one = {name: array[:1] for name, array in inputs.items()}
    places = Places(key, one, {})
    with triton_http.InferenceServerClient(address(server, triton_http)) as client:
        client.register_system_shared_memory(key, f"/{key}", places.size)
        takes, _ = places.tensors(triton_http, one, {})
        whole = client.infer("pairs", takes)
        for name, array in expected("pairs", {key: np.repeat(value, 2, 0) for key, value in one.items()}).items():
            assert whole.as_numpy(name).tobytes() == array[: len(array) // 2].tobytes()
        os.truncate(Path(FOLDER, key), 1)
        with pytest.raises(InferenceServerException, match="truncated"):
            client.infer("pairs", takes)
        client.unregister_system_shared_memory(key)
    places.close()


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"shared_memory_region": "r"}, "have to come together"),
        ({"shared_memory_byte_size": 768}, "have to come together"),
        ({"shared_memory_offset": 1}, "have to come together"),
        ({"shared_memory_region": 7, "shared_memory_byte_size": 768}, "the name of a region"),
        ({"shared_memory_region": "nobody", "shared_memory_byte_size": 768}, "no shared memory region 'nobody'"),
        ({"shared_memory_region": "r", "shared_memory_byte_size": 767}, "shared_memory_byte_size is 767"),
        ({"shared_memory_region": "r", "shared_memory_byte_size": True}, "number of bytes"),
        ({"shared_memory_region": "r", "shared_memory_byte_size": 768, "shared_memory_offset": -1}, "number of bytes"),
        ({"shared_memory_region": "r", "shared_memory_byte_size": 768, "shared_memory_offset": 2**62}, "outside it"),
        ({"shared_memory_region": "r", "shared_memory_byte_size": 768, "shared_memory_offset": 300}, "outside it"),
        ({"shared_memory_region": "r", "shared_memory_byte_size": 768, "binary_data_size": 0}, "both"),
    ],
)
def test_what_inputs_may_not_say(server: Server, key: str, parameters: dict[str, Any], text: str) -> None:
    regions = server.plane.regions
    Path(FOLDER, key).write_bytes(bytes(1024))
    regions.register("r", key, 0, 1024)
    entry = {"name": "image", "datatype": "UINT8", "shape": [1, 16, 16, 3], "parameters": parameters}
    answer = ask(server, "POST", "/v2/models/picture/infer", json.dumps({"inputs": [entry]}))
    regions.unregister("r")
    assert answer.status in {400, 404}
    assert text in answer.error


def test_what_outputs_may_not_say(client: Any, module: Any, key: str) -> None:
    inputs = random_inputs("picture")
    wanted = expected("picture", inputs)
    places = Places(key, inputs, wanted)
    client.register_system_shared_memory(key, f"/{key}", places.size)
    takes, _ = places.tensors(module, inputs, wanted)
    small = module.InferRequestedOutput("features")
    small.set_shared_memory(key, places.at["features"][1] - 1, places.at["features"][0])
    with pytest.raises(InferenceServerException, match="its place in shared memory has"):
        client.infer("picture", takes, outputs=[small])
    places.close()


# -- regions themselves ----------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "plain").write_bytes(bytes(range(256)))
    return tmp_path


@pytest.mark.parametrize(
    "key",
    ["", "/", "//plain", "../plain", "a/b", "..", ".", "sem.mine", "x" * 256, "pla\nin", 7, None, "\0", "plain\0"],
)
def test_hostile_keys(folder: Path, key: Any) -> None:
    with pytest.raises(BadRequestError):
        Regions(folder=str(folder)).register("r", key, 0, 1)


def test_what_is_no_plain_file_is_refused(folder: Path) -> None:
    (folder / "link").symlink_to(folder / "plain")
    os.mkfifo(folder / "pipe")
    (folder / "inside").mkdir()
    regions = Regions(folder=str(folder))
    for key in ("link", "pipe", "inside"):
        with pytest.raises(ForbiddenError):
            regions.register("r", key, 0, 1)
    with pytest.raises(BadRequestError, match="there is no shared memory 'none'"):
        regions.register("r", "none", 0, 1)
    assert regions.status() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root could open them all the same")
def test_root_keeps_to_its_own_files(folder: Path) -> None:
    regions = Regions(folder=str(folder))
    os.chown(folder / "plain", 12345, -1)
    (folder / "plain").chmod(0o644)
    with pytest.raises(ForbiddenError, match="another user"):
        regions.register("r", "plain", 0, 1)
    (folder / "plain").chmod(0o666)
    regions.register("r", "plain", 0, 1)


@pytest.mark.parametrize(
    ("offset", "size"),
    [(0, 257), (256, 1), (2**62, 1), (1, 2**20), (-1, 1), (0, -1), (0, 0), (0.5, 1), (0, True), (0, None), (0, 2**63)],
)
def test_bounds_at_registration(folder: Path, offset: Any, size: Any) -> None:
    with pytest.raises(BadRequestError):
        Regions(folder=str(folder)).register("r", "plain", offset, size)


def test_names_counts_and_bytes_are_bounded(folder: Path) -> None:
    regions = Regions(folder=str(folder), most_bytes=1000)
    for name in ("", "x" * 256, "a\nb", 3):
        with pytest.raises(BadRequestError):
            regions.register(name, "plain", 0, 1)
    for number in range(3):
        regions.register(str(number), "plain", 0, 256)
    with pytest.raises(ConflictError, match="--max-memory"):
        regions.register("3", "plain", 0, 256)
    with pytest.raises(ExistsError):
        regions.register("0", "plain", 0, 1)
    many = Regions(folder=str(folder))
    for number in range(256):
        many.register(str(number), "plain", 0, 1)
    with pytest.raises(FullError):
        many.register("256", "plain", 0, 1)


def test_a_request_outlives_unregister_and_descriptors_do_not(folder: Path) -> None:
    def is_open() -> bool:
        return any(os.path.realpath(one) == str(folder / "plain") for one in Path("/proc/self/fd").iterdir())

    regions = Regions(folder=str(folder))
    regions.register("r", "plain", 16, 64)
    assert is_open()
    part = regions.part({"shared_memory_region": "r", "shared_memory_byte_size": 8, "shared_memory_offset": 4}, "x")
    assert part is not None
    tensor = SharedTensor.at(part, np.dtype("<u2"), (2, 2), "x")
    regions.unregister("r")
    with pytest.raises(NotFoundError):
        regions.part({"shared_memory_region": "r", "shared_memory_byte_size": 8}, "x")
    assert tensor.load().tolist() == [[0x1514, 0x1716], [0x1918, 0x1B1A]]
    put(np.array([7, 8], np.uint8), part, "y")
    assert (folder / "plain").read_bytes()[20:24] == bytes([7, 8, 22, 23])
    assert is_open()
    del tensor, part
    assert not is_open()


def test_two_outputs_may_not_lie_on_each_other(folder: Path) -> None:
    from openrknn.serve.plane.output_parameters import parse

    regions = Regions(folder=str(folder))
    regions.register("r", "plain", 0, 256)
    words = {"shared_memory_region": "r", "shared_memory_byte_size": 100}
    assert len(parse([("a", words), ("b", {**words, "shared_memory_offset": 100})], regions).places) == 2
    with pytest.raises(BadRequestError, match="overwrite"):
        parse([("a", words), ("b", {**words, "shared_memory_offset": 99})], regions)
    with pytest.raises(BadRequestError, match="both"):
        parse([("a", {**words, "classification": 3})], regions)
    with pytest.raises(BadRequestError, match="twice"):
        parse([("a", words), ("a", {})], regions)


def test_servers_of_the_network_have_none_unless_asked(tmp_path: Path) -> None:
    cases = (("0.0.0.0", None, False), ("::1", None, True), ("127.0.0.1", False, False), ("::", True, True))
    for host, asked, has in cases:
        assert Settings([tmp_path], host=host, shared_memory=asked).has_shared_memory is has
    with running(Settings([tmp_path], http_port=0, grpc_port=None, shared_memory=False), wait_seconds=None) as server:
        answer = ask(server, "GET", "/v2/systemsharedmemory/status")
        assert (answer.status, "not offered" in answer.error) == (403, True)
        assert "system_shared_memory" not in ask(server, "GET", "/v2").json["extensions"]
