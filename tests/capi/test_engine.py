"""The engine's processes: one per program, gone with the program, gone with the engine; one engine per socket."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from openrknn.capi.call import Code, code_of
from openrknn.capi.engine_process import SocketPathError, folder, socket_path
from openrknn.capi.structs import Codec
from openrknn.capi.wire import REQUEST, SOCKET_VARIABLE, Operation, socket_name
from openrknn.errors import DeviceError, ExecutionError, NotRknnError, UnsupportedError
from openrknn.runtime.session import Session
from openrknn.vendor.tables.versions import Version
from tests.capi.client import Client, RefusedError
from tests.capi.conftest import RunningEngine

GOLDENS = Path(__file__).parents[1] / "goldens"
RESIDUAL = GOLDENS / "residual_rk3588_i8.rknn"


def wait_for_end(pid: int) -> None:
    """Until a process is gone; ours or not."""
    with contextlib.suppress(ProcessLookupError):
        watched = os.pidfd_open(pid)
        assert select.select([watched], [], [], 30)[0], f"process {pid} is still there"
        os.close(watched)


# -- lives and deaths --------------------------------------------------------------------------------------------


def test_each_program_has_a_process_which_ends_with_it(engine: RunningEngine) -> None:
    first, second = engine.client(), engine.client()
    assert len({first.engine, second.engine, engine.process.pid}) == 3
    first.init(RESIDUAL)
    first.close()
    wait_for_end(first.engine)
    second.run(second.init(RESIDUAL))


def test_a_killed_program_leaves_nothing_behind(engine: RunningEngine) -> None:
    """Its process in the engine goes, and with it contexts and memory; others do not notice."""
    code = (
        "import os, sys; from pathlib import Path; from tests.capi.client import Client\n"
        f"client = Client({str(engine.path)!r}); context = client.init(Path({str(RESIDUAL)!r}))\n"
        "other = client.channel(); other.create_mem(context, 1 << 20); other.run(context)\n"
        "print(client.engine, flush=True); sys.stdin.read()\n"
    )
    program = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert program.stdout is not None
    child = int(program.stdout.readline())
    program.kill()
    program.communicate()
    wait_for_end(child)
    client = engine.client()
    client.run(client.init(RESIDUAL))


def test_a_killed_engine_takes_its_processes_along(engine: RunningEngine) -> None:
    client = engine.client()
    context = client.init(RESIDUAL)
    engine.process.kill()
    engine.process.wait()
    wait_for_end(client.engine)
    with pytest.raises(OSError):  # noqa: PT011 - a broken pipe, or the end of the channel
        client.run(context)


def test_sigterm_ends_everything(engine: RunningEngine) -> None:
    client = engine.client()
    engine.process.send_signal(signal.SIGTERM)
    assert engine.process.wait(30) == 0
    wait_for_end(client.engine)
    assert not engine.path.exists()


def test_it_leaves_when_nobody_uses_it() -> None:
    with tempfile.TemporaryDirectory(prefix="orknn") as place:
        made = start(Path(place) / "s", "--foreground", OPENRKNN_ENGINE_IDLE="0")
        assert made.communicate(timeout=60)[1] == ""
        assert made.returncode == 0
        assert not (Path(place) / "s").exists()


# -- one engine per socket ---------------------------------------------------------------------------------------


@pytest.fixture
def background() -> Iterator[Path]:
    """A place for engines that go into the background; whatever listens there is ended."""
    with tempfile.TemporaryDirectory(prefix="orknn") as place:
        path = Path(place) / "s"
        yield path
        with contextlib.suppress(OSError):
            os.kill(listener(path), signal.SIGTERM)


def listener(path: Path) -> int:
    """The process that listens at a socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
        probe.connect(str(path))
        return int.from_bytes(probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[:4], sys.byteorder)


def start(path: Path, *options: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "openrknn.capi.engine", *options], stderr=subprocess.PIPE, text=True,
        env={**os.environ, SOCKET_VARIABLE: str(path), **environment},
    )  # fmt: skip


def test_engines_that_start_together_are_one(background: Path) -> None:
    started = [start(background) for _ in range(3)]
    for one in started:
        assert one.communicate(timeout=60)[1] == ""
        assert one.returncode == 0
    pid = listener(background)
    assert pid not in {one.pid for one in started}
    with contextlib.closing(Client(background)) as client:
        client.run(client.init(RESIDUAL))
    assert stat.S_IMODE(background.stat().st_mode) == 0o600
    os.kill(pid, signal.SIGKILL)  # and a socket that it left behind is no obstacle
    wait_for_end(pid)
    again = start(background)
    again.communicate(timeout=60)
    assert again.returncode == 0
    assert listener(background) != pid


def test_it_keeps_nothing_of_the_program_that_started_it(background: Path) -> None:
    """Somebody may wait for the end of the program's pipe."""
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    made = subprocess.Popen(
        [sys.executable, "-m", "openrknn.capi.engine"],
        env={**os.environ, SOCKET_VARIABLE: str(background)},
        pass_fds=[writing],
    )
    assert made.wait(60) == 0
    os.close(writing)
    assert listener(background) != made.pid
    assert select.select([reading], [], [], 30)[0]
    assert os.read(reading, 1) == b""
    os.close(reading)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_user_is_turned_away(engine: RunningEngine) -> None:
    """By the modes of folder and socket; and where somebody opened those, by the engine itself."""
    code = (
        "import socket, sys; probe = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
        "try:\n    probe.connect(sys.argv[1]); print(len(probe.recv(10)))\n"
        "except OSError as error:\n    print(type(error).__name__)\n"
    )
    command = ["/usr/bin/env", "python3", "-c", code, str(engine.path)]

    def as_nobody() -> str:
        return subprocess.run(command, user=65534, capture_output=True, text=True, cwd="/", check=False).stdout

    if as_nobody() != "PermissionError\n":
        pytest.skip("another user has no Python here")
    engine.path.parent.chmod(0o755)
    assert as_nobody() == "PermissionError\n"
    engine.path.chmod(0o666)
    assert as_nobody() in {"0\n", "ConnectionResetError\n"}


def test_what_went_wrong_is_said(tmp_path: Path) -> None:
    made = start(tmp_path / "not there" / "s")
    assert "No such file or directory" in made.communicate(timeout=60)[1]
    assert made.returncode == 1
    made = start(tmp_path / "s", OPENRKNN_ENGINE_IDLE="soon")
    assert "OPENRKNN_ENGINE_IDLE='soon' is not a number" in made.communicate(timeout=60)[1]


def test_where_it_listens(tmp_path: Path) -> None:
    environment = {"XDG_RUNTIME_DIR": str(tmp_path)}
    assert socket_path(environment) == f"{tmp_path}/openrknn/{socket_name()}"
    assert stat.S_IMODE((tmp_path / "openrknn").stat().st_mode) == 0o700
    assert socket_path({SOCKET_VARIABLE: "/x/y"}) == "/x/y"
    assert folder({"XDG_RUNTIME_DIR": str(tmp_path / "nowhere")}) == f"/tmp/openrknn-{os.getuid()}"
    (tmp_path / "openrknn").chmod(0o755)
    with pytest.raises(SocketPathError, match="only you can enter"):
        folder(environment)
    (tmp_path / "openrknn").rmdir()
    (tmp_path / "openrknn").symlink_to("/tmp")
    with pytest.raises(SocketPathError, match="a link"):
        folder(environment)
    with pytest.raises(SocketPathError, match="107 bytes"):
        socket_path({SOCKET_VARIABLE: "/" + "x" * 200})


# -- channels ----------------------------------------------------------------------------------------------------


def test_packets_that_are_none(client: Client) -> None:
    """A code and a reason for each, and the channel goes on."""
    for packet in (b"x", b"x" * 63, REQUEST.pack(999, 0, 0, 0, 0, 0, 0, 0), REQUEST.pack(3, 5, 0, 0, 0, 0, 0, 0)):
        client.socket.send(packet)
        reply = client.receive()
        assert reply.code < 0
        assert reply.reason
    client.send(Operation.INIT, a=0, b=10, d=10)
    assert "without its descriptor" in client.receive().reason
    client.send(Operation.CALLBACK_DONE)
    assert client.receive().code == Code.FAIL
    generator = np.random.default_rng(1)
    for _ in range(200):
        operation = int(generator.choice([one for one in Operation if one is not Operation.CHANNEL]))
        numbers = [int(value) for value in generator.integers(-(2**40), 2**40, 4)]
        payload = generator.bytes(int(generator.integers(0, 600)))
        context, memory = (int(value) for value in generator.integers(0, 0x20000, 2))
        request = dict(zip("abcd", numbers, strict=True))
        client.send(operation, context=context, memory=memory, payload=payload, **request)  # type: ignore[arg-type]
        reply = client.receive()
        assert reply.code < 0, (operation, reply)
    client.run(client.init(RESIDUAL))


def test_channels_are_served_at_the_same_time(client: Client) -> None:
    contexts = [client.init(RESIDUAL) for _ in range(4)]
    frames = np.random.default_rng(2).integers(0, 256, (4, 1, 16, 16, 3), np.uint8)
    with Session(str(RESIDUAL), "software") as session:
        expected = [next(iter(session.run(frame, outputs="raw").values())).tobytes() for frame in frames]
    wrong: list[object] = []

    def work(channel: Client, number: int) -> None:
        try:
            for _ in range(25):
                channel.inputs_set(contexts[number], {0: frames[number]})
                channel.run(contexts[number])
                if channel.outputs_get(contexts[number], 1) != [expected[number]]:
                    wrong.append(number)
        except Exception as error:  # noqa: BLE001 - the thread's result
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(client.channel(), number)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_environment_is_the_programs(shared_engine: RunningEngine) -> None:
    client = shared_engine.client(environment={"OPENRKNN_DEVICE": "software:rk3566", "OTHER": "1"})
    with pytest.raises(RefusedError, match=r"returned -6: .*RK3566"):
        client.init(RESIDUAL)
    client.close()
    client = shared_engine.client(environment={"OPENRKNN_MAX_WORK": "10"})
    context = client.init(RESIDUAL)
    with pytest.raises(RefusedError, match=r"returned -1: .*OPENRKNN_MAX_WORK"):
        client.run(context)
    client.close()
    client = shared_engine.client(environment={"OPENRKNN_DEVICE": "vendor:/usr/lib/librknnrt.so"})
    client.run(client.init(RESIDUAL))
    client.close()


def test_programs_of_32_bits_and_of_old_versions(shared_engine: RunningEngine) -> None:
    frame = np.random.default_rng(3).integers(0, 256, (1, 16, 16, 3), np.uint8)
    found = set()
    for codec in (Codec(), Codec(pointer_bytes=4), Codec(Version(1, 5, 2)), Codec(Version(1, 3), 4)):
        client = shared_engine.client(codec=codec)
        context = client.init(RESIDUAL)
        client.inputs_set(context, {0: frame})
        client.run(context, non_block=1)
        found.add(client.outputs_get(context, 1)[0])
        client.close()
    assert len(found) == 1


# -- codes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "operation", "code"),
    [
        (NotRknnError("x"), Operation.INIT, Code.MODEL_INVALID),
        (UnsupportedError("x"), Operation.INIT, Code.MODEL_INVALID),
        (UnsupportedError("x"), Operation.RUN, Code.FAIL),
        (ExecutionError("x"), Operation.RUN, Code.FAIL),
        (DeviceError("x"), Operation.INIT, Code.DEVICE_UNAVAILABLE),
        (DeviceError("x", errno=12), Operation.CREATE_MEM, Code.MALLOC_FAIL),
        (DeviceError("x", errno=110), Operation.RUN, Code.TIMEOUT),
        (MemoryError(), Operation.INIT, Code.MALLOC_FAIL),
        (ValueError("x"), Operation.INPUTS_SET, Code.PARAM_INVALID),
        (KeyError("x"), Operation.RUN, Code.FAIL),
    ],
)
def test_errors_have_codes(error: Exception, operation: Operation, code: Code) -> None:
    found, reason = code_of(error, operation)
    assert found == code
    assert reason


def test_runs_leave_nothing_behind(client: Client) -> None:
    """After the first turns neither the process's memory nor its descriptors grow."""
    context = client.init(RESIDUAL)
    frame = np.zeros((1, 16, 16, 3), np.uint8)

    def turn() -> None:
        for _ in range(20):
            client.inputs_set(context, {0: frame})
            client.run(context)
            client.outputs_get(context, 1)
            other = client.init(RESIDUAL)
            number, memory = client.create_mem(other, 4096)
            client.set_io_mem(other, number, memory, name="image", fmt=1, type=3)
            client.run(other)
            client.call(Operation.DESTROY_MEM, context=other, memory=number)
            memory.close()
            client.destroy(other)

    def descriptors() -> int:
        return len(os.listdir(f"/proc/{client.engine}/fd"))

    def mappings() -> int:
        return len(Path(f"/proc/{client.engine}/maps").read_text().splitlines())

    turn()
    before = descriptors(), mappings()
    for _ in range(3):
        turn()
    assert descriptors() == before[0]
    assert mappings() <= before[1] + 8


LONG = """
import os, socket, sys, time
from openrknn.capi.server import Server
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind(sys.argv[1])
server = Server(listener, sys.argv[1], idle_s=30.0)
child = os.fork()
if not child:
    os._exit(0)
server._children.add(child)
server._since = time.monotonic() - 1000
os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
server._reap()
sys.exit(bool(server._children) or time.monotonic() - server._since > 500)
"""


def test_an_engine_waits_after_a_program_that_ran_for_long(tmp_path: Path) -> None:
    """The time without a program begins when the last one ends."""
    subprocess.run([sys.executable, "-c", LONG, tmp_path / "engine.socket"], check=True)
